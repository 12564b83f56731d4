"""Defines the words of scenarios for feeds; imported when a file uses one."""

from sim.kinds.feed import section, user

__all__ = ["section", "user"]
