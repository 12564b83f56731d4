"""What places keep ready, such as neighbours and free places, is what a look at all places gives."""

from hypothesis import given
from hypothesis import strategies as st

from sim.world.places import Places

AGENTS = ("a", "b", "c", "d")


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
