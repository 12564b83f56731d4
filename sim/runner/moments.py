"""The moments of a recorded run, each read from a replay that goes there (edge)."""

from collections.abc import Callable
from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.kernel import Duration, to_ns, to_text
from sim.record.reader import StoredRun
from sim.runner.branching import end_of
from sim.runner.edited import time_of
from sim.runner.moment import Moment
from sim.runner.options import ReplayOptions
from sim.runner.walk import Walk

RATE: Final = 30_000
"""Events that a replay repeats in a second: the least that was measured of the shipped scenarios, on one core of a
small virtual machine; the most was 125,000."""


@attrs.frozen
class ReplayCost:
    """What a replay costs.

    Attributes:
        events: about how many events it repeats.
        seconds: about how long that takes at most, in real seconds, if the agents of the run compute little.
        answered: how many answers from outside (of models at endpoints, tools, people) the whole run has. They are
            those on record: no model, tool or person is asked again.
        changed: what has changed since the run was recorded, if that is allowed: modules, packages, the scenario.
    """

    events: int
    seconds: float
    answered: int = 0
    changed: tuple[str, ...] = ()


def cost_of(walk: Walk, time_ns: int, rate: int = RATE) -> ReplayCost:
    """Return what a replay costs.

    Args:
        walk: the replay, which has not begun.
        time_ns: until when it goes, in simulated nanoseconds.
        rate: how many events it repeats in a second.
    """
    sql = "SELECT first_event, count, json_extract(data, '$[0][0]') FROM chunks ORDER BY id"
    before = [(first, count) for first, count, time in walk.stored.query(sql) if time < time_ns]
    events = sum(before[-1]) - 1 if before else 0
    ((answered,),) = walk.stored.query("SELECT count(*) FROM effects WHERE outcome IS NOT NULL")
    return ReplayCost(events, events / rate, answered, walk.changed)


@attrs.frozen
class RunPosition:
    """A place in a run: a time in simulated nanoseconds, and the event there whose step is the last; None: the time."""

    time_ns: int
    event: int | None = None


def place_of(stored: StoredRun, at: Duration | None, at_event: int | None) -> RunPosition:
    """Return the place that was asked for; without a time and an event, the end of the record.

    Raises:
        UsageError: if both are given, there is no such event, or the record ends before.
    """
    if at is not None and at_event is not None:
        raise UsageError("the moment is given twice: as at, and as at_event", hint="give one of them")
    if at_event is not None:
        return RunPosition(time_of(stored, at_event), at_event)
    end = end_of(stored)
    time_ns = end if at is None else to_ns(at)
    if time_ns > end:
        raise UsageError(
            f"the record of {stored.path} ends at {to_text(end)}, before {to_text(time_ns)}",
            hint="without a time, it is the end",
        )
    return RunPosition(time_ns)


def moment_of(
    stored: StoredRun, place: RunPosition, options: ReplayOptions, on_cost: Callable[[ReplayCost], object] | None = None
) -> Moment:
    """Return the state of a run at a place. It is replayed up to there; nothing is executed outside, nothing written.

    Args:
        stored: the run.
        place: the place. What is due at its time has not happened yet; with an event, all up to its step has.
        options: see `ReplayOptions`.
        on_cost: is called with what the replay costs, before it begins.

    Raises:
        UsageError: if the agents of the run are at different times, or something that the run
            needs is missing or not allowed.
        RunError: if the run is under way, the code has changed, or the replay differs from the record.
    """
    if place.event is not None:
        with Walk(stored, options) as walk:
            if place.time_ns < walk.runner.until_ns:
                walk.check_one_time(min(place.time_ns, walk.end_ns - 1))
            if on_cost is not None:
                on_cost(cost_of(walk, place.time_ns))
            if walk.to_event(place.event, place.time_ns):
                return walk.moment()
    with Walk(stored, options) as walk:
        time_ns = place.time_ns if place.event is None else walk.end_ns
        walk.check_one_time(time_ns)
        if on_cost is not None and place.event is None:
            on_cost(cost_of(walk, place.time_ns))
        return arrive(walk, time_ns)


def arrive(walk: Walk, time_ns: int) -> Moment:
    """Let a walk go to a time (nanoseconds), and return the state there."""
    if time_ns < walk.end_ns:
        walk.to(time_ns)
        return walk.moment()
    walk.to_end()
    moment = walk.moment(ended=True)
    return attrs.evolve(moment, world={**moment.world, **walk.verify()})
