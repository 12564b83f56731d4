"""Services: what a run keeps and shows of the state that agents share."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import anyio
import attrs
import pytest

import sim
from sim.base.errors import UsageError
from sim.inspect.telemetry import Exporter
from sim.record import open_run
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.world import define_section
from sim.world.section import Range
from tests.helpers import exposition
from tests.registries import kept_registries


@attrs.frozen
class LightSettings:
    """A light.

    Args:
        level: how bright it is.
        shown: whether the record has its state.
    """

    level: Annotated[int, Range(0, 9)] = 1
    shown: bool = True


class Light(sim.Service):
    name: ClassVar[str] = "light"

    def __init__(self, settings: LightSettings) -> None:
        self.settings = settings

    def state(self) -> Any:
        return {"level": self.settings.level} if self.settings.shown else None

    def metrics(self) -> Mapping[str, float]:
        return {"level": self.settings.level, "odd": float("nan")}

    def summary(self) -> Mapping[str, Any]:
        return {"level": self.settings.level} if self.settings.level else {}


@pytest.fixture(autouse=True)
def _light() -> Iterator[None]:
    with kept_registries():
        define_section("light", LightSettings, lambda world, settings: world.add_service(Light(settings)))
        yield


def scenario(settings: str | None) -> sim.Scenario:
    """Load a scenario with these settings of the section; None: without it."""
    light = "" if settings is None else f"light: {settings}\n"
    return loads(f"name: x\nuntil: 1m\n{light}agents: [{{name: ada, rules: [{{do: stop}}]}}]\n")


def test_a_service_belongs_to_one_world() -> None:
    """A section adds it; a world without the section has none, and says what to add."""
    world = build(scenario("{level: 4}")).world
    assert Light.of(world).settings.level == 4
    with pytest.raises(UsageError, match="this world has no light") as caught:
        Light.of(build(scenario(None)).world)
    assert caught.value.hint == "add `light:` to the scenario"


def test_a_name_is_taken_once() -> None:
    """Two services of one name cannot be told apart; a service of another class under the name is not that service."""
    world = build(scenario("{}")).world
    with pytest.raises(UsageError, match="this world already has light"):
        world.add_service(Light(LightSettings()))

    class Lamp(Light):
        pass

    with pytest.raises(UsageError, match="this world has no light"):
        Lamp.of(world)


def test_the_digest_has_the_state_unless_it_is_none() -> None:
    """The state is part of the final digest; without any, the digest is that of a world without services."""
    assert build(scenario("{level: 2}")).world.digest()["services"] == {"light": {"level": 2}}
    hidden, none = build(scenario("{shown: false}")).world.digest(), build(scenario(None)).world.digest()
    assert hidden == none
    assert "services" not in none


def test_the_hash_of_a_run_covers_the_state() -> None:
    """Runs that differ in the state of a service only have different hashes."""
    one, same, other = (sim.run(scenario(text)).hash for text in ("{level: 1}", "{level: 1}", "{level: 2}"))
    hidden, none = sim.run(scenario("{shown: false}")).hash, sim.run(scenario(None)).hash
    assert one == same
    assert hidden == none
    assert len({one, other, none}) == 3


def test_the_result_has_the_summary() -> None:
    """The result of a run has the numbers of each service that has some."""
    assert sim.run(scenario("{level: 3}")).services == {"light": {"level": 3}}
    assert sim.run(scenario("{level: 0}")).services == {}


def test_the_report_and_the_run_file_have_the_summary(tmp_path: Path) -> None:
    """What the result has is kept with the run."""
    file = tmp_path / "x.yaml"
    file.write_text("name: x\nuntil: 1m\nlight: {level: 3}\nagents: [{name: ada, rules: [{do: stop}]}]\n")
    result = sim.run(file, out=tmp_path / "runs")
    with open_run(Path(str(result.run))) as run:
        assert (run.info.summary or {})["services"] == {"light": {"level": 3}}


def test_metrics_are_exposed_by_name() -> None:
    """A scrape has each number of a service, named after the service."""
    simulation = build(scenario("{level: 5}"))
    runner, exporter = (
        RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous"),
        Exporter(()),
    )
    exporter.begun(runner)
    anyio.run(runner.run)
    text = exposition(exporter)[0].decode()
    assert 'sim_service_value{name="light.level"} 5.0' in text
