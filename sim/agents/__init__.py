"""Kinds of agents.

Modules: `family` (the registry of kinds), `packages` (what installed packages offer), `policy` (agents that follow
rules), `toolbox` (the functions that rules can call), `engine` (the loop of model calls and tool calls), `ask` (the
action that asks a model), `interview` (questions that agents do not notice), `latest_events` (what agents did
lately), `measures` (what `sim score` measures),
`conversation` (users, conversations and messages), `assistant` (agents that answer people), `chat` (agents that answer
in chats), `executor` (agents that work on tasks until their goals are reached), `goals` (goals, tasks and user agents),
`sop` (employees that follow procedures), `town` (agents that replay the trace of a generated town).
"""

from sim.agents.family import FAMILIES, AgentPlan, Family, WorldPlan, allow_families, define_family
from sim.agents.policy import PolicyAction, PolicyAgent, PolicyRule, RuleSet
from sim.agents.toolbox import Toolbox

__all__ = [
    "FAMILIES", "AgentPlan", "Family", "PolicyAction", "PolicyAgent", "PolicyRule", "RuleSet", "Toolbox", "WorldPlan",
    "allow_families", "define_family",
]  # fmt: skip
