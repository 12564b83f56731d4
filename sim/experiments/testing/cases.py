"""Cases: which seeds, orders of simultaneous events, and failures of models a scenario is tested with."""

from collections.abc import Iterator
from typing import Any, Final

import attrs

from sim.base.errors import UsageError
from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.kernel.rng import Stream, derive
from sim.scenario import Scenario
from sim.scenario.overrides import value_text

_LATE: Final = 3  # answers of a run with latencies are late by as many different times


@attrs.frozen(order=True)
class Case:
    """One run of a test.

    Attributes:
        seed: its seed.
        order: the number of the shuffled order of simultaneous events; 0: the order of the scenario.
        fault: the number of the failures and latencies of models; 0: those of the scenario.
    """

    seed: int
    order: int = 0
    fault: int = 0

    @property
    def options(self) -> str:
        """The options of `sim test` that run this case alone."""
        order = f" --order {self.order}" if self.order else ""
        return f"--seed {self.seed}{order}" + (f" --fault {self.fault}" if self.fault else "")

    def overrides(self, scenario: Scenario) -> tuple[str, ...]:
        """Return what the case changes in a scenario.

        Raises:
            UsageError: if the scenario declares no bounds for failures, or its order is fixed.
        """
        return (*self._order(scenario), *self._faults(scenario))

    def _order(self, scenario: Scenario) -> Iterator[str]:
        if self.order and scenario.execution.sync is None:  # synchronised rounds have one order
            yield "execution.ties=shuffled"
            yield "execution.tick.order=shuffled"
            yield f"execution.order={self.order}"

    def _faults(self, scenario: Scenario) -> Iterator[str]:
        if not self.fault:
            return
        check_faults(scenario)
        testing = scenario.testing
        assert testing is not None, "it was checked"
        drawn = Stream(derive("failures of models", self.fault))
        own: list[dict[str, Json]] = []
        if testing.faults is not None:
            kind = testing.faults.kinds[(self.fault - 1) % len(testing.faults.kinds)]
            share = round(testing.faults.share * drawn.uniform(0.1, 1.0), 3) or testing.faults.share
            own.append({"kind": kind, "share": share})
        if testing.latency is not None:
            low, high = (to_seconds(bound) for bound in testing.latency)
            own += [  # the first that affects a call counts, so each has an equal share
                {"kind": "slow", "share": round(1 / left, 3), "seconds": round(drawn.uniform(low, high), 3)}
                for left in range(_LATE, 0, -1)
            ]
        yield f"models.faults={value_text([*_declared(scenario), *own])}"


def _declared(scenario: Scenario) -> list[Any]:
    """Return the failures that the scenario injects in every run, as they are written."""
    source = scenario.source
    models = None if source is None else source.section("models")
    return list((models or {}).get("faults") or [])


def check_faults(scenario: Scenario) -> None:
    """Check that a scenario says which failures of models may be tried.

    Raises:
        UsageError: if it does not.
    """
    if scenario.models is None:
        raise UsageError(
            f"{scenario.name} has no language models, so there are no failures of models to try",
            hint="leave out --faults",
        )
    if scenario.testing is None:
        raise UsageError(
            f"{scenario.name} does not say which failures of models may be tried",
            hint="add `testing: {faults: {kinds: [server, refusal], share: 0.3}, latency: [0s, 30s]}` to it",
        )


def cases_of(first: int, seeds: int, orders: int, *, faults: bool) -> tuple[Case, ...]:
    """Return the cases of a test: each seed as declared, then the shuffled orders, and the failures of models.

    Args:
        first: the first seed.
        seeds: the number of seeds.
        orders: the number of shuffled orders; the seeds take turns.
        faults: whether each seed is also run with failures and latencies of its own.
    """
    plain = [Case(first + number) for number in range(seeds)]
    shuffled = [Case(first + number % seeds, number + 1) for number in range(orders)]
    failing = [Case(first + number, 0, number + 1) for number in range(seeds)] if faults else []
    return (*plain, *shuffled, *failing)
