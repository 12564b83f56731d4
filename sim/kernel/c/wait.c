/* Wait: what `Queue.get`, `Signal.wait` and `sleep_ns` return. It is awaited without a frame of its own. */

#include "core.h"

typedef enum { TO_GET, TO_WAIT, TO_PAUSE, PAUSED, ARMED, LEFT_TO_PYTHON, DONE } State;

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* the queue or signal, or how long to pause */
    PyObject *inner; /* the generator of the Python function, if that does it; else the crowd of a signal */
    PyObject *actor; /* who waits for a signal */
    State state;
} Wait;

#define MANY 64 /* of actors and tokens: those of _MANY actors in waits.py */
#define KEPT 64 /* waits that are kept to be used again; they stay known to the collector, as objects of this module */
static Wait *kept[KEPT];
static int count_kept;

static PyObject *
make(PyObject *owner, State state)
{
    Wait *self;
    if (count_kept) {
        self = kept[--count_kept];
    }
    else {
        self = PyObject_GC_New(Wait, &Wait_Type);
        if (self == NULL) {
            return NULL;
        }
        self->owner = self->inner = self->actor = NULL;
        PyObject_GC_Track(self);
    }
    self->owner = Py_NewRef(owner);
    self->state = state;
    return (PyObject *)self;
}

PyObject *
queue_get(PyObject *queue, PyObject *nothing)
{
    return make(queue, TO_GET);
}

PyObject *
signal_wait(PyObject *signal, PyObject *nothing)
{
    return make(signal, TO_WAIT);
}

PyObject *
sleep_ns(PyObject *module, PyObject *delay)
{
    return make(delay, TO_PAUSE);
}

static int
wait_traverse(Wait *self, visitproc visit, void *arg)
{
    Py_VISIT(self->owner);
    Py_VISIT(self->inner);
    Py_VISIT(self->actor);
    return 0;
}

static int
wait_clear(Wait *self)
{
    self->state = DONE;
    Py_CLEAR(self->owner);
    Py_CLEAR(self->inner);
    Py_CLEAR(self->actor);
    return 0;
}

static void
wait_dealloc(Wait *self)
{
    Py_SET_REFCNT(self, 1);
    wait_clear(self); /* it may run code, and so end other waits */
    if (count_kept < KEPT) {
        kept[count_kept++] = self;
        return;
    }
    Py_SET_REFCNT(self, 0);
    PyObject_GC_UnTrack(self);
    PyObject_GC_Del(self);
}

/* The actor that runs, if it may be armed here; else NULL, without an error. */
static PyObject *
actor_of(PyObject *kernel)
{
    PyObject *actor;
    if (!is_kernel(kernel)) {
        return NULL;
    }
    actor = GET(kernel, Loop_current);
    return Py_IS_TYPE(actor, Actor_type) && GET(actor, Actor_cancelling) == Py_False ? actor : NULL;
}

static PySendResult
leave_to_python(Wait *self, PyObject *function, PyObject **result)
{
    self->inner = PyObject_CallOneArg(function, self->owner);
    if (self->inner == NULL) {
        *result = NULL;
        return PYGEN_ERROR;
    }
    self->state = LEFT_TO_PYTHON;
    return PyIter_Send(self->inner, Py_None, result);
}

/* Put an actor and its token at the end of those who wait. */
static PySendResult
arm(Wait *self, PyObject *waiting, PyObject *actor, PyObject **result)
{
    if (PyList_Append(waiting, actor) < 0 || PyList_Append(waiting, GET(actor, Actor_token)) < 0) {
        *result = NULL;
        return PYGEN_ERROR;
    }
    self->state = ARMED;
    *result = Py_NewRef(armed);
    return PYGEN_NEXT;
}

/* `Queue.get` */
static PySendResult
begin_get(Wait *self, PyObject **result)
{
    PyObject *queue = self->owner, *items = GET(queue, Queue_items), *getters = GET(queue, Queue__getters);
    if (items != Py_None && PyObject_Size(items) > 0) {
        if (GET(queue, Queue__putters) == Py_None) {
            self->state = DONE;
            *result = PyObject_CallMethodNoArgs(items, s_popleft);
            return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
        }
    }
    else if (GET(queue, Queue_closed) == Py_False && getters != Py_None) {
        PyObject *waiting = GET(getters, Waiters_actors), *actor = actor_of(GET(queue, Queue__kernel));
        if (actor != NULL && PyList_CheckExact(waiting) && PyList_GET_SIZE(waiting) < MANY) {
            return arm(self, waiting, actor, result);
        }
    }
    return leave_to_python(self, python_get, result);
}

/* `Signal.wait` */
static PySendResult
begin_wait(Wait *self, PyObject **result)
{
    PyObject *crowd = GET(self->owner, Signal__crowd), *actor = actor_of(GET(self->owner, Signal__kernel));
    if (actor == NULL || !Py_IS_TYPE(crowd, Crowd_type) || !PyList_CheckExact(GET(crowd, Crowd_waiting))) {
        return leave_to_python(self, python_wait, result);
    }
    put(actor, Actor_via, Py_NewRef(crowd));
    self->inner = Py_NewRef(crowd);
    self->actor = Py_NewRef(actor);
    return arm(self, GET(crowd, Crowd_waiting), actor, result);
}

/* The wait is over: what it returns. */
static PyObject *
end_of(Wait *self, PyObject *value)
{
    self->state = DONE;
    if (self->inner == NULL) {
        return Py_NewRef(value);
    }
    put(self->actor, Actor_via, Py_NewRef(Py_None));
    return Py_NewRef(GET(self->inner, Crowd_value));
}

static PySendResult
wait_send(Wait *self, PyObject *value, PyObject **result)
{
    switch (self->state) {
    case TO_GET:
        return begin_get(self, result);
    case TO_WAIT:
        return begin_wait(self, result);
    case TO_PAUSE:
        self->state = PAUSED;
        *result = Py_NewRef(self->owner);
        return PYGEN_NEXT;
    case PAUSED:
        self->state = DONE;
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
    case ARMED:
        *result = end_of(self, value);
        return PYGEN_RETURN;
    case LEFT_TO_PYTHON:
        return PyIter_Send(self->inner, value, result);
    default:
        *result = NULL;
        PyErr_SetString(PyExc_RuntimeError, "a wait can be awaited once");
        return PYGEN_ERROR;
    }
}

/* Raise StopIteration with a value: always the same object, as long as nobody has kept it. */
static void
stop_with(PyObject *value)
{
    if (Py_REFCNT(stop) > 1) {
        PyObject *another = PyObject_CallNoArgs(PyExc_StopIteration);
        if (another == NULL) {
            return;
        }
        Py_SETREF(stop, another);
    }
    Py_XSETREF(((PyStopIterationObject *)stop)->value, Py_NewRef(value));
    PyErr_Restore(Py_NewRef(PyExc_StopIteration), Py_NewRef(stop), NULL);
}

/* Return what was yielded; or raise StopIteration with what was returned: NULL alone stands for None if `silent`. */
static PyObject *
yielded(PySendResult outcome, PyObject *result, int silent)
{
    if (outcome == PYGEN_RETURN) {
        if (result != Py_None || !silent) {
            stop_with(result);
        }
        Py_DECREF(result);
        return NULL;
    }
    return result;
}

static PyObject *
wait_next(Wait *self)
{
    PyObject *result;
    PySendResult outcome = wait_send(self, Py_None, &result);
    return yielded(outcome, result, 1);
}

static PyObject *
wait_send_method(Wait *self, PyObject *value)
{
    PyObject *result;
    PySendResult outcome = wait_send(self, value, &result);
    return yielded(outcome, result, 0);
}

/* Nobody waits any more; -1 with an error. */
static int
let_go(Wait *self)
{
    PyObject *done;
    if (self->state != ARMED || self->inner == NULL) {
        self->state = DONE;
        return 0;
    }
    self->state = DONE;
    done = PyObject_CallMethodNoArgs(self->inner, s_lose_one);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *
wait_throw(Wait *self, PyObject *args)
{
    PyObject *type, *value = NULL, *trace = NULL;
    if (self->state == LEFT_TO_PYTHON) {
        PyObject *method = PyObject_GetAttr(self->inner, s_throw), *result;
        if (method == NULL) {
            return NULL;
        }
        result = PyObject_Call(method, args, NULL);
        Py_DECREF(method);
        return result;
    }
    if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace) || let_go(self) < 0) {
        return NULL;
    }
    if (PyExceptionInstance_Check(type)) {
        PyErr_SetObject(PyExceptionInstance_Class(type), type);
    }
    else if (PyExceptionClass_Check(type)) {
        PyErr_SetObject(type, value);
    }
    else {
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    }
    return NULL;
}

static PyObject *
wait_close(Wait *self, PyObject *nothing)
{
    if (self->state == LEFT_TO_PYTHON) {
        return PyObject_CallMethodNoArgs(self->inner, s_close);
    }
    return let_go(self) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef wait_methods[] = {
    {"send", (PyCFunction)wait_send_method, METH_O, "Go on with a value."},
    {"throw", (PyCFunction)wait_throw, METH_VARARGS, "Raise an error where it waits."},
    {"close", (PyCFunction)wait_close, METH_NOARGS, "Wait no longer."},
    {NULL},
};

static PyAsyncMethods wait_async = {
    .am_await = PyObject_SelfIter,
    .am_send = (sendfunc)wait_send,
};

PyTypeObject Wait_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sim.kernel._core.Wait",
    .tp_doc = "The wait of one actor for one queue or signal.",
    .tp_basicsize = sizeof(Wait),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = (traverseproc)wait_traverse,
    .tp_clear = (inquiry)wait_clear,
    .tp_dealloc = (destructor)wait_dealloc,
    .tp_as_async = &wait_async,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)wait_next,
    .tp_methods = wait_methods,
};
