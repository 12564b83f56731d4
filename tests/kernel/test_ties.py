"""The order of actors that are made during a run: as they were made, without a number that all of them share."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import simpy

from sim.kernel import Kernel, Latch, Signal, run_until
from sim.kernel.actor import FIRST_DERIVED, Rank, compare
from sim.kernel.future_events import sort_entries
from sim.kernel.waits import sleep_ns


def test_children_of_several_parents_run_in_the_order_in_which_they_were_made(kernel):
    """Made by many parents in one round, they run in the order of the parents, and so do the children of these."""
    ran: list[str] = []

    async def live(name: str, depth: int) -> None:
        if depth:
            for number in range(2):
                kernel.spawn(f"{name}{number}", live(f"{name}{number}", depth - 1))
        await sleep_ns(100)
        ran.append(name)

    for name in "abcdefghij":
        kernel.spawn(name, live(name, 2))
    kernel.run()
    made = [list("abcdefghij")]
    for _ in range(2):
        made.append([f"{name}{number}" for name in made[-1] for number in range(2)])
    assert ran == [*itertools.chain(*made)]


@pytest.mark.parametrize("wake", ["signal", "latch", "time"])
def test_one_event_wakes_them_in_that_order(kernel, wake):
    """One event wakes declared actors first, then those made during the run, in the order in which they were made."""
    signal, latch, woken = Signal(kernel), Latch(kernel), list[str]()
    waits: dict[str, Callable[[], Any]] = {
        "signal": signal.wait, "latch": latch.wait, "time": lambda: sleep_ns(500 - kernel.now)
    }  # fmt: skip

    async def live(name: str) -> None:
        await waits[wake]()
        woken.append(name)

    async def parent(name: str, at: int) -> None:
        await sleep_ns(at)
        kernel.spawn(f"child of {name}", live(f"child of {name}"))
        await live(name)

    for name, at in (("a", 7), ("b", 3), ("c", 7)):
        kernel.spawn(name, parent(name, at))
    kernel.call_at(500, lambda: (signal.fire(), latch.set()))
    kernel.run()
    assert woken == ["a", "b", "c", "child of b", "child of a", "child of c"]


def test_the_page_says_where_ties_differ_from_simpy():
    """Of two that are due at one instant, SimPy runs the one that was scheduled first, sim the one made first."""
    kernel, mine, theirs = Kernel(), list[str](), list[str]()

    async def process(name: str, spans: list[int]) -> None:
        for span in spans:
            await sleep_ns(span)
        mine.append(name)

    env = simpy.Environment()

    def twin(name: str, spans: list[int]) -> Any:
        for span in spans:
            yield env.timeout(span)
        theirs.append(name)

    for name, spans in (("two steps", [3, 2]), ("one step", [5])):
        kernel.spawn(name, process(name, spans))
        env.process(twin(name, spans))
    run_until(kernel, 1)
    env.run()
    assert (mine, theirs) == (["two steps", "one step"], ["one step", "two steps"])


def test_the_order_of_others_does_not_depend_on_one_more_actor(make_kernel):
    """One more actor that makes children changes neither the ordinals nor the counters nor the order of others."""

    def run(others: int) -> list[tuple[int, int, int]]:
        kernel, _ = make_kernel()
        ran: list[tuple[int, int, int]] = []

        async def child(name: str) -> None:
            for _ in range(3):
                await sleep_ns(10)
                if name != "z":
                    ran.append((kernel.now, kernel.current.ordinal, kernel.current.counter))

        async def parent(name: str, children: int) -> None:
            for _ in range(children):
                await sleep_ns(5)
                kernel.spawn(f"child of {name}", child(name))

        for name in "abcd":
            kernel.spawn(name, parent(name, 4))
        kernel.spawn("z", parent("z", others))
        kernel.run()
        return ran

    assert run(0) == run(9)


def test_a_rank_is_the_key_of_the_step_not_the_moment(make_kernel):
    """An actor that is made ahead of others, at a later simulated time, comes after those that are made before it."""
    kernel, _ = make_kernel()
    made: list[Any] = []
    one, two = (kernel.spawn(name, sleep_ns(1000)) for name in "ab")
    kernel.run(1)
    for time, actor in ((30, one), (10, two), (10, one)):
        kernel.ahead(time, 1, actor, lambda: made.append(kernel.adopt("child")))
    assert sorted(made, key=lambda actor: actor.rank) == [made[2], made[1], made[0]]
    assert all(isinstance(actor.rank, Rank) and actor.ordinal >= FIRST_DERIVED for actor in made)
    kernel.close()


@pytest.mark.slow
def test_long_lines_of_descent_are_compared(kernel):
    """Two lines in which each makes the next at the same instants keep their order, however long they are."""
    ran: list[str] = []

    async def live(name: str, left: int) -> None:
        await sleep_ns(1)
        if left:
            kernel.spawn(name, live(name, left - 1))
        else:
            ran.append(name)

    for name in "ab":
        kernel.spawn(name, live(name, 3000))
    kernel.run()
    assert ran == ["a", "b"]


def test_ranks_are_in_a_strict_order():
    """Ranks are above all ordinals; each part of the key counts, the earlier the more, and the compiled sort agrees."""
    keys = itertools.product((1, 2), (0, 1), (-1, 0), (16, 17), (1, 2))
    ranks: list[Any] = [Rank(0, key, actor, index) for key in keys for actor in (3, 16) for index in (1, 2)]
    parents = [Rank(0, (9, 0, 0, rank, 1), rank, 1) for rank in ranks]
    everything = [*range(20), FIRST_DERIVED - 1, *ranks, *parents]
    for one, other in itertools.pairwise(everything):
        assert compare(one, other) < 0 < compare(other, one)
        assert one < other
        assert other > one
    assert repr(ranks[0]) == "#0"
    entries: list[Any] = [(0, 0, rank, 1, None, 0) for rank in everything]
    mixed = random.Random(1).sample(entries, len(entries))
    sort_entries(mixed)
    assert [entry[2] for entry in mixed] == everything
