/* Declarations that the files of this folder share. See module.c for an overview. */

#ifndef SIM_CORE_H
#define SIM_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <limits.h>
#include <math.h>
#include <structmember.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden) /* these names are private to the module */
#endif

/* -- offsets of the slots of the Python classes: Actor_token is the offset of Actor.token, Actor_type is Actor */

#include "layout.h"

#define DECLARE_SLOT(class, name) extern Py_ssize_t class##_##name;
SLOTS(DECLARE_SLOT)

#define DECLARE_CLASS(class) extern PyTypeObject *class##_type;
CLASSES(DECLARE_CLASS)

#define PLACE(object, slot) (*(PyObject **)((char *)(object) + (slot)))

/* The value of a slot: a borrowed reference, or None if it is not set. */
static inline PyObject *
GET(PyObject *object, Py_ssize_t slot)
{
    PyObject *value = PLACE(object, slot);
    return value == NULL ? Py_None : value;
}

/* The Python functions that were replaced, by the names of the methods. They handle the rare cases. */
#define REPLACED(X) X(emit) X(get) X(put_nowait) X(run_now) X(wait) X(wake)
#define MOST_ARGUMENTS 5 /* maximum number of arguments of a replaced function */
#define DECLARE_REPLACED(name) extern PyObject *python_##name;
REPLACED(DECLARE_REPLACED)
extern PyObject *python_acquire;

/* Names of methods and attributes. */
#define NAMES(X)                                                                                                       \
    X(FACT) X(TOPIC) X(__qualname__) X(_alive) X(_arm) X(_begin_recent) X(_caused) X(_close) X(_encode_batch)          \
    X(_ended) X(_failure_of) X(_go_on) X(_hold_back) X(_is_short) X(_iterated) X(_next) X(_own_alive) X(_raised)       \
    X(_refuse) X(_rest) X(_tidy) X(_wait) X(acting) X(action) X(actions) X(agent_id) X(alive) X(append) X(apply)       \
    X(begin) X(blocked) X(blocked_by) X(close) X(consume) X(costs) X(decide_action) X(decision) X(dispatcher) X(done)  \
    X(emit) X(event) X(event_bus) X(find) X(fire) X(first) X(fixed) X(has_more) X(hold) X(iterate) X(iterate_now)      \
    X(kernel) X(kind) X(lose_one) X(marks) X(max_data_bytes) X(min_delay_ns) X(passed) X(permission) X(popleft)        \
    X(rate_tracker) X(rates) X(request_stop) X(sequence) X(serve) X(shutdown) X(sort) X(state) X(success) X(throw)     \
    X(token) X(wait) X(waits)
#define DECLARE_NAME(name) extern PyObject *s_##name;
NAMES(DECLARE_NAME)

extern PyObject *armed, *budget_is_spent; /* ARMED and Pause.BUDGET in Python */
extern PyObject *under_way, *returned;    /* UNDER_WAY and the Exit of an actor that has returned */
extern PyObject *zero, *one;
extern PyObject *cancelled; /* the class Cancelled */
extern int stepping; /* the nesting depth of steps of actors */

typedef struct {
    PyObject_HEAD
    PyObject *entries; /* a list */
    Py_ssize_t index;  /* of the entry that is read next */
} Reader;

extern PyTypeObject *Reader_type, *Wait_type, *Seed_type;
extern PyType_Spec reader_spec, wait_spec, seed_spec, generator_spec;

/* The state of a wait. */
typedef enum { TO_GET, TO_WAIT, TO_ACQUIRE, TO_PAUSE, PAUSED, ARMED, IN_LINE, LEFT_TO_PYTHON, DONE } State;

/* Cast a function that takes its arguments as an array to the type of a method table. */
#define FAST(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS

/* For `take_over`: look up a class or a slot, or return NULL with an error. */
#define FIND_CLASS(class)                                                                                              \
    if (find_class(classes, #class, &class##_type) < 0) {                                                              \
        return NULL;                                                                                                   \
    }
#define FIND_SLOT(class, name)                                                                                         \
    if (find_slot(class##_type, #name, &class##_##name) < 0) {                                                         \
        return NULL;                                                                                                   \
    }

int find_class(PyObject *classes, const char *name, PyTypeObject **type);
int find_slot(PyTypeObject *type, const char *name, Py_ssize_t *offset);
int find_declared(PyObject *layout, const char *name, Py_ssize_t *offset);
PyObject *replace(PyTypeObject *type, PyMethodDef *definition);
PyObject *in_python(PyObject *function, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

PyObject *make_wait(PyObject *owner, State state);
PyObject *actor_of(PyObject *kernel);
PyObject *take_error(void);
void renew_stop(void);
int is_kernel(PyObject *object);
PyObject *rates_alone(PyObject *price); /* what a price takes of rate limits (borrowed); NULL: it is another price */
int have_capacity(PyObject *world, PyObject *agent_id, PyObject *rates); /* 1, 0, or -1 with an error */
int compare_ranks(PyObject *one, PyObject *other);
int begin_acquire(PyObject *pool);
int ended(PyObject *loop, PyObject *actor, PyObject *returned);
int hold_slot(PyObject *pool);
int decide(PyObject *kernel, PyObject *source, PyObject *actor, PyObject *value, PyObject *via);
PyObject *take_over_actions(PyObject *module, PyObject *args);
PyObject *take_over_bus(PyObject *module, PyObject *args);
PyObject *take_over_loops(PyObject *module, PyObject *args);
PyObject *take_over_rates(PyObject *module, PyObject *args);
PyObject *take_over_rows(PyObject *module, PyObject *args);
PyObject *take_over_slots(PyObject *module, PyObject *args);
PyObject *run_some(PyObject *loop, PyObject *most);
PyObject *queue_get(PyObject *queue, PyObject *nothing);
PyObject *queue_put_nowait(PyObject *queue, PyObject *item);
PyObject *signal_wait(PyObject *signal, PyObject *nothing);
PyObject *sleep_ns(PyObject *module, PyObject *delay);
PyObject *sort_entries(PyObject *module, PyObject *list);
PyObject *hash_order(PyObject *module, PyObject *args);
PyObject *in_order(PyObject *module, PyObject *waiting);
PyObject *by_lane(PyObject *module, PyObject *args);
PyObject *plainness(PyObject *module, PyObject *state);
PyObject *equal_states(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *kernel_emit(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *kernel_run_now(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *kernel_wake(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Store `value` in a slot and release the old value. `value` is a new reference (stolen), or NULL after an error. */
static inline int
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

/* Convert a Python number to a C number. One that is too large becomes LLONG_MAX, which is later than all times. */
static inline long long
number(PyObject *object)
{
    int overflow;
    long long value;
#if PY_VERSION_HEX >= 0x030C0000
    if (PyLong_CheckExact(object) && PyUnstable_Long_IsCompact((PyLongObject *)object)) {
        return PyUnstable_Long_CompactValue((PyLongObject *)object);
    }
#endif
    if (PyFloat_Check(object)) { /* a limit may be a float, even infinity */
        double ceiling = ceil(PyFloat_AS_DOUBLE(object));
        return ceiling < 9e18 ? ceiling > -9e18 ? (long long)ceiling : LLONG_MIN : LLONG_MAX;
    }
    value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow > 0 ? LLONG_MAX : overflow < 0 ? LLONG_MIN : value;
}

/* Return whether two numbers are equal, or -1 with an error if they cannot be compared. */
static inline int
same_number(PyObject *one, PyObject *other)
{
    if (one == other) {
        return 1;
    }
    if (PyLong_CheckExact(one) && PyLong_CheckExact(other)) {
        return number(one) == number(other);
    }
    return PyObject_RichCompareBool(one, other, Py_EQ);
}

static inline PyObject *
plus_one(PyObject *object)
{
    long long value = number(object);
    if (value == LLONG_MAX) {
        return PyNumber_Add(object, one);
    }
    return value == -1 && PyErr_Occurred() ? NULL : PyLong_FromLongLong(value + 1);
}

/* Remove the first `count` items of a list, which must have as many. The list keeps its memory, as it fills again. */
static inline void
take_first(PyObject *list, PyObject **taken, Py_ssize_t count)
{
    PyObject **items = ((PyListObject *)list)->ob_item;
    Py_ssize_t left = PyList_GET_SIZE(list) - count;
    memcpy(taken, items, (size_t)count * sizeof(*items));
    if (left) {
        memmove(items, items + count, (size_t)left * sizeof(*items));
    }
    Py_SET_SIZE(list, left);
}

/* Return whether an object has the slots of a `Source`. Most sources are actors, so this is tested first. */
static inline int
is_source(PyObject *object)
{
    return Py_IS_TYPE(object, Actor_type) || PyObject_TypeCheck(object, Source_type);
}

/* Return a new entry. `counter` is a new reference (stolen), or NULL after an error. */
static inline PyObject *
make_entry(PyObject *time, PyObject *priority, PyObject *rank, PyObject *counter, PyObject *target, PyObject *token)
{
    PyObject *entry;
    if (counter == NULL) {
        return NULL;
    }
    Py_INCREF(time); /* before the tuple is created, which may run the garbage collector and so arbitrary code */
    Py_INCREF(priority);
    Py_INCREF(rank);
    Py_INCREF(target);
    Py_INCREF(token);
    entry = PyTuple_New(6);
    if (entry == NULL) {
        Py_DECREF(time);
        Py_DECREF(priority);
        Py_DECREF(rank);
        Py_DECREF(counter);
        Py_DECREF(target);
        Py_DECREF(token);
        return NULL;
    }
    PyTuple_SET_ITEM(entry, 0, time);
    PyTuple_SET_ITEM(entry, 1, priority);
    PyTuple_SET_ITEM(entry, 2, rank);
    PyTuple_SET_ITEM(entry, 3, counter);
    PyTuple_SET_ITEM(entry, 4, target);
    PyTuple_SET_ITEM(entry, 5, token);
    return entry;
}

/* Append (time, 0, rank of the source, next counter of the source, target, token) to a list. */
static inline int
append_entry(PyObject *list, PyObject *time, PyObject *source, PyObject *target, PyObject *token)
{
    PyObject *counter = plus_one(GET(source, Source_counter)), *entry;
    int failed;
    if (counter != NULL) {
        put(source, Source_counter, Py_NewRef(counter));
    }
    Py_INCREF(list); /* for the same reason as in `make_entry` */
    entry = make_entry(time, zero, GET(source, Source_rank), counter, target, token);
    failed = entry == NULL ? -1 : PyList_Append(list, entry);
    Py_XDECREF(entry);
    Py_DECREF(list);
    return failed;
}

/* Return whether an object is a tuple with the length of an entry. Otherwise set an error. */
static inline int
is_entry(PyObject *object)
{
    if (PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == 6) {
        return 1;
    }
    PyErr_SetString(PyExc_TypeError, "an item of the calendar is not an entry: expected a tuple of 6 items");
    return 0;
}

#endif
