"""Goal-based executors: plan, execute, validate, with loop detection, confidence gates and help (seed 003).

Modules: `settings` (what a scenario says of them), `records` (the state of a task, its steps), `service` (all that is
known, and who works on what), `task_time` (timeouts), `execution` (a task under way, and its calls of models),
`planning`, `loop` (one step), `orchestrator` (calls of tools, confidence, gates, help), `validation`,
`loop_detection`, `workspace` (files), `testing` and `pytest_driver` (test runs), `tools`, `agents`, `section`,
`views` and `story`.
"""

from sim.agents.executor import views  # noqa: F401 - registers the views
from sim.agents.executor.agents import Executor
from sim.agents.executor.records import Step, TaskState
from sim.agents.executor.section import EXECUTOR
from sim.agents.executor.service import Executors
from sim.agents.executor.settings import Criterion, ExecutionTask, ExecutorSettings, ExecutorsSettings, Project

__all__ = [
    "EXECUTOR", "Criterion", "ExecutionTask", "Executor", "ExecutorSettings", "Executors", "ExecutorsSettings",
    "Project", "Step", "TaskState",
]  # fmt: skip
