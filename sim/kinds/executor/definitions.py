"""Defines the words of scenarios for agents that work on tasks; imported when a file uses one."""

from sim.kinds.executor import agents, section

__all__ = ["agents", "section"]
