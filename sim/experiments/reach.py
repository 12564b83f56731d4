"""Whom a change reaches: the agents whose events differ from those of the baseline, and when they first do."""

import hashlib
import math
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from sim.kernel import to_seconds
from sim.kernel.codec import encode
from sim.kernel.ports import Recorder
from sim.kernel.rows import EventRow

_NO_AGENTS: Final = ("host", "intervention", "scenario", "supervisor")
_SURVEY: Final = "survey:"
"""How the names of those begin who await the answers of a survey."""

Trace = Mapping[str, list[tuple[int, bytes]]]
"""The events of each agent: their time in simulated nanoseconds, and a hash of topic and data."""


class TraceRecorder:
    """Notes the events of each agent, and passes all rows on to another recorder.

    Neither the place of an event in the order of the run is noted, nor the numbers that the run gives to tasks,
    messages and conversations, but only which of them are the same to the agent: another agent may change these without
    reaching this one.

    Args:
        inner: the recorder.

    Attributes:
        trace: the events by agent.
    """

    def __init__(self, inner: Recorder) -> None:
        self.trace: dict[str, list[tuple[int, bytes]]] = {}
        self._ids: dict[str, dict[int | str, int]] = {}
        self._inner = inner
        self.input, self.intent, self.result, self.closed = inner.input, inner.intent, inner.result, inner.closed
        self.flush, self.durable = inner.flush, inner.durable

    def event(self, row: EventRow, /) -> None:
        """Note an event, and pass it on."""
        time_ns, actor, topic, data = row[0], row[5], row[6], row[7]
        if actor not in _NO_AGENTS and not actor.startswith(_SURVEY):
            hash = hashlib.blake2b(encode((topic, self._renumbered(actor, data))), digest_size=8).digest()
            self.trace.setdefault(actor, []).append((time_ns, hash))
        self._inner.event(row)

    def _renumbered(self, agent: str, data: Any) -> Any:
        """Return data with the ids of the run numbered in the order in which the agent met them."""
        if not isinstance(data, dict):
            return data
        ids = self._ids.setdefault(agent, {})
        return {key: ids.setdefault(value, len(ids)) if _is_id(key, value) else value for key, value in data.items()}


def _is_id(key: str, value: object) -> bool:
    """Return whether a value is an id that the run has assigned by counting."""
    if isinstance(value, int) and not isinstance(value, bool):
        return key in ("id", "task") or key.endswith("_id")
    return isinstance(value, str) and key in ("id", "conversation")


def reached(baseline: Trace, arm: Trace, ends: tuple[float, float]) -> dict[str, float]:
    """Return the agents whose events differ, with the simulated seconds of their first difference, earliest first.

    If one run ends before the other, what follows in the other has nothing to be compared with, and does not count.

    Args:
        baseline, arm: the events of both runs.
        ends: the simulated seconds at which the runs ended.
    """
    found = {}
    end = min(ends) if ends[0] != ends[1] else math.inf
    for agent in sorted({**baseline, **arm}):
        for one, other in zip_longest(baseline.get(agent, ()), arm.get(agent, ())):
            if one != other:
                at = to_seconds(min(each[0] for each in (one, other) if each is not None))
                if at < end:
                    found[agent] = at
                break
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))
