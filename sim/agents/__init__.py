"""Agent families. `policy` (rules, seed 004) and `toolbox` (the functions its rules can call)."""

from sim.agents.policy import PolicyAgent, PolicyRule, Rulebook
from sim.agents.toolbox import Toolbox

__all__ = ["PolicyAgent", "PolicyRule", "Rulebook", "Toolbox"]
