"""W13: Schelling's segregation on a torus. An operation is one turn of an agent, which looks at eight places around.

After Schelling (1971). One place in five is free; who has less than 30 % of neighbours alike moves to a free place.
"""

import random
from typing import Any

from benchmarks.models import compare, mesa, side, steps
from benchmarks.workload import Meter, Workload

W13 = Workload("W13", "turns of segregation", (400,), full=(2_880, 10_000), bases=("mesa", "python"))

_WANTED = 0.3


def _text(agents: int) -> str:
    size = side(agents)
    return (
        f"places: {{grid: [{size}, {size}], diagonals: true, wrap: true}}\n"
        f"agents: [{{name: person, count: {agents}, place: =index, BEHAVIOUR,"
        " state: {kind: =index % 2, alike: 1.0}}]\n"
    )


def _class() -> Any:
    from sim.actors import Agent
    from sim.world import Action

    class Person(Agent):
        async def decide_action(self) -> Action | None:
            world, state = self.world, self.state
            assert world.places is not None, "the scenario has a grid"
            near = world.places.neighbours(self.agent_id)
            kinds = [world.agents[one].state["kind"] for one in near]
            state["alike"] = sum(kind == state["kind"] for kind in kinds) / len(near) if near else 1.0
            if state["alike"] >= _WANTED:
                return None
            return Action("move", {"to": self.rng.choice(world.places.free())})

    return Person


_ALIKE = "sum(state_of(n, 'kind') == kind for n in neighbours()) / len(neighbours()) if neighbours() else 1.0"
_RULES = f"""rules: [{{when: "alike < {_WANTED}", do: {{move: {{to: "=choice(free_places())"}}}},
          set: {{alike: "={_ALIKE}"}}}}, {{set: {{alike: "={_ALIKE}"}}}}]"""
compare(W13, _text, {"rules": _RULES, "class": _class, "metrics": """{alike: "mean('person', 'alike')"}"""}, 12_000)


@W13.peer("mesa", needs="mesa", speed=150_000)
def mesa_schelling(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Mesa's cells of a Moore grid with a torus."""
    from mesa.discrete_space import CellAgent, OrthogonalMooreGrid

    class Person(CellAgent):  # type: ignore[misc]  # Mesa has no types
        alike = 1.0

        def step(self) -> None:
            near = [other for cell in self.cell.neighborhood for other in cell.agents]
            self.alike = sum(other.kind == self.kind for other in near) / len(near) if near else 1.0
            if self.alike < _WANTED:
                self.cell = self.model.grid.select_random_empty_cell()

    model, size = lib.Model(seed=1), side(agents)
    model.grid = OrthogonalMooreGrid((size, size), torus=True, capacity=1, random=model.random)
    for number, cell in zip(range(agents), model.grid.all_cells.cells, strict=False):
        person = Person(model)
        person.kind, person.cell = number % 2, cell
    people = list(model.agents)
    mesa(meter, lib, model, agents, times, lambda model: sum(one.alike for one in people) / agents)


@W13.peer("python", needs="builtins", speed=400_000)
def plain(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Plain objects in a list of places: no time, no names, no record."""
    town = _Town(side(agents), random.Random(1))
    people = [_Person(town, place, place % 2) for place in range(agents)]
    town.free = list(range(agents, town.size**2))
    steps(meter, people, times, lambda: sum(one.alike for one in people) / agents)


class _Town:
    def __init__(self, size: int, draw: random.Random) -> None:
        self.size, self.draw = size, draw
        self.at: list[_Person | None] = [None] * size**2
        self.free: list[int] = []
        around = [(right, down) for right in (-1, 0, 1) for down in (-1, 0, 1) if right or down]
        self.around = [
            [(place // size + down) % size * size + (place + right) % size for right, down in around]
            for place in range(size**2)
        ]


class _Person:
    __slots__ = ("alike", "kind", "place", "town")

    def __init__(self, town: _Town, place: int, kind: int) -> None:
        self.town, self.place, self.kind, self.alike = town, place, kind, 1.0
        town.at[place] = self

    def step(self) -> None:
        town = self.town
        near = [other for place in town.around[self.place] if (other := town.at[place]) is not None]
        self.alike = sum(other.kind == self.kind for other in near) / len(near) if near else 1.0
        if self.alike < _WANTED:
            chosen = town.draw.randrange(len(town.free))
            town.at[self.place] = None
            town.free[chosen], self.place = self.place, town.free[chosen]
            town.at[self.place] = self
