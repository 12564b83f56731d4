"""What agents remember: memories that are recalled by their words, loaded into prompts, summarised and forgotten.

Modules: `memory` (the record), `memories` (those of one agent), `index` (ranks texts by their words), `load` (chooses
for a prompt), `pruning`, `archive` (past sessions), `time_frame`, `settings`, `service` (those of a world),
`actions`, `section` (the key of a scenario), `views`.
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
