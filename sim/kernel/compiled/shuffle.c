/* `hash_order`: names in the order of a hash, equal to the byte to `hash_order` in rng.py, which defines it.

The hash is BLAKE2b with 8 bytes (RFC 7693). A hash object of Python takes longer to copy than this takes to compute.
*/

#include "core.h"

#define BLOCK 128
#define ROUNDS 12

typedef struct {
    uint64_t hash; /* its bytes from the first to the last, as one number */
    const char *name;
    Py_ssize_t size;
    PyObject *item;
} Placed;

static const uint64_t begin[8] = {
    0x6A09E667F3BCC908ULL, 0xBB67AE8584CAA73BULL, 0x3C6EF372FE94F82BULL, 0xA54FF53A5F1D36F1ULL,
    0x510E527FADE682D1ULL, 0x9B05688C2B3E6C1FULL, 0x1F83D9ABFB41BD6BULL, 0x5BE0CD19137E2179ULL,
};

static const unsigned char sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static inline uint64_t
turned(uint64_t bits, int by)
{
    return bits >> by | bits << (64 - by);
}

#define MIX(a, b, c, d, one, other)                                                                                    \
    v[a] += v[b] + (one);                                                                                              \
    v[d] = turned(v[d] ^ v[a], 32);                                                                                    \
    v[c] += v[d];                                                                                                      \
    v[b] = turned(v[b] ^ v[c], 24);                                                                                    \
    v[a] += v[b] + (other);                                                                                            \
    v[d] = turned(v[d] ^ v[a], 16);                                                                                    \
    v[c] += v[d];                                                                                                      \
    v[b] = turned(v[b] ^ v[c], 63);

/* Add a block to a state; `size` is the number of bytes up to its end. */
static void
compress(uint64_t *state, const unsigned char *block, uint64_t size, int last)
{
    uint64_t v[16], words[16];
    for (int index = 0; index < 8; index++) {
        v[index] = state[index];
        v[index + 8] = begin[index];
    }
    v[12] ^= size;
    v[14] = last ? ~v[14] : v[14];
    for (int index = 0; index < 16; index++) {
        words[index] = 0;
        for (int byte = 7; byte >= 0; byte--) {
            words[index] = words[index] << 8 | block[8 * index + byte];
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned char *order = sigma[round % 10];
        MIX(0, 4, 8, 12, words[order[0]], words[order[1]])
        MIX(1, 5, 9, 13, words[order[2]], words[order[3]])
        MIX(2, 6, 10, 14, words[order[4]], words[order[5]])
        MIX(3, 7, 11, 15, words[order[6]], words[order[7]])
        MIX(0, 5, 10, 15, words[order[8]], words[order[9]])
        MIX(1, 6, 11, 12, words[order[10]], words[order[11]])
        MIX(2, 7, 8, 13, words[order[12]], words[order[13]])
        MIX(3, 4, 9, 14, words[order[14]], words[order[15]])
    }
    for (int index = 0; index < 8; index++) {
        state[index] ^= v[index] ^ v[index + 8];
    }
}

/* Return the hash of a name that follows a text. */
static uint64_t
hash_of(const char *text, Py_ssize_t length, const char *name, Py_ssize_t size)
{
    uint64_t state[8], hash = 0;
    Py_ssize_t all = length + size, done = 0;
    memcpy(state, begin, sizeof(state));
    state[0] ^= 0x01010000 ^ 8; /* no key, 8 bytes */
    do {
        unsigned char block[BLOCK] = {0};
        Py_ssize_t part = all - done < BLOCK ? all - done : BLOCK, of_text = 0;
        if (done < length) {
            of_text = length - done < part ? length - done : part;
            memcpy(block, text + done, (size_t)of_text);
        }
        if (of_text < part) {
            memcpy(block + of_text, name + (done + of_text - length), (size_t)(part - of_text));
        }
        done += part;
        compress(state, block, (uint64_t)done, done == all);
    } while (done < all);
    for (int byte = 0; byte < 8; byte++) {
        hash = hash << 8 | (state[0] >> 8 * byte & 0xFF);
    }
    return hash;
}

static int
compare(const void *one, const void *other)
{
    const Placed *first = one, *second = other;
    Py_ssize_t shorter = first->size < second->size ? first->size : second->size;
    int order;
    if (first->hash != second->hash) {
        return first->hash < second->hash ? -1 : 1;
    }
    order = memcmp(first->name, second->name, (size_t)shorter); /* the order of UTF-8 is that of the characters */
    return order != 0 ? order : (first->size > second->size) - (first->size < second->size);
}

/* Fill a list with the items of a mapping in order. Return 0, or -1 with an error. */
static int
fill_in_order(PyObject *list, PyObject *named, const char *text, Py_ssize_t length)
{
    Py_ssize_t count = PyDict_GET_SIZE(named), place = 0, index = 0;
    PyObject *name, *item;
    Placed *placed = PyMem_New(Placed, count ? count : 1);
    if (placed == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (index < count && PyDict_Next(named, &place, &name, &item)) { /* nothing here can change the mapping */
        Placed *one = &placed[index];
        one->name = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &one->size) : NULL;
        if (one->name == NULL) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a name is a text");
            }
            PyMem_Free(placed);
            return -1;
        }
        one->hash = hash_of(text, length, one->name, one->size);
        one->item = item;
        index++;
    }
    qsort(placed, (size_t)count, sizeof(Placed), compare);
    for (index = 0; index < count; index++) {
        PyList_SET_ITEM(list, index, Py_NewRef(placed[index].item));
    }
    PyMem_Free(placed);
    return 0;
}

PyObject *
hash_order(PyObject *module, PyObject *args)
{
    PyObject *named, *list;
    const char *text;
    Py_ssize_t length, count;
    if (!PyArg_ParseTuple(args, "O!y#:hash_order", &PyDict_Type, &named, &text, &length)) {
        return NULL;
    }
    count = PyDict_GET_SIZE(named);
    list = PyList_New(count); /* before the mapping is read: it may run the garbage collector and so arbitrary code */
    if (list != NULL && PyDict_GET_SIZE(named) != count) {
        PyErr_SetString(PyExc_RuntimeError, "the mapping changed while it was put in order");
        Py_CLEAR(list);
    }
    if (list != NULL && fill_in_order(list, named, text, length) < 0) {
        Py_CLEAR(list);
    }
    return list;
}
