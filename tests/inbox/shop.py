"""Agents that ask a person before they pay."""

from typing import Any

import sim
from sim.tools.approvals import Approvals
from sim.world.action import Refused


class Buyer(sim.Agent):
    """Pays three times, each time after asking, and notes what came of it."""

    async def decide_action(self) -> Any:
        done = self.state.setdefault("done", [])
        if len(done) == 3:
            return sim.Action("stop")
        try:
            gate = await Approvals.of(self.world).require(self, "shop.pay", {"amount": 100 + len(done)}, "it is much")
        except Refused as refusal:
            done.append(str(refusal))
            return None
        done.append("paid")
        return sim.Action("publish", {"topic": "paid", "data": {"amount": gate.arguments["amount"]}})
