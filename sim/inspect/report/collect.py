"""Collects the data of a report in one pass over the events of a run."""

from collections.abc import Mapping
from typing import Any

from sim.agents.outcomes import OF_SURVEYS, Measurement
from sim.events.coerce import mapping
from sim.inspect.report import conversations, executions
from sim.inspect.report.bins import Bins
from sim.inspect.report.channels import ChannelPosts
from sim.inspect.report.errors import ErrorList
from sim.inspect.report.gates import Gates
from sim.inspect.report.graph import Graph
from sim.inspect.report.limits import LimitUsage
from sim.inspect.report.models import ModelCalls, effects
from sim.inspect.report.people import MAX_ROWS, People, state_text
from sim.inspect.report.states import States
from sim.inspect.report.surveys import Surveys
from sim.inspect.report.tasks import TaskBoard
from sim.inspect.report.topics import Measures, Topics
from sim.kernel.rows import RecordedEvent
from sim.record import StoredRun
from sim.record.summary import without_folder
from sim.resources import MICRO
from sim.runner.branching import end_of
from sim.runner.recorded import recorded_scenario, recorded_text
from sim.scenario import Scenario
from sim.scenario.groups import Groups
from sim.scenario.outcome_names import outcomes_of
from sim.world.service import rows_of

_LONGEST_SCENARIO = 50_000


def collect(stored: StoredRun) -> dict[str, Any]:
    """Return the data of the report, JSON-like. The run can still be running, or can have been killed.

    Args:
        stored: the run. Its events are read once, in order; a bounded amount of data is kept.

    Raises:
        RunError: if the run is damaged.
    """
    return _Collector(stored).collect()


class _Collector:
    """The collectors of one report. It passes each event to those that need it."""

    def __init__(self, stored: StoredRun) -> None:
        self.stored = stored
        self.scenario = recorded_scenario(stored)
        self.bins = Bins.until(end_of(stored))
        self.groups = Groups(self.scenario)
        self.states = States(self.bins)
        self.topics = Topics(self.bins)
        self.measures = Measures()
        self.models = ModelCalls(self.bins)
        self.usage = None if self.scenario is None else LimitUsage(self.scenario, self.bins, self.groups)
        self.graphs = {name: Graph(name, self.groups) for name in ("messages", "payments")}
        self.errors = ErrorList(self.bins)
        self.people = People()
        self.gates = Gates()
        self.tasks = TaskBoard()
        self.channels = ChannelPosts()
        self.conversations = conversations.collector()
        self.surveys = Surveys(self.scenario, self.groups)
        self.executions = executions.collector()
        self.followers: dict[str, Any] = {  # by the first word of the topics that each follows
            "gate": self.gates, "task": self.tasks, "channel": self.channels, "conversation": self.conversations,
            "user": self.conversations, "execution": self.executions, "survey": self.surveys,
        }  # fmt: skip

    def collect(self) -> dict[str, Any]:
        """Read all events and return the data of the report."""
        for row in self.stored.events():
            self._add(row)
        self.states.finish()
        info = self.stored.info
        summary, digest, uses = info.summary or {}, info.digest or {}, _uses(self.scenario)
        usage = None if self.usage is None else self.usage.to_json(digest.get("quotas", {}))
        return {
            "run": self._run(),
            "end": self.bins.end_ns / 1e9,
            "numbers": self._numbers(summary),
            "states": self.states.to_json(),
            "finals": self.states.finals(),
            "topics": self.topics.to_json(),
            "actions": self.topics.kinds(),
            "samples": self.measures.samples(),
            "tick": None if info.mode != "tick" or self.scenario is None else self.scenario.execution.tick.period / 1e9,
            "about": {name: {"is": text, "uses": uses.get((name, 0), [])} for name, text in self._metrics().items()},
            "surveys": self.surveys.to_json(uses),
            "observations": self.measures.observations(),
            "usage": usage,
            "models": self.models.to_json(summary.get("models") or {}),
            "effects": effects(self.stored),
            "gates": self.gates.to_json(),
            "tasks": self.tasks.to_json(),
            "channels": self.channels.to_json(),
            "executions": executions.to_json(self.executions),
            "conversations": conversations.to_json(self.conversations),
            "services": [
                {"service": service, "name": name, "value": value}
                for service, name, value in rows_of(summary.get("services"))
            ],
            "graphs": [graph for graph in (graph.to_json() for graph in self.graphs.values()) if graph],
            "errors": self.errors.to_json(),
            "agents": self._agents(digest),
            "agents_in_all": len(self.people.known),
            "agents_at_most": MAX_ROWS,
        }

    def _metrics(self) -> dict[str, str]:
        """Return the expressions of the metrics."""
        values = {} if self.scenario is None else self.scenario.metrics.values
        return {name: expression.text for name, expression in values.items()}

    def _add(self, row: RecordedEvent) -> None:
        time_ns, actor, topic, data = row.time_ns, row.actor, row.topic, mapping(row.data)
        part = self.bins.at(time_ns)
        self.topics.add(part, topic, data)
        self.errors.add(time_ns, actor, topic, data)
        match topic:
            case "agent.state":
                self.states.add(time_ns, actor, data)
            case "message.sent":
                self.graphs["messages"].add(str(data.get("sender")), str(data.get("to")))
            case "ledger.transferred":
                self.graphs["payments"].add(str(data.get("from")), str(data.get("to")))
            case "metric.sample":
                self.measures.sample(time_ns, data)
            case "observation":
                self.measures.observe(data)
            case "model.call":
                self.models.call(part, data)
                self.usage.call(time_ns, actor, data) if self.usage is not None else None
            case "model.attempt":
                self.models.attempt(data)
            case _ if (follower := self.followers.get(topic.partition(".")[0])) is not None:
                follower.add(time_ns, topic, data)
            case _ if topic.startswith("action.") and self.usage is not None:
                self.usage.action(time_ns, actor, topic[7:], data)
        self.people.add(row, data, agent=actor in self.states.swimlanes)

    def _run(self) -> dict[str, Any]:
        """Return the settings of the run."""
        info = self.stored.info
        given = {name: value for name, value in info.options.items() if value not in (None, [], "")}
        error = (info.summary or {}).get("error")
        return {
            "id": info.id, "name": info.name, "seed": str(info.seed), "mode": info.mode, "backend": info.backend,
            "status": info.status, "started": info.started_at, "ended": info.ended_at, "hash": info.hash,
            "stopped_by": (info.summary or {}).get("stopped_by"), "error": error and without_folder(info, error),
            "versions": dict(info.versions), "options": given, "origin": info.origin,
            "description": "" if self.scenario is None else self.scenario.description,
            "scenario": recorded_text(self.stored)[:_LONGEST_SCENARIO].split("\n"),
        }  # fmt: skip

    def _numbers(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Return the totals. They are counted here, because a run that was killed has no summary."""
        done = sum(done for done, _ in self.topics.actions.values())
        refused = sum(refused for _, refused in self.topics.actions.values())
        return {
            "agents": len(self.people.known),
            "events": self.topics.total,
            "iterations": summary.get("iterations"),
            "actions": done,
            "refused": refused,
            "errors": summary.get("errors"),
            "wakeups": sum(swimlane.wakeups for swimlane in self.states.swimlanes.values()),
            "messages": sum(self.graphs["messages"].sent.values()),
        }

    def _agents(self, digest: Mapping[str, Any]) -> list[dict[str, Any]]:
        chosen = self.people.chosen(self.errors.by_agent)
        known = digest.get("agents", {})
        balances = digest.get("ledger", {}).get("balances", {})
        sent, received = self.graphs["messages"].sent, self.graphs["messages"].received
        rows = []
        for name in chosen:
            person, swimlane = self.people.known[name], self.states.swimlanes[name]
            micro = balances.get(name)
            state = known.get(name, {}).get("state")
            rows.append({
                "name": name, "group": self.groups.of(name), "state": swimlane.final, "done": person.done,
                "refused": person.refused, "errors": self.errors.by_agent.get(name, 0), "wakeups": swimlane.wakeups,
                "sent": sent[name], "received": received[name], "calls": person.calls,
                "cost": person.cost_micro / MICRO, "balance": None if micro is None else micro / MICRO,
                "swimlane": swimlane.signs.decode(), "has": None if state is None else state_text(state),
                **self.people.story(name, len(chosen)),
            })  # fmt: skip
        return rows


def _uses(scenario: Scenario | None) -> dict[tuple[str, int], list[str]]:
    """Return the outcomes that a scenario names, as text.

    They are by the metric that they are about, and 0; or by the survey, and the place of the question.
    """
    found: dict[tuple[str, int], dict[str, None]] = {}
    for name, one in ({} if scenario is None else outcomes_of(scenario)).items():
        label = f"{one.label or name} ({one.unit})" if one.unit else one.label or name
        for call in Measurement.parse(one.value).calls:
            number = int(call.options.get("question", 1)) if call.function in OF_SURVEYS else 0
            for what in (call.what,) if call.condition is None else call.condition.names:
                found.setdefault((what, number), {})[f"{label}: {one.value}"] = None
    return {key: [*texts] for key, texts in found.items()}
