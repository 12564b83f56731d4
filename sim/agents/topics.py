"""Topics of events of agents that other packages look for."""

from typing import Final

ANSWER: Final = "survey.answer"
"""The topic of the events that record answers."""
