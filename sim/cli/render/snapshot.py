"""A snapshot of a running run, for `sim run --live` and `sim watch`.

A snapshot comes from a runner in this process, or from the run file of another process.
"""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs

from sim.agents.latest_events import ForwardingRecorder
from sim.base.errors import ActorError
from sim.base.text import number
from sim.events.event_text import event_line
from sim.kernel import to_text
from sim.kernel.codec import Raw, Record, decode, freeze
from sim.kernel.rows import RecordedEvent
from sim.record import HashRecorder, RunRecorder
from sim.resources import MICRO
from sim.runner import RunController

NEWEST = 200
"""The number of latest events to select lines from. More events than this could not be read anyway."""

_SPAN = 3.0
"""Real seconds over which a rate is averaged."""

_SCOPES = {"agent": "fullest agent", "group": "fullest group", "total": "all"}


@attrs.frozen
class Level:
    """The use of something limited: its name, the used share (0 to 1), and the amounts as text."""

    name: str
    share: float
    text: str


@attrs.frozen
class Snapshot:
    """The state of a run at one moment.

    Attributes:
        title: name, seed and mode.
        status: the status, as in `sim list`.
        now: simulated seconds.
        until: the end in simulated seconds; None: without a limit, or unknown.
        states: the number of agents by state.
        figures: counts so far, by name.
        levels: the use of limits, budgets and the ceiling of the models.
        errors: the most frequent errors, as lines.
        newest: the latest events, as lines of plain text.
        streams: what models are saying, as lines of plain text; what is not whole is not on record.
    """

    title: str
    status: str
    now: float
    until: float | None
    states: Mapping[str, int]
    figures: Mapping[str, int]
    levels: tuple[Level, ...] = ()
    errors: tuple[str, ...] = ()
    newest: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()


class RateMeter:
    """Computes rates from snapshots: the growth of simulated time and of counts per real second."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Snapshot]] = deque()

    def rates(self, look: Snapshot, at: float | None = None) -> dict[str, float]:
        """Return the rates over the last seconds: of each count, and of simulated time (`now`).

        Args:
            look: the current snapshot.
            at: real seconds of a monotonic clock; None: the current time.
        """
        at = time.monotonic() if at is None else at
        self._seen.append((at, look))
        while len(self._seen) > 2 and self._seen[0][0] < at - _SPAN:
            self._seen.popleft()
        before, then = self._seen[0]
        seconds = at - before
        if seconds <= 0:
            return {}
        rates = {name: (total - then.figures.get(name, 0)) / seconds for name, total in look.figures.items()}
        return {**rates, "now": (look.now - then.now) / seconds}


def take_snapshot(runner: RunController) -> Snapshot:
    """Return a snapshot of a run in this process. It changes nothing. The kernel must be paused."""
    figures, kernel = runner.figures(), runner.simulation.world.kernel
    recorder = runner.recorder.inner if isinstance(runner.recorder, ForwardingRecorder) else runner.recorder
    kept = recorder if isinstance(recorder, HashRecorder | RunRecorder) else None
    return Snapshot(
        title=f"{runner.simulation.scenario.name}  seed {kernel.seed}  {runner.mode}",
        status="running",
        now=runner.now,
        until=runner.until,
        states=figures.states,
        figures={
            "iterations": figures.iterations,
            "actions": sum(figures.done.values()),
            "refused": sum(figures.refused.values()),
            "errors": figures.errors,
            "wake-ups": figures.resumed,
            "messages": figures.messages,
            **({} if kept is None else {"events": kept.events}),
        },
        levels=(*_rates(runner), *_budgets(runner), *_models(runner)) if runner.shards is None else (),
        errors=_errors(runner),
        newest=newest([RecordedEvent(*row) for row in kept.latest(NEWEST)] if kept is not None else ()),
    )


def newest(rows: "tuple[RecordedEvent, ...] | list[RecordedEvent]") -> tuple[str, ...]:
    """Return events as lines of plain text. Changes of state appear only if there are no other events."""
    chosen = [row for row in rows if row.topic != "agent.state"] or list(rows)
    return tuple(event_line(row._replace(data=_data(row.data))) for row in chosen[-20:])


def _data(data: Any) -> Any:
    """Return the data of an event in the form in which it is read from the record."""
    try:
        return decode(freeze(data)) if isinstance(data, Raw | Record) else data
    except ActorError:  # it cannot be recorded; the run will report this error
        return None


def _rates(runner: RunController) -> list[Level]:
    levels = []
    for use in runner.simulation.world.rate_tracker.uses():
        text = f"{number(use.used)} of {number(use.limit)}" if use.scope == "total" else f"{use.fullest:.0%}"
        levels.append(Level(f"{use.resource} ({_SCOPES[use.scope]})", use.fullest, text))
    return levels


def _budgets(runner: RunController) -> list[Level]:
    world = runner.simulation.world
    budgets = [
        Level(f"budget {name} (fullest agent)", figures.fullest, f"{number(figures.spent_micro / MICRO)} spent by all")
        for name, figures in world.budgets.statistics().items()
    ]
    quotas = [
        Level(f"quota {name} (fullest agent)", figures.fullest, f"{number(figures.held)} held by all")
        for name, figures in world.quotas.statistics().items()
    ]
    return budgets + quotas


def _models(runner: RunController) -> list[Level]:
    models = runner.simulation.models
    if models is None or not (models.spend.total.attempts or models.waiting):
        return []
    waiting = [Level("batches", 0.0, text)] if (text := waiting_text(runner)) else []
    total, ceiling = models.spend.total, models.spend.ceiling_micro
    calls = f"{number(total.calls)} calls, {number(total.input_tokens + total.output_tokens)} tokens"
    cost = f"{total.cost_micro / MICRO:.4g}"
    if not ceiling:
        return [Level("models", 0.0, f"{calls}, {cost} spent"), *waiting]
    return [Level("models", total.cost_micro / ceiling, f"{cost} of {ceiling / MICRO:g} spent; {calls}"), *waiting]


def waiting_text(runner: RunController) -> str:
    """Return how many requests wait in batches at an endpoint, and since when; empty if none does."""
    models = runner.simulation.models
    waiting = None if models is None else models.waiting
    if waiting is None:
        return ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(waiting.since))
    requests = "1 request waits" if waiting.requests == 1 else f"{number(waiting.requests)} requests wait"
    batches = "1 batch" if waiting.batches == 1 else f"{number(waiting.batches)} batches"
    return f"{requests} in {batches} since {since} ({to_text(max(0, round(time.time() - waiting.since)) * 10**9)})"


def _errors(runner: RunController) -> tuple[str, ...]:
    errors = [f"{number(count)} x {error[:200]}" for error, count in runner.figures().failures.items()]
    health = runner.health
    alerts: tuple[tuple[int, str], ...] = ()
    if health is not None:
        alerts = (health.missed, "heartbeat missed"), (health.locks, "lock held"), (health.overdue, "effect overdue")
    return (*(f"{number(count)} x {alert}" for count, alert in alerts if count), *errors[:3])


def pace_text(rates: Mapping[str, float]) -> str:
    """Return the pace of simulated time as text; empty if it is not known yet."""
    pace = rates.get("now")
    return "" if pace is None else f"{number(round(pace, 1 if pace < 10 else 0))} x real time"


def time_text(seconds: float) -> str:
    """Return simulated seconds as text, rounded to whole seconds from one minute on."""
    return to_text(round(seconds if seconds >= 60 else seconds * 10) * (10**9 if seconds >= 60 else 10**8))
