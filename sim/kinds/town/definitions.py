"""Defines the words of scenarios for the town; imported when a file uses one."""

from sim.kinds.town import family

__all__ = ["family"]
