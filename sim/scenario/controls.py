"""The controls of a scenario file: the values that a person can change on the page of `sim play`.

A run is the same with and without them.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import attrs

from sim.base.errors import Problem, ScenarioError, UsageError
from sim.scenario.live_changes import is_live, read_changes
from sim.scenario.overrides import Override, apply_overrides, value_at
from sim.scenario.schema import Scenario
from sim.scenario.yaml_spans import Span, replaced, spans
from sim.scenario.yaml_tree import Map
from sim.world.section import Json, Range, define_section, draws_nothing

_STEPS: Final = 100
"""How many steps a slider between other numbers than whole ones has."""


@attrs.frozen
class ControlSettings:
    """One control: a value of the file that a person can change on the page of `sim play`.

    With a `range` it is a slider, with `options` a chooser, and otherwise a switch, of a value that is true or false.

    Args:
        key: the value, as `--set` names it, such as `agents.person.state.beta`.
        range: the least and the greatest value of a slider.
        step: the step of a slider; by default 1 between whole numbers, and otherwise a hundredth of its range.
        options: the values of a chooser.
        label: its name on the page; by default its key in `controls`.
    """

    key: str
    range: tuple[float, ...] = ()
    step: Annotated[float, Range(0)] | None = None
    options: tuple[Json, ...] = ()
    label: str = ""

    def __attrs_post_init__(self) -> None:
        if self.range and self.options:
            raise UsageError("range: a control has a range or options, not both")
        if self.range and (len(self.range) != 2 or not self.range[0] < self.range[1]):
            raise UsageError("range: expected the least and the greatest value, as in [0, 1]")
        if self.step is not None and (not self.range or not 0 < self.step <= self.range[1] - self.range[0]):
            raise UsageError("step: expected a number above 0 that fits into a range")


define_section("controls", ControlSettings, by_name=True, draws=draws_nothing)


@attrs.frozen
class ControlledKey:
    """A control with the value that it changes.

    Attributes:
        name: its key in `controls`.
        settings: its settings.
        value: the value as the scenario has it.
        live: whether it can be changed during a run.
    """

    name: str
    settings: ControlSettings
    value: Any
    live: bool

    @property
    def whole(self) -> bool:
        """Whether it changes a whole number."""
        ends = (*self.settings.range, self.settings.step or 1)
        return type(self.value) is int and all(float(end).is_integer() for end in ends)

    def taken(self, value: Any) -> Any:
        """Return a value that a person chose, as the scenario gets it.

        Raises:
            UsageError: if the control does not offer it.
        """
        settings = self.settings
        if settings.range:
            low, high = settings.range
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise UsageError(f"{self.name} is a number from {low:g} to {high:g}, not {value!r:.60}")
            if self.whole and not float(value).is_integer():
                raise UsageError(f"{self.name} is a whole number, not {value!r:.60}")
            return int(value) if self.whole else float(value)
        if settings.options:
            if not any(value == one and type(value) is type(one) for one in settings.options):
                raise UsageError(f"{self.name} has no option {value!r:.60}")
        elif not isinstance(value, bool):
            raise UsageError(f"{self.name} is a switch: true or false, not {value!r:.60}")
        return value

    def to_json(self) -> dict[str, Any]:
        """Return what a page needs to draw it."""
        settings, step = self.settings, self.settings.step
        if settings.range and step is None:
            step = 1 if self.whole else (settings.range[1] - settings.range[0]) / _STEPS
        return {
            "name": self.name,
            "key": settings.key,
            "label": settings.label or self.name,
            "range": list(settings.range) or None,
            "step": step,
            "options": list(settings.options) or None,
            "live": self.live,
        }


def controls_of(scenario: Scenario) -> tuple[ControlledKey, ...]:
    """Return the controls of a scenario with their values, in the order of the file.

    Raises:
        UsageError: if the changed scenario has no such value.
    """
    controls = []
    for name, settings in _settings(scenario).items():
        override = Override.of(settings.key, None, within=f"controls.{name}: ")
        tree = {override.path[0]: scenario.source.section(override.path[0])}
        live = is_live(override.path) and scenario.execution.sync is None
        controls.append(ControlledKey(name, settings, value_at(tree, override), live))
    return tuple(controls)


def _settings(scenario: Scenario) -> Mapping[str, ControlSettings]:
    controls: Mapping[str, ControlSettings] = scenario.sections.get("controls", {})
    return controls


Validate = Callable[[Map], tuple[Scenario | None, list[Problem]]]


def check_controls(tree: Map, scenario: Scenario, validate: Validate) -> Iterator[Problem]:
    """Yield what is wrong with the controls of a scenario: a value must be in the file, offered, and valid.

    Args:
        tree: the tree of the file, as it is written.
        scenario: its scenario, which is valid in all other respects.
        validate: validates a changed tree.
    """
    section = tree["controls"]
    firsts: list[Override] = []
    lasts: list[Override] = []
    for name, settings in _settings(scenario).items():
        written = section[name]
        mark = written.values_at["key"] if isinstance(written, Map) else section.values_at[name]
        place = f"controls.{name}: "
        try:
            value = value_at(tree, Override.of(settings.key, None, mark, place))
            control = ControlledKey(name, settings, value, is_live(tuple(settings.key.split("."))))
            try:
                control.taken(value)
            except UsageError as error:
                raise UsageError(f"{place}{settings.key} is {value!r:.60}, and {error}") from None
            offered = settings.range or settings.options or (False, True)
            ends = [Override.of(settings.key, control.taken(end), mark, place) for end in (offered[0], offered[-1])]
            for end in ends if control.live else ():
                read_changes(scenario, [end])
            firsts.append(ends[0])
            lasts.append(ends[1])
        except ScenarioError as error:
            yield from error.problems
        except UsageError as error:
            yield mark.problem(str(error), error.hint)
    for changes in (firsts, lasts):
        changed = copy.deepcopy(tree)
        apply_overrides(changed, changes)
        yield from validate(changed)[1]


# -- what people changed in a played run, as a file


def with_changes_by_hand(text: str, values: Mapping[str, Any], interventions: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a scenario with other values and further interventions; the rest stays as it is written.

    Args:
        text: the text of a valid scenario.
        values: the new values by key.
        interventions: the interventions.

    Raises:
        UsageError: if the text has no such value.
    """
    for key, value in values.items():
        path: tuple[str | int, ...] = ()
        for step in key.split("."):
            here = spans(text).at(path)
            path = (*path, step if here is None else _step(here, step))
        span = spans(text).at(path)
        if span is None:
            raise UsageError(f"{key} is not in the file", hint="write it into the file first")
        text = replaced(text, span, json.dumps(value, ensure_ascii=False))
    if not interventions:
        return text
    lines = [json.dumps(one, ensure_ascii=False) for one in interventions]
    span = spans(text).at(("interventions",))
    if span is None:
        root = spans(text)
        if root.flow:
            return replaced(text, attrs.evolve(root, start=root.end - 1), f', "interventions": [{", ".join(lines)}]}}')
        return text.rstrip("\n") + "\n\ninterventions:\n" + "".join(f"  - {line}\n" for line in lines)
    if span.flow:
        comma = ", " if span.entries else ""
        return replaced(text, attrs.evolve(span, start=span.end - 1), f"{comma}{', '.join(lines)}]")
    start = span.entries[0].start
    indent = " " * (start - text.rfind("\n", 0, start) - 1)
    more = "".join(f"\n{indent}- {line}" for line in lines)
    end = len(text[: span.end].rstrip())
    return text[:end] + more + text[end:]


def _step(here: Span, step: str) -> str | int:
    """Return the key of an entry that an override names: in a list by its name, id, topic or number."""
    if here.kind != "list":
        return step
    for entry in here.entries:
        for key in ("name", "id", "topic"):
            name = entry.value.at((key,))
            if name is not None and name.text == step:
                return entry.key
    return int(step) if step.isdecimal() else step
