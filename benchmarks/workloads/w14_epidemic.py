"""W14: an epidemic on a network. An operation is one turn of an agent, which looks at the neighbours it can be ill from.

The model of Kermack and McKendrick (1927) on a network, in which the immune become susceptible again, so that the
epidemic does not end and each turn has work to do.
"""

import random
from typing import Any

from benchmarks.models import compare, mesa, network, steps
from benchmarks.workload import Meter, Workload

W14 = Workload("W14", "turns of an epidemic", (300,), full=(1_000, 10_000), bases=("mesa", "python"))

_STAYS_WELL, _RECOVERS, _FORGETS = 0.7, 0.2, 0.1


def _text(agents: int) -> str:
    edges = ", ".join(f"[n{one}, n{other}]" for one, other in network(agents))
    nodes = ", ".join(f"n{node}" for node in range(agents))
    state = "{status: \"='I' if index % 10 == 0 else 'S'\"}"
    return (
        f"places: {{nodes: [{nodes}], edges: [{edges}]}}\n"
        f"agents: [{{name: person, count: {agents}, place: =index, state: {state}, BEHAVIOUR}}]\n"
    )


def _class() -> Any:
    from sim.actors import Agent
    from sim.world import Action

    class Person(Agent):
        async def decide_action(self) -> Action | None:
            world, state = self.world, self.state
            assert world.places is not None, "the scenario has a network"
            if state["status"] == "S":
                near = world.places.neighbours(self.agent_id)
                ill = sum(world.agents[one].state["status"] == "I" for one in near)
                if self.rng.chance(1 - _STAYS_WELL**ill):
                    state["status"] = "I"
            elif state["status"] == "I":
                if self.rng.chance(_RECOVERS):
                    state["status"] = "R"
            elif self.rng.chance(_FORGETS):
                state["status"] = "S"
            return None

    return Person


_ILL = "sum(state_of(n, 'status') == 'I' for n in neighbours())"
_RULES = f"""rules: [{{when: "status == 'S' and chance(1 - {_STAYS_WELL} ** {_ILL})", set: {{status: I}}}},
         {{when: "status == 'I' and chance({_RECOVERS})", set: {{status: R}}}},
         {{when: "status == 'R' and chance({_FORGETS})", set: {{status: S}}}}]"""
compare(
    W14, _text, {"rules": _RULES, "class": _class, "metrics": """{ill: "count('person', 'status', 'I')"}"""}, 20_000
)


@W14.peer("mesa", needs="mesa", speed=300_000)
def mesa_epidemic(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Mesa's agents, each with a list of its neighbours, which is faster than its network of cells."""

    class Person(lib.Agent):  # type: ignore[misc]  # a class that is known at run time only
        status = "S"

        def step(self) -> None:
            _turn(self, self.random.random())

    model = lib.Model(seed=1)
    people = list(Person.create_agents(model, agents))
    _meet(people)
    mesa(meter, lib, model, agents, times, lambda model: sum(one.status == "I" for one in people))


@W14.peer("python", needs="builtins", speed=1_500_000)
def plain(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Plain objects, each with a list of its neighbours."""
    draw = random.Random(1)
    people = [_Person(draw) for _ in range(agents)]
    _meet(people)
    steps(meter, list(people), times, lambda: sum(one.status == "I" for one in people))


class _Person:
    __slots__ = ("draw", "near", "status")

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.status = draw, "S"
        self.near: list[_Person] = []

    def step(self) -> None:
        _turn(self, self.draw.random())


def _turn(person: Any, drawn: float) -> None:
    if person.status == "S":
        if drawn >= _STAYS_WELL ** sum(other.status == "I" for other in person.near):
            person.status = "I"
    elif person.status == "I":
        if drawn < _RECOVERS:
            person.status = "R"
    elif drawn < _FORGETS:
        person.status = "S"


def _meet(people: list[Any]) -> None:
    """Give each person its neighbours in the network, and make one in ten ill."""
    for number, one in enumerate(people):
        one.near, one.status = [], "S" if number % 10 else "I"
    for one, other in network(len(people)):
        people[one].near.append(people[other])
        people[other].near.append(people[one])
