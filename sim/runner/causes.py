"""The causes of an event of a recorded run, and its influence: graphs of steps, which a replay traces (edge)."""

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import SimError, UsageError
from sim.base.pages import Chart, Dot, Table, lane_chart, tag
from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.kernel.duration import MAX_NS, seconds_text
from sim.kernel.levels import level_of
from sim.record.reader import StoredRun, open_run
from sim.runner.edited import time_of
from sim.runner.kept_replay import KeptReplay
from sim.runner.moments import ReplayCost, cost_of
from sim.runner.options import ReplayOptions
from sim.runner.replay_process import FORKS, answer_all, as_answer, write
from sim.runner.trace import OUTSIDE, START, Trace
from sim.runner.walk import Walk

RATE: Final = 12_000
"""Events that a replay with a trace repeats in a second, measured as `moments.RATE`."""

SHOWN: Final = 20
"""The most steps in a table and in a picture of causes."""

MOST_READ: Final = 20
"""The most agents whose state a step read that are listed one by one."""


@attrs.frozen
class CausalStep:
    """A step that led to an event, with the steps of the same agent that came before it by its own timers alone.

    Attributes:
        step: its number in the trace.
        agent: whose step it is: an agent, or another source such as `scenario`.
        time: its simulated time in seconds.
        events: the first and the last event that it made; None: it made none.
        by: what caused it: `step`, the `start` of the run, `outside` (an input, or an answer to a call), or `unknown`.
        cause: the step that caused it; None: no step did.
        woken: the event that woke its agent; None: none did.
        took: the messages that it took, each with the step that delivered it and its event; None: not known.
        read: the latest steps of the agents whose state it read.
        reads: of how many agents it read the state.
        used: the step that used a pool before it, by the name of each pool that it used.
        before: the step of the same agent before it and its folded steps; None: there is none.
        folded: how many earlier steps of the same agent are folded into it: its own timers caused them, and they
            took and read nothing.
        since: the time of the first of them in seconds; that of the step itself if there are none.
        drew: whether it drew random numbers, or one that is folded into it.
    """

    step: int
    agent: str
    time: float
    events: tuple[int, int] | None
    by: str
    cause: int | None
    woken: int | None
    took: tuple[tuple[int, int | None], ...]
    read: tuple[int, ...]
    reads: int
    used: dict[str, int]
    before: int | None
    folded: int
    since: float
    drew: bool

    @property
    def parents(self) -> Iterator[int]:
        """The steps from which it followed, without the earlier ones of its agent."""
        yield from () if self.cause is None else (self.cause,)
        yield from (step for step, _ in self.took if step >= 0)
        yield from self.read
        yield from self.used.values()


@attrs.frozen(repr=False)
class Causes:
    """What led to an event.

    Attributes:
        event: its number.
        steps: the step that made it, then those that led to it, the nearest first.
        cut: how many steps that led to it directly are left out, whatever led to these.
        ancestors: how many steps in all may have influenced it, and of how many agents and other sources.
        of: the number of steps until then.
    """

    event: int
    steps: tuple[CausalStep, ...]
    cut: int
    ancestors: tuple[int, int]
    of: int

    def to_json(self) -> dict[str, Json]:
        """Return it as a JSON-like mapping."""
        return attrs.asdict(self)

    def plot(self) -> Chart:
        """Return a picture of the nearest steps in time, a lane for each agent, with what led from one to another."""
        steps = self.steps[:SHOWN]
        places = {step.step: place for place, step in enumerate(steps)}
        links: dict[str, list[tuple[int, int]]] = {"caused": [], "message": [], "state that was read": [], "pool": []}
        for place, step in enumerate(steps):
            ways = (
                ("caused", (step.cause,)),
                ("message", [at for at, _ in step.took]),
                ("state that was read", step.read),
                ("pool", step.used.values()),
            )
            for way, froms in ways:
                links[way] += [(places[one], place) for one in froms if one in places]
        dots = [
            Dot(step.agent, step.time, step.since, f"#{place + 1} {step.agent} at {seconds_text(step.time)}", not place)
            for place, step in enumerate(steps)
        ]
        title = f"what led to event {self.event}{self._more()}"
        return lane_chart(title, dots, {way: pairs for way, pairs in links.items() if pairs})

    def _more(self) -> str:
        more = len(self.steps) + self.cut - SHOWN
        return f", without {more} more steps" if more > 0 else ""

    def _table(self) -> Table:
        places = {step.step: f"#{place}" for place, step in enumerate(self.steps, 1)}
        rows = [
            (
                places[step.step],
                step.agent,
                seconds_text(step.time),
                None if step.events is None else step.events[0],
                step.by if step.cause is None else places.get(step.cause, "left out"),
                len(step.took),
                step.reads,
                "yes" if step.drew else "",
            )
            for step in self.steps[:SHOWN]
        ]
        return Table(("step", "agent", "time", "event", "caused by", "messages", "states read", "drew"), rows)

    def __repr__(self) -> str:
        return f"<Causes of event {self.event}{self._more()}>\n{self._table().text()}"

    def _repr_html_(self) -> str:
        return tag("div", [tag("p", f"what led to event {self.event}{self._more()}"), self._table().html()])


@attrs.frozen
class Influence:
    """What an event may have influenced, through wake-ups, messages, the state of agents, and pools.

    A step need not have used what it took, read or knew, so it can be less. It can be more where agents share
    something else: accounts, limits, places, artifacts.

    Attributes:
        event: its number.
        steps: how many later steps it may have influenced, and how many later steps there are.
        events: the same of events.
        agents: by the name of each agent or other source, when the event may have influenced it first, in seconds.
        sources: how many agents and other sources have steps after the event.
    """

    event: int
    steps: tuple[int, int]
    events: tuple[int, int]
    agents: dict[str, float]
    sources: int

    def to_json(self) -> dict[str, Json]:
        """Return it as a JSON-like mapping."""
        return attrs.asdict(self)


def causes_of(
    stored: StoredRun,
    event: int,
    options: ReplayOptions,
    *,
    most: int | None = 20,
    on_cost: Callable[[ReplayCost], object] | None = None,
) -> Causes:
    """Return what led to an event. The run is replayed up to it; nothing is executed outside, nothing written.

    Args:
        stored: the run.
        event: the number of the event.
        options: see `ReplayOptions`.
        most: the most steps; None: all.
        on_cost: is called with what the replay costs, before it begins.

    Raises:
        UsageError: if there is no such event, it belongs to the start or the end of the run, or the agents of the run
            are at different times.
        RunError: as `moment_of`.
    """
    time_ns = _time_of(stored, event)
    with Walk(stored, options) as walk:
        _check_one_time(walk)
        if on_cost is not None:
            on_cost(cost_of(walk, time_ns, RATE))
        trace = walk.trace()
        if not walk.to_event(event, time_ns):
            raise _of_the_end(event)
        if event >= len(trace.step_of) or trace.step_of[event] < 0:
            raise _of_no_step(trace, event)
        return _causes(trace, event, most)


def influence_of(
    stored: StoredRun, event: int, options: ReplayOptions, *, on_cost: Callable[[ReplayCost], object] | None = None
) -> Influence:
    """Return what an event may have influenced; see `causes_of`. The whole run is replayed."""
    _time_of(stored, event)
    with Walk(stored, options) as walk:
        _check_one_time(walk)
        if on_cost is not None:
            on_cost(cost_of(walk, MAX_NS, RATE))
        trace = walk.trace()
        walk.to_end()
        _check_step(trace, event)
        influence = _influence(trace, event)
        walk.verify()
        return influence


class Traces(KeptReplay):
    """The trace of a whole run, for a session that asks for the causes and the influence of several events.

    The first question traces the run; later ones take milliseconds, on Linux. Elsewhere, each is a replay. Close it, or
    use it as a context manager.

    Args:
        run: the folder of the run, which has ended.
        options: see `ReplayOptions`.
    """

    def __init__(self, run: Path, options: ReplayOptions) -> None:
        super().__init__(
            run, options, lambda requests, answers: _Traced(run, options, answers).serve(requests), rate=RATE
        )

    def causes(self, event: int, most: int | None = 20) -> dict[str, Json]:
        """Return what led to an event, as `Causes.to_json` does; see `causes_of`."""
        with open_run(self._run, verify=False) as stored:
            _time_of(stored, event)
            if not FORKS:
                return causes_of(stored, event, self._options, most=most).to_json()
        causes: dict[str, Json] = self._session.ask({"causes": event, "most": most})
        return causes

    def influence(self, event: int) -> dict[str, Json]:
        """Return what an event may have influenced, as `Influence.to_json` does; see `influence_of`."""
        with open_run(self._run, verify=False) as stored:
            _time_of(stored, event)
            if not FORKS:
                return influence_of(stored, event, self._options).to_json()
        influence: dict[str, Json] = self._session.ask({"influence": event})
        return influence


class _Traced:
    """The process that keeps a trace.

    Args:
        run: the folder of the run.
        options: see `ReplayOptions`.
        answers: the descriptor to which answers are written.
    """

    def __init__(self, run: Path, options: ReplayOptions, answers: int) -> None:
        self._run = run
        self._options = options
        self._answers = answers
        self._trace: Trace | None = None
        self._failed: SimError | None = None  # why there is no trace: a second one would fail as well

    def serve(self, requests: int) -> None:
        """Answer requests until their pipe is closed."""
        answer_all(requests, self._answers, lambda asked: write(self._answers, self._answer(asked)))

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "cost" in asked:
            with open_run(self._run, verify=False) as stored, Walk(stored, self._options) as walk:
                _check_one_time(walk)
                return attrs.asdict(cost_of(walk, MAX_NS, RATE))
        trace = self._traced()
        if "causes" in asked:
            _check_step(trace, asked["causes"])
            return _causes(trace, asked["causes"], asked["most"]).to_json()
        _check_step(trace, asked["influence"])
        return _influence(trace, asked["influence"]).to_json()

    def _traced(self) -> Trace:
        if self._failed is not None:
            raise self._failed
        if self._trace is None:
            try:
                self._trace = self._new()
            except Exception as error:  # whatever agents raise
                self._failed = as_answer(error)
                raise self._failed from error
        return self._trace

    def _new(self) -> Trace:
        with open_run(self._run, verify=False) as stored, Walk(stored, self._options) as walk:
            _check_one_time(walk)
            trace = walk.trace()
            walk.to_end()
            steps, events = len(trace.times), len(trace.step_of)
            walk.verify()
            trace.cut(steps, events)  # the end of the agents is no part of the run
            return trace


def _time_of(stored: StoredRun, event: int) -> int:
    if level_of(stored.info.options) == "samples":
        raise UsageError(
            "the run was recorded at the level `samples`, so that its events have no steps",
            hint="record it whole: sim run FILE --recording all",
        )
    return time_of(stored, event)


def _check_step(trace: Trace, event: int) -> None:
    """Check in the trace of a whole run that a step made an event.

    Raises:
        UsageError: if none did.
    """
    if event >= len(trace.step_of) or trace.step_of[event] < 0:
        later = any(step >= 0 for step in trace.step_of[event:])
        raise _of_no_step(trace, event) if later else _of_the_end(event)


def _of_the_end(event: int) -> UsageError:
    return UsageError(
        f"event {event} belongs to the end of the run, which stops all agents: no step led to it",
        hint="name an earlier event",
    )


def _of_no_step(trace: Trace, event: int) -> UsageError:
    """Return what is said of an event before the end that no step made: of the start, or from outside."""
    if any(step >= 0 for step in trace.step_of[:event]):
        return UsageError(f"event {event} came from outside of the steps of agents: no step led to it")
    return UsageError(
        f"event {event} belongs to the start of the run, which makes all agents: no step led to it",
        hint="name a later event",
    )


def _check_one_time(walk: Walk) -> None:
    """Check that the run has one order of steps, before its replay begins.

    Raises:
        UsageError: if its agents are at different times.
    """
    if walk.runner.simulation.service is not None:
        raise UsageError(
            f"{walk.stored.path} was run with execution.sync: its agents are at different times, so that its steps"
            " cannot be traced",
            hint="run it without, if its agents allow that: --set execution.sync=null",
        )


def _causes(trace: Trace, event: int, most: int | None) -> Causes:
    first = trace.step_of[event]
    steps: list[CausalStep] = []
    queue, queued, place = [first], {first: None}, 0
    while place < len(queue) and (most is None or len(steps) < most):
        step = _folded(trace, queue[place], first)
        place += 1
        steps.append(step)
        for parent in step.parents:
            if parent not in queued:
                queued[parent] = None
                queue.append(parent)
    marked = _marked_before(trace, first)
    sources = len({who for who, mark in zip(trace.who, marked, strict=True) if mark})
    return Causes(event, tuple(steps), len(queue) - place, (sum(marked) - 1, sources), first)


def _folded(trace: Trace, step: int, last: int) -> CausalStep:
    """Return a step with the earlier ones of its agent that its own timers alone led to."""
    top, folded, drew = step, 0, step in trace.drew
    while (
        (before := trace.before[top]) >= 0
        and trace.causes[top] == before
        and top not in trace.took
        and top not in trace.read
        and top not in trace.used
        and not trace.woken[top]
    ):
        top, folded, drew = before, folded + 1, drew or before in trace.drew
    cause = trace.causes[top]
    read = sorted(trace.read.get(top, {}))
    return CausalStep(
        step=step,
        agent=trace.names[trace.who[step]],
        time=to_seconds(trace.times[step]),
        events=_events(trace, step),
        by="step" if cause >= 0 else {START: "start", OUTSIDE: "outside"}.get(cause, "unknown"),
        cause=cause if cause >= 0 else None,
        woken=trace.woken[top] or None,
        took=tuple((at, number or None) for at, number in trace.took.get(top, ())),
        read=tuple(read[:MOST_READ]),
        reads=len(read),
        used=trace.used.get(top, {}),
        before=trace.before[top] if trace.before[top] >= 0 else None,
        folded=folded,
        since=to_seconds(trace.times[top]),
        drew=drew,
    )


def _events(trace: Trace, step: int) -> tuple[int, int] | None:
    first = last = trace.first[step]
    if not first:
        return None
    while last + 1 < len(trace.step_of) and trace.step_of[last + 1] == step:
        last += 1
    return first, last


def _parents(trace: Trace, step: int) -> Iterator[int]:
    """Yield all steps from which a step may have followed; those from outside of the steps are negative."""
    yield trace.causes[step]
    yield trace.before[step]
    yield from (at for at, _ in trace.took.get(step, ()))
    yield from trace.read.get(step, ())
    yield from trace.used.get(step, {}).values()


def _marked_before(trace: Trace, last: int) -> bytearray:
    """Return by step whether it may have influenced the last one, which counts as well."""
    marked = bytearray(len(trace.times))
    marked[last] = 1
    todo = [last]
    while todo:
        for parent in _parents(trace, todo.pop()):
            if parent >= 0 and not marked[parent]:
                marked[parent] = 1
                todo.append(parent)
    return marked


def _influence(trace: Trace, event: int) -> Influence:
    first, total = trace.step_of[event], len(trace.times)
    marked = bytearray(total)
    marked[first] = 1
    count, before = 1, 0
    while count > before:  # mostly two passes: within one entry, a step can read what a later one has left
        before = count
        for step in range(first + 1, total):
            if not marked[step] and any(parent >= first and marked[parent] for parent in _parents(trace, step)):
                marked[step] = 1
                count += 1
    agents: dict[str, float] = {}
    for step in range(first + 1, total):
        if marked[step]:
            agents.setdefault(trace.names[trace.who[step]], to_seconds(trace.times[step]))
    later = array("q", trace.step_of[event + 1 :])
    return Influence(
        event,
        (count - 1, total - first - 1),
        (sum(step >= 0 and marked[step] for step in later), len(later)),
        agents,
        len({trace.who[step] for step in range(first + 1, total)}),
    )
