"""Agents whose objects are made anew before each iteration: what they know must be held by the world."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from sim.actors import Agent, AgentLoop
from sim.scenario.assembly.agent_factory import AgentFactory
from sim.scenario.schema import Agent as Entry


@contextmanager
def renewed_agents() -> Iterator[list[str]]:
    """Replace each agent of a scenario by a new object before each iteration; yield the names of the replaced ones.

    The new object is made by the family of the agent, with the arguments of the old one. Kept is only what the runtime
    owns: the loop with its mailbox, its wake-up and its backoff; name, kind, entry, part; whether the agent is alive;
    and `state`, the variables that the scenario gives and the record covers. Everything else that the old object held
    is lost, so a run has the same hash as without this if the agents keep nothing in themselves.
    """
    made: dict[str, Callable[[], Agent]] = {}
    replaced: list[str] = []
    first, now, iterate = AgentFactory._instance, AgentLoop.iterate_now, AgentLoop.iterate

    def note(factory: AgentFactory, entry: Entry, name: str, index: int, *row: Any) -> Agent:
        made[name] = partial(first, factory, entry, name, index, *row)
        return made[name]()

    def renew(loop: AgentLoop) -> None:
        old = loop.agent
        if old.agent_id in made:
            _take_over(loop, old, made[old.agent_id]())
            replaced.append(old.agent_id)

    def renewed_now(loop: AgentLoop) -> Any:
        renew(loop)
        return now(loop)

    async def renewed(loop: AgentLoop, **begun: Any) -> None:
        if not begun:  # else the rest of an iteration that has begun with this agent
            renew(loop)
        await iterate(loop, **begun)

    with (
        patch.object(AgentFactory, "_instance", note),
        patch.object(AgentLoop, "iterate_now", renewed_now),
        patch.object(AgentLoop, "iterate", renewed),
    ):
        yield replaced


def _take_over(loop: AgentLoop, old: Agent, new: Any) -> None:
    """Put an agent in the place of another."""
    for name in ("kind", "entry", "part", "state", "woken_event", "_alive"):
        setattr(new, name, getattr(old, name))
    new.attach(loop, old.mailbox)
    loop.agent = new
    loop._decide = None if loop._decide is None else new.decide_now  # these are kept from the start of the loop
    loop._follow = None if loop._follow is None else new.after_action
    loop.world.agents[new.agent_id] = new
