"""Every metric that a run has: names, labels and what they mean. The page docs/watch.md repeats this table.

Names follow the conventions of Prometheus: one prefix, base units, `_total` for what only grows. Labels are words of
the scenario and of the program, never the ids of agents, runs or messages, save for agents that the operator names.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import attrs

Kind = Literal["counter", "gauge", "histogram"]

PREFIX: Final = "sim_"


@attrs.frozen
class Metric:
    """One metric.

    Attributes:
        name: as Prometheus sees it, the prefix and `_total` included.
        kind: `counter`, `gauge` or `histogram`.
        help: what it says, in one sentence.
        labels: their names.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def _metrics(kind: Kind, *rows: tuple[str, str] | tuple[str, str, str]) -> Iterable[tuple[str, Metric]]:
    suffix = "_total" if kind == "counter" else ""
    for short, text, *labels in rows:
        names = tuple(labels[0].split()) if labels else ()
        yield short, Metric(f"{PREFIX}{short}{suffix}", kind, text, names)


CATALOG: Final[Mapping[str, Metric]] = dict(
    (
        # the run
        *_metrics(
            "gauge",
            ("run_info", "What is run; always 1.", "scenario mode seed clock version"),
            ("run_status", "1 for what the run is now: starting, running, finished, interrupted or failed.", "status"),
            ("until_seconds", "Simulated time at which the run ends, +Inf without a limit."),
            ("speed_ratio", "Simulated seconds per real second since the run began."),
            ("speed_target_ratio", "Simulated seconds per real second that are wanted; only with the wall clock."),
            ("lag_seconds", "How late, in real time, the latest paced step was; only with the wall clock."),
            ("step_seconds", "For how long the present step has been seen under way, in real time; 0 between steps."),
        ),
        *_metrics(
            "counter",
            ("simulated_seconds", "Simulated time that has passed."),
            ("wall_seconds", "Real time that has passed since the run began."),
            ("steps", "Steps of the kernel: times that an actor, or a callback, ran until it waited."),
            ("events_recorded", "Events on record: everything that happened."),
            ("scrape_seconds", "Processor time that went into scrapes of this endpoint."),
            ("stuck_steps", "Steps that did not yield within two real seconds."),
            ("ticks", "Ticks that were begun; only in tick mode."),
            ("tick_overruns", "Ticks that began late; only in tick mode."),
        ),
        # agents
        *_metrics(
            "gauge",
            ("agents", "Agents by group and state.", "group state"),
            ("agents_paused", "Paused agents by reason.", "reason"),
            ("mailbox_messages", "Messages that wait in mailboxes.", "group"),
            ("mailbox_messages_max", "Messages that wait in the fullest mailbox of a group.", "group"),
            ("agent_mailbox_messages", "Messages that wait; only for agents that the operator named.", "agent"),
        ),
        *_metrics(
            "counter",
            ("iterations", "Iterations that agents began.", "group"),
            ("iteration_errors", "Iterations that failed, and errors of agents outside one.", "group"),
            ("wakeups", "Times that an agent left a state of rest, and what woke it.", "state cause"),
            ("mailbox_dropped", "Messages that gave way to newer ones in a full mailbox."),
            ("mailbox_dead_letters", "Messages for agents that had stopped."),
            ("mailbox_unmatched", "Messages that no rule of their agent used."),
            ("heartbeats_missed", "Silences of agents that the health monitor found."),
            ("locks_held", "Iterations that the health monitor found to last too long."),
            ("effects_overdue", "Effects without an outcome at their deadline, if the health monitor is on."),
            ("restarts", "Agents that were started anew, after too many errors or a silence.", "reason"),
            ("crashes", "Agents that were stopped because they failed too often, or outside an iteration."),
            ("agent_iterations", "Iterations begun; only for agents that the operator named.", "agent"),
            (
                "agent_iteration_errors",
                "Iterations that failed, and errors outside one; only for agents that the operator named.",
                "agent",
            ),
            ("agent_wakeups", "Times that it left a state of rest; only for agents that the operator named.", "agent"),
        ),
        # the world
        *_metrics(
            "counter",
            ("actions", "Actions by kind, and whether they were done or refused.", "kind outcome"),
            ("tool_calls", "Tools that agents used, by outcome.", "outcome"),
            ("messages", "Messages that were taken."),
            ("bus_published", "Events that were published on the bus."),
            ("bus_delivered", "Events that were put into subscriptions."),
            ("bus_dropped", "Events that a full subscription lost."),
            ("bus_filter_errors", "Filters of subscriptions that failed, which counts as no."),
            ("observations", "Numbers that agents recorded.", "name"),
        ),
        *_metrics(
            "gauge",
            ("bus_subscriptions", "Subscriptions that are open."),
            ("value", "The latest sample of a metric of the scenario.", "name"),
        ),
        # resources
        *_metrics(
            "gauge",
            ("rate_used", "Units of a rate limit that count now; all agents or groups summed up.", "resource scope"),
            ("rate_limit", "Units that fit, summed up over the same agents or groups.", "resource scope"),
            ("rate_fullest_ratio", "Share of its limit that the fullest agent or group has used.", "resource scope"),
            ("budget_spent_units", "What all agents have spent of a budget in this period.", "budget"),
            ("budget_units", "What one agent may spend of a budget in a period.", "budget"),
            ("budget_fullest_ratio", "Share of its budget that the agent who spent most has spent.", "budget"),
            ("quota_held", "What all agents hold of a quota.", "quota"),
            ("quota_limit", "What one agent may hold of a quota.", "quota"),
            ("quota_fullest_ratio", "Share of its quota that the agent who holds most holds.", "quota"),
            ("pool_capacity", "What fits into a pool.", "pool"),
            ("pool_level", "What is there to be taken from a pool.", "pool"),
            ("pool_queue", "Agents that wait at a pool.", "pool"),
        ),
        *_metrics(
            "counter",
            ("rate_requests", "Times that units were granted, refused, or waited for.", "resource outcome"),
            ("rate_overspent", "Units beyond what had been reserved.", "resource"),
            ("pool_served", "Times that a pool gave or took something.", "pool"),
            ("pool_waited", "Times that an agent had to wait at a pool.", "pool"),
        ),
        # effects
        *_metrics(
            "gauge",
            ("effects_in_flight", "Effects that were begun and have no outcome yet.", "kind"),
            ("effects_in_doubt", "Effects that wait for a person's decision."),
            ("effect_oldest_seconds", "For how long the oldest effect in flight has been seen, in real time."),
        ),
        *_metrics("counter", ("effects", "Effects that ended, by outcome.", "outcome")),
        # language models
        *_metrics(
            "counter",
            ("model_calls", "Calls of language models that were answered, or failed for good.", "model outcome"),
            (
                "model_requests",
                "Requests that calls were made of: ok, rate_limit (429), overload, ...",
                "model outcome",
            ),
            ("model_retries", "Requests beyond the first of a call.", "model"),
            ("model_tokens", "Tokens: input, output, and cached, which are a part of input.", "model kind"),
            ("model_cost_units", "What calls cost, in the unit of money that prices are in.", "model"),
            ("model_endpoint_granted", "Requests that the governor let through.", "provider"),
            ("model_endpoint_refused", "Requests that the endpoint refused (429, 503, 529).", "provider"),
        ),
        *_metrics(
            "gauge",
            ("model_calls_in_flight", "Calls of language models under way."),
            ("model_ceiling_units", "What the run may spend on models; only if it has a ceiling."),
            ("model_spent_ratio", "Share of the ceiling that was spent; only if the run has one."),
            ("model_endpoint_in_flight", "Requests under way.", "provider"),
            ("model_endpoint_waiting", "Requests that wait for the governor.", "provider"),
            (
                "model_endpoint_pace_ratio",
                "Share of the limits that the governor uses now: below 1 after 429s.",
                "provider",
            ),
            ("model_endpoint_requests_per_minute", "Requests a minute that the governor allows now.", "provider"),
            ("model_endpoint_tokens_per_minute", "Tokens a minute that the governor allows now.", "provider"),
            ("model_endpoint_open", "1 while the breaker leaves the endpoint alone.", "provider"),
        ),
        *_metrics("histogram", ("model_call_seconds", "How long calls took, in simulated time.", "model")),
    )
)
"""All metrics, by their short names."""

VALUES: Final[Mapping[str, int]] = {
    "group": 40, "kind": 30, "resource": 30, "budget": 20, "quota": 20, "pool": 20, "model": 12, "provider": 4,
    "name": 40, "agent": 50,
}  # fmt: skip
"""How many values a label may have; the others share the value `other`. Labels that are not named here have few."""

FEW: Final = 16

MAX_SERIES: Final = 2000
"""More series than that no run has, whatever its agents and its scenario do: the two tables above see to it."""
