"""What is measured on the axis of service time, against figures computed by hand; and random small worlds."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel import NS, Kernel
from sim.kernel.rows import ClosedRow, InputRow, IntentRow, ResultRow
from sim.record import HashRecorder
from sim.runner.sync.metrics import ServiceMetrics
from sim.runner.sync.policies import POLICIES, CausalRadius, LogicalProcess, Verdict
from sim.runner.sync.reorder import ReorderBuffer
from tests.sync.sync_agents import EXACT, Trial, scene, trial, walkers

CALL = 2.0
"""Seconds of a call by hand: 20 tokens at 10 a second, and next to nothing to read."""


def by_hand(plans: list[str], slots: int, rule: str, *, together: bool = False, until: str = "30s") -> Trial:
    """Run planners, far from each other or at one place, on a server whose calls take 2 seconds."""
    entries = [
        f"{{name: p{n}, kind: planner, position: [{0 if together else 7 * n}, 0], state: {{plan: {plan}}}}}"
        for n, plan in enumerate(plans)
    ]
    server = f"server: {{replicas: 1, slots: {slots}, prefill_rate: 1.0e+9, decode_rate: 10, decode_total: null}}"
    text = scene(*entries, until=until).replace("server: {replicas: 1, slots: 3}", server)
    return trial(text, rule)


@pytest.mark.parametrize(
    ("rule", "slots", "together", "makespan", "in_flight", "waiting", "path"),
    [
        # p0 makes 3 calls in its first step, p1 makes 3 in its third.
        ("barrier", 2, False, 12, 1.0, 3, 6),  # p1 stands ready for 6 s before its second step: 3 s on average
        ("barrier", 1, False, 12, 1.0, 3, 6),
        ("causal", 2, False, 6, 2.0, 0, 6),  # at once: they never meet
        ("causal", 1, False, 12, 22 / 12, 0, 6),  # they take turns, so one waits while the other is served, for 10 s
        ("causal", 2, True, 12, 1.0, 3, 12),  # p1 sees p0, so all depends on all
        ("causal-radius", 2, True, 12, 1.0, 6, 12),  # and they end each step together: p0 waits in the third
        ("causal-radius", 2, False, 6, 2.0, 0, 6),
        ("free", 2, True, 6, 2.0, 0, None),
        ("sequential", 2, False, 12, 1.0, 3, 6),
    ],
)
def test_two_agents_by_hand(rule, slots, together, makespan, in_flight, waiting, path):
    """Makespan, calls in flight, waiting and the critical path are what one finds with pencil and paper."""
    found = by_hand(["[3, 0, 0]", "[0, 0, 3]"], slots, rule, together=together).service
    assert found["makespan"] == pytest.approx(makespan, abs=1e-3)
    assert found["in_flight_mean"] == pytest.approx(in_flight, abs=1e-3)
    assert found["waiting"] == pytest.approx(waiting, abs=1e-3)
    assert found["waits"] == pytest.approx(waiting / makespan, abs=1e-3)
    assert path is None or found["critical_path"] == pytest.approx(path, abs=1e-3)
    assert (found["sync"], found["calls"]) == (rule, 6)


class Forgetful(CausalRadius):
    """Looks for its crew anew each time."""

    def verdict(self, seat: LogicalProcess) -> Verdict:
        """Answer as if nothing had been asked before."""
        self._held.clear()
        return super().verdict(seat)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_a_crew_waits_for_is_remembered_no_longer_than_it_holds(monkeypatch, seed):
    """Who remembers what holds a crew up lets it begin exactly when one does that looks each time."""
    text = scene(walkers(9, "{busy: 0.6}"), until="10m")
    found = trial(text, "causal-radius", seed).service
    monkeypatch.setitem(POLICIES, "causal-radius", Forgetful)
    expected = trial(text, "causal-radius", seed).service
    assert (found["makespan"], found["waiting"]) == (expected["makespan"], expected["waiting"])


def test_one_at_a_time_adds_up():
    """Sequential serves one agent after the other: the makespan is the sum of all calls, whatever the slots."""
    plans = ["[2, 1, 0]", "[1, 1, 1]", "[0, 2, 3]"]
    assert by_hand(plans, 8, "sequential").service["makespan"] == pytest.approx(11 * CALL, abs=1e-3)
    assert by_hand(plans, 8, "barrier").service["makespan"] == pytest.approx((2 + 2 + 3) * CALL, abs=1e-3)
    assert by_hand(plans, 8, "causal").service["makespan"] == pytest.approx(5 * CALL, abs=1e-3)


# -- random small worlds


@st.composite
def worlds(draw: Any) -> tuple[str, int]:
    """Draw a scenario with walkers, perhaps sharers, and a seed."""
    size, seen, speed = draw(st.integers(4, 24)), draw(st.integers(0, 6)), draw(st.integers(1, 2))
    chances = {name: draw(st.sampled_from([0, 0, 0.1, 0.4])) for name in ("fails", "rests", "sleeps", "naps", "pays")}
    state = ", ".join(f"{name}: {chance}" for name, chance in chances.items())
    entry = f"{{name: w, count: {draw(st.integers(1, 7))}, kind: walker, balance: 5, "
    entry += f"position: '=[randint(0, {min(size, 16) - 1}), randint(0, {min(size, 16) - 1})]', "
    entry += f"state: {{busy: {draw(st.sampled_from([0, 0.2, 0.7]))}, {state}}}, "
    entry += f"start: {draw(st.sampled_from(['0s', '13s', '=uniform(0, 50)']))!r}, "
    entry += "loop: {max_consecutive_errors: 2, cool_down: 23s}}"
    counters = draw(st.integers(0, 2))
    sharers = [f"{{name: c, count: {counters}, kind: counter}}"] if counters else []
    period = draw(st.sampled_from(["10s", "7s", "3500ms"]))
    text = scene(entry, *sharers, until="90s").replace("period: 10s", f"period: {period}")
    text = text.replace(
        "size: [16, 16], perception: 3, speed: 1", f"size: [24, 24], perception: {seen}, speed: {speed}"
    )
    text = text.replace("slots: 3", f"slots: {draw(st.integers(1, 4))}")
    return text, draw(st.integers(0, 10**6))


@pytest.mark.proof
@settings(max_examples=16)
@given(worlds())
def test_random_worlds_leave_one_record(world):
    """Whatever the world: rules that keep causality leave one record, nobody gets stuck, and the figures hang together:
    the longest chain is no longer than the makespan, and one at a time takes longest.
    """
    text, seed = world
    runs = {rule: trial(text, rule, seed) for rule in EXACT}
    assert len({run.hash for run in runs.values()}) == 1
    for run in runs.values():
        assert run.service["critical_path"] <= run.service["makespan"] + 1e-6
        assert 0 <= run.service["waits"] <= 1 + 1e-9
    assert len({run.service["calls"] for run in runs.values()}) == 1


@pytest.mark.proof
@settings(max_examples=10)
@given(worlds())
def test_with_room_for_all_running_ahead_is_never_slower(world):
    """If calls do not hold each other up (slots for all, each as fast as alone), makespans are in the order of what the
    rules allow: the longest chain, causal, the barrier, one at a time.
    """
    text, seed = world
    room = "slots: 1000, prefill_rate: 1.0e+12, decode_total: null"
    text = text.replace("slots: 1}", room + "}").replace("slots: 2}", room + "}")
    text = text.replace("slots: 3}", room + "}").replace("slots: 4}", room + "}")
    found = {rule: trial(text, rule, seed).service for rule in EXACT}
    spans = [
        found["causal"]["critical_path"],
        *(found[rule]["makespan"] for rule in ("causal", "barrier", "sequential")),
    ]
    assert all(before <= after + 1e-6 for before, after in itertools.pairwise(spans)), spans
    assert found["causal"]["makespan"] <= found["causal-radius"]["makespan"] + 1e-6


# -- the parts


def _row(time: int, delta: int, source: int, counter: int) -> Any:
    return (time, delta, 0, source, counter, "a", "t", None, None)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 3), st.integers(0, 99)), unique=True))
def test_events_are_released_in_the_order_of_their_keys(keys):
    """In whatever order they come: what is released before a time is all there is before it, in the order of keys."""
    inner = HashRecorder(keep=True)
    order = ReorderBuffer(inner)
    for key in keys:
        order.event(_row(*key))
    order.release(5)
    inner.flush()
    early = [row[:5] for row in inner.rows]
    assert early == sorted((time, delta, 0, *rest) for time, delta, *rest in keys if time < 5)
    order.release()
    inner.flush()
    assert [row[:5] for row in inner.rows] == sorted((time, delta, 0, *rest) for time, delta, *rest in keys)


def test_what_is_no_event_passes_at_once():
    """Inputs, intents, outcomes and endings have a place of their own in the record: they are handed on at once."""
    inner = HashRecorder(keep=True)
    order = ReorderBuffer(inner)
    order.event(_row(1, 0, 1, 1))
    order.input(InputRow(0, 0, "stop", {}))
    order.intent(IntentRow("a", 1, "test", "0" * 64, {}, "modelled", "pure", 0))
    order.result(ResultRow("a", 1, "ok", 1, 1, None))
    order.closed(ClosedRow("a", 1, "delivered", 5, 0))
    told: list[Exception | None] = []
    order.durable(told.append)
    order.flush()
    assert [len(found) for found in (inner.inputs, inner.intents, inner.results, inner.endings, inner.rows)] == [
        1, 1, 1, 1, 0,
    ]  # fmt: skip
    assert told == [None]


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 10**10)), max_size=12))
def test_the_mean_in_flight_is_service_time_over_makespan(calls):
    """Over any calls: the mean number in flight, times the makespan, is the sum of what they took."""
    kernel = Kernel()
    usage = ServiceMetrics(kernel)
    moments = sorted([(start, usage.begins) for start, _ in calls] + [(a + b, usage.ends) for a, b in calls], key=_when)
    for time, change in moments:
        kernel.advance_to(time)
        change()
    found: Any = usage.summary(0.0, 0.0)
    total = sum(length for _, length in calls) / NS
    rounding = 1e-6 * max(1, found["makespan"])  # the curve's figures have four places
    assert found["in_flight_mean"] * found["makespan"] == pytest.approx(total, rel=1e-3, abs=100 * rounding)
    assert (found["calls"], usage.in_flight) == (len(calls), 0)
    assert len(found["in_flight"]) in (0, 200)


def _when(moment: tuple[int, Any]) -> int:
    return moment[0]
