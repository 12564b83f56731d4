"""Watches one run with the checks of its properties: after each instant, at each event, and at the end."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sim.events.event_text import event_line
from sim.experiments.testing.checks import Check, Happened
from sim.experiments.testing.view import View
from sim.experiments.testing.violations import Finding, Violation
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


class Watch:
    """Notes events, asks the checks, and passes all rows on. Give it to a run as `begun`.

    Args:
        checks: the checks by the name of their property.

    Attributes:
        violations: the first violation of each property, in the order in which they were found.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._open = dict(checks)  # those without a violation so far
        self.violations: list[Violation] = []
        self._events: deque[EventRow] = deque(maxlen=_KEPT)
        self._active: dict[str, None] = {}
        self._started = False

    def __call__(self, runner: RunController) -> None:
        """Begin to watch a run, before its first step."""
        self._view = View(runner)
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
        happened = Happened(row[0], row[5], row[6], lambda: _names(row))
        for name, check in tuple(self._open.items()):
            self._note(name, check.event(happened))

    def _look(self) -> bool:
        active, self._active = tuple(self._active), {}
        for name, check in tuple(self._open.items()):
            self._note(name, check.look(self._view, active))
        return False

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
                name, finding.kind, to_seconds(finding.time_ns), finding.text, finding.agent, entry,
                self._story(finding), at_start,
            )
        )  # fmt: skip

    def _story(self, finding: Finding) -> tuple[str, ...]:
        """Return the latest events up to a violation: of its agent, if it is about one that has done something."""
        rows = [row for row in self._events if row[0] <= finding.time_ns and row[6] not in _SILENT]
        own = [row for row in rows if row[5] == finding.agent] if finding.agent else []
        return tuple(event_line(_plain(row)) for row in (own or rows)[-STORY:])

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
