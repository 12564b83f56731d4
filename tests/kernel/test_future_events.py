from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.future_events import Entry, FutureEvents

DELAYS = st.one_of(
    st.integers(1, 3),  # many at equal times
    st.integers(1, 10**6),
    st.just(10**9),
    st.integers(10**9, 10**10),  # with the short ones: two modes far apart
    st.integers(1, 2**61),  # huge spans
)
STEPS = st.lists(st.tuples(st.lists(DELAYS, max_size=6), st.integers(0, 8)), max_size=60)


def _take(calendar: FutureEvents) -> Entry | None:
    entry = calendar.peek()
    calendar.position += entry is not None
    return entry


def _check(steps: list[tuple[list[int], int]], scale: int = 1) -> FutureEvents:
    """Push and take as a run does, against a heap: time stands at the entry taken last."""
    calendar, oracle = FutureEvents(), list[Entry]()
    now = counter = 0
    for delays, takes in [*steps, ([], 10**9)]:
        for delay in delays:
            counter += 1
            entry = (now + delay * scale, 0, counter % 7, counter, None, 0)
            calendar.push(entry)
            heappush(oracle, entry)
        for _ in range(min(takes, len(oracle) + 1)):
            expected = heappop(oracle) if oracle else None
            assert _take(calendar) == expected
            if expected is not None:
                now = expected[0]
                while oracle and oracle[0][0] == now:  # all of one instant, before anything is pushed
                    assert _take(calendar) == heappop(oracle)
        assert len(calendar) == len(oracle)
    return calendar


@given(STEPS)
def test_order_against_a_heap(steps):
    """Entries come in the order of their keys whatever is pushed between takes."""
    _check(steps)


def test_crowded_buckets_become_narrower():
    """A dense population makes the buckets narrower, and the order stays."""
    calendar = _check([([1 + n * 7919 % 10_000 for n in range(5000)], 100)] * 4)
    assert calendar._shift < 27


def test_sparse_buckets_become_wider():
    """A thin population makes the buckets wider, and the order stays."""
    calendar = _check([([1 + n for n in range(3)], 3)] * 500, scale=10**10)
    assert calendar._shift > 27


def test_width_follows_a_change_of_density_both_ways():
    """Dense, thin, and dense again: the order stays through all changes of width."""
    dense = [([1 + n * 7919 % 10_000 for n in range(3000)], 3000)]
    thin = [([10**11, 10**12], 2)] * 300
    _check(dense + thin + dense + thin + dense)


def test_one_instant_for_all():
    """Any number of entries at one time is fine: no width can part them, and the order is by source."""
    _check([([5] * 5000, 1), ([5] * 5000, 1)])


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
            entry = heappop(oracle)
            assert _take(calendar) == entry
            now = entry[0]
