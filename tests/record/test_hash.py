"""What changes the hash of a run, and what does not."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import ActorError
from sim.kernel.codec import Raw, encode
from sim.kernel.effects import hash_request
from sim.kernel.rows import EventRow, InputRow, IntentRow, ResultRow
from sim.record import HashRecorder, final_hash, open_run
from sim.record.hashing import RunHash, encode_events
from sim.record.lanes import Lanes
from tests.record import resealed

EVENT: EventRow = (
    5,
    1,
    2,
    3,
    4,
    "a1",
    "agent.state",
    {"to": "idle", "parts": [1, 1.5, None, True, "x"]},
    (3, 1),
)
EVENTS: list[EventRow] = [(1, 0, 0, 3, 3, "a1", "start", None, None), EVENT]
INTENTS: list[IntentRow] = [
    IntentRow("a1", 0, "llm", "aa", {"p": 1}, "modelled", "pure", 5),
    IntentRow("a1", 1, "tool", "bb", None, "measured", "unsafe", 6),
    IntentRow("a2", 0, "tool", "bb", None, "measured", "unsafe", 6),
]
DIGEST: dict[str, Any] = {"states": {"a1": "idle"}, "ledger": {"town": 10}, "draws": {"a1": {"latency": 3}}}


def run_hash(events: list[EventRow], intents: list[IntentRow], digest: dict[str, Any]) -> str:
    """Return the hash of a run of these events, effects and final digest."""
    recorder = HashRecorder()
    for row in events:
        recorder.event(row)
    for intent in intents:
        recorder.intent(intent)
    return recorder.finish("finished", digest, 10, {})


def mutations(value: Any) -> list[Any]:
    """Return values that differ from `value` in one place."""
    if isinstance(value, dict):
        changed = [{**value, key: other} for key, part in value.items() for other in mutations(part)]
        return [*changed, {**value, "new": 1}, {f"{key}x": part for key, part in value.items()}]
    if isinstance(value, list | tuple):
        return [
            [*value[:place], other, *value[place + 1 :]]
            for place, part in enumerate(value)
            for other in mutations(part)
        ] + [[*value, 0], [*value[1:]]]
    if isinstance(value, bool):
        return [not value, None, int(value)]
    if isinstance(value, int):
        return [value + 1, -value - 1, float(value), str(value)]
    if isinstance(value, float):
        return [value + 1e-15, -value]
    return [f"{value}x", ""] if isinstance(value, str) else [0, False, "", []]


@pytest.mark.parametrize("field", range(9))
def test_each_field_of_an_event_changes_the_hash(field):
    """Changing any of the 9 fields of an event, or any part of its data, gives another hash."""
    original = run_hash(EVENTS, INTENTS, DIGEST)

    for other in mutations(EVENT[field]):
        changed: Any = (*EVENT[:field], other, *EVENT[field + 1 :])
        assert run_hash([EVENTS[0], changed], INTENTS, DIGEST) != original, other


def test_missing_added_and_swapped_events_change_the_hash():
    """The hash covers which events there are, and their order."""
    original = run_hash(EVENTS, INTENTS, DIGEST)
    others = [[], EVENTS[:1], EVENTS[1:], EVENTS[::-1], [*EVENTS, EVENT]]

    assert original not in [run_hash(events, INTENTS, DIGEST) for events in others]


def test_each_effect_request_changes_the_hash():
    """The hash covers actor, ordinal, kind and request hash of every effect, and the order of those of one actor."""
    original = run_hash(EVENTS, INTENTS, DIGEST)
    hashes = [run_hash(EVENTS, intents, DIGEST) for intents in ([], INTENTS[:1], INTENTS[::-1])]
    for place, intent in enumerate(INTENTS):
        for field in range(4):
            for other in mutations(intent[field]):
                changed: Any = [*INTENTS]
                changed[place] = IntentRow._make((*intent[:field], other, *intent[field + 1 :]))
                hashes.append(run_hash(EVENTS, changed, DIGEST))

    assert original not in hashes


def test_each_part_of_the_digest_changes_the_hash():
    """The hash covers every part of the final digest."""
    original = run_hash(EVENTS, INTENTS, DIGEST)

    for other in mutations(DIGEST):
        assert run_hash(EVENTS, INTENTS, other) != original, other


def test_events_effects_and_digest_cannot_be_exchanged():
    """The same bytes count differently as events, effects or digest."""
    body = encode(("a1", 0, "llm", "aa"))
    events, effects = RunHash(), RunHash()
    events.add_events(body, 1)
    effects.add_effect("a1", 0, "llm", "aa")
    hashes = {final_hash(hash.lanes, digest) for hash in (events, effects, RunHash()) for digest in ({}, {"a": 1})}
    assert len(hashes) == 6


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=30), st.data())
def test_a_lane_holds_the_events_of_its_agents_in_their_order(told, data):
    """However rows are cut into bodies, and whatever names hold, each lane is the hash of its agents' rows alone."""
    rows = [
        (n, 0, 0, 1, n, actor, topic, [[n], ["],["]] if n % 3 else None, None) for n, (actor, topic) in enumerate(told)
    ]
    whole, parts = RunHash(), RunHash()
    whole.add_events(encode_events(rows), len(rows))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(rows))))), len(rows)]
    for since, until in pairwise(cuts):
        parts.add_events(encode_events(rows[since:until]), until - since)
    assert parts.lanes == whole.lanes
    assert parts.stream == whole.stream
    for lane in {Lanes().of(actor) for actor, _ in told}:
        alone = RunHash()
        own = [row for row in rows if Lanes().of(row[5]) == lane]
        alone.add_events(encode_events(own), len(own))
        assert alone.lanes[lane] == whole.lanes[lane]
        assert sum(one != other for one, other in zip(alone.lanes, RunHash().lanes, strict=True)) == 1


def test_seed_run_id_wall_times_and_versions_do_not_change_the_hash(start):
    """Two runs that did the same have one hash, whatever their seed, id, wall times, versions and summary."""
    hashes = set()
    runs: list[dict[str, Any]] = [
        {"seed": 1},
        {"seed": 2, "name": "other"},
        {"versions": {"python": "9"}},
        {"backend": "trio"},
    ]
    for number, header in enumerate(runs):
        recorder = start(**header)
        recorder.event(EVENT)
        hashes.add(recorder.finish("finished", DIGEST, 10, {"wall_seconds": number}))
        resealed.change(recorder.folder, "UPDATE run SET started_at = 'then', ended_at = 'later', seed = 99")
        open_run(recorder.folder).close()  # still matches its hash

    assert hashes == {run_hash([EVENT], [], DIGEST)}


@pytest.mark.slow
@given(st.lists(st.sampled_from(["event", "flush", "intent"]), max_size=40))
def test_the_hash_does_not_depend_on_chunks(steps):
    """Wherever the events are cut into chunks, the hash is the same."""
    cut, whole = HashRecorder(), HashRecorder()
    for place, step in enumerate(steps):
        if step == "flush":
            cut.flush()
            continue
        for recorder in (cut, whole):
            if step == "event":
                recorder.event((place, 0, 0, 1, place, "a", "t", {"n": place}, None))
            else:
                recorder.intent(IntentRow("a", place, "llm", str(place), None, "modelled", "pure", place))

    assert whole.finish("finished", {}, 1, {}) == cut.finish("finished", {}, 1, {})


def test_both_recorders_give_the_same_hash(start):
    """A run with a file has the hash of the same run without one, over several chunks and effects between."""
    with_file, without = start(), HashRecorder(keep=True)
    for recorder in (with_file, without):
        for place in range(10_000):
            recorder.event((place, 0, 0, 1, place, "a", "t", {"n": place / 7}, (1, place)))
            if place % 1000 == 0:
                asked = hash_request("llm", encode({"p": place}))
                recorder.intent(IntentRow("a", place, "llm", asked, {"p": place}, "modelled", "pure", place))
                recorder.result(ResultRow("a", place, "ok", "text", 1, (place, 0)))
                recorder.input(InputRow(place, 0, "wake", None))
        recorder.flush()
        recorder.event(EVENT)
        assert recorder.events == 10_001

    assert without.finish("finished", DIGEST, 5, {}) == with_file.finish("finished", DIGEST, 5, {})
    assert tuple(len(rows) for rows in (without.rows, without.intents, without.results, without.inputs)) == (
        10_001,
        10,
        10,
        10,
    )


def test_raw_data_counts_as_what_it_stands_for():
    """Data that is already encoded gives the hash of the value that it encodes."""
    event: Any = (*EVENT[:6], "note.taken", *EVENT[7:])
    raw: Any = (*event[:7], Raw(encode(event[7])), event[8])

    assert run_hash([event], [], {}) == run_hash([raw], [], {})


def test_what_is_not_json_is_named_and_left_out():
    """Data that is not JSON-like raises once, names actor and topic, and neither takes nor doubles any other event."""
    recorder = HashRecorder(keep=True)
    recorder.event(EVENTS[0])
    recorder.event((5, 0, 0, 3, 9, "a7", "bad.topic", object(), None))
    recorder.event(EVENTS[1])

    with pytest.raises(ActorError, match=r"a7 with topic bad\.topic"):
        recorder.flush()
    assert recorder.finish("failed", {}, 1, {}) == run_hash(EVENTS, [], {})
    assert recorder.rows == EVENTS
