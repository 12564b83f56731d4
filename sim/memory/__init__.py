"""What agents remember: memories that are recalled by their words, loaded into prompts, summarised and forgotten.

Modules: `memory` (the record), `memories` (those of one agent), `index` (ranks texts by their words), `load` (chooses
for a prompt), `pruning`, `archive` (past sessions), `time_frame`, `settings`, `service` (those of a world),
`actions`, `section` (the key of a scenario), `views`.
"""

from typing import TYPE_CHECKING

from sim.late import late_names

if TYPE_CHECKING:
    from sim.memory.archive import Session, SessionHit
    from sim.memory.load import LoadedMemories
    from sim.memory.memory import Memory, Source
    from sim.memory.pruning import PruneReport
    from sim.memory.service import Hit, Memories
    from sim.memory.settings import MemorySettings
    from sim.memory.time_frame import civil_time_frame, simulated_time_frame

__all__ = [
    "Hit", "LoadedMemories", "Memories", "Memory", "MemorySettings", "PruneReport", "Session", "SessionHit", "Source",
    "civil_time_frame", "simulated_time_frame",
]  # fmt: skip

_HOMES = {
    "archive": "Session SessionHit",
    "load": "LoadedMemories",
    "memory": "Memory Source",
    "pruning": "PruneReport",
    "service": "Hit Memories",
    "settings": "MemorySettings",
    "time_frame": "civil_time_frame simulated_time_frame",
}

if not TYPE_CHECKING:
    __getattr__ = late_names(__name__, _HOMES)
