"""Defines the words of scenarios for generative agents; imported when a file uses one."""

from sim.kinds.generative import agent, section

__all__ = ["agent", "section"]
