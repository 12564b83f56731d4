"""The prompts of goals, tasks and user agents, in XML sections. Text of people and models is escaped."""

from typing import Any, Final

from sim.agents.engine import prompt, time_context
from sim.agents.engine.core_loop import cut
from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.kinds.goals.kinds import SYSTEM_TOOLS
from sim.kinds.goals.records import GoalAgent
from sim.kinds.goals.service import Goals
from sim.tools.tool import wire_name
from sim.world import World

_LONGEST_NOTE: Final = 500  # characters of a note in a prompt
_MOST_LEARNINGS: Final = 50


def system_prompt(world: World, goals: Goals, record: GoalAgent, offered: list[str]) -> str:
    """Return the system prompt of an agent.

    Args:
        world: the world.
        goals: the service.
        record: the agent.
        offered: the names of its tools.
    """
    sections: list[tuple[str, Any]] = [("role", record.kind.role), ("instructions", record.instructions)]
    sections += [("goal", _about(goals, record))]
    if record.kind.informed:
        sections += [("notes_context", notes_context(goals, record)), ("learnings", learnings(goals, record))]
    if record.kind.overview:
        sections.append(("goals_context", goals_context(goals, record)))
    if record.kind.archives:
        sections.append(("past_sessions", past_sessions(world, goals, record)))
    sections.append(("tools", [wire_name(tool) for tool in offered if tool in SYSTEM_TOOLS]))
    sections.append(("time_context", time_context(world)))
    return prompt("", sections)


def about(goals: Goals, record: GoalAgent) -> dict[str, Json]:
    """Return what an agent is, for interviews. Its memories, which have its notes and learnings, are not included."""
    return {"role": record.kind.role, "goal": _about(goals, record), "instructions": record.instructions}


def _about(goals: Goals, record: GoalAgent) -> list[str]:
    """Return what an agent is about. Of a task, this includes what its goal is about."""
    goal = goals.records.get(record.goal, record)
    lines = [f"title: {record.title}", f"description: {record.description or goal.description}"]
    return [" ".join(line.split()) for line in lines if not line.endswith(": ")]


def notes_context(goals: Goals, record: GoalAgent) -> list[str]:
    """Return the newest notes of an agent, oldest first, one line each."""
    if not goals.settings.notes:
        return []
    hits = goals.memories.recall(record.goal, "", kind="note", limit=goals.settings.notes)
    return [" ".join(cut(hit.memory.content, _LONGEST_NOTE).split()) for hit in reversed(hits)]


def learnings(goals: Goals, record: GoalAgent) -> list[str]:
    """Return the newest learnings of an agent with their numbers, oldest first, one line each."""
    hits = goals.memories.recall(record.agent_id, "", kind="learning", limit=_MOST_LEARNINGS)
    return [f"{hit.memory.id}: {' '.join(hit.memory.content.split())}" for hit in reversed(hits)]


def goals_context(goals: Goals, record: GoalAgent) -> list[str]:
    """Return all goals of a user with their newest note, one line each."""
    lines = []
    for one in goals.agents_of(record.user):
        if one is not record and not one.ended:
            newest = goals.memories.recall(one.goal, "", kind="note", limit=1)
            note = f"; newest note: {cut(newest[0].memory.content, _LONGEST_NOTE)}" if newest else ""
            lines.append(" ".join(f"{one.title} ({one.status or 'active'}){note}".split()))
    return lines


def past_sessions(world: World, goals: Goals, record: GoalAgent) -> list[str]:
    """Return the summaries of the last archived sessions, oldest first, one line each."""
    if not goals.settings.summaries:
        return []
    sessions = goals.memories.sessions(record.agent_id, goals.settings.summaries)
    return [
        f"{_when(world, one.started_ns)} to {_when(world, one.completed_ns)}: {' '.join(one.summary.split())}"
        for one in sessions
    ]


def _when(world: World, time_ns: int) -> str:
    calendar = world.calendar
    return f"{to_seconds(time_ns):g} s" if calendar is None else f"{calendar.at(time_ns):%Y-%m-%d %H:%M}"
