"""The actions of people: they make goals, write to their agents, choose tools, and archive what is done."""

from typing import Any

from sim.actors.inputs import PERSON
from sim.base.expressions import did_you_mean
from sim.base.permissions import Permission
from sim.kernel.codec import Json, freeze
from sim.kinds.goals.events import ToolsEnabled
from sim.kinds.goals.records import GoalAgent
from sim.kinds.goals.service import Goals
from sim.kinds.goals.settings import AgentSettings
from sim.world import Inhabitant, Refused, World
from sim.world.action import action


@action("create_goal", permission=Permission.GUEST, everywhere=False, draws=False)
def create_goal(
    world: World,
    agent: Inhabitant,
    title: str,
    description: str = "",
    instructions: str = "",
    tools: Any = None,
    template: str | None = None,
) -> dict[str, Json]:
    """Make a goal of the agent, with an agent of its own; the first one makes the user agent too.

    Args:
        title: what it is, in a few words.
        description: what the person wants.
        instructions: further instructions for the agent of the goal.
        tools: the names of the enabled tools; by default all that the template offers.
        template: the entry of `agents` of which the agent is made; by default the only one that there is.
    """
    goals, user = Goals.of(world), agent.agent_id
    if not title.strip():
        raise Refused("the goal needs a title")
    freeze([title, description, instructions])  # only a check: it refuses what cannot be recorded
    open_goals = [one for one in goals.agents_of(user) if not one.ended and not one.kind.overview]
    if len(open_goals) >= (most := goals.settings.goals_per_user):
        raise Refused(f"{user} has {most} goals already; archive one first")
    entry = goals.template("goal", template)
    offered = goals.offers[entry]
    enabled = offered if tools is None else _enabled(tools, offered)
    goals.welcome(user)
    settings = AgentSettings(user, title.strip(), description, instructions, enabled)
    record = goals.spawn(user, entry, settings)
    return {"agent": record.agent_id, "thread": record.conversation}


def _enabled(names: Any, offered: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of tools, after a check that they are offered."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Refused(f"tools is a list of names, not {names!r:.80}")
    for name in names:
        if name not in offered:
            hint = did_you_mean(name, offered)
            raise Refused(f"the tool {name!r:.80} is not offered" + (f"; {hint}" if hint else ""))
    return tuple(dict.fromkeys(names))


@action("write_to_agent", permission=Permission.GUEST, everywhere=False, draws=False)
def write_to_agent(world: World, agent: Inhabitant, to: str, text: str) -> dict[str, Json]:
    """Write a message to a goal, task or user agent of one's own; it runs soon.

    Args:
        to: the name of the agent.
        text: the text.
    """
    goals = Goals.of(world)
    record = goals.owned(agent.agent_id, to)
    return {"thread": record.conversation, "message": _post(goals, record, text)}


def _post(goals: Goals, record: GoalAgent, text: str) -> int:
    if record.ended:
        raise Refused(f"{record.agent_id} is {record.status}")
    if not text.strip():
        raise Refused("the message needs a text")
    freeze(text)  # only a check, as above
    return goals.post(record, text)


@action("set_goal_tools", permission=Permission.GUEST, everywhere=False, draws=False)
def set_goal_tools(world: World, agent: Inhabitant, goal: str, tools: Any) -> list[str]:
    """Enable these tools for a goal of one's own, and disable all others.

    Args:
        goal: the name of the agent of the goal.
        tools: the names of the tools.
    """
    goals = Goals.of(world)
    record = goals.owned(agent.agent_id, goal)
    enabled = _enabled(tools, record.available)
    goals.report(ToolsEnabled(agent=record.agent_id, tools=list(enabled)))
    record.tools = enabled
    return list(enabled)


@action("archive_goal", permission=Permission.GUEST, everywhere=False, draws=False)
def archive_goal(world: World, agent: Inhabitant, goal: str) -> None:
    """Archive a goal of one's own: its tasks are cancelled, and its agent stops.

    Args:
        goal: the name of the agent of the goal.
    """
    goals = Goals.of(world)
    record = goals.owned(agent.agent_id, goal)
    if "ended" not in record.kind.statuses or record.kind.finishes:
        raise Refused(f"{goal} cannot be archived: it is no goal")
    goals.end(record, "ended", "archived by its user")


@action("take_message", permission=Permission.GUEST, everywhere=False, draws=False)
def take_message(world: World, agent: Inhabitant, sender: str, text: str) -> dict[str, Json]:
    """Take a message from the mailbox into the thread, if it is from the agent's user or from a person outside.

    Args:
        sender: who sent it.
        text: the text.
    """
    goals = Goals.of(world)
    record = goals.get(agent.agent_id)
    if sender not in (PERSON, record.user) or record.ended or not text.strip():
        return {"taken": False}
    return {"taken": True, "message": goals.post(record, text)}


ACTIONS = (create_goal, write_to_agent, set_goal_tools, archive_goal)
"""The actions that every world with goals has."""
