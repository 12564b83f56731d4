"""Kinds of agents.

Modules: `policy` (policy agents, which follow rules), `toolbox` (the functions that rules can call), `town` (agents
that replay the trace of a generated town).
"""

from sim.agents.policy import PolicyAction, PolicyAgent, PolicyRule, RuleSet
from sim.agents.toolbox import Toolbox

__all__ = ["PolicyAction", "PolicyAgent", "PolicyRule", "RuleSet", "Toolbox"]
