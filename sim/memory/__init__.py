"""What agents remember: memories that are recalled by their words, loaded into prompts, summarised and forgotten.

May import: `actors`, `host` and below. Read first: `service.py` (those of a world), then `index.py` (ranks texts by
their words) and `load.py` (chooses for a prompt).
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.memory.load import LoadedMemories
    from sim.memory.memory import Memory, Source
    from sim.memory.past_sessions import ArchivedSession, SessionHit
    from sim.memory.pruning import PruneReport
    from sim.memory.service import Hit, Memories
    from sim.memory.settings import MemorySettings
    from sim.memory.time_frame import civil_time_frame, simulated_time_frame

__all__ = [
    "ArchivedSession",
    "Hit",
    "LoadedMemories",
    "Memories",
    "Memory",
    "MemorySettings",
    "PruneReport",
    "SessionHit",
    "Source",
    "civil_time_frame",
    "simulated_time_frame",
]  # fmt: skip

_HOMES = {
    "past_sessions": "ArchivedSession SessionHit",
    "load": "LoadedMemories",
    "memory": "Memory Source",
    "pruning": "PruneReport",
    "service": "Hit Memories",
    "settings": "MemorySettings",
    "time_frame": "civil_time_frame simulated_time_frame",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
