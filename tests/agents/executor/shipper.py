"""A tool with an unsafe effect outside, and the command in a process of its own, which tests kill at a crash point.

The variable `SIM_KILL` holds JSON; see `tests.killing`.
"""

import itertools
import json
import os
import signal
import sys
from typing import Any

import anyio

from sim import Action, Agent, World
from sim.base import crashpoints
from sim.cli import main
from sim.tools import Tool, Tools

PLAN = json.loads(os.environ.get("SIM_KILL", "{}"))
PARAMETERS = {"type": "object", "properties": {"parcel": {"type": "string"}}, "required": ["parcel"]}


async def ship(arguments: Any) -> Any:
    """Send a parcel: a deed outside that must be done once."""
    async with await anyio.open_file(PLAN["ledger"], "a") as file:
        await file.write(f"{arguments['parcel']}\n")
    return {"done": arguments["parcel"]}


class Depot(Agent):
    """Brings the tool `depot.ship`, and does nothing."""

    def __init__(self, agent_id: str, world: World, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        Tools.on(world).add(Tool("depot.ship", ship, "Send.", PARAMETERS, runs="effect", safety="unsafe", latency="5s"))

    async def decide_action(self) -> Action | None:
        return Action("stop")


def _hook(point: str, n: int) -> Any:
    reached = itertools.count(1)

    def hook(name: crashpoints.Point) -> None:
        if name == point and next(reached) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


if __name__ == "__main__":
    from tests.agents.executor import shipper  # the module of the agents, which is another one than __main__

    shipper.PLAN = PLAN
    if "point" in PLAN:
        crashpoints.hook = _hook(PLAN["point"], PLAN["n"])
    main(sys.argv[1:])
