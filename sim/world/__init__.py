"""What agents share, and actions, which are the only way to change it.

May import: `record` and below. Read first: `world.py` (holds all parts), `dispatcher.py` (applies actions),
`action.py` (defines kinds of action).
"""

from sim.world.action import DONE, NOOP, Action, ActionHandler, ActionResult, Refused, Sharing
from sim.world.artifact import Artifact
from sim.world.message import Message
from sim.world.places import Places
from sim.world.section import Range, Section, define_section
from sim.world.service import Service, Warned
from sim.world.space import Sighting, Space
from sim.world.world import Inhabitant, World

from sim.world.calendar import CALENDAR  # it imports the world, so it comes after it  # isort: skip

__all__ = [
    "CALENDAR", "DONE", "NOOP", "Action", "ActionHandler", "ActionResult", "Artifact", "Inhabitant", "Message",
    "Places", "Range", "Refused", "Section", "Service", "Sharing", "Sighting", "Space", "Warned", "World",
    "define_section",
]  # fmt: skip
