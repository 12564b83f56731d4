"""Quotas are held and given back: bytes on a disk, files, open conversations."""

import attrs

from sim.errors import UsageError
from sim.resources.windows import check_amount


@attrs.frozen
class QuotaStatistics:
    """What each agent may hold of one quota, what all hold, and the share of its limit that the fullest holds."""

    limit: int
    held: int
    fullest: float


class Quotas:
    """Who holds how much of what. Amounts are whole units; none is ever negative."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        self._held: dict[tuple[str, str], int] = {}  # by name and agent

    def define(self, name: str, limit: int) -> None:
        """Set how much each agent may hold. Who holds more keeps it, and may hold nothing further.

        Raises:
            UsageError: if the limit is no whole number from 0.
        """
        check_amount(limit)
        self._limits[name] = limit

    def __contains__(self, name: str) -> bool:
        return name in self._limits

    def hold(self, agent_id: str, name: str, amount: int) -> bool:
        """Hold `amount` more, or nothing if it is over the limit; return which. Check and take are one step."""
        check_amount(amount)
        if amount > self.remaining(agent_id, name):
            return False
        if amount:
            self._held[name, agent_id] = self.held(agent_id, name) + amount
        return True

    def give_back(self, agent_id: str, name: str, amount: int) -> None:
        """Hold `amount` less.

        Raises:
            UsageError: if the agent does not hold as much.
        """
        check_amount(amount)
        left = self.held(agent_id, name) - amount
        if left < 0:
            raise UsageError(f"{agent_id} gave back {amount} of {name}, but holds {left + amount}")
        self._held[name, agent_id] = left
        if not left:
            del self._held[name, agent_id]

    def held(self, agent_id: str, name: str) -> int:
        """Return how much the agent holds."""
        self._limit(name)
        return self._held.get((name, agent_id), 0)

    def remaining(self, agent_id: str, name: str) -> int:
        """Return how much more the agent may hold."""
        return max(0, self._limit(name) - self.held(agent_id, name))

    def statistics(self) -> dict[str, QuotaStatistics]:
        """Return how much is held, by quota. Changes nothing: any thread may ask while a run is under way."""
        held = dict.fromkeys(self._limits, 0)
        most = dict.fromkeys(self._limits, 0)
        for (name, _), amount in dict(self._held).items():
            held[name] += amount
            most[name] = max(most[name], amount)
        return {
            name: QuotaStatistics(limit, held[name], most[name] / max(1, limit)) for name, limit in self._limits.items()
        }

    def state(self) -> dict[str, dict[str, int]]:
        """Return what is held by quota and agent, sorted; who holds nothing is left out."""
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
