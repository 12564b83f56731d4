"""A type of wake condition is said once: everything else is derived from one class."""

from collections.abc import Iterator
from typing import Any

import pytest

import sim
from sim.actors.wake import _HEADS, CONDITIONS, Armed, ConditionType, WakeCondition, wake_condition
from sim.base.errors import ScenarioError, UsageError
from sim.kernel.codec import JsonObject
from sim.scenario.loading import json_schema, loads
from sim.world.action import Argument
from tests.actors.helpers import Lab, Script

SCENARIO = """
name: night
until: 20s
metrics: {every: 1s, values: {woken: "total('owl', 'woken')"}}
agents:
  - {name: owl, state: {woken: -1}, rules: [{do: SLEEP, set: {woken: "=woken + 1"}}]}
"""


@pytest.fixture
def full_minutes() -> Iterator[None]:
    """A new type of condition, defined by one class: the next time that is a multiple of a period."""

    @wake_condition
    class NextMultiple(ConditionType):
        """The next multiple of a span of time."""

        name = "multiple"
        heads = (Argument("multiple", "number", "of how many seconds", False),)
        more = (Argument("plus", "number", "seconds after it", False),)

        def valid(self, value: Any) -> bool:
            return isinstance(value, tuple) and value[0] > 0

        def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
            return WakeCondition(self.name, (mapping[head], mapping.get("plus", 0)))

        def arm(self, armed: Armed, condition: WakeCondition) -> None:
            period, plus = (round(seconds * 1e9) for seconds in condition.value)
            armed.after(period - armed.world.kernel.now % period + plus, lambda: armed.fire(self.name))

    yield
    del CONDITIONS["multiple"], _HEADS["multiple"]


@pytest.mark.usefixtures("full_minutes")
def test_a_new_condition_wakes_in_python():
    """An agent sleeps for it, alone or as a part, and is told what woke it."""
    for condition in (WakeCondition("multiple", (5, 1)), WakeCondition.any_of(WakeCondition("multiple", (5, 1)))):
        lab, woken = Lab(), list[tuple[float, str]]()

        def step(agent: Script) -> None:
            woken.append((agent.world.now, agent.loop.woken_by))  # noqa: B023 - it is called before the loop goes on
            agent.loop.sleep(condition)  # noqa: B023 - the same

        lab.add("a", step, started=True)
        lab.run(12)
        assert [cause for _, cause in woken] == ["", "multiple", "multiple"]
        assert [round(at) for at, _ in woken] == [0, 6, 11]


@pytest.mark.usefixtures("full_minutes")
def test_a_new_condition_is_slept_for_by_rules(tmp_path):
    """A rule can sleep for it, with values that are computed, also as a part of others."""
    for given in ("{multiple: '=2 + 3'}", "{any: [{multiple: 5, plus: 0}, {message: true}], timeout: 1h}"):
        file = tmp_path / "night.yaml"
        file.write_text(SCENARIO.replace("SLEEP", f"{{sleep: {given}}}"))
        result = sim.run(file, out=tmp_path / "runs")
        assert result.errors == 0
        assert result.metrics["woken"][-1] >= 3


@pytest.mark.usefixtures("full_minutes")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{multiple: often}", "expected a number or an expression"),
        ("{for: 5s, plus: 1}", "plus needs multiple"),
        ("{multiple: 5, for: 5s}", "expected exactly one of .*multiple.* found for and multiple"),
        ("{multipel: 5}", "multipel"),
    ],
)
def test_how_a_rule_writes_it_is_checked(given, message):
    """Keys and values are checked in the file, before anything runs."""
    with pytest.raises(ScenarioError, match=message):
        loads(SCENARIO.replace("SLEEP", f"{{sleep: {given}}}"))


@pytest.mark.slow
@pytest.mark.usefixtures("full_minutes")
def test_a_new_condition_is_in_the_json_schema():
    """Editors know its keys, with their descriptions."""
    assert json_schema()["$defs"]["sleep"]["properties"]["multiple"]["description"] == "of how many seconds"


class _Whole(ConditionType):
    """Nothing."""

    def valid(self, value: Any) -> bool:
        return True

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        raise AssertionError

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        raise AssertionError


class _Half(ConditionType):
    """Lacks two methods."""

    name = "half"

    def valid(self, value: Any) -> bool:
        return True


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (_Whole, "the wake condition _Whole has no name"),
        (_Half, "the wake condition 'half' lacks the methods arm, parse"),
        (type("Same", (_Whole,), {"name": "time", "__doc__": "x"}), "a wake condition named 'time' already exists"),
        (type("Bare", (_Whole,), {"name": "bare", "__doc__": None}), "the wake condition 'bare' has no docstring"),
        (
            type("Key", (_Whole,), {"name": "key", "__doc__": "x", "heads": (Argument("where", "text", "", False),)}),
            "a wake condition named 'where' already exists",
        ),
    ],
)
def test_a_forgotten_part_fails_when_the_condition_is_defined(cls, message):
    """Whatever is missing, one sentence says so at once, and nothing is defined."""
    before = dict(CONDITIONS)
    with pytest.raises(UsageError, match=message):
        wake_condition(cls)
    assert before == CONDITIONS
