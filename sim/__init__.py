"""`sim`: an actor-style simulation runtime for populations of autonomous agents.

Layout, from the top: `cli` (the command), `runner` (one run, autonomous or in ticks), `scenario` (YAML files),
`agents` (the
families), `actors` (agents and their loops), `world` (what they share), `store` (the run file), `resources`, `events`,
`kernel` (actors, time, order). A package imports only those below it.

The names below are imported when they are first used: `import sim` itself costs next to nothing.
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
    from sim.errors import Interrupt, ScenarioError, SimError, UsageError
    from sim.events import Event, EventBus
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
    from sim.resources import (
        Container,
        Preempted,
        PreemptiveResource,
        PriorityResource,
        RateTracker,
        Resource,
        Store,
    )
    from sim.runner import ReplayResult, RunResult, SimulationRunner, branch, replay, resume, run, run_async
    from sim.scenario import Scenario, load
    from sim.standalone import World
    from sim.world import Action, ActionResult, Message, Tool

__version__ = "0.1.0"

__all__ = [
    "Action", "ActionResult", "Actor", "Agent", "AgentLoop", "AgentLoopConfig", "AgentLoopManager", "AgentState",
    "Container", "Control", "Effect", "Event", "EventBus", "Interrupt", "Kernel", "Latch", "Message", "Outcome",
    "PauseReason", "Preempted", "PreemptiveResource", "PriorityResource", "Queue", "RateTracker", "ReplayResult",
    "Resource", "RunResult", "Scenario", "ScenarioError", "Signal", "SimError", "SimulationRunner", "Store", "Tool",
    "UsageError", "WakeCondition", "World", "all_of", "branch", "first_of", "join", "load", "perform", "replay",
    "resume", "run", "run_async", "run_until", "sleep",
]  # fmt: skip

_HOMES = {
    "actors": "Agent AgentLoop AgentLoopConfig AgentLoopManager AgentState Control PauseReason WakeCondition",
    "errors": "Interrupt ScenarioError SimError UsageError",
    "events": "Event EventBus",
    "kernel": "Actor Effect Kernel Latch Outcome Queue Signal all_of first_of join perform run_until sleep",
    "resources": "Container Preempted PreemptiveResource PriorityResource RateTracker Resource Store",
    "runner": "ReplayResult RunResult SimulationRunner branch replay resume run run_async",
    "scenario": "Scenario load",
    "standalone": "World",
    "world": "Action ActionResult Message Tool",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # else every name would be known to the type checker

    def __getattr__(name):
        """Import a public name when it is first used (PEP 562)."""
        if name not in _HOME:
            raise AttributeError(f"module 'sim' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"sim.{_HOME[name]}"), name)
        return value

    def __dir__():
        """Show the public names too, also those that were not used yet."""
        return sorted({*globals(), *__all__})
