"""Budgets deplete: money, or tokens a month, with an amount for each agent and a reset after each period.

A period is found by dividing the time by its length, so resets need no timer and cost nothing.
"""

from collections.abc import Mapping

import attrs

from sim.errors import LimitError, UsageError
from sim.kernel import Kernel, Signal
from sim.kernel.waits import first_of_ns
from sim.resources.ledger import amount_text, insufficient
from sim.resources.windows import check_amount


@attrs.frozen
class Budget:
    """What each agent may spend.

    Attributes:
        name: what it is for.
        amount_micro: millionths of a unit, in each period.
        reset_ns: nanoseconds after which a new period starts, counted from time 0; None for never.
    """

    name: str
    amount_micro: int
    reset_ns: int | None


@attrs.frozen
class BudgetStatistics:
    """How much of one budget is spent in the present period. Money, or whatever it is for, in micro-units.

    Attributes:
        amount_micro: what each agent may spend.
        spent_micro: what all have spent.
        fullest: the share of its amount that the agent who has spent most has spent.
    """

    amount_micro: int
    spent_micro: int
    fullest: float


class Earmark:
    """A part of a budget that was taken and may still be settled or released, once.

    Attributes:
        agent_id: whose budget.
        name: which budget.
        micro: how much.
        period: in which period it was taken.
        open: whether it may still be settled or released.
    """

    __slots__ = ("agent_id", "micro", "name", "open", "period")

    def __init__(self, agent_id: str, name: str, micro: int, period: int) -> None:
        self.agent_id = agent_id
        self.name = name
        self.micro = micro
        self.period = period
        self.open = True


class Budgets:
    """Who may still spend how much.

    Args:
        kernel: whose simulated time starts new periods.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._budgets: dict[str, Budget] = {}
        self._spent: dict[tuple[str, str], tuple[int, int]] = {}  # by name and agent: (period, how much)
        self._waiting: dict[tuple[str, str], list[Signal]] = {}  # by name and agent, in order of arrival

    def define(self, name: str, amount_micro: int, reset_ns: int | None = None) -> None:
        """Set what each agent may spend in each period; what was spent before stays spent.

        Raises:
            UsageError: if the amount is no whole number from 0, or the period not above 0.
        """
        check_amount(amount_micro)
        if reset_ns is not None and (reset_ns.__class__ is not int or reset_ns <= 0):
            raise UsageError(f"a period must be a whole number of nanoseconds above 0, not {reset_ns!r}")
        self._budgets[name] = Budget(name, amount_micro, reset_ns)
        for waited, agent_id in list(self._waiting):
            if waited == name:
                self._tell(name, agent_id)

    def __contains__(self, name: str) -> bool:
        return name in self._budgets

    def amount(self, name: str) -> int:
        """Return how many micro-units each agent may spend in each period."""
        return self._find(name).amount_micro

    def remaining(self, agent_id: str, name: str) -> int:
        """Return how many micro-units the agent may still spend in this period; negative after an overspend."""
        return self._find(name).amount_micro - self._used(agent_id, name)

    def spend(self, agent_id: str, name: str, micro: int) -> bool:
        """Spend micro-units, or nothing if they are not there; return which. Check and take are one step."""
        check_amount(micro)
        if micro > self.remaining(agent_id, name):
            return False
        self._add(agent_id, name, micro)
        return True

    def reserve(self, agent_id: str, name: str, micro: int) -> Earmark:
        """Spend micro-units whose true number is known only later.

        Raises:
            LimitError: if they are not there.
        """
        if not self.spend(agent_id, name, micro):
            raise self._short(agent_id, name, micro)
        return Earmark(agent_id, name, micro, self._period(name))

    def settle(self, earmark: Earmark, actual: int) -> None:
        """Say what was spent. Less comes back to its own period, if that still lasts; more is spent now, come
        what may.

        Raises:
            UsageError: if it was settled or released before.
        """
        check_amount(actual)
        self._end(earmark)
        change = actual - earmark.micro
        if change > 0 or earmark.period == self._period(earmark.name):
            self._add(earmark.agent_id, earmark.name, change)
        if change < 0:
            self._tell(earmark.name, earmark.agent_id)

    def release(self, earmark: Earmark) -> None:
        """Give back all of it.

        Raises:
            UsageError: if it was settled or released before.
        """
        self.settle(earmark, 0)

    def lacking(self, agent_id: str, needs: Mapping[str, int]) -> str | None:
        """Return the first budget of `needs` (micro-units by name) that has less than needed left, or None."""
        return next((name for name, micro in needs.items() if self.remaining(agent_id, name) < micro), None)

    def why_lacking(self, agent_id: str, name: str, micro: int) -> str:
        """Return a sentence that says how much is missing."""
        amount = self._find(name).amount_micro
        if micro > amount:
            return f"{amount_text(micro)} needed, but the budget {name} is {amount_text(amount)} in all"
        return insufficient(f"budget {name}", micro, self.remaining(agent_id, name))

    async def wait_for(self, agent_id: str, needs: Mapping[str, int]) -> None:
        """Wait until the agent has all of `needs` (micro-units by name) left.

        It ends exactly when a new period starts, the amount is raised, or enough of what was set aside comes back.

        Raises:
            LimitError: if an amount is more than its budget is in all, at once or after a change.
        """
        while (name := self.lacking(agent_id, needs)) is not None:
            if needs[name] > self._find(name).amount_micro:
                raise self._short(agent_id, name, needs[name])
            await self._change_of(name, agent_id)

    async def _change_of(self, name: str, agent_id: str) -> None:
        """Wait until what an agent has left of a budget may have become more."""
        signal, key = Signal(self._kernel), (name, agent_id)
        self._waiting.setdefault(key, []).append(signal)
        try:
            await first_of_ns(signal, timeout_ns=self.until_reset(name))
        finally:
            self._waiting[key].remove(signal)
            if not self._waiting[key]:
                del self._waiting[key]

    def _tell(self, name: str, agent_id: str) -> None:
        for signal in self._waiting.get((name, agent_id), ()):
            signal.fire()

    def _short(self, agent_id: str, name: str, micro: int) -> LimitError:
        text = self.why_lacking(agent_id, name, micro)
        return LimitError(name, micro, self.remaining(agent_id, name), agent_id, message=text)

    def until_reset(self, name: str) -> int | None:
        """Return in exactly how many nanoseconds the next period starts, or None if never."""
        reset_ns = self._find(name).reset_ns
        return None if reset_ns is None else reset_ns - self._kernel.now % reset_ns

    def statistics(self) -> dict[str, BudgetStatistics]:
        """Return how much is spent, by budget. Changes nothing: any thread may ask while a run is under way."""
        spent = dict.fromkeys(self._budgets, 0)
        most = dict.fromkeys(self._budgets, 0)
        for name, agent_id in list(self._spent):
            used = self._used(agent_id, name)
            spent[name] += used
            most[name] = max(most[name], used)
        return {
            name: BudgetStatistics(budget.amount_micro, spent[name], most[name] / max(1, budget.amount_micro))
            for name, budget in self._budgets.items()
        }

    def state(self) -> dict[str, dict[str, int]]:
        """Return what was spent in the present periods by budget and agent, sorted; nothing is left out but
        zeros.
        """
        result: dict[str, dict[str, int]] = {}
        for name, agent_id in sorted(self._spent):
            if used := self._used(agent_id, name):
                result.setdefault(name, {})[agent_id] = used
        return result

    def _find(self, name: str) -> Budget:
        budget = self._budgets.get(name)
        if budget is None:
            names = ", ".join(self._budgets)
            raise UsageError(f"there is no budget named {name!r}", hint=f"defined are: {names}")
        return budget

    def _period(self, name: str) -> int:
        reset_ns = self._find(name).reset_ns
        return 0 if reset_ns is None else self._kernel.now // reset_ns

    def _used(self, agent_id: str, name: str) -> int:
        period, used = self._spent.get((name, agent_id), (0, 0))
        return used if period == self._period(name) else 0

    def _add(self, agent_id: str, name: str, micro: int) -> None:
        self._spent[name, agent_id] = (self._period(name), self._used(agent_id, name) + micro)

    def _end(self, earmark: Earmark) -> None:
        if not earmark.open:
            raise UsageError(f"a part of {earmark.agent_id}'s {earmark.name} was settled or released twice")
        earmark.open = False
