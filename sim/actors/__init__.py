"""Agents and the loops that run them.

Modules: `agent` (the base class of agents), `loop` (the loop of one agent), `lifecycle` (start, stop, sleep and pause),
`state` (the state machine), `wake` (wake conditions), `actions` (`spawn`, `stop`, `sleep` and `rest`), `config`,
`mailbox`, `supervisor` (the restart limit), `manager` (all loops of a world), `health` (the health monitor), `control`
(calls of the host program), `inputs` (applies these calls inside the run), `error_reports` (logs what fails),
`result_checks` (what agents return).
"""

from sim.actors.agent import Agent
from sim.actors.config import AgentLoopConfig
from sim.actors.control import Control
from sim.actors.health import HealthMonitor
from sim.actors.loop import AgentLoop
from sim.actors.mailbox import Mailbox
from sim.actors.manager import AgentLoopManager
from sim.actors.state import AgentState, PauseReason
from sim.actors.wake import WakeCondition

__all__ = [
    "Agent", "AgentLoop", "AgentLoopConfig", "AgentLoopManager", "AgentState", "Control", "HealthMonitor", "Mailbox",
    "PauseReason",
    "WakeCondition",
]  # fmt: skip
