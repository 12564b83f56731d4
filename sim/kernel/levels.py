"""How much is recorded of a run: a choice of its scenario, which changes nothing in the run itself."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

Level = Literal["all", "changes", "samples"]
"""How much is recorded of a run.

`all`: every event. `changes`: without the actions that succeeded and that nothing else saw. `samples`: the samples of
metrics, observations, answers to surveys, interventions and audit records. At each level, what came from outside, the
requests and outcomes of effects, and the final state are recorded.
"""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)

LACKS: Final[Mapping[Level, str]] = {
    "all": "",
    "changes": "recorded at the level `changes`: actions that succeeded and that nothing else saw are not in it",
    "samples": "recorded at the level `samples`: it has samples, observations, answers to surveys, interventions and"
    " the final state, but no actions, messages, states of agents or other events",
}
"""What the record of a run lacks, in words that follow "it was"; empty if it lacks nothing."""


def level_of(options: Mapping[str, Any]) -> Level:
    """Return how much was recorded of a run, by its recorded options."""
    level = options.get("recording", "all")
    return level if level in LEVELS else "all"
