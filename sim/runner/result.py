"""The results of runs and replays."""

import math
import statistics
from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.base.errors import UsageError
from sim.base.text import number, plain
from sim.kernel.codec import Json, JsonObject
from sim.kernel.levels import Level
from sim.record import summary

if TYPE_CHECKING:
    from sim.base.pages import Chart

_LARGE: Final = 1e290
_SCALE: Final = 2.0**64  # a power of 2, so that scaling changes no digit


@attrs.frozen
class Distribution:
    """The distribution of observed numbers. The deviation of a single one is None, as is one too large for a float."""

    n: int
    mean: float
    deviation: float | None
    minimum: float
    median: float
    p95: float
    maximum: float

    @classmethod
    def of(cls, values: "array[float]") -> "Distribution":
        """Return the distribution of at least one number. Quantiles are interpolated (Hyndman and Fan's type 7)."""
        ordered = sorted(values)
        if _LARGE < max(-ordered[0], ordered[-1]) < math.inf:  # sums of them can be too large for a float
            return cls.of(array("d", [value / _SCALE for value in ordered]))._times(_SCALE)
        deviation = statistics.stdev(ordered) if len(ordered) > 1 else None
        p95 = statistics.quantiles(ordered, n=20, method="inclusive")[-1] if len(ordered) > 1 else ordered[0]
        return cls(
            n=len(ordered),
            mean=statistics.fmean(ordered),
            deviation=deviation,
            minimum=ordered[0],
            median=statistics.median(ordered),
            p95=p95,
            maximum=ordered[-1],
        )

    def _times(self, scale: float) -> "Distribution":
        """Return the distribution of the numbers times a power of 2."""
        deviation = math.inf if self.deviation is None else self.deviation * scale
        return Distribution(
            n=self.n,
            mean=self.mean * scale,
            deviation=deviation if deviation < math.inf else None,
            minimum=self.minimum * scale,
            median=self.median * scale,
            p95=self.p95 * scale,
            maximum=self.maximum * scale,
        )


@attrs.frozen
class InDoubtEffect:
    """An unsafe effect that started before a crash and must not be repeated without a decision.

    Attributes:
        id: its id, for the decision.
        agent: its agent.
        ordinal: its number among the agent's effects.
        kind: its kind.
        time: when it started, in simulated seconds.
        request: its request as JSON, shortened.
        lost: whether its record is lost, so that it starts again when the run reaches it.
    """

    id: int
    agent: str
    ordinal: int
    kind: str
    time: float
    request: str
    lost: bool = False


@attrs.frozen
class SurveyCost:
    """What a survey will take at most.

    Attributes:
        agents, questions: their numbers.
        input_tokens: the tokens of all prompts, estimated.
        most: the most money, if no answer has to be asked for again.
        outside: whether models at an endpoint answer.
    """

    agents: int
    questions: int
    input_tokens: int
    most: float
    outside: bool


@attrs.frozen(repr=False)
class ReplayResult:
    """The result of a replay.

    Attributes:
        run: the folder of the run.
        same: whether the replay equals the record, as far as the record goes.
        difference: the first difference, in one sentence; None if there is none.
        cause: what probably makes it differ, and what to write instead; None if that is not known. If the code has
            changed, see `code_changed` first.
        complete: whether the record includes the end of the run.
        events: number of replayed events that are equal.
        hash: the hash of the replay; None if it differs from the record.
        recorded_hash: the recorded hash; None if the run did not end.
        sim_seconds: simulated time that passed.
        wall_seconds: real time that passed; None if it differs.
        backend: the backend of the replay.
        code_changed: modules whose code has changed since the record.
        recording: how much was recorded of the run, and could be compared.
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
    cause: str | None = None
    recording: Level = "all"

    def sentence(self, *, timed: bool = False) -> str:
        """Return the result in one sentence of plain text.

        Args:
            timed: whether it includes the events per second of real time.
        """
        if not self.same:
            return f"not the same: {plain(self.difference)}"
        far = "the whole run" if self.complete else "up to the end of the record"
        kept = "" if self.recording == "all" else f"; only what the level `{self.recording}` records was compared"
        rate = f" ({self.events / self.wall_seconds:,.0f} per second)" if timed and self.wall_seconds else ""
        return f"the same, {far}: {number(self.events)} events{rate}, hash {(self.hash or '')[:16]}{kept}"

    def to_json(self) -> dict[str, Json]:
        """Return the result as a JSON-like mapping."""
        return attrs.asdict(self)

    def __repr__(self) -> str:
        return f"<ReplayResult: {self.sentence()}>"

    def _repr_html_(self) -> str:
        return summary.html([("run", self.run), ("replay", self.sentence(timed=True))])


@attrs.frozen(repr=False)
class RunResult:
    """The result of one run. A recorded one is accepted wherever the folder of a run is.

    Attributes:
        run: the folder of the run, or None if nothing was recorded.
        status: `finished`, or `interrupted` if it was suspended.
        stopped_by: the stop condition that ended it, or the refusal of a model endpoint; None for the time limit.
        events: number of recorded events.
        hash: the hash of everything that happened; equal for the same scenario and seed.
        sim_seconds: simulated time that passed.
        wall_seconds: real time that passed; not part of the hash.
        agents: number of agents, including those spawned during the run.
        iterations: number of their iterations.
        actions: number of successful actions.
        refused: number of refused actions, by kind.
        states: number of loops in each state at the end, before they were stopped.
        wakeups: how often an agent left SLEEPING or PAUSED.
        errors: number of failed iterations, and of errors of agents outside iterations, also in `on_start` and
            `on_stop`.
        unmatched: number of messages that no rule of their agent used; without those that waited at the end.
        unread: the messages that agents did not read, as mappings: `agent` (their scenario entry, or the name of an
            agent without one), `topic`, `count`, and `why`: `no rule` can read them, `unmatched` says `drop` or `fail`
            (`dropped`, `failed`), or they were still `waiting` when their agent stopped, as at the end of the run.
        dropped: number of messages that full mailboxes with the policy `drop_oldest` lost.
        under_way: number of messages that had not arrived when the run ended: those sent with `after`, and what agents
            that travel had with them.
        deadlock: which agents were blocked forever at the end, in one sentence; None if there were none.
        commonest_error: the most frequent error, its number, and the first agent that had it; None without errors.
        messages: number of messages that were delivered to mailboxes.
        kinds: successful actions by kind.
        metrics: the sampled values, and `time` in seconds; None where there is no value, as of a mean of nothing.
        observations: the distributions of the numbers that agents recorded, by name.
        surveys: the answers to each question of the surveys of the scenario, of the last time when it was asked:
            mappings with `survey`, `number` of the question, `of` how many, `question`, `answers`, of which `missing`
            have no value; the `mean` of numbers, or the `shares` of options among the others (None without any).
        overruns: ticks that began late (tick mode).
        models: calls of language models, their tokens and cost; empty if there were none.
        services: the numbers of the services of the world, such as tools and memories, by their names.
        never: what the scenario has and could not happen, such as an event that was due after the end, in one sentence
            each; `sim check` has the positions in the file.
        recording: how much of the run is recorded, and covered by the hash: `all`, `changes` or `samples`.
        warnings: what should be known before the numbers are trusted, as mappings: `text`, one sentence, and `hint`,
            what to do about it, or None.
        doubts: effects that wait for a decision; only after a crash. Unless the run was continued without decisions,
            it is unchanged, a branch has no run, and the other figures are those of the replay.
        service: measurements on the axis of service time (`execution.sync`), else empty: `sync`, the policy;
            `makespan`, seconds; `calls`; `in_flight`, the mean number of calls in flight in equal parts of the
            makespan, each with its start in seconds, and `in_flight_mean`; `waiting`, the mean seconds that a ready
            agent had to wait, and `waits`, their share of the makespan; `critical_path`, the seconds of the longest
            chain of calls that depend on each other, each served alone.
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
    metrics: Mapping[str, list[Any]]
    observations: Mapping[str, Distribution]
    overruns: int
    models: Mapping[str, Any]
    service: JsonObject
    services: Mapping[str, Any] = attrs.field(factory=dict)
    never: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    unread: Sequence[JsonObject] = ()
    dropped: int = 0
    under_way: int = 0
    recording: Level = "all"
    warnings: Sequence[Mapping[str, Any]] = ()
    doubts: tuple[InDoubtEffect, ...] = ()
    surveys: Sequence[JsonObject] = ()

    @property
    def unanswered(self) -> int:
        """The number of failed model calls, if every call at an endpoint failed; else 0."""
        tallies = [
            tally
            for name, tally in self.models.get("models", {}).items()
            if not name.startswith(("scripted:", "simulated:"))
        ]
        return 0 if any(tally["calls"] for tally in tallies) else sum(tally["failed"] for tally in tallies)

    def to_json(self) -> dict[str, Json]:
        """Return the result as a JSON-like mapping."""
        return attrs.asdict(self)

    def plot(self, *metrics: str) -> "Chart":
        """Return a chart of metrics over simulated time.

        Args:
            metrics: their names; all metrics of the run if none is given.

        Raises:
            UsageError: if the run has no metric of a name, or none at all.
        """
        return summary.plot(self.scenario, self.metrics, metrics)

    def __fspath__(self) -> str:
        if self.run is None:
            raise UsageError("this run was not recorded", hint='record it: sim.run(..., out="runs")')
        return self.run

    def __repr__(self) -> str:
        place = "" if self.run is None else f", in {plain(self.run)}"
        return f"<RunResult: {summary.sentence(self._fields())}{place}>"

    def _repr_html_(self) -> str:
        return summary.html(summary.pairs(self._fields()), self.metrics)

    def _fields(self) -> dict[str, Json]:
        return attrs.asdict(self, recurse=False)
