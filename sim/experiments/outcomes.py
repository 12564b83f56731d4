"""Which outcomes an experiment can have: a misspelled name is refused before any trial, or after the first one.

The names of metrics and of what rules record are in the scenario, and the kinds of actions and the states of agents are
known. Agents in Python can record other observations; what these are called, the first trial shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from sim.actors import AgentState
from sim.assembly.build import Kinds
from sim.errors import UsageError
from sim.expressions import did_you_mean
from sim.scenario import Scenario
from sim.scenario.actions import action_kinds

COUNTS: Final = ("done_", "refused_", "agents_")
"""How the names of counts begin. A count that a trial does not have is 0."""

_MEAN: Final = "mean_"
_SHOWN: Final = 20  # names in a hint


@attrs.frozen
class KnownOutcomes:
    """What is known about the outcomes of a scenario before it runs.

    Attributes:
        own: the outcomes that the scenario defines.
        whole: whether these are all its observations; agents in Python can record others.
    """

    own: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, scenarios: Iterable[Scenario], kinds: Kinds | None = None) -> "KnownOutcomes":
        """Return what is known about the outcomes of a scenario, or of one in several variants."""
        own: dict[str, None] = {}
        whole = True
        for scenario in scenarios:
            own |= dict.fromkeys(scenario.metrics.values)
            rules = (rule for entry in scenario.agents for rule in entry.rules)
            own |= dict.fromkeys(f"{_MEAN}{name}" for rule in rules for name in rule.record)
            whole = whole and not kinds and all(entry.kind == "policy" for entry in scenario.agents)
        return cls(tuple(own), whole)

    def check(self, outcomes: Sequence[str], code: Sequence[str] = ()) -> None:
        """Check the names of outcomes before the first trial.

        Args:
            outcomes: their names.
            code: modules that the scenario may import, which can define other actions.

        Raises:
            UsageError: if the scenario cannot have one of them.
        """
        for name in outcomes:
            can_be = not (self.whole and not code) and name.startswith((_MEAN, *COUNTS))
            if name not in self.own and not (can_be or is_count(name)):
                raise _unknown(f"the scenario has no outcome {name!r}", name, self.own)

    def check_first(self, outcomes: Sequence[str], measured: Mapping[str, float | None]) -> None:
        """Check the names of outcomes after the first trial.

        Args:
            outcomes: their names.
            measured: the outcomes of the trial.

        Raises:
            UsageError: if the trial does not have one of them, and the scenario does not define it. What is defined may
                have no value in a trial, and a count that is missing is 0.
        """
        for name in outcomes:
            if name not in measured and name not in self.own and not is_count(name):
                raise _unknown(f"the first trial has no outcome {name!r}", name, (*self.own, *measured))


def is_count(name: str) -> bool:
    """Return whether a name is that of a count of actions or agents."""
    done, refused, agents = COUNTS
    if name.startswith(agents):
        return name.removeprefix(agents) in tuple(AgentState)
    return name.startswith((done, refused)) and name.partition("_")[2] in action_kinds()


def _unknown(problem: str, name: str, known: Sequence[str]) -> UsageError:
    counts = [f"{prefix}{kind}" for prefix in COUNTS[:2] for kind in action_kinds()]
    every = list(dict.fromkeys((*known, *counts, *(f"{COUNTS[2]}{state}" for state in AgentState))))
    near = did_you_mean(name, every)
    names = list(dict.fromkeys(known))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"it has {', '.join(names[:_SHOWN])}{more}; " if names else ""
    counted = "counts are done_ACTION, refused_ACTION and agents_STATE"
    return UsageError(problem, hint=near or f"{there}{counted}")
