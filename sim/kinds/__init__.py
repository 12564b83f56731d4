"""The kinds of agents that come with `sim`, each as a package of a user could be.

A kind has its settings, actions, tools and views. No kind imports another. Importing this package makes all of them
known. May import: `agents` and below. Read first: `town` (the smallest), then `sop/employee.py`.
"""

from sim.kinds import assistant, chat, executor, goals, sop, town

__all__ = ["assistant", "chat", "executor", "goals", "sop", "town"]
