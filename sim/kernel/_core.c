/* The hot paths of the kernel once more, in C.

Every function here does what the Python function of the same name does (`Loop._run_some` in loop.py, the waits in
waits.py); see there for why. The data stays in the Python classes: `take_over` looks up where their slots are and puts
these functions in the place of the Python ones. What is rare is left to the Python function, so its rules are written
once. Without a compiler the package is complete all the same, and slower; the order of a run is the same.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <structmember.h>

/* -- where the slots of the Python classes are */

#define SLOTS(X)                                                                                                       \
    X(Source, counter) X(Source, name) X(Source, ordinal)                                                                             \
    X(Actor, cancelling) X(Actor, coro) X(Actor, token) X(Actor, value) X(Actor, via)                                  \
    X(Loop, now) X(Loop, delta) X(Loop, steps) X(Loop, current) X(Loop, calendar) X(Loop, ready) X(Loop, crowded)      \
    X(Loop, _max_deltas) X(Loop, _entry) X(Loop, _begun) X(Loop, _horizon) X(Loop, _blocked_from) X(Loop, _midway)     \
    X(Kernel, recorder)                                                                                                \
    X(FutureEvents, buckets) X(FutureEvents, reader) X(FutureEvents, shift) X(FutureEvents, _queue)                    \
    X(Crowd, value) X(Crowd, waiting)                                                                                  \
    X(Signal, _crowd) X(Signal, _kernel)                                                                               \
    X(Waiters, actors)                                                                                                 \
    X(Queue, _getters) X(Queue, _kernel) X(Queue, _putters) X(Queue, closed) X(Queue, items) X(Queue, limit)

#define DECLARE(class, name) static Py_ssize_t class##_##name;
SLOTS(DECLARE)

#define CLASSES(X) X(Source) X(Actor) X(Loop) X(Kernel) X(FutureEvents) X(Crowd) X(Signal) X(Waiters) X(Queue)

#define DECLARE_CLASS(class) static PyTypeObject *class##_type;
CLASSES(DECLARE_CLASS)

#define PLACE(object, slot) (*(PyObject **)((char *)(object) + (slot)))

/* What a slot holds: a borrowed reference, None if it was never filled. */
static inline PyObject *
GET(PyObject *object, Py_ssize_t slot)
{
    PyObject *value = PLACE(object, slot);
    return value == NULL ? Py_None : value;
}

static PyObject *armed, *budget_is_spent;              /* what Python knows as ARMED and Pause.BUDGET */
static PyObject *python_emit, *python_get, *python_put, *python_wait, *python_wake; /* the Python functions, for what is rare */
static PyObject *zero;
static PyObject *stop; /* the StopIteration that carries what a wait returns */

/* Names of methods and attributes. */
static PyObject *s_append, *s_arm, *s_caused, *s_close, *s_ended, *s_event, *s_fire, *s_go_on, *s_lose_one, *s_popleft, *s_rest,
    *s_throw, *s_token;

/* Put `value`, a reference of its own or NULL after an error, into a slot. */
static int
put(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject *before = PLACE(object, slot);
    if (value == NULL) {
        return -1;
    }
    PLACE(object, slot) = value;
    Py_XDECREF(before);
    return 0;
}

/* A number of Python as one of C; one that is too large is the largest there is, which is later than all times. */
static long long
number(PyObject *object)
{
    int overflow;
    long long value;
#if PY_VERSION_HEX >= 0x030C0000
    if (PyLong_CheckExact(object) && PyUnstable_Long_IsCompact((PyLongObject *)object)) {
        return PyUnstable_Long_CompactValue((PyLongObject *)object);
    }
#endif
    value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow > 0 ? LLONG_MAX : overflow < 0 ? LLONG_MIN : value;
}

static int
same_number(PyObject *one, PyObject *other)
{
    return one == other || number(one) == number(other);
}

static PyObject *
plus_one(PyObject *object)
{
    return PyLong_FromLongLong(number(object) + 1);
}

/* Remove the first item of a list that has one, and return it; the list keeps its memory, for it is soon filled again. */
static PyObject *
take_first(PyObject *list)
{
    PyObject **items = ((PyListObject *)list)->ob_item, *first = items[0];
    Py_ssize_t left = PyList_GET_SIZE(list) - 1;
    memmove(items, items + 1, (size_t)left * sizeof(*items));
    Py_SET_SIZE(list, left);
    return first;
}

/* A new entry; `counter` is a reference of its own, or NULL after an error. */
static PyObject *
make_entry(PyObject *time, PyObject *priority, PyObject *ordinal, PyObject *counter, PyObject *target, PyObject *token)
{
    PyObject *entry = counter == NULL ? NULL : PyTuple_New(6);
    if (entry == NULL) {
        Py_XDECREF(counter);
        return NULL;
    }
    PyTuple_SET_ITEM(entry, 0, Py_NewRef(time));
    PyTuple_SET_ITEM(entry, 1, Py_NewRef(priority));
    PyTuple_SET_ITEM(entry, 2, Py_NewRef(ordinal));
    PyTuple_SET_ITEM(entry, 3, counter);
    PyTuple_SET_ITEM(entry, 4, Py_NewRef(target));
    PyTuple_SET_ITEM(entry, 5, Py_NewRef(token));
    return entry;
}

/* Append (time, 0, the source's ordinal, the source's next counter, target, token) to a list. */
static int
append_entry(PyObject *list, PyObject *time, PyObject *source, PyObject *target, PyObject *token)
{
    PyObject *counter = plus_one(GET(source, Source_counter)), *entry;
    int failed;
    if (counter != NULL) {
        put(source, Source_counter, Py_NewRef(counter));
    }
    entry = make_entry(time, zero, GET(source, Source_ordinal), counter, target, token);
    if (entry == NULL) {
        return -1;
    }
    failed = PyList_Append(list, entry);
    Py_DECREF(entry);
    return failed;
}

/* -- Reader: an iterator over a list that the loop can look into */

typedef struct {
    PyObject_HEAD
    PyObject *entries; /* a list */
    Py_ssize_t index;  /* of what is read next */
} Reader;

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
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->entries);
    Py_TYPE(self)->tp_free((PyObject *)self);
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
    {"__length_hint__", (PyCFunction)reader_length_hint, METH_NOARGS, "Return how many entries are left."},
    {"__setstate__", (PyCFunction)reader_set_state, METH_O, "Go to an index."},
    {NULL},
};

static PyTypeObject Reader_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "sim.kernel._core.Reader",
    .tp_doc = "An iterator over a list; it sees what is added behind it.",
    .tp_basicsize = sizeof(Reader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = reader_new,
    .tp_traverse = (traverseproc)reader_traverse,
    .tp_clear = (inquiry)reader_clear,
    .tp_dealloc = (destructor)reader_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)reader_next,
    .tp_methods = reader_methods,
};

/* -- the loop */

typedef struct {
    PyObject *loop, *calendar, *ready, *buckets;
    Reader *reader;
    int shift;
    long long begun;
} Run;

/* Whether an object is a tuple as long as an entry; else an error is set. */
static int
is_entry(PyObject *object)
{
    if (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == 6) {
        return 1;
    }
    PyErr_SetString(PyExc_TypeError, "what is in the calendar is no entry");
    return 0;
}

static int
alone(Run *run)
{
    return PyList_GET_SIZE(run->ready) == 1 && GET(run->loop, Loop_crowded) == Py_False &&
           !same_number(GET(run->loop, Loop_delta), GET(run->loop, Loop__max_deltas));
}

/* Take the only entry that was caused at this instant. */
static PyObject *
pop_caused(Run *run)
{
    PyObject *entry = take_first(run->ready);
    if (!is_entry(entry) || put(run->loop, Loop_delta, plus_one(GET(run->loop, Loop_delta))) < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    run->begun = number(GET(run->loop, Loop_now));
    return entry;
}

/* What `Loop._caused` does: what was caused at this instant comes before the entry that is read next. */
static PyObject *
caused(Run *run)
{
    PyObject *entry;
    if (alone(run)) {
        return pop_caused(run);
    }
    run->reader->index++; /* `_caused` gives it back */
    entry = PyObject_CallMethodNoArgs(run->loop, s_caused);
    run->begun = number(GET(run->loop, Loop_now));
    return entry;
}

/* The entry that runs next, or NULL, which is no error if none is set: then nothing may run, or Python has to decide. */
static PyObject *
next_entry(Run *run)
{
    Reader *reader = run->reader;
    PyObject *loop = run->loop, *entry;
    long long time, now;
    if (reader->index >= PyList_GET_SIZE(reader->entries)) {
        int nothing_else = PyList_GET_SIZE(GET(run->calendar, FutureEvents__queue)) == 0;
        if (nothing_else && alone(run) && number(GET(loop, Loop_now)) < number(GET(loop, Loop__blocked_from))) {
            return pop_caused(run);
        }
        return NULL;
    }
    entry = PyList_GET_ITEM(reader->entries, reader->index);
    if (!is_entry(entry)) {
        return NULL;
    }
    time = number(PyTuple_GET_ITEM(entry, 0));
    if (time != run->begun) {
        now = number(GET(loop, Loop_now));
        if (PyList_GET_SIZE(run->ready) && time > now) {
            return now < number(GET(loop, Loop__blocked_from)) ? caused(run) : NULL;
        }
        if (time >= number(GET(loop, Loop__horizon))) {
            return NULL;
        }
        run->begun = time;
        put(loop, Loop_now, Py_NewRef(PyTuple_GET_ITEM(entry, 0)));
        put(loop, Loop_delta, Py_NewRef(zero));
    }
    reader->index++;
    return Py_NewRef(entry);
}

/* Tell the loop how a step ended: with what it returned, or with the error that is set. */
static int
ended(PyObject *loop, PyObject *actor, PyObject *returned)
{
    PyObject *error, *done;
    if (returned != NULL) {
        error = PyObject_CallOneArg(PyExc_StopIteration, returned);
        Py_DECREF(returned);
    }
    else {
#if PY_VERSION_HEX >= 0x030C0000
        error = PyErr_GetRaisedException();
#else
        PyObject *type, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyErr_NormalizeException(&type, &error, &trace);
        if (trace != NULL) {
            PyException_SetTraceback(error, trace);
        }
        Py_XDECREF(type);
        Py_XDECREF(trace);
#endif
    }
    if (error == NULL) {
        return -1;
    }
    done = PyObject_CallMethodObjArgs(loop, s_ended, actor, error, NULL);
    Py_DECREF(error);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* An actor rests for a span of time: into its bucket, if that exists already. */
static int
rest(Run *run, PyObject *actor, PyObject *request, PyObject *token, long long time)
{
    long long span = number(request);
    PyObject *done;
    if (span > 0 && span <= LLONG_MAX - time) {
        PyObject *due = PyLong_FromLongLong(time + span), *turn = PyLong_FromLongLong((time + span) >> run->shift);
        PyObject *bucket = due == NULL || turn == NULL ? NULL : PyDict_GetItemWithError(run->buckets, turn);
        int failed = bucket == NULL ? 0 : append_entry(bucket, due, actor, actor, token);
        Py_XDECREF(due);
        Py_XDECREF(turn);
        if (bucket != NULL || PyErr_Occurred()) {
            return bucket == NULL ? -1 : failed;
        }
    }
    done = PyObject_CallMethodObjArgs(run->loop, s_rest, actor, request, token, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Run one step of an actor, whose token has been found to be that of the entry. */
static int
resume(Run *run, PyObject *entry, PyObject *actor)
{
    long long time = number(PyTuple_GET_ITEM(entry, 0));
    PyObject *request, *coro, *value, *token;
    PySendResult outcome;
    int failed = 0;
    put(run->loop, Loop_current, Py_NewRef(actor));
    token = PyLong_FromLongLong((number(PyTuple_GET_ITEM(entry, 5)) | 1) + 1);
    if (token == NULL) {
        return -1;
    }
    put(actor, Actor_token, Py_NewRef(token));
    coro = Py_NewRef(GET(actor, Actor_coro));
    value = Py_NewRef(GET(actor, Actor_value));
    outcome = PyIter_Send(coro, value, &request);
    Py_DECREF(coro);
    Py_DECREF(value);
    if (Py_REFCNT(stop) == 1) {
        Py_CLEAR(((PyStopIterationObject *)stop)->value); /* the actor has it */
    }
    if (outcome != PYGEN_NEXT) {
        failed = ended(run->loop, actor, outcome == PYGEN_RETURN ? request : NULL);
    }
    else {
        if (PyLong_CheckExact(request)) {
            failed = rest(run, actor, request, token, time);
        }
        else if (request != armed) {
            PyObject *done = PyObject_CallMethodObjArgs(run->loop, s_arm, actor, request, NULL);
            Py_XDECREF(done);
            failed = done == NULL ? -1 : 0;
        }
        Py_DECREF(request);
    }
    Py_DECREF(token);
    return failed;
}

/* Run what an entry is for, unless it is stale. */
static int
step(Run *run, PyObject *entry)
{
    PyObject *target = PyTuple_GET_ITEM(entry, 4), *token, *done;
    int valid;
    if (Py_IS_TYPE(target, Actor_type)) {
        if (!same_number(GET(target, Actor_token), PyTuple_GET_ITEM(entry, 5))) {
            return 0;
        }
        put(run->loop, Loop__entry, Py_NewRef(entry));
        return resume(run, entry, target);
    }
    token = PyObject_GetAttr(target, s_token);
    if (token == NULL) {
        return -1;
    }
    valid = PyObject_RichCompareBool(token, PyTuple_GET_ITEM(entry, 5), Py_EQ);
    Py_DECREF(token);
    if (valid <= 0) {
        return valid;
    }
    put(run->loop, Loop__entry, Py_NewRef(entry));
    done = PyObject_CallMethodNoArgs(target, s_fire);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* This is the loop: in key order, what is due runs until nothing is left in the reader, or of the budget. */
static int
run_entries(Run *run, long long *left)
{
    PyObject *entry;
    while (*left > 0 && (entry = next_entry(run)) != NULL) {
        int failed = step(run, entry);
        Py_DECREF(entry);
        if (failed) {
            return -1;
        }
        --*left;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
go_on(Run *run, long long *left)
{
    PyObject *loop = run->loop;
    for (;;) {
        PyObject *reader = Py_NewRef(GET(run->calendar, FutureEvents_reader)), *pause;
        int failed;
        if (!Py_IS_TYPE(reader, &Reader_Type) || !PyList_CheckExact(GET(run->calendar, FutureEvents__queue))) {
            PyErr_SetString(PyExc_TypeError, "the calendar is not in order");
            Py_DECREF(reader);
            return NULL;
        }
        run->reader = (Reader *)reader;
        run->shift = (int)number(GET(run->calendar, FutureEvents_shift));
        failed = run_entries(run, left);
        Py_DECREF(reader);
        if (failed) {
            return NULL;
        }
        if (*left <= 0) {
            return Py_NewRef(budget_is_spent);
        }
        if (put(loop, Loop__begun, PyLong_FromLongLong(run->begun)) < 0) {
            return NULL;
        }
        pause = PyObject_CallMethodNoArgs(loop, s_go_on);
        if (pause != Py_None) {
            if (pause != NULL) {
                put(loop, Loop__midway, Py_NewRef(Py_False));
            }
            return pause;
        }
        Py_DECREF(pause);
        run->begun = number(GET(loop, Loop__begun));
    }
}

static PyObject *
run_some(PyObject *loop, PyObject *most)
{
    long long budget = PyLong_AsLongLong(most), left = budget;
    PyObject *pause, *type, *error, *trace;
    Run run;
    if (budget == -1 && PyErr_Occurred()) {
        return NULL;
    }
    run.loop = loop;
    run.calendar = Py_NewRef(GET(loop, Loop_calendar));
    if (!PyObject_TypeCheck(run.calendar, FutureEvents_type)) {
        PyErr_SetString(PyExc_TypeError, "the loop has no calendar");
        Py_DECREF(run.calendar);
        return NULL;
    }
    run.ready = Py_NewRef(GET(loop, Loop_ready));
    run.buckets = Py_NewRef(GET(run.calendar, FutureEvents_buckets));
    run.begun = number(GET(loop, Loop__begun));
    put(loop, Loop__midway, Py_NewRef(Py_True));
    if (PyList_CheckExact(run.ready) && PyDict_CheckExact(run.buckets)) {
        pause = go_on(&run, &left);
    }
    else {
        PyErr_SetString(PyExc_TypeError, "the loop is not in order");
        pause = NULL;
    }
    PyErr_Fetch(&type, &error, &trace); /* whatever happened, the loop is left in order */
    put(loop, Loop__begun, PyLong_FromLongLong(run.begun));
    put(loop, Loop_current, Py_NewRef(Py_None));
    put(loop, Loop_steps, PyLong_FromLongLong(number(GET(loop, Loop_steps)) + budget - left));
    PyErr_Restore(type, error, trace);
    Py_DECREF(run.calendar);
    Py_DECREF(run.ready);
    Py_DECREF(run.buckets);
    return pause;
}

/* -- Wait: what `Queue.get`, `Signal.wait` and `sleep_ns` return. It is awaited without a frame of its own. */

typedef enum { TO_GET, TO_WAIT, TO_PAUSE, PAUSED, ARMED, LEFT_TO_PYTHON, DONE } State;

typedef struct {
    PyObject_HEAD
    PyObject *owner; /* the queue or signal, or how long to pause */
    PyObject *inner; /* the generator of the Python function, if that does it; else the crowd of a signal */
    PyObject *actor; /* who waits for a signal */
    State state;
} Wait;

static PyTypeObject Wait_Type;

#define MOST_ARGUMENTS 4 /* of a function that is replaced */
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

static PyObject *
queue_get(PyObject *queue, PyObject *nothing)
{
    return make(queue, TO_GET);
}

static PyObject *
signal_wait(PyObject *signal, PyObject *nothing)
{
    return make(signal, TO_WAIT);
}

static PyObject *
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
    if (count_kept < KEPT) {
        Py_SET_REFCNT(self, 1);
        wait_clear(self);
        kept[count_kept++] = self;
        return;
    }
    PyObject_GC_UnTrack(self);
    wait_clear(self);
    PyObject_GC_Del(self);
}

static int
is_kernel(PyObject *object)
{
    static PyTypeObject *seen; /* looking through the bases takes longer than all the rest */
    if (!Py_IS_TYPE(object, seen)) {
        if (!PyObject_TypeCheck(object, Loop_type)) {
            return 0;
        }
        Py_XSETREF(seen, (PyTypeObject *)Py_NewRef(Py_TYPE(object)));
    }
    return 1;
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

/* Return what was yielded; or raise StopIteration with what was returned, for which NULL alone is enough if it is None. */
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

/* Nobody waits any more; -1 with an error, which hides another one that may be set. */
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
    else {
        PyErr_SetObject(type, value);
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

static PyTypeObject Wait_Type = {
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

/* -- Kernel.wake and Kernel.emit */

/* Call the Python function that was replaced, with the same arguments. */
static PyObject *
in_python(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *all[MOST_ARGUMENTS + 1];
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (count + named > MOST_ARGUMENTS) {
        PyErr_SetString(PyExc_TypeError, "too many arguments");
        return NULL;
    }
    all[0] = self;
    for (Py_ssize_t index = 0; index < count + named; index++) {
        all[index + 1] = args[index];
    }
    return PyObject_Vectorcall(function, all, (size_t)count + 1, names);
}

/* Decide the wait of an actor, on behalf of a source. */
static int
decide(PyObject *kernel, PyObject *source, PyObject *actor, PyObject *value, PyObject *via)
{
    PyObject *token = plus_one(GET(actor, Actor_token));
    int failed;
    if (token == NULL) {
        return -1;
    }
    put(actor, Actor_token, Py_NewRef(token));
    put(actor, Actor_value, Py_NewRef(value));
    put(actor, Actor_via, Py_NewRef(via));
    failed = append_entry(GET(kernel, Loop_ready), GET(kernel, Loop_now), source, actor, token);
    Py_DECREF(token);
    return failed;
}

static PyObject *
wake(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *source = count == 4 && args[3] != Py_None ? args[3] : GET(kernel, Loop_current);
    if (names != NULL || count < 3 || count > 4 || !PyObject_TypeCheck(args[0], Actor_type) ||
        !PyObject_TypeCheck(source, Source_type)) {
        return in_python(python_wake, kernel, args, count, names);
    }
    if (decide(kernel, source, args[0], args[1], args[2]) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
emit(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *source = GET(kernel, Loop_current), *entry = GET(kernel, Loop__entry);
    PyObject *counter, *ordinal, *cause, *row, *done, *actor;
    if (names != NULL || count < 2 || count > 3 || !PyObject_TypeCheck(source, Source_type) || !is_entry(entry)) {
        return PyErr_Occurred() ? NULL : in_python(python_emit, kernel, args, count, names);
    }
    counter = plus_one(GET(source, Source_counter));
    if (counter == NULL || put(source, Source_counter, Py_NewRef(counter)) < 0) {
        return NULL;
    }
    ordinal = GET(source, Source_ordinal);
    actor = count == 3 && PyObject_IsTrue(args[2]) > 0 ? args[2] : GET(source, Source_name);
    cause = PyTuple_Pack(2, PyTuple_GET_ITEM(entry, 2), PyTuple_GET_ITEM(entry, 3));
    row = cause == NULL ? NULL
                        : PyTuple_Pack(9, GET(kernel, Loop_now), GET(kernel, Loop_delta), zero, ordinal, counter, actor,
                                       args[0], args[1], cause);
    Py_XDECREF(cause);
    cause = row == NULL ? NULL : PyTuple_Pack(2, ordinal, counter); /* the event's own identity */
    Py_DECREF(counter);
    done = cause == NULL ? NULL : PyObject_CallMethodOneArg(GET(kernel, Kernel_recorder), s_event, row);
    Py_XDECREF(row);
    if (done == NULL) {
        Py_XDECREF(cause);
        return NULL;
    }
    Py_DECREF(done);
    return cause;
}

/* -- Queue.put_nowait */

/* Hand an item to who waits first: 1 if someone did, 0 if nobody, -1 with an error. */
static int
hand_over(PyObject *queue, PyObject *kernel, PyObject *source, PyObject *waiting, PyObject *item)
{
    while (PyList_GET_SIZE(waiting) > 1) {
        PyObject *actor = take_first(waiting), *token = take_first(waiting);
        int found = 0;
        if (PyObject_TypeCheck(actor, Actor_type) && same_number(GET(actor, Actor_token), token)) {
            found = decide(kernel, source, actor, item, queue) < 0 ? -1 : 1;
        }
        Py_DECREF(actor);
        Py_DECREF(token);
        if (found) {
            return found;
        }
    }
    return 0;
}

static PyObject *
put_nowait(PyObject *queue, PyObject *item)
{
    PyObject *kernel = GET(queue, Queue__kernel), *getters = GET(queue, Queue__getters), *items, *source, *done;
    if (GET(queue, Queue_closed) != Py_False || !is_kernel(kernel)) {
        return PyObject_CallFunctionObjArgs(python_put, queue, item, NULL);
    }
    source = GET(kernel, Loop_current);
    if (source == Py_None) {
        return PyObject_CallFunctionObjArgs(python_put, queue, item, NULL);
    }
    if (getters != Py_None && GET(getters, Waiters_actors) != Py_None) {
        PyObject *waiting = GET(getters, Waiters_actors);
        int found;
        if (!PyList_CheckExact(waiting)) {
            return PyObject_CallFunctionObjArgs(python_put, queue, item, NULL);
        }
        found = hand_over(queue, kernel, source, waiting, item);
        if (found) {
            return found < 0 ? NULL : Py_NewRef(Py_True);
        }
    }
    items = GET(queue, Queue_items);
    if (items == Py_None) {
        return PyObject_CallFunctionObjArgs(python_put, queue, item, NULL);
    }
    if (PyObject_Size(items) >= number(GET(queue, Queue_limit))) {
        Py_RETURN_FALSE;
    }
    done = PyObject_CallMethodOneArg(items, s_append, item);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    Py_RETURN_TRUE;
}

/* -- spread */

/* The actors and tokens of the crowd that an entry stands for, a list; NULL if it stands for itself, or with an error. */
static PyObject *
crowd_of(PyObject *entry)
{
    PyObject *waiting;
    if (!is_entry(entry) || !Py_IS_TYPE(PyTuple_GET_ITEM(entry, 4), Crowd_type)) {
        return NULL;
    }
    waiting = GET(PyTuple_GET_ITEM(entry, 4), Crowd_waiting);
    if (!PyList_CheckExact(waiting)) {
        PyErr_SetString(PyExc_TypeError, "a crowd is a list");
        return NULL;
    }
    return waiting;
}

static PyObject *
spread(PyObject *module, PyObject *batch)
{
    PyObject *list, *waiting;
    Py_ssize_t length = 0, filled = 0;
    if (!PyList_CheckExact(batch)) {
        PyErr_SetString(PyExc_TypeError, "a batch is a list");
        return NULL;
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(batch); index++) {
        waiting = crowd_of(PyList_GET_ITEM(batch, index));
        length += waiting == NULL ? 1 : PyList_GET_SIZE(waiting) / 2;
    }
    list = PyErr_Occurred() ? NULL : PyList_New(length);
    for (Py_ssize_t index = 0; list != NULL && index < PyList_GET_SIZE(batch); index++) {
        PyObject *entry = PyList_GET_ITEM(batch, index);
        waiting = crowd_of(entry);
        if (waiting == NULL) {
            if (filled < length) {
                PyList_SET_ITEM(list, filled++, Py_NewRef(entry));
            }
            continue;
        }
        long long counter = number(PyTuple_GET_ITEM(entry, 3));
        for (Py_ssize_t place = 0; place + 1 < PyList_GET_SIZE(waiting) && filled < length; place += 2) {
            PyObject *one = make_entry(PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1),
                                       PyTuple_GET_ITEM(entry, 2), PyLong_FromLongLong(counter++),
                                       PyList_GET_ITEM(waiting, place), PyList_GET_ITEM(waiting, place + 1));
            if (one == NULL) {
                Py_DECREF(list);
                return NULL;
            }
            PyList_SET_ITEM(list, filled++, one);
        }
    }
    if (list != NULL && filled != length) {
        PyErr_SetString(PyExc_RuntimeError, "a crowd changed while it was spread");
        Py_CLEAR(list);
    }
    return list;
}

/* -- taking over */

static PyMethodDef method_run_some = {"_run_some", run_some, METH_O, "See `Loop._run_some`."};
static PyMethodDef method_get = {"get", queue_get, METH_NOARGS, "Wait for the next item and return it."};
static PyMethodDef method_wait = {"wait", signal_wait, METH_NOARGS, "Wait until the signal is fired; return its value."};
static PyMethodDef method_emit = {"emit", (PyCFunction)(void (*)(void))emit, METH_FASTCALL | METH_KEYWORDS,
                                  "Record that something happened and return its identity."};
static PyMethodDef method_wake = {"wake", (PyCFunction)(void (*)(void))wake, METH_FASTCALL | METH_KEYWORDS,
                                  "Decide the wait of an actor."};
static PyMethodDef method_put = {"put_nowait", put_nowait, METH_O, "Add an item; return whether there was room."};

/* Put a function in the place of a method, which is returned. */
static PyObject *
replace(PyTypeObject *type, PyMethodDef *definition)
{
    PyObject *before = PyObject_GetAttrString((PyObject *)type, definition->ml_name);
    PyObject *descriptor = before == NULL ? NULL : PyDescr_NewMethod(type, definition);
    if (descriptor == NULL || PyObject_SetAttrString((PyObject *)type, definition->ml_name, descriptor) < 0) {
        Py_CLEAR(before);
    }
    Py_XDECREF(descriptor);
    return before;
}

static int
find_slot(PyTypeObject *type, const char *name, Py_ssize_t *offset)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
    if (descriptor == NULL) {
        return -1;
    }
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", type->tp_name, name);
        Py_DECREF(descriptor);
        return -1;
    }
    *offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_DECREF(descriptor);
    return 0;
}

static int
find_class(PyObject *classes, const char *name, PyTypeObject **type)
{
    PyObject *found = PyMapping_GetItemString(classes, name);
    if (found == NULL) {
        return -1;
    }
    *type = (PyTypeObject *)found; /* kept for as long as the process lasts */
    return 0;
}

static PyObject *
take_over(PyObject *module, PyObject *args)
{
    PyObject *classes, *python_run;
    if (!PyArg_ParseTuple(args, "O!OO:take_over", &PyDict_Type, &classes, &armed, &budget_is_spent)) {
        return NULL;
    }
    Py_INCREF(armed);
    Py_INCREF(budget_is_spent);
#define FIND_CLASS(class)                                                                                              \
    if (find_class(classes, #class, &class##_type) < 0) {                                                              \
        return NULL;                                                                                                   \
    }
    CLASSES(FIND_CLASS)
#define FIND_SLOT(class, name)                                                                                         \
    if (find_slot(class##_type, #name, &class##_##name) < 0) {                                                         \
        return NULL;                                                                                                   \
    }
    SLOTS(FIND_SLOT)
    python_get = replace(Queue_type, &method_get);
    python_put = replace(Queue_type, &method_put);
    python_wait = replace(Signal_type, &method_wait);
    python_emit = replace(Kernel_type, &method_emit);
    python_wake = replace(Kernel_type, &method_wake);
    python_run = replace(Loop_type, &method_run_some);
    if (python_emit == NULL || python_wake == NULL || python_get == NULL || python_put == NULL || python_wait == NULL || python_run == NULL) {
        return NULL;
    }
    Py_DECREF(python_run);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"sleep_ns", sleep_ns, METH_O, "Pause the actor for whole nanoseconds of simulated time."},
    {"spread", spread, METH_O, "See `spread` in order.py."},
    {"take_over", take_over, METH_VARARGS, "Put the functions of this module in the place of those in Python."},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sim.kernel._core",
    .m_doc = "The hot paths of the kernel in C.",
    .m_size = -1,
    .m_methods = functions,
};

static int
intern_names(void)
{
    struct {
        PyObject **place;
        const char *name;
    } names[] = {
        {&s_append, "append"}, {&s_arm, "_arm"}, {&s_caused, "_caused"}, {&s_close, "close"}, {&s_ended, "_ended"}, {&s_event, "event"},
        {&s_fire, "fire"}, {&s_go_on, "_go_on"}, {&s_lose_one, "lose_one"}, {&s_popleft, "popleft"},
        {&s_rest, "_rest"}, {&s_throw, "throw"}, {&s_token, "token"},
    };
    for (size_t index = 0; index < sizeof(names) / sizeof(*names); index++) {
        *names[index].place = PyUnicode_InternFromString(names[index].name);
        if (*names[index].place == NULL) {
            return -1;
        }
    }
    zero = PyLong_FromLong(0);
    stop = PyObject_CallNoArgs(PyExc_StopIteration);
    return zero == NULL || stop == NULL ? -1 : 0;
}

PyMODINIT_FUNC
PyInit__core(void)
{
    PyObject *self;
    if (PyType_Ready(&Reader_Type) < 0 || PyType_Ready(&Wait_Type) < 0 || intern_names() < 0) {
        return NULL;
    }
    self = PyModule_Create(&module);
    if (self != NULL && PyModule_AddObjectRef(self, "Reader", (PyObject *)&Reader_Type) < 0) {
        Py_CLEAR(self);
    }
    return self;
}
