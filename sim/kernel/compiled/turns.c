/* The turns of agents: `Kernel.run_now`, and `turn` and `iterate_now` of a loop (see actors/loop.py).

The kernel does not know loops. The class of the loops declares the layout of its slots, and gives what it compares with
and calls. What is rare is left to methods of the loop in Python.
*/

#include "core.h"

#define LOOP_SLOTS(X)                                                                                                  \
    X(actor) X(agent) X(agent_id) X(began_ns) X(config) X(consecutive_errors) X(decide) X(direct) X(due) X(follow) X(gate) \
    X(greeted) X(iteration_count) X(kernel) X(last_beat) X(on_change) X(pause_wanted) X(phase) X(rest_ns) X(state)     \
    X(ticking) X(world)
#define LOOP_SLOT(name) static Py_ssize_t loop_##name;
LOOP_SLOTS(LOOP_SLOT)
#define FIND_LOOP_SLOT(name)                                                                                           \
    if (find_declared(layout, #name, &loop_##name) < 0) {                                                              \
        return NULL;                                                                                                   \
    }

/* What the class of the loops gives: states and phases, classes, functions. */
#define GIVEN(X)                                                                                                       \
    X(running) X(stopping) X(inside) X(outside) X(action) X(agent) X(result) X(free) X(run_error) X(check_decision)    \
    X(resume) X(turn_ended)
#define DEFINE_GIVEN(name) static PyObject *given_##name;
GIVEN(DEFINE_GIVEN)
#define FIND_GIVEN(name)                                                                                               \
    if ((given_##name = Py_XNewRef(PyDict_GetItemString(given, #name))) == NULL) {                                     \
        PyErr_SetString(PyExc_TypeError, "what is given lacks " #name);                                                \
        return NULL;                                                                                                   \
    }

static PyTypeObject *loop_type;
static Py_ssize_t agent_alive;
static PyObject *python_turn, *python_iterate_now;
static PyObject *with_decision, *with_action, *with_acting; /* names of arguments of `iterate` */

/* Return the truth of an attribute, or -1 with an error. */
static int
truth(PyObject *object, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(object, name);
    int found = value == NULL ? -1 : value == Py_True ? 1 : value == Py_False ? 0 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return found;
}

/* Return whether an agent is alive, or -1 with an error. */
static int
lives(PyObject *agent)
{
    PyObject *kept = PyObject_TypeCheck(agent, (PyTypeObject *)given_agent) ? PLACE(agent, agent_alive) : NULL;
    int alive = kept == Py_True ? 1 : kept == Py_False ? 0 : truth(agent, s__alive);
    if (alive > 0) {
        int own = truth(agent, s__own_alive); /* whether its class says itself whether it is alive */
        alive = own <= 0 ? own + 1 : truth(agent, s_alive);
        return own < 0 ? -1 : alive;
    }
    return alive;
}

/* Forget the result of a call. Return 0, or -1 with an error. */
static int
drop(PyObject *done)
{
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *
next_token(PyObject *token)
{
    return PyLong_FromLongLong((number(token) | 1) + 1);
}

/* -- `Kernel.run_now` */

/* As `Kernel._close` of an actor that has returned, and then what `on_exit` does; `loop` is the loop of the actor or NULL. */
static int
close_actor(PyObject *kernel, PyObject *actor, PyObject *loop)
{
    PyObject *actors = GET(kernel, Kernel_actors), *interrupts = GET(kernel, Kernel__interrupts), *on_exit;
    int alive, found;
    if (!PyDict_CheckExact(actors) || !PyDict_CheckExact(interrupts) || PyDict_GET_SIZE(interrupts) ||
        (GET(actor, Source_held) != Py_None && GET(actor, Actor_listener) == Py_None)) {
        return drop(PyObject_CallMethodObjArgs(kernel, s__close, actor, returned, NULL));
    }
    put(actor, Actor_coro, Py_NewRef(Py_None));
    if (put(actor, Actor_token, next_token(GET(actor, Actor_token))) < 0) {
        return -1;
    }
    put(actor, Actor_value, Py_NewRef(returned));
    found = PyDict_Contains(actors, GET(actor, Source_ordinal));
    if (found && (found < 0 || PyDict_DelItem(actors, GET(actor, Source_ordinal)) < 0)) {
        return -1;
    }
    on_exit = GET(actor, Actor_on_exit);
    if (on_exit == Py_None) {
        return 0;
    }
    if (loop != NULL && PyMethod_Check(on_exit) && PyMethod_GET_FUNCTION(on_exit) == given_turn_ended &&
        PyMethod_GET_SELF(on_exit) == loop && GET(loop, loop_on_change) == Py_None &&
        GET(loop, loop_state) != given_stopping) {
        alive = lives(GET(loop, loop_agent));
        if (alive) {
            return alive < 0 ? -1 : 0;
        }
    }
    Py_INCREF(on_exit);
    found = drop(PyObject_CallFunctionObjArgs(on_exit, actor, returned, NULL));
    Py_DECREF(on_exit);
    return found;
}

/* Run the first step of a coroutine of an actor; NULL: an error came before. */
static int
begin_rest(PyObject *kernel, PyObject *actor, PyObject *rest)
{
    PyObject *request = NULL;
    PySendResult outcome = PYGEN_ERROR;
    int failed;
    if (rest != NULL && PyObject_SetItem(GET(kernel, Kernel_actors), GET(actor, Source_ordinal), actor) == 0) {
        put(actor, Actor_coro, Py_NewRef(rest));
        outcome = PyIter_Send(rest, Py_None, &request);
    }
    if (outcome != PYGEN_NEXT) {
        return ended(kernel, actor, outcome == PYGEN_RETURN ? request : NULL);
    }
    failed = drop(PyObject_CallMethodObjArgs(kernel, s__arm, actor, request, NULL));
    Py_DECREF(request);
    return failed;
}

/* `Kernel.run_now`; `step` is NULL for an iteration of `loop`. */
static int
run_step(PyObject *kernel, PyObject *actor, PyObject *step, PyObject *loop)
{
    PyObject *before, *rest;
    int failed;
    if (put(actor, Actor_token, next_token(GET(actor, Actor_token))) < 0) {
        return -1;
    }
    put(actor, Actor_coro, Py_NewRef(under_way));
    put(actor, Actor_cancelling, Py_NewRef(Py_False));
    put(actor, Actor_value, Py_NewRef(Py_None));
    put(actor, Actor_via, Py_NewRef(Py_None));
    before = Py_NewRef(GET(kernel, Kernel_current));
    put(kernel, Kernel_current, Py_NewRef(actor));
    rest = step == NULL ? PyObject_CallMethodNoArgs(loop, s_iterate_now) : PyObject_CallNoArgs(step);
    failed = rest == Py_None ? close_actor(kernel, actor, loop) : begin_rest(kernel, actor, rest);
    if (failed) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        Py_XDECREF(rest);
        put(kernel, Kernel_current, before);
        PyErr_Restore(type, error, trace);
        return -1;
    }
    Py_XDECREF(rest); /* NULL: the step has raised, and the actor is closed */
    put(kernel, Kernel_current, before);
    return 0;
}

PyObject *
kernel_run_now(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 2 || names != NULL || !Py_IS_TYPE(args[0], Actor_type)) {
        return in_python(python_run_now, kernel, args, count, names);
    }
    return run_step(kernel, args[0], args[1], NULL) < 0 ? NULL : Py_NewRef(Py_None);
}

/* -- `iterate_now` */

/* An iteration that is under way. All references are owned. */
typedef struct {
    PyObject *loop, *agent, *world, *marks;
    PyObject *first, *action; /* NULL: none yet */
    PyObject *rest;           /* the rest of the iteration, if it waits; else NULL */
    PyObject *error;          /* why it has failed; NULL or None if it has not */
} Iteration;

/* Leave the rest of the iteration to `iterate` in Python. Return 0, or -1 with an error. */
static int
leave(Iteration *iteration, PyObject *names, PyObject *one, PyObject *other, PyObject *third)
{
    PyObject *args[] = {iteration->loop, one, other, third};
    iteration->rest = PyObject_VectorcallMethod(s_iterate, args, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
    return iteration->rest == NULL ? -1 : 0;
}

/* Ask the agent for its action. Return 0, or -1 with an error. */
static int
decided(Iteration *iteration)
{
    PyObject *decide = GET(iteration->loop, loop_decide), *decision, *request = NULL, *resumed;
    PySendResult outcome;
    int failed;
    if (decide != Py_None) {
        Py_INCREF(decide);
        iteration->action = PyObject_CallNoArgs(decide);
        Py_DECREF(decide);
        return iteration->action == NULL ? -1 : 0;
    }
    decision = PyObject_CallMethodNoArgs(iteration->agent, s_decide_action);
    if (decision == NULL) {
        return -1;
    }
    if (!PyCoro_CheckExact(decision)) {
        failed = leave(iteration, with_decision, decision, NULL, NULL);
        Py_DECREF(decision);
        return failed;
    }
    outcome = PyIter_Send(decision, Py_None, &request);
    if (outcome == PYGEN_RETURN) {
        iteration->action = request;
    }
    else if (outcome == PYGEN_NEXT) {
        resumed = PyObject_CallFunctionObjArgs(given_resume, decision, request, NULL);
        Py_DECREF(request);
        failed = resumed == NULL ? -1 : leave(iteration, with_decision, resumed, NULL, NULL);
        Py_XDECREF(resumed);
        Py_DECREF(decision);
        return failed;
    }
    Py_DECREF(decision);
    return outcome == PYGEN_ERROR ? -1 : 0;
}

/* Return whether the agent may have to wait until it can pay an action, or -1 with an error. */
static int
is_short(Iteration *iteration, PyObject *kind)
{
    PyObject *costs = PyObject_GetAttr(iteration->world, s_costs), *price, *rates, *answer = NULL;
    int found;
    price = costs == NULL ? NULL : PyObject_CallMethodOneArg(costs, s_fixed, kind);
    Py_XDECREF(costs);
    if (price == NULL || price == given_free || price == Py_None) {
        found = price == NULL ? -1 : price == Py_None;
        Py_XDECREF(price);
        return found;
    }
    rates = rates_alone(price);
    if (rates != NULL) {
        found = have_capacity(iteration->world, GET(iteration->loop, loop_agent_id), rates);
        Py_DECREF(price);
        return found < 0 ? -1 : !found;
    }
    answer = PyObject_CallMethodOneArg(iteration->loop, s__is_short, price);
    Py_DECREF(price);
    found = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return found;
}

/* Execute the present action. Return its result; NULL without an error: the iteration waits. */
static PyObject *
execute(Iteration *iteration, PyObject *handler)
{
    PyObject *dispatcher = PyObject_GetAttr(iteration->world, s_dispatcher), *wait, *result = NULL;
    wait = dispatcher == NULL ? NULL : PyObject_GetAttr(handler, s_wait);
    if (wait != NULL) {
        result = PyObject_CallMethodObjArgs(dispatcher, wait == Py_None ? s_apply : s_begin, iteration->agent,
                                            iteration->action, handler, NULL);
        if (result != NULL && wait != Py_None && (PyObject *)Py_TYPE(result) != given_result) {
            leave(iteration, with_acting, iteration->first, iteration->action, result);
            Py_CLEAR(result);
        }
    }
    Py_XDECREF(wait);
    Py_XDECREF(dispatcher);
    return result;
}

/* Look at the result of an action. Return whether another one follows, or -1 with an error. */
static int
concluded(Iteration *iteration, PyObject *result)
{
    PyObject *loop = iteration->loop, *follow = GET(loop, loop_follow), *next;
    int success, more;
    if (follow != Py_None) {
        Py_INCREF(follow);
        success = drop(PyObject_CallOneArg(follow, result));
        Py_DECREF(follow);
        if (success < 0) {
            return -1;
        }
    }
    success = truth(result, s_success);
    if (success <= 0) {
        if (success == 0) {
            iteration->error = PyObject_CallMethodObjArgs(loop, s__failure_of, iteration->action, result, NULL);
        }
        return iteration->error == NULL ? -1 : 0;
    }
    more = truth(iteration->agent, s_has_more);
    if (more <= 0 || GET(loop, loop_state) == given_stopping) {
        return more < 0 ? -1 : 0;
    }
    next = PyObject_CallMethodNoArgs(loop, s__next);
    if (next == NULL) {
        return -1;
    }
    Py_SETREF(iteration->action, next);
    return 1;
}

/* Execute the present action and look at its result. Return whether another one follows, or -1 with an error. */
static int
act(Iteration *iteration)
{
    PyObject *kind = PyObject_GetAttr(iteration->action, s_kind), *actions, *handler, *result;
    int found = -1, waits;
    actions = kind == NULL ? NULL : PyObject_GetAttr(iteration->world, s_actions);
    handler = actions == NULL ? NULL : PyObject_CallMethodOneArg(actions, s_find, kind);
    Py_XDECREF(actions);
    waits = handler == NULL ? -1 : is_short(iteration, kind);
    Py_XDECREF(kind);
    if (waits > 0 || (waits == 0 && (GET(iteration->loop, loop_direct) != Py_True || handler == Py_None))) {
        found = leave(iteration, with_action, iteration->first, iteration->action, NULL);
    }
    else if (waits == 0) {
        result = execute(iteration, handler);
        if (result != NULL) {
            found = concluded(iteration, result);
            Py_DECREF(result);
        }
        else if (iteration->rest != NULL) {
            found = 0;
        }
    }
    Py_XDECREF(handler);
    return found;
}

/* Decide and act, as long as nothing waits. Return 0, or -1 with an error. */
static int
decide_and_act(Iteration *iteration)
{
    int more;
    if (decided(iteration) < 0) {
        return -1;
    }
    if (iteration->rest != NULL) {
        return 0;
    }
    iteration->first = Py_NewRef(iteration->action);
    if (iteration->action != Py_None && (PyObject *)Py_TYPE(iteration->action) != given_action &&
        drop(PyObject_CallFunctionObjArgs(given_check_decision, iteration->agent, iteration->action, NULL)) < 0) {
        return -1;
    }
    do {
        more = iteration->action == Py_None ? 0 : lives(iteration->agent);
        more = more > 0 ? act(iteration) : more;
    } while (more > 0);
    return more;
}

/* Turn the error that is set into the text of a failure, unless it concerns the process or the run. Return 0, or -1. */
static int
failed_with_text(Iteration *iteration)
{
    PyObject *raised, *handled;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || PyErr_ExceptionMatches(given_run_error) ||
        !(PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_SystemExit))) {
        return -1;
    }
    raised = take_error();
    if (raised == NULL) {
        return -1;
    }
    handled = PyErr_GetHandledException(); /* as in an `except` block */
    PyErr_SetHandledException(raised);
    Py_XSETREF(iteration->error, PyObject_CallMethodOneArg(iteration->loop, s__raised, raised));
    PyErr_SetHandledException(handled);
    Py_XDECREF(handled);
    Py_DECREF(raised);
    return iteration->error == NULL ? -1 : 0;
}

/* Return whether a state is plain, so that nothing in it has to be looked at, or -1 with an error. */
static int
is_plain(PyObject *agent)
{
    PyObject *state = PyObject_GetAttr(agent, s_state), *found;
    int plain;
    if (state == NULL) {
        return -1;
    }
    found = plainness(NULL, state);
    plain = found == NULL ? -1 : PyLong_AsLong(found) == 2;
    Py_XDECREF(found);
    Py_DECREF(state);
    return plain;
}

/* As `_iterated`: look at the state of the agent, and set the time of its next iteration. */
static int
iterated(Iteration *iteration)
{
    PyObject *loop = iteration->loop, *now, *due, *delay;
    int plain = 0;
    if ((iteration->error == NULL || iteration->error == Py_None) && GET(loop, loop_pause_wanted) == Py_None &&
        GET(loop, loop_consecutive_errors) == zero) {
        plain = is_plain(iteration->agent);
    }
    if (plain <= 0) {
        return plain < 0 ? -1
                         : drop(PyObject_CallMethodObjArgs(loop, s__iterated, iteration->first ? iteration->first : Py_None,
                                                           iteration->action ? iteration->action : Py_None,
                                                           iteration->error ? iteration->error : Py_None, NULL));
    }
    now = GET(GET(loop, loop_kernel), Kernel_now);
    put(loop, loop_last_beat, Py_NewRef(now));
    if (GET(loop, loop_ticking) == Py_True) {
        due = Py_NewRef(now);
    }
    else {
        delay = PyObject_GetAttr(GET(loop, loop_config), s_min_delay_ns);
        due = delay == NULL ? NULL : PyNumber_Add(now, delay);
        Py_XDECREF(delay);
        if (due == NULL) {
            return -1;
        }
    }
    if (number(due) < number(GET(loop, loop_rest_ns))) {
        Py_SETREF(due, Py_NewRef(GET(loop, loop_rest_ns)));
    }
    put(loop, loop_due, due);
    return 0;
}

/* Note that an iteration has begun. Return 0, or -1 with an error. */
static int
begin_iteration(Iteration *iteration)
{
    PyObject *loop = iteration->loop, *now = GET(GET(loop, loop_kernel), Kernel_now), *bus, *sequence;
    int failed;
    iteration->agent = Py_NewRef(GET(loop, loop_agent));
    iteration->world = Py_NewRef(GET(loop, loop_world));
    if (put(loop, loop_iteration_count, plus_one(GET(loop, loop_iteration_count))) < 0) {
        return -1;
    }
    put(loop, loop_began_ns, Py_NewRef(now));
    put(loop, loop_last_beat, Py_NewRef(now));
    bus = PyObject_GetAttr(iteration->world, s_event_bus);
    sequence = bus == NULL ? NULL : PyObject_GetAttr(bus, s_sequence);
    iteration->marks = sequence == NULL ? NULL : PyObject_GetAttr(bus, s_marks);
    failed = iteration->marks == NULL ? -1 : PyObject_SetItem(iteration->marks, GET(loop, loop_agent_id), sequence);
    Py_XDECREF(sequence);
    Py_XDECREF(bus);
    put(loop, loop_phase, Py_NewRef(given_inside));
    return failed;
}

/* Note that an iteration has ended, with or without an error. */
static int
end_iteration(Iteration *iteration)
{
    PyObject *name = GET(iteration->loop, loop_agent_id);
    int found;
    put(iteration->loop, loop_phase, Py_NewRef(given_outside));
    found = PySequence_Contains(iteration->marks, name); /* it may have left meanwhile */
    return found > 0 ? PyObject_DelItem(iteration->marks, name) : found;
}

/* Run an iteration that has begun. Return 0, or -1 with an error. */
static int
run_iteration(Iteration *iteration)
{
    int failed = decide_and_act(iteration) < 0 && failed_with_text(iteration) < 0;
    if (failed) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        if (end_iteration(iteration) < 0) {
            PyErr_Clear();
        }
        PyErr_Restore(type, error, trace);
        return -1;
    }
    if (iteration->rest != NULL) {
        return 0;
    }
    return end_iteration(iteration) < 0 ? -1 : iterated(iteration);
}

static PyObject *
loop_iterate_now(PyObject *loop, PyObject *nothing)
{
    Iteration iteration = {.loop = loop};
    int failed;
    if (!Py_IS_TYPE(loop, loop_type) || GET(loop, loop_gate) != Py_None || !is_kernel(GET(loop, loop_kernel))) {
        return PyObject_CallOneArg(python_iterate_now, loop);
    }
    failed = begin_iteration(&iteration) < 0 ? -1 : run_iteration(&iteration);
    Py_XDECREF(iteration.marks);
    Py_XDECREF(iteration.first);
    Py_XDECREF(iteration.action);
    Py_XDECREF(iteration.error);
    Py_XDECREF(iteration.world);
    Py_XDECREF(iteration.agent);
    if (failed) {
        Py_XDECREF(iteration.rest);
        return NULL;
    }
    return iteration.rest == NULL ? Py_NewRef(Py_None) : iteration.rest;
}

/* -- `turn` */

/* Return the resource whose capacity an agent lacks, or None. */
static PyObject *
blocked(PyObject *loop)
{
    PyObject *tracker = PyObject_GetAttr(GET(loop, loop_world), s_rate_tracker), *resource;
    resource = tracker == NULL ? NULL : PyObject_CallMethodOneArg(tracker, s_blocked, GET(loop, loop_agent_id));
    Py_XDECREF(tracker);
    return resource;
}

static PyObject *
loop_turn(PyObject *loop, PyObject *nothing)
{
    PyObject *kernel = GET(loop, loop_kernel), *actor = GET(loop, loop_actor), *resource;
    int alive, failed;
    if (!Py_IS_TYPE(loop, loop_type) || !is_kernel(kernel) || !Py_IS_TYPE(actor, Actor_type) ||
        GET(loop, loop_greeted) != Py_True) {
        return PyObject_CallOneArg(python_turn, loop);
    }
    if (GET(loop, loop_state) != given_running || GET(actor, Actor_coro) != Py_None ||
        number(GET(kernel, Kernel_now)) < number(GET(loop, loop_due))) {
        Py_RETURN_FALSE;
    }
    alive = lives(GET(loop, loop_agent));
    if (alive <= 0) {
        failed = alive < 0 ? -1 : drop(PyObject_CallMethodOneArg(loop, s_request_stop, s_shutdown));
        return failed ? NULL : Py_NewRef(Py_False);
    }
    resource = blocked(loop);
    if (resource != Py_None) {
        failed = resource == NULL ? -1 : drop(PyObject_CallMethodOneArg(loop, s__hold_back, resource));
        Py_XDECREF(resource);
        return failed ? NULL : Py_NewRef(Py_False);
    }
    Py_DECREF(resource);
    Py_INCREF(kernel);
    Py_INCREF(actor);
    failed = run_step(kernel, actor, NULL, loop);
    Py_DECREF(actor);
    Py_DECREF(kernel);
    return failed ? NULL : Py_NewRef(Py_True);
}

static PyMethodDef method_turn = {"turn", loop_turn, METH_NOARGS};
static PyMethodDef method_iterate_now = {"iterate_now", loop_iterate_now, METH_NOARGS};

PyObject *
take_over_loops(PyObject *module, PyObject *args)
{
    PyObject *type, *layout, *given;
    if (!PyArg_ParseTuple(args, "O!O!O!:take_over_loops", &PyType_Type, &type, &PyDict_Type, &layout, &PyDict_Type,
                          &given)) {
        return NULL;
    }
    if (python_turn != NULL) {
        Py_RETURN_NONE; /* for the same reason as in `take_over` */
    }
    LOOP_SLOTS(FIND_LOOP_SLOT)
    GIVEN(FIND_GIVEN)
    if (!PyType_Check(given_agent) || find_declared(layout, "agent_alive", &agent_alive) < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "the agent that is given is no class");
    }
    loop_type = (PyTypeObject *)Py_NewRef(type);
    with_decision = Py_BuildValue("(O)", s_decision);
    with_action = Py_BuildValue("(OO)", s_first, s_action);
    with_acting = Py_BuildValue("(OOO)", s_first, s_action, s_acting);
    if (with_decision == NULL || with_action == NULL || with_acting == NULL) {
        return NULL;
    }
    python_iterate_now = replace(loop_type, &method_iterate_now);
    python_turn = python_iterate_now == NULL ? NULL : replace(loop_type, &method_turn);
    return python_turn == NULL ? NULL : Py_NewRef(Py_None);
}
