"""Goal-based executors: plan, execute, validate, with loop detection, confidence gates and help.

`docs/seed_rules.md` lists their rules, each with the test that shows it.

Modules: `settings` (what a scenario says of them), `records` (the state of a task, its steps), `service` (all that is
known, and who works on what), `task_time` (timeouts), `execution` (a task under way, and its calls of models),
`planning`, `loop` (one step), `orchestrator` (calls of tools, confidence, gates, help), `validation`,
`loop_detection`, `base_agent` (the class of executors), `workspace` (files), `testing` and `pytest_driver` (test runs),
`tools`, `agents`, `section`, `views` and `story`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.executor.base_agent import BaseAgent
    from sim.kinds.executor.execution import Execution
    from sim.kinds.executor.loop import StepDraft
    from sim.kinds.executor.loop_detection import LoopDetector
    from sim.kinds.executor.planning import PlannedStep, Planner
    from sim.kinds.executor.records import CriterionResult, PlannedAction, Result, Step, TaskState, ValidationResult
    from sim.kinds.executor.service import Executors
    from sim.kinds.executor.settings import Criterion, ExecutionTask, ExecutorSettings, ExecutorsSettings, Project
    from sim.kinds.executor.validation import Validator

__all__ = [
    "BaseAgent", "Criterion", "CriterionResult", "Execution", "ExecutionTask", "ExecutorSettings",
    "Executors", "ExecutorsSettings", "LoopDetector", "PlannedAction", "PlannedStep", "Planner", "Project", "Result",
    "Step", "StepDraft", "TaskState", "ValidationResult", "Validator",
]  # fmt: skip

_HOMES = {
    "base_agent": "BaseAgent",
    "execution": "Execution",
    "loop": "StepDraft",
    "loop_detection": "LoopDetector",
    "planning": "PlannedStep Planner",
    "records": "CriterionResult PlannedAction Result Step TaskState ValidationResult",
    "service": "Executors",
    "settings": "Criterion ExecutionTask ExecutorSettings ExecutorsSettings Project",
    "validation": "Validator",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
