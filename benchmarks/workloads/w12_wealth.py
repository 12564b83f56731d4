"""W12: Boltzmann wealth. An operation is one turn of an agent, which gives a coin to another one if it has any.

After Dragulescu and Yakovenko (2000); Mesa's first tutorial is this model.
"""

import random
from typing import Any

from benchmarks.models import compare, mesa, steps
from benchmarks.workload import Meter, Workload

W12 = Workload("W12", "turns of wealth", (300,), full=(1_000, 10_000, 100_000), bases=("mesa", "python"))


def _text(agents: int) -> str:
    return f"agents: [{{name: person, count: {agents}, balance: 1, BEHAVIOUR}}]\n"


def _class() -> Any:
    from sim.actors import Agent
    from sim.world import Action

    class Trader(Agent):
        async def decide_action(self) -> Action | None:
            if self.world.balance(self.agent_id) < 1:
                return None
            return Action("transfer", {"to": self.rng.choice(self.world.group("person")), "amount": 1})

    return Trader


_RULES = """rules: [{when: balance >= 1, do: {transfer: {to: "=choice(agents('person'))", amount: 1}}}]"""
compare(W12, _text, {"rules": _RULES, "class": _class, "metrics": "{poor: \"balance('person-1')\"}"}, 20_000)


@W12.peer("mesa", needs="mesa", speed=500_000)
def mesa_wealth(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Mesa's model of its tutorial, without its grid."""

    class Person(lib.Agent):  # type: ignore[misc]  # a class that is known at run time only
        wealth = 1

        def step(self) -> None:
            if self.wealth > 0:
                other = self.random.choice(self.model.people)
                other.wealth += 1
                self.wealth -= 1

    model = lib.Model(seed=1)
    Person.create_agents(model, agents)
    model.people = list(model.agents)
    mesa(meter, lib, model, agents, times, lambda model: model.people[0].wealth)


@W12.peer("python", needs="builtins", speed=3_000_000)
def plain(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Plain objects: no time, no ledger, no record."""
    draw = random.Random(1)
    people: list[_Person] = []
    people += [_Person(people, draw) for _ in range(agents)]
    steps(meter, list(people), times, lambda: people[0].wealth)


class _Person:
    __slots__ = ("draw", "people", "wealth")

    def __init__(self, people: "list[_Person]", draw: random.Random) -> None:
        self.people, self.draw, self.wealth = people, draw, 1

    def step(self) -> None:
        if self.wealth > 0:
            self.draw.choice(self.people).wealth += 1
            self.wealth -= 1
