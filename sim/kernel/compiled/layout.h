/* The classes of the kernel that the C drives, and their slots. Made by .ci/layout.py; do not edit. */

#define CLASSES(X) \
    X(Rank) X(Source) X(Actor) X(Kernel) X(FutureEvents) X(WakeBatch) X(Signal) X(Waiters) X(Queue)

#define SLOTS(X) \
    X(Rank, actor) X(Rank, counter) X(Rank, delta) X(Rank, index) X(Rank, ordinal) X(Rank, priority) X(Rank, source) \
    X(Rank, time) X(Source, counter) X(Source, held) X(Source, name) X(Source, ordinal) X(Source, rank) \
    X(Actor, cancelling) X(Actor, coro) X(Actor, listener) X(Actor, on_exit) X(Actor, token) X(Actor, value) \
    X(Actor, via) X(Kernel, _begun) X(Kernel, _blocked_from) X(Kernel, _children) X(Kernel, _declared) \
    X(Kernel, _entry) X(Kernel, _halted) X(Kernel, _horizon) X(Kernel, _interrupts) X(Kernel, _limit) X(Kernel, _made) \
    X(Kernel, _max_deltas) X(Kernel, _midway) X(Kernel, _names) X(Kernel, _new) X(Kernel, _new_at) X(Kernel, _owned) \
    X(Kernel, _purge_at) X(Kernel, _reached) X(Kernel, _running) X(Kernel, _shuffled) X(Kernel, _stale) \
    X(Kernel, actors) X(Kernel, addressee) X(Kernel, advancing) X(Kernel, calendar) X(Kernel, crowded) \
    X(Kernel, current) X(Kernel, delta) X(Kernel, effects) X(Kernel, host) X(Kernel, inputs) X(Kernel, kept) \
    X(Kernel, now) X(Kernel, placed) X(Kernel, ready) X(Kernel, recorder) X(Kernel, scenario) X(Kernel, seed) \
    X(Kernel, steps) X(Kernel, streams) X(Kernel, supervisor) X(Kernel, surroundings) X(Kernel, throws) \
    X(FutureEvents, _opened) X(FutureEvents, _queue) X(FutureEvents, _taken) X(FutureEvents, _turn) \
    X(FutureEvents, _unadapted) X(FutureEvents, buckets) X(FutureEvents, open) X(FutureEvents, reader) \
    X(FutureEvents, shift) X(WakeBatch, fired) X(WakeBatch, lost) X(WakeBatch, place) X(WakeBatch, throws) \
    X(WakeBatch, value) X(WakeBatch, waiting) X(Signal, _crowd) X(Signal, _kernel) X(Signal, _others) \
    X(Signal, _purge_at) X(Waiters, _purge_at) X(Waiters, actors) X(Queue, _getters) X(Queue, _kernel) \
    X(Queue, _putters) X(Queue, closed) X(Queue, items) X(Queue, limit)
