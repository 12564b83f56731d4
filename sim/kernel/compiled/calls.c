/* Methods that steps call: `Kernel.wake`, `Kernel.emit`, `Queue.put_nowait`. */

#include "core.h"

/* Return whether an object has the slots of a `Kernel`. */
int
is_kernel(PyObject *object)
{
    static PyTypeObject *seen; /* a cache, because a search in the base classes is slow */
    if (!Py_IS_TYPE(object, seen)) {
        if (!PyObject_TypeCheck(object, Kernel_type)) {
            return 0;
        }
        Py_XSETREF(seen, (PyTypeObject *)Py_NewRef(Py_TYPE(object)));
    }
    return 1;
}

/* Call the Python function that was replaced, with the same arguments. */
PyObject *
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

/* End the wait of an actor, on behalf of a source. */
int
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
    failed = append_entry(GET(kernel, Kernel_ready), GET(kernel, Kernel_now), source, actor, token);
    Py_DECREF(token);
    return failed;
}

PyObject *
kernel_wake(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *source = count == 4 && args[3] != Py_None ? args[3] : GET(kernel, Kernel_current);
    if (names != NULL || count < 3 || count > 4 || !PyObject_TypeCheck(args[0], Actor_type) ||
        !is_source(source)) {
        return in_python(python_wake, kernel, args, count, names);
    }
    if (decide(kernel, source, args[0], args[1], args[2]) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Return a tuple of new references (stolen). They are released if the tuple cannot be created. */
static PyObject *
pack(PyObject *const *parts, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t index = 0; index < count; index++) {
        if (tuple != NULL) {
            PyTuple_SET_ITEM(tuple, index, parts[index]);
        }
        else {
            Py_DECREF(parts[index]);
        }
    }
    return tuple;
}

/* Return the row of an event, with the name of an actor, or of the source if `actor` is NULL. */
static PyObject *
make_row(PyObject *kernel, PyObject *actor, PyObject *source, PyObject *counter, PyObject *topic, PyObject *data)
{
    PyObject *entry = GET(kernel, Kernel__entry);
    /* All references are taken before the first tuple is created, which may run the garbage collector and so arbitrary
       code. */
    PyObject *rank = PyTuple_GET_ITEM(entry, 2), *ordinal = Py_IS_TYPE(rank, Rank_type) ? GET(rank, Rank_ordinal) : rank;
    PyObject *cause[] = {Py_NewRef(ordinal), Py_NewRef(PyTuple_GET_ITEM(entry, 3))};
    PyObject *row[] = {
        Py_NewRef(GET(kernel, Kernel_now)),
        Py_NewRef(GET(kernel, Kernel_delta)),
        Py_NewRef(PyTuple_GET_ITEM(entry, 1)),
        Py_NewRef(GET(source, Source_ordinal)),
        Py_NewRef(counter),
        Py_NewRef(actor == NULL ? GET(source, Source_name) : actor),
        Py_NewRef(topic),
        Py_NewRef(data),
        Py_NewRef(zero),
    };
    PyObject *packed = pack(cause, 2);
    if (packed != NULL) {
        Py_SETREF(row[8], packed);
        return pack(row, 9);
    }
    for (int index = 0; index < 9; index++) {
        Py_DECREF(row[index]);
    }
    return NULL;
}

/* Record an event, and return its identity. */
static PyObject *
record(PyObject *kernel, PyObject *source, PyObject *counter, PyObject *actor, PyObject *topic, PyObject *data)
{
    PyObject *kept = GET(kernel, Kernel_kept), *row, *done;
    int wanted = kept == Py_None ? 1 : PySet_Contains(kept, topic);
    PyObject *identity[] = {Py_NewRef(GET(source, Source_ordinal)), Py_NewRef(counter)};
    if (wanted == 0) {
        return pack(identity, 2);
    }
    row = wanted < 0 ? NULL : make_row(kernel, actor, source, counter, topic, data);
    done = row == NULL ? NULL : PyObject_CallMethodOneArg(GET(kernel, Kernel_recorder), s_event, row);
    Py_XDECREF(row);
    if (done == NULL) {
        Py_DECREF(identity[0]);
        Py_DECREF(identity[1]);
        return NULL;
    }
    Py_DECREF(done);
    return pack(identity, 2);
}

PyObject *
kernel_emit(PyObject *kernel, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *source = GET(kernel, Kernel_current), *entry = GET(kernel, Kernel__entry), *counter, *result;
    int named = count == 3 && names == NULL && args[2] != Py_None;
    if (names != NULL || count < 2 || count > 3 || !is_source(source) || !PyTuple_CheckExact(entry) ||
        PyTuple_GET_SIZE(entry) != 6 ||
        (named && (!PyUnicode_CheckExact(args[2]) || PyUnicode_GET_LENGTH(args[2]) == 0))) {
        return in_python(python_emit, kernel, args, count, names);
    }
    counter = plus_one(GET(source, Source_counter));
    if (counter == NULL) {
        return NULL;
    }
    Py_INCREF(source);
    put(source, Source_counter, Py_NewRef(counter));
    result = record(kernel, source, counter, named ? args[2] : NULL, args[0], args[1]);
    Py_DECREF(source);
    Py_DECREF(counter);
    return result;
}

/* Give an item to the first waiting actor. Return 1, 0 if no actor waits, or -1 with an error. */
static int
hand_over(PyObject *queue, PyObject *kernel, PyObject *source, PyObject *waiting, PyObject *item)
{
    while (PyList_GET_SIZE(waiting) > 1) {
        PyObject *pair[2]; /* an actor and its token */
        int found = 0;
        take_first(waiting, pair, 2);
        if (PyObject_TypeCheck(pair[0], Actor_type)) {
            found = same_number(GET(pair[0], Actor_token), pair[1]);
        }
        if (found > 0) {
            found = decide(kernel, source, pair[0], item, queue) < 0 ? -1 : 1;
        }
        Py_DECREF(pair[0]);
        Py_DECREF(pair[1]);
        if (found) {
            return found;
        }
    }
    return 0;
}

PyObject *
queue_put_nowait(PyObject *queue, PyObject *item)
{
    PyObject *kernel = GET(queue, Queue__kernel), *getters = GET(queue, Queue__getters), *items, *done;
    PyObject *waiting = Py_IS_TYPE(getters, Waiters_type) ? GET(getters, Waiters_actors) : Py_None;
    Py_ssize_t length;
    if (GET(queue, Queue_closed) != Py_False || !is_kernel(kernel) || !is_source(GET(kernel, Kernel_current)) ||
        !PyLong_CheckExact(GET(queue, Queue_limit)) || !(waiting == Py_None || PyList_CheckExact(waiting))) {
        return PyObject_CallFunctionObjArgs(python_put_nowait, queue, item, NULL);
    }
    if (waiting != Py_None) {
        PyObject *source = Py_NewRef(GET(kernel, Kernel_current));
        int found;
        Py_INCREF(waiting); /* a release of references may run arbitrary code, which may replace these objects */
        Py_INCREF(kernel);
        found = hand_over(queue, kernel, source, waiting, item);
        Py_DECREF(source);
        Py_DECREF(kernel);
        Py_DECREF(waiting);
        if (found) {
            return found < 0 ? NULL : Py_NewRef(Py_True);
        }
    }
    items = GET(queue, Queue_items);
    length = items == Py_None ? -1 : PyObject_Size(items);
    if (length < 0) {
        return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(python_put_nowait, queue, item, NULL);
    }
    if (length >= number(GET(queue, Queue_limit))) {
        Py_RETURN_FALSE;
    }
    done = PyObject_CallMethodOneArg(items, s_append, item);
    if (done == NULL) {
        return NULL;
    }
    Py_DECREF(done);
    Py_RETURN_TRUE;
}
