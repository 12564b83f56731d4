"""The values of the outcomes of a trial that expressions define. What a trial does not show has no value, never 0."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from sim.agents.outcomes import OF_POOLS, OF_SURVEYS, FunctionCall
from sim.base.errors import UsageError
from sim.base.expressions import ExpressionError
from sim.experiments.estimate import mean_of
from sim.experiments.outcomes import Definition, is_count
from sim.experiments.pool_clock import PoolClock
from sim.experiments.scoring import score
from sim.experiments.trial import outcomes_of
from sim.kernel import to_ns
from sim.kernel.duration import MAX_NS
from sim.record import open_run
from sim.runner.interventions import AskedQuestion
from sim.runner.result import RunResult

if TYPE_CHECKING:
    from sim.llm.access import Access

_KEPT: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {"mean": mean_of, "max": max, "min": min}


@attrs.frozen
class TrialValues:
    """What a trial has shown.

    Attributes:
        result: its result, with the folder of its record if an outcome reads that.
        asked: the questions of its surveys, with the answers.
        pools: what was seen of its pools; None if no outcome is about them.
        access: how the models of judges are reached.
    """

    result: RunResult
    asked: Sequence[AskedQuestion]
    pools: PoolClock | None
    access: "Access | None" = None

    def values(self, definitions: Sequence[Definition]) -> dict[str, float | None]:
        """Return the values of outcomes by name.

        Raises:
            UsageError: if a query or a measure is not valid for the run.
        """
        return {one.name: _finite(one.measurement.value(self._call)) for one in definitions}

    def _call(self, call: FunctionCall) -> float | None:
        if not call.function:
            return outcomes_of(self.result)[0].get(call.what, 0.0 if is_count(call.what) else None)
        if call.function in OF_POOLS:
            return None if self.pools is None else self.pools.value(call)
        if call.function in OF_SURVEYS:
            return self._answer(call)
        if call.function == "score":
            return self._score(call)
        if call.function == "query":
            return self._query(call)
        return self._sampled(call)

    # -- metrics

    def _sampled(self, call: FunctionCall) -> float | None:
        """Return the value of a function of the samples of metrics."""
        metrics = self.result.metrics
        times = metrics.get("time", [])
        if call.function == "first_time":
            return self._first_time(call)
        samples = list(zip(times, metrics.get(call.what, ()), strict=False))
        if call.function == "last":
            return samples[-1][1] if samples else None
        if call.function == "at":
            wanted = call.options["time"]
            if not times or to_ns(times[-1]) < int(wanted):  # the run ended before
                return None
            return next((value for time, value in reversed(samples) if to_ns(time) <= int(wanted)), None)
        numbers = [value for time, value in samples if value is not None and _is_within(time, call)]
        return _KEPT[call.function](numbers) if numbers else None

    def _first_time(self, call: FunctionCall) -> float | None:
        metrics, condition = self.result.metrics, call.condition
        assert condition is not None, "first_time has one"
        for place, time in enumerate(metrics.get("time", ())):
            if _is_within(time, call):
                values = {name: metrics[name][place] for name in condition.names}
                if None in values.values():  # not known, so not true
                    continue
                try:
                    if condition.evaluate(values, {}):
                        return float(time)
                except ExpressionError as error:
                    raise UsageError(f"first_time({call.what}): {error}", hint=error.hint) from error
        return None

    # -- surveys

    def _answer(self, call: FunctionCall) -> float | None:
        number, latest = int(call.options.get("question", 1)), int(call.options.get("at", MAX_NS))
        own = [one for one in self.asked if one.survey == call.what and one.place == number and one.time_ns <= latest]
        if not own:
            return None
        answers = list(_of_group(own[-1], call.options.get("group")))
        if not answers:
            return None
        answered = [value for value in answers if value is not None]
        if call.function == "missing_answers":
            return float(len(answers) - len(answered))
        if call.function == "mean_answer":
            return mean_of([float(value) for value in answered]) if answered else None
        return sum(value == call.options["option"] for value in answered) / len(answered) if answered else None

    # -- the record

    def _score(self, call: FunctionCall) -> float | None:
        scores = score(self.result, names=(call.what,), access=self.access)
        judge, option = call.options.get("judge"), call.options.get("option")
        own = [one for one in scores if judge is None or one.judge == judge]
        if judge is not None and not own:
            raise UsageError(f"score({call.what}): no judge {judge} scores it")
        if option is not None:
            chosen = [one.option for one in own if one.option is not None]
            return sum(one == option for one in chosen) / len(chosen) if chosen else None
        by_agent: dict[str, list[float]] = {}
        for one in own:
            if one.value is not None:
                by_agent.setdefault(one.agent, []).append(one.value)
        return mean_of([mean_of(values) for values in by_agent.values()]) if by_agent else None

    def _query(self, call: FunctionCall) -> float | None:
        with open_run(self.result.__fspath__(), verify=False) as stored:
            rows = stored.query(call.what)
        if len(rows) != 1 or len(rows[0]) != 1:
            size = f"{len(rows)} rows" if len(rows) != 1 else f"{len(rows[0])} columns"
            raise UsageError(f"query({call.what!r:.80}) returns {size}; an outcome is one number")
        value = rows[0][0]
        if value is not None and value.__class__ not in (int, float):
            raise UsageError(f"query({call.what!r:.80}) returns {value!r:.40}, which is no number")
        return None if value is None else float(value)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _is_within(time: float, call: FunctionCall) -> bool:
    return int(call.options.get("from", 0)) <= to_ns(time) <= int(call.options.get("to", MAX_NS))


def _of_group(asked: AskedQuestion, group: str | int | None) -> Iterator[str | float | None]:
    """Yield the answers of a group, of an entry of `agents`, or of one agent; of all, if it is None."""
    for agent, own, value in asked.each:
        if group is None or group in (own, agent, agent.rpartition("-")[0]):
            yield value
