"""The subject of a description: a checked scenario and how it was run, and all expressions in it with their places."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from sim.agents.family import family_for
from sim.agents.policy import PolicyAgent
from sim.base.expressions import Expression
from sim.kernel.codec import Json, JsonObject
from sim.record.files import Mode
from sim.scenario import Scenario
from sim.scenario.fields import Part, plain
from sim.scenario.schema import Agent
from sim.scenario.sleep import SleepSpec
from sim.scenario.values import Filter, ValueTemplate

OBSERVING: Final = ("metrics", "stop", "properties", "testing")
"""The parts of a scenario whose expressions read the whole world, and do nothing in it."""


@attrs.frozen
class Pace:
    """One way in which the agents of a scenario are run.

    Attributes:
        mode: the mode of the run.
        scenario: the scenario, with the changes of a compared mode.
        name: the name of a compared mode; empty: there is only one.
    """

    mode: Mode
    scenario: Scenario
    name: str = ""


@attrs.frozen
class LiveChange:
    """What changes during a run.

    Attributes:
        when: the time, and the arm, in words.
        overrides: the parameters that change, as `key=value`.
        others: what else changes, such as the seed, in words.
        note: what is not known of it, in words; empty: nothing.
    """

    when: str
    overrides: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    note: str = ""


@attrs.frozen(kw_only=True)
class Subject:
    """What a description is about.

    Attributes:
        scenario: the checked scenario, as run.
        text: its text.
        paces: how it was run; several if modes are compared.
        overrides: the `key=value` changes to it.
        facts: what else is known of the run or the experiment, by name, such as its seed.
        models: the language models of the operator, which replace those of the scenario.
        sources: the source code of modules of agents, by the path of the file.
        variants: the variants that it has, each without variants: the combinations of varied values, the arms, the
            parts of a run before and after a change. Empty: there is one.
        combinations: how many combinations of varied values there are, more than `variants` if some were left out; 0:
            nothing is varied.
        unchecked: the combinations and modes whose scenario cannot be checked here, each with the reason.
        changes: what changes during the run.
        more_changes: how many further changes there are, which are not described.
        tree: the scenario as it is written, with the changes; in place of a varied value, which values it has.
    """

    scenario: Scenario
    text: str
    paces: tuple[Pace, ...]
    overrides: Sequence[str] = ()
    facts: JsonObject = attrs.field(factory=dict)
    models: tuple[str, ...] = ()
    sources: Mapping[str, bytes] = attrs.field(factory=dict)
    variants: "tuple[Variant, ...]" = ()
    combinations: int = 0
    unchecked: tuple[str, ...] = ()
    changes: tuple[LiveChange, ...] = ()
    more_changes: int = 0
    tree: dict[str, Json] = attrs.field()

    @tree.default
    def _tree(self) -> dict[str, Json]:
        written: dict[str, Json] = plain(self.scenario._tree)
        return written

    @property
    def in_code(self) -> list[Agent]:
        """The entries whose agents decide in code."""
        return [entry for entry in self.scenario.agents if not follows_rules(entry)]


@attrs.frozen
class Variant:
    """One of several variants of what a description is about.

    Attributes:
        subject: the subject with its values.
        point: the value of each varied key.
        when: the arm, or the time from which it holds, in words; empty for a combination of varied values.
        from_start: whether it holds from the start of a run.
    """

    subject: Subject
    point: Mapping[str, str] = attrs.field(factory=dict)
    when: str = ""
    from_start: bool = True


def follows_rules(entry: Agent) -> bool:
    """Return whether the agents of an entry follow its rules, and nothing else."""
    family = family_for(entry)
    return family is not None and family.agent is PolicyAgent


def expressions_in(value: Any, path: str = "") -> Iterator[tuple[str, Expression]]:
    """Yield each expression in a checked part of a scenario, with the path of the part that it is in."""
    if isinstance(value, Expression):
        yield path, value
    elif isinstance(value, ValueTemplate):
        yield from ((path, one) for one in value.expressions)
    elif isinstance(value, Filter):
        yield path, value.test
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from expressions_in(part, f"{path}[{number}]")
    else:
        for key, part in _named_parts(value):
            yield from expressions_in(part, f"{path}.{key}" if path else key)


def _named_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a record of a checked scenario by name."""
    if isinstance(value, SleepSpec):
        value = value.values
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, Part):
        yield from ((name, getattr(value, name)) for name in type(value).model_fields)
    elif attrs.has(type(value)):
        yield from ((field.name, getattr(value, field.name)) for field in attrs.fields(type(value)))
