"""`sim`: an actor-style simulation runtime for populations of autonomous agents.

Layout, from the top: `cli` (the command), `runner` (one run, autonomous or in ticks), `scenario` (YAML files), `agents` (the
families), `actors` (agents and their loops), `world` (what they share), `store` (the run file), `resources`, `events`,
`kernel` (actors, time, order). A package imports only those below it.
"""

from sim.actors import Agent, AgentLoop, AgentLoopConfig, AgentLoopManager, AgentState, PauseReason, WakeCondition
from sim.errors import ScenarioError, SimError, UsageError
from sim.events import Event, EventBus
from sim.kernel import Effect, Outcome, perform, sleep
from sim.resources import RateTracker
from sim.runner import RunResult, SimulationRunner, run, run_async
from sim.scenario import Scenario, load
from sim.world import Action, ActionResult, Message, World

__version__ = "0.1.0"

__all__ = [
    "Action", "ActionResult", "Agent", "AgentLoop", "AgentLoopConfig", "AgentLoopManager", "AgentState", "Effect", "Event",
    "EventBus", "Message", "Outcome", "PauseReason", "RateTracker", "RunResult", "Scenario", "ScenarioError", "SimError",
    "SimulationRunner", "UsageError", "WakeCondition", "World", "load", "perform", "run", "run_async", "sleep",
]  # fmt: skip
