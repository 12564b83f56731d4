/* The main loop: `Kernel._run_some`, with the fast paths of `_caused` and `_go_on`. */

#include "core.h"

typedef struct {
    PyObject *loop, *calendar, *ready, *buckets;
    Reader *reader;
    int shift;
    long long begun;
} Run;

/* Return whether the next round has exactly one entry, which is not a WakeBatch, and there is no livelock. */
static int
alone(Run *run)
{
    return PyList_GET_SIZE(run->ready) == 1 && GET(run->loop, Kernel_crowded) == Py_False &&
           same_number(GET(run->loop, Kernel_delta), GET(run->loop, Kernel__max_deltas)) == 0;
}

/* Start the next round, and remove and return its only entry. */
static PyObject *
pop_caused(Run *run)
{
    PyObject *entry;
    take_first(run->ready, &entry, 1);
    if (!is_entry(entry) || put(run->loop, Kernel_delta, plus_one(GET(run->loop, Kernel_delta))) < 0) {
        Py_DECREF(entry);
        return NULL;
    }
    run->begun = number(GET(run->loop, Kernel_now));
    return entry;
}

/* Like `Kernel._caused`: start the next round of this instant, which precedes the entry that would be read next. */
static PyObject *
caused(Run *run)
{
    PyObject *entry;
    if (alone(run)) {
        return pop_caused(run);
    }
    run->reader->index++; /* `_caused` moves it back */
    entry = PyObject_CallMethodNoArgs(run->loop, s__caused);
    if (entry != NULL) {
        run->begun = number(GET(run->loop, Kernel_now));
    }
    return entry;
}

/* Return the entry that runs next. NULL without an error: no entry may run, or Python has to decide. */
static PyObject *
next_entry(Run *run)
{
    Reader *reader = run->reader;
    PyObject *loop = run->loop, *entry;
    long long time, now;
    if (reader->index >= PyList_GET_SIZE(reader->entries)) {
        int nothing_else = PyList_GET_SIZE(GET(run->calendar, FutureEvents__queue)) == 0;
        if (nothing_else && alone(run) && number(GET(loop, Kernel_now)) < number(GET(loop, Kernel__blocked_from))) {
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
        now = number(GET(loop, Kernel_now));
        if (PyList_GET_SIZE(run->ready) && time > now) {
            return now < number(GET(loop, Kernel__blocked_from)) ? caused(run) : NULL;
        }
        if (time >= number(GET(loop, Kernel__horizon))) {
            return NULL;
        }
        run->begun = time;
        put(loop, Kernel_now, Py_NewRef(PyTuple_GET_ITEM(entry, 0)));
        put(loop, Kernel_delta, Py_NewRef(zero));
    }
    reader->index++;
    return Py_NewRef(entry);
}

/* Return the error that is set, with its traceback, and clear it; NULL with an error, if it cannot be made. */
PyObject *
take_error(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) {
        PyException_SetTraceback(error, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
#endif
}

/* Pass the end of an actor to `Kernel._ended`: its returned value, or the error that is set if that is NULL. */
int
ended(PyObject *loop, PyObject *actor, PyObject *returned)
{
    PyObject *error, *done, *handled;
    if (returned != NULL) {
        error = PyObject_CallOneArg(PyExc_StopIteration, returned);
        Py_DECREF(returned);
    }
    else {
        error = take_error();
    }
    if (error == NULL) {
        return -1;
    }
    handled = PyErr_GetHandledException(); /* `_ended` runs as if in an `except` block */
    PyErr_SetHandledException(error);
    done = PyObject_CallMethodObjArgs(loop, s__ended, actor, error, NULL);
    PyErr_SetHandledException(handled);
    Py_XDECREF(handled);
    Py_DECREF(error);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Schedule the end of a pause: add the entry to its bucket if that exists, else call Python. */
static int
rest(Run *run, PyObject *actor, PyObject *request, PyObject *token, long long time)
{
    long long span = number(request);
    PyObject *done;
    if (span > 0 && span < LLONG_MAX - time) {
        PyObject *due = PyLong_FromLongLong(time + span), *turn = PyLong_FromLongLong((time + span) >> run->shift);
        PyObject *bucket = due == NULL || turn == NULL ? NULL : PyDict_GetItemWithError(run->buckets, turn);
        int failed = PyErr_Occurred() ? -1 : 0, found = bucket != NULL;
        if (found) {
            Py_INCREF(bucket);
            failed = append_entry(bucket, due, actor, actor, token);
            Py_DECREF(bucket);
        }
        Py_XDECREF(due);
        Py_XDECREF(turn);
        if (found || failed) {
            return failed;
        }
    }
    done = PyObject_CallMethodObjArgs(run->loop, s__rest, actor, request, token, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Run one step of an actor. The caller has checked that the entry is not stale. */
static int
resume(Run *run, PyObject *entry, PyObject *actor)
{
    long long time = number(PyTuple_GET_ITEM(entry, 0));
    PyObject *request, *coro, *value, *token;
    PySendResult outcome;
    int failed = 0;
    put(run->loop, Kernel_current, Py_NewRef(actor));
    token = PyLong_FromLongLong((number(PyTuple_GET_ITEM(entry, 5)) | 1) + 1);
    if (token == NULL) {
        return -1;
    }
    put(actor, Actor_token, Py_NewRef(token));
    coro = Py_NewRef(GET(actor, Actor_coro));
    value = Py_NewRef(GET(actor, Actor_value));
    stepping++;
    outcome = PyIter_Send(coro, value, &request);
    stepping--;
    renew_stop();
    Py_DECREF(coro);
    Py_DECREF(value);
    if (outcome != PYGEN_NEXT) {
        failed = ended(run->loop, actor, outcome == PYGEN_RETURN ? request : NULL);
    }
    else {
        if (PyLong_CheckExact(request)) {
            failed = rest(run, actor, request, token, time);
        }
        else if (request != armed) {
            PyObject *done = PyObject_CallMethodObjArgs(run->loop, s__arm, actor, request, NULL);
            Py_XDECREF(done);
            failed = done == NULL ? -1 : 0;
        }
        Py_DECREF(request);
    }
    Py_DECREF(token);
    return failed;
}

/* Run an entry, unless it is stale. Return 0, or -1 with an error. */
static int
step(Run *run, PyObject *entry)
{
    PyObject *target = PyTuple_GET_ITEM(entry, 4), *token, *done;
    int valid;
    if (Py_IS_TYPE(target, Actor_type)) {
        valid = same_number(GET(target, Actor_token), PyTuple_GET_ITEM(entry, 5));
        if (valid <= 0) {
            return valid;
        }
        put(run->loop, Kernel__entry, Py_NewRef(entry));
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
    put(run->loop, Kernel__entry, Py_NewRef(entry));
    done = PyObject_CallMethodNoArgs(target, s_fire);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Return the entry of one actor of a WakeBatch. As in `zip`, the tuple of the previous actor is reused if there are no
   other references to it. `counter` is a new reference (stolen), or NULL after an error. */
static PyObject *
member_entry(PyObject *loop, PyObject *before, PyObject *crowded, PyObject *counter, PyObject *actor, PyObject *token)
{
    PyObject *parts[] = {counter, actor, token};
    if (before == NULL || Py_REFCNT(before) != 2 || GET(loop, Kernel__entry) != before) { /* 2: ours and the kernel's */
        Py_XDECREF(before);
        return make_entry(PyTuple_GET_ITEM(crowded, 0), PyTuple_GET_ITEM(crowded, 1), PyTuple_GET_ITEM(crowded, 2),
                          counter, actor, token);
    }
    if (counter == NULL) {
        Py_DECREF(before);
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030E0000
    ((PyTupleObject *)before)->ob_hash = -1; /* clears the cached hash */
#endif
    Py_INCREF(actor);
    Py_INCREF(token);
    for (int part = 0; part < 3; part++) {
        PyObject *old = PyTuple_GET_ITEM(before, part + 3);
        PyTuple_SET_ITEM(before, part + 3, parts[part]);
        parts[part] = old;
    }
    for (int part = 0; part < 3; part++) {
        Py_DECREF(parts[part]);
    }
    return before;
}

/* Move the reader past the entry of a WakeBatch, if that entry is read next. */
static void
leave_reader(Reader *reader, PyObject *entry)
{
    if (reader->index < PyList_GET_SIZE(reader->entries) && PyList_GET_ITEM(reader->entries, reader->index) == entry) {
        reader->index++;
    }
}

/* Return whether the token of an actor or error of a WakeBatch is current, or -1 with an error. */
static int
is_valid(PyObject *target, PyObject *token)
{
    PyObject *present;
    int valid;
    if (Py_IS_TYPE(target, Actor_type)) {
        return same_number(GET(target, Actor_token), token);
    }
    present = PyObject_GetAttr(target, s_token);
    valid = present == NULL ? -1 : PyObject_RichCompareBool(present, token, Py_EQ);
    Py_XDECREF(present);
    return valid;
}

/* Run an actor or error of a WakeBatch whose token is current. */
static int
run_member(Run *run, PyObject *entry)
{
    PyObject *target = PyTuple_GET_ITEM(entry, 4);
    if (!Py_IS_TYPE(target, Actor_type)) {
        return step(run, entry);
    }
    put(run->loop, Kernel__entry, Py_NewRef(entry));
    return resume(run, entry, target);
}

/* Run the actors of a WakeBatch, as if each had its own entry as from `spread` in order.py, up to the budget. The
   WakeBatch stores its position, and its entry stays in the reader until its last actor runs. */
static int
run_crowd(Run *run, PyObject *entry, long long *left)
{
    PyObject *crowd = PyTuple_GET_ITEM(entry, 4), *waiting = GET(crowd, WakeBatch_waiting), *one = NULL;
    long long place;
    int valid = 0;
    if (!PyList_CheckExact(waiting) || !PyLong_CheckExact(GET(crowd, WakeBatch_place))) {
        PyErr_SetString(PyExc_TypeError, "a WakeBatch must have a list of actors and a position");
        return -1;
    }
    Py_INCREF(waiting);
    while (*left > 0 && 2 * (place = number(GET(crowd, WakeBatch_place))) + 1 < PyList_GET_SIZE(waiting)) {
        PyObject *actor = PyList_GET_ITEM(waiting, 2 * place), *token = PyList_GET_ITEM(waiting, 2 * place + 1);
        put(crowd, WakeBatch_place, PyLong_FromLongLong(place + 1));
        if (2 * place + 3 >= PyList_GET_SIZE(waiting)) {
            leave_reader(run->reader, entry);
        }
        if (actor == Py_None) { /* see `WakeBatch.thin_out` */
            continue;
        }
        valid = is_valid(actor, token);
        if (valid > 0) {
            one = member_entry(run->loop, one, entry, Py_NewRef(PyTuple_GET_ITEM(entry, 3)), actor, token);
            valid = one == NULL ? -1 : run_member(run, one);
        }
        if (valid < 0) {
            break;
        }
        --*left;
    }
    if (2 * number(GET(crowd, WakeBatch_place)) + 1 >= PyList_GET_SIZE(waiting)) {
        leave_reader(run->reader, entry); /* for an empty WakeBatch */
    }
    Py_DECREF(waiting);
    Py_XDECREF(one);
    return valid < 0 ? -1 : 0;
}

/* The inner loop: run entries in key order until the reader is at its end or the budget is used up. */
static int
run_entries(Run *run, long long *left)
{
    PyObject *entry;
    while (*left > 0 && (entry = next_entry(run)) != NULL) {
        int failed;
        if (Py_IS_TYPE(PyTuple_GET_ITEM(entry, 4), WakeBatch_type)) {
            run->reader->index--;
            failed = run_crowd(run, entry, left);
        }
        else {
            failed = step(run, entry);
            *left -= !failed;
        }
        Py_DECREF(entry);
        if (failed) {
            return -1;
        }
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* The outer loop: between two buckets or rounds, `Kernel._go_on` gives the next entries, or why none may run. */
static PyObject *
go_on(Run *run, long long *left)
{
    PyObject *loop = run->loop;
    for (;;) {
        PyObject *reader = Py_NewRef(GET(run->calendar, FutureEvents_reader)), *pause;
        int failed;
        if (!Py_IS_TYPE(reader, Reader_type) || !PyList_CheckExact(GET(run->calendar, FutureEvents__queue))) {
            PyErr_SetString(PyExc_TypeError, "the future-event list must have a Reader and a list of bucket numbers");
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
        if (put(loop, Kernel__begun, PyLong_FromLongLong(run->begun)) < 0) {
            return NULL;
        }
        pause = PyObject_CallMethodNoArgs(loop, s__go_on);
        if (pause != Py_None) {
            if (pause != NULL) {
                put(loop, Kernel__midway, Py_NewRef(Py_False));
            }
            return pause;
        }
        Py_DECREF(pause);
        run->begun = number(GET(loop, Kernel__begun));
    }
}

/* `Kernel._run_some` */
PyObject *
run_some(PyObject *loop, PyObject *most)
{
    long long budget = PyLong_AsLongLong(most), left = budget;
    PyObject *pause, *type, *error, *trace;
    Run run;
    if (budget == -1 && PyErr_Occurred()) {
        return NULL;
    }
    run.loop = loop;
    run.calendar = Py_NewRef(GET(loop, Kernel_calendar));
    if (!PyObject_TypeCheck(run.calendar, FutureEvents_type)) {
        PyErr_SetString(PyExc_TypeError, "the kernel must have a FutureEvents object as its calendar");
        Py_DECREF(run.calendar);
        return NULL;
    }
    run.ready = Py_NewRef(GET(loop, Kernel_ready));
    run.buckets = Py_NewRef(GET(run.calendar, FutureEvents_buckets));
    run.begun = number(GET(loop, Kernel__begun));
    put(loop, Kernel__midway, Py_NewRef(Py_True));
    if (PyList_CheckExact(run.ready) && PyDict_CheckExact(run.buckets)) {
        pause = go_on(&run, &left);
    }
    else {
        PyErr_SetString(PyExc_TypeError, "the kernel must have a list of ready entries and a dict of buckets");
        pause = NULL;
    }
    PyErr_Fetch(&type, &error, &trace); /* the state of the kernel is stored after an error, too */
    put(loop, Kernel__begun, PyLong_FromLongLong(run.begun));
    put(loop, Kernel_current, Py_NewRef(Py_None));
    put(loop, Kernel_steps, PyLong_FromLongLong(number(GET(loop, Kernel_steps)) + budget - left));
    PyErr_Restore(type, error, trace);
    Py_DECREF(run.calendar);
    Py_DECREF(run.ready);
    Py_DECREF(run.buckets);
    return pause;
}
