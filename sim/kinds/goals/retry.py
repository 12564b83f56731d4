"""Delayed retries: what follows when no model answered.

There are two tiers. The client of the models retries at once (two times, 1.5 s, after a rate limit). What still fails
comes here: goals and user agents schedule a retry, tasks are paused, and the health monitor resumes them.
"""

from sim.agents.engine import LoopResult
from sim.kernel.codec import Json
from sim.kernel.duration import NS
from sim.kinds.goals.events import RunRetried
from sim.kinds.goals.records import AgentRun, GoalAgent, Retry
from sim.kinds.goals.service import Goals
from sim.kinds.goals.settings import RetrySettings
from sim.kinds.goals.texts import failed_permanently, recovered_after, retry_in
from sim.llm.types import ModelError
from sim.world import World


def most_retries(settings: RetrySettings, error: str) -> int:
    """Return the most retries for a class of error.

    Args:
        settings: the numbers.
        error: the class, such as `rate_limit`.
    """
    if error in ("rate_limit", "overload", "limit"):
        return settings.rate_limit
    return settings.network if error in ("network", "incomplete") else settings.other


def delay_ns(settings: RetrySettings, attempt: int, draw: float, least: float = 0.0) -> int:
    """Return the delay before a retry, in nanoseconds: the base, doubled for each earlier attempt, and the jitter.

    Args:
        settings: the numbers.
        attempt: the number of the retry, from 1.
        draw: a number in [0, 1).
        least: the seconds that the endpoint asked to wait.
    """
    backoff: int = settings.base << (attempt - 1)
    return max(backoff + round(backoff * settings.jitter * draw), round(least * NS))


def schedule(world: World, goals: Goals, record: GoalAgent, job: AgentRun, result: LoopResult) -> None:
    """Schedule a retry of a run, or give up; the thread says which.

    Args:
        world: the world.
        goals: the service.
        record: the agent.
        job: the run that failed.
        result: what its engine returned.
    """
    error = result.cause.kind if isinstance(result.cause, ModelError) else "limit"
    before, settings = record.retry, goals.settings.retries
    attempt = 1 if before is None else before.attempt + 1
    most = most_retries(settings, error)
    if not result.retryable or attempt > most:
        give_up(goals, record, f"{error}: {result.error}")
        return
    draw = world.draws_now(record.agent_id, "retry").random()
    asked = getattr(result.cause, "retry_after", None) or 0.0
    delay = delay_ns(settings, attempt, draw, asked)
    due = world.kernel.now + delay
    about: dict[str, Json] = {
        "retryable": True,
        "error": error,
        "attempt": attempt,
        "attempts": most,
        "retry_in": delay / NS,
        "retry_at": due / NS,
    }
    message = _write(goals, record, retry_in(error, attempt, most, delay / NS), about)
    record.retry = Retry(attempt, error, due, message, job.context)
    goals.counts["retries"] += 1
    goals.report(RunRetried(agent=record.agent_id, attempt=attempt, due=due / NS, error=error))
    if record.kind.pauses:
        goals.pause(record, f"{error}, retry {attempt} of {most}")


def give_up(goals: Goals, record: GoalAgent, error: str) -> None:
    """Say that a run has failed permanently. A task ends with it."""
    _write(goals, record, failed_permanently(error), {"retryable": False})
    record.retry = None
    goals.counts["failed"] += 1
    if record.kind.finishes:
        goals.end(record, "ended", failed_permanently(error))


def recovered(goals: Goals, record: GoalAgent) -> None:
    """Say in the place of the error that a retry succeeded, if there was one."""
    if record.retry is not None:
        _write(goals, record, recovered_after(record.retry.error, record.retry.attempt), {"retryable": False})
        record.retry = None


def _write(goals: Goals, record: GoalAgent, text: str, about: dict[str, Json]) -> int:
    """Write an error into the thread, or in the place of the one that the thread has; return its number."""
    conversations = goals.conversations
    if record.retry is not None:
        return conversations.revise(record.conversation, record.retry.message, text, about).id
    return conversations.append(record.conversation, "error", record.agent_id, text, about).id
