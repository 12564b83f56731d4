"""What is known of each goal, task and user agent."""

from typing import Literal

import attrs

from sim.kernel.codec import Json, JsonObject
from sim.kinds.goals.kinds import AgentKind, Stage

Reason = Literal["message", "start", "child_ended", "retry", "agent_check_in", "feed_generation"]
"""Why an agent runs. The last two are contexts of the feed: they choose the message to the model."""


@attrs.frozen
class Retry:
    """A retry that is due later.

    Args:
        attempt: its number, from 1.
        error: the class of the error.
        due_ns: when, in simulated nanoseconds.
        message: the number of the error in the thread.
        context: the context of the run that failed, which the retry has too.
    """

    attempt: int
    error: str
    due_ns: int
    message: int
    context: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class AgentRun:
    """A run that is under way: the execution lock of an agent.

    Args:
        id: the name of the agent and the number of the run.
        started_ns: when it began, in simulated nanoseconds.
        reason: why.
        seen: the number of the last message of the thread that it knows.
        context: the context of the run; `type` chooses the message to the model, and becomes `origin_type` of tasks.
    """

    id: str
    started_ns: int
    reason: Reason
    seen: int = 0
    context: JsonObject = attrs.field(factory=dict)


@attrs.define
class GoalAgent:
    """One agent.

    Attributes:
        agent_id: its name.
        kind: what it can do.
        user: the account of the person for whom it works.
        user_id: the id of this user.
        conversation: its conversation: the thread, and the history for its model.
        title, description, instructions: what it is for.
        available: the names of the tools that can be enabled.
        tools: those of them that are enabled.
        use: the use case of its model calls.
        parent: the agent that made it; None: a person.
        goal: the agent to which its notes belong.
        task: the number of its task on the board; None: it has none.
        context: the data that its parent gave it.
        stage: where it stands.
        updated_ns: its last change, in simulated nanoseconds.
        pending: for each message that no run has taken in yet: its number and why it was written, by time.
        asked_ns: when the oldest message of the person was written that has no reply yet; None: there is none.
        job: the run under way.
        jobs: the number of runs so far.
        retry: the retry that is due later.
        check_in_ns, feed_ns: when the next check-in and the next feed are due; None: never.
        children: its tasks that have not ended.
        day, made: the number of a day of the run, and the number of tasks that it made on this day.
        archived: the number of sessions that were archived.
        archived_tokens: about how many tokens their messages have.
        calls, tokens: the calls of its model in runs, and their tokens.
        cost_micro: the cost of these and of the summaries of its sessions, in micro-units.
        stuck: how many of its latest runs in a row were cancelled as stuck.
    """

    agent_id: str
    kind: AgentKind
    user: str
    user_id: str
    conversation: str
    title: str
    description: str
    instructions: str
    available: tuple[str, ...]
    tools: tuple[str, ...]
    use: str
    parent: str | None
    goal: str
    task: int | None
    context: JsonObject
    stage: Stage
    updated_ns: int
    pending: list[tuple[int, Reason]] = attrs.field(factory=list)
    asked_ns: int | None = None
    job: AgentRun | None = None
    jobs: int = 0
    retry: Retry | None = None
    check_in_ns: int | None = None
    feed_ns: int | None = None
    children: dict[str, None] = attrs.field(factory=dict)
    day: int = 0
    made: int = 0
    archived: int = 0
    archived_tokens: int = 0
    calls: int = 0
    tokens: int = 0
    cost_micro: int = 0
    stuck: int = 0

    @property
    def status(self) -> str | None:
        """The word of its kind for its stage; None if it has none, as user agents."""
        return self.kind.statuses.get(self.stage)

    @property
    def ended(self) -> bool:
        """Whether it has reached an end."""
        return self.stage in ("finished", "ended")

    @property
    def runtime_state(self) -> dict[str, Json]:
        """The execution lock, with the names of its parts that `sim show RUN runtime` prints."""
        job = self.job
        return {
            "orchestrator_running": job is not None,
            "orchestrator_started_ns": None if job is None else job.started_ns,
            "orchestrator_job_id": None if job is None else job.id,
        }
