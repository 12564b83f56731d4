"""The actions on the memories of the agent that acts. It cannot see or change those of another."""

from typing import TYPE_CHECKING, Annotated

from sim.base.permissions import Permission
from sim.kernel.codec import Json
from sim.kernel.duration import to_ns, to_seconds
from sim.memory.past_sessions import SessionHit
from sim.memory.service import Hit, Memories
from sim.world.action import Means, Time, action

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

_Number = Annotated[int | None, Means("whole number")]


@action("remember", everywhere=False, draws=False)
def remember(
    world: "World",
    agent: "Inhabitant",
    content: str,
    kind: str | None = None,
    importance: _Number = None,
    task: _Number = None,
    expires: Time = None,
) -> dict[str, Json]:
    """Add a memory.

    Args:
        content: the text.
        kind: the kind of memory, such as `observation`.
        importance: how important it is, from 1 to 10; by default that of its kind.
        task: the number of the task that it belongs to.
        expires: after how long it is no longer found.
    """
    expires_ns = None if expires is None else world.kernel.now + to_ns(expires)
    memory = Memories.of(world).add(
        agent.agent_id, content, kind=kind, importance=importance, related_task_id=task, expires_ns=expires_ns
    )
    return {"memory": memory.id}


@action("recall", permission=Permission.GUEST, everywhere=False, draws=False)
def recall(
    world: "World",
    agent: "Inhabitant",
    query: str,
    kind: str | None = None,
    task: _Number = None,
    within: Time = None,
    limit: _Number = None,
) -> list[dict[str, Json]]:
    """Find memories by their words, the best first.

    Args:
        query: the words; a memory needs one of them. Without words, the newest memories are found.
        kind: only memories of this kind.
        task: only memories of this task, by its number.
        within: only memories of the last so much time.
        limit: the most results.
    """
    since_ns = None if within is None else world.kernel.now - to_ns(within)
    hits = Memories.of(world).recall(agent.agent_id, query, limit=limit, kind=kind, task=task, since_ns=since_ns)
    return [_row(hit) for hit in hits]


def _row(hit: Hit) -> dict[str, Json]:
    memory = hit.memory
    return {
        "memory": memory.id,
        "content": memory.content,
        "kind": memory.kind,
        "importance": memory.importance,
        "source": memory.source,
        "task": memory.related_task_id,
        "time": to_seconds(memory.created_ns),
    }


@action("forget", everywhere=False, draws=False)
def forget(world: "World", agent: "Inhabitant", memory: int) -> None:
    """Delete a memory.

    Args:
        memory: its number.
    """
    Memories.of(world).forget(agent.agent_id, memory)


@action("search_sessions", permission=Permission.GUEST, everywhere=False, draws=False)
def search_sessions(
    world: "World", agent: "Inhabitant", query: str, time_frame: str | None = None, limit: _Number = None
) -> list[dict[str, Json]]:
    """Find past conversations by words in their summaries and messages, the best first.

    Args:
        query: the words; a conversation needs one of them. Without words, the newest ones are found.
        time_frame: when it ended, as `today`, `last_week`, `last_month` or a date; by default at any time.
        limit: the most results.
    """
    return [_session(hit) for hit in Memories.of(world).search(agent.agent_id, query, time_frame, limit)]


def _session(hit: SessionHit) -> dict[str, Json]:
    session = hit.session
    return {
        "session": session.session,
        "summary": session.summary,
        "messages": session.message_count,
        "reason": session.reason,
        "started": to_seconds(session.started_ns),
        "completed": to_seconds(session.completed_ns),
    }


ACTIONS = (remember, recall, forget, search_sessions)
