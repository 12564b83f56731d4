/* `report` of the event bus (see events/bus.py), for facts that nobody subscribes to.

The kernel does not know buses. The class of the bus declares the layout of its slots; every other case is left to Python.
*/

#include "core.h"

#define BUS_SLOTS(X) X(audience) X(counts) X(kernel) X(recent) X(sequence) X(tidy_at)

#define BUS_SLOT(name) static Py_ssize_t bus_##name;
BUS_SLOTS(BUS_SLOT)
#define FIND_BUS_SLOT(name)                                                                                            \
    if (find_declared(layout, #name, &bus_##name) < 0) {                                                               \
        return NULL;                                                                                                   \
    }

static PyObject *python_report;

/* Return whether data are a fact, and whether it is known that nobody subscribes to their topic; -1: an error. */
static int
is_case(PyObject *bus, PyObject *data, PyObject *topic)
{
    PyObject *audience = GET(bus, bus_audience), *kernel = GET(bus, bus_kernel), *heard, *fact;
    int found;
    if (!PyUnicode_CheckExact(topic) || !PyDict_CheckExact(audience) || !PyDict_CheckExact(GET(bus, bus_counts)) ||
        !PyDict_CheckExact(GET(bus, bus_recent)) || !is_kernel(kernel) || !is_source(GET(kernel, Kernel_current))) {
        return 0;
    }
    heard = PyDict_GetItemWithError(audience, topic);
    if (heard == NULL || !PyTuple_CheckExact(heard) || PyTuple_GET_SIZE(heard)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    fact = PyObject_GetAttr(data, s_FACT);
    found = fact == NULL ? -1 : fact == Py_True;
    Py_XDECREF(fact);
    return found;
}

/* Count an event of a topic. Return 0, or -1 with an error. */
static int
count_event(PyObject *bus, PyObject *topic)
{
    PyObject *counts = GET(bus, bus_counts), *before = PyDict_GetItemWithError(counts, topic), *after;
    int failed;
    if (before == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetObject(PyExc_KeyError, topic);
        }
        return -1;
    }
    after = plus_one(before);
    failed = after == NULL ? -1 : PyDict_SetItem(counts, topic, after);
    Py_XDECREF(after);
    return failed < 0 ? -1 : put(bus, bus_sequence, plus_one(GET(bus, bus_sequence)));
}

/* Keep an event for agents in an iteration, which may decide to sleep until one. Return 0, or -1 with an error. */
static int
keep(PyObject *bus, PyObject *topic, PyObject *source, PyObject *data, PyObject *identity)
{
    PyObject *recent = Py_XNewRef(PyDict_GetItemWithError(GET(bus, bus_recent), topic)), *past, *done;
    if (recent == NULL) {
        recent = PyErr_Occurred() ? NULL : PyObject_CallMethodOneArg(bus, s__begin_recent, topic);
        if (recent == NULL) {
            return -1;
        }
    }
    past = PyTuple_Pack(5, GET(bus, bus_sequence), GET(GET(bus, bus_kernel), Kernel_now), source, data, identity);
    done = past == NULL ? NULL : PyObject_CallMethodOneArg(recent, s_append, past);
    Py_XDECREF(past);
    Py_DECREF(recent);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Record an event, count it and keep it. Return 0, or -1 with an error. */
static int
publish(PyObject *bus, PyObject *topic, PyObject *data)
{
    PyObject *kernel = GET(bus, bus_kernel), *source = Py_NewRef(GET(GET(kernel, Kernel_current), Source_name)), *identity;
    int failed;
    identity = PyObject_CallMethodObjArgs(kernel, s_emit, topic, data, NULL);
    failed = identity == NULL || count_event(bus, topic) < 0 || keep(bus, topic, source, data, identity) < 0 ? -1 : 0;
    Py_XDECREF(identity);
    Py_DECREF(source);
    if (!failed && number(GET(bus, bus_sequence)) >= number(GET(bus, bus_tidy_at))) {
        PyObject *done = PyObject_CallMethodNoArgs(bus, s__tidy);
        Py_XDECREF(done);
        failed = done == NULL ? -1 : 0;
    }
    return failed;
}

static PyObject *
bus_report(PyObject *bus, PyObject *data)
{
    PyObject *topic = PyObject_GetAttr(data, s_TOPIC);
    int ready = topic == NULL ? -1 : is_case(bus, data, topic);
    if (ready > 0 && publish(bus, topic, data) < 0) {
        ready = -1;
    }
    Py_XDECREF(topic);
    if (ready == 0) {
        return PyObject_CallFunctionObjArgs(python_report, bus, data, NULL);
    }
    return ready < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef method_report = {"report", bus_report, METH_O};

PyObject *
take_over_bus(PyObject *module, PyObject *args)
{
    PyObject *type, *layout;
    if (!PyArg_ParseTuple(args, "O!O!:take_over_bus", &PyType_Type, &type, &PyDict_Type, &layout)) {
        return NULL;
    }
    if (python_report != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    BUS_SLOTS(FIND_BUS_SLOT)
    python_report = replace((PyTypeObject *)type, &method_report);
    return python_report == NULL ? NULL : Py_NewRef(Py_None);
}
