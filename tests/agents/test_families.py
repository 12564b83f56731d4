"""Families: what a definition must have, what a world gets from it, and how a scenario names one."""

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest

import sim
from sim.agents import FAMILIES, AgentPlan, Family, WorldPlan, define_family
from sim.base.errors import ScenarioError, UsageError
from sim.base.permissions import Permission
from sim.cli import main
from sim.record import VIEWS, open_run
from sim.scenario import loads
from sim.scenario.assembly.build import Simulation, build
from sim.tools import Given
from sim.tools.rights import Rights
from sim.world.action import action
from sim.world.section import Json
from tests.packages import install
from tests.registries import kept_registries


@pytest.fixture(autouse=True)
def _own_registries() -> Iterator[None]:
    with kept_registries():
        yield


@attrs.frozen
class BakerSettings:
    """How bakers work.

    Args:
        bread: what they bake.
        loaves: how many.
    """

    bread: str = "rye"
    loaves: int = 1


class Baker(sim.Agent):
    def __init__(self, *names: Any, settings: BakerSettings, **options: Any) -> None:
        super().__init__(*names, **options)
        self.settings = settings

    async def decide_action(self) -> sim.Action:
        return sim.Action("publish", {"topic": "bread.baked", "data": {"bread": self.settings.bread}})


class Sleeper(sim.Agent):
    async def decide_action(self) -> sim.Action:
        return sim.Action("stop")


@sim.tool("oven.open")
def open_oven(agent: Given[sim.Agent]) -> str:
    """Open the oven."""
    return f"{agent.agent_id} opened it"


def scenario(agents: str = "{name: ada, kind: baker}", rest: str = "", **options: Any) -> Any:
    """Load a scenario with these agents."""
    return loads(f"name: bakery\nuntil: 10s\n{rest}agents:\n  - {agents}\n", **options)


def built(agents: str = "{name: ada, kind: baker}", rest: str = "", **options: Any) -> Simulation:
    """Build a scenario with these agents."""
    return build(scenario(agents, rest), **options)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module `bakery_of_tests`, with a family, a class, and something else."""
    made: Any = types.ModuleType("bakery_of_tests")
    made.BAKER = Family("baker", Baker, settings=BakerSettings, views={"loaves": "SELECT * FROM events"})
    made.Sleeper, made.other = Sleeper, 5
    monkeypatch.setitem(sys.modules, "bakery_of_tests", made)
    return made  # type: ignore[no-any-return]


# -- what a definition must have


def test_a_kind_has_one_definition() -> None:
    """The same definition twice is one; another one of the same kind is refused."""
    first = define_family(Family("baker", Baker, settings=BakerSettings))
    assert define_family(Family("baker", Baker, settings=BakerSettings)) == first
    with pytest.raises(UsageError, match="the kind of agents 'baker' is already defined"):
        define_family(Family("baker", Sleeper))
    with pytest.raises(UsageError, match="the kind of agents 'policy' is already defined"):
        define_family(Family("policy", Baker))


@pytest.mark.parametrize("kind", ["", "a b", "module:NAME", "1st", "bäcker"])
def test_a_kind_is_a_name(kind: str) -> None:
    """A kind that no scenario could name is refused."""
    with pytest.raises(UsageError, match="cannot be a kind of agents"):
        define_family(Family(kind, Sleeper))


def _settings(attributes: Mapping[str, Any], doc: str = "Some.\n\nArgs:\n    size: how many.", **how: Any) -> type:
    made = type("Settings", (), {"__annotations__": dict(attributes), "__doc__": doc})
    return attrs.define(made, frozen=how.get("frozen", True))


def _several(part: Any) -> Any:
    return tuple[part, ...]


class _Plain:
    """Some.

    Args:
        size: how many.
    """


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: _Plain, "must be a frozen attrs class"),
        (lambda: _settings({"size": int}, frozen=False), "must be a frozen attrs class"),
        (lambda: _settings({"size": int}, ""), "has no docstring"),
        (lambda: _settings({"size": int}, "Some."), "the setting 'size' of Settings has no description"),
        (lambda: _settings({"size": set[str]}), "a file cannot give a value of the type set"),
        (lambda: _settings({"size": list[str]}), "a file cannot give a value of the type list"),
        (lambda: _settings({"size": Any}), "a file cannot give a value"),
        (lambda: _settings({"size": _Plain | None}), "a file cannot give a value"),
        (lambda: _settings({"size": tuple[int, int]}), "a tuple of settings has any length"),
        (lambda: _settings({"size": "Nowhere"}), "a type of Settings cannot be found: name 'Nowhere'"),
        (lambda: _settings({"size": _several(_settings({"size": object}))}), "Settings.size: a file cannot give"),
    ],
    ids=range(11),
)  # fmt: skip
def test_settings_are_checked_when_they_are_defined(make: Callable[[], type], words: str) -> None:
    """A mistake in the settings shows where the family is defined, not in some scenario later."""
    with pytest.raises(UsageError, match=words):
        define_family(Family("baker", Baker, settings=make()))
    assert "baker" not in FAMILIES


def test_settings_cannot_contain_themselves() -> None:
    """A class of settings with a part of its own class has no end."""
    settings = _settings({"size": Annotated[int, 1]})
    settings.__annotations__["size"] = settings | None
    with pytest.raises(UsageError, match="contain themselves"):
        define_family(Family("baker", Baker, settings=settings))


def test_any_value_needs_to_be_meant() -> None:
    """`Json` says that any value will do."""
    define_family(Family("baker", Baker, settings=_settings({"size": Json | None})))
    assert "baker" in FAMILIES


# -- what a world gets


def test_an_agent_gets_its_settings_group_and_permission() -> None:
    """The class is called with what the entry says."""
    define_family(Family("baker", Baker, settings=BakerSettings))
    world = built("{name: ada, kind: baker, group: crew, permission: admin, settings: {loaves: 3}}").world
    agent = world.agents["ada"]
    assert isinstance(agent, Baker)
    assert (agent.settings, agent.group, agent.permission) == (BakerSettings("rye", 3), "crew", Permission.ADMIN)
    assert (agent.kind, agent.entry) == ("baker", "ada")


def test_defaults_are_settings_too() -> None:
    """An entry without settings has the defaults of its kind."""
    define_family(Family("baker", Baker, settings=BakerSettings))
    agent: Any = built().world.agents["ada"]
    assert agent.settings == BakerSettings()


def test_a_class_that_does_not_fit_is_named() -> None:
    """A constructor without `settings` is told what is missing."""
    define_family(Family("baker", Sleeper, settings=BakerSettings))
    with pytest.raises(UsageError, match="the class Sleeper cannot be instantiated") as caught:
        built()
    assert "and settings" in (caught.value.hint or "")


def test_a_world_is_prepared_once() -> None:
    """Two entries of a kind share what their family adds to the world; another world gets its own."""
    prepared: list[Any] = []

    def prepare(plan: WorldPlan) -> Callable[[AgentPlan], sim.Agent]:
        prepared.append(plan.world)
        return lambda agent: Baker(agent.name, agent.world, settings=agent.settings)

    define_family(Family("baker", Baker, settings=BakerSettings, prepare=prepare))
    two = "{name: ada, kind: baker, count: 2}\n  - {name: bob, kind: baker}"
    first, second = built(two).world, built().world
    assert prepared == [first, second]
    assert list(first.agents) == ["ada-1", "ada-2", "bob"]
    built("{name: bob}")
    assert len(prepared) == 2


def test_actions_and_tools_belong_to_worlds_with_such_agents() -> None:
    """A world without such agents has neither; two families can have the same ones."""

    @action("bake", everywhere=False)
    def bake(world: sim.World, agent: Any) -> None:
        """Bake."""

    define_family(Family("baker", Baker, settings=BakerSettings, actions=(bake,), tools=(open_oven,)))
    define_family(Family("helper", Sleeper, actions=(bake,), tools=(open_oven,)))
    worlds = [
        built().world,
        built("{name: bob}").world,
        built("{name: a, kind: baker}\n  - {name: b, kind: helper}").world,
    ]
    assert [world.actions.find("bake") is bake for world in worlds] == [True, False, True]
    assert ["oven.open" in sim.Tools.of(world).by_name for world in worlds] == [True, False, True]


def test_a_check_refuses_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a family refuses is refused by `sim check` and before the run, with its sentence and hint."""

    def check(checked: sim.Scenario, until_ns: int | None) -> None:
        if any(isinstance(entry.settings, BakerSettings) for entry in checked.agents) and not checked.pools:
            raise UsageError("bakers need an oven", hint="add `pools:`")

    define_family(Family("baker", Baker, settings=BakerSettings, check=check))
    with pytest.raises(UsageError, match="bakers need an oven"):
        built()
    assert built(rest="pools: {oven: {kind: container, capacity: 1}}\n").world.agents
    assert built("{name: bob}").world.agents
    file = tmp_path / "bakery.yaml"
    file.write_text("name: bakery\nagents: [{name: ada, kind: baker}]\n")
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file)])
    assert ended.value.code == 2
    assert "bakers need an oven" in capsys.readouterr().out


# -- views


LOAVES = "SELECT time, actor AS baker, data ->> '$.bread' AS bread FROM events WHERE topic = 'bread.baked'"


def _recorded(folder: Path) -> Path:
    file = folder / "bakery.yaml"
    file.write_text("name: bakery\nuntil: 2s\nagents: [{name: ada, kind: baker}]\n")
    return Path(str(sim.run(file, out=folder).run))


def test_a_run_file_has_the_views_of_families(tmp_path: Path) -> None:
    """A view can be queried with SQL, and by name, also where the family is not known any more."""
    define_family(Family("baker", Baker, settings=BakerSettings, views={"loaves": LOAVES}))
    folder = _recorded(tmp_path)
    del VIEWS["loaves"]
    with open_run(folder) as run:
        rows = run.query("SELECT baker, bread FROM loaves")
        assert rows[:1] == [("ada", "rye")]
        assert next(run.stream("loaves"))[1:] == rows[0]
        with pytest.raises(UsageError, match="a run has no view 'loavs'") as caught:
            list(run.stream("loavs"))
        assert caught.value.hint == "did you mean loaves?"
        with pytest.raises(UsageError, match="has no view"):
            list(run.stream("loaves; DROP TABLE run"))


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ({"loaves": "SELECT missing FROM events"}, "the view 'loaves' is not valid: no such column: missing"),
        ({"loaves": "SELECT 1; DROP TABLE run"}, "the view 'loaves' is not valid"),
        ({"loaves": "DELETE FROM run"}, "the view 'loaves' is not valid"),
        ({"Loaves!": LOAVES}, "'Loaves!' is not the name of a view"),
        ({"sqlite_loaves": LOAVES}, "is not the name of a view"),
        ({"select": LOAVES}, "the view 'select' is not valid"),
        ({"events": LOAVES}, "already has something else of the name 'events'"),
        ({"commits": LOAVES}, "already has something else of the name 'commits'"),
    ],
)
def test_a_view_is_checked_when_it_is_defined(views: dict[str, str], words: str) -> None:
    """A view that would spoil each run file is refused with its family."""
    with pytest.raises(UsageError, match=words):
        define_family(Family("baker", Baker, settings=BakerSettings, views=views))
    assert not {"loaves", "select"} & set(VIEWS)
    assert "baker" not in FAMILIES


# -- how a scenario names a kind


def test_an_unknown_kind_is_refused_with_the_nearest_one() -> None:
    """A misspelt kind is named with what may have been meant."""
    define_family(Family("baker", Baker, settings=BakerSettings))
    with pytest.raises(UsageError, match=r"agents.ada.kind: there is no kind of agent 'bakr'") as caught:
        built("{name: ada, kind: bakr}")
    assert caught.value.hint == "did you mean 'baker'?"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which modules are imported."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def offer(site: Path, name: str, target: str, package: str = "old-bakery") -> None:
    """Install a package that offers a kind of agents."""
    install(site, package, {}, offers={"sim.agents": {name: target}})


def test_a_faulty_module_is_imported_once(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of it is an error with its position, but its code runs once; the next check runs it again."""
    (site / "faulty_of_tests.py").write_text("print('imported')\nraise ValueError('a bad module')\n")
    kinds = "\n".join(f"  - {{name: a{number}, kind: 'faulty_of_tests:Kind{number % 2}'}}" for number in range(4))
    for times in (1, 2):
        with pytest.raises(ScenarioError) as caught:
            loads(f"name: x\nuntil: 1s\nagents:\n{kinds}\n", allow=("faulty_of_tests",))
        assert [problem.line for problem in caught.value.problems] == [4, 5, 6, 7]
        assert all("a bad module" in problem.message for problem in caught.value.problems)
        assert capsys.readouterr().out.count("imported") == 1, times


def test_a_package_is_imported_if_it_is_allowed(site: Path, module: types.ModuleType) -> None:
    """Its kind is refused without --allow, before anything is imported; with it, its settings are read."""
    offer(site, "baker", "bakery_of_tests:BAKER")
    with pytest.raises(UsageError, match="'baker' belongs to the package old-bakery, which is not allowed") as caught:
        built()
    assert caught.value.hint == "allow it: --allow old-bakery"
    assert "baker" not in FAMILIES
    entry = "{name: ada, kind: baker, settings: {loaves: 2}}"
    for name in ("old-bakery", "Old_Bakery"):  # as pip does, it takes both for the same
        agent: Any = build(scenario(entry, allow=(name,))).world.agents["ada"]
        assert agent.settings == BakerSettings("rye", 2)


def test_a_package_can_offer_a_class(site: Path, module: types.ModuleType) -> None:
    """An entry point that leads to a class of agents needs no family."""
    offer(site, "sleeper", "bakery_of_tests:Sleeper")
    agent = build(scenario("{name: ada, kind: sleeper}", allow=("old-bakery",))).world.agents["ada"]
    assert (type(agent), getattr(agent, "kind", None)) == (Sleeper, "sleeper")
    again = build(scenario("{name: ada, kind: sleeper}", allow=("old-bakery",)))
    assert type(again.world.agents["ada"]) is Sleeper


def test_two_packages_cannot_give_one_kind(site: Path, module: types.ModuleType) -> None:
    """A kind that two allowed packages offer is refused with the name of the second, and so is one of sim itself."""
    offer(site, "baker", "bakery_of_tests:BAKER")
    offer(site, "baker", "bakery_of_tests:Sleeper", "rival")
    with pytest.raises(UsageError, match="the package rival cannot be used: the kind of agents 'baker' is already"):
        scenario(allow=("old-bakery", "rival"))
    offer(site, "policy", "bakery_of_tests:Sleeper", "thief")
    with pytest.raises(UsageError, match="the package thief cannot be used: the kind of agents 'policy' is already"):
        scenario(allow=("thief",))


def test_a_misspelt_kind_of_a_package_is_known_by_its_neighbour(site: Path) -> None:
    """The hint names kinds of installed packages too, although nothing of them is imported."""
    offer(site, "baker", "no_module_of_tests:BAKER")
    with pytest.raises(UsageError, match="there is no kind of agent 'bakr'") as caught:
        built("{name: ada, kind: bakr}")
    assert caught.value.hint == "did you mean 'baker'?"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_module_of_tests:BAKER", "'baker' of the package old-bakery cannot be imported: .*no_module_of_tests"),
        ("bakery_of_tests:MISSING", "'baker' of the package old-bakery cannot be imported"),
        ("bakery_of_tests:other", "the entry point 'baker' in sim.agents of the package old-bakery leads to no class"),
        ("not an entry point", "old-bakery:baker leads to 'not an entry point', which is not written as module:NAME"),
    ],
)
def test_a_package_that_is_broken_is_named(site: Path, module: types.ModuleType, target: str, words: str) -> None:
    """One sentence says what is wrong with a package."""
    offer(site, "baker", target)
    with pytest.raises(UsageError, match=words):
        scenario(allow=("old-bakery",))


ENTRY = "{name: ada, kind: bakery_of_tests:BAKER, settings: {loaves: 2}}"
ALLOW = ("bakery_of_tests",)


def test_a_module_can_have_a_family(module: types.ModuleType) -> None:
    """`module:NAME` of a family gives what the family gives: settings, views and checks."""
    agent: Any = build(scenario(ENTRY, allow=ALLOW), rights=Rights(allow=ALLOW)).world.agents["ada"]
    assert (agent.settings, agent.kind) == (BakerSettings("rye", 2), "bakery_of_tests:BAKER")
    assert "loaves" in VIEWS


def test_one_family_with_two_names_prepares_a_world_once(module: Any) -> None:
    """The kind of a family and the name of its module mean the same family."""
    define_family(attrs.evolve(module.BAKER, tools=(open_oven,)))
    module.BAKER = FAMILIES["baker"]
    both = f"{ENTRY}\n  - {{name: bob, kind: baker}}"
    assert len(build(scenario(both, allow=ALLOW), rights=Rights(allow=ALLOW)).world.agents) == 2


@pytest.mark.parametrize(
    ("entry", "place", "words"),
    [
        ("{name: ada, kind: bakery_of_tests:BAKER, settings: {loaves: x}}", (4, 65), "loaves: expected a whole number"),
        ("{name: ada, kind: bakery_of_tests:BAKER, settings: {loafs: 1}}", (4, 57), "unknown key 'loafs'"),
        ("{name: ada, kind: bakery_of_tests:MISSING}", (4, 23), "cannot be imported: .*has no attribute 'MISSING'"),
        ("{name: ada, kind: bakery_of_tests:other}", (4, 23), "is not a subclass of sim.Agent, nor a family"),
    ],
)  # fmt: skip
def test_faults_have_a_line_and_a_column(
    module: types.ModuleType, entry: str, place: tuple[int, int], words: str
) -> None:
    """What is wrong with a named family or its settings is shown at its place in the file."""
    with pytest.raises(ScenarioError, match=words) as caught:
        scenario(entry, allow=ALLOW)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [place]


def test_a_module_that_is_not_allowed_is_not_imported(module: types.ModuleType) -> None:
    """Without --allow nothing of the module is used."""
    with pytest.raises(UsageError, match="names a module, which is not allowed") as caught:
        build(scenario(ENTRY))
    assert caught.value.hint == "allow it: --allow bakery_of_tests"


def test_settings_must_have_been_read(module: types.ModuleType) -> None:
    """A scenario that was loaded before its kind was known is refused, not run with settings that nobody checked."""
    with pytest.raises(UsageError, match="was not known when the scenario was loaded"):
        build(scenario(ENTRY), rights=Rights(allow=ALLOW))


@pytest.mark.parametrize("entry", ["bakery_of_tests:Sleeper", "given", "policy"])
def test_settings_of_a_kind_without_any_are_refused(module: types.ModuleType, entry: str) -> None:
    """Settings that nobody reads are a mistake."""
    with pytest.raises(UsageError, match="have no settings"):
        build(
            scenario(f"{{name: ada, kind: '{entry}', settings: {{a: 1}}}}", allow=ALLOW),
            rights=Rights(allow=ALLOW, kinds={"given": Sleeper}),
        )  # fmt: skip
