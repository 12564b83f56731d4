"""Agent families. `policy` (rules, seed 004) and `toolbox` (the functions its rules can call)."""

from sim.agents.policy import PolicyAction, PolicyAgent, PolicyRule, Rulebook
from sim.agents.toolbox import Toolbox

__all__ = ["PolicyAction", "PolicyAgent", "PolicyRule", "Rulebook", "Toolbox"]
