"""The town: traces with the statistics that were published of Generative Agents' town."""

from sim.agents.town.generate import generate
from sim.agents.town.trace import Call, Path, Trace

__all__ = ["Call", "Path", "Trace", "generate"]
