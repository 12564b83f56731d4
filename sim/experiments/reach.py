"""Whom a change reaches: the agents whose events differ from those of the baseline, and when they first do."""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from sim.kernel import to_seconds
from sim.kernel.codec import decode, encode
from sim.kernel.ports import Recorder
from sim.kernel.rows import EventRow

_NO_AGENTS: Final = ("health-monitor", "host", "intervention", "scenario", "supervisor", "tick")
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
        self._numbers: dict[str, Numbers] = {}
        self._inner = inner
        self.input, self.intent, self.result, self.closed = inner.input, inner.intent, inner.result, inner.closed
        self.flush, self.durable = inner.flush, inner.durable

    def event(self, row: EventRow, /) -> None:
        """Note an event, and pass it on."""
        self._note(row)
        self._inner.event(row)

    def _note(self, row: EventRow) -> None:
        time_ns, actor, topic, data = row[0], row[5], row[6], row[7]
        if actor not in _NO_AGENTS and not actor.startswith(_SURVEY):
            hash = hashlib.blake2b(encode((topic, self._renumbered(actor, topic, data))), digest_size=8).digest()
            self.trace.setdefault(actor, []).append((time_ns, hash))

    def unrecorded(self, row: EventRow, /) -> None:
        """Note an event that is not on record, and pass it on to a listener behind this one."""
        self._note(row)
        hear = getattr(self._inner, "unrecorded", None)
        if hear is not None:
            hear(row)

    def _renumbered(self, agent: str, topic: str, data: object) -> Any:
        """Return data with the shared numbers of the run counted in the order in which the agent met them.

        Most data is encoded already when it is recorded, so it is decoded first.
        """
        return renumbered(topic, decode(encode(data)), self._numbers.setdefault(agent, {}))


_NAMED: Final = re.compile(r"(?:conversation|execution|file|gate|job)-[0-9]+|user:[0-9]+")
_IN_TEXT: Final = re.compile("#([0-9]+)")
"""A task, as prompts and notes name it."""

_OF_TASKS: Final = ("after_task", "depends_on", "parent", "related_task_id", "task", "task_id")
_AUDIT: Final = ("n", "previous", "hash")

Numbers = dict[tuple[str, object], int]
"""The numbers that an agent has met, by what they count; each with its place in the order in which it met them."""


def renumbered(topic: str, data: Any, met: Numbers) -> Any:
    """Return JSON-like data with the numbers that all agents of a run share replaced, at any depth.

    These are the numbers of tasks, memories, users, conversations, executions, files, gates and jobs, and the chain of
    the audit; docs/record.md lists them.

    Args:
        topic: the topic of the event.
        data: its data.
        met: the numbers that the agent has met; new ones are added.
    """
    if isinstance(data, str):
        if data[:1] in ("{", "["):  # the result of a tool, as a model reads it
            with contextlib.suppress(ValueError):
                return renumbered("text", json.loads(data), met)
        if _NAMED.fullmatch(data):
            return _place("name", data, met)
        return _IN_TEXT.sub(lambda match: _place("task", int(match[1]), met), data) if "#" in data else data
    if isinstance(data, list):
        return [renumbered(topic, value, met) for value in data]
    if not isinstance(data, dict):
        return data
    left_out = _AUDIT if topic.startswith("audit.") else ()
    return {key: _value(topic, key, value, met) for key, value in data.items() if key not in left_out}


def _value(topic: str, key: str, value: Any, met: Numbers) -> Any:
    counted = _counted(topic, key)
    if counted is not None and isinstance(value, int) and not isinstance(value, bool):
        return _place(counted, value, met)
    if counted is not None and isinstance(value, list) and all(isinstance(one, int) for one in value):
        return [_place(counted, one, met) for one in value]
    return renumbered(topic, value, met)


def _counted(topic: str, key: str) -> str | None:
    """Return what the whole numbers under a key count; None if they are not shared by all agents."""
    if key in _OF_TASKS:
        return "task"
    if key == "id":
        first, _, rest = topic.partition(".")
        return "task" if first == "task" or rest.endswith("_task") else None if first == "conversation" else topic
    return key if key == "memory" or key.endswith("_id") else None


def _place(counted: str, value: object, met: Numbers) -> str:
    return f"{counted} #{met.setdefault((counted, value), len(met))}"


def reached(baseline: Trace, arm: Trace, ends: tuple[float, float]) -> dict[str, float]:
    """Return the agents whose events differ, with the simulated seconds of their first difference, earliest first.

    If one run ends before the other, what follows in the other has nothing to be compared with, and does not count.

    Args:
        baseline, arm: the events of both runs.
        ends: the simulated seconds at which the runs ended.
    """
    first_times = {}
    end = min(ends) if ends[0] != ends[1] else math.inf
    for agent in sorted({**baseline, **arm}):
        for one, other in zip_longest(baseline.get(agent, ()), arm.get(agent, ())):
            if one != other:
                at = to_seconds(min(each[0] for each in (one, other) if each is not None))
                if at < end:
                    first_times[agent] = at
                break
    return dict(sorted(first_times.items(), key=lambda item: (item[1], item[0])))
