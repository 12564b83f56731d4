"""The overview of a run: its settings, its totals, and the sections, made in one pass over its events."""

from collections import Counter
from collections.abc import Sequence

from sim.inspect.viewer.folds import Folds
from sim.inspect.viewer.section import Section
from sim.inspect.viewer.sections import sections
from sim.inspect.viewer.sections.agents import Agents
from sim.inspect.viewer.sections.events import Events
from sim.inspect.viewer.sections.graph import Graph
from sim.inspect.viewer.sections.models import Models
from sim.kernel.codec import Json
from sim.record import StoredRun
from sim.record.summary import without_folder
from sim.resources import MICRO


class Overview:
    """What the overview of a run shows. Its size is bounded, however long the run is.

    Args:
        stored: the run. It can still be running, or can have been killed; then it is what is on record now.
        kinds: the sections; by default those of `sim`.

    Attributes:
        folds: take in the events.
    """

    def __init__(self, stored: StoredRun, kinds: Sequence[type[Section]] | None = None) -> None:
        self.folds = Folds(stored)
        self._sections = [self.folds.of(kind) for kind in (sections() if kinds is None else kinds)]
        self._totals = [self.folds.of(kind) for kind in (Agents, Events, Graph, Models)]

    def to_json(self) -> dict[str, Json]:
        """Return what the page draws, JSON-like, after all events were taken in."""
        sections = [(one.name(), one.title, one.to_json()) for one in self._sections]
        return {
            "run": self._run(),
            "end": self.folds.bins.end_ns / 1e9,
            "numbers": self._numbers(),
            "sections": [
                {"name": name, "title": title, "data": data} for name, title, data in sections if data is not None
            ],
        }

    def _run(self) -> dict[str, Json]:
        """Return the settings of the run, and where it is from."""
        info, scenario = self.folds.stored.info, self.folds.scenario
        options = {name: value for name, value in info.options.items() if value not in (None, [], "")}
        error = (info.summary or {}).get("error")
        warnings = [str(one["text"]) for one in (info.summary or {}).get("warnings") or ()]
        warnings += filter(None, [self.folds.malformed.sentence(info.versions.get("sim"))])
        return {
            "id": info.id,
            "name": info.name,
            "seed": str(info.seed),
            "mode": info.mode,
            "backend": info.backend,
            "status": info.status,
            "started": info.started_at,
            "ended": info.ended_at,
            "hash": info.hash,
            "stopped_by": (info.summary or {}).get("stopped_by"),
            "error": error and without_folder(info, error),
            "warnings": [without_folder(info, text) for text in warnings],
            "versions": dict(info.versions),
            "options": options,
            "origin": info.origin,
            "description": "" if scenario is None else scenario.description,
            "tick": None if info.mode != "tick" or scenario is None else scenario.execution.tick.period / 1e9,
        }

    def _numbers(self) -> dict[str, Json]:
        """Return the totals. They are counted here, because a run that was killed has no summary."""
        summary, of = self.folds.stored.info.summary or {}, self.folds.of
        actions, models = of(Events).actions.values(), of(Models)
        unread = Counter[str]()
        for row in summary.get("unread") or ():
            unread["waiting" if row["why"] == "waiting" else "unread"] += row["count"]
        return {
            "agents": len(of(Agents).people),
            "events": of(Events).total,
            "malformed": self.folds.malformed.total,
            "iterations": summary.get("iterations"),
            "actions": sum(done for done, _ in actions),
            "refused": sum(refused for _, refused in actions),
            "errors": summary.get("errors"),
            "wakeups": of(Agents).wakeups,
            "messages": sum(of(Graph).messages.sent.values()),
            "lost": summary.get("dropped") or 0,
            "unread": unread["unread"],
            "waiting": unread["waiting"],
            "calls": models.total,
            "spent": models.micro / MICRO,
        }
