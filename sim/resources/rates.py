"""The rate tracker: rolling windows per agent, per group and in total, for resources of any name.

Waiting agents do not poll. They are woken when capacity returns, see `admission`. Windows are in simulated time, which
never decreases, so that changes of the wall clock do not affect them.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import attrs

from sim.base.errors import LimitError, UsageError
from sim.kernel import Kernel, Source
from sim.kernel.actor import FIRST_DERIVED
from sim.kernel.codec import Json
from sim.kernel.compiled import core
from sim.kernel.rng import derive
from sim.resources.admission import Admission
from sim.resources.capacity import Capacity, CapacityWatch, ResourceCounts
from sim.resources.uses import RateStatistics, RateUse, Scope, uses
from sim.resources.windows import Need, Rate, Reservation, Window, check_amount, time_until

Policy = Literal["block", "skip"]
"""What an agent does if there is no capacity: wait for it, or continue without the action."""

_FIRST_ORDINAL = 2**32  # ordinals of trackers are between those of declared actors and those of derived actors
_PURGE_FROM = 1024  # minimum number of agents before idle windows are removed


@attrs.frozen
class Limit:
    """The rates of one resource: for each agent, for each group of agents, and for all agents in total.

    Attributes:
        agent, group, total: the rates.
        policy: what an agent does if there is no capacity.
        totals: of a divided world: by part of the world, its rate instead of `total`. A part without one has none.
        groups: of a divided world: by group and part, the rate instead of `group`.
    """

    agent: Rate | None = None
    group: Rate | None = None
    total: Rate | None = None
    policy: Policy = "block"
    totals: Mapping[str, Rate] = attrs.field(factory=dict)
    groups: Mapping[tuple[str, str], Rate] = attrs.field(factory=dict)

    def total_in(self, part: str | None) -> Rate | None:
        """Return the rate in total of a part of the world; None stands for the whole of one that is not divided."""
        return self.total if part is None else self.totals.get(part)

    def group_in(self, group: str, part: str | None) -> Rate | None:
        """Return the rate of a group in a part of the world."""
        return self.group if part is None else self.groups.get((group, part))


class RateTracker:
    """Counts the recent consumption of resources, and decides whether an agent can consume more now.

    `consume` and `reserve` do not wait. To wait for capacity, use `wait_for_capacity`.

    Args:
        kernel: the kernel whose simulated time is used.
        name: the name of the tracker, unique within the kernel. The order of its timers depends on it.
    """

    __slots__ = (
        "_agent_windows", "_group_windows", "_groups", "_kernel", "_limits", "_line", "_own_rates", "_part_of",
        "_plans", "_purge_at", "_shared_plans", "_tallies", "_total_windows",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, name: str = "rates") -> None:
        ordinal = _FIRST_ORDINAL + derive("resource", name) % (FIRST_DERIVED - _FIRST_ORDINAL)
        self._kernel = kernel
        self._line = Admission(kernel, Source(name, ordinal), self._needs, self._tally)
        self._limits: dict[str, Limit] = {}
        self._own_rates: dict[str, dict[str, Rate]] = {}  # by agent, then resource
        self._groups: dict[str, str] = {}
        self._agent_windows: dict[tuple[str, str], Window] = {}  # by resource and agent
        self._part_of: Callable[[str], str | None] | None = None  # by agent, the part of a divided world
        self._group_windows: dict[tuple[str, str, str | None], Window] = {}  # by resource, group and part
        self._total_windows: dict[tuple[str, str | None], Window] = {}  # by resource and part
        self._plans: dict[str, tuple[Window, ...]] = {}  # by agent: all its windows, usually a few
        self._shared_plans: dict[str | None, tuple[Window, ...]] | None = {}  # by group; None: a limit is by agent
        self._tallies: dict[str, ResourceCounts] = {}
        self._purge_at = _PURGE_FROM

    # -- limits

    def divide(self, part_of: Callable[[str], str | None]) -> None:
        """Have a window in each part of the world instead of one for all. To be called before there are agents.

        Args:
            part_of: returns the part in which an agent is.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self._part_of, self._shared_plans = part_of, None

    def set_limit(self, resource: str, limit: Limit) -> None:
        """Set the rates of a resource. Earlier consumption still counts."""
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self._change(lambda: self._limits.__setitem__(resource, limit))

    def set_agent_limit(self, agent_id: str, resource: str, rate: Rate | None) -> None:
        """Set an individual rate for one agent, which replaces `Limit.agent` of the resource. None removes it."""
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet

        def change() -> None:
            own = self._own_rates.setdefault(agent_id, {})
            if rate is None:
                own.pop(resource, None)
            else:
                own[resource] = rate

        self._change_for(agent_id, change)

    def refresh(self, resource: str) -> None:
        """Start a new period of a resource that is limited per tick: earlier consumption does not count any more."""
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        windows = [window for name, _, window in self._scoped() if name == resource]

        def clear() -> None:
            for window in windows:
                window.clear()

        self._line.start_over(windows, clear)

    def set_group(self, agent_id: str, group: str | None) -> None:
        """Put an agent into a group, or None for no group. Its earlier consumption still counts for the old group."""
        if self._kernel.current is None:
            self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        exists = agent_id in self._groups or agent_id in self._plans or agent_id in self._own_rates
        if group is not None and not exists:  # a new agent, as nearly always
            self._groups[agent_id] = group
            return

        def change() -> None:
            self._groups.pop(agent_id, None)
            if group is not None:
                self._groups[agent_id] = group

        self._change_for(agent_id, change)

    def forget(self, agent_id: str) -> None:
        """Forget an agent that has left. Its consumption still counts for its group and in total."""
        if self._kernel.current is None:
            self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        group = self._groups.pop(agent_id, None)
        self._own_rates.pop(agent_id, None)
        self._plans.pop(agent_id, None)
        if group == agent_id and self._shared_plans is not None:
            self._shared_plans.pop(group, None)
        for resource in self._limits:
            window = self._agent_windows.get((resource, agent_id))
            if window is not None and window.idle(self._kernel.now):
                del self._agent_windows[resource, agent_id]

    @property
    def resources(self) -> list[str]:
        """The names of all resources with a limit, including limits of individual agents."""
        own = (name for rates in self._own_rates.values() for name in rates)
        return list(dict.fromkeys((*self._limits, *own)))

    def limits(self, resource: str) -> bool:
        """Return whether a resource has a limit, including limits of individual agents."""
        return resource in self._limits or any(resource in rates for rates in self._own_rates.values())

    def policy(self, resource: str) -> Policy:
        """Return what agents do if a resource has no capacity."""
        limit = self._limits.get(resource)
        return "block" if limit is None else limit.policy

    # -- questions

    def blocked(self, agent_id: str, /) -> str | None:
        """Return the first resource of which the agent cannot consume a single unit now, or None."""
        if not (self._limits or self._own_rates):
            return None  # the hot path: most worlds have no limits
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            if window.used >= window.limit and window.room(self._kernel.now) < 1:
                return window.resource
        return None

    def blocked_by(self, agent_id: str, costs: Mapping[str, int]) -> str | None:
        """Return the first resource in `costs` (units by resource) without capacity for its amount, or None."""
        if not (self._limits or self._own_rates):
            return None
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            resource = window.resource
            if resource in costs and window.used + costs[resource] > window.limit:
                return self._lacking(agent_id, costs)
        return None

    def has_capacity(self, agent_id: str, resource: str, amount: int = 1) -> bool:
        """Return whether `consume` with the same arguments would succeed now."""
        if amount.__class__ is not int or amount < 0:
            check_amount(amount)
        for window in self._scopes(agent_id, resource):
            if window.used + amount > window.limit and window.room(self._kernel.now) < amount:
                return amount == 0
        return True

    def get_usage(self, agent_id: str, resource: str) -> int:
        """Return the number of units that count in the agent's own window now; 0 if it has none."""
        self._scopes(agent_id, resource)
        window = self._agent_windows.get((resource, agent_id))
        return 0 if window is None else window.limit - window.room(self._kernel.now)

    def total_usage(self, resource: str) -> int:
        """Return the units of a resource that all agents consumed within its window; 0 without a limit."""
        totals = [self._count(window) for (name, _), window in self._total_windows.items() if name == resource]
        if totals:
            return sum(totals)
        grouped = self._limits.get(resource, _NO_LIMIT).group
        windows: Mapping[Any, Window] = self._group_windows if grouped else self._agent_windows
        return sum(self._count(window) for (name, *_), window in windows.items() if name == resource)

    def get_remaining(self, agent_id: str, resource: str) -> float:
        """Return the number of units that the agent can consume now: the minimum over its windows.

        It is infinite without a limit, and negative after an overspend.
        """
        now = self._kernel.now
        return min((window.room(now) for window in self._scopes(agent_id, resource)), default=math.inf)

    def lacks_part(self, agent_id: str, resource: str) -> bool:
        """Return whether the part of the world of an agent has nothing of a rate in total, or of that of its group."""
        limit, group = self._limits.get(resource, _NO_LIMIT), self._groups.get(agent_id)
        if self._part_of is None:
            return False
        part = self._part_of(agent_id) or ""
        if limit.total is not None and limit.total_in(part) is None:
            return True
        return limit.group is not None and group is not None and limit.group_in(group, part) is None

    def time_until_capacity(self, agent_id: str, resource: str, amount: int = 1) -> int | None:
        """Return the time in nanoseconds until `amount` fits if nothing else is consumed. 0: now, None: never."""
        check_amount(amount)
        return time_until(self._needs(agent_id, {resource: amount}), self._kernel.now)

    # -- taking

    def consume(self, agent_id: str, resource: str, amount: int = 1) -> bool:
        """Consume `amount` units in all windows of the agent, or none. Return whether there was capacity."""
        if self._kernel.current is None:
            self._kernel.acting()  # raises: the call comes from outside the run; nothing has changed yet
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
        """Consume `amount` units as an estimate. The actual number (for example tokens of a model call) is known later.

        The units count from now on, like units of `consume`.

        Raises:
            LimitError: if there is no capacity.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        if not self.has_capacity(agent_id, resource, amount):
            self._tally(resource).refused += 1
            raise LimitError(resource, amount, self.get_remaining(agent_id, resource), agent_id)
        costs = {resource: amount}
        return self._line.take(agent_id, costs, self._needs(agent_id, costs))

    def settle(self, reservation: Reservation, actual: int) -> None:
        """Report the number of units that were used. Unused units are given back; additional units count from now on.

        Args:
            reservation: a reservation of one resource.
            actual: the number of units. It may exceed the reservation; the difference is counted as overspent.

        Raises:
            UsageError: if the reservation was settled or released before, or holds several resources.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
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
        """Give back all units of a reservation.

        Raises:
            UsageError: if it was settled or released before.
        """
        self._kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self._check_open(reservation)
        self._line.give_back(reservation)

    # -- waiting

    async def wait_for_capacity(
        self, agent_id: str, costs: Mapping[str, int], *, take: bool = False
    ) -> Reservation | None:
        """Wait, first come, first served, until there is capacity for all `costs` (units by resource).

        The wait ends at the exact time at which capacity returns. An agent can overtake only agents that are blocked on
        windows that it does not need. With `take`, the units are consumed at that moment and returned as a reservation.
        Without it, the capacity is guaranteed for the step in which the agent wakes.

        Raises:
            LimitError: if an amount can never fit; also while waiting, after a change of a limit.
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
    ) -> CapacityWatch:
        """Call `callback` once, at the exact time at which the agent has at least `threshold` units of a resource left.

        Actors that wait for capacity are served first. The callback runs in a separate step at that instant, on behalf
        of `source`, or of the tracker if `source` is None.
        """
        if self._kernel.current is None:
            self._kernel.acting()  # raises: the call comes from outside the run; nothing has changed yet
        watch = CapacityWatch(self._line, agent_id, resource, threshold, callback, source)
        self._line.watch(watch)
        return watch

    # -- reports

    def statistics(self) -> dict[str, RateStatistics]:
        """Return the counts so far by resource, sorted by name."""
        return {
            name: RateStatistics(tally.granted, tally.refused, tally.waited, tally.overspent)
            for name, tally in sorted(self._tallies.items())
        }

    def uses(self) -> list[RateUse]:
        """Return the units that count now, by resource and scope. Windows that were never used are omitted.

        This changes nothing, so that any thread can call it during a run.
        """
        return uses(self._scoped(), self._kernel.now)

    def state(self) -> dict[str, Json]:
        """Return the units that count now in each window, as sorted JSON. Empty windows are omitted."""
        return {
            "agents": self._used(self._agent_windows),
            "groups": self._used(self._group_windows),
            "total": self._used(self._total_windows),
        }

    # -- inside

    def _used(self, windows: Mapping[Any, Window]) -> dict[str, Json]:
        """Return the units that count now, by the parts of the keys of windows; None is no part."""
        used: dict[str, Json] = {}
        for key in sorted(windows):
            if count := self._count(windows[key]):
                *above, last = [name for name in key if name is not None]
                inner: Any = used
                for name in above:
                    inner = inner.setdefault(name, {})
                inner[last] = count
        return used

    def _count(self, window: Window) -> int:
        return window.limit - window.room(self._kernel.now)

    def _scopes(self, agent_id: str, resource: str) -> tuple[Window, ...]:
        plan = self._plans.get(agent_id)
        if plan is None:
            plan = self._make_plan(agent_id)
        for window in plan:
            if window.resource != resource:
                return tuple([window for window in plan if window.resource == resource])
        return plan  # no other resource is limited, so the plan itself is the answer

    def _lacking(self, agent_id: str, costs: Mapping[str, int]) -> str | None:
        """Return the result of `blocked_by`, after removing expired units from windows that seem full."""
        for resource, amount in costs.items():
            for window in self._scopes(agent_id, resource):
                if window.used + amount > window.limit and not self.has_capacity(agent_id, resource, amount):
                    return resource
        return None

    def _needs(self, agent_id: str, costs: Mapping[str, int]) -> tuple[Need, ...]:
        if agent_id not in self._plans:  # who waits has a plan of its own, by which `_change_for` knows it
            self._plans[agent_id] = self._make_plan(agent_id)
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
        """Return the windows of an agent, in the order in which resources were first limited.

        Without a limit for each agent, all agents of a group have the same windows, so they share one plan.
        """
        shared, group = self._shared_plans, self._groups.get(agent_id)
        if shared is not None:
            plan = shared.get(group)
            if plan is None:
                plan = shared[group] = self._collect(agent_id)
            return plan
        if len(self._plans) >= self._purge_at:
            self._drop_idle()
        plan = self._plans[agent_id] = self._collect(agent_id)
        return plan

    def _collect(self, agent_id: str) -> tuple[Window, ...]:
        own, group = self._own_rates.get(agent_id, {}), self._groups.get(agent_id)
        part = None if self._part_of is None else self._part_of(agent_id) or ""
        windows: list[Window] = []
        for resource in dict.fromkeys((*self._limits, *own)):
            limit = self._limits.get(resource, _NO_LIMIT)
            if rate := own.get(resource, limit.agent):
                windows.append(_window(self._agent_windows, (resource, agent_id), resource, rate))
            if group is not None and (rate := limit.group_in(group, part)):
                windows.append(_window(self._group_windows, (resource, group, part), resource, rate))
            if rate := limit.total_in(part):
                windows.append(_window(self._total_windows, (resource, part), resource, rate))
        return tuple(windows)

    def _plans_to_share(self) -> dict[str | None, tuple[Window, ...]] | None:
        by_agent = any(self._own_rates.values()) or any(limit.agent for limit in self._limits.values())
        return None if by_agent or self._part_of is not None else {}

    def _drop_idle(self) -> None:
        """Remove the windows of agents without units that still count at the time that all agents have reached."""
        now = self._kernel.reached
        kept: dict[str, None] = {}
        for (_, agent_id), window in self._agent_windows.items():
            if not window.idle(now):
                kept[agent_id] = None
        self._agent_windows = {key: window for key, window in self._agent_windows.items() if key[1] in kept}
        self._plans = {agent_id: plan for agent_id, plan in self._plans.items() if agent_id in kept}
        self._purge_at = max(_PURGE_FROM, 2 * len(self._plans))

    def _change_for(self, agent_id: str, change: Callable[[], None]) -> None:
        """Change the limits of one agent. If it is new, no wait has to be examined again."""
        if agent_id in self._plans or agent_id in self._groups:
            self._change(change)
        else:
            change()
            if self._own_rates.get(agent_id):
                self._shared_plans = None

    def _change(self, change: Callable[[], None]) -> None:
        """Change limits or groups, and examine all waits again."""

        def apply() -> None:
            change()
            self._plans, self._shared_plans = {}, self._plans_to_share()
            for (resource, agent_id), window in self._agent_windows.items():
                own = self._own_rates.get(agent_id, {})
                window.set_rate(own.get(resource, self._limits.get(resource, _NO_LIMIT).agent))
            for (resource, group, part), window in self._group_windows.items():
                window.set_rate(self._limits.get(resource, _NO_LIMIT).group_in(group, part))
            for (resource, part), window in self._total_windows.items():
                window.set_rate(self._limits.get(resource, _NO_LIMIT).total_in(part))

        self._line.start_over([window for *_, window in self._scoped()], apply)

    def _scoped(self) -> Iterator[tuple[str, Scope, Window]]:
        """Yield all windows. The tables are copied, because a run may change them in another thread meanwhile."""
        for (resource, _), window in dict(self._agent_windows).items():
            yield resource, "agent", window
        for (resource, *_), window in dict(self._group_windows).items():
            yield resource, "group", window
        for (resource, _), window in dict(self._total_windows).items():
            yield resource, "total", window


_NO_LIMIT = Limit()
_Key = TypeVar("_Key")


def _window(windows: dict[_Key, Window], key: _Key, resource: str, rate: Rate) -> Window:
    window = windows.get(key)
    if window is None:
        window = windows[key] = Window(rate, resource)
    return window


if core is not None:
    _TRACKER = ("_groups", "_kernel", "_limits", "_own_rates", "_plans", "_shared_plans", "_tallies")
    _WINDOW = ("entries", "limit", "queue", "resource", "used")
    core.take_over_rates(
        RateTracker,
        {name.lstrip("_"): getattr(RateTracker, name) for name in _TRACKER},
        Window,
        {name: getattr(Window, name) for name in _WINDOW},
        ResourceCounts,
        {"granted": vars(ResourceCounts)["granted"]},
    )
