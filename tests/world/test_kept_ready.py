"""What is kept ready, such as neighbours, free places and live agents, is what a look at all of them gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.actors import Agent, AgentLoopManager
from sim.world import Action, World
from sim.world.places import Places

AGENTS = ("a", "b", "c", "d")


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(AGENTS), st.integers(-1, 8), st.booleans()), max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_neighbours_and_free_places_are_those_of_the_moment(moves, diagonals, wrap):
    """After any moves, neighbours and free places are in order, and a list that was handed out does not change."""
    places = Places.grid(3, 3, 0, diagonals=diagonals, wrap=wrap)
    handed_out: list[tuple[list[str], list[str]]] = []
    for agent, place, looks in moves:
        if place < 0:
            places.remove(agent)
        else:
            places.place(agent, places.nodes[place])
        if not looks:
            continue
        assert places.free() == [node for node in places.nodes if not places.at(node)]
        for one in AGENTS:
            here = places.where(one)
            around = [] if here is None else [here, *places.adjacent(here)]
            expected = [other for node in around for other in places.at(node) if other != one]
            assert places.neighbours(one) == expected
        handed_out += [(found, found.copy()) for found in (places.free(), places.neighbours("a"))]
    assert all(found == before for found, before in handed_out)
    places.free().append("nowhere")
    places.neighbours("a").append("nobody")
    assert "nowhere" not in places.free()
    assert "nobody" not in places.neighbours("a")


class _Idler(Agent):
    async def decide_action(self) -> Action | None:
        return None


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("add", "die", "live", "go"))), max_size=25))
def test_the_live_agents_of_a_group_are_those_of_the_moment(steps):
    """However agents come, are shut down, live again and go, a group has its live ones, in the order of arrival."""
    world = World(1)
    manager, known = AgentLoopManager(world), dict[str, bool]()
    for name, does in steps:
        if does == "add" and name not in known:
            manager.create_loop(_Idler(name, world, group="one" if name == "a" else "some"))
            known[name] = True
        elif does == "go" and name in known:
            manager.remove_loop(name)
            del known[name]
        elif name in known and does != "add":
            world.agents[name].alive = known[name] = does == "live"
        for group in ("one", "some", "none"):
            expected = [one for one, alive in known.items() if alive and (one == "a") == (group == "one")]
            assert world.group(group) == ([] if group == "none" else expected)
        world.group("some").append("nobody")
