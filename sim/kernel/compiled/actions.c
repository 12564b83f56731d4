/* `apply` and `begin` of the dispatcher (see world/dispatcher.py), for actions that cost nothing and do not have to wait;
   `apply` also for those that cost units of rate limits alone.

The kernel does not know actions. The class of the dispatcher declares the layout of its slots and of what it gets. What
a check would refuse, and each other case, is left to Python before anything has changed.
*/

#include "core.h"

#define DISPATCHER_SLOTS(X) X(only_seen) X(world)
#define HANDLER_SLOTS(X) X(allowed) X(apply) X(kind) X(permission) X(ready) X(required) X(topic) X(undo) X(wait)
#define ACTION_SLOTS(X) X(arguments) X(kind) X(reasoning)
#define CHARGE_SLOTS(X) X(beyond_rates) X(rates)
#define GIVEN(X)                                                                                                       \
    X(action) X(any) X(as_dict) X(charge) X(decode) X(encode) X(fact) X(free) X(freeze) X(handler) X(interrupt) X(nothing) X(raw) \
    X(result) X(run_error) X(taken)

#define DISPATCHER_SLOT(name) static Py_ssize_t dispatcher_##name;
DISPATCHER_SLOTS(DISPATCHER_SLOT)
#define HANDLER_SLOT(name) static Py_ssize_t handler_##name;
HANDLER_SLOTS(HANDLER_SLOT)
#define ACTION_SLOT(name) static Py_ssize_t action_##name;
ACTION_SLOTS(ACTION_SLOT)
#define CHARGE_SLOT(name) static Py_ssize_t charge_##name;
CHARGE_SLOTS(CHARGE_SLOT)
#define DEFINE_GIVEN(name) static PyObject *given_##name;
GIVEN(DEFINE_GIVEN)

#define FIND_IN(layout, class, name)                                                                                   \
    if (find_declared(layout, #name, &class##_##name) < 0) {                                                           \
        return NULL;                                                                                                   \
    }
#define FIND_DISPATCHER(name) FIND_IN(dispatcher_layout, dispatcher, name)
#define FIND_HANDLER(name) FIND_IN(handler_layout, handler, name)
#define FIND_ACTION(name) FIND_IN(action_layout, action, name)
#define FIND_CHARGE(name) FIND_IN(charge_layout, charge, name)
#define FIND_GIVEN(name)                                                                                               \
    if ((given_##name = Py_XNewRef(PyDict_GetItemString(given, #name))) == NULL) {                                     \
        PyErr_SetString(PyExc_TypeError, "what is given lacks " #name);                                                \
        return NULL;                                                                                                   \
    }

static PyObject *python_apply, *python_begin;
static PyObject *with_result, *with_reasoning; /* names of the fields of what is recorded */

/* An action that is applied. All references but `raw` and `rates` are borrowed. */
typedef struct {
    PyObject *self, *world, *agent, *action, *handler, *arguments;
    PyObject *raw;   /* the arguments as JSON; NULL: not needed yet, because the event of the action is not recorded */
    PyObject *rates; /* what it costs, units by resource; NULL: nothing */
} Applied;

/* Return whether all types and values of arguments are what a handler allows; 0: Python says what is wrong. */
static int
fits(PyObject *handler, PyObject *arguments)
{
    PyObject *allowed = GET(handler, handler_allowed), *required = GET(handler, handler_required), *name, *value;
    Py_ssize_t place = 0;
    if (!PyDict_CheckExact(allowed) || !PyTuple_CheckExact(required)) {
        return 0;
    }
    while (PyDict_Next(arguments, &place, &name, &value)) {
        PyObject *types = PyDict_GetItemWithError(allowed, name);
        int found = types == given_any;
        if (types == NULL || !PyTuple_CheckExact(types)) {
            return PyErr_Occurred() ? -1 : 0;
        }
        for (Py_ssize_t index = 0; !found && index < PyTuple_GET_SIZE(types); index++) {
            found = PyTuple_GET_ITEM(types, index) == (PyObject *)Py_TYPE(value);
        }
        if (!found) {
            return 0;
        }
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(required); index++) {
        int found = PyDict_Contains(arguments, PyTuple_GET_ITEM(required, index));
        if (found <= 0) {
            return found;
        }
    }
    return 1;
}

PyObject *
rates_alone(PyObject *price)
{
    PyObject *rates = Py_IS_TYPE(price, (PyTypeObject *)given_charge) ? GET(price, charge_rates) : Py_None;
    return PyDict_CheckExact(rates) && GET(price, charge_beyond_rates) == Py_False ? rates : NULL;
}

int
have_capacity(PyObject *world, PyObject *agent_id, PyObject *rates)
{
    PyObject *tracker = PyObject_GetAttr(world, s_rate_tracker), *lack;
    int found;
    lack = tracker == NULL ? NULL : PyObject_CallMethodObjArgs(tracker, s_blocked_by, agent_id, rates, NULL);
    found = lack == NULL ? -1 : lack == Py_None;
    Py_XDECREF(lack);
    Py_XDECREF(tracker);
    return found;
}

/* Note what an action costs, and return whether its agent can pay it; 0: Python decides. */
static int
payable(Applied *applied, PyObject *price)
{
    PyObject *name;
    int found;
    if (price == given_free) {
        return 1;
    }
    applied->rates = GET(applied->handler, handler_wait) == Py_None ? Py_XNewRef(rates_alone(price)) : NULL;
    if (applied->rates == NULL) {
        return 0; /* budgets and quotas, a price by size, or one that is reserved before a wait */
    }
    name = PyObject_GetAttr(applied->agent, s_agent_id);
    found = name == NULL ? -1 : have_capacity(applied->world, name, applied->rates);
    Py_XDECREF(name);
    return found;
}

/* Return whether an agent may execute an action of a handler and can pay it; 0: Python decides. */
static int
admitted(Applied *applied)
{
    PyObject *permission = PyObject_GetAttr(applied->agent, s_permission), *costs, *price;
    PyObject *least = GET(applied->handler, handler_permission);
    int found = permission == NULL ? -1 : permission == least;
    if (found == 0 && PyLong_Check(permission) && PyLong_Check(least)) {
        found = number(permission) >= number(least);
    }
    Py_XDECREF(permission);
    if (found <= 0 || (found = fits(applied->handler, applied->arguments)) <= 0) {
        return found;
    }
    costs = PyObject_GetAttr(applied->world, s_costs);
    price = costs == NULL ? NULL : PyObject_CallMethodOneArg(costs, s_fixed, PLACE(applied->action, action_kind));
    Py_XDECREF(costs);
    found = price == NULL ? -1 : payable(applied, price);
    Py_XDECREF(price);
    return found;
}

/* Take what an action costs. Return 0, or -1 with an error. */
static int
pay(Applied *applied)
{
    PyObject *costs, *tracker, *name, *resource, *units, *done;
    Py_ssize_t place = 0;
    int failed;
    if (applied->rates == NULL) {
        return 0;
    }
    costs = PyObject_GetAttr(applied->world, s_costs);
    tracker = costs == NULL ? NULL : PyObject_GetAttr(costs, s_rates);
    name = tracker == NULL ? NULL : PyObject_GetAttr(applied->agent, s_agent_id);
    failed = name == NULL ? -1 : 0;
    while (!failed && PyDict_Next(applied->rates, &place, &resource, &units)) {
        done = PyObject_CallMethodObjArgs(tracker, s_consume, name, resource, units, NULL);
        failed = done == NULL ? -1 : 0;
        Py_XDECREF(done);
    }
    Py_XDECREF(name);
    Py_XDECREF(tracker);
    Py_XDECREF(costs);
    return failed;
}

static PyObject *
freeze(PyObject *value)
{
    PyObject *bytes = PyObject_CallOneArg(given_encode, value), *raw;
    raw = bytes == NULL ? NULL : PyObject_CallOneArg(given_raw, bytes);
    Py_XDECREF(bytes);
    return raw;
}

/* Return more bytes than a dict takes as JSON, if certainly all of it is JSON without parts; otherwise -1. */
static long long
most_bytes(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t place = 0;
    long long size = 2;
    int overflow = 0;
    while (PyDict_Next(dict, &place, &key, &value)) {
        if (!PyUnicode_CheckExact(key) || !PyUnicode_IS_ASCII(key)) {
            return -1;
        }
        size += 6 * PyUnicode_GET_LENGTH(key) + 32; /* a character takes 6 bytes at most, and a number 25 */
        if (value == Py_None || PyBool_Check(value)) {
            continue;
        }
        if (PyUnicode_CheckExact(value) && PyUnicode_IS_ASCII(value)) {
            size += 6 * PyUnicode_GET_LENGTH(value);
        }
        else if (PyLong_CheckExact(value)) {
            PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow) {
                return -1;
            }
        }
        else if (!PyFloat_CheckExact(value) || !isfinite(PyFloat_AS_DOUBLE(value))) {
            return -1;
        }
    }
    return size;
}

/* Return whether the event of an action is recorded, or -1 with an error. */
static int
is_kept(PyObject *kernel, PyObject *topic)
{
    PyObject *kept = is_kernel(kernel) ? GET(kernel, Kernel_kept) : Py_None;
    return PyAnySet_Check(kept) ? PySet_Contains(kept, topic) : 1;
}

/* Encode the arguments, if they are needed and not too large; 0: Python has to say what is wrong. */
static int
encoded(Applied *applied, int kept)
{
    PyObject *bus = PyObject_GetAttr(applied->world, s_event_bus), *most;
    Py_ssize_t size;
    int found;
    most = bus == NULL ? NULL : PyObject_GetAttr(bus, s_max_data_bytes);
    Py_XDECREF(bus);
    if (most == NULL) {
        return -1;
    }
    if (!kept) {
        long long bound = most_bytes(applied->arguments);
        if (bound >= 0 && bound <= number(most)) {
            Py_DECREF(most);
            return 1;
        }
    }
    applied->raw = freeze(applied->arguments);
    if (applied->raw == NULL) {
        Py_DECREF(most);
        PyErr_Clear();
        return 0;
    }
    size = PyObject_Size(applied->raw);
    found = size < 0 ? -1 : size <= number(most);
    Py_DECREF(most);
    return found;
}

/* Return the result of an action whose handler has raised the error that is set, or pass that on. */
static PyObject *
refused(Applied *applied)
{
    PyObject *raised, *handled, *result = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError) ||
        PyErr_ExceptionMatches(given_run_error) || (raised = take_error()) == NULL) {
        return NULL;
    }
    handled = PyErr_GetHandledException(); /* as in an `except` block */
    PyErr_SetHandledException(raised);
    if (applied->raw != NULL || (applied->raw = freeze(applied->arguments)) != NULL) {
        result = PyObject_CallMethodObjArgs(applied->self, s__refuse, applied->agent, applied->action, applied->raw, raised,
                                            NULL);
    }
    PyErr_SetHandledException(handled);
    Py_XDECREF(handled);
    Py_DECREF(raised);
    return result;
}

/* Return what is recorded of an action: its event data, encoded if they could change or fail to be encoded later. */
static PyObject *
outcome(Applied *applied, PyObject *data, int late)
{
    PyObject *reasoning = PLACE(applied->action, action_reasoning), *taken, *raw;
    int empty = PyUnicode_CheckExact(reasoning) ? PyUnicode_GET_LENGTH(reasoning) == 0 : !PyObject_IsTrue(reasoning);
    if (applied->raw == NULL && (applied->raw = freeze(applied->arguments)) == NULL) {
        return NULL;
    }
    if (empty) {
        PyObject *args[] = {applied->raw, data, Py_True};
        taken = PyObject_Vectorcall(given_taken, args, 0, with_result);
    }
    else {
        PyObject *args[] = {applied->raw, reasoning, data, Py_True};
        taken = PyObject_Vectorcall(given_taken, args, 0, with_reasoning);
    }
    if (taken == NULL || (empty && late)) {
        return taken;
    }
    raw = freeze(taken);
    if (raw == NULL) {
        /* Python's error names the part that is not JSON */
        PyErr_Clear();
        raw = PyObject_CallOneArg(given_freeze, taken);
    }
    Py_DECREF(taken);
    return raw;
}

/* Record an action that was applied, and count it. Return 0, or -1 with an error. */
static int
report(Applied *applied, PyObject *kernel, PyObject *kept)
{
    PyObject *name = PyObject_GetAttr(applied->agent, s_agent_id), *done, *before = NULL, *after = NULL;
    PyObject *kind = GET(applied->handler, handler_kind), *identity = NULL;
    int failed = -1;
    if (name != NULL) {
        identity = PyObject_CallMethodObjArgs(kernel, s_emit, GET(applied->handler, handler_topic), kept, name, NULL);
    }
    done = identity == NULL ? NULL : PyObject_GetAttr(applied->world, s_done);
    before = done == NULL ? NULL : PyObject_GetItem(done, kind);
    after = before == NULL ? NULL : plus_one(before);
    if (after != NULL) {
        failed = PyObject_SetItem(done, kind, after);
    }
    Py_XDECREF(after);
    Py_XDECREF(before);
    Py_XDECREF(done);
    Py_XDECREF(identity);
    Py_XDECREF(name);
    return failed;
}

/* Return the result of an action that was applied; `data` is what its handler has returned (stolen). */
static PyObject *
succeeded(PyObject *data, int fact)
{
    PyObject *args[] = {Py_True, data}, *result;
    if (fact || Py_TYPE(data) == (PyTypeObject *)given_raw) {
        Py_SETREF(data, PyObject_CallOneArg(fact ? given_as_dict : given_decode, data));
        if (data == NULL) {
            return NULL;
        }
        args[1] = data;
    }
    result = PyObject_Vectorcall(given_result, args, 2, NULL);
    Py_DECREF(data);
    return result;
}

/* Apply an action that is admitted, with what it has waited for or NULL. */
static PyObject *
carry_out(Applied *applied, PyObject *kernel, int kept, PyObject *granted)
{
    PyObject *args[] = {applied->world, applied->agent, granted}, *function = GET(applied->handler, handler_apply);
    PyObject *data, *recorded, *result;
    int fact, needed;
    Py_INCREF(function);
    data = PyObject_VectorcallDict(function, args, granted == NULL ? 2 : 3, applied->arguments);
    Py_DECREF(function);
    if (data == NULL) {
        return refused(applied);
    }
    fact = (PyObject *)Py_TYPE(data)->tp_base == given_fact;
    needed = kept || !(fact || data == Py_None || (PyDict_CheckExact(data) && most_bytes(data) >= 0));
    recorded = needed ? outcome(applied, data, fact || data == Py_None) : Py_NewRef(Py_None);
    if (recorded == NULL) {
        Py_DECREF(data);
        return refused(applied);
    }
    if (pay(applied) < 0 || report(applied, kernel, recorded) < 0) {
        Py_DECREF(data);
        Py_DECREF(recorded);
        return NULL;
    }
    result = succeeded(data, fact);
    Py_DECREF(recorded);
    return result;
}

/* Return whether arguments of the dispatcher are of the classes that C knows, and set the parts of `applied`. */
static int
is_case(Applied *applied, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count < 3 || Py_TYPE(args[1]) != (PyTypeObject *)given_action ||
        Py_TYPE(args[2]) != (PyTypeObject *)given_handler || GET(applied->self, dispatcher_only_seen) != Py_False) {
        return 0;
    }
    applied->agent = args[0];
    applied->action = args[1];
    applied->handler = args[2];
    applied->arguments = PLACE(applied->action, action_arguments);
    return PyDict_CheckExact(applied->arguments);
}

/* Check an action, and encode its arguments if they are needed; 0: Python has to decide. */
static int
prepared(Applied *applied, int kept)
{
    int ready = kept < 0 ? -1 : admitted(applied);
    return ready > 0 ? encoded(applied, kept) : ready;
}

static PyObject *
dispatcher_apply(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Applied applied = {.self = self, .world = GET(self, dispatcher_world)};
    PyObject *kernel, *granted = NULL, *result = NULL;
    int ready = is_case(&applied, args, count, names), kept;
    if (ready && count == 5) { /* after its wait, in the step in which it was admitted */
        ready = PyTuple_CheckExact(args[3]) && PyTuple_GET_SIZE(args[3]) == 1 &&
                Py_TYPE(args[4]) == (PyTypeObject *)given_raw;
        granted = ready ? PyTuple_GET_ITEM(args[3], 0) : NULL;
    }
    else if (ready) {
        ready = count == 3 && GET(applied.handler, handler_wait) == Py_None;
    }
    if (!ready) {
        return in_python(python_apply, self, args, count, names);
    }
    kernel = PyObject_GetAttr(applied.world, s_kernel);
    kept = kernel == NULL ? -1 : is_kept(kernel, GET(applied.handler, handler_topic));
    Py_INCREF(applied.arguments);
    if (granted != NULL) {
        applied.raw = Py_NewRef(args[4]);
        ready = kept < 0 ? -1 : 1;
    }
    else {
        ready = prepared(&applied, kept);
    }
    if (ready >= 0) {
        result = ready ? carry_out(&applied, kernel, kept, granted) : in_python(python_apply, self, args, count, names);
    }
    Py_DECREF(applied.arguments);
    Py_XDECREF(applied.raw);
    Py_XDECREF(applied.rates);
    Py_XDECREF(kernel);
    return result;
}

/* Undo what an action has waited for if it was refused; `result` is its result, or NULL with an error (stolen). */
static PyObject *
undone(Applied *applied, PyObject *granted, PyObject *result)
{
    PyObject *undo = GET(applied->handler, handler_undo), *args[] = {applied->world, applied->agent, granted}, *done;
    PyObject *type, *error, *trace, *success = result == NULL ? NULL : PyObject_GetAttr(result, s_success);
    int left = success == Py_True || undo == Py_None;
    Py_XDECREF(success);
    if (left) {
        return result;
    }
    PyErr_Fetch(&type, &error, &trace);
    done = PyObject_VectorcallDict(undo, args, 3, applied->arguments);
    if (done == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        Py_XDECREF(result);
        return NULL;
    }
    Py_DECREF(done);
    PyErr_Restore(type, error, trace);
    return result;
}

/* Execute an action for which `ready` has been asked. */
static PyObject *
go_on(Applied *applied, PyObject *kernel, int kept, PyObject *granted)
{
    PyObject *waits, *name, *passed = NULL;
    if (granted == NULL) {
        return PyErr_ExceptionMatches(given_interrupt) ? NULL : refused(applied);
    }
    if (granted == given_nothing) {
        if (applied->raw == NULL && (applied->raw = freeze(applied->arguments)) == NULL) {
            return NULL;
        }
        return PyObject_CallMethodObjArgs(applied->self, s__wait, applied->agent, applied->action, applied->handler,
                                          applied->raw, given_free, NULL);
    }
    waits = PyObject_GetAttr(applied->world, s_waits);
    name = waits == NULL ? NULL : PyObject_GetAttr(applied->agent, s_agent_id);
    if (name != NULL) {
        passed = PyObject_CallMethodOneArg(waits, s_passed, name);
    }
    Py_XDECREF(name);
    Py_XDECREF(waits);
    if (passed == NULL) {
        return NULL;
    }
    Py_DECREF(passed);
    return undone(applied, granted, carry_out(applied, kernel, kept, granted));
}

static PyObject *
dispatcher_begin(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Applied applied = {.self = self, .world = GET(self, dispatcher_world)};
    PyObject *kernel, *ask, *granted, *result = NULL;
    int ready = is_case(&applied, args, count, names), kept;
    if (!ready || count != 3 || GET(applied.handler, handler_ready) == Py_None) {
        return in_python(python_begin, self, args, count, names);
    }
    kernel = PyObject_GetAttr(applied.world, s_kernel);
    kept = kernel == NULL ? -1 : is_kept(kernel, GET(applied.handler, handler_topic));
    Py_INCREF(applied.arguments);
    ready = prepared(&applied, kept);
    if (ready > 0) {
        PyObject *asked[] = {applied.world, applied.agent};
        ask = Py_NewRef(GET(applied.handler, handler_ready));
        granted = PyObject_VectorcallDict(ask, asked, 2, applied.arguments);
        Py_DECREF(ask);
        result = go_on(&applied, kernel, kept, granted);
        Py_XDECREF(granted);
    }
    else if (ready == 0) {
        result = in_python(python_begin, self, args, count, names);
    }
    Py_DECREF(applied.arguments);
    Py_XDECREF(applied.raw);
    Py_XDECREF(applied.rates);
    Py_XDECREF(kernel);
    return result;
}

static PyMethodDef method_apply = {"apply", FAST(dispatcher_apply)};
static PyMethodDef method_begin = {"begin", FAST(dispatcher_begin)};

PyObject *
take_over_actions(PyObject *module, PyObject *args)
{
    PyObject *type, *dispatcher_layout, *handler_layout, *action_layout, *charge_layout, *given;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!:take_over_actions", &PyType_Type, &type, &PyDict_Type, &dispatcher_layout,
                          &PyDict_Type, &handler_layout, &PyDict_Type, &action_layout, &PyDict_Type, &charge_layout,
                          &PyDict_Type, &given)) {
        return NULL;
    }
    if (python_apply != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    DISPATCHER_SLOTS(FIND_DISPATCHER)
    HANDLER_SLOTS(FIND_HANDLER)
    ACTION_SLOTS(FIND_ACTION)
    CHARGE_SLOTS(FIND_CHARGE)
    GIVEN(FIND_GIVEN)
    with_result = Py_BuildValue("(sss)", "arguments", "result", "success");
    with_reasoning = Py_BuildValue("(ssss)", "arguments", "reasoning", "result", "success");
    if (with_result == NULL || with_reasoning == NULL) {
        return NULL;
    }
    python_apply = replace((PyTypeObject *)type, &method_apply);
    python_begin = python_apply == NULL ? NULL : replace((PyTypeObject *)type, &method_begin);
    return python_begin == NULL ? NULL : Py_NewRef(Py_None);
}
