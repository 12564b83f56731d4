/* `sort_entries`: sorting by the four numbers of an order key as C integers, which is faster than tuple comparison. */

#include "core.h"

typedef struct {
    long long key[4];
    PyObject *entry;
} Keyed;

/* Read the key of an entry. Return 0 if its numbers do not fit into C integers, so that Python has to compare it. */
static int
read_key(PyObject *entry, Keyed *keyed)
{
    if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 6) {
        return 0;
    }
    keyed->entry = entry;
    for (int part = 0; part < 4; part++) {
        PyObject *object = PyTuple_GET_ITEM(entry, part);
        long long value = PyLong_CheckExact(object) ? number(object) : LLONG_MAX;
        if (value == LLONG_MAX || value == LLONG_MIN) {
            return 0;
        }
        keyed->key[part] = value;
    }
    return 1;
}

static int
compare(const void *one, const void *other)
{
    const long long *left = ((const Keyed *)one)->key, *right = ((const Keyed *)other)->key;
    for (int part = 0; part < 4; part++) {
        if (left[part] != right[part]) {
            return left[part] < right[part] ? -1 : 1;
        }
    }
    return 0;
}

/* Sort the keys, unless they are sorted already, as in most rounds. Return 0 if two keys are equal. */
static int
put_in_order(Keyed *keyed, Py_ssize_t length)
{
    Py_ssize_t place = 1;
    while (place < length && compare(&keyed[place - 1], &keyed[place]) < 0) {
        place++;
    }
    if (place < length) {
        qsort(keyed, (size_t)length, sizeof(*keyed), compare);
        for (place = 1; place < length; place++) {
            if (compare(&keyed[place - 1], &keyed[place]) == 0) {
                return 0;
            }
        }
    }
    return 1;
}

PyObject *
sort_entries(PyObject *module, PyObject *list)
{
    Py_ssize_t length, place = 0;
    Keyed *keyed;
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "the entries to sort must be a list");
        return NULL;
    }
    length = PyList_GET_SIZE(list);
    keyed = PyMem_New(Keyed, length ? length : 1);
    if (keyed == NULL) {
        return PyErr_NoMemory();
    }
    while (place < length && read_key(PyList_GET_ITEM(list, place), &keyed[place])) {
        place++;
    }
    if (place == length && put_in_order(keyed, length)) {
        for (place = 0; place < length; place++) {
            PyList_SET_ITEM(list, place, keyed[place].entry); /* the same references in another order */
        }
        PyMem_Free(keyed);
        Py_RETURN_NONE;
    }
    PyMem_Free(keyed);
    return PyObject_CallMethodNoArgs(list, s_sort);
}

/* `in_order` in order.py: return whether a list of actors, each followed by a token, is sorted by ordinal. */
PyObject *
in_order(PyObject *module, PyObject *waiting)
{
    long long before = LLONG_MIN;
    if (!PyList_Check(waiting)) {
        PyErr_SetString(PyExc_TypeError, "the waiting actors must be a list");
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(waiting); index += 2) {
        PyObject *target = PyList_GET_ITEM(waiting, index);
        long long ordinal = is_source(target) ? number(GET(target, Source_ordinal)) : LLONG_MIN;
        if (ordinal < before || ordinal == LLONG_MIN) {
            Py_RETURN_FALSE; /* also if unknown; Python then sorts the list */
        }
        before = ordinal;
    }
    Py_RETURN_TRUE;
}
