/* Wait: the awaitable that `Queue.get`, `Signal.wait`, `Resource.acquire` and `sleep_ns` return. It needs no frame. */

#include "core.h"

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* the queue, signal or resource, or the duration of a pause */
    PyObject *inner; /* the generator of the Python function, if it handles the wait; else the WakeBatch of a signal */
    PyObject *actor; /* the actor that waits for a signal */
    State state;
} Wait;

#define MANY 64 /* actors and tokens: twice _MANY in waits.py */
#define KEPT 64 /* maximum number of released waits that are kept for reuse, untracked by the garbage collector */
static Wait *kept[KEPT];
static int count_kept;

PyObject *
make_wait(PyObject *owner, State state)
{
    Wait *self;
    if (count_kept) {
        self = kept[--count_kept];
        PyObject_Init((PyObject *)self, Wait_type);
    }
    else {
        self = PyObject_GC_New(Wait, Wait_type);
        if (self == NULL) {
            return NULL;
        }
        self->inner = self->actor = NULL;
    }
    self->owner = Py_NewRef(owner);
    self->state = state;
    if (state != TO_PAUSE || !PyLong_CheckExact(owner)) { /* a wait that refers to a number only is in no cycle */
        PyObject_GC_Track(self);
    }
    return (PyObject *)self;
}

PyObject *
queue_get(PyObject *queue, PyObject *nothing)
{
    return make_wait(queue, TO_GET);
}

PyObject *
signal_wait(PyObject *signal, PyObject *nothing)
{
    return make_wait(signal, TO_WAIT);
}

PyObject *
sleep_ns(PyObject *module, PyObject *delay)
{
    return make_wait(delay, TO_PAUSE);
}

static int
wait_traverse(Wait *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
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

/* Return the name of the function that made a wait (a new reference), or NULL with an error. */
static PyObject *
name_of(Wait *self)
{
    switch (self->state) {
    case TO_GET:
        return PyObject_GetAttr(python_get, s___qualname__);
    case TO_WAIT:
        return PyObject_GetAttr(python_wait, s___qualname__);
    case TO_ACQUIRE:
        return PyObject_GetAttr(python_acquire, s___qualname__);
    default:
        return PyUnicode_FromString("sleep_ns");
    }
}

/* Warn, as Python does for a coroutine, that a wait is dropped without having been awaited. */
static void
warn_unawaited(Wait *self)
{
    PyObject *type, *error, *trace, *name;
    PyErr_Fetch(&type, &error, &trace);
    name = name_of(self);
    if (name == NULL || PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%U' was never awaited", name) < 0) {
        PyErr_WriteUnraisable(name);
    }
    Py_XDECREF(name);
    PyErr_Restore(type, error, trace);
}

static void
wait_dealloc(Wait *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, wait_dealloc)
    if (self->state < PAUSED) {
        warn_unawaited(self);
    }
    wait_clear(self); /* first: it may run arbitrary code, including this function */
    if (count_kept < KEPT) {
        kept[count_kept++] = self;
    }
    else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(type);
    Py_TRASHCAN_END
}

/* Return the running actor if it can be armed here; else NULL, without an error. */
PyObject *
actor_of(PyObject *kernel)
{
    PyObject *actor;
    if (!is_kernel(kernel)) {
        return NULL;
    }
    actor = GET(kernel, Kernel_current);
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

/* Add an actor and its token at the end of the waiting actors. */
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
    Py_ssize_t length = items == Py_None ? 0 : PyObject_Size(items);
    if (length < 0) {
        *result = NULL;
        return PYGEN_ERROR;
    }
    if (length) {
        PyObject *kernel = GET(queue, Queue__kernel);
        if (GET(queue, Queue__putters) == Py_None && is_kernel(kernel) && is_source(GET(kernel, Kernel_current))) {
            self->state = DONE;
            *result = PyObject_CallMethodNoArgs(items, s_popleft);
            return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
        }
    }
    else if (GET(queue, Queue_closed) == Py_False && Py_IS_TYPE(getters, Waiters_type)) {
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
    PySendResult outcome;
    if (actor == NULL || !Py_IS_TYPE(crowd, WakeBatch_type) || !PyList_CheckExact(GET(crowd, WakeBatch_waiting))) {
        return leave_to_python(self, python_wait, result);
    }
    self->inner = Py_NewRef(crowd);
    self->actor = Py_NewRef(actor);
    outcome = arm(self, GET(crowd, WakeBatch_waiting), actor, result);
    put(actor, Actor_via, Py_NewRef(crowd)); /* last: releasing the old value may run code that fires this signal */
    return outcome;
}

/* `Resource.acquire` */
static PySendResult
begin_line(Wait *self, PyObject **result)
{
    switch (begin_acquire(self->owner)) {
    case 0:
        return leave_to_python(self, python_acquire, result);
    case 1:
        self->state = IN_LINE;
        *result = Py_NewRef(armed);
        return PYGEN_NEXT;
    case 2:
        self->state = DONE;
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
    default:
        *result = NULL;
        return PYGEN_ERROR;
    }
}

/* End the wait, and return its value. */
static PyObject *
end_of(Wait *self, PyObject *value)
{
    self->state = DONE;
    if (self->inner == NULL) {
        return Py_NewRef(value);
    }
    put(self->actor, Actor_via, Py_NewRef(Py_None));
    return Py_NewRef(GET(self->inner, WakeBatch_value));
}

static const char reused[] = "cannot reuse already awaited coroutine"; /* what Python says of its own */

static PySendResult
wait_send(Wait *self, PyObject *value, PyObject **result)
{
    if (value != Py_None && self->state < PAUSED) {
        *result = NULL;
        PyErr_SetString(PyExc_TypeError, "can't send a value other than None to a wait that has not started");
        return PYGEN_ERROR;
    }
    switch (self->state) {
    case TO_GET:
        return begin_get(self, result);
    case TO_WAIT:
        return begin_wait(self, result);
    case TO_ACQUIRE:
        return begin_line(self, result);
    case TO_PAUSE:
        self->state = PAUSED;
        *result = Py_NewRef(self->owner);
        return PYGEN_NEXT;
    case IN_LINE:
        self->state = DONE;
        if (hold_slot(self->owner) < 0) {
            *result = NULL;
            return PYGEN_ERROR;
        }
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
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
        PyErr_SetString(PyExc_RuntimeError, reused);
        return PYGEN_ERROR;
    }
}

/* -- A wait returns its value in a StopIteration. Creating one takes half the time of a wake-up, so one is shared. */

static PyObject *stop; /* the shared StopIteration, or NULL */
int stepping;

/* Return whether there are no other references to the shared StopIteration, and it has no traceback or context. */
static int
is_free(void)
{
    PyBaseExceptionObject *one = (PyBaseExceptionObject *)stop;
    return stop != NULL && Py_REFCNT(stop) == 1 && one->traceback == NULL && one->context == NULL &&
           one->cause == NULL && one->dict == NULL;
}

/* After a step: release the value of the shared StopIteration, or replace it by a new one if it is not free. */
void
renew_stop(void)
{
    if (is_free()) {
        Py_CLEAR(((PyStopIterationObject *)stop)->value);
    }
    else {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace); /* the error of the step */
        Py_XSETREF(stop, PyObject_CallNoArgs(PyExc_StopIteration));
        PyErr_Restore(type, error, trace);
    }
}

/* Return a new StopIteration, like `StopIteration(value)` but faster. */
static PyObject *
make_stop(PyObject *value)
{
    PyTypeObject *type = (PyTypeObject *)PyExc_StopIteration;
    PyObject *args = PyTuple_Pack(1, value), *fresh = args == NULL ? NULL : type->tp_alloc(type, 0);
    if (fresh == NULL) {
        Py_XDECREF(args);
        return NULL;
    }
    ((PyBaseExceptionObject *)fresh)->args = args;
    ((PyStopIterationObject *)fresh)->value = Py_NewRef(value);
    return fresh;
}

/* Raise StopIteration with a value. The shared one is used only within a step, because other callers may keep it, and
   only for values without finalizers, because it holds the value until the end of the step. */
static void
stop_with(PyObject *value)
{
    PyObject *carrier = NULL;
    int harmless = PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) ||
                   PyBool_Check(value) || value == Py_None;
    if (stepping && harmless && is_free()) {
        carrier = Py_NewRef(stop);
        Py_XSETREF(((PyStopIterationObject *)stop)->value, Py_NewRef(value));
    }
    else {
        carrier = make_stop(value);
    }
    if (carrier != NULL) {
        PyErr_Restore(Py_NewRef(PyExc_StopIteration), carrier, NULL);
    }
}

/* Return the yielded value, or raise StopIteration with the returned one. If `silent`, a plain NULL stands for None. */
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

/* End the wait because of an error. Return 0, or -1 with another error. */
static int
let_go(Wait *self, PyObject *error)
{
    State before = self->state;
    PyObject *done = NULL;
    self->state = DONE;
    if (before == ARMED && self->inner != NULL) {
        done = PyObject_CallMethodNoArgs(self->inner, s_lose_one);
    }
    else if (before == IN_LINE &&
             (PyErr_GivenExceptionMatches(error, PyExc_Exception) || PyErr_GivenExceptionMatches(error, cancelled))) {
        done = PyObject_CallMethodNoArgs(self->owner, s_serve); /* the actor may have blocked the actors behind it */
    }
    else {
        return 0;
    }
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
    if (self->state == DONE) {
        PyErr_SetString(PyExc_RuntimeError, reused);
        return NULL;
    }
    if (!PyArg_UnpackTuple(args, "throw", 1, 3, &type, &value, &trace) || let_go(self, type) < 0) {
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
    return let_go(self, PyExc_GeneratorExit) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef wait_methods[] = {
    {"send", (PyCFunction)wait_send_method, METH_O, "Resume the wait with a value."},
    {"throw", (PyCFunction)wait_throw, METH_VARARGS, "Raise an error at the place of the wait."},
    {"close", (PyCFunction)wait_close, METH_NOARGS, "End the wait."},
    {NULL},
};

static PyType_Slot wait_slots[] = {
    {Py_tp_doc, "The wait of one actor for one queue, signal or slot."},
    {Py_tp_traverse, wait_traverse},
    {Py_tp_clear, wait_clear},
    {Py_tp_dealloc, wait_dealloc},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, wait_send},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, wait_next},
    {Py_tp_methods, wait_methods},
    {0},
};

PyType_Spec wait_spec = {
    .name = "sim.kernel.compiled._core.Wait",
    .basicsize = sizeof(Wait),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = wait_slots,
};
