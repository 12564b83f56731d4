"""The action that transfers money."""

from typing import TYPE_CHECKING, Any

from sim.base.errors import LimitError, UsageError
from sim.resources import MICRO, to_micro
from sim.resources.ledger import MAX_UNITS
from sim.world.action import Account, Refused, action
from sim.world.events import MoneyTransferred

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


@action("transfer", draws=False)
def transfer(world: "World", agent: "Inhabitant", to: Account, amount: float) -> dict[str, float]:
    """Transfer money from the agent's own account to another account.

    Args:
        to: the account that receives the money.
        amount: the amount, at least 0.
    """
    units: Any = amount
    whole = units.__class__ is int and 0 < units < MAX_UNITS  # as `to_micro` does first, without a call
    try:
        left = world.ledger.transfer(agent.agent_id, to, units * MICRO if whole else to_micro(amount))
    except (LimitError, UsageError) as error:
        raise Refused(str(error)) from error
    # an event has an int or a float, also for a bool or a number of another library
    number = amount if type(amount) in (int, float) else float(amount)
    world.event_bus.report(MoneyTransferred(amount=number, payer=agent.agent_id, to=to))
    return {"balance": left / MICRO}
