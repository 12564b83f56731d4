"""The world: the data that agents share, and the actions that change it.

Modules: `world` (holds all parts), `dispatcher` (applies actions, the one way to change the world), `action` (defines
kinds of action), `actions` (the built-in kinds), `costs` (the prices of actions), `artifact`, `places`, `space`,
`message`, `tasks`, `service` (parts that higher layers add), `section` (keys of a scenario file that add services),
`waits` (known waits, for the health monitor).
"""

from sim.world.action import DONE, NOOP, Action, ActionHandler, ActionResult, Refused, Sharing
from sim.world.artifact import Artifact
from sim.world.message import Message
from sim.world.places import Places
from sim.world.section import Range, Section, define_section
from sim.world.service import Service, Warned
from sim.world.space import Sighting, Space
from sim.world.world import Inhabitant, World

from sim.world.calendar import CALENDAR  # after the world, which it fills in  # isort: skip

__all__ = [
    "CALENDAR", "DONE", "NOOP", "Action", "ActionHandler", "ActionResult", "Artifact", "Inhabitant", "Message",
    "Places", "Range", "Refused", "Section", "Service", "Sharing", "Sighting", "Space", "Warned", "World",
    "define_section",
]  # fmt: skip
