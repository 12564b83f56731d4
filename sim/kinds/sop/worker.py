"""Step workers: agents that do the steps of tasks one at a time, from one queue for all of them."""

import attrs

from sim.actors import Agent
from sim.agents.engine.prompt import section
from sim.agents.family import Family, define_family
from sim.base.errors import Interrupt, RunError, SimError
from sim.base.permissions import Permission
from sim.base.text import of_error
from sim.kernel.codec import JsonObject
from sim.kinds.sop.channels import Channels
from sim.kinds.sop.cycle import load_memories
from sim.kinds.sop.service import Sops
from sim.kinds.sop.settings import Step, WorkerSettings
from sim.tools.approvals import Approvals
from sim.world import Action, ActionResult, Inhabitant, Refused, World
from sim.world.action import action
from sim.world.tasks import Task


class StepWorker(Agent):
    """An agent that takes the step that has waited longest and does it, for the employee whose task it is.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: how it is watched over.
    """

    abilities = frozenset({"do steps"})

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: WorkerSettings | None = None,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        Sops.of(world).employ(agent_id, (settings or WorkerSettings()).interval)

    async def decide_action(self) -> Action:
        """Do the first step in the queue; else sleep until one is queued."""
        while self.mailbox.take() is not None:
            pass  # messages mean nothing to it
        queue = Sops.of(self.world).queue
        if queue:
            return Action("run_step", {"task": queue[0]})
        return Action("sleep", {"condition": {"event": "sop.step.queued"}})


@attrs.frozen
class _Outcome:
    """How a step ended: `done`, `failed`, `waiting`, `skipped` or `dropped`."""

    step: str
    status: str
    error: str | None = None


async def _run_step(world: World, agent: Inhabitant, task: int) -> _Outcome:
    """Take a step out of the queue, do it, and keep its result."""
    sops, record = Sops.of(world), world.tasks.get(task)
    sops.claim(task, agent.agent_id)
    try:
        _, step, _ = sops.step(task)
        status, error = await _do(world, sops, agent, record, step)
    finally:
        sops.unclaim(task, agent.agent_id)  # a step during which the worker was stopped is queued again
    return _Outcome(step.name, status, error)


@action("run_step", wait=_run_step, ends=True, everywhere=False, draws=False)
def run_step(world: World, agent: Inhabitant, outcome: _Outcome, task: int) -> JsonObject:
    """Do the step of a task that is in the queue.

    Args:
        task: the number of the task.
    """
    return attrs.asdict(outcome)


async def _do(world: World, sops: Sops, agent: Inhabitant, task: Task, step: Step) -> tuple[str, str | None]:
    """Do a step; return how it ended, and the error."""
    if not task.open or task.status == "paused":  # it was changed while the step was in the queue
        sops.drop(task.id)
        return "dropped", None
    try:
        if step.when is not None and not sops.evaluate(task, step.when):
            sops.passed(task, None, agent.agent_id, skipped=True)
            return "skipped", None
        if step.wait is not None:
            sops.wait(task, agent.agent_id)
            return "waiting", None
        if step.approval is not None:
            _ask_person(world, sops, agent, task, step)
            return "waiting", None
        result = await _perform(world, sops, agent, task, step)
    except (Interrupt, MemoryError, RunError):
        raise  # these concern the worker, the process or the run, not the step
    except Exception as error:  # any other: a step that stopped its worker would stop all workers, one after the other
        result = ActionResult(False, error=str(error) if isinstance(error, Refused | SimError) else of_error(error))
    task = world.tasks.get(task.id)  # it may have changed meanwhile
    if not task.open:
        sops.drop(task.id)
        return "dropped", None
    if result.success:
        sops.passed(task, result.data, agent.agent_id)
        return "done", None
    sops.failed(task, result.error or "it was refused", agent.agent_id)
    return "failed", result.error


async def _perform(world: World, sops: Sops, agent: Inhabitant, task: Task, step: Step) -> ActionResult:
    """Carry out the action, tool call, model call or post of a step."""
    if step.post is not None:
        channel = step.post.channel or sops.channel_of(task)
        text = sops.evaluate(task, step.post.text)
        Channels.of(world).post(channel, sops.title_of(task.assignee), str(text))
        return ActionResult(True, {"channel": channel})
    if step.model is not None:
        request = {name: sops.evaluate(task, value) for name, value in step.model.items()}
        memories = load_memories(world, sops, task.assignee or "")
        memory_text = "" if memories is None else section("memories", memories.text)
        request["system"] = "\n\n".join(part for part in (str(request.get("system", "")), memory_text) if part)
        return await world.execute(agent, Action("ask", request))
    arguments = {name: sops.evaluate(task, value) for name, value in step.args.items()}
    if step.tool is not None:
        return await world.execute(agent, Action("use_tool", {"tool": step.tool, "args": arguments}))
    assert step.action is not None, "a step is one of these"
    return await world.execute(agent, Action(step.action, arguments))


def _ask_person(world: World, sops: Sops, agent: Inhabitant, task: Task, step: Step) -> None:
    """Ask for approval and have the task wait; the worker continues with other steps."""
    question = str(sops.evaluate(task, step.approval))
    about: JsonObject = {"task": task.id, "step": step.name, "question": question}
    gate = Approvals.of(world).ask(agent, f"sop.{sops.progress[task.id].procedure}", about, question)
    sops.await_person(task, gate.id, agent.agent_id)


define_family(Family("step_worker", StepWorker, settings=WorkerSettings, actions=(run_step,), draws=()))
