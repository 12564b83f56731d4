/* Keyed draws: `Seed` and `Generator` in draws.py, where each operation is defined. Both give the same bits. */

#include "core.h"

#define GOLDEN 0x9E3779B97F4A7C15ULL
#define TO_UNIT 0x1p-53
#define FULL_CIRCLE 6.283185307179586 /* 2.0 * math.pi */

typedef struct {
    PyObject_HEAD
    uint64_t value;
} Seed;

typedef struct {
    PyObject_HEAD
    Seed *seed;
    uint64_t key, gamma, state, time, drawn;
    long long turn;
    uint64_t count;
    char fresh, ever; /* `ever`: whether a draw was made, so that `drawn` is a time */
} Generator;


static inline uint64_t
mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9ULL;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBULL;
    return bits ^ bits >> 31;
}

static void
start(Generator *self)
{
    self->fresh = 0;
    self->count = self->ever && self->time == self->drawn ? self->count + 1 : 0;
    self->drawn = self->time;
    self->ever = 1;
    self->state = mix((self->key ^ self->seed->value) + self->time * GOLDEN);
    if (self->count) {
        self->state = mix(self->state + self->count * GOLDEN);
    }
}

static inline uint64_t
next(Generator *self)
{
    if (self->fresh) {
        start(self);
    }
    return mix(self->state += self->gamma);
}

/* The product of two numbers: its low 64 bits, and in `high` its high 64 bits. */
static inline uint64_t
multiply(uint64_t one, uint64_t other, uint64_t *high)
{
    uint64_t a = one >> 32, b = one & 0xFFFFFFFF, c = other >> 32, d = other & 0xFFFFFFFF;
    uint64_t low = b * d, middle = a * d + (low >> 32), rest = b * c + (middle & 0xFFFFFFFF);
    *high = a * c + (middle >> 32) + (rest >> 32);
    return rest << 32 | (low & 0xFFFFFFFF);
}

static uint64_t
below(Generator *self, uint64_t n)
{
    uint64_t high, low = multiply(next(self), n, &high);
    if (low < n) {
        uint64_t least = (0 - n) % n;
        while (low < least) {
            low = multiply(next(self), n, &high);
        }
    }
    return high;
}

static inline double
unit(Generator *self)
{
    return (double)(next(self) >> 11) * TO_UNIT;
}

/* -- methods */

static int
takes(const char *name, Py_ssize_t count, Py_ssize_t least, Py_ssize_t most)
{
    if (count >= least && count <= most) {
        return 1;
    }
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd arguments, not %zd", name, least, most, count);
    return 0;
}

/* Read a number of 64 bits; a larger one is cut off. */
static int
read_bits(PyObject *object, uint64_t *bits)
{
    *bits = PyLong_AsUnsignedLongLongMask(object);
    return *bits == (uint64_t)-1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *
seed_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *value;
    Seed *self;
    uint64_t bits;
    static char *known[] = {"value", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, names, "O:Seed", known, &value) || read_bits(value, &bits) < 0) {
        return NULL;
    }
    self = (Seed *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->value = bits;
    }
    return (PyObject *)self;
}

static void
seed_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
generator_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *seed, *key, *gamma;
    Generator *self;
    if (names != NULL && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "the arguments of draws have no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!OO:Generator", Seed_type, &seed, &key, &gamma)) {
        return NULL;
    }
    self = (Generator *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->seed = (Seed *)Py_NewRef(seed);
    self->fresh = 1;
    if (read_bits(key, &self->key) < 0 || read_bits(gamma, &self->gamma) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void
generator_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Generator *)self)->seed);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
generator_moment(Generator *self, PyObject *const *args, Py_ssize_t count)
{
    uint64_t time;
    long long turn = -1;
    if (!takes("moment", count, 1, 2) || read_bits(args[0], &time) < 0) {
        return NULL;
    }
    if (count == 2 && args[1] != Py_None) {
        turn = PyLong_AsLongLong(args[1]);
        if (turn == -1 && PyErr_Occurred()) {
            return NULL;
        }
        if (turn == self->turn && time == self->time) {
            return Py_NewRef((PyObject *)self);
        }
    }
    self->turn = turn;
    self->time = time;
    self->fresh = 1;
    return Py_NewRef((PyObject *)self);
}

static PyObject *
generator_next(Generator *self, PyObject *nothing)
{
    return PyLong_FromUnsignedLongLong(next(self));
}

static PyObject *
generator_random(Generator *self, PyObject *nothing)
{
    return PyFloat_FromDouble(unit(self));
}

/* `below` for any number: those above 64 bits are drawn as `_below_large` does. `n` is an int. */
static PyObject *
below_object(Generator *self, PyObject *n)
{
    PyObject *result, *bits, *shift, *zero_bits, *more;
    uint64_t small;
    int sign = PyObject_RichCompareBool(n, zero, Py_LE);
    if (sign) {
        if (sign > 0) {
            PyErr_Format(PyExc_ValueError, "a random integer below %S does not exist", n);
        }
        return NULL;
    }
    small = PyLong_AsUnsignedLongLong(n);
    if (small != (uint64_t)-1 || !PyErr_Occurred()) {
        return PyLong_FromUnsignedLongLong(below(self, small));
    }
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
        return NULL;
    }
    PyErr_Clear();
    bits = PyObject_CallMethod(n, "bit_length", NULL);
    if (bits == NULL) {
        return NULL;
    }
    Py_ssize_t length = PyLong_AsSsize_t(bits);
    Py_DECREF(bits);
    shift = PyLong_FromLong(64);
    more = PyLong_FromSsize_t((64 - length % 64) % 64);
    zero_bits = PyLong_FromLong(0);
    while (shift != NULL && more != NULL && zero_bits != NULL) {
        result = Py_NewRef(zero_bits);
        for (Py_ssize_t drawn = 0; drawn < length && result != NULL; drawn += 64) {
            PyObject *part = PyLong_FromUnsignedLongLong(next(self));
            PyObject *moved = part == NULL ? NULL : PyNumber_Lshift(result, shift);
            Py_SETREF(result, moved == NULL ? NULL : PyNumber_Or(moved, part));
            Py_XDECREF(moved);
            Py_XDECREF(part);
        }
        if (result != NULL) {
            Py_SETREF(result, PyNumber_Rshift(result, more));
        }
        int fits = result == NULL ? -1 : PyObject_RichCompareBool(result, n, Py_LT);
        if (fits) {
            Py_DECREF(shift);
            Py_DECREF(more);
            Py_DECREF(zero_bits);
            if (fits < 0) {
                Py_CLEAR(result);
            }
            return result;
        }
        Py_DECREF(result);
    }
    Py_XDECREF(shift);
    Py_XDECREF(more);
    Py_XDECREF(zero_bits);
    return NULL;
}

static PyObject *
generator_below(Generator *self, PyObject *n)
{
    PyObject *number = PyNumber_Index(n), *result = number == NULL ? NULL : below_object(self, number);
    Py_XDECREF(number);
    return result;
}

/* `randint` for numbers that C integers, or their difference, cannot hold; and for those that are no numbers. */
static PyObject *
randint_large(Generator *self, PyObject *low, PyObject *high)
{
    PyObject *first = PyNumber_Index(low), *last = first == NULL ? NULL : PyNumber_Index(high);
    PyObject *span = last == NULL ? NULL : PyNumber_Subtract(last, first), *result = NULL;
    int empty = span == NULL ? -1 : PyObject_RichCompareBool(span, zero, Py_LT);
    if (empty > 0) {
        PyErr_Format(PyExc_ValueError, "randint needs low <= high, not %S and %S", first, last);
    }
    else if (empty == 0) {
        PyObject *number = PyNumber_Add(span, one), *place = number == NULL ? NULL : below_object(self, number);
        result = place == NULL ? NULL : PyNumber_Add(first, place);
        Py_XDECREF(number);
        Py_XDECREF(place);
    }
    Py_XDECREF(first);
    Py_XDECREF(last);
    Py_XDECREF(span);
    return result;
}

static PyObject *
generator_randint(Generator *self, PyObject *const *args, Py_ssize_t count)
{
    int over_low, over_high;
    if (!takes("randint", count, 2, 2)) {
        return NULL;
    }
    if (PyLong_CheckExact(args[0]) && PyLong_CheckExact(args[1])) {
        long long low = PyLong_AsLongLongAndOverflow(args[0], &over_low);
        long long high = PyLong_AsLongLongAndOverflow(args[1], &over_high);
        if (!over_low && !over_high && low <= high && low > -(1LL << 62) && high < 1LL << 62) {
            return PyLong_FromLongLong(low + (long long)below(self, (uint64_t)(high - low) + 1));
        }
    }
    return randint_large(self, args[0], args[1]);
}

/* Arithmetic with what a caller gives is that of Python objects, so that any number does, and errors are the same. */

static PyObject *
generator_uniform(Generator *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *span, *share, *above = NULL, *result = NULL;
    if (!takes("uniform", count, 2, 2) || (span = PyNumber_Subtract(args[1], args[0])) == NULL) {
        return NULL;
    }
    share = PyFloat_FromDouble(unit(self));
    above = share == NULL ? NULL : PyNumber_Multiply(span, share);
    result = above == NULL ? NULL : PyNumber_Add(args[0], above);
    Py_DECREF(span);
    Py_XDECREF(share);
    Py_XDECREF(above);
    return result;
}

static PyObject *
generator_chance(Generator *self, PyObject *probability)
{
    double drawn = unit(self);
    PyObject *number, *result;
    if (PyFloat_CheckExact(probability)) {
        return PyBool_FromLong(drawn < PyFloat_AS_DOUBLE(probability));
    }
    number = PyFloat_FromDouble(drawn);
    result = number == NULL ? NULL : PyObject_RichCompare(number, probability, Py_LT);
    Py_XDECREF(number);
    return result;
}

static PyObject *
generator_exponential(Generator *self, PyObject *mean)
{
    PyObject *number = PyFloat_FromDouble(-log(1.0 - unit(self)));
    PyObject *result = number == NULL ? NULL : PyNumber_Multiply(number, mean);
    Py_XDECREF(number);
    return result;
}

static PyObject *
generator_gauss(Generator *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *number, *product, *result;
    double angle, radius;
    if (!takes("gauss", count, 0, 2)) {
        return NULL;
    }
    angle = unit(self) * FULL_CIRCLE;
    radius = sqrt(-2.0 * log(1.0 - unit(self)));
    number = PyFloat_FromDouble(cos(angle) * radius);
    product = number == NULL ? NULL : count < 2 ? Py_NewRef(number) : PyNumber_Multiply(number, args[1]);
    result = product == NULL ? NULL : count < 1 ? Py_NewRef(product) : PyNumber_Add(args[0], product);
    Py_XDECREF(number);
    Py_XDECREF(product);
    return result;
}

static PyObject *
generator_choice(Generator *self, PyObject *items)
{
    PyObject *place, *result;
    Py_ssize_t length = PyObject_Length(items);
    if (length < 1) {
        if (length == 0) {
            PyErr_SetString(PyExc_IndexError, "choice needs at least one item");
        }
        return NULL;
    }
    place = PyLong_FromUnsignedLongLong(below(self, (uint64_t)length));
    result = place == NULL ? NULL : PyObject_GetItem(items, place);
    Py_XDECREF(place);
    return result;
}

static int
swap(PyObject *items, Py_ssize_t one, Py_ssize_t other)
{
    PyObject *first = PyLong_FromSsize_t(one), *second = first == NULL ? NULL : PyLong_FromSsize_t(other);
    PyObject *new_first = second == NULL ? NULL : PyObject_GetItem(items, second);
    PyObject *new_second = new_first == NULL ? NULL : PyObject_GetItem(items, first);
    int failed = new_second == NULL || PyObject_SetItem(items, first, new_first) < 0 ||
                 PyObject_SetItem(items, second, new_second) < 0;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(new_first);
    Py_XDECREF(new_second);
    return failed ? -1 : 0;
}

static PyObject *
generator_shuffle(Generator *self, PyObject *items)
{
    Py_ssize_t length = PyObject_Length(items);
    if (length < 0) {
        return NULL;
    }
    for (Py_ssize_t last = length - 1; last > 0; last--) {
        Py_ssize_t other = (Py_ssize_t)below(self, (uint64_t)last + 1);
        if (PyList_CheckExact(items)) { /* no other code runs meanwhile */
            PyObject **all = ((PyListObject *)items)->ob_item, *item = all[last];
            all[last] = all[other];
            all[other] = item;
        }
        else if (swap(items, last, other) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

#define POSITIONS(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL

static PyMethodDef generator_methods[] = {
    {"moment", POSITIONS(generator_moment), "Go to a moment, and return this object."},
    {"next", (PyCFunction)generator_next, METH_NOARGS, "Return 64 random bits."},
    {"random", (PyCFunction)generator_random, METH_NOARGS, "Return a random number in [0, 1)."},
    {"below", (PyCFunction)generator_below, METH_O, "Return a random integer from 0 to n - 1."},
    {"uniform", POSITIONS(generator_uniform), "Return a uniformly distributed number."},
    {"gauss", POSITIONS(generator_gauss), "Return a normally distributed number."},
    {"randint", POSITIONS(generator_randint), "Return a random integer from low to high, both included."},
    {"chance", (PyCFunction)generator_chance, METH_O, "Return True with this probability."},
    {"exponential", (PyCFunction)generator_exponential, METH_O, "Return an exponentially distributed number."},
    {"choice", (PyCFunction)generator_choice, METH_O, "Return a random element."},
    {"shuffle", (PyCFunction)generator_shuffle, METH_O, "Put the items in random order."},
    {NULL},
};

static PyMemberDef seed_members[] = {
    {"value", T_ULONGLONG, offsetof(Seed, value), 0, "64 bits."},
    {NULL},
};

static PyType_Slot seed_slots[] = {
    {Py_tp_doc, "The seed of a run, which all its draws share, so that a branch can replace it."},
    {Py_tp_new, seed_new},
    {Py_tp_dealloc, seed_dealloc},
    {Py_tp_members, seed_members},
    {0},
};

PyType_Spec seed_spec = {
    .name = "sim.kernel.compiled._core.Seed",
    .basicsize = sizeof(Seed),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = seed_slots,
};

static PyMemberDef generator_members[] = {
    {"seed", T_OBJECT_EX, offsetof(Generator, seed), READONLY, "The seed of the run."},
    {"key", T_ULONGLONG, offsetof(Generator, key), READONLY, "64 bits that stand for owner and purpose."},
    {"gamma", T_ULONGLONG, offsetof(Generator, gamma), READONLY, "The step between two draws."},
    {NULL},
};

static PyType_Slot generator_slots[] = {
    {Py_tp_doc, "The generator of `Draws`, and the distributions that rules use."},
    {Py_tp_new, generator_new},
    {Py_tp_dealloc, generator_dealloc},
    {Py_tp_methods, generator_methods},
    {Py_tp_members, generator_members},
    {0},
};

PyType_Spec generator_spec = {
    .name = "sim.kernel.compiled._core.Generator",
    .basicsize = sizeof(Generator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = generator_slots,
};
