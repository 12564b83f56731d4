/* `blocked`, `blocked_by` and `consume` of the rate tracker (see resources/rates.py), for windows in which there is room.

The kernel does not know rates. The class of the tracker declares the layout of its slots and of what it holds. If a
window seems full, an actor waits for it, or anything else is rare, Python decides, before anything has changed.
*/

#include "core.h"

#define TRACKER_SLOTS(X) X(groups) X(kernel) X(limits) X(own_rates) X(plans) X(shared_plans) X(tallies)
#define WINDOW_SLOTS(X) X(entries) X(limit) X(queue) X(resource) X(used)

#define TRACKER_SLOT(name) static Py_ssize_t tracker_##name;
TRACKER_SLOTS(TRACKER_SLOT)
#define WINDOW_SLOT(name) static Py_ssize_t window_##name;
WINDOW_SLOTS(WINDOW_SLOT)
static Py_ssize_t counts_granted;

#define FIND_IN(layout, class, name)                                                                                   \
    if (find_declared(layout, #name, &class##_##name) < 0) {                                                           \
        return NULL;                                                                                                   \
    }
#define FIND_TRACKER(name) FIND_IN(tracker_layout, tracker, name)
#define FIND_WINDOW(name) FIND_IN(window_layout, window, name)

#define MANY (1LL << 60) /* the sum of two numbers below it is a C number */

static PyObject *python_blocked, *python_blocked_by, *python_consume;
static PyTypeObject *window_type, *counts_type;

/* Return whether the world has no limits at all; 0 also if Python has to say it. */
static int
is_unlimited(PyObject *tracker)
{
    PyObject *limits = GET(tracker, tracker_limits), *own = GET(tracker, tracker_own_rates);
    return PyDict_CheckExact(limits) && PyDict_CheckExact(own) && PyDict_GET_SIZE(limits) == 0 && PyDict_GET_SIZE(own) == 0;
}

/* Return the windows of an agent (a borrowed reference), or NULL: there is an error, or Python has to make the plan. */
static PyObject *
plan_of(PyObject *tracker, PyObject *agent_id)
{
    PyObject *plans = GET(tracker, tracker_plans), *shared = GET(tracker, tracker_shared_plans), *plan, *group;
    plan = PyDict_CheckExact(plans) ? PyDict_GetItemWithError(plans, agent_id) : NULL;
    if (plan == NULL && PyDict_CheckExact(shared) && PyDict_CheckExact(GET(tracker, tracker_groups)) && !PyErr_Occurred()) {
        group = PyDict_GetItemWithError(GET(tracker, tracker_groups), agent_id);
        plan = group == NULL && PyErr_Occurred() ? NULL : PyDict_GetItemWithError(shared, group == NULL ? Py_None : group);
    }
    return plan != NULL && PyTuple_CheckExact(plan) ? plan : NULL;
}

/* Return whether an amount certainly fits into a window; 0: Python decides. */
static int
has_room(PyObject *window, long long amount)
{
    PyObject *used, *limit;
    if (!Py_IS_TYPE(window, window_type)) {
        return 0;
    }
    used = GET(window, window_used);
    limit = GET(window, window_limit);
    if (!PyLong_CheckExact(used) || !PyLong_CheckExact(limit) || amount < 0 || amount > MANY || number(used) > MANY) {
        return 0;
    }
    return number(used) + amount <= number(limit);
}

static PyObject *
tracker_blocked(PyObject *tracker, PyObject *agent_id)
{
    PyObject *plan = NULL;
    if (is_unlimited(tracker) || (plan = plan_of(tracker, agent_id)) != NULL) {
        Py_ssize_t count = plan == NULL ? 0 : PyTuple_GET_SIZE(plan), index = 0;
        while (index < count && has_room(PyTuple_GET_ITEM(plan, index), 1)) {
            index++;
        }
        if (index == count) {
            Py_RETURN_NONE;
        }
    }
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(python_blocked, tracker, agent_id, NULL);
}

/* Return whether there is room in each window of a plan for what is needed of its resource; 0: Python decides. */
static int
have_room(PyObject *plan, PyObject *costs)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(plan); index++) {
        PyObject *window = PyTuple_GET_ITEM(plan, index), *amount;
        if (!Py_IS_TYPE(window, window_type)) {
            return 0;
        }
        amount = PyDict_GetItemWithError(costs, GET(window, window_resource));
        if (amount != NULL ? !PyLong_CheckExact(amount) || !has_room(window, number(amount)) : PyErr_Occurred() != NULL) {
            return 0;
        }
    }
    return 1;
}

static PyObject *
tracker_blocked_by(PyObject *tracker, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *plan;
    if (count == 2 && names == NULL && PyDict_CheckExact(args[1])) {
        if (is_unlimited(tracker) || ((plan = plan_of(tracker, args[0])) != NULL && have_room(plan, args[1]))) {
            Py_RETURN_NONE;
        }
    }
    return PyErr_Occurred() ? NULL : in_python(python_blocked_by, tracker, args, count, names);
}

/* Return whether a unit can be taken from a window now without a look at anything else, or -1 with an error. */
static int
is_ready(PyObject *window, long long now)
{
    PyObject *entries = GET(window, window_entries), *queue = GET(window, window_queue), *last;
    Py_ssize_t length;
    int ready;
    if (entries == Py_None || queue != Py_None || !has_room(window, 1)) {
        return 0;
    }
    length = PyObject_Size(entries);
    if (length <= 0) {
        return length < 0 ? -1 : 1;
    }
    last = PySequence_GetItem(entries, length - 1);
    ready = last == NULL ? -1 : PyLong_CheckExact(last) && number(last) != now; /* units of one instant are one entry */
    Py_XDECREF(last);
    return ready;
}

/* Take one unit of a resource from each of its windows. Return 0, or -1 with an error. */
static int
take_one(PyObject *plan, PyObject *resource, PyObject *now)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(plan); index++) {
        PyObject *window = PyTuple_GET_ITEM(plan, index), *done;
        int same = PyObject_RichCompareBool(GET(window, window_resource), resource, Py_EQ);
        if (same <= 0) {
            if (same < 0) {
                return -1;
            }
            continue;
        }
        if (put(window, window_used, plus_one(GET(window, window_used))) < 0) {
            return -1;
        }
        done = PyObject_CallMethodOneArg(GET(window, window_entries), s_append, now);
        if (done == NULL) {
            return -1;
        }
        Py_DECREF(done);
    }
    return 0;
}

/* Return whether one unit can be taken from all windows of a resource without a look at more, or -1 with an error. */
static int
are_ready(PyObject *plan, PyObject *resource, PyObject *now)
{
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(plan); index++) {
        PyObject *window = PyTuple_GET_ITEM(plan, index);
        int same = Py_IS_TYPE(window, window_type)
                       ? PyObject_RichCompareBool(GET(window, window_resource), resource, Py_EQ)
                       : 0;
        int ready = same > 0 ? is_ready(window, number(now)) : same == 0 && Py_IS_TYPE(window, window_type);
        if (same < 0 || ready <= 0) {
            return same < 0 ? -1 : ready;
        }
    }
    return 1;
}

static PyObject *
tracker_consume(PyObject *tracker, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *kernel = GET(tracker, tracker_kernel), *tallies = GET(tracker, tracker_tallies), *plan, *tally, *now;
    int ready = 0;
    if (names == NULL && (count == 2 || (count == 3 && PyLong_CheckExact(args[2]) && number(args[2]) == 1)) &&
        is_kernel(kernel) && GET(kernel, Kernel_current) != Py_None && PyDict_CheckExact(tallies) &&
        PyUnicode_CheckExact(args[1]) && (plan = plan_of(tracker, args[0])) != NULL &&
        (tally = PyDict_GetItemWithError(tallies, args[1])) != NULL && Py_IS_TYPE(tally, counts_type)) {
        now = Py_NewRef(GET(kernel, Kernel_now));
        Py_INCREF(plan);
        Py_INCREF(tally);
        ready = are_ready(plan, args[1], now);
        if (ready > 0 && (put(tally, counts_granted, plus_one(GET(tally, counts_granted))) < 0 ||
                          take_one(plan, args[1], now) < 0)) {
            ready = -1;
        }
        Py_DECREF(tally);
        Py_DECREF(plan);
        Py_DECREF(now);
    }
    if (ready > 0) {
        Py_RETURN_TRUE;
    }
    return ready < 0 || PyErr_Occurred() ? NULL : in_python(python_consume, tracker, args, count, names);
}

static PyMethodDef method_blocked = {"blocked", tracker_blocked, METH_O};
static PyMethodDef method_blocked_by = {"blocked_by", FAST(tracker_blocked_by)};
static PyMethodDef method_consume = {"consume", FAST(tracker_consume)};

PyObject *
take_over_rates(PyObject *module, PyObject *args)
{
    PyObject *tracker, *tracker_layout, *window, *window_layout, *counts, *counts_layout;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!:take_over_rates", &PyType_Type, &tracker, &PyDict_Type, &tracker_layout,
                          &PyType_Type, &window, &PyDict_Type, &window_layout, &PyType_Type, &counts, &PyDict_Type,
                          &counts_layout)) {
        return NULL;
    }
    if (python_blocked != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    TRACKER_SLOTS(FIND_TRACKER)
    WINDOW_SLOTS(FIND_WINDOW)
    if (find_declared(counts_layout, "granted", &counts_granted) < 0) {
        return NULL;
    }
    window_type = (PyTypeObject *)Py_NewRef(window);
    counts_type = (PyTypeObject *)Py_NewRef(counts);
    python_blocked_by = replace((PyTypeObject *)tracker, &method_blocked_by);
    python_consume = python_blocked_by == NULL ? NULL : replace((PyTypeObject *)tracker, &method_consume);
    python_blocked = python_consume == NULL ? NULL : replace((PyTypeObject *)tracker, &method_blocked);
    return python_blocked == NULL ? NULL : Py_NewRef(Py_None);
}
