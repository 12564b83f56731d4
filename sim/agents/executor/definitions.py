"""Defines the words of scenarios for agents that work on tasks; imported when a file uses one."""

from sim.agents.executor import agents, section

__all__ = ["agents", "section"]
