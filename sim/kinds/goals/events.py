"""The events of goals."""

from typing import Any

from sim.events.event_type import Published, event_type
from sim.record.views import VIEWS, view_of


@event_type("goals.created")
class GoalCreated(Published, frozen=True, gc=False, kw_only=True):
    """A goal, task or user agent was made.

    Attributes:
        agent: the agent.
        conversation: the conversation that is its thread.
        kind: its kind.
        parent: the agent that made it; null: a person did.
        status: its status; null: none.
        task: its task; null: none.
        title: its title.
        user: the user for whom it works.
    """

    agent: str
    conversation: str
    kind: str
    parent: str | None
    status: str | None
    task: int | None
    title: str
    user: str


@event_type("goals.status")
class GoalStatusChanged(Published, frozen=True, gc=False, kw_only=True):
    """The status of an agent has changed.

    Attributes:
        agent: the agent.
        before: its status until now; null: none.
        status: its status from now on; null: none.
    """

    agent: str
    before: str | None
    status: str | None


@event_type("goals.tools")
class ToolsEnabled(Published, frozen=True, gc=False, kw_only=True):
    """Other tools of an agent are enabled.

    Attributes:
        agent: the agent.
        tools: the tools.
    """

    agent: str
    tools: list[str]


@event_type("goals.run_started")
class RunStarted(Published, frozen=True, gc=False, kw_only=True):
    """An agent has begun a run.

    Attributes:
        agent: the agent.
        context: what the run is about.
        job: the name of the run.
        reason: why it runs.
        seen: the number of the latest message that it knows.
        tools: the tools that the model can call.
    """

    agent: str
    context: Any
    job: str
    reason: str
    seen: int
    tools: list[str]


@event_type("goals.run_ended")
class RunEnded(Published, frozen=True, gc=False, kw_only=True):
    """A run of an agent has ended.

    Attributes:
        agent: the agent.
        calls: the number of model calls, without those for summaries.
        cost_micro: their cost and that of summaries, in millionths of the unit of money.
        ending: why it ended.
        iterations: the number of model calls with an answer that could be used.
        job: the name of the run.
        reason: why the agent ran.
        tokens: the tokens of the model calls.
        tools: the number of tool calls.
        user: the user for whom the agent works.
    """

    agent: str
    calls: int
    cost_micro: int
    ending: str
    iterations: int
    job: str
    reason: str
    tokens: int
    tools: int
    user: str


@event_type("goals.reply")
class GoalReplied(Published, frozen=True, gc=False, kw_only=True):
    """An agent has written to a person.

    Attributes:
        agent: the agent.
        seconds: the time since the person asked, in simulated seconds; null: the person has not asked.
        user: the user.
    """

    agent: str
    seconds: float | None
    user: str


@event_type("goals.feed")
class FeedSent(Published, frozen=True, gc=False, kw_only=True):
    """An agent begins to write an overview for a person.

    Attributes:
        agent: the agent.
        user: the user.
    """

    agent: str
    user: str


@event_type("goals.retry")
class RunRetried(Published, frozen=True, gc=False, kw_only=True):
    """A run of an agent has failed, and is tried once more.

    Attributes:
        agent: the agent.
        attempt: the number of the attempt that failed.
        due: when it is tried once more, in simulated seconds.
        error: why it failed.
    """

    agent: str
    attempt: int
    due: float
    error: str


@event_type("goals.health")
class HealthChecked(Published, frozen=True, gc=False, kw_only=True):
    """A health monitor has found something about an agent.

    Attributes:
        agent: the agent.
        found: what: `stale_task`, `stale_goal`, `expired`, `resumed`, `stuck` or `removed`.
    """

    agent: str
    found: str


VIEWS["goal_runs"] = view_of(
    RunEnded,
    "One row a run of such an agent that has ended.",
    {
        "agent": "$agent",
        "user": "$user",
        "job": "$job",
        "reason": "$reason",
        "ending": "$ending",
        "iterations": "$iterations",
        "calls": "$calls",
        "tools": "$tools",
        "tokens": "$tokens",
        "cost": "($cost_micro) / 1e6",
    },
)
