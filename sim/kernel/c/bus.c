/* `EventBus.tell`, where nobody has subscribed. */

#include "core.h"

#define BUS_SLOTS(X)                                                                                                   \
    X(EventBus, _audience) X(EventBus, _recent) X(EventBus, counts) X(EventBus, kernel) X(EventBus, sequence)

#define OWN_SLOT(class, name) static Py_ssize_t class##_##name;
BUS_SLOTS(OWN_SLOT)
static PyTypeObject *EventBus_type, *Fact_type;
static PyObject *python_tell, *freeze;

/* Whether a topic is known, and nobody wants its events; -1 with an error. */
static int
is_lonely(PyObject *bus, PyObject *topic)
{
    PyObject *audience;
    if (!PyDict_CheckExact(GET(bus, EventBus__audience)) || !PyUnicode_CheckExact(topic)) {
        return 0;
    }
    audience = PyDict_GetItemWithError(GET(bus, EventBus__audience), topic);
    if (audience == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    return PyTuple_CheckExact(audience) && PyTuple_GET_SIZE(audience) == 0;
}

/* Count an event of a topic that is known. */
static int
count_event(PyObject *bus, PyObject *topic)
{
    PyObject *counts = Py_NewRef(GET(bus, EventBus_counts)), *count = NULL;
    int failed = -1;
    if (!PyDict_CheckExact(counts)) {
        PyErr_SetString(PyExc_TypeError, "the counts are a dict");
    }
    else if ((count = PyDict_GetItemWithError(counts, topic)) != NULL) {
        count = plus_one(count);
        failed = count == NULL || PyDict_SetItem(counts, topic, count) < 0 ? -1 : 0;
        Py_XDECREF(count);
    }
    else if (!PyErr_Occurred()) {
        PyErr_SetObject(PyExc_KeyError, topic);
    }
    Py_DECREF(counts);
    return failed ? -1 : put(bus, EventBus_sequence, plus_one(GET(bus, EventBus_sequence)));
}

/* Record an event and remember it. */
static int
remember(PyObject *bus, PyObject *kernel, PyObject *topic, PyObject *kept)
{
    PyObject *name = Py_NewRef(GET(GET(kernel, Loop_current), Source_name)), *now = Py_NewRef(GET(kernel, Loop_now));
    PyObject *told[] = {kernel, topic, kept}, *past = NULL, *done = NULL;
    PyObject *identity = PyObject_VectorcallMethod(s_emit, told, 3, NULL);
    if (identity != NULL) {
        past = PyTuple_Pack(5, now, name, topic, kept, identity);
        Py_DECREF(identity);
    }
    Py_DECREF(name);
    Py_DECREF(now);
    if (past != NULL) {
        done = PyObject_CallMethodOneArg(GET(bus, EventBus__recent), s_append, past);
        Py_DECREF(past);
    }
    Py_XDECREF(done);
    return done == NULL ? -1 : count_event(bus, topic);
}

static PyObject *
bus_tell(PyObject *bus, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *kernel = GET(bus, EventBus_kernel), *data = count == 2 ? args[1] : Py_None, *told[2], *done = NULL;
    int lonely = names == NULL && count >= 1 && count <= 2 ? is_lonely(bus, args[0]) : 0;
    if (lonely <= 0 || !is_kernel(kernel)) {
        return lonely < 0 ? NULL : in_python(python_tell, bus, args, count, names);
    }
    Py_INCREF(kernel); /* what is encoded, or let go, may run anything */
    told[0] = args[0];
    told[1] = PyObject_TypeCheck(data, Fact_type) ? Py_NewRef(data) : PyObject_CallOneArg(freeze, data);
    if (told[1] != NULL && is_source(GET(kernel, Loop_current))) {
        done = remember(bus, kernel, told[0], told[1]) < 0 ? NULL : Py_NewRef(Py_None);
    }
    else if (told[1] != NULL) {
        done = in_python(python_tell, bus, told, 2, NULL);
    }
    Py_DECREF(kernel);
    Py_XDECREF(told[1]);
    return done;
}

static PyMethodDef method_tell = {"tell", FAST(bus_tell), "As `publish`, for who does not want the event."};

PyObject *
take_over_bus(PyObject *module, PyObject *args)
{
    PyObject *classes, *function;
    if (!PyArg_ParseTuple(args, "O!O:take_over_bus", &PyDict_Type, &classes, &function)) {
        return NULL;
    }
    if (python_tell != NULL) {
        Py_RETURN_NONE; /* as in `take_over` */
    }
    FIND_CLASS(EventBus)
    FIND_CLASS(Fact)
    BUS_SLOTS(FIND_SLOT)
    freeze = Py_NewRef(function);
    python_tell = replace(EventBus_type, &method_tell);
    return python_tell == NULL ? NULL : Py_NewRef(Py_None);
}
