"""The service of executors: all tasks with their states, who works on which, and what waits for what.

It is the part of the orchestrator that knows; `orchestrator` is the part that acts. The executors keep nothing
themselves.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, ClassVar, Final

import attrs

from sim.base.errors import UsageError
from sim.events.event_type import Published
from sim.kernel import to_seconds
from sim.kernel.codec import Json, JsonObject, encode, freeze
from sim.kinds.executor.events import (
    ExecutionEnded,
    ExecutionResumed,
    ExecutionReturned,
    ExecutionStarted,
    StepDone,
    TaskAdded,
)
from sim.kinds.executor.records import FINAL, Ending, Helped, LLMCall, Step, TaskState
from sim.kinds.executor.settings import MOST_PRIORITY, Criterion, ExecutionTask, ExecutorSettings, ExecutorsSettings
from sim.kinds.executor.task_time import TaskTime
from sim.kinds.executor.workspace import Workspace, is_in
from sim.llm.service import Models
from sim.resources import MICRO, to_micro
from sim.tools import Tools
from sim.world import Message, Refused, Service, Warned, World
from sim.world.actions.messages import deliver
from sim.world.tasks import Task, TaskStatus

ORCHESTRATOR: Final = "orchestrator"
"""The sender of the message that wakes an executor, and the creator of tasks of the scenario and of help."""

WAKE_UP: Final = "execute"
"""The topic of the message that wakes an executor."""

KIND: Final = "execution"
"""The kind of the tasks on the board."""

WORDS: Final[Mapping[str, TaskStatus]] = {
    "planned": "pending", "running": "active", "waiting": "waiting", "paused": "paused", "success": "done",
    "failed": "failed", "escalated": "failed",
}  # fmt: skip
"""The words of executions for the statuses of the board."""

_MOST_NOTES: Final = 20
_LENGTHS: Final = (2_000, 300, 40)
"""The longest texts in the record of a step or a state; the shorter ones if the longer ones do not fit."""
_ROOM: Final = 4_000  # bytes for the rest of an event
_LONGEST_NOTE: Final = 4_000


class Executors(Service):
    """The executions of one world.

    Args:
        world: the world.
        settings: tasks, projects and limits.

    Attributes:
        states: all tasks by number.
        types: the types of executors that the scenario has.
        agents: what each executor is, by name, in the order in which they began.
        current: the task of each executor whose step is under way.
        workspace: the files of all projects.
        tests_fault: why no tests can be run; None: they can, as far as is known.
        counts: how often things happened.
        time: what counts for the timeouts of tasks.
    """

    name: ClassVar[str] = "executor"

    def __init__(self, world: World, settings: ExecutorsSettings) -> None:
        self.settings = settings
        self.states: dict[int, TaskState] = {}
        self.types: tuple[str, ...] = ()
        self.agents: dict[str, ExecutorSettings] = {}
        self.current: dict[str, int] = {}
        self.workspace = Workspace(world, settings)
        self.tests_fault: str | None = None
        self.counts: Counter[str] = Counter()
        self.time = TaskTime(world)
        self._world = world
        self._numbers: dict[str, int] = {}  # name of a task → its number
        self._own: dict[str, dict[int, None]] = {}  # executor → its tasks that have not ended
        self._ready: dict[str, list[tuple[bool, int, int]]] = {}  # type → tasks that no executor has, as a heap
        self._idle: dict[str, dict[str, None]] = {}  # type → executors that sleep
        self._dependents: dict[int, list[int]] = {}
        self._unlogged: dict[int, None] = {}  # tasks whose last step is not on record yet
        self._spent_micro = 0
        if Models.name in world.services:
            Models.of(world).on_cost.append(self._book)
        world.tasks.define_words(KIND, WORDS, managed=True)

    # -- executors

    def register(self, agent_id: str, settings: ExecutorSettings) -> None:
        """Make an executor known."""
        self.agents[agent_id] = settings
        self._own.setdefault(agent_id, {})

    def leave(self, agent_id: str, *, last: bool = False) -> None:
        """Give the tasks of an executor that stops back, so that others of its type can continue them.

        Args:
            agent_id: the executor.
            last: whether it stops because the run ends.
        """
        settings = self.agents.pop(agent_id, None)
        if settings is None:
            return
        self._idle.get(settings.type, {}).pop(agent_id, None)
        self.release(agent_id)
        for number in self._own.pop(agent_id):
            state = self.states[number]
            self.log(state)
            state.agent_id = ""
            if not last:
                self.report(ExecutionReturned, state, by=agent_id)
            if "waits_for" in state.metadata:
                continue  # it is offered again when the help has ended
            self._world.tasks.update(number, ORCHESTRATOR, status="planned", note=f"{agent_id} has stopped")
            self._offer_at(state, state.metadata.get("retry_ns", 0))
        if self._ready.get(settings.type):
            self._wake_one(settings.type)  # for a task that this one was woken for

    def goals_of(self, agent_id: str) -> list[str]:
        """Return the tasks of an executor that have not ended: their names and goals, one line each."""
        return [f"{state.task_id} (step {state.current_step}): {state.goal}" for state in self.tasks_of(agent_id)]

    def tasks_of(self, agent_id: str) -> list[TaskState]:
        """Return the tasks of an executor that have not ended."""
        return [self.states[number] for number in self._own.get(agent_id, ())]

    def next_task(self, agent_id: str) -> TaskState | None:
        """Return the task on which an executor works next, or None: it then counts as idle.

        Its own tasks that can continue come first, help for others before; then the most urgent task of its type that
        no executor has, which is its own from now on.
        """
        settings, now = self.agents[agent_id], self._world.kernel.now
        own = self.tasks_of(agent_id)
        can = [state for state in own if self._due_ns(state) <= now]
        if can:
            return min(can, key=_urgency)
        if ready := self._ready.get(settings.type):
            state = self.states[heappop(ready)[-1]]
            state.agent_id = agent_id
            self._own[agent_id][state.number] = None
            return state
        self._idle.setdefault(settings.type, {})[agent_id] = None
        return None

    def next_due_ns(self, agent_id: str) -> int | None:
        """Return when a task of an executor can continue by itself, in simulated nanoseconds; None: none can."""
        due = [self._due_ns(state) for state in self.tasks_of(agent_id)]
        return min((one for one in due if one < _NEVER), default=None)

    def _due_ns(self, state: TaskState) -> int:
        if "waits_for" in state.metadata:
            return _NEVER
        return state.metadata.get("retry_ns", 0)

    def claim(self, agent_id: str, state: TaskState) -> None:
        """Note that an executor begins a step of a task."""
        self._idle.get(self.agents[agent_id].type, {}).pop(agent_id, None)
        self.current[agent_id] = state.number
        self.time.arm(state)
        task = self._world.tasks.get(state.number)
        if task.status != "active" or task.assignee != agent_id:
            self._world.tasks.update(state.number, ORCHESTRATOR, status="active", assignee=agent_id)
        if state.started_ns is None:
            state.started_ns = self._world.kernel.now
            if state.protected is None:
                files, tests = self.workspace.files.get(state.project_id, ()), [one.tests for one in state.criteria]
                state.protected = tuple(path for path in tests if path and any(is_in(name, path) for name in files))
            state.metadata["dependencies"] = self.workspace.dependencies(state.project_id)
            self.report(ExecutionStarted, state, protected=state.protected)

    def release(self, agent_id: str) -> None:
        """Note that no step of an executor is under way."""
        if (number := self.current.pop(agent_id, None)) is not None:
            self.time.disarm(number)

    def state_of(self, agent_id: str) -> TaskState:
        """Return the task whose step an executor does at present.

        Raises:
            Refused: if it does none.
        """
        number = self.current.get(agent_id)
        if number is None:
            raise Refused(f"{agent_id} works on no task at present")
        return self.states[number]

    def wake(self, agent_id: str) -> None:
        """Wake an executor, unless it works or is about to look for work anyway."""
        agent: Any = self._world.agents.get(agent_id)
        if agent is None or agent_id in self.current or len(agent.mailbox):
            return
        deliver(self._world, Message(ORCHESTRATOR, agent_id, WAKE_UP, freeze(None), self._world.kernel.now))

    # -- tasks

    def add(
        self,
        creator: str,
        name: str,
        work: ExecutionTask,
        *,
        depends_on: Sequence[int] | None = None,
        parent: int | None = None,
        helps: int | None = None,
    ) -> TaskState:
        """Add a task. It is done by an executor of its type as soon as the tasks that it depends on have succeeded.

        Args:
            creator: who makes it.
            name: its name, for the record; a number is added if there is one of this name.
            work: what has to be done.
            depends_on: the numbers of the tasks before it; None: those that `work` names.
            parent: the number of the task of which it is a part.
            helps: the number of the task that waits for it.

        Raises:
            Refused: if there are too many tasks, or no executor of its type.
        """
        settings = self.settings
        before = self._before(work, depends_on)
        task = self._add_to_board(creator, name, work, parent, before)
        task_id = name if name not in self._numbers else f"{name}-{task.id}"
        money = settings.cost_limit if work.cost_limit is None else work.cost_limit
        state = self.states[task.id] = TaskState(
            number=task.id,
            task_id=task_id,
            project_id=work.project,
            type=work.type,
            goal=work.goal,
            criteria=work.criteria,
            constraints=dict(work.constraints),
            max_steps=work.max_steps or settings.max_steps,
            timeout_ns=work.timeout or settings.timeout,
            cost_limit_micro=to_micro(money),
            creator=creator,
            parent=parent,
            helps=helps,
            priority=work.priority,
            start_ns=work.start,
            protected=work.protected,
        )
        self._numbers[task_id] = task.id
        self.counts["tasks"] += 1
        self._report_added(state, before, money)
        for other in before:
            self._dependents.setdefault(other, []).append(task.id)
        self._offer_at(state, work.start)
        return state

    def _add_to_board(
        self, creator: str, name: str, work: ExecutionTask, parent: int | None, before: Sequence[int]
    ) -> Task:
        return self._world.tasks.create(
            creator,
            work.title or name,
            description=work.goal,
            kind=KIND,
            priority=work.priority,
            parent=parent,
            depends_on=before,
            data={"type": work.type, "project": work.project},
        )

    def _report_added(self, state: TaskState, before: list[int], cost_limit: float) -> None:
        self.report(
            TaskAdded,
            state,
            type=state.type,
            creator=state.creator,
            parent=state.parent,
            helps=state.helps,
            depends_on=before,
            goal=state.goal,
            criteria=state.acceptance_criteria,
            constraints=dict(state.constraints),
            max_steps=state.max_steps,
            timeout=to_seconds(state.timeout_ns),
            cost_limit=cost_limit,
        )

    def _before(self, work: ExecutionTask, depends_on: Sequence[int] | None) -> list[int]:
        """Return the numbers of the tasks before a new one, for which there has to be room."""
        most = self.settings.open_tasks
        if self.counts["tasks"] - self._ended() >= most:
            raise Refused(f"there are {most} open tasks already")
        self.require_type(work.type)
        if not _NAME.fullmatch(work.project):
            raise Refused(f"{work.project!r:.60} is not the name of a project: small letters, digits, _ and -")
        return [self._numbers[other] for other in work.depends_on] if depends_on is None else list(depends_on)

    def take(
        self,
        creator: str,
        name: str,
        goal: str,
        agent_type: str,
        *,
        criteria: Sequence[str],
        files: Sequence[str],
        tests: str | None,
        depends_on: Sequence[str],
        project: str,
        priority: int,
        parent: TaskState | None = None,
    ) -> dict[str, Json]:
        """Add a task that an agent or a person gives during the run, and return its name and number.

        Args:
            creator: who gives it.
            name: its name: small letters, digits, _ and -.
            goal, project, priority: see `ExecutionTask`.
            agent_type: the type of its executors.
            criteria: texts that a model judges.
            files: files that must exist.
            tests: a file or folder whose tests must pass.
            depends_on: the names of the tasks before it.
            parent: the task of which it is a part.

        Raises:
            Refused: if something of this is not valid, or there are too many tasks, or too many of them nested.
        """
        if not _NAME.fullmatch(name):
            raise Refused(f"{name!r:.60} is not the name of a task: small letters, digits, _ and -")
        if not -MOST_PRIORITY <= priority <= MOST_PRIORITY:
            raise Refused(f"a priority is from -{MOST_PRIORITY} to {MOST_PRIORITY}")
        if parent is not None and self._depth(parent) >= self.settings.parts:
            raise Refused(f"tasks can be nested {self.settings.parts} deep, so do this one yourself")
        before = [self.number_of(other) for other in depends_on]
        try:
            task = ExecutionTask(
                goal, agent_type, criteria_of(criteria, files, tests), project=project, priority=priority
            )
        except UsageError as error:
            raise Refused(str(error)) from error
        number = None if parent is None else parent.number
        made = self.add(creator, name, task, depends_on=before, parent=number)
        return {"task": made.task_id, "number": made.number}

    def _depth(self, state: TaskState) -> int:
        """Return how many tasks a task is a part of, one in the other."""
        depth = 0
        while state.parent is not None:
            depth, state = depth + 1, self.states[state.parent]
        return depth

    def require_type(self, wanted: str) -> None:
        """Check that there are executors of a type.

        Raises:
            Refused: if there are none.
        """
        if wanted not in self.types:
            raise Refused(f"there are no executors of the type {wanted!r:.60}; there are {', '.join(self.types)}")

    def number_of(self, name: str) -> int:
        """Return the number of a task of a name.

        Raises:
            Refused: if there is none.
        """
        number = self._numbers.get(name)
        if number is None:
            raise Refused(f"there is no task {name!r:.60}")
        return number

    def _offer_at(self, state: TaskState, due_ns: int) -> None:
        """Offer a task from a time on."""
        kernel = self._world.kernel
        if due_ns > kernel.now:
            kernel.call_at(due_ns, lambda: self._offer(state), kernel.source_for(state.task_id, purpose="task"))
        else:
            self._offer(state)

    def _offer(self, state: TaskState) -> None:
        """Let executors of its type take a task, if it can begin; end it if a task that it depends on has failed."""
        if state.ending is not None or state.start_ns > self._world.kernel.now:
            return
        missing = self._world.tasks.blockers(self._world.tasks.get(state.number))
        if lost := [other for other in missing if not other.open]:
            self.end(state, "dependency", f"task {lost[0].id} ended with {lost[0].word}")
        if missing:
            return
        heappush(self._ready.setdefault(state.type, []), _urgency(state))
        self._wake_one(state.type)

    def _wake_one(self, wanted: str) -> None:
        """Wake an executor of a type that sleeps; one that is about to be paused only if there is no other."""
        idle = list(self._idle.get(wanted, ()))
        if idle:
            chosen = next((one for one in idle if not self._is_held(one)), idle[0])
            del self._idle[wanted][chosen]
            self.wake(chosen)

    def _is_held(self, agent_id: str) -> bool:
        agent: Any = self._world.agents.get(agent_id)
        return agent is not None and agent.loop.pause_wanted

    def end(self, state: TaskState, ending: Ending, reason: str) -> None:
        """End a task: keep its state, tell who waits for it, and free what depends on it.

        Args:
            state: the task.
            ending: why it ended.
            reason: the same in words.
        """
        self.log(state)
        status, now = FINAL[ending], self._world.kernel.now
        state.ending, state.completed_ns = ending, now
        state.metadata["reason"] = reason
        if status != "escalated":  # a person has let it continue since
            state.escalation_triggered, state.escalation_reason = False, None
        judged = state.tests_judged if status == "success" else 0
        self.counts["tests_judged"] += judged > 0
        state.metadata.pop("waits_for", None)  # its time was up in the step that asked for help
        state.metadata.pop("waits_since_ns", None)
        self.counts[status] += 1
        self.counts[f"ended_{ending}"] += 1
        self.counts["steps"] += state.current_step
        self._own.get(state.agent_id, {}).pop(state.number, None)
        result = {"status": status, "ending": ending, "reason": reason, "steps": state.current_step}
        if (task := self._world.tasks.get(state.number)).status == "paused":
            self._world.tasks.update(task.id, ORCHESTRATOR, status="active")
        self._world.tasks.update(state.number, state.agent_id or ORCHESTRATOR, status=status, result=result)
        money = {"cost": state.total_cost_micro / MICRO, "tokens": sum(state.token_usage)}
        why = {"escalation_reason": state.escalation_reason, "tests_judged": judged}
        self.report(ExecutionEnded, state, **result, **money, **why, snapshot=self._fitting(state.summary))
        self._tell_waiting(state)
        for number in self._dependents.pop(state.number, ()):
            self._offer(self.states[number])

    def _tell_waiting(self, state: TaskState) -> None:
        """Give the result of a task of help to the task that waits for it, which then continues."""
        if state.helps is None:
            return
        waiting = self.states[state.helps]
        if waiting.metadata.get("waits_for") != state.number:
            return
        del waiting.metadata["waits_for"]
        cost = state.cost_limit_micro - state.left_micro  # what it cost itself, and help for it
        waiting.metadata["help_cost_micro"] = waiting.metadata.get("help_cost_micro", 0) + cost
        self.time.add_pause(waiting, self._world.kernel.now - waiting.metadata.pop("waits_since_ns"))
        outputs = [step.execution_result.output for step in state.steps_history if step.success]
        helped: Helped = {"task": state.task_id, "status": state.final_status, "output": outputs[-2:]}
        waiting.metadata.setdefault("help", []).append(helped)
        self._world.tasks.update(waiting.number, ORCHESTRATOR, status="running" if waiting.agent_id else "planned")
        self.report(ExecutionResumed, waiting, help=state.task_id, status=state.final_status)
        if waiting.agent_id:
            self.wake(waiting.agent_id)
        else:  # its executor has stopped meanwhile
            self._offer(waiting)

    def wait_for(self, state: TaskState, other: TaskState) -> None:
        """Let a task wait until a task of help has ended. Its executor can do other tasks meanwhile."""
        state.metadata |= {"waits_for": other.number, "waits_since_ns": self._world.kernel.now}
        self._world.tasks.update(state.number, ORCHESTRATOR, status="waiting", note=f"waits for task {other.number}")

    def note(self, agent_id: str, author: str, text: str) -> bool:
        """Keep a note of a person for the prompts of the tasks of an executor; return whether it has any task."""
        own = self.tasks_of(agent_id)
        for state in own:
            notes = state.metadata.setdefault("notes", [])
            notes.append({"from": author, "text": text[:_LONGEST_NOTE]})
            del notes[:-_MOST_NOTES]
        return bool(own)

    def _book(self, agent_id: str, use: str, tokens: int, cost_micro: int) -> None:
        """Count a call of a model for the task that its executor works on, when it is settled, however it ended."""
        number = self.current.get(agent_id)
        if number is None or not (tokens or cost_micro):
            return
        state = self.states[number]
        state.token_usage.append(tokens)
        state.llm_calls.append(LLMCall(use, tokens, cost_micro))
        state.total_cost_micro += cost_micro
        self._spent_micro += cost_micro

    # -- the steps and their record

    def add_step(self, state: TaskState, step: Step) -> None:
        """Add a step to a task. It is on record as soon as it is complete, see `log`."""
        self.log(state)
        state.steps_history.append(step)
        state.current_step += 1
        self._unlogged[state.number] = None

    def is_unlogged(self, state: TaskState) -> bool:
        """Return whether the last step of a task is not on record yet."""
        return state.number in self._unlogged

    def settle(self, state: TaskState) -> None:
        """Give the last step of a task its duration, and the calls of models since the step before."""
        last = state.steps_history[-1]
        calls, duration_ns = last.llm_calls + state.unassigned_calls, self._world.kernel.now - last.time_ns
        state.steps_history[-1] = attrs.evolve(last, llm_calls=calls, duration_ns=duration_ns)

    def log(self, state: TaskState) -> None:
        """Put the last step of a task on record, unless it is."""
        if state.number not in self._unlogged:
            return
        del self._unlogged[state.number]
        last = state.steps_history[-1]
        step = state.steps_history[-1] = attrs.evolve(last, llm_calls=last.llm_calls + state.unassigned_calls)
        self.report(StepDone, state, **self._fitting(step.to_json))

    def _fitting(self, make: Callable[[int], JsonObject]) -> JsonObject:
        """Return a record with texts that are as long as an event allows. The actions on record have the whole.

        If short texts do not fit either, the largest fields are left out, and named.
        """
        most = self._world.event_bus.max_data_bytes - _ROOM
        for longest in _LENGTHS:
            if len(encode(made := make(longest))) <= most:
                return made
        sizes = {name: len(encode(value)) for name, value in made.items()}
        left_out: list[str] = []
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if sum(sizes.values()) + 8 * len(sizes) <= most:
                break
            left_out.append(name)
            del sizes[name]
        return {**{name: made[name] for name in sizes}, "left_out": left_out}

    def report(self, kind: type[Published], state: TaskState, **more: Any) -> None:
        """Publish what happened to a task."""
        about = {"execution": state.execution_id, "task": state.number, "name": state.task_id}
        about |= {"agent": state.agent_id, "project": state.project_id}
        self._world.event_bus.report(kind(**about, **more))

    def state(self) -> Any:
        """Return everything that is known, for the final digest."""
        if not self.states and not self.workspace.files:
            return None
        return {
            "states": {str(number): [state.ending, state.to_json()] for number, state in self.states.items()},
            "ready": {wanted: sorted(tasks) for wanted, tasks in sorted(self._ready.items()) if tasks},
            "tests": self.tests_fault,
            "counts": dict(sorted(self.counts.items())),
        }

    def _ended(self) -> int:
        return sum(self.counts[status] for status in ("success", "failed", "escalated"))

    def metrics(self) -> Mapping[str, float | None]:
        """Return how tasks ended and why, what that took, and how often people and help were needed."""
        counts, ended = self.counts, self._ended()
        names = (
            "tasks",
            "success",
            "failed",
            "escalated",
            *(f"ended_{ending}" for ending in FINAL),
            "replans",
            "same_plans",
            "denied",
            "alternatives",
            "help",
            "gates",
            "gates_approved",
            "confidence_checks",
            "loops",
            "stalls",
            "test_runs",
            "tests_judged",
        )
        counted = {name: float(counts[name]) for name in names}
        per_task = counts["steps"] / ended if ended else None
        cost = self._spent_micro / MICRO
        per_success = cost / counts["success"] if counts["success"] else None
        return {**counted, "steps_per_task": per_task, "cost": cost, "cost_per_success": per_success}

    def summary(self) -> JsonObject:
        """Return the same numbers; empty without tasks."""
        return self.metrics() if self.states else {}

    def warnings(self) -> Sequence[Warned]:
        """Warn of tasks that have succeeded although no test was run."""
        if not (count := self.counts["tests_judged"]):
            return ()
        tasks = "1 task has" if count == 1 else f"{count} tasks have"
        hint = None if Tools.on(self._world).processes.allowed else "allow test runs with --allow-commands"
        return (Warned(f"{tasks} succeeded with tests that a model judged: {self.tests_fault}", hint),)


_NEVER: Final = 2**62
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def _urgency(state: TaskState) -> tuple[bool, int, int]:
    return state.helps is None, -state.priority, state.number


def criteria_of(texts: Sequence[str], files: Sequence[str], tests: str | None) -> tuple[Criterion, ...]:
    """Return criteria that an agent gives: texts that a model judges, files that must exist, and tests that pass.

    Raises:
        UsageError: if one is not valid.
    """
    criteria = [Criterion(text) for text in texts]
    criteria += [Criterion(f"{name} exists", file=name) for name in files]
    return (*criteria, *([] if tests is None else [Criterion(f"the tests in {tests} pass", tests=tests)]))
