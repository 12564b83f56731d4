/* Reader: an iterator over a list whose position the loop can read and change. */

#include "core.h"

static PyObject *
reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *entries;
    Reader *self;
    if (!PyArg_ParseTuple(args, "O!:Reader", &PyList_Type, &entries)) {
        return NULL;
    }
    self = (Reader *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->entries = Py_NewRef(entries);
    }
    return (PyObject *)self;
}

static int
reader_traverse(Reader *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->entries);
    return 0;
}

static int
reader_clear(Reader *self)
{
    Py_CLEAR(self->entries);
    return 0;
}

static void
reader_dealloc(Reader *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->entries);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static Py_ssize_t
reader_left(Reader *self)
{
    Py_ssize_t left = self->entries == NULL ? 0 : PyList_GET_SIZE(self->entries) - self->index;
    return left < 0 ? 0 : left;
}

static PyObject *
reader_next(Reader *self)
{
    return reader_left(self) ? Py_NewRef(PyList_GET_ITEM(self->entries, self->index++)) : NULL;
}

static PyObject *
reader_length_hint(Reader *self, PyObject *nothing)
{
    return PyLong_FromSsize_t(reader_left(self));
}

static PyObject *
reader_set_state(Reader *self, PyObject *state)
{
    Py_ssize_t index = PyLong_AsSsize_t(state);
    if (index == -1 && PyErr_Occurred()) {
        return NULL;
    }
    self->index = index < 0 ? 0 : index;
    Py_RETURN_NONE;
}

static PyMethodDef reader_methods[] = {
    {"__length_hint__", (PyCFunction)reader_length_hint, METH_NOARGS, "Return the number of remaining entries."},
    {"__setstate__", (PyCFunction)reader_set_state, METH_O, "Move to an index."},
    {NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_doc, "An iterator over a list, which also returns items that are added after its position."},
    {Py_tp_new, reader_new},
    {Py_tp_traverse, reader_traverse},
    {Py_tp_clear, reader_clear},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, reader_next},
    {Py_tp_methods, reader_methods},
    {0},
};

PyType_Spec reader_spec = {
    .name = "sim.kernel.compiled._core.Reader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = reader_slots,
};
