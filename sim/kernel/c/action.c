/* `ActionHandler.check`, of arguments with which all is well. */

#include "core.h"

#define ACTION_SLOTS(X) X(ActionHandler, allowed) X(ActionHandler, required)

#define OWN_SLOT(class, name) static Py_ssize_t class##_##name;
ACTION_SLOTS(OWN_SLOT)
static PyTypeObject *ActionHandler_type;
static PyObject *python_check, *any;

/* Whether a value is of one of these types, and of none that is derived from them. */
static int
is_one_of(PyObject *value, PyObject *types)
{
    if (types == any) {
        return 1;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(types); index++) {
        if (PyTuple_GET_ITEM(types, index) == (PyObject *)Py_TYPE(value)) {
            return 1;
        }
    }
    return 0;
}

/* Whether all arguments are known and of their types, and none is missing; -1 with an error. */
static int
are_well(PyObject *arguments, PyObject *allowed, PyObject *required)
{
    PyObject *name, *value, *types;
    Py_ssize_t place = 0;
    if (!PyDict_CheckExact(arguments) || !PyDict_CheckExact(allowed) || !PyTuple_CheckExact(required)) {
        return 0;
    }
    while (PyDict_Next(arguments, &place, &name, &value)) {
        types = PyUnicode_CheckExact(name) ? PyDict_GetItemWithError(allowed, name) : NULL;
        if (types == NULL || !PyTuple_CheckExact(types) || !is_one_of(value, types)) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    for (place = 0; place < PyTuple_GET_SIZE(required); place++) {
        int found = PyDict_Contains(arguments, PyTuple_GET_ITEM(required, place));
        if (found <= 0) {
            return found;
        }
    }
    return 1;
}

static PyObject *
action_check(PyObject *handler, PyObject *arguments)
{
    int well = are_well(arguments, GET(handler, ActionHandler_allowed), GET(handler, ActionHandler_required));
    if (well > 0) {
        Py_RETURN_NONE;
    }
    return well < 0 ? NULL : PyObject_CallFunctionObjArgs(python_check, handler, arguments, NULL);
}

static PyMethodDef method_check = {"check", action_check, METH_O, "Check arguments against the schema."};

PyObject *
take_over_actions(PyObject *module, PyObject *args)
{
    PyObject *classes, *marker;
    if (!PyArg_ParseTuple(args, "O!O:take_over_actions", &PyDict_Type, &classes, &marker)) {
        return NULL;
    }
    if (python_check != NULL) {
        Py_RETURN_NONE; /* as in `take_over` */
    }
    FIND_CLASS(ActionHandler)
    ACTION_SLOTS(FIND_SLOT)
    any = Py_NewRef(marker);
    python_check = replace(ActionHandler_type, &method_check);
    return python_check == NULL ? NULL : Py_NewRef(Py_None);
}
