"""The executors, and what people do with tasks."""

from collections.abc import Mapping
from typing import Any

from sim.actors import Agent
from sim.actors.inputs import PERSON
from sim.agents.executor.loop import execute_step
from sim.agents.executor.service import WAKE_UP, Executors
from sim.agents.executor.settings import ExecutorSettings
from sim.agents.executor.testing import run_tests
from sim.agents.executor.tools import TOOLS
from sim.agents.family import AgentPlan, Family, Make, WorldPlan, define_family
from sim.agents.tool_check import check_tools
from sim.errors import UsageError
from sim.expressions import did_you_mean
from sim.kernel import to_duration
from sim.permissions import Permission
from sim.world import Action, Inhabitant, Refused, World
from sim.world.action import action


class Executor(Agent):
    """An agent that works on tasks step by step, until their goals are reached or something ends them.

    It keeps nothing between two steps; what it knows is in the service `Executors`.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: what it is.
    """

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: ExecutorSettings,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.settings = settings

    async def on_start(self) -> None:
        """Offer itself for tasks of its type."""
        Executors.of(self.world).register(self.agent_id, self.settings)

    def on_stop(self) -> None:
        """Give its tasks back."""
        Executors.of(self.world).leave(self.agent_id, last=self.loop.stop_reason == "end")

    def about(self) -> Mapping[str, Any]:
        """See `Agent.about`: its role, and the tasks that it works on."""
        return {"role": self.settings.prompt, "own_tasks": Executors.of(self.world).goals_of(self.agent_id)}

    async def decide_action(self) -> Action:
        """Take notes of people, else do the next step of a task, else sleep until there is one."""
        executors = Executors.of(self.world)
        executors.time.add_hold(self.agent_id, self.loop.held_ns, executors.tasks_of(self.agent_id))
        while (message := self.mailbox.take()) is not None:
            if message.topic != WAKE_UP and message.sender == PERSON:
                return Action("take_note", {"author": message.sender, "text": str(message.data)})
        state = executors.next_task(self.agent_id)
        if state is not None:
            return Action("execute_step", {"task": state.number})
        wake: list[Mapping[str, Any]] = [{"message": True}]
        due = executors.next_due_ns(self.agent_id)
        if due is not None:
            wake.append({"until": to_duration(due)})
        return Action("sleep", {"condition": {"any": wake}})


@action("take_note", permission=Permission.GUEST, everywhere=False)
def take_note(world: World, agent: Inhabitant, author: str, text: str) -> bool:
    """Keep a note of a person for the prompts of the tasks of an executor.

    Args:
        author: who says it.
        text: the text.
    """
    executors = Executors.of(world)
    if agent.agent_id not in executors.agents:
        raise Refused(f"{agent.agent_id} is no executor")
    return executors.note(agent.agent_id, author, text)


@action("run_task", everywhere=False)
def run_task(
    world: World, agent: Inhabitant, name: str, goal: str, agent_type: str, criteria: Any = (),
    files: Any = (), tests: str | None = None, depends_on: Any = (), project: str = "project", priority: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Give a task to executors of a type.

    Args:
        name: a short name of the task.
        goal: what has to be reached.
        agent_type: the type of the executors.
        criteria: when it is reached, as a list of texts; a model judges them.
        files: a list of files that must exist then.
        tests: a file or folder whose tests must pass then.
        depends_on: a list of the names of the tasks that must have succeeded before.
        project: the project in whose workspace it is done.
        priority: how urgent it is; a higher one comes first.
    """
    lists = {"criteria": criteria, "files": files, "depends_on": depends_on}
    for key, given in lists.items():
        if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
            raise Refused(f"{key} is a list of texts, not {given!r:.60}")
    executors = Executors.of(world)
    parent = executors.states.get(executors.current.get(agent.agent_id, 0))  # if an executor calls it in a step
    return executors.take(
        agent.agent_id, name, goal, agent_type, **lists, tests=tests, project=project, priority=priority, parent=parent
    )


@action("check_confidence", everywhere=False)
def check_confidence(world: World, agent: Inhabitant, task: str) -> None:
    """Ask for a check of the confidence in a task after its next step.

    Args:
        task: the name of the task.
    """
    executors = Executors.of(world)
    state = executors.states[executors.number_of(task)]
    if state.ending is not None:
        raise Refused(f"the task {task} has ended")
    state.metadata["request_confidence_check"] = True


ACTIONS = (run_task, check_confidence)
"""The actions that every world with executors has."""


def _prepare(plan: WorldPlan) -> Make:
    """Fill the workspaces, and add the tasks of the scenario when the run begins."""
    executors, world = Executors.of(plan.world), plan.world
    entries = [entry for entry in plan.scenario.agents if isinstance(entry.settings, ExecutorSettings)]
    executors.types = tuple(sorted({entry.settings.type for entry in entries}))

    def begin() -> None:
        executors.workspace.fill()
        for name in executors.settings.in_order():
            executors.add("scenario", name, executors.settings.tasks[name])

    kernel = world.kernel
    source = kernel.source_for("tasks")  # a delta later than the agents, so that all executors are known by then
    kernel.call_at(kernel.now, lambda: kernel.call_at(kernel.now, begin, source), source)

    def make(agent: AgentPlan) -> Agent:
        return Executor(
            agent.name, agent.world, group=agent.group, permission=agent.permission, settings=agent.settings
        )

    return make


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse executors that cannot work, before the run."""
    entries = [entry for entry in scenario.agents if entry.kind == "executor"]
    settings = scenario.sections.get("executor")
    if settings is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} works on tasks, but there are none", hint="add `executor:`")
        return
    if not entries:
        hint = "add {name: coder, kind: executor, settings: {type: coder}} to `agents`"
        raise UsageError("`executor` needs agents that do its tasks", hint=hint)
    if scenario.models is None:
        raise UsageError(f"agents.{entries[0].name} asks language models, but there are none", hint="add `models:`")
    types = [entry.settings.type for entry in entries]
    for entry in entries:
        check_tools(scenario, f"agents.{entry.name}.settings.tools", entry.settings.tools)
    for name, task in settings.tasks.items():
        if task.type not in types:
            hint = did_you_mean(task.type, types) or f"there are {', '.join(sorted(set(types)))}"
            raise UsageError(f"executor.tasks.{name}.type: no executor has the type {task.type!r}", hint=hint)
        used = [one.tool for one in task.criteria if one.tool is not None]
        check_tools(scenario, f"executor.tasks.{name}.criteria", used)
    for tool, others in settings.alternatives.items():
        check_tools(scenario, "executor.alternatives", (tool, *others))


define_family(
    Family(
        "executor", Executor, settings=ExecutorSettings, prepare=_prepare, check=_check,
        actions=(execute_step, take_note, run_tests), tools=TOOLS,
    )
)  # fmt: skip
