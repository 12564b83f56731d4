"""What a scenario says of employees: their roles, their procedures, their watchers, and their recurring jobs."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.kernel.calendar import Daily
from sim.kernel.duration import NS
from sim.kinds.sop.channels import is_channel
from sim.world.section import (
    Duration,
    EventFilter,
    Pattern,
    PositiveDuration,
    Range,
    WorkCondition,
    WorkValue,
)

MINUTE_NS: Final = 60 * NS
DAY_NS: Final = 86_400 * NS


def _require_channel(name: str | None) -> None:
    if name is not None and not is_channel(name):
        raise UsageError(f"a channel is a word after #, not {name!r:.60}")


def _require_number(name: str, value: Any) -> None:
    """Refuse a literal priority that is no number, such as an expression without its `=`."""
    literal = getattr(value, "raw", value)
    if getattr(value, "constant", True) and literal is not None and not isinstance(literal, int | float):
        hint = f'put `=` before it: "={literal}"' if isinstance(literal, str) else None
        raise UsageError(
            f"{name} must be a number, or an expression that starts with `=`, not {literal!r:.60}", hint=hint
        )


Design = Literal["cycle", "clock_only", "event_driven", "stateless", "many_actions"]
"""How employees work: in cycles that clock and triggers start; in cycles by the clock alone, one action an interval,
as they were designed first (`docs/seed_rules.md`); or in one of the ways that this design rejected, to compare them."""


@attrs.frozen
class TriggerLimit:
    """How many cycles triggers may start beside the clock. More triggers wait for the clock, or for the period to end.

    Args:
        most: the most cycles of one employee that triggers start within the period.
        per: the period.
    """

    most: Annotated[int, Range(1, 10_000)]
    per: PositiveDuration


@attrs.frozen
class Trigger:
    """An event, or a message to the employee, from which it makes a task: its major action of a cycle.

    Args:
        event: the topics of the events.
        where: which of them count; null: all.
        message: the topic of the messages.

    Raises:
        UsageError: unless either `event` or `message` is given.
    """

    event: Pattern | None = None
    where: EventFilter | None = None
    message: str | None = None

    def __attrs_post_init__(self) -> None:
        if (self.event is None) == (self.message is None):
            raise UsageError("a trigger is an event or a message", hint="give either `event` or `message`")
        if self.message is not None and self.where is not None:
            raise UsageError("`where` is for events", hint="leave it out, or use `event`")


@attrs.frozen
class WaitFor:
    """What a step waits for.

    Args:
        time: the longest time.
        event: the topics of events that end the wait earlier; null: none.
        where: which of them, over `item` (the data of the event), `task`, `data` and `results`.
    """

    time: PositiveDuration
    event: Pattern | None = None
    where: WorkCondition | None = None


@attrs.frozen
class Post:
    """What a step posts to a channel, in the name of the employee.

    Args:
        channel: the channel, such as `#sales`; null: that of the employee.
        text: the text.
    """

    text: WorkValue
    channel: str | None = None

    def __attrs_post_init__(self) -> None:
        _require_channel(self.channel)


@attrs.frozen
class Step:
    """One step of a procedure: an action, a tool, a model call, a post, a wait, or an approval.

    Args:
        name: its name, under which `results` has its result.
        when: whether it is done; null: always. Otherwise it is passed over.
        action: the kind of an action, which the step worker executes with the arguments `args`.
        tool: the name of a tool, which the step worker calls with the arguments `args`.
        args: the arguments of the action or the tool.
        model: the arguments of the action `ask`: `prompt` and others. The memories of the employee are added to its
            `system`.
        post: a text for a channel.
        wait: a wait for some time or an event; its result has `woken_by`: `time` or `event`, and `event`: its data.
        approval: the question to the person who approves; needs `approvals:`. If it is denied, the task is cancelled.
        retries: how often it is tried again after it failed, each time in a later cycle.

    Raises:
        UsageError: unless it is exactly one of these.
    """

    name: str
    when: WorkCondition | None = None
    action: str | None = None
    tool: str | None = None
    args: Mapping[str, WorkValue] = attrs.field(factory=dict)
    model: Mapping[str, WorkValue] | None = None
    post: Post | None = None
    wait: WaitFor | None = None
    approval: WorkValue | None = None
    retries: Annotated[int, Range(0, 100)] = 2

    def __attrs_post_init__(self) -> None:
        if sum(getattr(self, kind) is not None for kind in STEP_KINDS) != 1:
            raise UsageError(f"the step {self.name!r} must be one thing", hint=f"give one of {', '.join(STEP_KINDS)}")
        if self.args and self.action is None and self.tool is None:
            raise UsageError(f"the step {self.name!r} has `args`", hint="they are for an action or a tool")
        if self.model is not None and "prompt" not in self.model:
            raise UsageError(f"the step {self.name!r} asks a model nothing", hint="give `prompt` in `model`")

    @property
    def kind(self) -> str:
        """What it is: one of `STEP_KINDS`."""
        return next(kind for kind in STEP_KINDS if getattr(self, kind) is not None)


STEP_KINDS: Final = ("action", "tool", "model", "post", "wait", "approval")


@attrs.frozen
class Procedure:
    """A standard operating procedure (SOP): how one kind of task is done, step by step.

    Args:
        title: the title of its tasks.
        steps: what is done, in order.
        trigger: what starts it without a watcher; null: nothing does.
        agent: the employee that the trigger is for; null: the only one.
        priority: the priority of its tasks, over `item`; a higher one comes first.
        due: after how long its tasks are overdue.
        stalled_after: the time without a change after which its tasks are stalled, also while they wait; null: a day
            longer than the longest wait of its steps.
        remember: what the employee remembers when a task of it is made; null: its title.
        concluded: what the employee remembers when a task of it is completed; null: nothing.
    """

    title: WorkValue
    steps: tuple[Step, ...]
    trigger: Trigger | None = None
    agent: str | None = None
    priority: WorkValue = 0
    due: Duration | None = None
    stalled_after: Duration | None = None
    remember: WorkValue | None = None
    concluded: WorkValue | None = None

    def __attrs_post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if not names:
            raise UsageError("a procedure has at least one step")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"two steps have the name {twice[0]!r}")
        _require_number("priority", self.priority)

    @property
    def patience(self) -> int:
        """After how many nanoseconds without a change its tasks are stalled."""
        if self.stalled_after is not None:
            return self.stalled_after
        return DAY_NS + max((step.wait.time for step in self.steps if step.wait is not None), default=0)


@attrs.frozen
class Watcher:
    """Looks at one thing, and makes a task of each new finding.

    Args:
        agent: the employee whose tasks they are; it looks in its survey.
        sop: the procedure of the tasks.
        event: findings are events since the last look; their topics.
        pool: the only finding is a pool, with `level` and `queue`.
        artifact: findings are the items of a list or mapping that is the content of an artifact.
        tasks: findings are the `overdue` or `stalled` tasks of the employee.
        where: which findings count, over `item`; null: all.
        key: what makes a finding new, over `item`; null: its number, `id` or key. A finding of a pool is new again
            after the condition did not hold.
        interval: the time between two looks.
        priority: the priority of a task, over `item`; null: that of the procedure.
        active: whether it looks at all.
        alone: whether a `recurring_jobs` agent looks by its own interval, rather than the employee in its survey.

    Raises:
        UsageError: unless it looks at exactly one thing.
    """

    agent: str
    sop: str
    event: Pattern | None = None
    pool: str | None = None
    artifact: str | None = None
    tasks: Literal["overdue", "stalled"] | None = None
    where: WorkCondition | None = None
    key: WorkCondition | None = None
    interval: PositiveDuration = 5 * MINUTE_NS
    priority: WorkValue | None = None
    active: bool = True
    alone: bool = False

    def __attrs_post_init__(self) -> None:
        if sum(getattr(self, source) is not None for source in SOURCES) != 1:
            raise UsageError("a watcher looks at one thing", hint=f"give one of {', '.join(SOURCES)}")
        _require_number("priority", self.priority)


SOURCES: Final = ("event", "pool", "artifact", "tasks")


@attrs.frozen
class SopSettings:
    """Standard operating procedures, and what employees share.

    Args:
        procedures: the procedures by name.
        watchers: the watchers by name.
        design: how employees work: in a `cycle` with one action; or, to compare, `clock_only` (triggers start no
            cycles, so there is one action an interval), `event_driven` (no cycles), `stateless` (no memories) or
            `many_actions` (all that is pending in one cycle).
        triggers: how many cycles triggers may start beside the clock; null: each trigger starts one.
        ops_channel: the channel of heartbeats and statistics.
        alert_channel: the channel of warnings.
    """

    procedures: Mapping[str, Procedure] = attrs.field(factory=dict)
    watchers: Mapping[str, Watcher] = attrs.field(factory=dict)
    design: Design = "cycle"
    triggers: TriggerLimit | None = None
    ops_channel: str = "#ops-log"
    alert_channel: str = "#escalations"

    def __attrs_post_init__(self) -> None:
        _require_channel(self.ops_channel)
        _require_channel(self.alert_channel)
        for name, watcher in self.watchers.items():
            if watcher.sop not in self.procedures:
                raise UsageError(f"the watcher {name!r} makes tasks of {watcher.sop!r}, which is no procedure")


@attrs.frozen
class Observation:
    """A pattern worth noting, which an employee checks in each cycle without a model.

    Args:
        when: the condition, over `stats`.
        text: what is remembered.
        kind: the kind of memory.
        importance: its importance; null: that of its kind.
        every: the time in which it is noted once at most.
        post: whether it is also posted in the channel of the employee.
    """

    when: WorkCondition
    text: WorkValue
    kind: str = "observation"
    importance: Annotated[int, Range(1, 10)] | None = None
    every: PositiveDuration = DAY_NS
    post: bool = True


@attrs.frozen
class Assessment:
    """The optional model call of each cycle, to notice patterns.

    Args:
        system: the system prompt.
        tier: the tier of the model.
        most: the longest answer that is kept as a memory, in characters.
    """

    system: str = "Is there a pattern in this work that is worth noting? Answer with one sentence, or with: nothing."
    tier: str = ""
    most: Annotated[int, Range(1, 2000)] = 500


@attrs.frozen
class EmployeeSettings:
    """The role of an employee.

    Args:
        title: the name that others see, such as `Lead Response Agent`.
        slug: the short name of the role; empty: the name of the agent.
        capabilities: what it can do, for its prompts.
        channel: its channel; empty: `#` and the name of the agent.
        interval: the time from one cycle to the next.
        patterns: what it notes without a model.
        assess: the model call of each cycle; null: none.
        expires: how long the memories of its own actions last.
        importance: the importance of the memory of a new task.
    """

    title: str
    slug: str = ""
    capabilities: tuple[str, ...] = ()
    channel: str = ""
    interval: PositiveDuration = 5 * MINUTE_NS
    patterns: tuple[Observation, ...] = ()
    assess: Assessment | None = None
    expires: PositiveDuration = 30 * DAY_NS
    importance: Annotated[int, Range(1, 10)] = 6

    def __attrs_post_init__(self) -> None:
        _require_channel(self.channel or None)


@attrs.frozen
class WorkerSettings:
    """How a step worker is watched over.

    Args:
        interval: how long it may show no sign of work while steps wait or while it does one; after twice this time
            there is a warning.
    """

    interval: PositiveDuration = 5 * MINUTE_NS


@attrs.frozen
class JobsSettings:
    """The recurring jobs of a company: watchers that look alone, the maintenance of memories, and the daily summary.

    Each of the three is an agent of its own, so that none waits for another.

    Args:
        maintenance: the time of day of the maintenance of memories.
        summary: the time of day of the daily summary.
        summarise: the system prompt of the model that summarises old memories; null: they are not summarised.
        tier: the tier of this model.
    """

    maintenance: str = "02:00"
    summary: str = "18:00"
    summarise: str | None = "Summarize these notes in two or three sentences. Keep names, numbers and decisions."
    tier: str = ""

    def __attrs_post_init__(self) -> None:
        for time in (self.maintenance, self.summary):
            Daily.parse(time)  # raises `UsageError` if it is no time of day
