"""The orchestrator: one run of an agent is one action, `orchestrate`.

A run takes in what is pending, builds the context (messages, notes, learnings, summaries), and lets the engine work:
model → tools → results → model. What the model says between tools is in its history only; the person sees messages that
it sends, and that it uses tools.
"""

import attrs

from sim.agents.engine import FINISHED, CoreLoop, LoopLimits, LoopResult
from sim.base.errors import Cancelled, Interrupt
from sim.base.permissions import Permission
from sim.kernel.codec import JsonObject
from sim.kinds.goals import retry, session_archive
from sim.kinds.goals.events import RunEnded, RunStarted
from sim.kinds.goals.kinds import SEARCH_HISTORY, SEND_MESSAGE
from sim.kinds.goals.prompts import system_prompt
from sim.kinds.goals.records import AgentRun, GoalAgent, Reason
from sim.kinds.goals.service import ORCHESTRATOR, Goals
from sim.kinds.goals.texts import context_message, stopped, stuck_for
from sim.llm.types import ChatMessage, ModelRequest
from sim.tools import Tool, Tools
from sim.world import Inhabitant, World
from sim.world.action import action


@attrs.frozen
class StuckRun:
    """The cause of the interrupt with which the health monitor cancels a run."""

    job: str


@attrs.frozen
class Ran:
    """What a run did.

    Attributes:
        job: the name of the run.
        reason: why the agent ran.
        ending: why it ended: an ending of the engine, `stuck`, or `cancelled`, because the agent was stopped.
        iterations: the number of model calls with an answer that could be used.
        tools: the number of tool calls.
        calls: the number of all model calls, without those for summaries.
        tokens: their tokens.
        cost_micro: their cost and that of summaries, in micro-units.
    """

    job: str
    reason: Reason
    ending: str
    iterations: int = 0
    tools: int = 0
    calls: int = 0
    tokens: int = 0
    cost_micro: int = 0


async def _orchestrate(world: World, agent: Inhabitant, reason: Reason) -> Ran:
    """Do one run. This is the whole of it, in order."""
    goals = Goals.of(world)
    record = goals.get(agent.agent_id)
    _begin_with(goals, record, reason)
    job = goals.claim_execution_lock(record, reason)
    before = (record.calls, record.tokens, record.cost_micro)
    try:
        await session_archive.archive_ended_sessions(world, goals, record)
        result = await _run(world, agent, goals, record, job)
        ran = _conclude(world, goals, record, job, result)
        if job.context.get("type") == "feed_generation" and result.ending in FINISHED:
            await session_archive.close_feed(world, goals, record)
    except Interrupt as interrupt:
        if not isinstance(interrupt.cause, StuckRun):
            raise
        ran = _stuck(goals, record, job)
    except Cancelled:  # the agent was stopped: what is pending stays pending
        _report(goals, record, Ran(job.id, reason, "cancelled"), before)
        raise
    finally:
        goals.release_execution_lock(record)
    return _report(goals, record, ran, before)


def _report(goals: Goals, record: GoalAgent, ran: Ran, before: tuple[int, int, int]) -> Ran:
    """Publish what a run did, with all that its calls cost, also if it was cancelled."""
    calls, tokens, cost = record.calls - before[0], record.tokens - before[1], record.cost_micro - before[2]
    ran = attrs.evolve(ran, calls=calls, tokens=tokens, cost_micro=cost)
    goals.measure(tokens, calls)
    goals.report(RunEnded(agent=record.agent_id, user=record.user, **attrs.asdict(ran)))
    return ran


@action("orchestrate", permission=Permission.GUEST, wait=_orchestrate, ends=True, everywhere=False, draws=True)
def orchestrate(world: World, agent: Inhabitant, ran: Ran, reason: str) -> JsonObject:
    """Do one run of a goal, task or user agent: build the context, and let its model work.

    Args:
        reason: why it runs: message, start, child_ended, retry, agent_check_in or feed_generation.
    """
    return attrs.asdict(ran)


def _begin_with(goals: Goals, record: GoalAgent, reason: Reason) -> None:
    """Write the message with which a check-in or a feed begins; other runs begin with what is pending."""
    text = context_message(reason)
    if text is not None and record.job is None:
        goals.conversations.append(record.conversation, "user", ORCHESTRATOR, text, audience="model")


async def _run(world: World, agent: Inhabitant, goals: Goals, record: GoalAgent, job: AgentRun) -> LoopResult:
    """Build the context and run the engine on it."""
    conversations, settings = goals.conversations, goals.settings
    tools = offered_tools(world, agent, goals, record)
    names = [tool.name for tool in tools]
    goals.report(
        RunStarted(
            agent=record.agent_id, context=job.context, job=job.id, reason=job.reason, seen=job.seen, tools=names
        )
    )
    goals.counts["runs"] += 1
    system = system_prompt(world, goals, record, names)
    stops = record.kind.conversational and settings.stop_after_message
    loop = CoreLoop(
        world,
        agent,
        tools,
        limits=_limits(goals, record),
        stop_tools=frozenset([SEND_MESSAGE] if stops else []),
        request=ModelRequest((), use=record.use, immediate=True),
        behalf=(record.user_id,),
        note=conversations.note(record.conversation, record.agent_id, audience="model", quiet=(SEND_MESSAGE,)),
    )
    session = record.kind.archives and settings.archive
    history = conversations.history(record.conversation, session=session, whole=True)
    result = await loop.run([ChatMessage("system", system), *history])
    session_archive.count_saved(goals, record, result.iterations)
    return result


def offered_tools(world: World, agent: Inhabitant, goals: Goals, record: GoalAgent) -> list[Tool]:
    """Return the tools of an agent: its system tools, and those that are enabled for it.

    `search_agent_history` is offered only when there is history.
    """
    system = [name for name in record.kind.tools if name != SEARCH_HISTORY or goals.memories.sessions(record.agent_id)]
    return Tools.of(world).offered(agent, [*system, *record.tools], (record.user_id,))


def _limits(goals: Goals, record: GoalAgent) -> LoopLimits:
    limits = goals.settings.limits
    return attrs.evolve(limits, history=goals.settings.task_history) if record.kind.finishes else limits


def _conclude(world: World, goals: Goals, record: GoalAgent, job: AgentRun, result: LoopResult) -> Ran:
    """Decide what follows from a run: a retry, the end of a task, or that the agent waits."""
    ended = record.ended  # by its person, during the run
    goals.take_in(record, job)
    record.stuck = 0
    if result.cause is not None and not ended:
        retry.schedule(world, goals, record, job, result)
    elif not ended:
        retry.recovered(goals, record)
        if result.ending not in FINISHED:
            said = stopped(result.ending, result.error)
            goals.conversations.append(record.conversation, "error", record.agent_id, said, {"retryable": False})
        if record.kind.finishes and result.ending not in FINISHED:
            goals.end(record, "ended", stopped(result.ending, result.error))  # a limit ended it, so it is not completed
        elif record.kind.finishes and not record.pending and not record.children:
            goals.end(record, "finished", result.text or "done")
    return Ran(job.id, job.reason, result.ending, result.iterations, result.tools)


def _stuck(goals: Goals, record: GoalAgent, job: AgentRun) -> Ran:
    """Give up a run that the health monitor has cancelled. What it should have answered, the next run answers.

    After as many runs in a row as other errors are retried, it is left: something hangs each time.
    """
    record.stuck += 1
    again = bool(record.pending) and record.stuck <= goals.settings.retries.other
    if not again:
        goals.take_in(record, job)
    minutes = goals.settings.health.stuck / 60e9
    goals.end_countdown(record, "the run was stuck")
    text = stuck_for(minutes, again=again)
    goals.conversations.append(record.conversation, "error", record.agent_id, text, {"retryable": again})
    return Ran(job.id, job.reason, "stuck")


async def _archive_last(world: World, agent: Inhabitant) -> int:
    goals = Goals.of(world)
    record = goals.get(agent.agent_id)
    await session_archive.archive_last_session(world, goals, record)
    return record.archived


@action(
    "archive_last_session", permission=Permission.GUEST, wait=_archive_last, ends=True, everywhere=False, draws=False
)
def archive_last_session(world: World, agent: Inhabitant, session: int) -> int:
    """Archive the last session of an agent that has ended; return its number."""
    return session
