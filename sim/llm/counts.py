"""Counts of model calls: for observers of a run, and as numbers of its metrics (`service('models', ...)`)."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, TypedDict

import attrs

from sim.llm.reading import has_written_call
from sim.llm.types import Attempt, Completion, ModelRequest, RuleFault

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds in seconds of the buckets for durations of calls: from a cached answer of a small model to the time
limit of a large one.
"""


@attrs.define
class Durations:
    """A histogram of durations of calls: counts by bucket of `BOUNDS` (the last has no bound), and the sum."""

    buckets: list[int] = attrs.field(factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one call."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@attrs.define
class Tally:
    """How calls ended: all of them, those that failed, those that were declined, and what they cost.

    Declined are answers with the stop reason `refusal`, and calls that failed with `content`: a filter of the endpoint
    took the request or the answer. A text that declines in its own words is an answer like any other.
    """

    calls: int = 0
    failed: int = 0
    refusals: int = 0
    cost_micro: int = 0


class Ending(TypedDict, total=False):
    """How a call ended, as `model.call` has it: `stop` and the `fallbacks` before it, or its `error` and `message`."""

    stop: str
    fallbacks: list[str]
    error: str
    message: str


class Counts:
    """Counts of the calls of one run.

    Attributes:
        in_flight: calls in flight.
        requests: requests that were sent, by model (`provider:model`) and outcome (`ok`, or a class of error).
        retries: requests beyond the first of a call, by model.
        durations: durations of calls in simulated time, by model.
        reused, reused_micro: answers that another run of the experiment had asked for, and what they cost it.
        empty: answers without text and tool calls, among those that count as answers (see `reading.read`).
        written_calls: answers with a tool call that is written as text and was not read, by provider.
        formats: answers to requests with a preferred format, by model: kept by the endpoint, and not; and how many
            such requests it refused, which were sent again without the format.
        surveys: answers to questions of surveys, by question: all, and those without a value.
        tallies: how calls ended, by the tier that served them; of all together under the empty name.
        callers: the agents that have called, also those that answered a survey.
        rule_faults: calls that failed because of a scripted rule.
        first_rule_fault: the first of these faults; None if there are none.
        first_fault_ns: when it happened, in simulated nanoseconds.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.requests: dict[tuple[str, str], int] = {}
        self.retries: dict[str, int] = {}
        self.durations: dict[str, Durations] = {}
        self.reused = 0
        self.reused_micro = 0
        self.empty = 0
        self.written_calls: dict[str, int] = {}
        self.formats: dict[str, list[int]] = {}
        self.surveys: dict[str, list[int]] = {}
        self.tallies = {"": Tally()}
        self.callers: set[str] = set()
        self.rule_faults = 0
        self.first_rule_fault: RuleFault | None = None
        self.first_fault_ns = 0

    def add_tiers(self, tiers: Iterable[str]) -> None:
        """Begin the tallies of tiers, so that they have numbers before their first call."""
        for name in tiers:
            self.tallies.setdefault(name, Tally())

    def failed_by_rule(self, fault: RuleFault, now_ns: int) -> None:
        """Count a call that failed because of a scripted rule, at a simulated time in nanoseconds."""
        self.rule_faults += 1
        if self.first_rule_fault is None:
            self.first_rule_fault, self.first_fault_ns = fault, now_ns

    def tally(self, caller: str, tier: str, how: Ending, cost_micro: int) -> None:
        """Count how a call ended.

        Args:
            caller: the agent that called.
            tier: the tier that served it; empty: a single named model.
            how: its `stop` or its `error`.
            cost_micro: what it cost.
        """
        self.callers.add(caller)
        for name in {"": None, tier: None}:
            own = self.tallies[name]
            own.calls += 1
            own.failed += "error" in how
            own.refusals += how.get("stop") == "refusal" or how.get("error") == "content"
            own.cost_micro += cost_micro

    def answered(self, model: str, completion: Completion, request: ModelRequest) -> None:
        """Count what is special about an answer of a model (`provider:model`)."""
        if not (request.texts or completion.text.strip() or completion.tool_calls):
            self.empty += 1
        if has_written_call(completion, request):
            provider = model.partition(":")[0]
            self.written_calls[provider] = self.written_calls.get(provider, 0) + 1
        if completion.formatted is not None:
            self.formats.setdefault(model, [0, 0, 0])[not completion.formatted] += 1

    def refused_format(self, model: str) -> None:
        """Count a request that was refused with its preferred format, and sent again without."""
        self.formats.setdefault(model, [0, 0, 0])[2] += 1

    def surveyed(self, question: str, *, missing: bool) -> None:
        """Count an answer to a question of a survey."""
        numbers = self.surveys.setdefault(question, [0, 0])
        numbers[0] += 1
        numbers[1] += missing

    @property
    def failed(self) -> dict[str, int]:
        """The number of requests that gave no answer, by class of error, the most frequent first."""
        failures: dict[str, int] = {}
        for (_, outcome), number in self.requests.items():
            if outcome != "ok":
                failures[outcome] = failures.get(outcome, 0) + number
        return dict(sorted(failures.items(), key=lambda item: (-item[1], item[0])))

    def ended(self, model: str, seconds: float, attempts: Iterable[Attempt]) -> None:
        """Count a call that has ended.

        Args:
            model: the model that answered, or failed last.
            seconds: the duration of the call.
            attempts: the attempts of the call.
        """
        self.in_flight -= 1
        for number, attempt in enumerate(attempts):
            name = f"{attempt.provider}:{attempt.model}"
            key = (name, attempt.outcome)
            self.requests[key] = self.requests.get(key, 0) + 1
            self.retries[name] = self.retries.get(name, 0) + (number > 0)
        durations = self.durations.get(model)
        if durations is None:
            durations = self.durations[model] = Durations()
        durations.add(seconds)
