/* `_Buffer.event` of the recorders. */

#include "core.h"

#define BUFFER_SLOTS(X) X(Buffer, _enough) X(Buffer, _rows)

#define OWN_SLOT(class, name) static Py_ssize_t class##_##name;
BUFFER_SLOTS(OWN_SLOT)
static PyTypeObject *Buffer_type;

static PyObject *
buffer_event(PyObject *buffer, PyObject *row)
{
    PyObject *rows = GET(buffer, Buffer__rows);
    if (!PyList_CheckExact(rows)) {
        PyErr_SetString(PyExc_TypeError, "what is buffered is a list");
        return NULL;
    }
    if (PyList_Append(rows, row) < 0) {
        return NULL;
    }
    if (PyList_GET_SIZE(rows) < number(GET(buffer, Buffer__enough))) {
        Py_RETURN_NONE;
    }
    return PyObject_CallMethodNoArgs(buffer, s__many);
}

static PyMethodDef method_event = {"event", buffer_event, METH_O, "Record one event."};

PyObject *
take_over_buffer(PyObject *module, PyObject *classes)
{
    PyObject *before;
    FIND_CLASS(Buffer)
    BUFFER_SLOTS(FIND_SLOT)
    before = replace(Buffer_type, &method_event);
    Py_XDECREF(before);
    return before == NULL ? NULL : Py_NewRef(Py_None);
}
