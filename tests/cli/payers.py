"""An agent whose payments are unsafe effects: imported by name."""

import sim


class Payer(sim.Agent):
    """Pays once a minute, outside of the simulation."""

    async def decide_action(self) -> sim.Action:
        """Pay, and publish it."""
        paid = await sim.perform(sim.Effect("pay", {"bill": 1}, _pay, safety="unsafe"))
        self.loop.sleep(sim.WakeCondition.after_delay(60.0))
        return sim.Action("publish", {"topic": "bill.paid", "data": {"receipt": paid.value}})


async def _pay(request: object, key: str) -> dict[str, str]:
    return {"receipt": "r-1"}
