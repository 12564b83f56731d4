/* The hot paths of the kernel once more, in C.

Every function here does what the Python function of the same name does (`Loop._run_some` in loop.py, the waits in
waits.py, ...); see there for why. The data stays in the Python classes: `take_over` looks up where their slots are and
puts these functions in the place of the Python ones. What is rare is left to the Python function, so its rules are
written once. Without a compiler the package is complete all the same, and slower; the order of a run is the same.
*/

#include "core.h"

#define DEFINE_SLOT(class, name) Py_ssize_t class##_##name;
SLOTS(DEFINE_SLOT)

#define DEFINE_CLASS(class) PyTypeObject *class##_type;
CLASSES(DEFINE_CLASS)

#define DEFINE_REPLACED(name) PyObject *python_##name;
REPLACED(DEFINE_REPLACED)

#define DEFINE_NAME(name) PyObject *s_##name;
NAMES(DEFINE_NAME)

PyObject *armed, *budget_is_spent, *cancelled, *zero, *one;

static PyMethodDef method_run_some = {"_run_some", run_some, METH_O, "See `Loop._run_some`."};
static PyMethodDef method_get = {"get", queue_get, METH_NOARGS, "Wait for the next item and return it."};
static PyMethodDef method_put_nowait = {"put_nowait", queue_put_nowait, METH_O, "Add an item, if there is room."};
static PyMethodDef method_wait = {"wait", signal_wait, METH_NOARGS, "Wait until the signal is fired."};
static PyMethodDef method_emit = {"emit", FAST(kernel_emit), "Record that something happened."};
static PyMethodDef method_wake = {"wake", FAST(kernel_wake), "Decide the wait of an actor."};

/* Put a function in the place of a method, which is returned. */
PyObject *
replace(PyTypeObject *type, PyMethodDef *definition)
{
    PyObject *before = PyObject_GetAttrString((PyObject *)type, definition->ml_name);
    PyObject *descriptor = before == NULL ? NULL : PyDescr_NewMethod(type, definition);
    if (descriptor == NULL || PyObject_SetAttrString((PyObject *)type, definition->ml_name, descriptor) < 0) {
        Py_CLEAR(before);
    }
    Py_XDECREF(descriptor);
    return before;
}

int
find_slot(PyTypeObject *type, const char *name, Py_ssize_t *offset)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
    if (descriptor == NULL) {
        return -1;
    }
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", type->tp_name, name);
        Py_DECREF(descriptor);
        return -1;
    }
    *offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_DECREF(descriptor);
    return 0;
}

int
find_class(PyObject *classes, const char *name, PyTypeObject **type)
{
    PyObject *found = PyMapping_GetItemString(classes, name);
    if (found == NULL) {
        return -1;
    }
    *type = (PyTypeObject *)found; /* kept for as long as the process lasts */
    return 0;
}

static PyObject *
take_over(PyObject *module, PyObject *args)
{
    PyObject *classes, *marker, *pause, *error, *python_run;
    if (!PyArg_ParseTuple(args, "O!OOO:take_over", &PyDict_Type, &classes, &marker, &pause, &error)) {
        return NULL;
    }
    if (armed != NULL) {
        Py_RETURN_NONE; /* the module was loaded anew; they have been taken over */
    }
    armed = Py_NewRef(marker);
    budget_is_spent = Py_NewRef(pause);
    cancelled = Py_NewRef(error);
    CLASSES(FIND_CLASS)
    SLOTS(FIND_SLOT)
    python_run = replace(Loop_type, &method_run_some);
    python_emit = replace(Kernel_type, &method_emit);
    python_wake = replace(Kernel_type, &method_wake);
    python_get = replace(Queue_type, &method_get);
    python_put_nowait = replace(Queue_type, &method_put_nowait);
    python_wait = replace(Signal_type, &method_wait);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_DECREF(python_run);
    Py_RETURN_NONE;
}

static PyObject *
is_taken(PyObject *module, PyObject *nothing)
{
    return PyBool_FromLong(armed != NULL);
}

static PyMethodDef functions[] = {
    {"is_taken", is_taken, METH_NOARGS, "Return whether these functions serve other classes already."},
    {"sleep_ns", sleep_ns, METH_O, "Pause the actor for whole nanoseconds of simulated time."},
    {"sort_entries", sort_entries, METH_O, "Sort entries as `list.sort` does."},
    {"take_over", take_over, METH_VARARGS, "Put the functions of this module in the place of those in Python."},
    {"take_over_actions", take_over_actions, METH_VARARGS, "The same for `ActionHandler`."},
    {"take_over_buffer", take_over_buffer, METH_O, "The same for what recorders buffer."},
    {"take_over_bus", take_over_bus, METH_VARARGS, "The same for `EventBus`."},
    {"take_over_rates", take_over_rates, METH_O, "The same for `RateTracker`."},
    {"take_over_resources", take_over_resources, METH_O, "The same for the classes of resources."},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sim.kernel._core",
    .m_doc = "The hot paths of the kernel in C.",
    .m_size = -1,
    .m_methods = functions,
};

/* Make what lasts as long as the process. */
static int
make_constants(void)
{
#define MAKE_NAME(name)                                                                                                \
    if ((s_##name = PyUnicode_InternFromString(#name)) == NULL) {                                                      \
        return -1;                                                                                                     \
    }
    NAMES(MAKE_NAME)
    zero = PyLong_FromLong(0);
    one = PyLong_FromLong(1);
    return zero == NULL || one == NULL ? -1 : 0;
}

PyMODINIT_FUNC
PyInit__core(void)
{
    PyObject *self;
    if (PyType_Ready(&Reader_Type) < 0 || PyType_Ready(&Wait_Type) < 0 || make_constants() < 0) {
        return NULL;
    }
    self = PyModule_Create(&module);
    if (self != NULL && PyModule_AddObjectRef(self, "Reader", (PyObject *)&Reader_Type) < 0) {
        Py_CLEAR(self);
    }
    return self;
}
