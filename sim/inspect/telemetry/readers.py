"""Readers of a run, for scrapes: they run in another thread while the run continues.

They change nothing in the run and take no lock. They first copy each table that can change, with `dict(table)`: CPython
copies a dict without a switch to another thread. (`list(table.items())` creates tuples, so garbage collection can run,
and with it other code.) So values of one scrape can be a few steps apart. Each value is correct for some moment during
the scrape.
"""

import math
from collections.abc import Callable
from fnmatch import fnmatchcase

from sim import __version__
from sim.actors import AgentLoop
from sim.actors.manager import Totals
from sim.actors.state import PauseReason
from sim.inspect.telemetry.catalog import VALUES
from sim.inspect.telemetry.sheet import Sheet
from sim.kernel.effects import EffectHandle
from sim.llm.counts import BOUNDS
from sim.resources import MICRO
from sim.runner import RunController
from sim.runner.figures import Figures


def read_run(runner: RunController, figures: Figures, sheet: Sheet) -> None:
    """Read the identity and the progress of the run."""
    world, simulation = runner.simulation.world, runner.simulation
    kernel = world.kernel
    clock = "virtual" if runner.speed is None else "wall"
    labels = (simulation.scenario.name, runner.mode, str(kernel.seed), clock, __version__)
    sheet.add("run_info", 1, *labels)
    sheet.add("simulated_seconds", runner.now)
    sheet.add("until_seconds", math.inf if runner.until is None else runner.until)
    if runner.speed is not None:
        sheet.add("speed_target_ratio", runner.speed)
        sheet.add("lag_seconds", runner.host.pacer.lag_ns / 1e9)
    sheet.add("steps", figures.steps)
    sheet.add("events_recorded", getattr(runner.recorder, "events", 0))
    if runner.mode == "tick" and runner.sync is None:  # in synchronised rounds, agents begin a tick at different times
        sheet.add("ticks", runner.ticks.ticks)
        sheet.add("tick_overruns", runner.ticks.overruns)


def read_agents(runner: RunController, figures: Figures, sheet: Sheet) -> None:
    """Read states, iterations and mailboxes by group."""
    for group, own in figures.groups.items():
        for state, count in own.states.items():
            sheet.add("agents", count, group, state)
        sheet.add("iterations", own.iterations, group)
        sheet.add("iteration_errors", own.errors, group)
        sheet.add("mailbox_messages", own.mail, group)
        sheet.most("mailbox_messages_max", own.most_mail, group)
    for reason in PauseReason:
        sheet.add("agents_paused", figures.paused.get(reason.value, 0), reason.value)
    sheet.add("mailbox_dropped", figures.dropped)
    sheet.add("mailbox_dead_letters", figures.dead)
    sheet.add("mailbox_unmatched", figures.unmatched)
    for state, cause, count in figures.wakeups:
        sheet.add("wakeups", count, state, cause)
    _read_health(runner, figures, sheet)


def _read_health(runner: RunController, figures: Figures, sheet: Sheet) -> None:
    health = runner.health
    failed = sum(count for state, cause, count in figures.wakeups if (state, cause) == ("paused", "errors"))
    sheet.add("heartbeats_missed", 0 if health is None else health.missed)
    sheet.add("locks_held", 0 if health is None else health.locks)
    sheet.add("effects_overdue", 0 if health is None else health.overdue)
    sheet.add("restarts", failed, "errors")
    sheet.add("restarts", 0 if health is None else health.restarted, "silence")
    sheet.add("crashes", figures.crashes)


def read_named(runner: RunController, sheet: Sheet, patterns: tuple[str, ...]) -> None:
    """Read the agents that match the patterns of the operator, up to the maximum number of label values."""
    named = [
        loop
        for name, loop in dict(runner.simulation.manager.loops).items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    for loop in named[: VALUES["agent"]]:
        _read_one(loop, sheet)


def _read_one(loop: AgentLoop, sheet: Sheet) -> None:
    totals = Totals().plus(loop)
    sheet.add("agent_iterations", totals.iterations, loop.agent_id)
    sheet.add("agent_iteration_errors", totals.errors, loop.agent_id)
    sheet.add("agent_wakeups", totals.wakeups, loop.agent_id)
    sheet.add("agent_mailbox_messages", len(loop.agent.mailbox), loop.agent_id)


def read_world(runner: RunController, figures: Figures, sheet: Sheet) -> None:
    """Read actions, messages, the metrics of the scenario, and the figures of services, or of shards."""
    world = runner.simulation.world
    sheet.add("tool_calls", 0, "ok")
    sheet.add("tool_calls", 0, "refused")
    for outcome, counts in (("ok", figures.done), ("refused", figures.refused)):
        for kind, count in counts.items():
            sheet.add("actions", count, kind, outcome)
            if kind == "use_tool":
                sheet.add("tool_calls", count, outcome)
    sheet.add("messages", figures.messages)
    for name, samples in dict(runner.feed.samples).items():
        if samples and (latest := samples[-1]) is not None:
            sheet.add("value", latest, name)
    for service in dict(world.services).values():
        for name, number in service.metrics().items():
            if number is not None:
                sheet.add("service_value", number, f"{service.name}.{name}")
    for name, number in () if runner.shards is None else runner.shards.metrics().items():
        sheet.add("service_value", number, f"shards.{name}")


def read_bus(runner: RunController, sheet: Sheet) -> None:
    """Read the event bus and observations."""
    world = runner.simulation.world
    bus = world.event_bus.statistics()
    sheet.add("bus_published", bus.published)
    sheet.add("bus_delivered", bus.delivered)
    sheet.add("bus_dropped", bus.dropped)
    sheet.add("bus_filter_errors", bus.failed_filters)
    sheet.add("bus_subscriptions", bus.subscriptions)
    for name, numbers in dict(world.observations).items():
        sheet.add("observations", len(numbers), name)


def read_resources(runner: RunController, sheet: Sheet) -> None:
    """Read rate limits, budgets, quotas and pools."""
    world = runner.simulation.world
    for use in world.rate_tracker.uses():
        sheet.add("rate_used", use.used, use.resource, use.scope)
        sheet.add("rate_limit", use.limit, use.resource, use.scope)
        sheet.most("rate_fullest_ratio", use.fullest, use.resource, use.scope)
    for resource, rate in world.rate_tracker.statistics().items():
        for outcome, count in (("granted", rate.granted), ("refused", rate.refused), ("waited", rate.waited)):
            sheet.add("rate_requests", count, resource, outcome)
        sheet.add("rate_overspent", rate.overspent, resource)
    for name, budget in world.budgets.statistics().items():
        sheet.add("budget_spent_units", budget.spent_micro / MICRO, name)
        sheet.add("budget_units", budget.amount_micro / MICRO, name)
        sheet.most("budget_fullest_ratio", budget.fullest, name)
    for name, quota in world.quotas.statistics().items():
        sheet.add("quota_held", quota.held, name)
        sheet.add("quota_limit", quota.limit, name)
        sheet.most("quota_fullest_ratio", quota.fullest, name)
    for name, pool in dict(world.pools).items():
        statistics = pool.statistics()
        sheet.add("pool_capacity", statistics.capacity, name)
        sheet.add("pool_level", statistics.level, name)
        sheet.add("pool_queue", statistics.queue, name)
        sheet.add("pool_served", statistics.served, name)
        sheet.add("pool_waited", statistics.waited, name)


class EffectReader:
    """Reads effects, and measures how long effects are in flight, because the core does not measure real time.

    Args:
        clock: returns monotonic real time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[EffectHandle, float] = {}

    def read(self, runner: RunController, sheet: Sheet) -> None:
        """Read effects in flight and their outcomes."""
        effects, now = runner.simulation.world.kernel.effects, self._clock()
        handles = dict(effects.in_flight).values()
        self._seen = {handle: self._seen.get(handle, now) for handle in handles}
        for kind in {handle.effect.kind: None for handle in handles}:
            sheet.add("effects_in_flight", sum(handle.effect.kind == kind for handle in handles), kind)
        if not handles:
            sheet.add("effects_in_flight", 0, "any")
        sheet.add("effects_in_doubt", sum(handle.held for handle in handles))
        working = [since for handle, since in self._seen.items() if not handle.held]
        sheet.add("effect_oldest_seconds", now - min(working, default=now))
        for outcome, count in dict(effects.counts).items():
            sheet.add("effects", count, outcome)


def read_models(runner: RunController, sheet: Sheet) -> None:
    """Read calls of language models, their cost, and the state of governors and circuit breakers."""
    models = runner.simulation.models
    if models is None:
        return
    spend, counts = models.spend, models.counts
    for model, tally in dict(spend.models).items():
        sheet.add("model_calls", tally.calls, model, "answered")
        sheet.add("model_calls", tally.failed, model, "failed")
        sheet.add("model_tokens", tally.input_tokens, model, "input")
        sheet.add("model_tokens", tally.output_tokens, model, "output")
        sheet.add("model_tokens", tally.cached_tokens, model, "cached")
        sheet.add("model_cost_units", tally.cost_micro / MICRO, model)
    for (model, outcome), count in dict(counts.requests).items():
        sheet.add("model_requests", count, model, outcome)
    for model, count in dict(counts.retries).items():
        sheet.add("model_retries", count, model)
    for model, durations in dict(counts.durations).items():
        sheet.histogram("model_call_seconds", BOUNDS, list(durations.buckets), durations.seconds, model)
    sheet.add("model_calls_in_flight", counts.in_flight)
    waiting = models.waiting
    sheet.add("model_batches", 0 if waiting is None else waiting.batches)
    sheet.add("model_batch_requests", 0 if waiting is None else waiting.requests)
    if spend.ceiling_micro is not None:
        sheet.add("model_ceiling_units", spend.ceiling_micro / MICRO)
        sheet.add("model_spent_ratio", spend.total.cost_micro / max(1, spend.ceiling_micro))
    for provider, endpoint in models.endpoints().items():
        governor = endpoint.governor.statistics()
        sheet.add("model_endpoint_granted", governor.granted, provider)
        sheet.add("model_endpoint_refused", governor.refused, provider)
        sheet.add("model_endpoint_in_flight", governor.in_flight, provider)
        sheet.add("model_endpoint_waiting", governor.waiting, provider)
        sheet.add("model_endpoint_pace_ratio", governor.pace, provider)
        sheet.add("model_endpoint_requests_per_minute", governor.requests_per_minute, provider)
        sheet.add("model_endpoint_tokens_per_minute", governor.tokens_per_minute, provider)
        sheet.add("model_endpoint_open", endpoint.breaker.is_open, provider)
