"""Actors: agents and the loops that drive them (seed 004).

`state` (the state machine), `wake` (what a sleeper waits for), `config`, `agent` (what a researcher subclasses),
`mailbox`, `supervisor` (how often a failing agent is retried), `lifecycle` (starting, stopping, sleeping, pausing),
`loop` (the loop itself), `manager` (all loops of a world), `health` (finds silent agents), `control` (the host
program's hand).
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
