"""The system tools of goals and user agents. What they know of a call comes from the runtime, never from the model."""

from collections.abc import Callable
from typing import Final, Literal, TypeVar

from sim.base.errors import LimitError, UsageError
from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.kinds.goals.kinds import (
    CREATE_NOTE,
    CREATE_TASK,
    MANAGE_LEARNING,
    SEARCH_HISTORY,
    SEARCH_NOTES,
    SEND_MESSAGE,
)
from sim.kinds.goals.records import GoalAgent
from sim.kinds.goals.service import Goals
from sim.kinds.goals.settings import DAY_NS, AgentSettings
from sim.kinds.goals.texts import task_instructions
from sim.memory.memory import Memory
from sim.tools.schema import Given
from sim.tools.tool import tool
from sim.world import Inhabitant, Refused, World

T = TypeVar("T")

_HITS: Final = 5
"""The most results of a search."""


@tool(SEND_MESSAGE)
def send_message(world: Given[World], agent: Given[Inhabitant], text: str) -> str:
    """Send a message to the person.

    Args:
        text: the text.
    """
    goals = Goals.of(world)
    goals.say(goals.get(agent.agent_id), text)
    return "Message sent"


@tool(CREATE_TASK)
def create_task(world: Given[World], agent: Given[Inhabitant], title: str, instructions: str) -> str:
    """Have a task done in the background. Its result comes back later.

    Args:
        title: what it is, in a few words.
        instructions: what has to be done. The task knows nothing else.
    """
    goals = Goals.of(world)
    parent = goals.get(agent.agent_id)
    _require(title, "task title")
    _require(instructions, "task instructions")
    _check_limits(world, goals, parent)
    settings = AgentSettings(parent.user, title.strip(), "", instructions.strip(), parent.tools)
    made = goals.spawn(parent.agent_id, goals.template("task"), settings, made_by=parent, context=_inherited(parent))
    parent.made += 1
    goals.instruct(made, task_instructions(made), "start")
    return f"Task created: {made.agent_id}"


def _check_limits(world: World, goals: Goals, parent: GoalAgent) -> None:
    """Refuse a task if its parent has too many, or has made too many today."""
    settings, today = goals.settings, world.kernel.now // DAY_NS
    if len(parent.children) >= settings.open_tasks:
        raise Refused(f"{settings.open_tasks} tasks are open already: wait until one has ended")
    if parent.day != today:
        parent.day, parent.made = today, 0
    if parent.made >= settings.tasks_per_day:
        raise Refused(f"{settings.tasks_per_day} tasks were made today already: no more until tomorrow")


def _inherited(parent: GoalAgent) -> dict[str, Json]:
    """Return the context of a task: that of the run of its parent, with `type` as `origin_type`.

    So its provenance is kept, and it does not run as a check-in or a feed itself.
    """
    context = dict(parent.context if parent.job is None else parent.job.context)
    if "type" in context:
        context["origin_type"] = context.pop("type")
    return context


@tool(CREATE_NOTE)
def create_note(world: Given[World], agent: Given[Inhabitant], title: str, content: str) -> str:
    """Keep a note for the goal.

    Args:
        title: the title.
        content: the text.
    """
    goals = Goals.of(world)
    record = goals.get(agent.agent_id)
    text = f"{_require(title, 'note title')}\n{_require(content, 'note content')}"
    _checked(lambda: goals.memories.add(record.goal, text, kind="note", related_task_id=record.task, source="model"))
    return f"Note created with {len(content.strip())} chars"


@tool(SEARCH_NOTES)
def search_notes(world: Given[World], agent: Given[Inhabitant], query: str) -> list[dict[str, Json]]:
    """Search the notes: of this goal, or of all goals for a personal assistant. The best come first.

    Args:
        query: the words; without any, the newest notes are found.
    """
    goals = Goals.of(world)
    record = goals.get(agent.agent_id)
    owners = [record.goal]
    if record.kind.overview:
        owners = list(dict.fromkeys(one.goal for one in goals.agents_of(record.user)))
    hits = [(owner, hit) for owner in owners for hit in goals.memories.recall(owner, query, limit=_HITS, kind="note")]
    hits.sort(key=lambda pair: (-pair[1].score, -pair[1].memory.created_ns, pair[0], -pair[1].memory.id))
    return [{"goal": goals.records[owner].title, **_note(hit.memory)} for owner, hit in hits[:_HITS]]


def _note(memory: Memory) -> dict[str, Json]:
    title, _, content = memory.content.partition("\n")
    return {"title": title, "content": content, "time": to_seconds(memory.created_ns)}


@tool(MANAGE_LEARNING, operation="operation")
def manage_learning(
    world: Given[World],
    agent: Given[Inhabitant],
    operation: Literal["add", "change", "remove"],
    content: str = "",
    number: int = 0,
) -> str:
    """Keep, change or remove what was learned about the person.

    Args:
        operation: what to do.
        content: the learning, to add or change one.
        number: the number of the learning, to change or remove one.
    """
    goals = Goals.of(world)
    owner = agent.agent_id
    goals.get(owner)
    if operation != "remove":
        _require(content, "learning")
    if operation != "add":
        if _checked(lambda: goals.memories.get(owner, number)).kind != "learning":
            raise Refused(f"there is no learning {number}")
        if operation == "remove":
            goals.memories.forget(owner, number)
            return f"Learning {number} removed"
    kept = _checked(lambda: goals.memories.add(owner, content, kind="learning", source="model"))
    if operation == "change":
        goals.memories.forget(owner, number)
    return f"Learning {kept.id} saved"


@tool(SEARCH_HISTORY)
def search_agent_history(
    world: Given[World], agent: Given[Inhabitant], query: str, timeframe: str | None = None
) -> list[dict[str, Json]]:
    """Search past sessions, in their summaries and their whole text. Up to five are found, the best first.

    Args:
        query: the words; without any, the newest sessions are found.
        timeframe: today, last_week, last_month, or a date such as 2026-03-02; by default any time.
    """
    memories = Goals.of(world).memories
    hits = _checked(lambda: memories.search(agent.agent_id, query, timeframe or None, _HITS))
    return [
        {
            "session": hit.session.session,
            "summary": hit.session.summary,
            "messages": hit.session.message_count,
            "started": to_seconds(hit.session.started_ns),
            "ended": to_seconds(hit.session.completed_ns),
            "reason": hit.session.reason,
        }
        for hit in hits
    ]


def _require(text: str, what: str) -> str:
    """Return a text without white space around it.

    Raises:
        Refused: if there is none.
    """
    if not text.strip():
        raise Refused(f"{what} required".capitalize())
    return text.strip()


def _checked(call: Callable[[], T]) -> T:
    """Return what a call returns; an argument that is not valid is a refusal, which the model can read.

    Raises:
        Refused: if an argument is not valid.
    """
    try:
        return call()
    except (UsageError, LimitError) as error:
        raise Refused(f"{error}; {error.hint}" if error.hint else str(error)) from error


TOOLS: Final = (send_message, create_task, create_note, search_notes, manage_learning, search_agent_history)
