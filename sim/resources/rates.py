"""The rate tracker: rolling windows per agent, per group and over all, for resources of any name.

The name, `has_capacity`, `get_remaining` and the resources `llm_calls`, `disk_writes` and `bandwidth` are
those of seed 004, whose agents look once a second whether capacity has returned. Here nobody looks: see
`capacity`. All is simulated time, which never goes back, so a wall clock that is set can neither lengthen nor
shorten a window.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import attrs

from sim.errors import LimitError, UsageError
from sim.kernel import Kernel, Source
from sim.kernel.actor import FIRST_DERIVED
from sim.kernel.rng import derive
from sim.resources.admission import Admission
from sim.resources.capacity import Capacity, ResourceCounts, Watch
from sim.resources.uses import RateStatistics, RateUse, Scope, uses
from sim.resources.windows import Need, Rate, Reservation, Window, check_amount, time_until

Policy = Literal["block", "skip"]
"""What an agent does at exhaustion: wait until there is capacity, or go on without the action."""

_FIRST_ORDINAL = 2**32  # sources of resources lie between those of declared and those of derived actors
_PURGE_FROM = 1024  # windows of agents before idle ones are looked for


@attrs.frozen
class Limit:
    """The rates of one resource: for each agent, for each group of agents together, and for all together."""

    agent: Rate | None = None
    group: Rate | None = None
    total: Rate | None = None
    policy: Policy = "block"


class RateTracker:
    """Who consumed how much lately, and who may consume now.

    `consume` and the like take what is there; who wants to queue uses `wait_for_capacity`.

    Args:
        kernel: whose simulated time counts.
        name: tells trackers of one kernel apart; the order of its timers depends on it.
    """

    __slots__ = (
        "_agent_windows", "_group_windows", "_groups", "_kernel", "_limits", "_line", "_own_rates", "_plans",
        "_purge_at", "_tallies", "_total_windows",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, name: str = "rates") -> None:
        ordinal = _FIRST_ORDINAL + derive("resource", name) % (FIRST_DERIVED - _FIRST_ORDINAL)
        self._kernel = kernel
        self._line = Admission(kernel, Source(name, ordinal), self._needs, self._tally)
        self._limits: dict[str, Limit] = {}
        self._own_rates: dict[str, dict[str, Rate]] = {}  # by agent, then resource
        self._groups: dict[str, str] = {}
        self._agent_windows: dict[tuple[str, str], Window] = {}  # by resource and agent
        self._group_windows: dict[tuple[str, str], Window] = {}
        self._total_windows: dict[str, Window] = {}
        self._plans: dict[str, tuple[Window, ...]] = {}  # by agent: all its windows, few enough to go through
        self._tallies: dict[str, ResourceCounts] = {}
        self._purge_at = _PURGE_FROM

    # -- limits

    def set_limit(self, resource: str, limit: Limit) -> None:
        """Set the rates of a resource; what counts already goes on counting."""
        self._change(lambda: self._limits.__setitem__(resource, limit))

    def set_agent_limit(self, agent_id: str, resource: str, rate: Rate | None) -> None:
        """Give one agent a rate of its own instead of the resource's rate for each agent; None takes it away."""

        def change() -> None:
            own = self._own_rates.setdefault(agent_id, {})
            if rate is None:
                own.pop(resource, None)
            else:
                own[resource] = rate

        self._change_for(agent_id, change)

    def refresh(self, resource: str) -> None:
        """Begin a new period of a resource that is limited per tick: what was consumed before counts no more."""
        windows = [window for name, _, window in self._scoped() if name == resource]

        def clear() -> None:
            for window in windows:
                window.clear()

        self._line.start_over(windows, clear)

    def set_group(self, agent_id: str, group: str | None) -> None:
        """Put an agent into a group; what it consumed before stays with the former group."""

        def change() -> None:
            self._groups.pop(agent_id, None)
            if group is not None:
                self._groups[agent_id] = group

        self._change_for(agent_id, change)

    def forget(self, agent_id: str) -> None:
        """Drop what is known of an agent that has left; what it consumed goes on counting for its group and all."""
        self._groups.pop(agent_id, None)
        self._own_rates.pop(agent_id, None)
        self._plans.pop(agent_id, None)
        for resource in self._limits:
            window = self._agent_windows.get((resource, agent_id))
            if window is not None and window.idle(self._kernel.now):
                del self._agent_windows[resource, agent_id]

    @property
    def resources(self) -> list[str]:
        """The names of all resources that have a limit, also of those that only single agents have."""
        own = (name for rates in self._own_rates.values() for name in rates)
        return list(dict.fromkeys((*self._limits, *own)))

    def limits(self, resource: str) -> bool:
        """Whether a resource has a limit, for all or for a single agent."""
        return resource in self._limits or any(resource in rates for rates in self._own_rates.values())

    def policy(self, resource: str) -> Policy:
        """Return what agents do at exhaustion of a resource."""
        limit = self._limits.get(resource)
        return "block" if limit is None else limit.policy

    # -- questions

    def blocked(self, agent_id: str, /) -> str | None:
        """Return the first resource of which the agent may not even have one unit now, or None."""
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            if window.used >= window.limit and window.room(self._kernel.now) < 1:
                return window.resource
        return None

    def blocked_by(self, agent_id: str, costs: Mapping[str, int]) -> str | None:
        """Return the first resource of `costs` (units by resource) that has no capacity for its amount, or None."""
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            resource = window.resource
            if resource in costs and window.used + costs[resource] > window.limit:
                return self._lacking(agent_id, costs)
        return None

    def has_capacity(self, agent_id: str, resource: str, amount: int = 1) -> bool:
        """Whether `consume` of the same would succeed now."""
        if amount.__class__ is not int or amount < 0:
            check_amount(amount)
        for window in self._scopes(agent_id, resource):
            if window.used + amount > window.limit and window.room(self._kernel.now) < amount:
                return amount == 0
        return True

    def get_usage(self, agent_id: str, resource: str) -> int:
        """Return how many units of the agent count now in its own window; 0 if it has none."""
        self._scopes(agent_id, resource)
        window = self._agent_windows.get((resource, agent_id))
        return 0 if window is None else window.limit - window.room(self._kernel.now)

    def total_usage(self, resource: str) -> int:
        """Return how much of a resource all agents together consumed within its window, as far as it is limited."""
        total = self._total_windows.get(resource)
        if total is not None:
            return self._count(total)
        windows = self._group_windows if self._limits.get(resource, _NO_LIMIT).group else self._agent_windows
        return sum(self._count(window) for (name, _), window in windows.items() if name == resource)

    def get_remaining(self, agent_id: str, resource: str) -> float:
        """Return how many units the agent may have now: the least over its scopes, infinite without a limit.

        After an overspend it is negative.
        """
        now = self._kernel.now
        return min((window.room(now) for window in self._scopes(agent_id, resource)), default=math.inf)

    def time_until_capacity(self, agent_id: str, resource: str, amount: int = 1) -> int | None:
        """Return in exactly how many nanoseconds `amount` fits if nothing else happens: 0: now, None: never."""
        check_amount(amount)
        return time_until(self._needs(agent_id, {resource: amount}), self._kernel.now)

    # -- taking

    def consume(self, agent_id: str, resource: str, amount: int = 1) -> bool:
        """Take `amount` units from all scopes of the agent, or nothing; return whether they were there."""
        if amount.__class__ is not int or amount < 0:
            check_amount(amount)
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        tally = self._tallies.get(resource) or self._tally(resource)
        now = self._kernel.now
        windows = plan if amount else ()
        for window in windows:
            if window.resource == resource and window.used + amount > window.limit and window.room(now) < amount:
                tally.refused += 1
                return False
        tally.granted += 1
        for window in windows:
            if window.resource == resource:
                if amount == 1:
                    window.take_one(now)
                else:
                    window.add(amount, now)
                if window.queue:
                    self._line.changed((window,))
        return True

    def reserve(self, agent_id: str, resource: str, amount: int) -> Reservation:
        """Take `amount` units whose true number is known only later (tokens of a model call).

        They count from now on, for one window, like units that were consumed.

        Raises:
            LimitError: if there is no capacity.
        """
        if not self.has_capacity(agent_id, resource, amount):
            self._tally(resource).refused += 1
            raise LimitError(resource, amount, self.get_remaining(agent_id, resource), agent_id)
        costs = {resource: amount}
        return self._line.take(agent_id, costs, self._needs(agent_id, costs))

    def settle(self, reservation: Reservation, actual: int) -> None:
        """Say how many units were used. What was not used comes back; more than reserved counts from now on.

        Args:
            reservation: of one resource.
            actual: units; more than reserved is allowed, for it has happened, and is recorded as overspent.

        Raises:
            UsageError: if it was settled or released before, or holds several resources.
        """
        check_amount(actual)
        self._check_open(reservation)
        if len(reservation.costs) != 1:
            raise UsageError(f"{reservation} holds several resources: it can only be released")
        ((resource, amount),) = reservation.costs.items()
        self._line.give_back(reservation, actual)
        if actual > amount:
            self._tally(resource).overspent += actual - amount
            for window in self._scopes(reservation.agent_id, resource):
                window.add(actual - amount, self._kernel.now)
                self._line.changed((window,))

    def release(self, reservation: Reservation) -> None:
        """Give back all of a reservation.

        Raises:
            UsageError: if it was settled or released before.
        """
        self._check_open(reservation)
        self._line.give_back(reservation)

    # -- waiting

    async def wait_for_capacity(
        self, agent_id: str, costs: Mapping[str, int], *, take: bool = False
    ) -> Reservation | None:
        """Wait, first come first served, until there is capacity for all `costs` (units by resource).

        It ends exactly when capacity returns. An agent may overtake only who waits for something that it does
        not need. With `take` the units are consumed at that moment and returned as a reservation; without,
        they are there for whatever the agent consumes in the step in which it wakes.

        Raises:
            LimitError: at once, if an amount can never fit; also while waiting, when a limit is changed.
        """
        return await self.capacity(agent_id, costs, take=take).done()

    def capacity(self, agent_id: str, costs: Mapping[str, int], *, take: bool = False) -> Capacity:
        """Return `wait_for_capacity` as a wait for `first_of`."""
        for amount in costs.values():
            check_amount(amount)
        return Capacity(self._line, agent_id, dict(costs), take)

    def on_level(
        self,
        agent_id: str,
        resource: str,
        threshold: float,
        callback: Callable[[], None],
        source: Source | None = None,
    ) -> Watch:
        """Call back once, exactly when the agent has at least `threshold` units of a resource left.

        Those who wait for capacity are served first. The callback runs as a step of its own at that instant, on behalf
        of `source`, or of the tracker.
        """
        watch = Watch(self._line, agent_id, resource, threshold, callback, source)
        self._line.watch(watch)
        return watch

    # -- reports

    def statistics(self) -> dict[str, RateStatistics]:
        """Return what happened so far, by resource in order of name."""
        return {
            name: RateStatistics(tally.granted, tally.refused, tally.waited, tally.overspent)
            for name, tally in sorted(self._tallies.items())
        }

    def uses(self) -> list[RateUse]:
        """Return how much counts now, by resource and scope; windows that nobody has used yet are left out.

        Changes nothing, so that any thread may ask while a run is under way.
        """
        return uses(self._scoped(), self._kernel.now)

    def state(self) -> dict[str, Any]:
        """Return what counts now in every window, JSON-like and sorted; windows in which nothing counts are
        left out.
        """
        return {
            "agents": self._used(self._agent_windows),
            "groups": self._used(self._group_windows),
            "total": {
                name: used for name, window in sorted(self._total_windows.items()) if (used := self._count(window))
            },
        }

    # -- inside

    def _used(self, windows: dict[tuple[str, str], Window]) -> dict[str, dict[str, int]]:
        result: dict[str, dict[str, int]] = {}
        for (resource, owner), window in sorted(windows.items()):
            if used := self._count(window):
                result.setdefault(resource, {})[owner] = used
        return result

    def _count(self, window: Window) -> int:
        return window.limit - window.room(self._kernel.now)

    def _scopes(self, agent_id: str, resource: str) -> tuple[Window, ...]:
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            if window.resource != resource:
                return tuple([window for window in plan if window.resource == resource])
        return plan  # nothing else is limited, so no tuple has to be made

    def _lacking(self, agent_id: str, costs: Mapping[str, int]) -> str | None:
        """Do what `blocked_by` says, counting anew what seems to be used up."""
        for resource, amount in costs.items():
            for window in self._scopes(agent_id, resource):
                if window.used + amount > window.limit and not self.has_capacity(agent_id, resource, amount):
                    return resource
        return None

    def _needs(self, agent_id: str, costs: Mapping[str, int]) -> tuple[Need, ...]:
        return tuple(
            (window, amount)
            for resource, amount in costs.items()
            if amount
            for window in self._scopes(agent_id, resource)
        )

    def _check_open(self, reservation: Reservation) -> None:
        if not reservation.open:
            raise UsageError(f"{reservation} was settled or released before; each is possible once only")

    def _tally(self, resource: str) -> ResourceCounts:
        tally = self._tallies.get(resource)
        if tally is None:
            tally = self._tallies[resource] = ResourceCounts()
        return tally

    def _make_plan(self, agent_id: str) -> tuple[Window, ...]:
        """Collect the windows of an agent, in the order in which resources were first limited."""
        if len(self._plans) >= self._purge_at:
            self._drop_idle()
        own, group = self._own_rates.get(agent_id, {}), self._groups.get(agent_id)
        windows: list[Window] = []
        for resource in dict.fromkeys((*self._limits, *own)):
            limit = self._limits.get(resource, _NO_LIMIT)
            if rate := own.get(resource, limit.agent):
                windows.append(_window(self._agent_windows, (resource, agent_id), resource, rate))
            if limit.group and group is not None:
                windows.append(_window(self._group_windows, (resource, group), resource, limit.group))
            if limit.total:
                windows.append(_window(self._total_windows, resource, resource, limit.total))
        plan = self._plans[agent_id] = tuple(windows)
        return plan

    def _drop_idle(self) -> None:
        """Forget the agents of whose consumption nothing counts any more, wherever they are in time."""
        now = self._kernel.reached
        kept: dict[str, None] = {}
        for (_, agent_id), window in self._agent_windows.items():
            if not window.idle(now):
                kept[agent_id] = None
        self._agent_windows = {key: window for key, window in self._agent_windows.items() if key[1] in kept}
        self._plans = {agent_id: plan for agent_id, plan in self._plans.items() if agent_id in kept}
        self._purge_at = max(_PURGE_FROM, 2 * len(self._plans))

    def _change_for(self, agent_id: str, change: Callable[[], None]) -> None:
        """Change what applies to one agent; for a newcomer nothing has to be looked at anew."""
        if agent_id in self._plans or agent_id in self._groups:
            self._change(change)
        else:
            change()

    def _change(self, change: Callable[[], None]) -> None:
        """Change limits or groups, and look anew at everyone who waits."""

        def apply() -> None:
            change()
            self._plans = {}
            for (resource, agent_id), window in self._agent_windows.items():
                own = self._own_rates.get(agent_id, {})
                window.set_rate(own.get(resource, self._limits.get(resource, _NO_LIMIT).agent))
            for (resource, _), window in self._group_windows.items():
                window.set_rate(self._limits.get(resource, _NO_LIMIT).group)
            for resource, window in self._total_windows.items():
                window.set_rate(self._limits.get(resource, _NO_LIMIT).total)

        self._line.start_over([window for *_, window in self._scoped()], apply)

    def _scoped(self) -> Iterator[tuple[str, Scope, Window]]:
        """Yield all windows, from copies of the tables, which a run may change meanwhile."""
        for (resource, _), window in dict(self._agent_windows).items():
            yield resource, "agent", window
        for (resource, _), window in dict(self._group_windows).items():
            yield resource, "group", window
        for resource, window in dict(self._total_windows).items():
            yield resource, "total", window


_NO_LIMIT = Limit()
_Key = TypeVar("_Key")


def _window(windows: dict[_Key, Window], key: _Key, resource: str, rate: Rate) -> Window:
    window = windows.get(key)
    if window is None:
        window = windows[key] = Window(rate, resource)
    return window
