"""Places: what is kept of who stands around whom."""

import random

import pytest

from sim.world import places as module
from sim.world.places import Places


@pytest.mark.parametrize("most", [0, 40, 2_000_000])
def test_what_is_kept_of_neighbours_is_bounded_and_right(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However agents move, neighbours are those of the places now, and the names kept are counted and bounded."""
    monkeypatch.setattr(module, "_MOST_KEPT", most)
    places, draws = Places.grid(4, 4, 0, wrap=True), random.Random(1)
    agents = [f"a{n}" for n in range(20)]
    for agent in agents:
        places.place(agent, draws.choice(places.nodes))
    largest = 0
    for _ in range(300):
        agent = draws.choice(agents)
        here = places.where(agent)
        assert here is not None
        near = [one for node in (here, *places.adjacent(here)) for one in places.at(node)]
        assert places.neighbours(agent) == [one for one in near if one != agent]
        kept = sum(len(names) + sum(map(len, own.values())) for names, own, _ in places._around.values())
        assert kept == places._kept_around <= most
        largest = max(largest, kept)
        if draws.random() < 0.2:
            places.place(draws.choice(agents), draws.choice(places.nodes))
    assert largest > 40 or most <= 40
