/* `plainness`: how plain the state of an agent is (see `_plainness` in actors/loop.py). */

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
