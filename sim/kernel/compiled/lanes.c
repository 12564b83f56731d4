/* `by_lane`: the encoded events of each lane of the hash of a run (see `_by_lane` in store/hashing.py). */

#include "core.h"

#define LANES 256

typedef struct {
    const char *start;
    Py_ssize_t size;
    unsigned char lane;
} Row;

/* Return the lane of a row: that of the name between its first two quotation marks; -1 with an error. */
static int
lane_of(PyObject *lanes, const char *start, Py_ssize_t size)
{
    const char *name = memchr(start, '"', size), *end = NULL;
    PyObject *key, *lane;
    long found = -1;
    if (name != NULL) {
        name++;
        end = memchr(name, '"', start + size - name);
    }
    if (end == NULL) {
        PyErr_SetString(PyExc_ValueError, "an encoded event has no name of an agent");
        return -1;
    }
    key = PyBytes_FromStringAndSize(name, end - name);
    lane = key == NULL ? NULL : PyObject_GetItem(lanes, key);
    if (lane != NULL) {
        found = PyLong_AsLong(lane);
    }
    if (lane != NULL && !PyErr_Occurred() && (found < 0 || found >= LANES)) {
        PyErr_Format(PyExc_ValueError, "a lane is a number below %d, not %ld", LANES, found);
        found = -1;
    }
    Py_XDECREF(lane);
    Py_XDECREF(key);
    return (int)found;
}

/* Find the rows of a body, which are separated by `],[`. Return how many they are, at most `most` + 1. */
static Py_ssize_t
split(const char *body, Py_ssize_t size, Row *rows, Py_ssize_t most)
{
    const char *start = body + 1, *end = body + size - 1, *here = start;
    Py_ssize_t count = 0;
    while ((here = memchr(here, ']', end - here)) != NULL) {
        if (end - here >= 3 && here[1] == ',' && here[2] == '[') {
            if (count == most) {
                return most + 1;
            }
            rows[count].start = start;
            rows[count++].size = here - start;
            here = start = here + 3;
        }
        else {
            here++;
        }
    }
    if (count == most) {
        return most + 1;
    }
    rows[count].start = start;
    rows[count].size = end - start;
    return count + 1;
}

/* Return {lane: the bytes of its rows, each as `[row],`}; a new reference, or NULL with an error. */
static PyObject *
gather(const Row *rows, Py_ssize_t count, const Py_ssize_t *sizes)
{
    char *next[LANES];
    PyObject *found = PyDict_New();
    for (long lane = 0; found != NULL && lane < LANES; lane++) {
        if (sizes[lane]) {
            PyObject *key = PyLong_FromLong(lane), *bytes = PyBytes_FromStringAndSize(NULL, sizes[lane]);
            if (key == NULL || bytes == NULL || PyDict_SetItem(found, key, bytes) < 0) {
                Py_CLEAR(found);
            }
            else {
                next[lane] = PyBytes_AS_STRING(bytes); /* the dict keeps the object, and nothing has its hash yet */
            }
            Py_XDECREF(key);
            Py_XDECREF(bytes);
        }
    }
    for (Py_ssize_t index = 0; found != NULL && index < count; index++) {
        const Row *row = &rows[index];
        char *to = next[row->lane];
        *to++ = '[';
        memcpy(to, row->start, row->size);
        to += row->size;
        *to++ = ']';
        *to++ = ',';
        next[row->lane] = to;
    }
    return found;
}

PyObject *
by_lane(PyObject *module, PyObject *args)
{
    PyObject *body, *lanes, *found = NULL;
    Py_ssize_t count, sizes[LANES] = {0};
    Row *rows;
    if (!PyArg_ParseTuple(args, "SnO:by_lane", &body, &count, &lanes)) {
        return NULL;
    }
    if (count < 1 || PyBytes_GET_SIZE(body) < 2) {
        Py_RETURN_NONE;
    }
    rows = PyMem_New(Row, count);
    if (rows == NULL) {
        return PyErr_NoMemory();
    }
    if (split(PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), rows, count) != count) {
        PyMem_Free(rows);
        Py_RETURN_NONE; /* the data of an event holds the same characters */
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        int lane = lane_of(lanes, rows[index].start, rows[index].size);
        if (lane < 0) {
            PyMem_Free(rows);
            return NULL;
        }
        rows[index].lane = (unsigned char)lane;
        sizes[lane] += rows[index].size + 3;
    }
    found = gather(rows, count, sizes);
    PyMem_Free(rows);
    return found;
}
