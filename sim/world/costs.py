"""The costs of actions: units of rate limits, budgets and quotas, checked and charged in one step."""

from collections.abc import Callable, Mapping
from typing import Literal

import attrs

from sim.kernel.codec import Json, JsonObject, encode
from sim.resources import Budgets, Earmark, Quotas, RateTracker, Reservation, to_micro

_MANY_KINDS = 1000  # free kinds that are cached; bounded, because agents can invent any number of kinds

Amount = int | float | Callable[[int], float]
"""The amount that an action costs: a number, or a function of the size of its arguments in bytes."""

PriceKind = Literal["rate", "budget", "quota"]


@attrs.frozen
class Charge:
    """The cost of one action, by name of the rate limit, budget or quota; budgets in micro-units.

    Attributes:
        beyond_rates: whether it charges a budget or a quota.
    """

    rates: Mapping[str, int]
    budgets: Mapping[str, int]
    quotas: Mapping[str, int]
    beyond_rates: bool = attrs.field(init=False)

    @beyond_rates.default
    def _beyond_rates(self) -> bool:
        return bool(self.budgets or self.quotas)


@attrs.frozen
class ChargeHold:
    """The reserved cost of an action that waits: reserved before the wait, then charged or released."""

    costs: "Costs"
    agent_id: str
    charge: Charge
    reservations: tuple[Reservation, ...]
    earmarks: tuple[Earmark, ...]

    def settle(self) -> None:
        """Charge the reserved cost."""
        for reservation, units in zip(self.reservations, self.charge.rates.values(), strict=True):
            self.costs.rates.settle(reservation, units)
        for earmark, micro in zip(self.earmarks, self.charge.budgets.values(), strict=True):
            self.costs.budgets.settle(earmark, micro)

    def release(self) -> None:
        """Release the reserved cost."""
        for reservation in self.reservations:
            self.costs.rates.release(reservation)
        for earmark in self.earmarks:
            self.costs.budgets.release(earmark)
        for name, amount in self.charge.quotas.items():
            self.costs.quotas.give_back(self.agent_id, name, amount)


@attrs.frozen
class Shortage:
    """The reason why an agent cannot pay, as text, and whether the policy of the limit is `skip`."""

    text: str
    skip: bool = False


FREE = Charge({}, {}, {})


class Costs:
    """The prices of the actions of a world.

    Args:
        rates: the rate tracker; a name without a rate limit costs nothing.
        budgets: the budgets of the agents.
        quotas: the quotas of the agents.
    """

    def __init__(self, rates: RateTracker, budgets: Budgets, quotas: Quotas) -> None:
        self.rates = rates
        self.budgets = budgets
        self.quotas = quotas
        self._prices: dict[str, dict[str, tuple[PriceKind, Amount]]] = {}
        self._fixed: dict[str, Charge] = {}  # charges that do not depend on the size of the arguments
        # Returns the charge for every action of a kind; None if it depends on the size of the arguments, or is not
        # computed yet. Twice as fast as a method.
        self.fixed = self._fixed.get
        self._nothing = ChargeHold(self, "", FREE, (), ())
        self._holds: dict[str, tuple[str, Mapping[str, int]]] = {}  # artifact → agent, amounts by quota

    def set_price(self, kind: str, name: str, taken_from: PriceKind, amount: Amount) -> None:
        """Set the amount of the rate limit, budget or quota `name` that an action of `kind` costs."""
        prices = self._prices.setdefault(kind, {})
        prices[name] = (taken_from, amount)
        depends = any(callable(amount) for _, amount in prices.values())
        if depends:
            self._fixed.pop(kind, None)
        else:
            self._fixed[kind] = self.charge(kind, 0)

    def clear(self) -> None:
        """Delete all prices."""
        self._prices.clear()
        self._fixed.clear()

    def price(self, kind: str, arguments: JsonObject) -> Charge:
        """Return the charge for an action of `kind`."""
        return self.fixed(kind) or self.charge(kind, len(encode(arguments)) if kind in self._prices else 0)

    def charge(self, kind: str, size: int) -> Charge:
        """Return the charge for an action of `kind` with `size` bytes of arguments."""
        prices = self._prices.get(kind)
        if prices is None:
            if len(self._fixed) < _MANY_KINDS:
                self._fixed[kind] = FREE
            return FREE
        taken: dict[PriceKind, dict[str, int]] = {"rate": {}, "budget": {}, "quota": {}}
        for name, (taken_from, amount) in prices.items():
            if callable(amount):
                amount = amount(size)
            taken[taken_from][name] = to_micro(amount) if taken_from == "budget" else round(amount)
        return Charge(taken["rate"], taken["budget"], taken["quota"])

    def lacking(self, agent_id: str, charge: Charge, artifact: Json) -> Shortage | None:
        """Return why an agent cannot pay a charge, or None if it can."""
        resource = self.rates.blocked_by(agent_id, charge.rates) if charge.rates else None
        if resource is not None:
            return Shortage(f"the limit on {resource} is reached", self.rates.policy(resource) == "skip")
        if not charge.beyond_rates:
            return None
        for name, micro in charge.budgets.items():
            if self.budgets.remaining(agent_id, name) < micro:
                return Shortage(self.budgets.why_lacking(agent_id, name, micro))
        for name, amount in charge.quotas.items():
            if self.quotas.remaining(agent_id, name) + self._held(agent_id, name, artifact) < amount:
                return Shortage(f"the quota {name} has no room for {amount}")
        return None

    def hold(self, agent_id: str, charge: Charge) -> ChargeHold:
        """Reserve a charge for an action that waits; call it only if `lacking` returned None."""
        if charge is FREE:
            return self._nothing
        reservations = tuple(self.rates.reserve(agent_id, name, units) for name, units in charge.rates.items())
        earmarks = tuple(self.budgets.reserve(agent_id, name, micro) for name, micro in charge.budgets.items())
        for name, amount in charge.quotas.items():
            self.quotas.hold(agent_id, name, amount)
        return ChargeHold(self, agent_id, charge, reservations, earmarks)

    def take(self, agent_id: str, charge: Charge, artifact: Json) -> None:
        """Deduct a charge; call it only if `lacking` returned None.

        Quota that is held for the earlier content of the artifact is released first.
        """
        for resource, units in charge.rates.items():
            self.rates.consume(agent_id, resource, units)
        if not charge.beyond_rates:
            return
        for name, micro in charge.budgets.items():
            self.budgets.spend(agent_id, name, micro)
        if charge.quotas and isinstance(artifact, str):
            self.give_back(artifact)
            self._holds[artifact] = (agent_id, charge.quotas)
        for name, amount in charge.quotas.items():
            self.quotas.hold(agent_id, name, amount)

    def give_back(self, artifact: str) -> None:
        """Release the quota that is held for an artifact."""
        holder, amounts = self._holds.pop(artifact, ("", {}))
        for name, amount in amounts.items():
            self.quotas.give_back(holder, name, amount)

    def _held(self, agent_id: str, name: str, artifact: Json) -> int:
        holder, amounts = self._holds.get(artifact if isinstance(artifact, str) else "", ("", {}))
        return amounts.get(name, 0) if holder == agent_id else 0
