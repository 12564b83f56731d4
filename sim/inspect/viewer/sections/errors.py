"""Errors, refusals and alerts of a run."""

import attrs

from sim.actors import PauseReason
from sim.actors.events import AgentCrashed, AgentFailed, DeadLetters, StateChanged
from sim.events.coerce import mapping, whole
from sim.events.event_text import short
from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.llm.events import ModelCalled
from sim.world.events import ActionTaken

_KINDS = 5000
"""The most different errors that are counted separately."""

_SHOWN = 300
_LONGEST = 300


@attrs.define
class _ErrorGroup:
    """One kind of error: its first agent, its first and last time, and its count."""

    agent: str
    first_ns: int
    last_ns: int
    count: int = 0


class Errors(Section):
    """Counts errors by kind and text.

    Attributes:
        by_agent: the number of errors of each agent. Refusals, pauses and unread messages are none.
    """

    title = "Errors and alerts"
    place = 150
    topics = ("action.*", "agent.*", "alert.**", "mailbox.dead_letters", "model.call")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.by_agent: dict[str, int] = {}
        self._groups: dict[tuple[str, str], _ErrorGroup] = {}
        self._parts = folds.bins.zeros()

    def add(self, event: Event, data: Data) -> None:
        """Count an event, if it is an error, a refusal or an alert."""
        time_ns, agent, topic = event.time_ns, event.actor, event.topic
        match data:
            case ActionTaken(success=False):
                self._count("refused", f"{topic[7:]}: {data.error}", time_ns, agent)
            case AgentFailed():
                self._count("error", data.error, time_ns, agent)
            case AgentCrashed():
                self._count("crashed", f"after {data.errors} errors in a row", time_ns, agent)
            case DeadLetters():
                self._count("dead letters", "messages that no agent read", time_ns, agent, whole(data.count))
            case ModelCalled() if data.error:
                self._count("model call", f"{data.error}: {data.message}", time_ns, agent)
            case StateChanged(after="paused"):
                reason = str(data.reason)
                if not reason.startswith(PauseReason.RESOURCES):  # to wait for a limit is normal operation
                    self._count("paused", reason, time_ns, agent)
            case _ if topic.startswith("alert."):  # also those of packages, whatever is in them
                alert = event.data
                about = mapping(alert).get("agent")
                name = about if isinstance(about, str) and about else agent
                self._count("alert", f"{topic[6:]} {short(alert)}", time_ns, name)
            case _:
                pass

    def to_json(self) -> Json:
        """Return the errors, the most severe first, and their counts over time."""
        ordered = sorted(self._groups.items(), key=lambda item: (_GRAVITY.index(item[0][0]), -item[1].count, item[0]))
        return {
            "kinds": len(ordered),
            "total": sum(self._parts),
            "counts": self._parts,
            "rows": [
                {
                    "kind": kind,
                    "text": text,
                    "count": group.count,
                    "agent": group.agent,
                    "first": group.first_ns / 1e9,
                    "last": group.last_ns / 1e9,
                }
                for (kind, text), group in ordered[:_SHOWN]
            ],
        }

    def _count(self, kind: str, text: str, time_ns: int, agent: str, count: int = 1) -> None:
        if len(agent) > 2:
            text = text.replace(agent, "…")  # count the same error of many agents as one
        key = (kind, text[:_LONGEST])
        if key not in self._groups and len(self._groups) >= _KINDS:
            key = (kind, "(others)")
        group = self._groups.setdefault(key, _ErrorGroup(agent, time_ns, time_ns))
        group.count += count
        group.last_ns = time_ns
        self._parts[self.folds.part] += count
        if kind in _FAULTS:
            self.by_agent[agent] = self.by_agent.get(agent, 0) + count


_GRAVITY = ("crashed", "alert", "error", "model call", "paused", "refused", "dead letters")
_FAULTS = _GRAVITY[:4]
