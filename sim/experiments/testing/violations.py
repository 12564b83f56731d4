"""Violations: what a run did that a property of its scenario forbids."""

from typing import Final, Literal

import attrs

Kind = Literal[
    "not true", "true", "unmet", "late", "too few", "too many", "blocked", "idle", "changed", "too low", "too high",
    "error",
]  # fmt: skip
"""How a property was violated: `always` was not true, `never` was true, `eventually` was unmet, an answer was late,
events were too few or too many, an agent was blocked or idle for too long, what is conserved changed, a metric left its
bounds, or the property could not be evaluated."""


DONE: Final[tuple[Kind, ...]] = ("not true", "true", "too many", "changed", "error")
"""Kinds of violation that something that is done at an instant is the cause of; the others are things not done."""


@attrs.frozen
class Finding:
    """A violation as a check finds it.

    Attributes:
        kind: how the property was violated.
        time_ns: when, in simulated nanoseconds.
        text: what was found, in one sentence.
        agent: the agent whose property it is; empty: it is about the world.
        cause: what the agent waits in, if it is blocked.
    """

    kind: Kind
    time_ns: int
    text: str
    agent: str = ""
    cause: str = ""


@attrs.frozen
class Violation:
    """A violation of a property in a run.

    Attributes:
        property: the name of the property.
        kind: how it was violated.
        time: when, in simulated seconds.
        text: what was found, in one sentence.
        agent: the agent whose property it is; empty: it is about the world.
        entry: the entry of that agent in the scenario; empty: it has none.
        story: the events before it, one line each.
        causes: what happened at its instant, if that is a cause: topics with the entries of their actors.
        met: how often what the property asks for had happened before.
        at_start: whether it was so before the first step.
    """

    property: str
    kind: Kind
    time: float
    text: str
    agent: str = ""
    entry: str = ""
    story: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    met: int = 0
    at_start: bool = False
