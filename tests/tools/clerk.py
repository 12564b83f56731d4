"""Clerks who ask for approval, and the command in a process of its own, which tests kill at a crash point.

The variable `SIM_KILL` holds JSON: `point` and `n` (the process is killed at the n-th reach of the point), `ledger` (a
file to which the tool appends a line each time it is carried out) and `person` (whether a real person decides).
"""

import itertools
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import anyio

from sim import Action, Agent, World
from sim.base import crashpoints
from sim.cli import main
from sim.tools import Approvals, Tool, Tools
from sim.tools.approvals import DECISION

PLAN = json.loads(os.environ.get("SIM_KILL", "{}"))
CALLS = (70, 20, 90)
"""The amounts that a clerk pays back, one after the other; those above 50 need approval."""


async def refund(arguments: Any) -> Any:
    """Pay back: a deed outside that must be done once."""
    async with await anyio.open_file(PLAN["ledger"], "a") as file:
        await file.write(f"{arguments['order']} {arguments['amount']}\n")
    return {"done": f"{arguments['order']} {arguments['amount']}"}


PARAMETERS = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order", "amount"],
}


class Clerk(Agent):
    """Pays back each of the amounts, and keeps the answers in its state."""

    def __init__(self, agent_id: str, world: World, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        tools = Tools.on(world)
        if "shop.refund" not in tools.by_name:
            tools.add(
                Tool("shop.refund", refund, "Pay back.", PARAMETERS, runs="effect", safety="unsafe", latency="5s")
            )
            if PLAN.get("person"):
                threading.Thread(target=_decide, args=(world,), daemon=True).start()

    async def decide_action(self) -> Action | None:
        number = len(self.state.setdefault("answers", []))
        if number == len(CALLS):
            return Action("stop")
        order = f"{self.agent_id}-{number}"
        return Action("use_tool", {"tool": "shop.refund", "args": {"order": order, "amount": CALLS[number]}})

    async def execute_action(self, action: Action) -> Any:
        result = await super().execute_action(action)
        if action.kind == "use_tool":
            self.state["answers"] = [*self.state["answers"], result.data or result.error]
        return result


def _decide(world: World) -> None:
    """Approve all that is asked, as a person in another terminal does."""
    asked: set[str] = set()
    while True:
        time.sleep(0.02)
        for gate in list(Approvals.of(world).gates.values()):
            if gate.status == "pending" and gate.id not in asked:
                asked.add(gate.id)
                world.submit(DECISION, {"gate": gate.id, "decision": "approve", "by": "eve", "note": ""})


def _hook(point: str, n: int) -> Any:
    reached = itertools.count(1)

    def hook(name: crashpoints.Point) -> None:
        if name == point and next(reached) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


if __name__ == "__main__":
    from tests.tools import clerk  # the module of the agents, which is another one than __main__

    clerk.PLAN = PLAN
    if "point" in PLAN:
        crashpoints.hook = _hook(PLAN["point"], PLAN["n"])
    main(sys.argv[1:])
