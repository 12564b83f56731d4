"""Which events of a recorded run are edited in a branch: left out, or replaced (edge)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sim.base.errors import UsageError
from sim.events.topic import is_own
from sim.kernel import to_ns, to_text
from sim.kernel.codec import json_fault
from sim.record.reader import StoredRun
from sim.runner.options import BranchOptions
from sim.world.edits import Edit
from sim.world.events import MessageSent

EVENT_IDS: Final = (
    "`sim show RUN messages` has the ids of messages, and `sim show RUN sql 'SELECT * FROM events'` those of all"
)

MESSAGE: Final = MessageSent.TOPIC
"""The topic of the events that are messages; each names the topic of its message."""

MOST_EDITS: Final = 10_000
"""The most events that one branch edits."""


def edits_of(stored: StoredRun, options: BranchOptions) -> tuple[Edit, ...]:
    """Return the edits that the options of a branch name, in the order of their events.

    Raises:
        UsageError: if there is no such event, or if it is no message and no published event, came from outside, or is
            named twice.
    """
    replaced = options.replace or {}
    if twice := set(options.without) & replaced.keys():
        raise UsageError(f"event {min(twice)} is left out and replaced", hint="choose one of the two")
    if len(options.without) + len(replaced) > MOST_EDITS:
        raise UsageError(f"{len(options.without) + len(replaced)} events are edited, and {MOST_EDITS} are the most")
    numbers = sorted({*options.without, *replaced})
    return tuple(_edit(stored, number, replaced) for number in numbers)


def editable_topics(stored: StoredRun) -> dict[str, int]:
    """Return how many events a run has of each topic that a branch can leave out: `message.sent`, and others' own."""
    rows = stored.query("SELECT topic, count(*) FROM events GROUP BY topic ORDER BY topic")
    return {topic: count for topic, count in rows if topic == MESSAGE or not is_own(topic)}


def editable(
    stored: StoredRun, topics: Sequence[str], numbers: Sequence[int] = (), most: int = MOST_EDITS
) -> tuple[Edit, ...]:
    """Return the messages and published events of a run that a branch can leave out, in order.

    Args:
        stored: the run.
        topics: those of these topics; see `editable_topics`.
        numbers: only events with these numbers; none: all.
        most: the most that are returned.
    """
    outside = set(stored.query("SELECT time_ns, data ->> '$.topic', data ->> '$.agent' FROM inputs"))
    places = ", ".join("?" * len(topics))
    among = f" AND id IN ({', '.join(str(int(number)) for number in numbers)})" if numbers else ""
    columns = "id, time_ns, source, counter, topic, data ->> '$.topic', data ->> '$.to'"
    rows = stored.query(
        f"SELECT {columns} FROM events WHERE topic IN ({places}){among} ORDER BY id LIMIT ?",  # noqa: S608 - numbers
        (*topics, most),
    )
    edits = []
    for number, time_ns, source, counter, topic, sent, to in rows:
        is_message = topic == MESSAGE
        edit = Edit(
            event=number,
            source=source,
            counter=counter,
            time_ns=time_ns,
            topic=str(sent) if is_message else topic,
            to=str(to) if is_message else None,
        )
        if (time_ns, edit.topic, edit.to) not in outside:
            edits.append(edit)
    return tuple(edits)


def time_of(stored: StoredRun, number: int) -> int:
    """Return when an event happened, in simulated nanoseconds.

    Raises:
        UsageError: if there is no such event.
    """
    return int(_row(stored, number)[0])


def branch_time(stored: StoredRun, options: BranchOptions, edits: Sequence[Edit]) -> int:
    """Return the time at which a branch begins: as given, or that of the first event that it names.

    Raises:
        UsageError: if nothing says when, if two options do, or if an edited event lies before it.
    """
    if options.at is not None and options.at_event is not None:
        raise UsageError("the time of a branch is given twice: as at, and as at_event", hint="give one of them")
    first = min((edit.time_ns for edit in edits), default=None)
    if options.at is not None:
        at_ns = to_ns(options.at)
    elif options.at_event is not None:
        at_ns = time_of(stored, options.at_event)
    elif first is not None:
        at_ns = first
    else:
        raise UsageError(
            "the time of the branch is missing",
            hint="give at (--at DURATION), at_event (--at-event ID), or an event to leave out or replace",
        )
    for edit in edits:
        if edit.time_ns < at_ns:
            raise UsageError(
                f"event {edit.event} happened at {to_text(edit.time_ns)}, before the branch begins at {to_text(at_ns)}",
                hint="leave out the time: then the branch begins with the first event that it edits",
            )
    return at_ns


def _row(stored: StoredRun, number: int) -> tuple[Any, ...]:
    rows = stored.query("SELECT time_ns, source, counter, topic, data FROM events WHERE id = ?", (number,))
    if not rows:
        raise UsageError(f"there is no event {number} in {stored.path}", hint=EVENT_IDS)
    return tuple(rows[0])


def _edit(stored: StoredRun, number: int, replaced: Mapping[int, Any]) -> Edit:
    time_ns, source, counter, topic, data = _row(stored, number)
    to = None
    if topic == MESSAGE:
        message = json.loads(data)
        topic, to = str(message["topic"]), str(message["to"])
    elif is_own(topic):
        raise UsageError(
            f"event {number} is {topic}, which says what has happened: only messages and published events can be left"
            " out or replaced",
            hint="name the message or the event that led to it, or change a value with --set",
        )
    if _from_outside(stored, time_ns, topic, to):
        raise UsageError(
            f"event {number} came from outside of the run, and a branch repeats nothing from outside after it begins",
            hint=f"begin the branch at its time, and it does not happen: --at {to_text(time_ns)!r}",
        )
    other = replaced.get(number)
    if fault := json_fault(other, "the new data"):
        raise UsageError(f"event {number}: {fault}")
    return Edit(
        event=number,
        source=source,
        counter=counter,
        time_ns=time_ns,
        topic=topic,
        to=to,
        replaced=number in replaced,
        data=other,
    )


def _from_outside(stored: StoredRun, time_ns: int, topic: str, to: str | None) -> bool:
    """Return whether a call from outside sent this message or published this event."""
    sql = "SELECT count(*) FROM inputs WHERE time_ns = ? AND data ->> '$.topic' IS ? AND data ->> '$.agent' IS ?"
    return bool(stored.query(sql, (time_ns, topic, to))[0][0])
