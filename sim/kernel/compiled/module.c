/* The hot paths of the kernel in C.

Each function here does the same as the Python function of the same name (`Kernel._run_some` in kernel.py, the waits in
waits.py, ...), where the reasons are explained. The data stays in the Python classes: `take_over` looks up the offsets
of their slots and replaces the Python functions by these. Rare cases are left to the Python function, so that their
rules exist only once. Without a compiler the package is complete but slower, and the order of a run is the same.
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

PyObject *armed, *budget_is_spent, *cancelled, *returned, *under_way, *zero, *one;
PyTypeObject *Reader_type, *Wait_type, *Seed_type;
static PyObject *describe; /* see `described` in __init__.py */

static PyMethodDef method_run_some = {"_run_some", run_some, METH_O};
static PyMethodDef method_get = {"get", queue_get, METH_NOARGS};
static PyMethodDef method_put_nowait = {"put_nowait", queue_put_nowait, METH_O};
static PyMethodDef method_wait = {"wait", signal_wait, METH_NOARGS};
static PyMethodDef method_emit = {"emit", FAST(kernel_emit)};
static PyMethodDef method_run_now = {"run_now", FAST(kernel_run_now)};
static PyMethodDef method_wake = {"wake", FAST(kernel_wake)};

/* Return the signature and docstring of a Python function as a string that is never freed, or NULL with an error. */
static const char *
documentation(PyObject *function)
{
    PyObject *text = PyObject_CallOneArg(describe, function);
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    char *copy = utf8 == NULL ? NULL : PyMem_Malloc(strlen(utf8) + 1);
    if (copy != NULL) {
        strcpy(copy, utf8);
    }
    else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    Py_XDECREF(text);
    return copy;
}

/* Replace a method by a C function. Return the old method (a new reference), or NULL with an error. */
PyObject *
replace(PyTypeObject *type, PyMethodDef *definition)
{
    PyObject *before = PyObject_GetAttrString((PyObject *)type, definition->ml_name), *descriptor = NULL;
    if (before != NULL && (definition->ml_doc = documentation(before)) != NULL) {
        descriptor = PyDescr_NewMethod(type, definition);
    }
    if (descriptor == NULL || PyObject_SetAttrString((PyObject *)type, definition->ml_name, descriptor) < 0) {
        Py_CLEAR(before);
    }
    Py_XDECREF(descriptor);
    return before;
}

/* Read the offset of a slot from its descriptor. */
static int
read_offset(PyObject *descriptor, const char *name, Py_ssize_t *offset)
{
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s is not a slot", name);
        return -1;
    }
    *offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    return 0;
}

/* Look up the offset of a slot of a class. */
int
find_slot(PyTypeObject *type, const char *name, Py_ssize_t *offset)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
    int failed = descriptor == NULL ? -1 : read_offset(descriptor, name, offset);
    Py_XDECREF(descriptor);
    return failed;
}

/* Look up the offset of the slot that a class declares under a name: `layout` maps names to slot descriptors. */
int
find_declared(PyObject *layout, const char *name, Py_ssize_t *offset)
{
    PyObject *descriptor = PyDict_GetItemString(layout, name);
    if (descriptor == NULL) {
        PyErr_Format(PyExc_TypeError, "the layout lacks %s", name);
        return -1;
    }
    return read_offset(descriptor, name, offset);
}

int
find_class(PyObject *classes, const char *name, PyTypeObject **type)
{
    PyObject *found = PyMapping_GetItemString(classes, name);
    if (found == NULL) {
        return -1;
    }
    *type = (PyTypeObject *)found; /* never released */
    return 0;
}

static PyObject *
take_over(PyObject *module, PyObject *args)
{
    PyObject *classes, *marker, *pause, *error, *text_of, *running, *end, *python_run;
    if (!PyArg_ParseTuple(args, "O!OOOO(OO):take_over", &PyDict_Type, &classes, &marker, &pause, &error, &text_of,
                          &running, &end)) {
        return NULL;
    }
    if (armed != NULL) {
        Py_RETURN_NONE; /* the Python module was reloaded; its functions were replaced before */
    }
    armed = Py_NewRef(marker);
    budget_is_spent = Py_NewRef(pause);
    cancelled = Py_NewRef(error);
    describe = Py_NewRef(text_of);
    under_way = Py_NewRef(running);
    returned = Py_NewRef(end);
    CLASSES(FIND_CLASS)
    SLOTS(FIND_SLOT)
    python_run = replace(Kernel_type, &method_run_some);
    python_emit = replace(Kernel_type, &method_emit);
    python_run_now = replace(Kernel_type, &method_run_now);
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
    {"by_lane", by_lane, METH_VARARGS, "Return the encoded events of each lane; None if they have to be parsed."},
    {"equal_states", (PyCFunction)(void (*)(void))equal_states, METH_FASTCALL,
     "Return how many agents have a state variable that equals a value; None: Python has to ask each of them."},
    {"plainness", plainness, METH_O, "Return whether all values of a state are scalars (2), JSON at the top (1), or not."},
    {"hash_order", hash_order, METH_VARARGS, "Return the items of a mapping in the order of hashes of a text and their names."},
    {"in_order", in_order, METH_O, "Return whether a list of actors, each followed by a token, is sorted by rank."},
    {"is_taken", is_taken, METH_NOARGS, "Return whether `take_over` was called before."},
    {"sleep_ns", sleep_ns, METH_O, "Pause the actor for a whole number of nanoseconds of simulated time."},
    {"sort_entries", sort_entries, METH_O, "Sort entries like `list.sort`."},
    {"take_over", take_over, METH_VARARGS, "Replace functions of the kernel by the functions of this module."},
    {"take_over_actions", take_over_actions, METH_VARARGS, "Replace functions of the class that executes actions."},
    {"take_over_bus", take_over_bus, METH_VARARGS, "Replace a function of the class of event buses."},
    {"take_over_loops", take_over_loops, METH_VARARGS, "Replace functions of the class of loops of agents."},
    {"take_over_rates", take_over_rates, METH_VARARGS, "Replace functions of the class that counts what is limited."},
    {"take_over_rows", take_over_rows, METH_VARARGS, "Replace a function of a class of recorders."},
    {"take_over_slots", take_over_slots, METH_VARARGS, "Replace functions of a class of resources with slots."},
    {NULL},
};

/* Create the constants, which are never released. */
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

static PyTypeObject *
make_type(PyObject *module, PyType_Spec *spec)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
}

static int
fill(PyObject *module)
{
    PyTypeObject *Generator_type;
    if (armed != NULL || zero != NULL) {
        PyErr_SetString(PyExc_ImportError, "sim.kernel.compiled works in one interpreter per process, and is loaded already");
        return -1;
    }
    Reader_type = make_type(module, &reader_spec);
    Wait_type = Reader_type == NULL ? NULL : make_type(module, &wait_spec);
    Seed_type = Wait_type == NULL ? NULL : make_type(module, &seed_spec);
    Generator_type = Seed_type == NULL ? NULL : make_type(module, &generator_spec);
    if (Generator_type == NULL || make_constants() < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Reader", (PyObject *)Reader_type) < 0 ||
                   PyModule_AddObjectRef(module, "Seed", (PyObject *)Seed_type) < 0 ||
                   PyModule_AddObjectRef(module, "Generator", (PyObject *)Generator_type) < 0
               ? -1
               : 0;
}

/* Offsets of slots and replaced functions are kept in static variables, because the functions are methods of Python
   classes and have no reference to the module. Therefore only one interpreter can use them, and they need its lock. */
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sim.kernel.compiled._core",
    .m_doc = "The hot paths of the kernel in C.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
