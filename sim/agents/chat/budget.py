"""The token budgets of users: how much a user may use in a period, by level."""

from typing import Final

from sim.agents.chat.records import Account
from sim.agents.chat.settings import BudgetSettings
from sim.agents.conversation import User
from sim.errors import LimitError
from sim.world import World

USER_BUDGET: Final = "tokens of the user"
"""The kind of the `LimitError` when a budget is used up."""

LEAST_ANSWER: Final = 16
"""The fewest tokens of an answer for which it is worth asking."""


class Budgets:
    """The budgets of all users.

    Args:
        world: the world.
        settings: the tokens of each level, and the rule.
    """

    def __init__(self, world: World, settings: BudgetSettings) -> None:
        self.settings = settings
        self.accounts: dict[str, Account] = {}
        self.resets = 0
        self._world = world

    def limit(self, user: User) -> int | None:
        """Return the tokens that a user may use in a period; None: unlimited."""
        limit: int | None = getattr(self.settings, user.permission.name.lower())
        return limit

    def account(self, user: User) -> Account:
        """Return the account of a user, after a reset if its period has ended. Periods begin when the user was made."""
        now, period = self._world.kernel.now, self.settings.period
        found = self.accounts.get(user.id)
        if found is None:
            elapsed = (now - user.created_ns) // period
            found = self.accounts[user.id] = Account(user.created_ns + (elapsed + 1) * period)
        if now >= found.reset_ns:
            found.reset_ns += ((now - found.reset_ns) // period + 1) * period
            self._world.event_bus.tell("chat.budget_reset", {"user": user.id, "used": found.used})
            found.used = 0
            self.resets += 1
        return found

    def left(self, user: User) -> int | None:
        """Return the tokens that a user can still use, without those that are set aside; None: unlimited."""
        limit, account = self.limit(user), self.account(user)
        return None if limit is None else max(0, limit - account.used - account.held)

    def check(self, user: User) -> bool:
        """Return whether a user may ask something: the check of the seed, `used < budget`."""
        limit = self.limit(user)
        return limit is None or self.account(user).used < limit

    def hold(self, user: User, input_tokens: int, max_tokens: int) -> int:
        """Set aside what a call may use, by the strict rule; return the longest answer that the budget allows.

        Args:
            user: the user.
            input_tokens: the tokens of the prompt.
            max_tokens: the longest answer that is wanted.

        Raises:
            LimitError: if the prompt and a short answer are more than what is left.
        """
        left, account = self.left(user), self.account(user)
        if self.settings.rule == "seed" or left is None:
            account.held += input_tokens + max_tokens
            return max_tokens
        allowed = min(max_tokens, left - input_tokens)
        if allowed < min(LEAST_ANSWER, max_tokens):
            raise LimitError(USER_BUDGET, input_tokens + LEAST_ANSWER, left, user.id)
        account.held += input_tokens + allowed
        return allowed

    def settle(self, user: User, held: int, used: int) -> None:
        """Take what a call used from the budget, instead of what was set aside for it.

        Args:
            user: the user.
            held: the tokens that were set aside.
            used: the tokens that it used; 0 if it failed.
        """
        account = self.account(user)
        account.held -= held
        account.used += used
