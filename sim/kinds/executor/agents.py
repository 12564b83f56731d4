"""The kind of agents `executor`, and what people do with tasks."""

from typing import Any

from sim.agents.family import Family, WorldPlan, define_family, family_for, has_ability
from sim.agents.tool_check import check_tools
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.permissions import Permission
from sim.kernel.codec import Json
from sim.kinds.executor.base_agent import BaseAgent
from sim.kinds.executor.loop import execute_step
from sim.kinds.executor.service import Executors
from sim.kinds.executor.settings import ExecutorSettings
from sim.kinds.executor.testing import run_tests
from sim.kinds.executor.tools import TOOLS
from sim.world import Inhabitant, Refused, World
from sim.world.action import action


@action("take_note", permission=Permission.GUEST, everywhere=False, draws=False)
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


@action("run_task", everywhere=False, draws=False)
def run_task(
    world: World, agent: Inhabitant, name: str, goal: str, agent_type: str, criteria: Any = (),
    files: Any = (), tests: str | None = None, depends_on: Any = (), project: str = "project", priority: int = 0,
) -> dict[str, Json]:  # fmt: skip
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
    for key, texts in lists.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
            raise Refused(f"{key} is a list of texts, not {texts!r:.60}")
    executors = Executors.of(world)
    parent = executors.states.get(executors.current.get(agent.agent_id, 0))  # if an executor calls it in a step
    return executors.take(
        agent.agent_id, name, goal, agent_type, **lists, tests=tests, project=project, priority=priority, parent=parent
    )


@action("check_confidence", everywhere=False, draws=False)
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


def _prepare(plan: WorldPlan) -> None:
    """Fill the workspaces, and add the tasks of the scenario when the run begins."""
    executors, world = Executors.of(plan.world), plan.world
    if executors.types:
        return  # another kind of executors has prepared the world
    entries = [entry for entry in plan.scenario.agents if isinstance(entry.settings, ExecutorSettings)]
    executors.types = tuple(sorted({entry.settings.type for entry in entries}))

    def begin() -> None:
        executors.workspace.fill()
        for name in executors.settings.in_order():
            executors.add("scenario", name, executors.settings.tasks[name])

    kernel = world.kernel
    source = kernel.source_for("tasks")
    # The inner call runs one delta after the agents were added, so that all executors are known by then.
    kernel.call_at(kernel.now, lambda: kernel.call_at(kernel.now, begin, source), source)


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse executors that cannot work, before the run."""
    entries = [entry for entry in scenario.agents if has_ability(entry, "do tasks")]
    if any(entry.settings is not None and family_for(entry) is None for entry in scenario.agents):
        return  # this kind is not imported here; its agents could be executors
    settings = scenario.sections.get("executor")
    if settings is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} works on tasks, but there are none", hint="add `executor:`")
        return
    if not entries:
        hint = "add {name: coder, kind: executor, settings: {type: coder}} to `agents`"
        raise UsageError("`executor` needs agents that do its tasks", hint=hint)
    if scenario.models is None:
        raise UsageError(f"agents.{entries[0].name} asks language models, but there are none", hint="add `models: {}`")
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
        "executor",
        BaseAgent,
        settings=ExecutorSettings,
        prepare=_prepare,
        check=_check,
        actions=(execute_step, take_note, run_tests),
        tools=TOOLS,
        draws=(),
    )
)
