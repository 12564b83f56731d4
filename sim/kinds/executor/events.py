"""The events of executors."""

from typing import Any

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent, JsonObject


@event_type("execution.added")
class TaskAdded(Published, frozen=True, gc=False, kw_only=True):
    """A task for executors was made.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        constraints: what has to be respected.
        cost_limit: the most money that it may cost.
        creator: who made it.
        criteria: when its goal is reached.
        depends_on: the numbers of the tasks before it.
        execution: the id of the execution.
        goal: what has to be reached.
        helps: the number of the task that it helps; null: none.
        max_steps: the most steps.
        name: the name of the task.
        parent: the number of the task of which it is a part; null: none.
        project: the project.
        task: the number of the task.
        timeout: the most time, in simulated seconds.
        type: the type of its executors.
    """

    agent: str
    constraints: JsonObject
    cost_limit: float
    creator: str
    criteria: list[str]
    depends_on: list[int]
    execution: str
    goal: str
    helps: int | None
    max_steps: int
    name: str
    parent: int | None
    project: str
    task: int
    timeout: float
    type: str


@event_type("execution.started")
class ExecutionStarted(Published, frozen=True, gc=False, kw_only=True):
    """An executor has begun with a task.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        execution: the id of the execution.
        name: the name of the task.
        project: the project.
        protected: the files and folders that it cannot change.
        task: the number of the task.
    """

    agent: str
    execution: str
    name: str
    project: str
    protected: list[str]
    task: int


@event_type("execution.returned")
class ExecutionReturned(Published, frozen=True, gc=False, kw_only=True):
    """An executor that stops gives a task back.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        by: the executor that stops.
        execution: the id of the execution.
        name: the name of the task.
        project: the project.
        task: the number of the task.
    """

    agent: str
    by: str
    execution: str
    name: str
    project: str
    task: int


@event_type("execution.step")
class StepDone(Published, frozen=True, gc=False, kw_only=True):
    """A step of a task is complete. If it is too large for an event, the largest fields are left out.

    Attributes:
        acceptance_progress: how far the goal is reached, from 0 to 1.
        agent: the executor that works on the task; empty: none does.
        attempt_number: the number of the last attempt.
        attempts: all attempts.
        cost_usd: the cost of its model calls, in units of money.
        duration_ms: how long it took, in simulated milliseconds.
        error_if_failed: what went wrong; null: nothing.
        execution: the id of the execution.
        execution_result: how the action ended.
        left_out: the fields that are left out, if any.
        llm_calls: its model calls: `use`, `tokens`, `cost_micro`.
        name: the name of the task.
        new_result: whether no step of the task before had this finding.
        planned_action: the action of the last attempt.
        project: the project.
        reasoning: why the model planned it.
        refused_plans: the plans that were refused, because they had been tried.
        step_number: its number, from 1.
        success: whether the action succeeded and made nothing worse.
        task: the number of the task.
        timestamp: when it began, in simulated seconds.
        tokens_used: the tokens of its model calls.
        validation: what it has changed.
    """

    acceptance_progress: float | Absent = ABSENT
    agent: str
    attempt_number: int | Absent = ABSENT
    attempts: list[Any] | Absent = ABSENT
    cost_usd: float | Absent = ABSENT
    duration_ms: int | Absent = ABSENT
    error_if_failed: str | Absent | None = ABSENT
    execution: str
    execution_result: JsonObject | Absent = ABSENT
    left_out: list[str] | Absent = ABSENT
    llm_calls: list[Any] | Absent = ABSENT
    name: str
    new_result: bool | Absent = ABSENT
    planned_action: JsonObject | Absent = ABSENT
    project: str
    reasoning: str | Absent = ABSENT
    refused_plans: list[Any] | Absent = ABSENT
    step_number: int | Absent = ABSENT
    success: bool | Absent = ABSENT
    task: int
    timestamp: float | Absent = ABSENT
    tokens_used: int | Absent = ABSENT
    validation: JsonObject | Absent = ABSENT


@event_type("execution.denied")
class ExecutionDenied(Published, frozen=True, gc=False, kw_only=True):
    """An executor may not use a tool that it has planned to use.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        error: why.
        execution: the id of the execution.
        help: the task of a specialist who is asked, if one is.
        name: the name of the task.
        project: the project.
        task: the number of the task.
        then: what comes then: `alternative`, `help` or `gate`.
        tool: the tool.
    """

    agent: str
    error: str
    execution: str
    help: Any = ABSENT
    name: str
    project: str
    task: int
    then: str
    tool: str


@event_type("execution.confidence")
class ConfidenceChecked(Published, frozen=True, gc=False, kw_only=True):
    """A model was asked how likely it is that a task succeeds.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        execution: the id of the execution.
        name: the name of the task.
        project: the project.
        readable: whether its answer had a number.
        said: its answer.
        score: the number, from 0 to 1; 0 without one.
        step: the number of steps until then.
        task: the number of the task.
        why: why it was asked: `interval`, `uncertain`, `requested` or `stalled`.
    """

    agent: str
    execution: str
    name: str
    project: str
    readable: bool
    said: str
    score: float
    step: int
    task: int
    why: list[str]


@event_type("execution.escalated")
class ExecutionEscalated(Published, frozen=True, gc=False, kw_only=True):
    """A person has to decide whether a task continues.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        execution: the id of the execution.
        gate: the gate; null: no person can be asked.
        name: the name of the task.
        project: the project.
        reason: why.
        task: the number of the task.
    """

    agent: str
    execution: str
    gate: str | None
    name: str
    project: str
    reason: str
    task: int


@event_type("execution.approved")
class ExecutionApproved(Published, frozen=True, gc=False, kw_only=True):
    """A person lets a task continue.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        by: the person.
        execution: the id of the execution.
        gate: the gate.
        name: the name of the task.
        note: the note of the person.
        project: the project.
        task: the number of the task.
    """

    agent: str
    by: str
    execution: str
    gate: str
    name: str
    note: str
    project: str
    task: int


@event_type("execution.retry")
class ExecutionRetried(Published, frozen=True, gc=False, kw_only=True):
    """A model call of a task has failed, and is made once more.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        attempt: the number of the attempt that failed.
        delay: the time until the next one, in simulated seconds.
        error: why it failed.
        execution: the id of the execution.
        name: the name of the task.
        project: the project.
        task: the number of the task.
        use: what the call is for.
    """

    agent: str
    attempt: int
    delay: float
    error: str
    execution: str
    name: str
    project: str
    task: int
    use: str


@event_type("execution.resumed")
class ExecutionResumed(Published, frozen=True, gc=False, kw_only=True):
    """A task that waited for help continues.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        execution: the id of the execution.
        help: the name of the task of help.
        name: the name of the task.
        project: the project.
        status: the status with which that task ended.
        task: the number of the task.
    """

    agent: str
    execution: str
    help: str
    name: str
    project: str
    status: str | None
    task: int


@event_type("execution.ended")
class ExecutionEnded(Published, frozen=True, gc=False, kw_only=True):
    """A task has ended.

    Attributes:
        agent: the executor that works on the task; empty: none does.
        cost: what it cost, in units of money.
        ending: why it ended.
        escalation_reason: why a person had to decide, if one had to and has not let it continue.
        execution: the id of the execution.
        name: the name of the task.
        project: the project.
        reason: why it ended, in words.
        snapshot: its state, without what the steps have.
        status: its final status.
        steps: the number of its steps.
        task: the number of the task.
        tests_judged: how many tests judged it, if it succeeded.
        tokens: the tokens of its model calls.
    """

    agent: str
    cost: float
    ending: str
    escalation_reason: str | None
    execution: str
    name: str
    project: str
    reason: str
    snapshot: JsonObject
    status: str
    steps: int
    task: int
    tests_judged: int
    tokens: int


@event_type("execution.file")
class FileChanged(Published, frozen=True, gc=False, kw_only=True):
    """A file of a project was written or deleted.

    Attributes:
        by: who did it.
        file: its name.
        project: the project.
        task: the number of the task for which it was done; null: none.
        text: its text; null: it was deleted.
        version: the number of its version; null: it was deleted.
    """

    by: str
    file: str
    project: str
    task: int | None
    text: str | None
    version: int | None
