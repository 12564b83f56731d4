"""What is made again is compared with what is on record, and the first difference is named."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.base.errors import DivergenceError
from sim.kernel import NS, Actor, Effect, Outcome
from sim.kernel.codec import encode
from sim.kernel.effects import EffectHandle, hash_request
from sim.kernel.rows import IntentRow, ResultRow
from sim.record import RunRecorder, create_run, open_run
from sim.record.files import RunHeader
from sim.record.hashing import CHUNK
from sim.record.history import RunHistory
from sim.record.verifying_recorder import PARTS, VerifyingRecorder

Step = tuple[str, tuple[Any, ...]]


def event(number: int, time: int = 0, actor: str = "a", topic: str = "t", data: Any = None) -> Step:
    """Return an event."""
    return "event", (time, 0, 0, 3, number, actor, topic, data, None)


def intent(
    ordinal: int, time: int = 0, actor: str = "a", kind: str = "ask", request: Any = None, latency: str = "modelled",
    safety: str = "pure",
) -> Step:  # fmt: skip
    """Return that an effect begins."""
    hash: str = hash_request(kind, encode(request))
    return "intent", IntentRow._make((actor, ordinal, kind, hash, request, latency, safety, time))


def result(ordinal: int, value: Any = None, stamp: tuple[int, int] | None = None, actor: str = "a") -> Step:
    """Return what came of an effect."""
    return "result", ResultRow(actor, ordinal, "ok", value, 1, stamp)


def feed(recorder: RunRecorder | VerifyingRecorder, steps: Sequence[Step]) -> None:
    """Record steps."""
    for what, row in steps:
        getattr(recorder, what)(*([row] if row else []))


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Record steps into a run of its own, to its end or until its process was gone."""

    def record(steps: Sequence[Step], digest: Any = None, *, finish: bool = True) -> Path:
        folder = create_run(tmp_path / "runs", RunHeader("x", 0, "autonomous", "asyncio"), "name: x\n")
        with RunRecorder(folder) as recorder:
            feed(recorder, steps)
            if finish:
                recorder.finish("finished", digest or {}, 10 * NS, {})
        return folder

    return record


def again(folder: Path, steps: Sequence[Step], digest: Any = None, **options: Any) -> str:
    """Make steps again, to the end, and return the hash."""
    with open_run(folder) as stored:
        keeper = VerifyingRecorder(RunHistory(stored), lambda: None, **options)
        feed(keeper, steps)
        return keeper.finish("finished", digest or {}, 10 * NS, {})


RUN = [
    event(1), event(2, NS, "b"), intent(1, 2 * NS, request={"q": [1, 2]}), event(3, 2 * NS, data={"x": 1}),
    result(1, 5),
    intent(2, 3 * NS, latency="measured", safety="unsafe"), event(4, 3 * NS, "c"), event(5, 4 * NS),
]  # fmt: skip


def test_the_same_is_the_same(record):
    """A run that is made again has the hash on record, on either side of every intent."""
    folder = record(RUN, {"a": 1})
    with open_run(folder) as stored:
        assert again(folder, RUN, {"a": 1}) == stored.info.hash


@pytest.mark.parametrize(
    ("place", "changed", "sentence"),
    [
        (0, [event(1, data=7)], "event 1 (t of a at 0s) differs in data, which is null on record and 7 now"),
        (1, [event(2, NS, "z")], "event 2 is t of b at 1s on record and t of z at 1s now; they differ in actor"),
        (1, [event(2, 2 * NS, "b")], "event 2 is t of b at 1s on record and t of b at 2s now; they differ in time_ns"),
        (1, [event(9, NS, "b")], "event 2 (t of b at 1s) differs in counter, which is 2 on record and 9 now"),
        (
            1, [],
            "event 2 is t of b at 1s on record, and there is none now before effect 1 of a (ask) at 2s",
        ),
        (
            1, [event(2, NS, "b"), event(7, NS, "b")],
            "event 3 is t of a at 2s on record and t of b at 1s now; they differ in time_ns",
        ),
        (
            3, [event(3, 2 * NS, data={"x": 2})],
            "event 3 (t of a at 2s) differs in data.x, which is 1 on record and 2 now",
        ),
        (7, [], "event 5 is t of a at 4s on record, and there is none now"),
        (7, [event(5, 4 * NS), event(6, 4 * NS)], "event 6 is t of a at 4s now, and there is none on record"),
        (2, [], "event 3 is t of a at 2s now, and there is none on record before effect 2 of a (ask) at 3s"),
        (
            2, [intent(1, 2 * NS, kind="tell", request={"q": [1, 2]})],
            ("effect 1 of a (tell) at 2s, modelled and pure, starts now, but effect 1 of a (ask) at 2s, modelled and"
            " pure, is on record"),
        ),
        (
            5, [intent(2, 3 * NS, latency="modelled", safety="unsafe")],
            ("effect 2 of a (ask) at 3s, modelled and unsafe, starts now, but effect 2 of a (ask) at 3s, measured"
            " and unsafe, is on record"),
        ),
        (
            5, [intent(2, 3 * NS, latency="measured", safety="idempotent")],
            ("effect 2 of a (ask) at 3s, measured and idempotent, starts now, but effect 2 of a (ask) at 3s,"
            " measured and unsafe, is on record"),
        ),
        (
            5, [intent(1, 3 * NS, "b", latency="measured", safety="unsafe")],
            ("effect 1 of b (ask) at 3s, measured and unsafe, starts now, but effect 2 of a (ask) at 3s, measured"
            " and unsafe, is on record"),
        ),
        (
            2, [intent(1, 2 * NS, request={"q": [1, 3]})],
            ("effect 1 of a (ask) at 2s has a different request than on record: it differs in q[1], which is 2 on"
            " record and 3 now"),
        ),
        (5, [], "effect 2 of a (ask) at 3s is on record, but does not start now"),
        (
            5, [RUN[5], intent(3, 3 * NS)],
            "effect 3 of a (ask) at 3s starts now, but is not on record",
        ),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(record, place, changed, sentence):
    """One sentence says which event or effect, of whom and when, with both sides."""
    folder = record(RUN)
    with pytest.raises(DivergenceError) as caught:
        again(folder, [*RUN[:place], *changed, *RUN[place + 1 :]])
    assert str(caught.value) == sentence


def test_a_state_at_the_end_that_differs_is_named(record):
    """If all events are the same, the first value of the final state that is not."""
    folder = record(RUN, {"agents": {"a": {"state": {"n": 1, "z": 2}}}})
    with pytest.raises(DivergenceError, match=r"differs in agents\.a\.state\.n, which is 1 on record and 4 now"):
        again(folder, RUN, {"agents": {"a": {"state": {"n": 4, "z": 3}}}})


def test_what_is_not_compared_is_not_found(record):
    """Each part alone finds what it looks for and nothing else."""
    folder = record(RUN, {"n": 1})
    other = [*RUN[:2], intent(1, 2 * NS, request=None), event(3, 2 * NS, data=None), *RUN[4:]]
    found = {}
    for part in sorted(PARTS):
        with pytest.raises(DivergenceError) as caught:
            again(folder, other, {"n": 2}, parts=frozenset((part,)))
        found[part] = str(caught.value)
    assert found["events"].startswith("event 3 ")
    assert found["requests"].startswith("effect 1 of a (ask) at 2s has a different request ")
    assert found["digest"].endswith("differs in n, which is 1 on record and 2 now")
    again(folder, other, {"n": 2}, parts=frozenset())


CUTS = st.lists(st.integers(1, 3 * CHUNK), max_size=3)


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    CUTS,
    st.integers(1, 2 * CHUNK + 50),
    st.integers(2 * CHUNK, 2 * CHUNK + 50),
    st.sampled_from(["data", "drop", "add"]),
)
def test_the_first_event_is_found_wherever_chunks_end(record, cuts, number, count, how):
    """However the record was cut into chunks, the event that is named is the first that differs."""
    number = min(number, count)
    steps = [event(n, n) for n in range(1, count + 1)]
    parted: list[Step] = []
    for n, step in enumerate(steps, 1):
        parted += [step, ("flush", ())] if n in cuts else [step]
    folder = record(parted)
    changed = {"data": [event(number, number, data="new")], "drop": [], "add": [event(0, number), steps[number - 1]]}[
        how
    ]
    with pytest.raises(DivergenceError, match=rf"^event {number:,} "):
        again(folder, [*steps[: number - 1], *changed, *steps[number:]])
    again(folder, steps)


# -- records that end early, and pasts that are cut


@pytest.mark.parametrize("steps", [RUN[:n] for n in range(len(RUN) + 1)], ids=len)
def test_a_record_without_its_end_is_gone_on_with(record, steps):
    """When all that is on record has been made again, what comes is new, and goes to whoever records it."""
    folder = record(steps, finish=False)
    lived: list[int] = []
    with RunRecorder(folder, resumed=True) as recorder, open_run(folder) as stored:
        history = RunHistory(stored)
        keeper = VerifyingRecorder(history, lambda: lived.append(1), recorder)
        for step in RUN:
            if step[0] == "intent":
                feed(keeper, [step])
                history.started()
            elif step[0] != "result" or not history.over or step not in steps:
                feed(keeper, [step])
        hash = keeper.finish("finished", {}, 10 * NS, {})
    assert lived == [1]
    whole = record(RUN)
    with open_run(folder) as stored, open_run(whole) as other:
        assert hash == stored.info.hash == other.info.hash
        assert list(stored.events()) == list(other.events())
        columns = "SELECT actor, ordinal, kind, request, outcome, result, events_before, hash_before FROM effects"
        assert stored.query(columns) == other.query(columns)


def test_a_cut_past_is_compared_up_to_the_cut(record):
    """What is on record from the time of a cut on does not count, also within a chunk; what lies before does."""
    folder = record(RUN)

    def branch(steps: Sequence[Step]) -> None:
        with open_run(folder) as stored:
            history = RunHistory(stored, 3 * NS)
            keeper = VerifyingRecorder(history, lambda: None)
            feed(keeper, steps)
            history.reached()
            feed(keeper, [event(77, 3 * NS, data="new")])
            keeper.finish("finished", {}, NS, {})

    branch(RUN[:5])
    with pytest.raises(DivergenceError, match="event 3 is t of a at 2s on record, and there is none now"):
        branch(RUN[:3])
    with pytest.raises(DivergenceError, match="event 2 "):
        branch([RUN[0], event(2, NS, "z"), *RUN[2:5]])


# -- the history


def handle(ordinal: int, latency_ns: int | None = NS, safety: Any = "pure", actor: str = "a") -> EffectHandle:
    """Return an effect that has begun."""

    async def call(request: Any, key: str) -> None:
        raise AssertionError

    made = EffectHandle(Effect("ask", None, call, latency_ns=latency_ns, safety=safety))
    made.actor, made.ordinal = Actor(actor, 16), ordinal
    return made


def test_outcomes_are_found_by_position(record):
    """An effect is answered by (actor, ordinal): a modelled one at once, a measured one when it arrives."""
    steps = [intent(1), intent(1, actor="b"), intent(2, latency="measured"), intent(3), intent(4), result(1, "a1")]
    steps += [result(1, "b1", actor="b"), result(2, "a2", (5, 0)), ("closed", ("a", 3, "timeout", 9, 0))]
    with open_run(record(steps, finish=False)) as stored:
        history = RunHistory(stored)
        assert history.answer(handle(1)) == (True, Outcome("ok", "a1"))
        assert history.answer(handle(1, actor="b")) == (True, Outcome("ok", "b1"))
        assert history.answer(handle(2, None)) == (True, None)
        assert history.answer(handle(3)) == (True, None)  # it timed out: it is not done again
        assert history.answer(handle(4)) == (False, None)
        assert history.answer(handle(9)) == (False, None)


def test_what_is_in_doubt(record):
    """In doubt is what is on record, unsafe, and has no outcome; what is not on record never began."""
    with open_run(record([intent(1, safety="unsafe"), intent(2, safety="pure")], finish=False)) as stored:
        history = RunHistory(stored)
        assert history.is_held(handle(1, safety="unsafe"))
        assert not history.is_held(handle(2, safety="pure"))
        assert not history.is_held(handle(3, safety="unsafe"))


def test_arrivals_come_in_their_order(record):
    """Inputs and measured outcomes come in the order of the record; after a cut, those of effects begun before."""
    steps: list[Step] = [
        intent(1, latency="measured"), ("input", (2, 0, "wake", {"agent": "a"})), result(1, "late", (9, 1)),
        intent(2, 5, latency="measured"), ("input", (9, 1, "stop", 3)), result(2, "too late", (11, 0)),
    ]  # fmt: skip
    folder = record(steps)

    def arrivals(until: int | None) -> list[tuple[int, int, str, Any]]:
        found = []
        with open_run(folder) as stored:
            history = RunHistory(stored, until)
            while (arrival := history.next_arrival()) is not None:
                value = arrival.data if arrival.outcome is None else arrival.outcome.value
                found.append((arrival.time_ns, arrival.delta, arrival.kind, value))
                history.arrived()
        return found

    wake, late = (2, 0, "wake", {"agent": "a"}), (9, 1, "", "late")
    assert arrivals(None) == [wake, late, (9, 1, "stop", 3), (11, 0, "", "too late")]
    assert arrivals(5) == [wake, late]
    assert arrivals(2) == [late]


@pytest.mark.parametrize("finish", [True, False])
def test_when_a_past_is_over(record, finish):
    """A record that includes its end is never over; another one when its last event, effect and arrival were made."""
    steps = [event(1), intent(1, latency="measured"), ("input", (2, 0, "wake", None))]
    with open_run(record(steps, finish=finish)) as stored:
        history = RunHistory(stored)
        told: list[bool] = []
        history.on_over = lambda: told.append(history.over)
        history.start()
        history.chunk_made()
        history.intent_made()
        history.started()
        assert not history.over
        history.arrived()
    assert told == ([] if finish else [True])
