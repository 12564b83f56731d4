"""Defines the words of scenarios for goals, tasks and user agents; imported when a file uses one."""

from sim.kinds.goals import agents, health, section

__all__ = ["agents", "health", "section"]
