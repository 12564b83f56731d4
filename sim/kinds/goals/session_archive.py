"""The archive of sessions: a session that has ended leaves the history, and a summary of it stays in the prompt."""

from collections.abc import Sequence
from typing import Final

from sim.agents.conversation.records import Session
from sim.agents.engine.core_loop import cut
from sim.base.errors import LimitError
from sim.kinds.goals.events import FeedSent
from sim.kinds.goals.records import GoalAgent
from sim.kinds.goals.service import Goals
from sim.llm.serialization import message_to_json
from sim.llm.service import Models
from sim.llm.tokens import APPROXIMATE
from sim.llm.types import ChatMessage, ModelError, ModelRequest
from sim.world import World

FEED_COMPLETE: Final = "feed_generation_complete"
"""The reason of sessions that ended because a feed was done."""

AGENT_ENDED: Final = "agent_ended"
"""The reason of the last session of an agent."""

_SYSTEM: Final = (
    "Summarize this conversation in two or three sentences. Keep names, numbers, decisions and open points."
)
_LONGEST: Final = 20_000  # characters of a conversation that the summariser gets
_EXTRACT: Final = 100  # characters of each message in the fallback
_EXTRACTED: Final = 3  # messages of the person in the fallback


async def archive_ended_sessions(world: World, goals: Goals, record: GoalAgent) -> None:
    """Archive the sessions of an agent that have ended since its last run.

    Args:
        world: the world.
        goals: the service.
        record: the agent.
    """
    if not (record.kind.archives and goals.settings.archive):
        return
    ended = goals.conversations.sessions(record.conversation)
    for session in ended[record.archived :]:
        await _archive(world, goals, record, session)


async def archive_last_session(world: World, goals: Goals, record: GoalAgent) -> None:
    """End and archive the session of an agent that has ended.

    Args:
        world: the world.
        goals: the service.
        record: the agent.
    """
    goals.conversations.end_session(record.conversation, AGENT_ENDED)
    await archive_ended_sessions(world, goals, record)


async def close_feed(world: World, goals: Goals, record: GoalAgent) -> None:
    """End and archive the session in which a feed was generated."""
    goals.counts["feeds"] += 1
    goals.report(FeedSent(agent=record.agent_id, user=record.user))
    if record.kind.archives and goals.settings.archive:
        goals.conversations.end_session(record.conversation, FEED_COMPLETE)
        await archive_ended_sessions(world, goals, record)


async def _archive(world: World, goals: Goals, record: GoalAgent, session: Session) -> None:
    """Archive one session. It happens once, whatever ends during the call of the summariser."""
    messages = goals.conversations.session_history(session)
    if not messages:  # errors alone are no session
        record.archived = session.number
        return
    summary = await _summary(world, goals, record, messages) or _extract(goals.conversations.session_words(session))
    if record.archived >= session.number:
        return
    tokens = sum(APPROXIMATE.count(text_of(message)) for message in messages)
    kept, longest = [message_to_json(message) for message in messages], goals.memories.settings.longest
    for part in (kept, []):  # without its messages, if they are too many: the summary and the record have it
        try:
            goals.memories.archive(
                record.agent_id,
                str(session.number),
                part,
                summary[:longest],
                session.reason,
                started_ns=session.started_ns,
                completed_ns=session.ended_ns,
                token_count=tokens,
            )
            break
        except LimitError:
            goals.counts["archived_without_messages"] += 1
    record.archived = session.number
    record.archived_tokens += tokens
    goals.counts["archived"] += 1


async def _summary(world: World, goals: Goals, record: GoalAgent, messages: Sequence[ChatMessage]) -> str | None:
    """Return a summary by the model for `summarize`; None if none answers."""
    lines = [f"{message.role}: {text}" for message in messages if (text := " ".join(text_of(message).split()))]
    question = (ChatMessage("system", _SYSTEM), ChatMessage("user", cut("\n".join(lines), _LONGEST) or "(nothing)"))
    request = ModelRequest(question, use="summarize", immediate=True)
    try:
        answer = await Models.of(world).complete(world.agents[record.agent_id], request)
    except (ModelError, LimitError):
        answer = None
    if answer is not None and (text := answer.completion.text.strip()):
        return text
    goals.counts["summaries_failed"] += 1
    return None


def _extract(words: Sequence[str]) -> str:
    """Return what stands for a summary if no model can make one: the first messages of the person."""
    asked = [" ".join(text.split())[:_EXTRACT] for text in words[:_EXTRACTED]]
    return f"The person wrote: {'; '.join(asked)}" if asked else "The person wrote nothing."


def text_of(message: ChatMessage) -> str:
    """Return all text of a message: what was said, and the tool calls."""
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(part for part in (message.content, *calls) if part)


def count_saved(goals: Goals, record: GoalAgent, calls: int) -> None:
    """Count the tokens that calls would have had in addition, had the archived sessions stayed in the history.

    Args:
        goals: the service.
        record: the agent.
        calls: the number of its calls.
    """
    if record.archived_tokens:
        kept = goals.memories.sessions(record.agent_id, goals.settings.summaries) if goals.settings.summaries else ()
        shown = sum(APPROXIMATE.count(one.summary) for one in kept)
        goals.counts["tokens_saved"] += max(0, record.archived_tokens - shown) * calls
