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
        PauseReason,
        WakeCondition,
    )
    from sim.errors import ScenarioError, SimError, UsageError
    from sim.events import Event, EventBus
    from sim.kernel import Effect, Outcome, perform, sleep
    from sim.resources import RateTracker
    from sim.runner import ReplayResult, RunResult, SimulationRunner, branch, replay, resume, run, run_async
    from sim.scenario import Scenario, load
    from sim.world import Action, ActionResult, Message, World

__version__ = "0.1.0"

__all__ = [
    "Action", "ActionResult", "Agent", "AgentLoop", "AgentLoopConfig", "AgentLoopManager", "AgentState", "Effect",
    "Event", "EventBus", "Message", "Outcome", "PauseReason", "RateTracker", "ReplayResult", "RunResult", "Scenario",
    "ScenarioError", "SimError", "SimulationRunner", "UsageError", "WakeCondition", "World", "branch", "load",
    "perform", "replay", "resume", "run", "run_async", "sleep",
]  # fmt: skip

_HOMES = {
    "actors": "Agent AgentLoop AgentLoopConfig AgentLoopManager AgentState PauseReason WakeCondition",
    "errors": "ScenarioError SimError UsageError",
    "events": "Event EventBus",
    "kernel": "Effect Outcome perform sleep",
    "resources": "RateTracker",
    "runner": "ReplayResult RunResult SimulationRunner branch replay resume run run_async",
    "scenario": "Scenario load",
    "world": "Action ActionResult Message World",
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
