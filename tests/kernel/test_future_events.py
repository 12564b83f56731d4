from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.future_events import NEVER, Entry, FutureEvents

DELAYS = st.one_of(
    st.integers(1, 3),  # many at equal times
    st.integers(1, 10**6),
    st.just(10**9),
    st.integers(10**9, 10**10),  # with the short ones: two modes far apart
    st.integers(1, 2**61),  # huge spans
)
STEPS = st.lists(st.tuples(st.lists(DELAYS, max_size=6), st.integers(0, 8)), max_size=60)


def _take_instant(calendar: FutureEvents) -> list[Entry]:
    time, taken = calendar.due(), list[Entry]()
    for entry in calendar.reader:
        if entry[0] != time:
            calendar.rewind()
            break
        taken.append(entry)
    else:
        calendar.due()  # as the loop does: a reader that has ended is replaced before anything is pushed
    return taken


def _take_from(oracle: list[Entry]) -> list[Entry]:
    taken = [heappop(oracle)] if oracle else []
    while oracle and oracle[0][0] == taken[0][0]:
        taken.append(heappop(oracle))
    return taken


def _check(steps: list[tuple[list[int], int]], scale: int = 1) -> FutureEvents:
    """Push and take as a run does, against a heap: time stands at the instant taken last."""
    calendar, oracle = FutureEvents(), list[Entry]()
    now = counter = 0
    for delays, takes in [*steps, ([], 10**9)]:
        for delay in delays:
            counter += 1
            entry = (now + delay * scale, 0, counter % 7, counter, None, 0)
            calendar.push(entry)
            heappush(oracle, entry)
        for _ in range(min(takes, len(oracle) + 1)):
            expected = _take_from(oracle)
            assert _take_instant(calendar) == expected
            if expected:
                now = expected[0][0]
        assert len(calendar) == len(oracle)
    assert calendar.due() == NEVER
    return calendar


@given(STEPS)
def test_order_against_a_heap(steps):
    """Entries come in the order of their keys whatever is pushed between takes."""
    _check(steps)


def test_crowded_buckets_become_narrower():
    """A dense population makes the buckets narrower, and the order stays."""
    calendar = _check([([1 + n * 7919 % 10_000 for n in range(5000)], 100)] * 4)
    assert calendar.shift < 27


def test_sparse_buckets_become_wider():
    """A thin population makes the buckets wider, and the order stays."""
    calendar = _check([([1 + n for n in range(3)], 3)] * 500, scale=10**10)
    assert calendar.shift > 27


def test_width_follows_a_change_of_density_both_ways():
    """Dense, thin, and dense again: the order stays through all changes of width."""
    dense = [([1 + n * 7919 % 10_000 for n in range(3000)], 3000)]
    thin = [([10**11, 10**12], 2)] * 300
    _check(dense + thin + dense + thin + dense)


def test_one_instant_for_all():
    """Any number of entries at one time is fine: no width can part them, and the order is by source."""
    _check([([5] * 5000, 1), ([5] * 5000, 1)])


@given(
    st.lists(DELAYS, min_size=1, max_size=40), st.lists(st.lists(DELAYS, max_size=3), max_size=200), st.integers(1, 9)
)
def test_reading_while_entries_are_pushed(first, pushed, chunk):
    """Who iterates over the open bucket sees what is pushed behind it, also when it is relieved in between."""
    calendar, oracle = FutureEvents(), list[Entry]()
    counter = now = 0

    def push(delays: list[int]) -> None:
        nonlocal counter
        for delay in delays:
            counter += 1
            calendar.push((now + delay, 0, 0, counter, None, 0))
            heappush(oracle, (now + delay, 0, 0, counter, None, 0))

    push(first)
    while calendar.due() != NEVER:
        for number, entry in enumerate(calendar.reader):
            assert entry == heappop(oracle)
            now = entry[0]
            push(pushed.pop() if pushed else [])
            if number == chunk:
                calendar.relieve(now)
                break
        else:
            calendar.due()  # as the loop does: a reader that has ended is replaced before anything is pushed
    assert not oracle


@pytest.mark.slow
@given(STEPS, st.integers(2, 4))
def test_purge(steps, keep):
    """A purge drops what is not alive and nothing else, at any moment, also in an open bucket."""
    calendar, oracle = FutureEvents(), list[Entry]()
    now = counter = 0
    for delays, takes in steps:
        for delay in delays:
            counter += 1
            entry = (now + delay, 0, 0, counter, None, 0)
            calendar.push(entry)
            heappush(oracle, entry)
        oracle = sorted(entry for entry in oracle if entry[3] % keep)
        assert calendar.purge(lambda entry: bool(entry[3] % keep)) == len(oracle) == len(calendar)
        for _ in range(min(takes, len(oracle))):
            expected = _take_from(oracle)
            assert _take_instant(calendar) == expected
            if expected:
                now = expected[0][0]


def test_what_comes_first_is_put_in_front():
    """Entries are put before the one to be read next, also if that is given back, and what is due can be taken out."""

    def entry(time: int, counter: int) -> Entry:
        return (time, 0, 0, counter, None, 0)

    calendar = FutureEvents()
    for counter in range(4):
        calendar.push(entry(5 + counter // 2, counter))
    assert calendar.due() == 5
    assert calendar.cut(5) == [entry(5, 0), entry(5, 1)]
    assert calendar.cut(5) == []
    calendar.insert([entry(5, 7), entry(5, 6)])
    assert next(calendar.reader) == entry(5, 7)
    calendar.rewind()
    calendar.insert([entry(4, 9), entry(4, 8)])
    assert list(calendar.reader) == [
        entry(4, 9),
        entry(4, 8),
        entry(5, 7),
        entry(5, 6),
        entry(6, 2),
        entry(6, 3),
    ]
    assert calendar.cut(7) == []
    calendar.insert([entry(7, 1)])
    assert list(calendar.reader) == [entry(7, 1)]
