"""What a run comes to."""

import statistics
from array import array
from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen
class Distribution:
    """How observed numbers are distributed."""

    n: int
    mean: float
    deviation: float
    minimum: float
    median: float
    p95: float
    maximum: float

    @classmethod
    def of(cls, values: "array[float]") -> "Distribution":
        """Return the distribution of at least one number."""
        ordered = sorted(values)
        deviation = statistics.stdev(ordered) if len(ordered) > 1 else 0.0
        return cls(
            len(ordered), statistics.fmean(ordered), deviation, ordered[0], _quantile(ordered, 0.5),
            _quantile(ordered, 0.95), ordered[-1],
        )  # fmt: skip


def _quantile(ordered: list[float], share: float) -> float:
    """Return a quantile by linear interpolation (Hyndman and Fan's type 7)."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@attrs.frozen
class InDoubtEffect:
    """An effect that was begun before a crash and must not be done twice without asking.

    Attributes:
        id: by which one decides.
        agent: whose it is.
        ordinal: its number among the agent's effects.
        kind: what it is.
        time: when it was begun, simulated seconds.
        request: what it asked for, as JSON, shortened.
        lost: its record is lost, so it is begun again when the run comes to it.
    """

    id: int
    agent: str
    ordinal: int
    kind: str
    time: float
    request: str
    lost: bool = False


@attrs.frozen
class ReplayResult:
    """What came of making a run again.

    Attributes:
        run: the folder of the run.
        same: whether it is the same as on record, as far as the record goes.
        difference: where it is not, in one sentence.
        complete: whether the record includes the end of the run.
        events: how many were made again and are the same.
        hash: of the run that was made again; None if it differs.
        recorded_hash: the one on record; None if the run did not end.
        sim_seconds: simulated time that passed.
        wall_seconds: real time that passed; None if it differs.
        backend: the host that it was made again with.
        code_changed: modules whose code is not the one of the record.
    """

    run: str
    same: bool
    difference: str | None
    complete: bool
    events: int
    hash: str | None
    recorded_hash: str | None
    sim_seconds: float
    wall_seconds: float | None
    backend: str
    code_changed: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON-like mapping."""
        return attrs.asdict(self)


@attrs.frozen
class RunResult:
    """One run, summed up.

    Attributes:
        run: the folder of the run, or None if nothing was kept.
        status: `finished`, or `interrupted` if it was suspended.
        stopped_by: the stop condition that ended it, or why its models' endpoint did; None for the time limit.
        events: how many were recorded.
        hash: of everything that happened; equal for the same scenario and seed.
        sim_seconds: simulated time that passed.
        wall_seconds: real time that passed; not part of the hash.
        agents: how many there were, those that came during the run included.
        iterations: how many they did.
        actions: how many succeeded.
        refused: how many were refused, by kind.
        states: how many loops were in each state at the end, before they were stopped.
        wakeups: how often an agent left SLEEPING or PAUSED.
        errors: failed iterations, and errors of agents outside an iteration, also in `on_start` and `on_stop`.
        unmatched: messages that no rule of their agent used.
        deadlock: which agents were blocked for ever at the end, in one sentence; None if none were.
        commonest_error: what most of them failed with, how often, and in which agent first; None if none failed.
        messages: messages that were taken.
        kinds: successful actions by kind.
        metrics: the sampled values, and `time` in seconds.
        observations: how the numbers that agents recorded are distributed.
        overruns: ticks that began late (tick mode).
        models: calls of language models, their tokens and cost; empty if there were none.
        doubts: effects that wait for a decision; only after a crash. Unless the run went on all the same, nothing was
            done or changed, a branch has no run, and the other figures are those of what was made again.
        service: what was measured on the axis of service time (`execution.sync`), else empty: `sync`, the rule;
            `makespan`, seconds; `calls`; `in_flight`, the mean calls in flight over equal pieces of it, each with its
            beginning in seconds, and `in_flight_mean`; `waiting`, the seconds that an agent stood ready without being
            allowed to begin, on average, and `waits`, their share of the makespan; `critical_path`, the seconds of the
            longest chain of calls that depend on each other, each served alone.
    """

    run: str | None
    scenario: str
    mode: str
    seed: int
    backend: str
    status: str
    stopped_by: str | None
    events: int
    hash: str
    sim_seconds: float
    wall_seconds: float
    agents: int
    iterations: int
    actions: int
    refused: Mapping[str, int]
    states: Mapping[str, int]
    wakeups: int
    errors: int
    unmatched: int
    deadlock: str | None
    commonest_error: str | None
    messages: int
    kinds: Mapping[str, int]
    metrics: Mapping[str, list[float]]
    observations: Mapping[str, Distribution]
    overruns: int
    models: Mapping[str, Any]
    service: Mapping[str, Any]
    doubts: tuple[InDoubtEffect, ...] = ()

    @property
    def unanswered(self) -> int:
        """How many model calls failed, if every call of models at an endpoint did; else 0."""
        tallies = [
            tally
            for name, tally in self.models.get("models", {}).items()
            if not name.startswith(("scripted:", "simulated:"))
        ]
        return 0 if any(tally["calls"] for tally in tallies) else sum(tally["failed"] for tally in tallies)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON-like mapping."""
        return attrs.asdict(self)
