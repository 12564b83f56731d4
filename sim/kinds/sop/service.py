"""The service of employees: their cycles, procedures, step queue, watchers and heartbeats.

Employees and step workers keep nothing themselves, so a new agent object before each cycle changes nothing.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import attrs

from sim.actors import Agent
from sim.base.errors import LimitError, UsageError
from sim.base.expressions import ExpressionError
from sim.events import Event, Subscription
from sim.kernel import Source, Timer, to_seconds
from sim.kernel.codec import JsonObject, Raw, decode, freeze
from sim.kinds.sop.channels import Channels
from sim.kinds.sop.events import (
    StepDone,
    StepFailed,
    StepQueued,
    StepSkipped,
    TaskReady,
    TriggerFired,
    WatcherLooked,
    WatcherSet,
)
from sim.kinds.sop.faults import DeadLetter, Faults
from sim.kinds.sop.heartbeats import Heartbeat
from sim.kinds.sop.settings import DAY_NS, EmployeeSettings, Procedure, SopSettings, Step, Trigger
from sim.kinds.sop.texts import alert
from sim.kinds.sop.values import Evaluator
from sim.kinds.sop.watchers import Look, Unfit, WatcherState, is_overdue, is_stalled
from sim.memory.service import Memories
from sim.tools.approvals import Approvals
from sim.world import Message, Refused, Service, Warned, World
from sim.world.tasks import Task

KIND: Final = "sop"
"""The kind of the tasks that are made from procedures."""

WORDS: Final = {
    "pending": "pending", "in_progress": "active", "waiting": "waiting", "paused": "paused", "completed": "done",
    "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip
"""The words of the seed for the statuses of tasks."""

MOST_TRIGGERS: Final = 10_000
"""How many triggers wait for one employee at most. Of more, the oldest are lost, and counted."""

LONGEST_TITLE: Final = 500
"""The most characters of the title of a task, which is one line whatever people write."""

_EMPTY: Final = Raw(b"{}")

Stage = Literal["ready", "queued", "running", "waiting"]
"""Where the next step of a task stands: its employee has to queue it; a worker has to take it; a worker does it; or it
waits for time, an event or a person."""


@attrs.frozen
class FoundItem:
    """Something that becomes a task by a major action.

    Args:
        procedure: the name of the procedure.
        item: what was found, as canonical JSON.
        time_ns: when, in simulated nanoseconds.
    """

    procedure: str
    item: Raw
    time_ns: int


@attrs.frozen
class TaskDraft:
    """A task that is about to be made.

    Args:
        procedure: the name of its procedure.
        title: its title.
        priority: its priority.
        item: its data, as canonical JSON.
        creator: the employee or the watcher that makes it.
    """

    procedure: str
    title: str
    priority: int
    item: Raw
    creator: str


@attrs.frozen
class TaskProgress:
    """How far a task is.

    Args:
        procedure: the name of its procedure.
        step: zero-based index of the next step.
        stage: where this step stands.
        attempts: how often it failed.
        results: the results of the steps so far, as canonical JSON.
    """

    procedure: str
    step: int = 0
    stage: Stage = "ready"
    attempts: int = 0
    results: Raw = _EMPTY


@attrs.define
class Desk:
    """What the service knows of one employee.

    Attributes:
        agent: the employee.
        settings: its role.
        next_ns: when its next cycle is due, in simulated nanoseconds.
        heartbeat: when it showed signs of work, and when the next one is due.
        cycles: the number of its cycles.
        noted: when each of its patterns was noted last, by index.
        triggers: what waits to become a task.
        hurried: when triggers started its latest cycles, in simulated nanoseconds; as many as may within the period of
            `sop.triggers`.
        lost: the number of triggers that were lost because too many waited, or no task could be made of them.
        unsaid: how many of them are lost since the last warning.
        concluded: the completed tasks that it has not reported yet.
        answered: for each task that it has begun: when it began, and how many nanoseconds after it was made.
    """

    agent: Agent
    settings: EmployeeSettings
    next_ns: int
    heartbeat: Heartbeat
    cycles: int = 0
    noted: dict[int, int] = attrs.field(factory=dict)
    triggers: deque[FoundItem] = attrs.field(factory=deque)
    hurried: deque[int] = attrs.field(factory=deque)
    lost: int = 0
    unsaid: int = 0
    concluded: list[int] = attrs.field(factory=list)
    answered: deque[tuple[int, int]] = attrs.field(factory=lambda: deque(maxlen=10_000))

    @property
    def channel(self) -> str:
        """Its channel."""
        return self.settings.channel or f"#{self.agent.agent_id}"


class Sops(Service):
    """The employees of one world and their work.

    Args:
        world: the world.
        settings: the procedures, the watchers and the design.
    """

    name: ClassVar[str] = "sop"

    def __init__(self, world: World, settings: SopSettings) -> None:
        self.settings = settings
        self.desks: dict[str, Desk] = {}
        self.watchers = {name: WatcherState(name, watcher) for name, watcher in settings.watchers.items()}
        self.progress: dict[int, TaskProgress] = {}
        self.queue: deque[int] = deque()
        self.evaluator = Evaluator(world)
        self._world = world
        self._ends: dict[int, list[Timer | Subscription]] = {}  # what can end the wait of a task
        self._gates: dict[str, int] = {}  # gate → task
        self.counts: Counter[str] = Counter()
        self.faults = Faults(world, settings.alert_channel, self.counts)
        self.workers: dict[str, int | None] = {}  # step workers, with the task that each works on
        self.heartbeats: dict[str, Heartbeat] = {}  # of recurring jobs, and of step workers
        self.jobs: dict[str, int] = {}  # when each recurring job is due next, in simulated nanoseconds
        self._summed: Counter[str] = Counter()  # the counts at the last daily summary
        world.tasks.define_words(KIND, WORDS)  # type: ignore[arg-type]  # the statuses are checked there
        for state in self.watchers.values():
            state.listen(world)
        for name, procedure in settings.procedures.items():
            if procedure.trigger is not None and procedure.trigger.event is not None:
                world.event_bus.subscribe(procedure.trigger.event, callback=self._hear(name, procedure.trigger))
        for topic in ("gate.approved", "gate.denied", "gate.expired"):
            world.event_bus.subscribe(topic, callback=self._decided)

    # -- employees

    def employ(self, worker: str, interval_ns: int) -> None:
        """Add a step worker.

        Args:
            worker: its name.
            interval_ns: after twice this time without a sign of work, while steps wait, there is a warning.
        """
        self.workers.setdefault(worker, None)
        self.watch_over(worker, interval_ns, more=bool(self.queue))

    def hire(self, agent: Agent, settings: EmployeeSettings) -> Desk:
        """Add an employee. Its first cycle is due at once."""
        desk = self.desks.get(agent.agent_id)
        now = self._world.kernel.now
        if desk is None:
            heartbeat = Heartbeat(settings.title, settings.interval, now)
            desk = self.desks[agent.agent_id] = Desk(agent, settings, now, heartbeat)
            self._beat(heartbeat, more=self.settings.design != "event_driven")
        else:  # a new object for the same employee
            desk.agent, desk.settings = agent, settings
        return desk

    def desk(self, agent_id: str) -> Desk:
        """Return what is known of an employee.

        Raises:
            Refused: if it is not an employee.
        """
        if agent_id not in self.desks:
            raise Refused(f"{agent_id} is not an employee")
        return self.desks[agent_id]

    def title_of(self, agent_id: str | None) -> str:
        """Return the title of an employee; of anybody else, the name."""
        return self.desks[agent_id].settings.title if agent_id in self.desks else str(agent_id)

    def is_due(self, desk: Desk) -> bool:
        """Return whether an employee has a cycle to do now: by its clock, or for a trigger."""
        if self.settings.design == "event_driven":
            return bool(desk.triggers or self.ready(desk))
        return desk.next_ns <= self._world.kernel.now or self.may_hurry(desk)

    def may_hurry(self, desk: Desk) -> bool:
        """Return whether a trigger starts a cycle of an employee now."""
        due = self.hurries_ns(desk)
        return due is not None and due <= self._world.kernel.now

    def hurries_ns(self, desk: Desk) -> int | None:
        """Return when a waiting trigger starts a cycle, in simulated nanoseconds; None: the clock alone does."""
        if not desk.triggers or self.settings.design == "clock_only":
            return None
        limit = self.settings.triggers
        if limit is None or len(desk.hurried) < limit.most:
            return self._world.kernel.now
        return desk.hurried[0] + limit.per

    def hurry(self, desk: Desk) -> None:
        """Count a cycle that a trigger has started."""
        limit = self.settings.triggers
        if limit is not None:
            desk.hurried.append(self._world.kernel.now)
            while len(desk.hurried) > limit.most:
                desk.hurried.popleft()

    def active(self, agent_id: str) -> list[Task]:
        """Return the tasks that an employee has in hand, in progress or pending, the most urgent first."""
        now, tasks = self._world.kernel.now, self._world.tasks.open(agent_id)
        in_hand = [task for task in tasks if task.status in ("pending", "active")]
        in_hand.sort(key=lambda task: _urgency(task, now))
        return in_hand

    def is_late(self, task: Task, now_ns: int) -> bool:
        """Return whether a task is overdue or stalled."""
        return is_overdue(task, now_ns) or is_stalled(task, now_ns)

    def ready(self, desk: Desk) -> list[Task]:
        """Return the tasks of an employee whose next step can be queued, the most urgent first."""
        return [task for task in self.active(desk.agent.agent_id) if self.stage(task.id) == "ready"]

    def stage(self, task: int) -> Stage | None:
        """Return where the next step of a task stands; None if it is not made from a procedure."""
        return self.progress[task].stage if task in self.progress else None

    def stats(self, desk: Desk) -> JsonObject:
        """Return numbers about the work of an employee.

        These are the numbers of its tasks that are `active`, `pending`, `waiting`, `overdue` and `stalled` at present;
        the number of `cycles`; and the mean hours from the making of a task to its first step, over the tasks that were
        begun in the last seven days (`response_week`) and in the seven days before (`response_before`), null if there
        are none.
        """
        now, agent_id = self._world.kernel.now, desk.agent.agent_id
        tasks = self._world.tasks.open(agent_id)
        count = Counter(task.status for task in tasks)
        week = [hours for at, hours in desk.answered if at > now - 7 * DAY_NS]
        before = [hours for at, hours in desk.answered if now - 14 * DAY_NS < at <= now - 7 * DAY_NS]
        return {
            "active": count["active"] + count["pending"],
            "pending": count["pending"],
            "waiting": count["waiting"],
            "overdue": sum(is_overdue(task, now) for task in tasks),
            "stalled": sum(is_stalled(task, now) for task in tasks),
            "cycles": desk.cycles,
            "response_week": _mean_hours(week),
            "response_before": _mean_hours(before),
        }

    def memories(self) -> Memories | None:
        """Return the memories of employees; None if they have none."""
        memories = self._world.services.get(Memories.name)
        return memories if isinstance(memories, Memories) and self.settings.design != "stateless" else None

    # -- triggers and watchers

    def _hear(self, name: str, trigger: Trigger) -> Callable[[Event], None]:
        def hear(event: Event) -> None:
            time = to_seconds(event.time)
            names = {"topic": event.topic, "data": event.data, "source": event.source, "time": time}
            try:
                fits = trigger.where is None or self.evaluator.passes(trigger.where, names)
            except ExpressionError as error:
                desk = self._desk_of(name)
                letter = DeadLetter(f"the trigger of {name}", freeze(event.data), str(error))
                self.faults.set_aside([letter], desk.agent.agent_id, desk.settings.title)
                return
            if fits:
                self.trigger(name, event.data)

        return hear

    def take_message(self, desk: Desk, message: Message) -> bool:
        """Take a message as a trigger; return whether it is one."""
        for name, procedure in self.settings.procedures.items():
            trigger = procedure.trigger
            mine = procedure.agent in (None, desk.agent.agent_id)
            if trigger is not None and trigger.message is not None and trigger.message == message.topic and mine:
                self.trigger(name, {"sender": message.sender, "data": message.data}, desk)
                return True
        return False

    def trigger(self, procedure: str, item: Any, desk: Desk | None = None) -> None:
        """Have an employee make a task by a major action, at once.

        Args:
            procedure: the name of the procedure.
            item: what was found, JSON-like.
            desk: the employee; None: that of the procedure.
        """
        desk = desk or self._desk_of(procedure)
        if len(desk.triggers) >= MOST_TRIGGERS:
            desk.triggers.popleft()
            desk.lost += 1
            desk.unsaid += 1
        desk.triggers.append(FoundItem(procedure, freeze(item), self._world.kernel.now))
        self.counts["triggers"] += 1
        self._world.event_bus.report(TriggerFired(agent=desk.agent.agent_id, procedure=procedure))

    def _desk_of(self, procedure: str) -> Desk:
        name = self.settings.procedures[procedure].agent
        return self.desks[name] if name is not None else next(iter(self.desks.values()))

    def due_watchers(self, *, agent_id: str | None = None) -> list[WatcherState]:
        """Return the watchers that look now.

        Args:
            agent_id: those in the survey of an employee; None: those that look alone.
        """
        now = self._world.kernel.now
        return [w for w in self.watchers.values() if self._looks(w, agent_id) and w.due_ns(now) <= now]

    def next_watch_ns(self) -> int | None:
        """Return when a watcher that looks alone is due next, in simulated nanoseconds; None: never."""
        now = self._world.kernel.now
        return min((w.due_ns(now) for w in self.watchers.values() if self._looks(w, None)), default=None)

    def shortest_look(self) -> int | None:
        """Return the shortest interval of the watchers that look alone, in nanoseconds; None: there are none."""
        return min((w.settings.interval for w in self.watchers.values() if self._looks(w, None)), default=None)

    def _looks(self, watcher: WatcherState, agent_id: str | None) -> bool:
        settings, reactive = watcher.settings, self.settings.design == "event_driven"
        if not settings.active or settings.agent not in self.desks or (reactive and settings.tasks is not None):
            return False  # who only reacts does not notice what has not happened
        alone = settings.alone or reactive
        return alone if agent_id is None else not alone and settings.agent == agent_id

    def watch(self, watchers: Iterable[WatcherState]) -> list[Task]:
        """Have watchers look, and make a task of each new finding.

        A finding of which no task can be made becomes a dead letter, and the others are not affected. A look that
        fails as a whole finds nothing, and is repeated after the interval of its watcher.
        """
        made = []
        for watcher in watchers:
            desk, what = self.desks[watcher.settings.agent], f"The watcher {watcher.name}"
            try:
                look = watcher.look(self._world, desk.agent, self.evaluator, self._world.tasks.room)
            except (UsageError, LimitError, Refused) as error:  # the employee and its other watchers continue
                watcher.last_checked_ns = self._world.kernel.now
                self.faults.begins(what, str(error), desk.settings.title)
                self._tell_look(watcher, desk, fault=str(error))
                continue
            if look.waiting:
                why = f"there are {len(self._world.tasks):,} tasks already; what it finds waits"
                self.faults.begins(what, why, desk.settings.title)
            else:
                self.faults.ends(what)
            made += self._take(watcher, desk, look)
        return made

    def _take(self, watcher: WatcherState, desk: Desk, look: Look) -> list[Task]:
        """Make the tasks of a look; what cannot become one is a dead letter."""
        drafts, unfit = list[TaskDraft](), list(look.unfit)
        for key, item in look.new.items():
            try:
                drafts.append(self.draft(desk, watcher.settings.sop, item, watcher))
            except (UsageError, LimitError, Refused) as error:
                unfit.append(Unfit(key, item, str(error)))
        missed, watcher.missed = watcher.missed, 0
        watcher.take(look, unfit)  # from here on, nothing can fail, so no finding is lost or found twice
        source, title = f"the watcher {watcher.name}", desk.settings.title
        letters = [DeadLetter(source, freeze(one.item), one.why) for one in unfit]
        self.faults.set_aside(letters, desk.agent.agent_id, title)
        if missed:
            self.faults.lose(missed, source, title)
        self._tell_look(watcher, desk, found=len(drafts), dead_letters=len(unfit), lost=missed)
        return [self.make(desk, draft) for draft in drafts]

    def tell_watchers(self, agent_id: str) -> None:
        """Record the watchers of an employee."""
        for name, watcher in self.settings.watchers.items():
            if watcher.agent == agent_id:
                interval = to_seconds(watcher.interval)
                self._world.event_bus.report(
                    WatcherSet(
                        active=watcher.active, agent=agent_id, alone=watcher.alone, interval=interval, watcher=name
                    )
                )

    def _tell_look(self, watcher: WatcherState, desk: Desk, **numbers: Any) -> None:
        counts = {key: value for key, value in numbers.items() if value}
        self._world.event_bus.report(WatcherLooked(agent=desk.agent.agent_id, watcher=watcher.name, **counts))

    def say(self, desk: Desk, warning: str) -> None:
        """Post a warning of an employee."""
        self.faults.say(desk.settings.title, warning)

    def reject(self, desk: Desk, trigger: FoundItem, why: str) -> None:
        """Take a trigger away of which no task can be made, and say so: no later cycle could make it either."""
        desk.triggers.remove(trigger)
        desk.lost += 1
        letter = DeadLetter(f"the trigger of {trigger.procedure}", trigger.item, why)
        self.faults.set_aside([letter], desk.agent.agent_id, desk.settings.title)

    def say_lost(self, desk: Desk) -> None:
        """Say how many triggers of an employee were lost since the last warning."""
        if desk.unsaid:
            self.faults.lose(desk.unsaid, f"the triggers of {desk.agent.agent_id}", desk.settings.title)
            desk.unsaid = 0

    # -- tasks

    def draft(self, desk: Desk, name: str, item: Any, watcher: WatcherState | None = None) -> "TaskDraft":
        """Return a task that can be made from a procedure.

        Args:
            desk: the employee that has to do it.
            name: the name of the procedure.
            item: what was found; the data of the task.
            watcher: the watcher that found it; None: a trigger did.

        Raises:
            ExpressionError: if an expression of the procedure cannot be evaluated.
            Refused: if there are too many tasks, or what was found is too long for the record.
            UsageError: if the priority is no number.
        """
        procedure, agent = self.settings.procedures[name], desk.agent
        own = None if watcher is None else watcher.settings.priority
        priority = self.evaluator.value(procedure.priority if own is None else own, agent, item=item)
        if not isinstance(priority, int | float) or not math.isfinite(priority):
            raise UsageError(f"the priority of {name!r} is no number: {priority!r:.60}")
        title = " ".join(self.evaluator.text(procedure.title, agent, item=item).split())[:LONGEST_TITLE]
        self._world.tasks.check_new(title, "", None, ())
        kept = freeze(item)
        if not self._fits(kept):
            raise Refused(f"{name} of {len(kept):,} bytes is too long for a task")
        return TaskDraft(name, title, round(priority), kept, agent.agent_id if watcher is None else watcher.name)

    def make(self, desk: Desk, draft: "TaskDraft") -> Task:
        """Make a task."""
        procedure, now = self.settings.procedures[draft.procedure], self._world.kernel.now
        task = self._world.tasks.create(
            draft.creator,
            draft.title,
            assignee=desk.agent.agent_id,
            data=draft.item,
            priority=draft.priority,
            kind=KIND,
            due_ns=None if procedure.due is None else now + procedure.due,
            stalled_after_ns=procedure.patience,
        )
        self.progress[task.id] = TaskProgress(draft.procedure)
        self.counts["created"] += 1
        self._announce(task)
        return task

    def names(self, task: Task) -> JsonObject:
        """Return the names of expressions over a task."""
        item = decode(task.data)
        return {"task": task.to_json(), "data": item, "item": item, "results": decode(self.progress[task.id].results)}

    def step(self, task: int) -> tuple[Procedure, Step, TaskProgress]:
        """Return the procedure, the next step and the progress of a task.

        Raises:
            Refused: if it is not made from a procedure.
        """
        progress = self.progress.get(task)
        if progress is None:
            raise Refused(f"task {task} is not made from a procedure")
        procedure = self.settings.procedures[progress.procedure]
        return procedure, procedure.steps[progress.step], progress

    def evaluate(self, task: Task, value: Any) -> Any:
        """Return the value of an expression of a step.

        Raises:
            ExpressionError: if it cannot be evaluated.
            Refused: if the employee of the task does not exist any more.
        """
        return self.evaluator.value(value, self.desk(task.assignee or "").agent, **self.names(task))

    def text_or_usual(self, desk: Desk, usual: str, value: Any, **names: Any) -> str:
        """Return a text that an employee remembers; the usual one, and a warning, if it cannot be made.

        Args:
            desk: the employee.
            usual: the text to fall back on: the work is done already and must not fail over its report.
            value, names: see `Evaluator.value`.
        """
        try:
            return self.evaluator.text(value, desk.agent, **names)
        except ExpressionError as error:
            self.say(desk, f"{usual}\n  (what is to be remembered of it cannot be computed: {error})")
            return usual

    def channel_of(self, task: Task) -> str:
        """Return the channel of the employee of a task."""
        return self.desk(task.assignee or "").channel

    def drop(self, task: int) -> None:
        """Leave the present step of a task that somebody has ended or paused, until it is opened again."""
        self._end_wait(task)
        self.progress[task] = attrs.evolve(self.progress[task], stage="ready")

    def pass_over(self, desk: Desk, task: Task) -> bool:
        """Pass over the next steps of a task whose condition does not hold; return whether one is left to do.

        This is no major action. A condition that cannot be evaluated is left to the step worker, which reports it.
        """
        while self.stage(task.id) == "ready":
            _, step, _ = self.step(task.id)
            try:
                if step.when is None or self.evaluate(task, step.when):
                    return True
            except (ExpressionError, Refused):
                return True
            self.passed(task, None, desk.agent.agent_id, skipped=True)
            task = self._world.tasks.get(task.id)
            if not task.open:
                return False
        return False

    def enqueue(self, desk: Desk, task: Task) -> Task:
        """Put the next step of a task into the queue of the step workers."""
        _, step, progress = self.step(task.id)
        if task.status == "pending" and progress.step == 0 and progress.attempts == 0:
            desk.answered.append((self._world.kernel.now, self._world.kernel.now - task.created_ns))
        self.progress[task.id] = attrs.evolve(progress, stage="queued")
        self.queue.append(task.id)
        self.counts["advanced"] += 1
        note = f"advanced to step {progress.step + 1}: {step.name}"
        task = self._world.tasks.update(task.id, desk.agent.agent_id, status="in_progress", note=note)
        self._world.event_bus.report(StepQueued(name=step.name, step=progress.step + 1, task=task.id))
        self._expect_workers()
        return task

    def _expect_workers(self) -> None:
        """Expect heartbeats of the step workers that have none to show at present: a step waits for one of them."""
        for agent_id in self.workers:
            if not self.heartbeats[agent_id].expected:
                self.show_life(agent_id)

    def claim(self, task: int, worker: str) -> None:
        """Take a step out of the queue.

        Args:
            task: its task.
            worker: the step worker that does it.

        Raises:
            Refused: if another worker has taken it.
        """
        if task not in self.queue:
            raise Refused(f"the step of task {task} is taken already", skip=True)
        self.queue.remove(task)
        self.progress[task] = attrs.evolve(self.progress[task], stage="running")
        self.workers[worker] = task
        self.show_life(worker)
        if not self.queue:
            for other, busy in self.workers.items():
                if busy is None:
                    self.show_life(other, more=False)

    def unclaim(self, task: int, worker: str) -> None:
        """End the work of a step worker on a step; one that it has not done is put back into the queue."""
        self.workers[worker] = None
        self.show_life(worker, more=bool(self.queue))
        if self.stage(task) == "running":
            self.progress[task] = attrs.evolve(self.progress[task], stage="queued")
            self.queue.appendleft(task)
            self._world.event_bus.report(StepQueued(again=True, task=task))
            self._expect_workers()

    def passed(self, task: Task, result: Any, by: str, *, skipped: bool = False) -> None:
        """Keep the result of the present step and turn to the next one, or complete the task.

        Args:
            task: the task.
            result: the result, JSON-like.
            by: who did the step.
            skipped: whether it was passed over, because its condition did not hold.
        """
        procedure, step, progress = self.step(task.id)
        self._end_wait(task.id)
        results = self._with_result(task, step, progress, result)
        following = progress.step + 1
        self.counts["skipped" if skipped else "steps"] += 1
        passed = StepSkipped if skipped else StepDone
        self._world.event_bus.report(passed(name=step.name, step=following, task=task.id))
        self.progress[task.id] = TaskProgress(progress.procedure, following, results=results)
        if following >= len(procedure.steps):
            self._conclude(task, procedure, by)
        else:
            if task.status == "waiting":
                self._world.tasks.update(task.id, by, status="in_progress", note=f"{step.name} is done")
            self._announce(task)

    def _with_result(self, task: Task, step: Step, progress: TaskProgress, result: Any) -> Raw:
        """Return the results of a task with that of a step; one too long for the record is left out, with a warning."""
        earlier = decode(progress.results)
        results = freeze({**earlier, step.name: result})
        if self._fits(results):
            return results
        text = f"The result of {step.name} of Task #{task.id} ({task.title}) is too long to be kept"
        Channels.of(self._world).post(self.settings.alert_channel, self.title_of(task.assignee), text)
        return freeze({**earlier, step.name: None})

    def _fits(self, raw: Raw) -> bool:
        """Return whether the events of a task have room for its data or its results, and for all else in them."""
        return len(raw) <= self._world.event_bus.max_data_bytes // 2

    def failed(self, task: Task, why: str, by: str) -> None:
        """Have the present step tried again in a later cycle, or end the task as failed."""
        _, step, progress = self.step(task.id)
        attempts = progress.attempts + 1
        self._world.event_bus.report(StepFailed(error=why, step=progress.step + 1, task=task.id))
        again = attempts <= step.retries
        self.progress[task.id] = attrs.evolve(progress, stage="ready", attempts=attempts if again else 0)
        if again:
            self._announce(task)
        else:
            self.counts["failed"] += 1
            text = f"Task #{task.id} ({task.title}) failed at step {progress.step + 1} ({step.name}): {why}"
            self._finish(task, "failed", text, by)
            Channels.of(self._world).post(self.settings.alert_channel, self.title_of(task.assignee), text)

    def _conclude(self, task: Task, procedure: Procedure, by: str) -> None:
        self.counts["completed"] += 1
        self._finish(task, "completed", "", by)
        if procedure.concluded is not None and task.assignee in self.desks:
            self.desks[task.assignee].concluded.append(task.id)

    def take_concluded(self, desk: Desk) -> list[Task]:
        """Return the tasks that were completed since the last call and that their employee remembers."""
        concluded = [self._world.tasks.get(id) for id in desk.concluded]
        desk.concluded.clear()
        return concluded

    def _finish(self, task: Task, status: str, note: str, by: str) -> None:
        self._end_wait(task.id)
        if task.status == "paused":  # too late: its last step is done, and nothing that is paused can be completed
            self._world.tasks.update(task.id, by, status="in_progress")
        self._world.tasks.update(
            task.id, by, status=status, note=note[:2000], result=decode(self.progress[task.id].results)
        )
        self._announce(task)

    def _announce(self, task: Task) -> None:
        """Say that an employee may have something to do; one that is event-driven wakes up for it."""
        self._world.event_bus.report(TaskReady(agent=task.assignee, task=task.id))

    # -- waits

    def wait(self, task: Task, by: str) -> None:
        """Have a task wait for time or an event, as its present step says."""
        _, step, progress = self.step(task.id)
        assert step.wait is not None, "the step is a wait"
        self.progress[task.id] = attrs.evolve(progress, stage="waiting")
        self._world.tasks.update(task.id, by, status="waiting", note=step.name)
        kernel, id, wait = self._world.kernel, task.id, step.wait
        ends: list[Timer | Subscription] = [
            kernel.call_at(kernel.now + wait.time, lambda: self._woken(id, "time", None), self._source(task))
        ]
        if wait.event is not None:
            ends.append(self._world.event_bus.subscribe(wait.event, callback=lambda event: self._check(id, event)))
        self._ends[id] = ends

    def _source(self, task: Task) -> Source:
        """Return the source of what happens to a task: that of its assignee, so that other tasks change no key."""
        return self._world.kernel.source_for(task.assignee or task.creator)

    def _check(self, id: int, event: Event) -> None:
        """End the wait of a task if an event is what it waits for."""
        task, item = self._world.tasks.get(id), event.data
        _, step, _ = self.step(id)
        where = None if step.wait is None else step.wait.where
        desk, names = self.desks.get(task.assignee or ""), {**self.names(task), "item": item}
        if desk is None:
            return
        what = _wait_of(task)
        try:
            if where is not None and not self.evaluator.value(where, desk.agent, **names):
                return
        except ExpressionError as error:
            self.faults.begins(what, str(error), desk.settings.title)
            return
        self.faults.ends(what)
        kernel = self._world.kernel  # it ends at the next delta, not inside the publication of somebody else
        kernel.call_at(kernel.now, lambda: self._woken(id, "event", item), self._source(task))

    def _woken(self, id: int, by: str, event: Any) -> None:
        task = self._world.tasks.get(id)
        if self.stage(id) != "waiting" or id not in self._ends:
            return
        if task.open:
            self.passed(task, {"woken_by": by, "event": event}, "sop")
        else:
            self.drop(id)

    def _end_wait(self, id: int) -> None:
        for end in self._ends.pop(id, ()):
            end.cancel()
        self.faults.ends(_wait_of(self._world.tasks.get(id)))

    def await_person(self, task: Task, gate: str, by: str) -> None:
        """Have a task wait for the decision of a person."""
        _, step, progress = self.step(task.id)
        self.progress[task.id] = attrs.evolve(progress, stage="waiting")
        self._gates[gate] = task.id
        self._world.tasks.update(task.id, by, status="waiting", note=f"{step.name}: {gate}")

    def _decided(self, event: Event) -> None:
        data: Any = event.data
        gate = data["gate"]
        if gate not in self._gates:
            return
        id, kernel, approved = self._gates.pop(gate), self._world.kernel, event.topic == "gate.approved"
        source = self._source(self._world.tasks.get(id))
        kernel.call_at(kernel.now, lambda: self._judged(id, gate, approved, data), source)

    def _judged(self, id: int, gate: str, approved: bool, data: Any) -> None:
        if self.stage(id) != "waiting":
            return
        task, (_, step, _) = self._world.tasks.get(id), self.step(id)
        if not task.open:
            self.drop(id)
            return
        if approved:
            approvals = Approvals.of(self._world)
            asked = approvals.gates[gate]
            approvals.use(gate, asked.agent, asked.tool, asked.arguments)  # so that it neither expires nor is revoked
            self.passed(task, {"gate": gate, "by": data.get("by"), "note": data.get("note")}, "sop")
            return
        self.counts["cancelled"] += 1
        self._finish(task, "cancelled", f"{step.name} was not approved", "sop")

    # -- heartbeats

    def heartbeat(self, desk: Desk, text: str) -> None:
        """Post the heartbeat of an employee."""
        desk.cycles += 1
        self.counts["cycles"] += 1
        Channels.of(self._world).post(self.settings.ops_channel, desk.settings.title, text)
        self._beat(desk.heartbeat, more=self.settings.design != "event_driven")

    def watch_over(self, agent_id: str, interval_ns: int, *, more: bool) -> None:
        """Expect heartbeats of an agent that is no employee, unless that was said before.

        Args:
            agent_id: the agent: a step worker, or one that runs recurring jobs.
            interval_ns: the longest time between two heartbeats, in simulated nanoseconds.
            more: whether one is expected now.
        """
        if agent_id not in self.heartbeats:
            heartbeat = self.heartbeats[agent_id] = Heartbeat(agent_id, interval_ns, self._world.kernel.now)
            self._beat(heartbeat, more=more)

    def show_life(self, agent_id: str, *, more: bool = True) -> None:
        """Take a heartbeat of an agent that is no employee; see `watch_over`."""
        if agent_id in self.heartbeats:
            self._beat(self.heartbeats[agent_id], more=more)

    def _beat(self, heartbeat: Heartbeat, *, more: bool) -> None:
        heartbeat.beat(self._world.kernel, self.warn, more=more)

    def silent(self) -> list[Heartbeat]:
        """Return the heartbeats that have been missing for twice their interval."""
        now, heartbeats = (
            self._world.kernel.now,
            [*(desk.heartbeat for desk in self.desks.values()), *self.heartbeats.values()],
        )
        return [heartbeat for heartbeat in heartbeats if heartbeat.is_missing(now)]

    def warn(self, heartbeat: Heartbeat) -> None:
        """Post that a heartbeat is missing."""
        heartbeat.alerts += 1
        self.counts["alerts"] += 1
        self.faults.say(
            "sop", alert(heartbeat.title, self._world.kernel.now - heartbeat.heard_ns, heartbeat.interval_ns)
        )

    def since_summary(self) -> dict[str, int]:
        """Return what was done since the last call, and how many tasks are overdue at present."""
        counts = {name: self.counts[name] - self._summed[name] for name in COUNTED}
        self._summed = Counter(self.counts)
        now = self._world.kernel.now
        return {**counts, "overdue": sum(is_overdue(task, now) for task in self._world.tasks.open())}

    # -- the record

    def state(self) -> Any:
        """Return the state of employees, tasks, queue and watchers."""
        desks = {
            name: [
                d.next_ns,
                d.heartbeat.state(),
                d.cycles,
                sorted(d.noted.items()),
                d.lost,
                list(d.concluded),
                list(d.hurried),
                [attrs.astuple(trigger) for trigger in d.triggers],
                list(map(list, d.answered)),
            ]
            for name, d in self.desks.items()
        }
        progress = {str(id): attrs.astuple(one) for id, one in self.progress.items()}
        watchers = {name: watcher.state() for name, watcher in self.watchers.items()}
        return {
            "desks": desks,
            "progress": progress,
            "queue": list(self.queue),
            "watchers": watchers,
            "jobs": self.jobs,
            "heartbeats": {name: heartbeat.state() for name, heartbeat in self.heartbeats.items()},
            "faults": self.faults.state(),
        }

    def metrics(self) -> Mapping[str, float | None]:
        """Return what was done so far, the length of the queue, and the mean hours until a task was begun."""
        begun = [hours for desk in list(self.desks.values()) for _, hours in list(desk.answered)]
        numbers = {name: float(self.counts[name]) for name in COUNTED}
        return {**numbers, "queue": float(len(self.queue)), "response_hours": _mean_hours(begun)}

    def summary(self) -> JsonObject:
        """Return the same, and for each employee the cycles, the warnings, and the hours until a task was begun."""
        desks = {
            name: {
                "cycles": d.cycles,
                "alerts": d.heartbeat.alerts,
                "tasks_begun": len(d.answered),
                "response_hours": _mean_hours([hours for _, hours in d.answered]),
            }
            for name, d in self.desks.items()
        }
        return {**self.metrics(), **desks} if self.desks else {}

    def warnings(self) -> Sequence[Warned]:
        """Warn of dead letters, of lost events, and of what cannot be used."""
        return tuple(self.faults.warnings())


COUNTED: Final = (
    "cycles", "triggers", "created", "advanced", "steps", "completed", "failed", "cancelled", "memories", "assessments",
    "alerts", "skipped", "dead_letters", "lost", "faults", "failed_assessments", "memories_cut",
)  # fmt: skip


def _wait_of(task: Task) -> str:
    """Return the words for the wait of a task, if what it waits for cannot be judged."""
    return f"The wait of Task #{task.id} ({task.title})"


def _mean_hours(times: list[int]) -> float | None:
    return round(sum(times) / len(times) / 3.6e12, 6) if times else None


def _urgency(task: Task, now_ns: int) -> tuple[bool, bool, int, float, int]:
    """Return the rank of a task: overdue ones first, then stalled ones, by priority, by due time, by number."""
    due = float("inf") if task.due_ns is None else task.due_ns
    return not is_overdue(task, now_ns), not is_stalled(task, now_ns), -task.priority, due, task.id
