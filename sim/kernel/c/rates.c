/* `RateTracker.blocked`, `blocked_by` and `consume`, where no window looks full. */

#include "core.h"

#define RATE_SLOTS(X)                                                                                                  \
    X(RateTracker, _kernel) X(RateTracker, _plans) X(RateTracker, _tallies) X(Tally, granted) X(Window, entries)       \
    X(Window, limit) X(Window, queue) X(Window, resource) X(Window, used)

#define OWN_SLOT(class, name) static Py_ssize_t class##_##name;
RATE_SLOTS(OWN_SLOT)
static PyTypeObject *RateTracker_type, *Tally_type, *Window_type;
static PyObject *python_blocked, *python_blocked_by, *python_consume;

/* The windows of an agent, a tuple; NULL if they are not known yet, or with an error. */
static PyObject *
plan_of(PyObject *tracker, PyObject *agent_id)
{
    PyObject *plans = GET(tracker, RateTracker__plans), *plan;
    plan = PyDict_CheckExact(plans) && PyUnicode_CheckExact(agent_id) ? PyDict_GetItemWithError(plans, agent_id) : NULL;
    return plan != NULL && PyTuple_CheckExact(plan) ? Py_NewRef(plan) : NULL;
}

/* How many units more than are used may be taken of a window without a closer look; below 0 if one is needed. */
static long long
room_at_least(PyObject *window)
{
    long long used, limit;
    if (!Py_IS_TYPE(window, Window_type) || !PyLong_CheckExact(GET(window, Window_used)) ||
        !PyLong_CheckExact(GET(window, Window_limit))) {
        return -1;
    }
    used = number(GET(window, Window_used));
    limit = number(GET(window, Window_limit));
    return used < 0 ? -1 : limit - used;
}

static PyObject *
tracker_blocked(PyObject *tracker, PyObject *agent_id)
{
    PyObject *plan = plan_of(tracker, agent_id);
    Py_ssize_t index = 0, count = plan == NULL ? -1 : PyTuple_GET_SIZE(plan);
    while (index < count && room_at_least(PyTuple_GET_ITEM(plan, index)) > 0) {
        index++;
    }
    Py_XDECREF(plan);
    if (index == count) {
        Py_RETURN_NONE;
    }
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(python_blocked, tracker, agent_id, NULL);
}

/* Whether a window has room for what `costs` take of its resource; -1 with an error. */
static int
has_room(PyObject *window, PyObject *costs)
{
    long long room = room_at_least(window), needed;
    PyObject *resource, *amount;
    if (room < 0) {
        return 0;
    }
    resource = GET(window, Window_resource);
    if (!PyUnicode_CheckExact(resource)) {
        return 0;
    }
    Py_INCREF(resource);
    amount = PyDict_GetItemWithError(costs, resource);
    Py_DECREF(resource);
    if (amount == NULL) {
        return PyErr_Occurred() ? -1 : 1;
    }
    needed = PyLong_CheckExact(amount) ? number(amount) : LLONG_MAX;
    return needed != LLONG_MAX && needed <= room;
}

static PyObject *
tracker_blocked_by(PyObject *tracker, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    int simple = count == 2 && names == NULL && PyDict_CheckExact(args[1]), found = 1;
    PyObject *plan = simple ? plan_of(tracker, args[0]) : NULL;
    Py_ssize_t windows = plan == NULL ? 0 : PyTuple_GET_SIZE(plan);
    for (Py_ssize_t index = 0; index < windows && found > 0; index++) {
        found = has_room(PyTuple_GET_ITEM(plan, index), args[1]);
    }
    found = plan != NULL && found > 0;
    Py_XDECREF(plan);
    if (PyErr_Occurred()) {
        return NULL;
    }
    return found ? Py_NewRef(Py_None) : in_python(python_blocked_by, tracker, args, count, names);
}

/* Whether a window is one of a resource; -1 if Python has to say. */
static int
is_of(PyObject *window, PyObject *resource)
{
    if (!Py_IS_TYPE(window, Window_type) || !PyUnicode_CheckExact(GET(window, Window_resource))) {
        return -1;
    }
    return GET(window, Window_resource) == resource || PyUnicode_Compare(GET(window, Window_resource), resource) == 0;
}

/* Whether a single unit can simply be added to a window now: there is room, nobody waits, and it is the first of this
   instant; -1 with an error. */
static int
takes_one(PyObject *window, PyObject *now)
{
    PyObject *entries, *last;
    Py_ssize_t length;
    int equal;
    if (room_at_least(window) < 1 || GET(window, Window_queue) != Py_None) {
        return 0;
    }
    entries = GET(window, Window_entries);
    length = entries == Py_None ? -1 : PyObject_Size(entries);
    if (length <= 0) {
        return PyErr_Occurred() ? -1 : length == 0;
    }
    last = PySequence_GetItem(entries, length - 1);
    if (last == NULL) {
        return -1;
    }
    equal = PyLong_CheckExact(last) ? same_number(last, now) : 1;
    Py_DECREF(last);
    return equal < 0 ? -1 : !equal;
}

/* Whether all windows of a resource in a plan take a single unit; -1 with an error. */
static int
all_take_one(PyObject *plan, PyObject *resource, PyObject *now)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(plan); index++) {
        int found = is_of(PyTuple_GET_ITEM(plan, index), resource);
        if (found > 0 && (found = takes_one(PyTuple_GET_ITEM(plan, index), now)) <= 0) {
            return found;
        }
        if (found < 0) {
            return 0;
        }
    }
    return 1;
}

/* Add a single unit to all windows of a resource in a plan. */
static int
take_one(PyObject *plan, PyObject *resource, PyObject *now)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(plan); index++) {
        PyObject *window = PyTuple_GET_ITEM(plan, index), *done;
        if (is_of(window, resource) <= 0) {
            continue;
        }
        if (put(window, Window_used, plus_one(GET(window, Window_used))) < 0) {
            return -1;
        }
        done = PyObject_CallMethodOneArg(GET(window, Window_entries), s_append, now);
        Py_XDECREF(done);
        if (done == NULL) {
            return -1;
        }
    }
    return 0;
}

/* `consume` of one unit: 1 if it was taken, 0 if Python has to decide, -1 with an error. */
static int
consume_one(PyObject *tracker, PyObject *plan, PyObject *resource, PyObject *now)
{
    PyObject *tallies = GET(tracker, RateTracker__tallies);
    PyObject *tally = PyDict_CheckExact(tallies) ? PyDict_GetItemWithError(tallies, resource) : NULL;
    int takes;
    if (tally == NULL || !Py_IS_TYPE(tally, Tally_type) || !PyLong_CheckExact(GET(tally, Tally_granted))) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(tally);
    takes = all_take_one(plan, resource, now);
    if (takes > 0 && (put(tally, Tally_granted, plus_one(GET(tally, Tally_granted))) < 0 ||
                      take_one(plan, resource, now) < 0)) {
        takes = -1;
    }
    Py_DECREF(tally);
    return takes;
}

static PyObject *
tracker_consume(PyObject *tracker, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *kernel = GET(tracker, RateTracker__kernel), *plan = NULL;
    int taken = 0;
    if (names == NULL && (count == 2 || (count == 3 && args[2] == one)) && is_kernel(kernel) &&
        PyUnicode_CheckExact(args[1]) && (plan = plan_of(tracker, args[0])) != NULL) {
        PyObject *now = Py_NewRef(GET(kernel, Loop_now));
        taken = consume_one(tracker, plan, args[1], now);
        Py_DECREF(now);
    }
    Py_XDECREF(plan);
    if (taken > 0) {
        Py_RETURN_TRUE;
    }
    return PyErr_Occurred() ? NULL : in_python(python_consume, tracker, args, count, names);
}

static PyMethodDef method_consume = {"consume", FAST(tracker_consume), "Take units from all scopes, or nothing."};
static PyMethodDef method_blocked = {"blocked", tracker_blocked, METH_O, "Return what an agent has no unit of."};
static PyMethodDef method_blocked_by = {"blocked_by", FAST(tracker_blocked_by), "Return what has no capacity."};

PyObject *
take_over_rates(PyObject *module, PyObject *classes)
{
    if (python_blocked != NULL) {
        Py_RETURN_NONE; /* as in `take_over` */
    }
    FIND_CLASS(RateTracker)
    FIND_CLASS(Tally)
    FIND_CLASS(Window)
    RATE_SLOTS(FIND_SLOT)
    python_blocked = replace(RateTracker_type, &method_blocked);
    python_blocked_by = replace(RateTracker_type, &method_blocked_by);
    python_consume = replace(RateTracker_type, &method_consume);
    return python_blocked == NULL || python_blocked_by == NULL || python_consume == NULL ? NULL : Py_NewRef(Py_None);
}
