"""Defines the words of scenarios for agents that answer in chats; imported when a file uses one."""

from sim.kinds.chat import agents, section

__all__ = ["agents", "section"]
