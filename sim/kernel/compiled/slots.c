/* `acquire()` and `release()` of one slot of a resource: the most frequent wait.

The kernel does not know resources. The class of the resource declares the layout of its slots and of its queue.
*/

#include "core.h"

#define POOL_SLOTS(X) X(closed) X(free) X(kernel) X(line) X(one) X(served) X(waited)
#define LINE_SLOTS(X) X(arrivals) X(places) X(pop) X(purge_at) X(put)

#define POOL_SLOT(name) static Py_ssize_t pool_##name;
POOL_SLOTS(POOL_SLOT)
#define LINE_SLOT(name) static Py_ssize_t line_##name;
LINE_SLOTS(LINE_SLOT)

#define FIND_POOL_SLOT(name)                                                                                           \
    if (find_declared(pool_layout, #name, &pool_##name) < 0) {                                                         \
        return NULL;                                                                                                   \
    }
#define FIND_LINE_SLOT(name)                                                                                           \
    if (find_declared(line_layout, #name, &line_##name) < 0) {                                                         \
        return NULL;                                                                                                   \
    }

static PyObject *pool_types; /* a tuple of classes */
static PyTypeObject *line_type;
PyObject *python_acquire;
static PyObject *python_release;

/* Take a free slot. The caller has checked that no actor waits. Return 1, or -1 with an error. */
static int
take_slot(PyObject *pool, long long free)
{
    return put(pool, pool_free, PyLong_FromLongLong(free - 1)) < 0 ||
                   put(pool, pool_served, plus_one(GET(pool, pool_served))) < 0
               ? -1
               : 1;
}

/* Note that a slot belongs to the running actor, as `Slots.hold` of one. Return 0, or -1 with an error. */
int
hold_slot(PyObject *pool)
{
    PyObject *kernel = GET(pool, pool_kernel), *holder = is_kernel(kernel) ? GET(kernel, Kernel_current) : Py_None, *done;
    if (is_source(holder) && GET(holder, Source_held) == Py_None) {
        return put(holder, Source_held, Py_NewRef(pool));
    }
    done = PyObject_CallMethodOneArg(pool, s_hold, one);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Add an actor at the end of the queue, as `Line.add`. Return 1, 0 if Python has to do it, or -1 with an error. */
static int
join_line(PyObject *pool, PyObject *line, PyObject *actor)
{
    Py_ssize_t length = PyObject_Size(GET(line, line_places));
    PyObject *arrivals, *place, *add, *done;
    if (length < 0 || length >= number(GET(line, line_purge_at))) {
        return length < 0 ? -1 : 0;
    }
    arrivals = plus_one(GET(line, line_arrivals));
    if (arrivals == NULL || put(pool, pool_waited, plus_one(GET(pool, pool_waited))) < 0) {
        Py_XDECREF(arrivals);
        return -1;
    }
    put(line, line_arrivals, Py_NewRef(arrivals));
    place = make_entry(zero, arrivals, actor, Py_NewRef(GET(actor, Actor_token)), one, GET(pool, pool_one));
    Py_DECREF(arrivals);
    add = Py_NewRef(GET(line, line_put));
    done = place == NULL ? NULL : PyObject_CallOneArg(add, place);
    Py_XDECREF(place);
    Py_DECREF(add);
    Py_XDECREF(done);
    return done == NULL ? -1 : 1;
}

/* Return whether the class of a pool was registered itself, not only a base class. */
static int
is_known(PyObject *pool)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(pool_types); index++) {
        if (PyTuple_GET_ITEM(pool_types, index) == (PyObject *)Py_TYPE(pool)) {
            return 1;
        }
    }
    return 0;
}

/* Return whether the class of a pool was registered, and its slots have the expected types. */
static int
is_plain(PyObject *pool, PyObject *line)
{
    return is_known(pool) &&
           GET(pool, pool_one) != Py_None && Py_IS_TYPE(line, line_type) &&
           PyLong_CheckExact(GET(pool, pool_free)) && PyLong_CheckExact(GET(pool, pool_served)) &&
           PyLong_CheckExact(GET(pool, pool_waited)) && PyLong_CheckExact(GET(line, line_arrivals)) &&
           PyLong_CheckExact(GET(line, line_purge_at));
}

/* Start to acquire a slot. 0: Python has to do it, 1: the actor is in the queue, 2: it has a slot, -1: an error. */
int
begin_acquire(PyObject *pool)
{
    PyObject *line = GET(pool, pool_line), *actor = actor_of(GET(pool, pool_kernel));
    long long free;
    int done;
    if (actor == NULL || GET(pool, pool_closed) != Py_False || !is_plain(pool, line)) {
        return 0;
    }
    free = number(GET(pool, pool_free));
    if (free == LLONG_MAX) {
        return 0; /* the number may not fit into a C integer */
    }
    Py_INCREF(line);
    if (free <= 0) {
        done = join_line(pool, line, actor);
    }
    else if (PyObject_Size(GET(line, line_places)) == 0) {
        done = take_slot(pool, free) < 0 || hold_slot(pool) < 0 ? -1 : 2;
    }
    else {
        done = PyErr_Occurred() ? -1 : 0;
    }
    Py_DECREF(line);
    return done;
}

static PyObject *
acquire(PyObject *pool, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return count || names ? in_python(python_acquire, pool, args, count, names) : make_wait(pool, TO_ACQUIRE);
}

/* Give the released slot to the first waiting actor, if it wants one slot. Return 1, 0 if it does not apply, or -1 with
   an error. */
static int
pass_on(PyObject *pool, PyObject *kernel, PyObject *source, PyObject *line, PyObject *place)
{
    PyObject *actor = PyTuple_GET_ITEM(place, 2), *need = PyTuple_GET_ITEM(place, 4), *popped;
    if (need != one || !Py_IS_TYPE(actor, Actor_type) ||
        same_number(GET(actor, Actor_token), PyTuple_GET_ITEM(place, 3)) != 1) {
        return PyErr_Occurred() ? -1 : 0;
    }
    popped = PyObject_CallNoArgs(GET(line, line_pop));
    if (popped == NULL) {
        return -1;
    }
    Py_DECREF(popped);
    put(source, Source_held, Py_NewRef(Py_None));
    if (put(pool, pool_served, plus_one(GET(pool, pool_served))) < 0 ||
        decide(kernel, source, actor, need, PyTuple_GET_ITEM(place, 5)) < 0) {
        return -1;
    }
    return 1;
}

static PyObject *
release(PyObject *pool, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *line = GET(pool, pool_line), *kernel = GET(pool, pool_kernel), *place, *source;
    int done = 0;
    if (count || names || !is_kernel(kernel) || !is_plain(pool, line) || number(GET(pool, pool_free)) != 0 ||
        !is_source(GET(kernel, Kernel_current)) || GET(GET(kernel, Kernel_current), Source_held) != pool ||
        PyObject_Size(GET(line, line_places)) <= 0) {
        return PyErr_Occurred() ? NULL : in_python(python_release, pool, args, count, names);
    }
    source = Py_NewRef(GET(kernel, Kernel_current));
    Py_INCREF(line);
    Py_INCREF(kernel);
    place = PySequence_GetItem(GET(line, line_places), 0);
    if (place != NULL && PyTuple_CheckExact(place) && PyTuple_GET_SIZE(place) == 6) {
        done = pass_on(pool, kernel, source, line, place);
    }
    Py_XDECREF(place);
    Py_DECREF(kernel);
    Py_DECREF(line);
    Py_DECREF(source);
    if (done > 0) {
        Py_RETURN_NONE;
    }
    return PyErr_Occurred() ? NULL : in_python(python_release, pool, args, count, names);
}

static PyMethodDef method_release = {"release", FAST(release)};
static PyMethodDef method_acquire = {"acquire", FAST(acquire)};

PyObject *
take_over_slots(PyObject *module, PyObject *args)
{
    PyObject *pool, *line, *types, *pool_layout, *line_layout;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!:take_over_slots", &PyType_Type, &pool, &PyTuple_Type, &types, &PyDict_Type,
                          &pool_layout, &PyType_Type, &line, &PyDict_Type, &line_layout)) {
        return NULL;
    }
    if (python_acquire != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    POOL_SLOTS(FIND_POOL_SLOT)
    LINE_SLOTS(FIND_LINE_SLOT)
    pool_types = Py_NewRef(types);
    line_type = (PyTypeObject *)Py_NewRef(line);
    python_acquire = replace((PyTypeObject *)pool, &method_acquire);
    python_release = replace((PyTypeObject *)pool, &method_release);
    return python_acquire == NULL || python_release == NULL ? NULL : Py_NewRef(Py_None);
}
