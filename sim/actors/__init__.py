"""Agents and the loops that run them.

Each agent is an actor with a state machine, wake conditions, a mailbox and a supervisor. May import: `world` and
below. Read first: `loop.py` (the loop of one agent), then `wake.py` (what it sleeps for) and `manager.py` (all loops
of a world).
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
