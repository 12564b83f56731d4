"""The base class of executors: each part of a step can be replaced in a subclass."""

from typing import Any, ClassVar

from sim.actors import Agent
from sim.actors.inputs import PERSON
from sim.base.permissions import Permission
from sim.kernel import to_duration
from sim.kernel.codec import JsonObject
from sim.kinds.executor.execution import Execution
from sim.kinds.executor.loop import StepDraft, execute_with_retry, should_terminate, update_state
from sim.kinds.executor.loop_detection import LoopDetector
from sim.kinds.executor.orchestrator import evaluate_confidence, execute_tool
from sim.kinds.executor.planning import PlannedStep, Planner
from sim.kinds.executor.records import Ending, PlannedAction, Result, Step, ValidationResult
from sim.kinds.executor.service import WAKE_UP, Executors
from sim.kinds.executor.settings import ExecutorSettings
from sim.kinds.executor.validation import Validator
from sim.world import Action, World


class BaseAgent(Agent):
    """An agent that works on tasks step by step, until their goals are reached or something ends them.

    A subclass can give other classes for the parts, or override a part of a step. An agent keeps nothing between two
    steps: what it knows is in the service `Executors`, so that its object can be replaced.

    Args:
        agent_id, world, group, permission, params: see `Agent`.
        settings: what it is.

    Attributes:
        planner: the class that plans its steps.
        validator: the class that finds out what a step has changed.
        detector: the class of its loop detector.
        loop_detector: judges whether one of its tasks is in a loop.
    """

    abilities = frozenset({"do tasks"})
    planner: ClassVar[type[Planner]] = Planner
    validator: ClassVar[type[Validator]] = Validator
    detector: ClassVar[type[LoopDetector]] = LoopDetector

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        params: Any = None,
        settings: ExecutorSettings,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission, params=params)
        self.settings = settings
        self.loop_detector = self.detector(Executors.of(world).settings.monitoring)

    async def on_start(self) -> None:
        """Offer itself for tasks of its type."""
        Executors.of(self.world).register(self.agent_id, self.settings)

    def on_stop(self) -> None:
        """Give its tasks back."""
        Executors.of(self.world).leave(self.agent_id, last=self.loop.stop_reason == "end")

    def about(self) -> JsonObject:
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
        wake: list[JsonObject] = [{"message": True}]
        due = executors.next_due_ns(self.agent_id)
        if due is not None:
            wake.append({"until": to_duration(due)})
        return Action("sleep", {"condition": {"any": wake}})

    # -- the parts of a step, in their order

    async def plan_next_step(self, planner: Planner) -> PlannedStep | None:
        """Plan the action of a step; None if there is no plan.

        Args:
            planner: an instance of `planner`, for this step.
        """
        return await planner.first()

    async def execute_step_with_retry(self, execution: Execution, draft: StepDraft, plan: PlannedStep | None) -> None:
        """Execute a plan; after each failure wait, and try a different one.

        Args:
            execution: the task and its world.
            draft: the step; it gets the attempts.
            plan: the first plan; None: there was none.
        """
        await execute_with_retry(execution, draft, plan)

    async def execute_via_orchestrator(self, execution: Execution, action: PlannedAction) -> Result:
        """Make the call of a tool: it is checked, approved if a rule demands it, audited, and run.

        Args:
            execution: the task and its world.
            action: the call.
        """
        return await execute_tool(execution, action)

    async def validate_step(self, execution: Execution, action: PlannedAction, result: Result) -> ValidationResult:
        """Return what a step has changed.

        Args:
            execution: the task and its world.
            action: its last action.
            result: how it ended.
        """
        return await self.validator(execution).validate(action, result)

    def update_state(self, execution: Execution, draft: StepDraft, validation: ValidationResult) -> Step:
        """Add a step to the state of its task, and return the step.

        Args:
            execution: the task and its world.
            draft: the step.
            validation: what it has changed.
        """
        return update_state(execution, draft, validation)

    async def request_confidence_evaluation(self, execution: Execution) -> float | None:
        """Return the confidence that the task succeeds, from 0 to 1; None: it is not known, and asked for later.

        Args:
            execution: the task and its world.
        """
        return await evaluate_confidence(execution)

    def should_terminate(self, execution: Execution, validation: ValidationResult | None) -> Ending | None:
        """Return why a task ends now; None if it continues.

        Args:
            execution: the task and its world.
            validation: that of the step that was done; None: none was.
        """
        return should_terminate(execution, validation)
