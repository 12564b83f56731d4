"""Quotas: how much of something an agent can hold at one time, for example bytes on a disk, files, conversations."""

import attrs

from sim.base.errors import UsageError
from sim.kernel.ports import ANYONE, Guard
from sim.resources.windows import check_amount


@attrs.frozen
class QuotaStatistics:
    """The use of one quota.

    Attributes:
        limit: the amount that each agent can hold.
        held: the sum that all agents hold.
        fullest: the largest share of its limit that an agent holds (1.0 is all of it).
    """

    limit: int
    held: int
    fullest: float


class Quotas:
    """The quotas of all agents. Amounts are whole units and never negative.

    Args:
        gate: who may change it.
    """

    def __init__(self, gate: Guard = ANYONE) -> None:
        self._gate = gate
        self._limits: dict[str, int] = {}
        self._held: dict[tuple[str, str], int] = {}  # by name and agent

    def define(self, name: str, limit: int) -> None:
        """Set the amount that each agent can hold. An agent that holds more keeps it, but cannot hold more.

        Raises:
            UsageError: if the limit is not a whole number from 0.
        """
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        check_amount(limit)
        self._limits[name] = limit

    def __contains__(self, name: str) -> bool:
        return name in self._limits

    def hold(self, agent_id: str, name: str, amount: int) -> bool:
        """Hold `amount` more if it is within the limit. Return whether it is held."""
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        check_amount(amount)
        if amount > self.remaining(agent_id, name):
            return False
        if amount:
            self._held[name, agent_id] = self.held(agent_id, name) + amount
        return True

    def give_back(self, agent_id: str, name: str, amount: int) -> None:
        """Return `amount` to the quota.

        Raises:
            UsageError: if the agent holds less.
        """
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        check_amount(amount)
        left = self.held(agent_id, name) - amount
        if left < 0:
            raise UsageError(f"{agent_id} gave back {amount} of {name}, but holds {left + amount}")
        self._held[name, agent_id] = left
        if not left:
            del self._held[name, agent_id]

    def held(self, agent_id: str, name: str) -> int:
        """Return the amount that the agent holds."""
        self._limit(name)
        return self._held.get((name, agent_id), 0)

    def remaining(self, agent_id: str, name: str) -> int:
        """Return the further amount that the agent can hold."""
        return max(0, self._limit(name) - self.held(agent_id, name))

    def statistics(self) -> dict[str, QuotaStatistics]:
        """Return the use of each quota. This changes nothing, so that any thread can call it during a run."""
        held = dict.fromkeys(self._limits, 0)
        most = dict.fromkeys(self._limits, 0)
        for (name, _), amount in dict(self._held).items():
            held[name] += amount
            most[name] = max(most[name], amount)
        return {
            name: QuotaStatistics(limit, held[name], most[name] / max(1, limit)) for name, limit in self._limits.items()
        }

    def state(self) -> dict[str, dict[str, int]]:
        """Return the amounts that are held by quota and agent, sorted. Zeros are omitted."""
        result: dict[str, dict[str, int]] = {}
        for (name, agent_id), amount in sorted(self._held.items()):
            result.setdefault(name, {})[agent_id] = amount
        return result

    def _limit(self, name: str) -> int:
        limit = self._limits.get(name)
        if limit is None:
            names = ", ".join(self._limits)
            raise UsageError(f"there is no quota named {name!r}", hint=f"defined are: {names}")
        return limit
