/* `sort_entries`: sorting by the parts of an order key as C integers, which is faster than tuple comparison. */

#include "core.h"

typedef struct {
    long long key[4];
    PyObject *entry;
} Keyed;

static inline int
sign(long long one, long long other)
{
    return one < other ? -1 : one > other;
}

/* `compare` in actor.py: return a number below, equal to or above 0, if a rank is below, equal to or above another. */
int
compare_ranks(PyObject *one, PyObject *other)
{
#define BY(part)                                                                                                       \
    if ((order = sign(number(GET(one, Rank_##part)), number(GET(other, Rank_##part)))) != 0) {                         \
        return order;                                                                                                  \
    }
#define FOLLOW(part)                                                                                                   \
    first = GET(one, Rank_##part);                                                                                     \
    second = GET(other, Rank_##part);                                                                                  \
    if (first != second && (Py_IS_TYPE(first, Rank_type) || Py_IS_TYPE(second, Rank_type))) {                          \
        one = first;                                                                                                   \
        other = second;                                                                                                \
        continue;                                                                                                      \
    }                                                                                                                  \
    if (first != second && (order = sign(number(first), number(second))) != 0) {                                       \
        return order;                                                                                                  \
    }
    while (one != other) {
        PyObject *first, *second;
        int order;
        if (!Py_IS_TYPE(one, Rank_type) || !Py_IS_TYPE(other, Rank_type)) {
            return Py_IS_TYPE(one, Rank_type) ? 1 : Py_IS_TYPE(other, Rank_type) ? -1 : sign(number(one), number(other));
        }
        BY(time)
        BY(delta)
        BY(priority)
        FOLLOW(source)
        BY(counter)
        FOLLOW(actor)
        return sign(number(GET(one, Rank_index)), number(GET(other, Rank_index)));
    }
    return 0;
}

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
        int ranked = part == 2 && Py_IS_TYPE(object, Rank_type);
        long long value = PyLong_CheckExact(object) ? number(object) : LLONG_MAX;
        if ((value == LLONG_MAX && !ranked) || value == LLONG_MIN) {
            return 0;
        }
        keyed->key[part] = value; /* LLONG_MAX for a Rank: above all ordinals */
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
        if (part == 2 && left[2] == LLONG_MAX) {
            int order = compare_ranks(PyTuple_GET_ITEM(((const Keyed *)one)->entry, 2),
                                      PyTuple_GET_ITEM(((const Keyed *)other)->entry, 2));
            if (order) {
                return order;
            }
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

/* `in_order` in order.py: return whether a list of actors, each followed by a token, is sorted by rank. */
PyObject *
in_order(PyObject *module, PyObject *waiting)
{
    PyObject *before = NULL;
    if (!PyList_Check(waiting)) {
        PyErr_SetString(PyExc_TypeError, "the waiting actors must be a list");
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(waiting); index += 2) {
        PyObject *target = PyList_GET_ITEM(waiting, index), *rank;
        if (!is_source(target)) {
            Py_RETURN_FALSE; /* Python then sorts the list */
        }
        rank = GET(target, Source_rank);
        if ((!PyLong_CheckExact(rank) && !Py_IS_TYPE(rank, Rank_type)) ||
            (before != NULL && compare_ranks(before, rank) > 0)) {
            Py_RETURN_FALSE;
        }
        before = rank;
    }
    Py_RETURN_TRUE;
}
