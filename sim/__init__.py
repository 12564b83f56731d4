"""`sim`: an actor-style simulation runtime for populations of autonomous agents.

ARCHITECTURE.md has a map of the packages, which import downwards only. The public names below are imported at first
use, so that `import sim` itself is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.actors import (
        Agent,
        AgentLoop,
        AgentLoopConfig,
        AgentLoopManager,
        AgentState,
        Control,
        PauseReason,
        WakeCondition,
    )
    from sim.agents.interview import Question, SurveyAnswer, interview, interview_prompt, record_answer
    from sim.agents.metric_functions import metric
    from sim.base.errors import (
        ActorError,
        Cancelled,
        CausalityError,
        ClosedError,
        DivergenceError,
        ForeignAwaitError,
        Interrupt,
        KernelError,
        LimitError,
        LivelockError,
        NameTakenError,
        OutOfMemoryError,
        RecordWarning,
        RunError,
        ScenarioError,
        SimError,
        TransitionError,
        UsageError,
    )
    from sim.base.pages import Chart
    from sim.base.registry import Definitions
    from sim.events import Event, EventBus
    from sim.experiments.attribution.deciding import why
    from sim.experiments.attribution.explanation import Explanation
    from sim.experiments.attribution.turning import TurningPoints, turning_point
    from sim.experiments.scoring import ScoreCost, Scores, score, score_async
    from sim.experiments.testing import TestReport, test
    from sim.experiments.testing import property as property  # noqa: A004
    from sim.inspect.analysis import (
        AgentRecord,
        AgentRecords,
        Experiment,
        Run,
        RunList,
        arms,
        arms_async,
        bench,
        bench_async,
        diff,
        fit,
        fit_async,
        runs,
        sweep,
        sweep_async,
    )
    from sim.inspect.analysis import open as open  # noqa: A004
    from sim.inspect.compare.comparison import Comparison
    from sim.inspect.play import PlayServer, play
    from sim.kernel import (
        Actor,
        Effect,
        Kernel,
        Latch,
        Outcome,
        Queue,
        Signal,
        all_of,
        first_of,
        join,
        perform,
        run_until,
        sleep,
    )
    from sim.llm import ModelError
    from sim.record.integrity import Integrity
    from sim.resources import (
        Container,
        Preempted,
        PreemptiveResource,
        PriorityResource,
        RateTracker,
        Resource,
        Store,
    )
    from sim.runner import (
        ReplayResult,
        RunController,
        RunResult,
        RunSummary,
        SimulationRunner,
        Survey,
        SurveyCost,
        ask,
        ask_async,
        branch,
        branch_async,
        replay,
        replay_async,
        resume,
        resume_async,
        run,
        run_async,
    )
    from sim.scenario.loading import load
    from sim.scenario.schema import Scenario
    from sim.standalone import World
    from sim.tools.registry import Tools
    from sim.tools.tool import Tool, tool
    from sim.world import Action, ActionResult, Message, Refused, Service

__version__ = "0.1.0"

__all__ = [
    "Action", "ActionResult", "Actor", "ActorError", "Agent", "AgentLoop", "AgentLoopConfig", "AgentLoopManager",
    "AgentRecord", "AgentRecords", "AgentState", "Cancelled", "CausalityError", "Chart", "ClosedError",
    "Comparison", "Container", "Control", "Definitions", "DivergenceError", "Effect", "Event", "EventBus",
    "Experiment", "Explanation", "ForeignAwaitError", "Integrity", "Interrupt", "Kernel", "KernelError",
    "Latch", "LimitError", "LivelockError", "Message", "ModelError", "NameTakenError", "OutOfMemoryError", "Outcome",
    "PauseReason", "PlayServer", "Preempted", "PreemptiveResource", "PriorityResource", "Question", "Queue",
    "RateTracker", "RecordWarning", "Refused", "ReplayResult", "Resource", "Run", "RunController", "RunError",
    "RunList", "RunResult", "RunSummary", "Scenario", "ScenarioError", "ScoreCost", "Scores", "Service", "Signal",
    "SimError", "SimulationRunner", "Store", "Survey", "SurveyAnswer", "SurveyCost", "TestReport", "Tool", "Tools",
    "TransitionError", "TurningPoints", "UsageError", "WakeCondition", "World", "all_of", "arms", "arms_async", "ask",
    "ask_async", "bench", "bench_async", "branch", "branch_async", "diff", "first_of", "fit", "fit_async",
    "interview", "interview_prompt", "join", "load", "metric", "perform", "play", "record_answer", "replay",
    "replay_async", "resume", "resume_async", "run", "run_async", "run_until", "runs", "score", "score_async",
    "sleep", "sweep", "sweep_async", "test", "tool", "turning_point", "why",
]  # fmt: skip
"""The public names but `open` and `property`, so that `from sim import *` does not hide the built-in functions."""

_HOMES = {
    "actors": "Agent AgentLoop AgentLoopConfig AgentLoopManager AgentState Control PauseReason WakeCondition",
    "agents.interview": "Question SurveyAnswer interview interview_prompt record_answer",
    "agents.metric_functions": "metric",
    "inspect.analysis": "AgentRecord AgentRecords Experiment Run RunList arms arms_async bench bench_async diff fit "
    "fit_async open runs sweep sweep_async",
    "inspect.compare.comparison": "Comparison",
    "inspect.play": "PlayServer play",
    "base.errors": "ActorError Cancelled CausalityError ClosedError DivergenceError ForeignAwaitError Interrupt "
    "KernelError LimitError LivelockError NameTakenError OutOfMemoryError RecordWarning RunError ScenarioError "
    "SimError TransitionError UsageError",
    "events": "Event EventBus",
    "experiments.attribution.deciding": "why",
    "experiments.attribution.explanation": "Explanation",
    "experiments.attribution.turning": "TurningPoints turning_point",
    "experiments.scoring": "ScoreCost Scores score score_async",
    "experiments.testing": "TestReport property test",
    "kernel": "Actor Effect Kernel Latch Outcome Queue Signal all_of first_of join perform run_until sleep",
    "base.pages": "Chart",
    "base.registry": "Definitions",
    "resources": "Container Preempted PreemptiveResource PriorityResource RateTracker Resource Store",
    "runner": "ReplayResult RunResult RunController RunSummary SimulationRunner Survey SurveyCost ask branch replay "
    "resume run ask_async branch_async replay_async resume_async run_async",
    "scenario": "Scenario load",
    "standalone": "World",
    "record.integrity": "Integrity",
    "tools": "Tool Tools tool",
    "world": "Action ActionResult Message Refused Service",
    "llm": "ModelError",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # otherwise a type checker would accept every name

    def __getattr__(name):
        """Import a public name at its first use (PEP 562)."""
        if name not in _HOME:
            raise AttributeError(f"module 'sim' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"sim.{_HOME[name]}"), name)
        return value

    def __dir__():
        """Include public names that are not imported yet."""
        return sorted({*globals(), *_HOME})
