"""The token budgets of users: how much a user may use in a period, by level."""

from sim.agents.conversation import User
from sim.agents.engine.limits import USER_BUDGET, least_answer
from sim.base.errors import LimitError
from sim.kernel import to_seconds
from sim.kernel.duration import NS
from sim.kinds.chat.events import BudgetOpened, BudgetReset
from sim.kinds.chat.records import Account
from sim.kinds.chat.settings import BudgetSettings
from sim.world import World


class UserBudgets:
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
        """Return the tokens that a user may use in a period: its own, else those of its level; None: unlimited."""
        for link in user.links:
            own = self.settings.users.get(link.platform, {})
            if link.platform_user_id in own:
                return own[link.platform_user_id]
        limit: int | None = getattr(self.settings, user.permission.name.lower())
        return limit

    def account(self, user: User) -> Account:
        """Return the account of a user, after a reset if its period has ended. Periods begin when the user was made."""
        now, period = self._world.kernel.now, self.settings.period
        account = self.accounts.get(user.id)
        if account is None:
            elapsed = (now - user.created_ns) // period
            account = self.accounts[user.id] = Account(user.created_ns + (elapsed + 1) * period)
            opened = BudgetOpened(
                limit=self.limit(user),
                renewed=to_seconds(account.reset_ns),
                renewed_at=self.date(account.reset_ns),
                user=user.id,
            )
            self._world.event_bus.report(opened)
        if now >= account.reset_ns:
            account.reset_ns += ((now - account.reset_ns) // period + 1) * period
            used, account.used = account.used, 0
            reset = BudgetReset(
                limit=self.limit(user),
                renewed=to_seconds(account.reset_ns),
                renewed_at=self.date(account.reset_ns),
                used=used,
                user=user.id,
            )
            self._world.event_bus.report(reset)
            self.resets += 1
        return account

    def date(self, time_ns: int) -> str:
        """Return a time as a date, or without a calendar, as the day of the run, from 1, and the time of day."""
        calendar = self._world.calendar
        if calendar is not None:
            return f"{calendar.at(time_ns):%Y-%m-%d %H:%M}"
        days, seconds = divmod(time_ns // NS, 86_400)
        return f"day {days + 1} at {seconds // 3600:02}:{seconds // 60 % 60:02}"

    def left(self, user: User) -> int | None:
        """Return the tokens that a user can still use, without those that are set aside; None: unlimited."""
        limit, account = self.limit(user), self.account(user)
        return None if limit is None else max(0, limit - account.used - account.held)

    def check(self, user: User) -> bool:
        """Return whether a user may ask something: the check of the rule `seed`, `used < budget`."""
        limit, account = self.limit(user), self.account(user)
        return limit is None or account.used < limit

    def bounded(self, user: User) -> bool:
        """Return whether the calls of a user must fit its budget."""
        return self.settings.rule == "strict" and self.limit(user) is not None

    def fits(self, user: User, input_tokens: int, max_tokens: int) -> bool:
        """Return whether the budget of a user has room for a prompt and a short answer, by the strict rule."""
        left = self.left(user) if self.bounded(user) else None
        return left is None or input_tokens + least_answer(max_tokens) <= left

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
        if not self.fits(user, input_tokens, max_tokens):
            raise LimitError(USER_BUDGET, input_tokens + least_answer(max_tokens), left, user.id)
        allowed = min(max_tokens, left - input_tokens)
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
