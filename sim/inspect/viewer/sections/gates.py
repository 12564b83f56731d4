"""The gates of a run: which calls of tools a person was asked about, and how they ended."""

from collections import Counter

import attrs

from sim.inspect.viewer.section import Data, Event, Folds, Json, Section
from sim.tools.events import GateChange, GatePending

_MOST = 10_000
"""The most gates that are followed."""

_SHOWN = 100
"""The most gates with their own line: the latest."""


@attrs.define
class _Gate:
    """What is shown of a gate."""

    gate: str
    agent: str
    tool: str
    status: str
    reason: str
    asked: float
    waited: float | None = None
    by: str = ""
    note: str = ""


class Gates(Section):
    """Follows gates through their events."""

    title = "Approvals"
    place = 100
    topics = ("gate.*",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self._gates: dict[str, _Gate] = {}
        self._left = 0  # number of gates that are not followed

    def add(self, event: Event, data: Data) -> None:
        """Note an event of a gate."""
        now = event.time_ns / 1e9
        if isinstance(data, GatePending):
            if len(self._gates) >= _MOST:
                self._left += 1
                return
            self._gates[data.gate] = _Gate(data.gate, data.agent, data.tool, "pending", data.reason[:200], now)
        elif isinstance(data, GateChange) and data.gate in self._gates:
            gate = self._gates[data.gate]
            if gate.waited is None:
                gate.waited = now - gate.asked
            gate.status = event.topic.partition(".")[2]
            gate.by = (data.by or gate.by)[:80]
            gate.note = (data.note or gate.note)[:200]

    def to_json(self) -> Json:
        """Return the number of gates by status, and the latest gates; None if there are none."""
        if not self._gates:
            return None
        gates = list(self._gates.values())
        counts = Counter(gate.status for gate in gates)
        rows = list(map(attrs.asdict, gates[: -_SHOWN - 1 : -1]))
        return {"total": len(gates) + self._left, "counts": dict(sorted(counts.items())), "rows": rows}
