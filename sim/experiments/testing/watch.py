"""Watches one run with the checks of its properties: after each instant, at each event, and at the end."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sim.events.event_text import event_line, short
from sim.experiments.testing.checks import Check, Happened
from sim.experiments.testing.coverage import Observer
from sim.experiments.testing.view import PropertyView
from sim.experiments.testing.violations import DONE, Finding, Violation
from sim.kernel import to_ns, to_seconds
from sim.kernel.codec import decode, encode
from sim.kernel.ports import Recorder
from sim.kernel.rows import EventRow, RecordedEvent
from sim.runner.result import RunResult
from sim.runner.runner import RunController

STORY: Final = 8
"""The most events in the story of a violation."""

_KEPT: Final = 400  # of the latest events, from which a story is taken
_SILENT: Final = ("metric.sample", "agent.state")


class PropertyWatch:
    """Notes events, asks the checks, and passes all rows on. Give it to a run as `begun`.

    Args:
        checks: the checks by the name of their property.
        most_steps: the steps of the kernel after which the run is ended; None: no limit.
        until_found: whether the run is ended once each property is violated.

    Attributes:
        steps: the number of steps of the kernel.
        observer: counts which parts of the scenario the run reaches; None: they are not counted.
        cut_off: whether the run was ended because of the number of its steps.
        violations: the first violation of each property, in the order in which they were found.
    """

    def __init__(
        self, checks: Mapping[str, Check], most_steps: int | None = None, *, until_found: bool = False
    ) -> None:
        self._most = most_steps
        self.observer: Observer | None = None
        self._until_found = until_found
        self.steps = 0
        self.cut_off = False
        self._checks = checks
        self._open = dict(checks)  # those without a violation so far
        self.violations: list[Violation] = []
        self._events: deque[EventRow] = deque(maxlen=_KEPT)
        self._active: dict[str, None] = {}
        self._started = False

    def __call__(self, runner: RunController) -> None:
        """Begin to watch a run, before its first step."""
        self._view = PropertyView(runner)
        if self.observer is not None:
            self.observer.begin(runner)
        for name, check in tuple(self._open.items()):
            self._note(name, check.start(self._view), at_start=True)
        kernel = self._view.world.kernel
        inner = self._inner = kernel.recorder
        self.input, self.intent, self.result, self.closed = inner.input, inner.intent, inner.result, inner.closed
        self.flush, self.durable = inner.flush, inner.durable
        recorder: Recorder = self
        kernel.recorder = recorder
        runner.after_instant = self._look

    def event(self, row: EventRow, /) -> None:
        """Take note of an event, and pass it on."""
        self._take(row)
        self._inner.event(row)

    def unrecorded(self, row: EventRow, /) -> None:
        """Take note of an event that is not on record."""
        self._take(row)
        hear = getattr(self._inner, "unrecorded", None)
        if hear is not None:
            hear(row)

    def _take(self, row: EventRow) -> None:
        self._events.append(row)
        self._active[row[5]] = None
        if row[6] == "intervention.applied":
            self._view.changed_outside = True
        if self.observer is not None:
            self.observer.event(row)
        happened = Happened(row[0], row[5], row[6], lambda: _names(row))
        for name, check in tuple(self._open.items()):
            self._note(name, check.event(happened))

    def _look(self) -> bool:
        active, self._active = tuple(self._active), {}
        if self.observer is not None:
            for name in active:
                self.observer.look(name)
        for name, check in tuple(self._open.items()):
            self._note(name, check.look(self._view, active))
        self._view.changed_outside = False
        self.steps = self._view.world.kernel.steps
        self.cut_off = self._most is not None and self.steps > self._most
        return self.cut_off or (self._until_found and not self._open)

    def end(self, result: RunResult) -> None:
        """Ask the checks what is left to say at the end of a run."""
        samples: Mapping[str, Sequence[float | None]] = result.metrics
        for name, check in tuple(self._open.items()):
            self._note(name, check.end(to_ns(result.sim_seconds), samples))

    def _note(self, name: str, finding: Finding | None, *, at_start: bool = False) -> None:
        if finding is None:
            return
        del self._open[name]
        entry = self._view.entry_of(finding.agent) if finding.agent else ""
        self.violations.append(
            Violation(
                property=name,
                kind=finding.kind,
                time=to_seconds(finding.time_ns),
                text=finding.text,
                agent=finding.agent,
                entry=entry,
                story=tuple(event_line(_plain(row)) for row in self._story(finding)),
                causes=self._causes(finding),
                met=self._checks[name].met,
                at_start=at_start,
            )
        )

    def _story(self, finding: Finding) -> list[EventRow]:
        """Return the latest events up to a violation: of its agent, if it is about one that has done something."""
        rows = [row for row in self._events if row[0] <= finding.time_ns and row[6] not in _SILENT]
        own = [row for row in rows if row[5] == finding.agent] if finding.agent else []
        return (own or rows)[-STORY:]

    def _causes(self, finding: Finding) -> tuple[str, ...]:
        """Return what happened at the instant of a violation, or what its agent waits for."""
        entry = self._view.entry_of
        if finding.kind == "blocked":
            return (f"{entry(finding.agent)} {finding.cause}",)
        if finding.kind == "idle":  # what it did last: perhaps it fell asleep until something that never comes
            return tuple(f"{entry(row[5])} {row[6]} {short(_plain(row).data)}" for row in self._story(finding)[-1:])
        if finding.kind not in DONE:
            return ()
        rows = [row for row in self._events if row[0] == finding.time_ns and row[6] not in _SILENT]
        return tuple(sorted({f"{entry(row[5]) or row[5]} {row[6]}" for row in rows}))

    @property
    def judged(self) -> dict[str, int]:
        """How often each property could be judged."""
        return {name: check.judged for name, check in self._checks.items()}

    @property
    def undecided(self) -> dict[str, int]:
        """How often the run ended before a property could be judged."""
        return {name: check.undecided for name, check in self._checks.items() if check.undecided}


def _plain(row: EventRow) -> RecordedEvent:
    return RecordedEvent(*row[:7], decode(encode(row[7])), row[8])


def _names(row: EventRow) -> dict[str, Any]:
    """Return the names of an event for a condition on it."""
    seconds = to_seconds(row[0])
    return {"topic": row[6], "data": decode(encode(row[7])), "source": row[5], "time": seconds, "now": seconds}
