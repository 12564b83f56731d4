"""Defines the words of scenarios for games; imported when a file uses one."""

from sim.kinds.games import player, section

__all__ = ["player", "section"]
