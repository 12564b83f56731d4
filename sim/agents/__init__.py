"""What all kinds of agents share, and the agents that follow rules.

These are the registry of kinds, the engine of model and tool calls, conversations, interviews, and what installed
packages offer. May import: `llm`, `tools`, `memory` and below. Read first: `family.py` (the registry), `policy.py`
(agents that follow rules), `engine/core_loop.py` (calls of models and tools).
"""

from sim.agents.family import FAMILIES, AgentPlan, Family, WorldPlan, allow_families, define_family
from sim.agents.policy import PolicyAction, PolicyAgent, PolicyRule, RuleSet
from sim.agents.toolbox import Toolbox

__all__ = [
    "FAMILIES", "AgentPlan", "Family", "PolicyAction", "PolicyAgent", "PolicyRule", "RuleSet", "Toolbox", "WorldPlan",
    "allow_families", "define_family",
]  # fmt: skip
