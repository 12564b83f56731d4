"""What agents remember: memories that are recalled by their words, loaded into prompts, summarised and forgotten.

May import: `actors`, `host` and below. Read first: `service.py` (those of a world), then `index.py` (ranks texts by
their words) and `load.py` (chooses for a prompt).
"""

from sim.memory import section, views
from sim.memory.archive import Session, SessionHit
from sim.memory.load import LoadedMemories
from sim.memory.memory import Memory, Source
from sim.memory.pruning import PruneReport
from sim.memory.service import Hit, Memories
from sim.memory.settings import MemorySettings
from sim.memory.time_frame import civil_time_frame, simulated_time_frame

__all__ = [
    "Hit", "LoadedMemories", "Memories", "Memory", "MemorySettings", "PruneReport", "Session", "SessionHit", "Source",
    "civil_time_frame", "section", "simulated_time_frame", "views",
]  # fmt: skip
