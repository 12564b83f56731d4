"""The catalog of all metrics of a run: names, labels and help texts. The page docs/metrics.md repeats this table.

Names follow the conventions of Prometheus: one prefix, base units, and `_total` for counters. Label values are words of
the scenario and of the program. They are never ids of agents, runs or messages, except for agents that the operator
names.
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
        name: the full name in Prometheus, with the prefix and `_total`.
        kind: `counter`, `gauge` or `histogram`.
        help: the help text, in one sentence.
        labels: the names of the labels.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


_Row = tuple[str, str] | tuple[str, str, str]
"""A metric: its short name, its help text, and the names of its labels, if it has some."""


def _metrics(kind: Kind, rows: Iterable[_Row]) -> Iterable[tuple[str, Metric]]:
    suffix = "_total" if kind == "counter" else ""
    for short, text, *labels in rows:
        names = tuple(labels[0].split()) if labels else ()
        yield short, Metric(f"{PREFIX}{short}{suffix}", kind, text, names)


CATALOG: Final[Mapping[str, Metric]] = dict(
    (
        # the run
        *_metrics(
            "gauge",
            [
                (
                    "run_info",
                    "Scenario, mode, seed, clock and program version of the run, as labels; the value is always 1.",
                    "scenario mode seed clock version",
                ),
                (
                    "run_status",
                    "1 for the present status: starting, running, finished, interrupted or failed; 0 for the others.",
                    "status",
                ),
                ("until_seconds", "Simulated time at which the run ends; +Inf without a limit."),
                ("speed_ratio", "Simulated seconds per real second since the run began."),
                ("speed_target_ratio", "Target of simulated seconds per real second; only with the wall clock."),
                ("lag_seconds", "Delay of the latest paced step, in real time; only with the wall clock."),
                ("step_seconds", "How long the present step has been observed to run, in real time; 0 between steps."),
            ],
        ),
        *_metrics(
            "counter",
            [
                ("simulated_seconds", "Simulated time since the run began."),
                ("wall_seconds", "Real time since the run began."),
                ("steps", "Steps of the kernel: how often an actor or a callback ran until its next wait."),
                ("events_recorded", "Recorded events."),
                ("scrape_seconds", "CPU time spent on reading the run for scrapes."),
                ("stuck_steps", "Steps that ran for more than two real seconds."),
                ("ticks", "Ticks that began; only in tick mode."),
                ("tick_overruns", "Ticks that began late; only in tick mode."),
            ],
        ),
        # agents
        *_metrics(
            "gauge",
            [
                ("agents", "Agents by group and state.", "group state"),
                ("agents_paused", "Paused agents by reason.", "reason"),
                ("mailbox_messages", "Messages in mailboxes.", "group"),
                ("mailbox_messages_max", "Messages in the fullest mailbox of a group.", "group"),
                (
                    "agent_mailbox_messages",
                    "Messages in the mailbox; only for agents that the operator named.",
                    "agent",
                ),
            ],
        ),
        *_metrics(
            "counter",
            [
                ("iterations", "Iterations that began.", "group"),
                ("iteration_errors", "Failed iterations, and errors of agents outside an iteration.", "group"),
                ("wakeups", "How often an agent left a sleep or a pause, by state and cause.", "state cause"),
                ("mailbox_dropped", "Messages that a full mailbox dropped to accept newer ones."),
                ("mailbox_dead_letters", "Messages that were left, or arrived, after their agent stopped."),
                ("mailbox_unmatched", "Messages that no rule of their agent used, without those that still wait."),
                ("heartbeats_missed", "Missed heartbeats that the health monitor found."),
                ("locks_held", "Iterations that lasted too long, found by the health monitor."),
                (
                    "effects_overdue",
                    "Effects without an outcome at their deadline; counted if the health monitor is on.",
                ),
                ("restarts", "Restarts of agents, after too many errors or a missed heartbeat.", "reason"),
                ("crashes", "Crashes of agents: agents that failed too often, or outside an iteration."),
                ("agent_iterations", "Iterations that began; only for agents that the operator named.", "agent"),
                (
                    "agent_iteration_errors",
                    "Failed iterations, and errors outside an iteration; only for agents that the operator named.",
                    "agent",
                ),
                (
                    "agent_wakeups",
                    "How often the agent left a sleep or a pause; only for agents that the operator named.",
                    "agent",
                ),
            ],
        ),
        # the world
        *_metrics(
            "counter",
            [
                ("actions", "Actions by kind and outcome: ok or refused.", "kind outcome"),
                ("tool_calls", "Calls of tools, by outcome.", "outcome"),
                ("messages", "Messages that were delivered to a mailbox."),
                ("bus_published", "Events published on the event bus."),
                ("bus_delivered", "Events delivered to subscriptions."),
                ("bus_dropped", "Events that a full subscription dropped."),
                ("bus_filter_errors", "Errors in filters of subscriptions; such an event is not delivered."),
                ("observations", "Observations that agents recorded.", "name"),
            ],
        ),
        *_metrics(
            "gauge",
            [
                ("bus_subscriptions", "Open subscriptions."),
                ("value", "The latest sample of a metric of the scenario.", "name"),
                (
                    "service_value",
                    "A number of a service such as tools or memories; the name begins with the service.",
                    "name",
                ),
            ],
        ),
        # resources
        *_metrics(
            "gauge",
            [
                (
                    "rate_used",
                    "Units of a rate limit used within the present window, summed over all agents or groups.",
                    "resource scope",
                ),
                (
                    "rate_limit",
                    "Units that the rate limit allows, summed over the same agents or groups.",
                    "resource scope",
                ),
                (
                    "rate_fullest_ratio",
                    "Largest share of its rate limit that an agent or group has used.",
                    "resource scope",
                ),
                ("budget_spent_units", "Amount of a budget that all agents have spent in this period.", "budget"),
                ("budget_units", "Amount of a budget that one agent can spend in a period.", "budget"),
                ("budget_fullest_ratio", "Largest share of its budget that an agent has spent.", "budget"),
                ("quota_held", "Amount of a quota that all agents hold.", "quota"),
                ("quota_limit", "Amount of a quota that one agent can hold.", "quota"),
                ("quota_fullest_ratio", "Largest share of its quota that an agent holds.", "quota"),
                ("pool_capacity", "Capacity of a pool.", "pool"),
                ("pool_level", "Level of a pool: free slots, amount, or number of items.", "pool"),
                ("pool_queue", "Requests that wait at a pool.", "pool"),
            ],
        ),
        *_metrics(
            "counter",
            [
                (
                    "rate_requests",
                    "Requests for units of a rate limit, by outcome: granted, refused or waited.",
                    "resource outcome",
                ),
                ("rate_overspent", "Units used beyond the reserved units.", "resource"),
                ("pool_served", "Requests that a pool has served.", "pool"),
                ("pool_waited", "Requests that had to wait at a pool.", "pool"),
            ],
        ),
        # effects
        *_metrics(
            "gauge",
            [
                ("effects_in_flight", "Effects that have started and have no outcome yet.", "kind"),
                ("effects_in_doubt", "In-doubt effects, which wait for the decision of a person."),
                ("effect_oldest_seconds", "How long the oldest effect in flight has been observed, in real time."),
            ],
        ),
        *_metrics("counter", [("effects", "Effects that ended, by outcome.", "outcome")]),
        # language models
        *_metrics(
            "counter",
            [
                ("model_calls", "Calls of language models, by outcome: answered or failed.", "model outcome"),
                (
                    "model_requests",
                    "Requests of calls, including retries, by outcome: ok, rate_limit (429), overload, ...",
                    "model outcome",
                ),
                ("model_retries", "Retries: requests after the first one of a call.", "model"),
                ("model_tokens", "Tokens by kind: input, output, and cached, which is a part of input.", "model kind"),
                ("model_cost_units", "Cost of calls, in the currency of the prices.", "model"),
                ("model_endpoint_granted", "Requests that the governor allowed.", "provider"),
                ("model_endpoint_refused", "Requests that the endpoint refused (429, 503, 529).", "provider"),
            ],
        ),
        *_metrics(
            "gauge",
            [
                ("model_calls_in_flight", "Calls of language models in flight."),
                ("model_batches", "Batches under way at endpoints."),
                ("model_batch_requests", "Requests that wait in batches."),
                ("model_ceiling_units", "Ceiling of the run for language models; only if it has one."),
                ("model_spent_ratio", "Share of the ceiling that is spent; only if the run has one."),
                ("model_endpoint_in_flight", "Requests in flight.", "provider"),
                ("model_endpoint_waiting", "Requests that wait for the governor.", "provider"),
                (
                    "model_endpoint_pace_ratio",
                    "Share of the limits that the governor uses now; below 1 after responses 429.",
                    "provider",
                ),
                ("model_endpoint_requests_per_minute", "Requests per minute that the governor allows now.", "provider"),
                ("model_endpoint_tokens_per_minute", "Tokens per minute that the governor allows now.", "provider"),
                (
                    "model_endpoint_open",
                    "1 while the circuit breaker sends no requests to the endpoint, otherwise 0.",
                    "provider",
                ),
            ],
        ),
        *_metrics("histogram", [("model_call_seconds", "Duration of calls, in simulated time.", "model")]),
    )
)
"""All metrics, by their short names."""

VALUES: Final[Mapping[str, int]] = {
    "group": 40, "kind": 30, "resource": 30, "budget": 20, "quota": 20, "pool": 20, "model": 12, "provider": 4,
    "name": 40, "agent": 50,
}  # fmt: skip
"""The maximum number of values per label; further values share the value `other`. Other labels can have `FEW`."""

FEW: Final = 16
"""The maximum number of values of a label that is not in `VALUES`."""

MAX_SERIES: Final = 2000
"""The maximum number of series of any run. It follows from the catalog and the maximum numbers of values above."""
