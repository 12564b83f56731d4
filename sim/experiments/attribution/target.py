"""The target of attribution: an outcome of a run, as a number, or as a condition such as `last('R') > 20`."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from sim.agents.outcomes import OF_POOLS, FunctionCall
from sim.base.errors import UsageError
from sim.experiments.outcomes import Definition, KnownOutcomes, is_count
from sim.experiments.pool_clock import PoolClock
from sim.experiments.trial import outcomes_of
from sim.experiments.values import TrialValues
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.scenario import Scenario

_SIGNS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@attrs.frozen
class ExplainedOutcome:
    """An outcome that is to be explained.

    Attributes:
        text: how it was written.
        name: the name of the outcome.
        definition: the expression that defines it; None: a run has it by itself.
        sign, limit: what it is compared with; None: it is a number.
    """

    text: str
    name: str
    definition: Definition | None = None
    sign: str | None = None
    limit: float = 0.0

    @classmethod
    def parse(
        cls, text: str, scenario: Scenario, *, code: Sequence[str] = (), condition: bool = False
    ) -> "ExplainedOutcome":
        """Return the target that a text describes.

        Args:
            text: an outcome, or an outcome, a sign of comparison and a number.
            scenario: the scenario of the run.
            code: modules that the scenario may import.
            condition: whether it must be a condition.

        Raises:
            UsageError: if it is none, or the run cannot have this outcome.
        """
        if not isinstance(text, str):
            raise UsageError(f"an outcome is a text, not {text!r:.60}", hint="write last('R') > 20")
        written = text.strip()
        comparison = _compared(written)
        if comparison is None and condition:
            raise UsageError(f"{written!r:.80} is no condition", hint="compare an outcome: last('R') > 20")
        left, sign, right = comparison or (written, None, "0")
        try:
            limit = float(right)
        except ValueError:
            raise UsageError(f"{right!r:.40} in {written!r:.80} is no number", hint="write last('R') > 20") from None
        if not math.isfinite(limit):
            raise UsageError(f"{right!r:.40} in {written!r:.80} is no finite number", hint="write last('R') > 20")
        chosen = KnownOutcomes.of([scenario]).choose((left,), code)
        if len(chosen.names) != 1:
            raise UsageError(f"{left!r:.60} stands for {len(chosen.names)} outcomes", hint="name one of them")
        if chosen.read_records:
            raise UsageError(
                f"{left!r:.60} reads the record of a run, and futures have none", hint="take an outcome of metrics"
            )
        definition = chosen.definitions[0] if chosen.definitions else None
        return cls(written, chosen.names[0], definition, sign, limit)

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false of a run."""
        return self.sign is not None

    def watch(self) -> "Watched":
        """Return what watches one run for it."""
        return Watched(self)

    def value(self, result: RunResult, watched: "Watched") -> float | None:
        """Return its value in a run: a number; of a condition 1 or 0; None: the run does not show it."""
        if self.definition is None:
            value = outcomes_of(result)[0].get(self.name, 0.0 if is_count(self.name) else None)
        else:
            asked = () if watched.runner is None else watched.runner.interventions.asked
            value = TrialValues(result, asked, watched.pools).values([self.definition])[self.definition.name]
        if value is None or self.sign is None:
            return value
        return float(_SIGNS[self.sign](value, self.limit))


@attrs.define
class Watched:
    """What is seen of one run for a target beside its result: its runner, and its pools if the target is about them."""

    target: ExplainedOutcome
    runner: RunController | None = None
    pools: PoolClock | None = None

    def __call__(self, runner: RunController) -> None:
        """Begin to watch a run, before its first step."""
        self.runner = runner
        calls: list[FunctionCall] = (
            [] if self.target.definition is None else [*self.target.definition.measurement.calls]
        )
        if any(call.function in OF_POOLS for call in calls):
            world = runner.simulation.world
            self.pools = PoolClock(world.kernel, world.pools, calls)
            runner.ending = self.pools.stop


def _compared(text: str) -> tuple[str, str, str] | None:
    """Return the two sides of a comparison and its sign; None: it is none.

    A sign within brackets, as in `first_time(R > 10) < 3600`, belongs to what is on the left.
    """
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += (text[place] == ")") - (text[place] == "(")
        if depth == 0 and text[place] in "<>=!":
            start = place - 1 if place and text[place - 1] in "<>=!" else place
            sides = text[:start].strip(), text[start : place + 1], text[place + 1 :].strip()
            return sides if sides[1] in _SIGNS and sides[0] else None
    return None
