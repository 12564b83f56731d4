/* `acquire()` and `release()` of one slot: the commonest wait of all. */

#include "core.h"

#define DEFINE_SLOT(class, name) Py_ssize_t class##_##name;
RESOURCE_SLOTS(DEFINE_SLOT)

#define DEFINE_CLASS(class) PyTypeObject *class##_type;
RESOURCE_CLASSES(DEFINE_CLASS)

PyObject *python_acquire, *python_release;

/* Take a free slot if nobody waits: 1 if it was taken, -1 with an error. */
static int
take_slot(PyObject *pool, long long free)
{
    return put(pool, Slots__free, PyLong_FromLongLong(free - 1)) < 0 ||
                   put(pool, Slots__served, plus_one(GET(pool, Slots__served))) < 0
               ? -1
               : 1;
}

/* Put an actor at the end of the line (`Line.add`): 0 if Python has to do it, 1 if it is done, -1 with an error. */
static int
join_line(PyObject *pool, PyObject *line, PyObject *actor)
{
    Py_ssize_t length = PyObject_Size(GET(line, Line_places));
    PyObject *arrivals, *place, *add, *done;
    if (length < 0 || length >= number(GET(line, Line__purge_at))) {
        return length < 0 ? -1 : 0;
    }
    arrivals = plus_one(GET(line, Line__arrivals));
    if (arrivals == NULL || put(pool, Slots__waited, plus_one(GET(pool, Slots__waited))) < 0) {
        Py_XDECREF(arrivals);
        return -1;
    }
    put(line, Line__arrivals, Py_NewRef(arrivals));
    place = make_entry(zero, arrivals, actor, Py_NewRef(GET(actor, Actor_token)), one, GET(pool, Slots__one));
    Py_DECREF(arrivals);
    add = Py_NewRef(GET(line, Line__put));
    done = place == NULL ? NULL : PyObject_CallOneArg(add, place);
    Py_XDECREF(place);
    Py_DECREF(add);
    Py_XDECREF(done);
    return done == NULL ? -1 : 1;
}

/* Whether a pool is one of those known here, and in order. */
static int
is_plain(PyObject *pool, PyObject *line)
{
    return (Py_IS_TYPE(pool, Resource_type) || Py_IS_TYPE(pool, PriorityResource_type)) &&
           GET(pool, Slots__one) != Py_None && Py_IS_TYPE(line, Line_type) &&
           PyLong_CheckExact(GET(pool, Slots__free)) && PyLong_CheckExact(GET(pool, Slots__served)) &&
           PyLong_CheckExact(GET(pool, Slots__waited)) && PyLong_CheckExact(GET(line, Line__arrivals)) &&
           PyLong_CheckExact(GET(line, Line__purge_at));
}

/* Begin to wait for a slot: 0: Python has to do it, 1: the actor stands in line, 2: it has one, -1: an error. */
int
begin_acquire(PyObject *pool)
{
    PyObject *line = GET(pool, Slots__line), *actor = actor_of(GET(pool, Slots__kernel));
    long long free;
    int done;
    if (actor == NULL || GET(pool, Slots_closed) != Py_False || !is_plain(pool, line)) {
        return 0;
    }
    free = number(GET(pool, Slots__free));
    if (free == LLONG_MAX) {
        return 0; /* or more */
    }
    Py_INCREF(line);
    if (free <= 0) {
        done = join_line(pool, line, actor);
    }
    else if (PyObject_Size(GET(line, Line_places)) == 0) {
        done = take_slot(pool, free) < 0 ? -1 : 2;
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

/* Hand the slot that is given back to who waits first for just one: 0 if that is not so, -1 with an error. */
static int
pass_on(PyObject *pool, PyObject *kernel, PyObject *source, PyObject *line, PyObject *place)
{
    PyObject *actor = PyTuple_GET_ITEM(place, 2), *need = PyTuple_GET_ITEM(place, 4), *popped;
    if (need != one || !Py_IS_TYPE(actor, Actor_type) ||
        same_number(GET(actor, Actor_token), PyTuple_GET_ITEM(place, 3)) != 1) {
        return PyErr_Occurred() ? -1 : 0;
    }
    popped = PyObject_CallNoArgs(GET(line, Line_pop));
    if (popped == NULL) {
        return -1;
    }
    Py_DECREF(popped);
    if (put(pool, Slots__served, plus_one(GET(pool, Slots__served))) < 0 ||
        decide(kernel, source, actor, need, PyTuple_GET_ITEM(place, 5)) < 0) {
        return -1;
    }
    return 1;
}

static PyObject *
release(PyObject *pool, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *line = GET(pool, Slots__line), *kernel = GET(pool, Slots__kernel), *place, *source;
    int done = 0;
    if (count || names || !is_kernel(kernel) || !is_plain(pool, line) || number(GET(pool, Slots__free)) != 0 ||
        !is_source(GET(kernel, Loop_current)) || PyObject_Size(GET(line, Line_places)) <= 0) {
        return PyErr_Occurred() ? NULL : in_python(python_release, pool, args, count, names);
    }
    source = Py_NewRef(GET(kernel, Loop_current));
    Py_INCREF(line);
    Py_INCREF(kernel);
    place = PySequence_GetItem(GET(line, Line_places), 0);
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

static PyMethodDef method_release = {"release", FAST(release), "Give back slots."};
static PyMethodDef method_acquire = {"acquire", FAST(acquire), "Wait for slots and take them."};

PyObject *
take_over_resources(PyObject *module, PyObject *classes)
{
    if (python_acquire != NULL) {
        Py_RETURN_NONE; /* as in `take_over` */
    }
    RESOURCE_CLASSES(FIND_CLASS)
    RESOURCE_SLOTS(FIND_SLOT)
    python_acquire = replace(Slots_type, &method_acquire);
    python_release = replace(Slots_type, &method_release);
    return python_acquire == NULL || python_release == NULL ? NULL : Py_NewRef(Py_None);
}
