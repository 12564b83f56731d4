"""The world: what agents share and how they change it.

`world` holds the parts; `dispatcher` is the one way to change it, by actions: `action` defines what they are, `actions`
has the kinds of every world, `costs` what they take. `artifact`, `places`, `space` and `message` are the things in it.
"""

from sim.world.action import DONE, NOOP, Action, ActionHandler, ActionResult, Refused, Sharing
from sim.world.artifact import Artifact
from sim.world.message import Message
from sim.world.places import Places
from sim.world.space import Sighting, Space
from sim.world.tool import Tool
from sim.world.world import Inhabitant, World

__all__ = [
    "DONE", "NOOP", "Action", "ActionHandler", "ActionResult", "Artifact", "Inhabitant", "Message", "Places", "Refused",
    "Sharing", "Sighting", "Space", "Tool", "World",
]  # fmt: skip
