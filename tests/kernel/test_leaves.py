"""What a crowd, the bus and the limits do in C keeps to what they do in Python; all of this holds for both."""

from typing import Any

import pytest

from sim.base.errors import KernelError
from sim.events import EventBus
from sim.kernel import Kernel, Pause, Signal
from sim.resources import Limit, Rate, RateTracker


def crowd(kernel: Kernel, size: int, does: Any) -> list[Any]:
    """Spawn actors that one signal wakes at 5 ns; each then does something with its number."""
    signal = Signal(kernel)

    async def wait(number: int) -> None:
        await signal.wait()
        does(number)

    actors = [kernel.spawn(f"a{number}", wait(number), on_exit=lambda *_: None) for number in range(size)]
    kernel.call_at(5, signal.fire)
    kernel.current = None
    return actors


def test_a_budget_ends_amid_a_crowd():
    """A run that is stopped by its budget within a crowd goes on with the next one, and counts each as a step."""
    kernel, seen = Kernel(), list[int]()
    crowd(kernel, 5, seen.append)
    assert kernel.run(1) is Pause.LIMIT
    steps = kernel.steps
    assert kernel.run(budget=3) is Pause.BUDGET  # the signal, and two
    assert (seen, kernel.steps - steps, kernel.next_time(), kernel.whole()) == ([0, 1], 3, 5, False)
    assert kernel.run() is Pause.IDLE
    assert (seen, kernel.steps - steps) == ([0, 1, 2, 3, 4], 6)


def test_an_error_amid_a_crowd_leaves_the_others():
    """An error that ends the run is raised; run again, the rest of the crowd still runs at its instant."""
    kernel, seen = Kernel(), list[tuple[int, int]]()

    def fail(number: int) -> None:
        seen.append((number, kernel.now))
        if number == 1:
            raise MemoryError

    crowd(kernel, 4, fail)
    with pytest.raises(MemoryError):
        kernel.run()
    kernel.run()
    assert seen == [(0, 5), (1, 5), (2, 5), (3, 5)]


def test_cancelled_members_are_no_steps_once_they_are_purged():
    """Stale entries are dropped when they are many, those of a crowd too: what is dropped is no step."""
    kernel = Kernel()

    def cancel(number: int) -> None:
        for actor in actors[1:1100] if number == 0 else ():
            kernel.cancel(actor)

    actors = crowd(kernel, 3000, cancel)
    assert kernel.run() is Pause.IDLE
    assert kernel.steps == 3000 + 1 + 3000 + 1099 - 1024  # births, the signal, the crowd, errors; less what was purged


def test_an_entry_that_somebody_kept_stays_what_it_was():
    """The record of the step under way is never changed: the watchdog holds it to tell one step from another."""
    kernel, kept = Kernel(), list[tuple[Any, Any]]()

    def keep(number: int) -> None:
        entry: Any = kernel.step_under_way()
        kept.append((entry, entry[:4]))
        if number == 1:
            kernel.begin_anew()

    crowd(kernel, 4, keep)
    kernel.run()
    assert [entry[:4] for entry, _ in kept] == [was for _, was in kept]
    assert len({entry[4] for entry, _ in kept}) == 4


def test_a_kernel_cannot_be_run_within_a_step():
    """To run the kernel within one of its steps is refused, and harms nothing."""
    kernel, refused = Kernel(), list[str]()

    def nest(number: int) -> None:
        with pytest.raises(KernelError, match="already running") as error:
            kernel.run()
        refused.append(str(error.value))

    crowd(kernel, 3, nest)
    assert kernel.run() is Pause.IDLE
    assert len(refused) == 3


def test_tell_goes_through_the_emit_of_the_kernel():
    """A kernel of a derived class records what is told in its own way."""
    seen: list[str] = []

    class Traced(Kernel):
        def emit(self, topic: str, data: object, actor: str | None = None) -> tuple[int, int]:
            seen.append(topic)
            return super().emit(topic, data, actor)

    bus = EventBus(Traced())
    bus.publish("a")
    bus.tell("a", 1)
    assert seen == ["a", "a"]


def test_a_subscriber_that_comes_later_is_told():
    """Once a topic has a subscriber, what is told reaches it; when it has gone, only the counts go on."""
    kernel, heard = Kernel(), list[int]()
    bus = EventBus(kernel)
    bus.tell("a", 1)
    bus.tell("a", 2)
    subscription = bus.subscribe("*", callback=lambda event: heard.append(event.data))
    bus.tell("a", 3)
    subscription.cancel()
    bus.tell("a", 4)
    assert (heard, bus.counts, bus.sequence) == ([3], {"a": 4}, 4)


@pytest.mark.parametrize("limit", [2**63 - 1, 2**63, 2**64])
def test_limits_may_be_any_numbers(limit):
    """Amounts and limits that no machine word holds are compared all the same."""
    tracker = RateTracker(Kernel())
    tracker.set_limit("calls", Limit(agent=Rate(limit, 1000)))
    assert tracker.blocked("a") is None
    assert tracker.blocked_by("a", {"calls": limit}) is None
    assert tracker.blocked_by("a", {"calls": limit + 1}) == "calls"
    assert tracker.consume("a", "calls", limit)
    assert (tracker.blocked("a"), tracker.consume("a", "calls")) == ("calls", False)
