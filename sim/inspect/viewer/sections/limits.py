"""The use of limits, budgets and quotas.

The record has actions and model calls, but not what each of them used. This is computed here again, with the price list
of the scenario and the windows of the rate tracker. The result is as exact as the run, with one difference: reserved
amounts (of a model call in flight, or of a waiting action) count from the time of actual use.
"""

from collections.abc import Iterable, Mapping

from sim.events.coerce import mapping, whole
from sim.inspect.viewer.bins import Bins
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.kernel import to_text
from sim.kernel.codec import JsonObject, encode
from sim.llm.events import ModelCalled
from sim.llm.service import CALLS, COST, TOKENS
from sim.resources import MICRO, Rate, to_micro
from sim.resources.windows import Window
from sim.scenario import Scenario
from sim.scenario.assembly.world_builder import set_limits, set_prices, to_rate
from sim.scenario.groups import Groups
from sim.world import World
from sim.world.events import ActionTaken

_UNKNOWN = {"most": None, "agent": None, "total": None}


class _Scope:
    """One limit: the windows of all its holders (each agent, each group, or all), and the fullest window."""

    def __init__(self, resource: str, scope: str, rate: Rate, policy: str, bins: Bins) -> None:
        self.resource = resource
        self.scope = scope
        self.rate = rate
        self.policy = policy
        self.peaks = [0.0] * bins.count  # by part of the run: the highest used share of the limit
        self.total = 0
        self.rates: dict[str, Rate] = {}  # by key: rates of agents that have their own
        self._bins = bins
        self._windows: dict[str, Window] = {}
        self._part = 0

    def take(self, key: str, amount: int, time_ns: int) -> None:
        """Count an amount that was used."""
        self._reach(time_ns)
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window(self.rates.get(key, self.rate))
        window.room(time_ns)
        window.add(amount, time_ns)
        self.total += amount
        self._note(window)

    def finish(self) -> None:
        """Advance the windows to the end of the run."""
        self._reach(self._bins.end_ns)

    def _reach(self, time_ns: int) -> None:
        """Advance to the part of a time. Earlier use can still be in a window when a part begins."""
        last = self._bins.at(time_ns)
        while self._part < last:
            self._part += 1
            begin = self._bins.begin(self._part)
            for window in self._windows.values():
                window.room(begin)
                self._note(window)
            self._windows = {key: window for key, window in self._windows.items() if window.used}

    def _note(self, window: Window) -> None:
        share = window.used / window.limit
        if share > self.peaks[self._part]:
            self.peaks[self._part] = share

    def to_json(self) -> Json:
        """Return the limit and its use, JSON-like."""
        return {
            "resource": self.resource,
            "scope": self.scope,
            "limit": f"{self.rate.amount:,} per {to_text(self.rate.window_ns)}",
            "policy": self.policy,
            "total": self.total,
            "peak": max(self.peaks),
            "peaks": [round(share, 4) for share in self.peaks],
        }


class Limits(Section):
    """Computes the use of all limits, budgets and quotas of the scenario."""

    title = "Use of limits"
    place = 50
    topics = ("action.*", "model.call")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._usage = None if folds.scenario is None else _Usage(folds.scenario, folds.bins, folds.groups)

    def add(self, event: Event, data: Data) -> None:
        """Count the use of an action that succeeded, or of a call of a language model."""
        if self._usage is None:
            return
        if isinstance(data, ModelCalled):
            self._usage.call(event.time_ns, event.actor, data)
        elif isinstance(data, ActionTaken):
            self._usage.action(event.time_ns, event.actor, event.topic[7:], data)

    def to_json(self) -> Json:
        """Return all limits and their use; None if there are none."""
        if self._usage is None:
            return None
        digest = self.folds.stored.info.digest
        used = self._usage.to_json(None if digest is None else mapping(digest.get("quotas")))
        return used if any(used.values()) else None


class _Usage:
    """Computes the use of all limits, budgets and quotas of a scenario.

    Args:
        scenario: the scenario as run, with the changes of the run.
        bins: the parts of the run.
        groups: the groups of the agents.
    """

    def __init__(self, scenario: Scenario, bins: Bins, groups: Groups) -> None:
        self._groups = groups
        self._scenario = scenario
        world = World()
        set_limits(world, scenario)
        for name, budget in scenario.budgets.items():
            world.budgets.define(name, to_micro(budget.amount), budget.reset)
        for name, quota in scenario.quotas.items():
            world.quotas.define(name, round(quota))
        set_prices(world, scenario)
        self._charge = world.costs.charge
        self._scopes: dict[str, list[_Scope]] = {name: list(_scopes(name, scenario, bins)) for name in scenario.limits}
        self._own = {entry.name: entry.limits for entry in scenario.agents if entry.limits}
        self._spent: dict[str, dict[str, int]] = {name: {} for name in scenario.budgets}  # by agent, in micro-units

    def action(self, time_ns: int, agent: str, kind: str, data: ActionTaken) -> None:
        """Count the use of an action that succeeded."""
        if kind not in self._scenario.costs or not data.success:
            return
        charge = self._charge(kind, len(encode(data.arguments)))
        for name, units in charge.rates.items():
            self._take(name, agent, units, time_ns)
        for name, micro in charge.budgets.items():
            self._spend(name, agent, micro)

    def call(self, time_ns: int, agent: str, data: ModelCalled) -> None:
        """Count the use of a call of a language model."""
        tokens = whole(data.input_tokens) + whole(data.output_tokens)
        self._take(CALLS, agent, 1, time_ns)
        self._take(TOKENS, agent, tokens, time_ns)
        for name, micro in ((CALLS, MICRO), (TOKENS, tokens * MICRO), (COST, whole(data.cost_micro))):
            self._spend(name, agent, micro)

    def to_json(self, held: JsonObject | None) -> JsonObject:
        """Return all limits and their use.

        Args:
            held: the quotas that agents hold at the end, by quota and agent; None: the run has no end on record.
        """
        scopes = [scope for scopes in self._scopes.values() for scope in scopes]
        for scope in scopes:
            scope.finish()
        return {
            "rates": [scope.to_json() for scope in scopes],
            "budgets": [self._budget(name, spent) for name, spent in self._spent.items()],
            "quotas": [
                {"name": name, "limit": limit, **_held(held, name)} for name, limit in self._scenario.quotas.items()
            ],
        }

    def _take(self, name: str, agent: str, amount: int, time_ns: int) -> None:
        for scope in self._scopes.get(name, ()) if amount else ():
            key = {"each agent": agent, "each group": self._groups.of(agent)}.get(scope.scope, "")
            if scope.scope == "each agent" and agent not in scope.rates:
                own = self._own.get(self._groups.entry(agent), {}).get(name)
                scope.rates[agent] = to_rate(own, self._scenario) or scope.rate
            scope.take(key, amount, time_ns)

    def _spend(self, name: str, agent: str, micro: int) -> None:
        spent = self._spent.get(name)
        if spent is not None and micro:
            spent[agent] = spent.get(agent, 0) + micro

    def _budget(self, name: str, spent: Mapping[str, int]) -> dict[str, Json]:
        budget = self._scenario.budgets[name]
        most, agent, total = _most(spent)
        return {
            "name": name,
            "limit": budget.amount,
            "reset": None if budget.reset is None else to_text(budget.reset),
            "most": most / MICRO,
            "agent": agent,
            "total": total / MICRO,
        }


def _scopes(name: str, scenario: Scenario, bins: Bins) -> Iterable[_Scope]:
    limit = scenario.limits[name]
    for scope, bound in (("each agent", limit.agent), ("each group", limit.group), ("all together", limit.global_)):
        rate = to_rate(bound, scenario)
        if rate is not None:
            yield _Scope(name, scope, rate, limit.policy, bins)


def _held(held: JsonObject | None, name: str) -> JsonObject:
    """Return who holds the most of a quota at the end; unknown if the run has no end on record."""
    if held is None:
        return _UNKNOWN
    most, agent, total = _most({agent: whole(amount) for agent, amount in mapping(held.get(name)).items()})
    return {"most": most, "agent": agent, "total": total}


def _most(amounts: Mapping[str, int]) -> tuple[int, str | None, int]:
    """Return the largest amount, the agent that has it, and the total."""
    agent = max(amounts, key=lambda agent: amounts[agent], default=None)
    return 0 if agent is None else amounts[agent], agent, sum(amounts.values())
