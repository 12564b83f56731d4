"""Budgets: an amount, for example money or tokens, that each agent can spend in one period.

The number of the present period is the time divided by the length of a period. Renewal therefore needs no timer.
"""

from collections.abc import Mapping

import attrs

from sim.base.errors import LimitError, UsageError
from sim.kernel import Kernel, Signal
from sim.kernel.groups import first_of_ns
from sim.resources.ledger import amount_text, insufficient
from sim.resources.windows import check_amount


@attrs.frozen
class Budget:
    """The amount that each agent can spend.

    Attributes:
        name: the name of the budget.
        amount_micro: the amount for each period, in micro-units.
        reset_ns: the length of a period in nanoseconds, counted from time 0; None for one period without end.
    """

    name: str
    amount_micro: int
    reset_ns: int | None


@attrs.frozen
class BudgetStatistics:
    """The use of one budget in the present period. Amounts are in micro-units.

    Attributes:
        amount_micro: the amount that each agent can spend.
        spent_micro: the sum that all agents have spent.
        fullest: the largest share of its amount that an agent has spent (1.0 is all of it).
    """

    amount_micro: int
    spent_micro: int
    fullest: float


class Earmark:
    """A reserved part of a budget, which is settled or released once.

    Attributes:
        agent_id: the agent whose budget it is.
        name: the name of the budget.
        micro: the amount in micro-units.
        period: the number of the period in which it was reserved.
        open: whether it can still be settled or released.
    """

    __slots__ = ("agent_id", "micro", "name", "open", "period")

    def __init__(self, agent_id: str, name: str, micro: int, period: int) -> None:
        self.agent_id = agent_id
        self.name = name
        self.micro = micro
        self.period = period
        self.open = True


class Budgets:
    """The budgets of all agents.

    Args:
        kernel: the kernel whose simulated time determines the periods.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._budgets: dict[str, Budget] = {}
        self._spent: dict[tuple[str, str], tuple[int, int]] = {}  # by name and agent: (period, how much)
        self._waiting: dict[tuple[str, str], list[Signal]] = {}  # by name and agent, in order of arrival

    def define(self, name: str, amount_micro: int, reset_ns: int | None = None) -> None:
        """Set the amount that each agent can spend in each period. Earlier spending still counts.

        Raises:
            UsageError: if the amount is not a whole number from 0, or the period is not above 0.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
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
        """Return the amount for each agent and period, in micro-units."""
        return self._find(name).amount_micro

    def remaining(self, agent_id: str, name: str) -> int:
        """Return the micro-units that the agent can still spend in this period; negative after an overspend."""
        return self._find(name).amount_micro - self._used(agent_id, name)

    def spend(self, agent_id: str, name: str, micro: int) -> bool:
        """Spend micro-units if enough are left. Return whether they were spent."""
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        check_amount(micro)
        if micro > self.remaining(agent_id, name):
            return False
        self._add(agent_id, name, micro)
        return True

    def reserve(self, agent_id: str, name: str, micro: int) -> Earmark:
        """Spend micro-units as an estimate. The actual number is known later; see `settle`.

        Raises:
            LimitError: if not enough are left.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if not self.spend(agent_id, name, micro):
            raise self._short(agent_id, name, micro)
        return Earmark(agent_id, name, micro, self._period(name))

    def settle(self, earmark: Earmark, actual: int) -> None:
        """Report the actual number of micro-units.

        An unused part is given back if its period has not ended. An additional part is spent now, even if it exceeds
        the budget.

        Raises:
            UsageError: if the earmark was settled or released before.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        check_amount(actual)
        self._end(earmark)
        change = actual - earmark.micro
        if change > 0 or earmark.period == self._period(earmark.name):
            self._add(earmark.agent_id, earmark.name, change)
        if change < 0:
            self._tell(earmark.name, earmark.agent_id)

    def release(self, earmark: Earmark) -> None:
        """Give back all of an earmark.

        Raises:
            UsageError: if the earmark was settled or released before.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self.settle(earmark, 0)

    def lacking(self, agent_id: str, needs: Mapping[str, int]) -> str | None:
        """Return the first budget in `needs` (micro-units by name) that has less left than needed, or None."""
        return next((name for name, micro in needs.items() if self.remaining(agent_id, name) < micro), None)

    def why_lacking(self, agent_id: str, name: str, micro: int) -> str:
        """Return a sentence with the amounts that are needed and available."""
        amount = self._find(name).amount_micro
        if micro > amount:
            return f"{amount_text(micro)} needed, but the budget {name} is {amount_text(amount)} in all"
        return insufficient(f"budget {name}", micro, self.remaining(agent_id, name))

    async def wait_for(self, agent_id: str, needs: Mapping[str, int]) -> None:
        """Wait until the agent has all of `needs` (micro-units by name) left.

        The wait ends when a new period starts, the amount is raised, or enough of an earmark is given back.

        Raises:
            LimitError: if a need exceeds the amount of its budget for one period, also while waiting after a change.
        """
        while (name := self.lacking(agent_id, needs)) is not None:
            if needs[name] > self._find(name).amount_micro:
                raise self._short(agent_id, name, needs[name])
            await self._change_of(name, agent_id)

    async def _change_of(self, name: str, agent_id: str) -> None:
        """Wait for an event that can increase what an agent has left of a budget."""
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
        """Return the time in nanoseconds until the next period starts, or None if there is no next period."""
        reset_ns = self._find(name).reset_ns
        return None if reset_ns is None else reset_ns - self._kernel.now % reset_ns

    def statistics(self) -> dict[str, BudgetStatistics]:
        """Return the use of each budget. This changes nothing, so that any thread can call it during a run."""
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
        """Return the micro-units spent in the present period by budget and agent, sorted. Zeros are omitted."""
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
