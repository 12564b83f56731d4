/* `event` of the recorders that collect events before they encode them (see `_Buffer` in record/recorder.py). */

#include "core.h"

static Py_ssize_t Buffer_rows, Buffer_batch;
static PyObject *python_event;

static PyObject *
buffer_event(PyObject *buffer, PyObject *row)
{
    PyObject *rows = GET(buffer, Buffer_rows);
    if (!PyList_CheckExact(rows) || !PyLong_CheckExact(GET(buffer, Buffer_batch))) {
        return PyObject_CallFunctionObjArgs(python_event, buffer, row, NULL);
    }
    if (PyList_Append(rows, row) < 0) {
        return NULL;
    }
    if (PyList_GET_SIZE(rows) < number(GET(buffer, Buffer_batch))) {
        Py_RETURN_NONE;
    }
    return PyObject_CallMethodNoArgs(buffer, s__encode_batch);
}

static PyMethodDef method_event = {"event", buffer_event, METH_O};

PyObject *
take_over_rows(PyObject *module, PyObject *args)
{
    PyObject *type, *layout;
    if (!PyArg_ParseTuple(args, "O!O!:take_over_rows", &PyType_Type, &type, &PyDict_Type, &layout)) {
        return NULL;
    }
    if (python_event != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    if (find_declared(layout, "rows", &Buffer_rows) < 0 || find_declared(layout, "batch", &Buffer_batch) < 0) {
        return NULL;
    }
    python_event = replace((PyTypeObject *)type, &method_event);
    return python_event == NULL ? NULL : Py_NewRef(Py_None);
}
