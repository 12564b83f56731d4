"""Defines the words of scenarios for goals, tasks and user agents; imported when a file uses one."""

from sim.agents.goals import agents, health, section

__all__ = ["agents", "health", "section"]
