"""What one agent does leaves no trace in the events of those that do not depend on it: their lanes stay equal."""

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.events import EventBus
from sim.kernel import Kernel, Latch, Queue, Signal, sleep
from sim.record import HashRecorder
from sim.record.lanes import Lanes
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from tests.helpers import named

TALK = """
name: talk
until: 2m
seed: {seed}
limits: {{calls: {{agent: 3 per 10s}}}}
costs: {{publish: {{calls: 1}}}}
agents:
  - name: speaker
    count: 3
    state: {{n: 0}}
    loop: {{min_loop_delay: 3s}}
    rules:
      - {{when: chance(0.3), do: {{sleep: {{event: "reply.**", timeout: 20s}}}}}}
      - when: chance(0.5)
        do: {{publish: {{topic: "said.hello", data: "=randint(1, 6)"}}}}
        set: {{n: "=n + uniform(0, 1)"}}
      - {{do: {{send: {{to: friend, data: hello}}}}}}
  - name: friend
    state: {{heard: 0}}
    rules:
      - {{when: message != None, do: {{publish: {{topic: "reply.{{friend}}"}}}}, set: {{heard: "=heard + 1"}}}}
      - {{do: {{sleep: {{message: true, timeout: 30s}}}}}}
EXTRA
""".replace('"reply.{{friend}}"', "reply.friend")

EXTRAS = {
    "sleeps on the events": "rules: [{do: {sleep: {event: 'said.**'}}}]",
    "subscribes to all events": "subscribe: ['said.**', 'reply.*'], rules: [{when: event != None, do: noop},"
    " {do: {sleep: {event: '**', timeout: 5s}}}]",
    "draws": "loop: {min_loop_delay: 1s}, rules: [{when: chance(0.5), do: noop}]",
    "sleeps on any of several": "rules: [{do: {sleep: {any: [{event: 'said.hello'}, {message: true}], timeout: 9s}}}]",
}


def lanes(text: str) -> tuple[str, ...]:
    """Return the hashes of the lanes of a run."""
    recorder = HashRecorder()
    simulation = build(loads(text), recorder=recorder)
    anyio.run(RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous").run)
    recorder.flush()
    return recorder.lanes


def changed(one: tuple[str, ...], other: tuple[str, ...]) -> set[int]:
    """Return the lanes that differ."""
    return {number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]}


@pytest.mark.parametrize("does", EXTRAS)
def test_one_agent_more_changes_its_own_lane_alone(does):
    """A listener, a sleeper or one who draws, added behind the others, leaves all other lanes as they are. (In tick
    mode all take turns within a tick, so each turn has a place that tells how many came before.)
    """
    text = TALK.format(seed=5)
    count = 7
    extra = f"  - {{name: extra, count: {count}, {EXTRAS[does]}}}"
    own = {Lanes().of(f"extra-{number}") for number in range(1, count + 1)}
    found = changed(lanes(text.replace("EXTRA", "")), lanes(text.replace("EXTRA", extra)))
    assert found == own


@pytest.mark.slow
@given(st.integers(0, 99), st.lists(st.sampled_from(sorted(EXTRAS)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=25)
def test_any_agents_more_change_their_own_lanes_alone(seed, kinds, shuffled):
    """The same for any of them together, any seed, and a shuffled order."""
    text = TALK.format(seed=seed) + ("execution: {ties: shuffled}\n" if shuffled else "")
    extra = "\n".join(f"  - {{name: x{number}, {EXTRAS[does]}}}" for number, does in enumerate(kinds))
    own = {Lanes().of(f"x{number}") for number in range(len(kinds))}
    assert changed(lanes(text.replace("EXTRA", "")), lanes(text.replace("EXTRA", extra))) <= own


@pytest.mark.slow
@given(st.lists(st.booleans(), min_size=10, max_size=10))
@settings(max_examples=25)
def test_one_draw_more_moves_no_later_one(more):
    """What a rule draws in one iteration depends on the agent and the iteration alone."""
    text = (
        "name: draws\nuntil: 9s\nagents:\n  - {name: a, state: {more: MORE, seen: []}, rules: [{do: noop,"
        " set: {seen: '=seen + [[uniform(0, 1) if more[len(seen)] else 0, randint(1, 1000)][1]]'}}]}\n"
    )

    def seen(drawn: list[bool]) -> list[int]:
        simulation = build(loads(text.replace("MORE", str(drawn).lower())))
        anyio.run(RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous").run)
        found: list[int] = simulation.world.agents["a"].state["seen"]
        return found

    plain, drawn = seen([False] * 10), seen(more)
    assert len(plain) >= 9
    assert [one == other for one, other in zip(plain, drawn, strict=True)] == [not m for m in more[: len(plain)]]


Listeners = st.lists(st.sampled_from(["subscription", "signal", "latch", "queue", "callback"]), max_size=6)


@pytest.mark.slow
@given(Listeners, Listeners)
@settings(max_examples=60)
def test_later_keys_do_not_tell_who_listens(ones, others):
    """An event, a signal, a latch and the end of a queue take one counter of their source, however many wait."""

    def rows(listeners: list[str]) -> list[Any]:
        recorder = HashRecorder(keep=True)
        kernel = Kernel(recorder=recorder)
        bus, signal, latch, queue = EventBus(kernel), Signal(kernel), Latch(kernel), Queue(kernel, 5)

        async def publish() -> None:
            for _ in range(2):
                await sleep(1)
                bus.publish("news", 1)
                signal.fire()
            latch.set()
            queue.close()
            bus.publish("end")

        async def listen(kind: str) -> None:
            if kind == "subscription":
                subscription = bus.subscribe("news")
                while True:
                    await subscription.get()
            await {"signal": signal.wait, "latch": latch.wait, "queue": queue.get}[kind]()

        kernel.spawn("publisher", publish())
        for number, kind in enumerate(listeners):
            if kind == "callback":
                bus.subscribe("news", callback=lambda event: None)
            else:
                kernel.spawn(f"listener {number}", listen(kind), on_exit=lambda *_: None)
        kernel.run()
        recorder.flush()
        return [row for row in named(recorder.rows) if row.actor == "publisher"]

    assert rows(ones) == rows(others)
    assert len(rows(ones)) == 3


def test_the_cause_of_a_step_is_the_event_that_woke_it():
    """Whoever an event or a message wakes has it as the cause of what it does next, by (source, counter)."""
    text = TALK.format(seed=5).replace("EXTRA", "  - {name: x, rules: [{do: {sleep: {event: 'said.**'}}}]}")
    recorder = HashRecorder(keep=True)
    simulation = build(loads(text), recorder=recorder)
    anyio.run(RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous").run)
    recorder.flush()
    topics = {row[3:5]: row.topic for row in named(recorder.rows)}
    for agent, does, topic in (("x", "sleep", "said.hello"), ("friend", "publish", "message.sent")):
        causes = {
            topics.get(row.cause or (0, 0))
            for row in named(recorder.rows)
            if row.actor == agent and row.topic == f"action.{does}"
        }
        assert causes - {None} == {topic}  # None: a timer
