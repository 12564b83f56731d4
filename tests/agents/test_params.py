"""Params: what a class of agents declares, how a scenario gives them, and what each agent gets."""

import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import pytest

import sim
from sim.agents import Family, define_family
from sim.base.errors import ScenarioError, UsageError
from sim.cli import main
from sim.experiments.plan import make_sweep
from sim.scenario import json_schema, loads
from sim.scenario.assembly.build import build
from sim.tools.rights import Rights
from sim.world.section import Condition, Duration, Json, Name, Range
from tests.registries import kept_registries


@attrs.frozen
class Load:
    """What a walker carries.

    Args:
        kilos: how heavy it is.
    """

    kilos: float = 0.0


class Walker(sim.Agent):
    """Walks."""

    class Params:
        """How a walker walks.

        Args:
            speed: steps per second.
            gait: how it looks.
        """

        speed: Annotated[float, Range(0, 10)] = 1.0
        gait: Literal["walk", "run"] = "walk"
        rest: Duration = 60 * 10**9
        friend: Name | None = None
        stops: tuple[str, ...] = ()
        load: Load = Load()
        note: Json = None
        until: Condition | None = None

    async def decide_action(self) -> sim.Action:
        return sim.Action("publish", {"topic": "step.made", "data": {"speed": self.params.speed}})


class Needy(Walker):
    class Params:
        steps: int

    def __init__(self, *names: Any, **options: Any) -> None:
        super().__init__(*names, **options)
        self.left = self.params.steps


class Plain(sim.Agent):
    async def decide_action(self) -> None:
        return None


KINDS: Mapping[str, type[sim.Agent]] = {"walker": Walker, "needy": Needy, "plain": Plain}


@pytest.fixture(autouse=True)
def _own_registries() -> Iterator[None]:
    with kept_registries():
        yield


def agents(entry: str, overrides: tuple[str, ...] = (), seed: int = 0) -> list[Any]:
    """Return the agents of a scenario with one entry."""
    text = f"name: walk\nuntil: 3s\nagents:\n  - {entry}\n"
    scenario = loads(text, "walk.yaml", overrides, kinds=KINDS)
    return list(build(scenario, rights=Rights(kinds=KINDS), seed=seed).world.agents.values())


# -- values


def test_params_are_read_checked_and_given_to_the_agent() -> None:
    """Each value has its type; what is not given has its default; params are there when the agent is made."""
    params = "{speed: 2, gait: run, rest: 5m, friend: bob, stops: [mill, town], load: {kilos: 3}, until: now > 5}"
    (walker,) = agents(f"{{name: ann, kind: walker, params: {params}}}")
    given = walker.params
    assert (given.speed, given.gait, given.rest, given.friend) == (2.0, "run", 300 * 10**9, "bob")
    assert (given.stops, given.load, given.note) == (("mill", "town"), Load(3.0), None)
    assert given.until.text == "now > 5"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        given.speed = 3
    (default,) = agents("{name: ann, kind: walker}")
    assert default.params == Walker.Params()
    (needy,) = agents("{name: ann, kind: needy, params: {steps: 4}}")
    assert needy.left == 4


def test_expressions_are_evaluated_for_each_agent() -> None:
    """A value can depend on the agent's number, and can be drawn, at any depth; draws depend on the seed."""
    entry = "{name: ann, count: 3, kind: walker, params: {speed: '=index % 2 + 1', load: {kilos: '=uniform(1, 5)'}}}"
    walkers = agents(entry)
    assert [walker.params.speed for walker in walkers] == [1, 2, 1]
    kilos = [walker.params.load.kilos for walker in walkers]
    assert len(set(kilos)) == 3
    assert all(1 <= value <= 5 for value in kilos)
    assert kilos == [walker.params.load.kilos for walker in agents(entry)]
    assert kilos != [walker.params.load.kilos for walker in agents(entry, seed=1)]


def test_draws_of_params_move_no_other_draws() -> None:
    """A further drawn parameter changes neither the start values of state nor the agent's own stream."""
    entry = "{{name: ann, kind: walker, state: {{x: '=uniform(0, 1)'}}, params: {{{0}}}}}"
    (one,) = agents(entry.format("speed: 1"))
    (other,) = agents(entry.format("speed: '=uniform(0, 1)', note: '=chance(0.5)'"))
    assert one.state == other.state
    assert one.rng.random() == other.rng.random()


def test_overrides_and_spawned_agents() -> None:
    """`--set` reaches a single parameter, also one that the file does not give."""
    (walker,) = agents("{name: ann, kind: walker}", ("agents.ann.params.speed=3",))
    assert walker.params.speed == 3
    (walker,) = agents("{name: ann, kind: walker, params: {speed: 1}}", ("agents.ann.params.load.kilos=7",))
    assert (walker.params.speed, walker.params.load.kilos) == (1, 7)


@pytest.mark.slow
def test_a_run_records_what_params_do(tmp_path: Path) -> None:
    """A run and its replay use the params, and a sweep varies them."""
    file = tmp_path / "walk.yaml"
    file.write_text("name: walk\nuntil: 2s\nagents: [{name: ann, kind: walker, loop: {min_loop_delay: 1s}}]\n")
    hashes = {sim.run(file, kinds=KINDS, overrides=[f"agents.ann.params.speed={speed}"]).hash for speed in (1, 2)}
    assert len(hashes) == 2
    recorded = sim.run(file, kinds=KINDS, overrides=["agents.ann.params.speed=2"], out=tmp_path / "runs")
    assert recorded.run is not None
    assert sim.replay(recorded.run, kinds=KINDS).same
    plan = make_sweep(file, vary=["agents.ann.params.speed=1,2"], count=1, kinds=KINDS)
    assert len(plan.points) == 2
    with pytest.raises(UsageError, match=r"params\.speed: expected a value of at most 10.0, found 20"):
        make_sweep(file, vary=["agents.ann.params.speed=1,20"], count=1, kinds=KINDS)


def test_params_cannot_change_during_a_run() -> None:
    """Params shape an agent from its start, so they are no live parameters."""
    text = (
        "name: walk\nagents: [{name: ann, kind: walker}]\ninterventions: [{at: 1s, set: {agents.ann.params.speed: 2}}]"
    )
    with pytest.raises(ScenarioError, match=r"agents\.ann\.params\.speed shapes a run from its start"):
        loads(text, kinds=KINDS)


# -- faults


@pytest.mark.parametrize(
    ("params", "column", "words", "hint"),
    [
        ("{speeed: 2}", 40, "agents[0].params.speeed: unknown key 'speeed'", "did you mean 'speed'?"),
        ("{gait: rn}", 46, "params.gait: expected 'walk' or 'run', found the text 'rn'", "did you mean 'run'?"),
        ("{speed: fast}", 47, "params.speed: expected a number, found the text 'fast'", None),
        ("{speed: 11}", 47, "params.speed: expected a value of at most 10.0, found 11", None),
        ("{rest: soon}", 46, "params.rest: ", None),
        ("{load: {kilo: 1}}", 47, "params.load.kilo: unknown key 'kilo'", "did you mean 'kilos'?"),
        ("{speed: '=indx'}", 47, "params.speed: there is no name 'indx'", "did you mean 'index'?"),
        ("{until: 'nww > 3'}", 47, "params.until: there is no name 'nww'", None),
        ("5", 39, "params: expected a mapping, found 5", None),
    ],
)  # fmt: skip
def test_faults_have_a_place_and_a_hint(params: str, column: int, words: str, hint: str | None) -> None:
    """What is wrong with a parameter is told with line, column and what may have been meant."""
    with pytest.raises(ScenarioError) as caught:
        agents(f"{{name: ann, kind: walker, params: {params}}}")
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.column) == ("walk.yaml", 4, column)
    assert words in problem.message
    assert hint is None or problem.hint == hint


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ("{speed: '=index + 10'}", "agents.ann.params.speed: ann-2: expected a value of at most 10.0, found 11"),
        ("{speed: '=me'}", "agents.ann.params.speed: ann-1: expected a number, found the text 'ann-1'"),
        ("{load: {kilos: '=1 / index'}}", "agents.ann.params.load: ann-1: "),
        ("{load: {kilo: '=index'}}", "agents.ann.params.load: ann-1: unknown key 'kilo'"),
        ("{gait: \"='hop'\"}", "agents.ann.params.gait: ann-1: expected 'walk' or 'run', found the text 'hop'"),
    ],
)
def test_what_an_expression_gives_is_checked(params: str, words: str) -> None:
    """A value that does not fit is told with the agent, and with the place of its expression."""
    with pytest.raises(ScenarioError) as caught:
        agents(f"{{name: ann, count: 2, kind: walker, params: {params}}}")
    (problem,) = caught.value.problems
    assert problem.line == 4
    assert problem.message.startswith(words)


def test_params_that_contradict_each_other() -> None:
    """An error that the class raises is told at the place of the params, for literals and for expressions."""

    class Picky(Plain):
        @attrs.frozen
        class Params:
            low: int = 0
            high: int = 1

            def __attrs_post_init__(self) -> None:
                if self.low > self.high:
                    raise UsageError(f"low is {self.low}, above high")

    for value in ("5", "'=index + 5'"):
        text = f"name: x\nagents:\n  - {{name: ann, kind: picky, params: {{low: {value}}}}}\n"
        with pytest.raises(ScenarioError, match=r"params: .*low is 5, above high") as caught:
            build(loads(text, kinds={"picky": Picky}), rights=Rights(kinds={"picky": Picky}))
        assert caught.value.problems[0].line == 3


@pytest.mark.parametrize("entry", ["{name: ann, kind: plain, params: {x: 1}}", "{name: ann, params: {x: 1}}"])
def test_agents_without_params_are_given_none(entry: str) -> None:
    """Params that nobody reads are a mistake."""
    with pytest.raises(ScenarioError, match=r"params: agents of the kind \w+ have no params") as caught:
        agents(entry)
    assert caught.value.problems[0].hint == "their class declares them as a class Params"


def test_required_params() -> None:
    """A parameter without a default must be given, in a file and in a program."""
    with pytest.raises(ScenarioError, match=r"agents\[0\]: expected params with steps, found none"):
        agents("{name: ann, kind: needy}")
    with pytest.raises(UsageError, match=r"Needy needs params: .*steps") as caught:
        Needy("ann", sim.World())
    assert caught.value.hint == "give params=Needy.Params(...)"
    assert Needy("ann", sim.World(), params=Needy.Params(steps=2)).left == 2  # type: ignore[call-arg]


def test_params_of_a_scenario_that_was_loaded_without_its_kinds() -> None:
    """Params that nobody has checked are refused; without any, the agents have the defaults."""
    with pytest.raises(ScenarioError, match="params: the kind walker was not known when the scenario was loaded"):
        build(loads("name: x\nagents: [{name: ann, kind: walker, params: {speed: 99}}]"), rights=Rights(kinds=KINDS))
    world = build(loads("name: x\nagents: [{name: ann, kind: walker}]"), rights=Rights(kinds=KINDS)).world
    assert getattr(world.agents["ann"], "params", None) == Walker.Params()
    with pytest.raises(ScenarioError, match="params: ann: expected params with steps, found none"):
        build(loads("name: x\nagents:\n  - {name: ann, kind: needy}"), rights=Rights(kinds=KINDS))


# -- declarations


@dataclass
class _OfDataclasses:
    speed: float = 1.0


def _named(name: str, **attributes: Any) -> type[sim.Agent]:
    return type(name, (Plain,), attributes)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (type("Params", (), {"speed": 1.0}), "Odd.Params.speed has no type"),
        (type("Params", (), {"__annotations__": {"seen": set[str]}}), "a file cannot give a value of the type set"),
        (_OfDataclasses, "must be a frozen attrs class"),
        (attrs.define(type("Params", (), {"__annotations__": {"speed": float}})), "must be a frozen attrs class"),
    ],
    ids=["no type", "set", "dataclass", "not frozen"],
)
def test_a_declaration_is_checked_when_the_kind_is_defined(declared: type, words: str) -> None:
    """A mistake in the class of agents is told as such, not as one of a scenario."""
    with pytest.raises(UsageError, match=words):
        define_family(Family("odd", _named("Odd", Params=declared)))
    with pytest.raises(UsageError, match=words):
        loads("name: x\nagents: [{name: ann, kind: odd}]", kinds={"odd": _named("Odd", Params=declared)})


def test_a_class_inherits_params() -> None:
    """A subclass has the params of its base class, or declares its own, which may extend those."""

    class Same(Walker):
        pass

    class More(Walker):
        class Params(Walker.Params):
            colour: str = "red"

    assert Same.Params is Walker.Params
    kinds = {"more": More}
    scenario = loads("name: x\nagents: [{name: ann, kind: more, params: {speed: 2, colour: blue}}]", kinds=kinds)
    agent: Any = build(scenario, rights=Rights(kinds=kinds)).world.agents["ann"]
    assert (agent.params.speed, agent.params.colour) == (2, "blue")


def test_a_module_and_the_schema(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`kind: module:Class` reads params, and the JSON Schema has them with types and descriptions."""
    made: Any = types.ModuleType("walkers_in_a_module")
    made.Walker = Walker
    monkeypatch.setitem(sys.modules, "walkers_in_a_module", made)
    text = "name: x\nagents: [{name: ann, kind: 'walkers_in_a_module:Walker', params: {speed: 2}}]"
    allow = ("walkers_in_a_module",)
    agent: Any = build(loads(text, allow=allow), rights=Rights(allow=allow)).world.agents["ann"]
    assert agent.params.speed == 2
    rules = json_schema()["$defs"]["Agent"]["allOf"]
    (found,) = [
        rule["then"] for rule in rules if rule["if"]["properties"]["kind"]["const"] == "walkers_in_a_module:Walker"
    ]
    speed = found["properties"]["params"]["properties"]["speed"]
    assert speed["description"] == "steps per second"
    assert speed["anyOf"][0] == {"maximum": 10, "minimum": 0, "type": "number"}
    assert speed["default"] == 1.0


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`sim check --allow` finds a misspelt parameter of a class beside the scenario."""
    (tmp_path / "paramwalk.py").write_text(
        "import sim\n\nclass W(sim.Agent):\n    class Params:\n        speed: float = 1.0\n\n"
        "    async def decide_action(self):\n        return None\n"
    )
    (tmp_path / "walk.yaml").write_text(
        "name: walk\nagents:\n  - name: ann\n    kind: paramwalk:W\n    params: {sped: 1}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as ended:
        main(["check", "walk.yaml", "--allow", "paramwalk"])
    assert ended.value.code == 2
    told = capsys.readouterr().out
    assert "walk.yaml:5:14: agents[0].params.sped: unknown key 'sped'" in told
    assert "did you mean 'speed'?" in told
    sys.modules.pop("paramwalk")
