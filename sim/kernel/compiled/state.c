/* What is in the states of agents: `plainness` (see `_plainness` in actors/loop.py), and `equal_states` (see
   `_equal_states` in agents/rule_code.py). */

#include "core.h"

PyObject *
plainness(PyObject *module, PyObject *state)
{
    PyObject *key, *value;
    Py_ssize_t place = 0;
    long found = 2;
    if (!PyDict_CheckExact(state)) {
        return PyLong_FromLong(0);
    }
    while (PyDict_Next(state, &place, &key, &value)) {
        if (!PyUnicode_CheckExact(key)) {
            return PyLong_FromLong(0);
        }
        if (!PyUnicode_IS_ASCII(key)) {
            found = 1;
        }
        if (PyLong_CheckExact(value) || value == Py_None || PyBool_Check(value)) {
            continue;
        }
        if (PyFloat_CheckExact(value)) {
            if (!isfinite(PyFloat_AS_DOUBLE(value))) {
                return PyLong_FromLong(0);
            }
        }
        else if (PyUnicode_CheckExact(value)) {
            if (!PyUnicode_IS_ASCII(value)) {
                found = 1;
            }
        }
        else if (PyList_CheckExact(value) || PyTuple_CheckExact(value) || PyDict_CheckExact(value)) {
            found = 1;
        }
        else {
            return PyLong_FromLong(0);
        }
    }
    return PyLong_FromLong(found);
}

/* Return whether a value is there, has no parts, and is no text of `counts` characters or more, whose size counts. */
static int
is_small(PyObject *value, Py_ssize_t counts)
{
    return PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
           (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) < counts);
}

/* Return whether a small value of the state of an agent equals another small value; -1: Python has to ask. */
static int
is_equal(PyObject *agent, PyObject *key, PyObject *value, Py_ssize_t counts)
{
    PyObject *state = PyObject_GetAttr(agent, s_state), *found, *equal;
    int answer = -1;
    if (state != NULL && PyDict_CheckExact(state) && (found = PyDict_GetItemWithError(state, key)) != NULL &&
        is_small(found, counts)) {
        Py_INCREF(found);
        equal = PyObject_RichCompare(found, value, Py_EQ);
        answer = equal == NULL ? -1 : equal == Py_True;
        Py_XDECREF(equal);
        Py_DECREF(found);
    }
    Py_XDECREF(state);
    return answer;
}

PyObject *
equal_states(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyObject *names, *value;
    Py_ssize_t counts;
    long equal = 0;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "equal_states takes five arguments");
        return NULL;
    }
    names = args[1];
    value = args[3];
    counts = PyLong_AsSsize_t(args[4]);
    if (counts == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (!PyDict_CheckExact(args[0]) || !PyList_CheckExact(names) || !PyUnicode_CheckExact(args[2]) || !is_small(value, counts)) {
        Py_RETURN_NONE;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(names); index++) {
        PyObject *name = PyList_GET_ITEM(names, index), *agent;
        int found = -1;
        if (PyUnicode_CheckExact(name) && (agent = PyDict_GetItemWithError(args[0], name)) != NULL) {
            Py_INCREF(agent);
            found = is_equal(agent, args[2], value, counts);
            Py_DECREF(agent);
        }
        if (found < 0) {
            PyErr_Clear(); /* the call for each says what is wrong */
            Py_RETURN_NONE;
        }
        equal += found;
    }
    return PyLong_FromLong(equal);
}
