"""Definitions of a program that are apart from those of the process, and from each other."""

import asyncio
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import sim
from sim.agents import Family
from sim.agents.family import FAMILIES, define_family
from sim.base.registry import Definitions, Registry, current_definitions
from sim.record import open_run
from sim.record.views import VIEWS
from sim.scenario.loading import loads
from sim.world.action import DEFINED, action
from sim.world.section import SECTIONS, define_section

GARDEN = """
name: garden
until: 1m
beds: {count: 3}
metrics: {every: 10s, values: {plants: "total('ann', 'plants')"}}
agents:
  - {name: ann, kind: gardener, state: {plants: 0}}
  - {name: bob, state: {plants: 0}, loop: {min_loop_delay: 20s}, rules: [{do: {water: {cans: 2}}}]}
"""


def made(plants: int, *, cans: str) -> Definitions:
    """Return definitions with a kind, an action, a section and a view, whose names others have as well."""

    @attrs.frozen
    class Beds:
        """Beds of a garden.

        Args:
            count: how many there are.
        """

        count: int = 1

    class Gardener(sim.Agent):
        async def decide_action(self) -> sim.Action:
            self.loop.sleep(sim.WakeCondition.after_delay(7))
            return sim.Action("water", {cans: plants})

    found = Definitions()
    with found:
        if cans == "cans":

            @action("water")
            def water(world, agent, cans: int):
                """Water the plants.

                Args:
                    cans: how much.
                """
                agent.state["plants"] = agent.state.get("plants", 0) + cans * plants
        else:

            @action("water")
            def water(world, agent, litres: int):
                """Water the plants.

                Args:
                    litres: how much.
                """

        define_section("beds", Beds)
        watered = f"SELECT {plants} AS plants FROM events LIMIT 1"  # noqa: S608 - a number
        define_family(Family("gardener", Gardener, views={"watered": watered}))
    return found


@pytest.fixture
def pair() -> Iterator[tuple[Definitions, Definitions]]:
    """Two definitions of the same names."""
    before = {name: list(registry) for name, registry in REGISTRIES.items()}
    yield made(1, cans="cans"), made(5, cans="cans")
    assert {name: list(registry) for name, registry in REGISTRIES.items()} == before, "the process got definitions"


REGISTRIES: dict[str, Registry[Any]] = {"kinds": FAMILIES, "actions": DEFINED, "sections": SECTIONS, "views": VIEWS}


def hash_alone(definitions: Definitions) -> str:
    """Return the hash of a run with nothing else."""
    return sim.run(loads(GARDEN, definitions=definitions)).hash


def test_two_guests_of_one_name_in_one_process(pair, tmp_path):
    """Each runs to its own hash, one after the other and at once, from a file and from a scenario that was loaded."""
    one, other = pair
    (tmp_path / "garden.yaml").write_text(GARDEN)
    first = sim.run(tmp_path / "garden.yaml", definitions=one)
    second = sim.run(tmp_path / "garden.yaml", definitions=other)
    assert first.hash != second.hash
    assert second.metrics["plants"][-1] == 25 * first.metrics["plants"][-1] > 0
    assert (hash_alone(one), hash_alone(other)) == (first.hash, second.hash)

    async def at_once() -> list[str]:
        work = [sim.run_async(tmp_path / "garden.yaml", definitions=found) for found in (one, other)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
        return [task.result().hash for task in tasks]

    assert asyncio.run(at_once()) == [first.hash, second.hash]


@pytest.mark.slow
def test_each_verb_takes_definitions(pair, tmp_path):
    """A run is recorded, replayed, branched and swept with them; its record has the views of the guest."""
    one, other = pair
    (tmp_path / "garden.yaml").write_text(GARDEN)
    result = sim.run(tmp_path / "garden.yaml", definitions=other, out=tmp_path)
    assert result.run is not None
    with open_run(result.run) as stored:
        assert list(stored.stream("watered")) == [(5,)]
    assert sim.replay(result.run, definitions=other).same
    assert not sim.replay(result.run, definitions=one).same
    with pytest.raises(sim.SimError, match=r"beds|gardener"):
        sim.replay(result.run)
    again = sim.branch(result.run, at="30s", definitions=other, out=tmp_path)
    assert again.metrics["plants"] == result.metrics["plants"]
    swept = sim.sweep(tmp_path / "garden.yaml", seeds=2, definitions=other, out=tmp_path / "swept")
    assert not swept.problems


def test_nothing_else_sees_them(pair):
    """The process knows none of their names, and they know none that the process has beside those of `sim`."""
    one, _ = pair
    with pytest.raises(sim.ScenarioError) as error:
        loads(GARDEN)
    assert {"beds", "water"} <= set(str(error.value.problems).replace("'", " ").replace(":", " ").split())
    with one:
        assert current_definitions() is one
        assert "beds" in SECTIONS
        assert "gardener" in FAMILIES
        assert "policy" in FAMILIES
    assert current_definitions() is None
    assert "gardener" not in FAMILIES
    assert "beds" not in SECTIONS


def test_what_they_hold_can_be_inspected(pair):
    """By name, without the words of `sim`; they cannot be changed there."""
    one, _ = pair
    assert [*one.kinds, *one.sections, *one.actions, *one.views] == ["gardener", "beds", "water", "watered"]
    assert one.kinds["gardener"].agent.__name__ == "Gardener"
    assert repr(one).startswith("<Definitions: ")
    with pytest.raises(AttributeError):
        one.kinds.__setitem__  # noqa: B018
    assert repr(Definitions()) == "<Definitions: none>"


def test_a_name_is_defined_once_in_each(pair):
    """A second definition of a name is refused, and so is that of a word of `sim`, whose own it stays."""
    one, _ = pair
    with one:
        with pytest.raises(sim.UsageError, match="already defined"):
            define_family(Family("gardener", one.kinds["gardener"].agent, position=True))
        with pytest.raises(sim.UsageError, match="already defined"):
            define_family(Family("villager", one.kinds["gardener"].agent))


def test_an_action_can_have_other_arguments():
    """What was read for one definition of an action does not count for another one of the same name."""
    one, other = made(1, cans="cans"), made(1, cans="litres")
    loads(GARDEN, definitions=one)
    with pytest.raises(sim.ScenarioError, match="litres"):
        loads(GARDEN, definitions=other)
    loads(GARDEN.replace("cans: 2", "litres: 2"), definitions=other)
