"""What a scenario says of goals, tasks and user agents. The defaults are from the rules in `docs/seed_rules.md`."""

from typing import Annotated, Final

import attrs

from sim.agents.engine import LoopLimits
from sim.kernel.calendar import Daily
from sim.kernel.duration import NS
from sim.world.section import PositiveDuration, Range

MINUTE_NS: Final = 60 * NS
HOUR_NS: Final = 3600 * NS
DAY_NS: Final = 24 * HOUR_NS

Retries = Annotated[int, Range(0, 100)]


@attrs.frozen
class RetrySettings:
    """Delayed retries of a run that no model answered. Immediate retries are those of the model client.

    Args:
        rate_limit: the most retries after a rate limit.
        network: the most retries after a network error.
        other: the most retries after any other error that may pass.
        base: the first delay; each further one is twice as long.
        jitter: the share of a delay that is added at random, at most.
    """

    rate_limit: Retries = 5
    network: Retries = 3
    other: Retries = 2
    base: PositiveDuration = 10 * NS
    jitter: Annotated[float, Range(0, 1)] = 0.1


@attrs.frozen
class HealthSettings:
    """The thresholds of the health monitor.

    Args:
        every: the time between two checks.
        stuck: a run that takes longer is cancelled.
        stale_task: an active task without any change for longer is marked as completed.
        stale_goal: a working goal without any change for longer is marked as waiting.
        expire: a task that is paused for longer is cancelled.
        clean_up: a task that ended longer ago is deleted.
    """

    every: PositiveDuration = 5 * MINUTE_NS
    stuck: PositiveDuration = 30 * MINUTE_NS
    stale_task: PositiveDuration = 2 * HOUR_NS
    stale_goal: PositiveDuration = 6 * HOUR_NS
    expire: PositiveDuration = 24 * HOUR_NS
    clean_up: PositiveDuration = 15 * DAY_NS


@attrs.frozen
class GoalsSettings:
    """Goals, tasks and user agents: limits, retries, sessions, check-ins, feed.

    Args:
        limits: the limits of one run.
        task_history: the most messages in the history of a task.
        retries: delayed retries.
        health: the thresholds of the health monitor.
        archive: whether sessions are archived when they end; if not, the history of an agent grows.
        summaries: how many summaries of past sessions are in a prompt.
        notes: how many notes are in a prompt, the newest.
        stop_after_message: whether a conversational agent stops after `send_message`; if not, its model is asked once
            more, and ends with an answer without tool calls.
        check_in: the time after its last run when a goal looks by itself; null: never.
        feed: the time of day when the user agents generate their feeds; null: never.
        open_tasks: the most tasks of one agent that have not ended.
        tasks_per_day: the most tasks that one agent makes in 24 hours, so that an agent and its tasks cannot keep each
            other busy for ever.
        goals_per_user: the most goals of one user that are not archived.
    """

    limits: LoopLimits = attrs.field(factory=LoopLimits)
    task_history: Annotated[int, Range(4, 10_000)] = 20
    retries: RetrySettings = attrs.field(factory=RetrySettings)
    health: HealthSettings = attrs.field(factory=HealthSettings)
    archive: bool = True
    summaries: Annotated[int, Range(0, 100)] = 5
    notes: Annotated[int, Range(0, 100)] = 20
    stop_after_message: bool = True
    check_in: PositiveDuration | None = None
    feed: str | None = None
    open_tasks: Annotated[int, Range(1, 1000)] = 10
    tasks_per_day: Annotated[int, Range(1, 100_000)] = 100
    goals_per_user: Annotated[int, Range(1, 10_000)] = 100

    def __attrs_post_init__(self) -> None:
        if self.feed is not None:
            Daily.parse(self.feed)  # raises `UsageError` if it is no time of day


@attrs.frozen
class AgentSettings:
    """One agent, or a template for agents that are made during the run.

    Args:
        user: the person for whom it works, as the name of an account; empty for a template.
        title: what it is about.
        description: what the person wants.
        instructions: further instructions for its prompts.
        tools: the names of the tools of the scenario, the world and MCP servers that it can use.
        use: the use case of its model calls, as in `models.uses`.
    """

    user: str = ""
    title: str = ""
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] = ()
    use: str = "agent"
