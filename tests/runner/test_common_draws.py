"""Two worlds that differ in one message share every later draw at equal moments, so a what-if has no false effects."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.world.actions import messages

SHIPPED = Path(__file__).parents[2] / "scenarios"


def run(text: str, drop: Callable[[int, Any], bool] = lambda number, message: False) -> tuple[Any, Any]:
    """Run a scenario in which the messages for which `drop` (number, message) is true arrive nowhere."""
    recorder = HashRecorder(keep=True)
    checked = loads(text)
    simulation = build(checked, recorder=recorder)
    put, count = messages._put, 0

    def dropping(world: Any, message: Any) -> str | None:
        nonlocal count
        count += 1
        return None if drop(count - 1, message) else put(world, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "_put", dropping)
        runner = RunController(simulation, until_ns=checked.end_ns, mode="autonomous")
        anyio.run(runner.run)
    recorder.flush()
    return simulation, recorder.rows


TALK = """
name: talk
until: 30s
seed: SEED
agents:
  - name: one
    count: 4
    start: "=uniform(0, 2)"
    state: {drawn: [], luck: 0.0}
    loop: {min_loop_delay: DELAY}
    rules:
      - when: message != None and uniform(0, 1) < 0.3
        do: {spawn: {agent: kid}}
        set: {drawn: "=drawn + [[now, randint(1, 999)]]"}
      - {when: message != None, do: noop, set: {drawn: "=drawn + [[now, randint(1, 999)]]"}}
      - {when: message == None and chance(0.6), do: {send: {to: "=choice(agents('one'))", after: 1.5}}}
      - {do: {sleep: {message: true, timeout: 2}}}
  - name: kid
    template: true
    state: {x: "=uniform(0, 1)"}
    loop: {min_loop_delay: 1s}
    rules: [{when: chance(0.5), do: stop}, {do: noop}]
"""


def draws(simulation: Any) -> dict[tuple[str, float], list[float]]:
    """Return what each agent drew first at each time, by its name and the time."""
    found: dict[tuple[str, float], list[float]] = {}
    for name, agent in simulation.world.agents.items():
        for now, *drawn in agent.state.get("drawn", ()):
            found.setdefault((name, now), drawn)
    return found


@pytest.mark.slow
@given(st.integers(0, 50), st.integers(0, 40), st.sampled_from(["1s", "0.3s"]))
@settings(max_examples=15, deadline=None)
def test_worlds_that_differ_in_one_message_share_all_draws_at_equal_moments(seed, dropped, delay):
    """What an agent draws at one time for one purpose is equal in both worlds, whatever it drew and met before."""
    text = TALK.replace("SEED", str(seed)).replace("DELAY", delay)
    mine = draws(run(text)[0])
    theirs = draws(run(text, lambda number, message: number == dropped)[0])
    assert mine
    for moment in mine.keys() & theirs.keys():
        assert mine[moment] == theirs[moment]


MAIL = """
name: mail
until: 20s
seed: 3
agents:
  - name: reader
    state: {got: [], left: []}
    loop: {min_loop_delay: DELAY, unmatched: POLICY}
    rules:
      - {when: "message != None and uniform(0, 1) < 0.5", do: noop, set: {got: "=got + [LETTER]"}}
      - {when: "message != None and uniform(0, 1) < 0.5", do: noop, set: {left: "=left + [LETTER]"}}
      - {do: {sleep: {message: true}}}
  - name: writer
    count: 5
    state: {n: 1}
    loop: {min_loop_delay: 2s}
    rules:
      - do: [{send: {to: reader, topic: a, data: "=n"}}, {send: {to: reader, topic: b, data: "=-n"}}]
        set: {n: "=n + 1"}
"""


def _is(dropped: int, number: int, message: Any) -> bool:
    return number == dropped


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_message_has_the_same_luck_whatever_else_waits(policy):
    """What a condition draws for a message depends on the message: not on others before it, or on when it is read."""
    text = MAIL.replace("POLICY", policy).replace("LETTER", "[message.sender, message.data]")
    worlds = [(text.replace("DELAY", delay), dropped) for delay in ("0s", "0.01s") for dropped in (-1, 0, 1, 4, 12)]
    lucky = []
    for world, dropped in worlds:
        simulation, _ = run(world, partial(_is, dropped))
        reader = simulation.world.agents["reader"]
        lucky.append((dropped, reader.state["got"], reader.state["left"]))
    _, got, left = lucky[0]
    assert len(got) > 30
    assert len(left) > 10
    for dropped, *others in lucky[1:]:
        for mine, theirs in zip((got, left), others, strict=True):
            missing = [message for message in mine if message not in theirs]
            assert len(missing) <= (dropped >= 0)
            assert [message for message in theirs if message not in mine] == []


def infections(rows: Any) -> list[tuple[Any, ...]]:
    """Return who fell ill, and when."""
    return [(row[0], row[5]) for row in rows if row[6] == "person.infected"]


@pytest.mark.slow
def test_a_message_without_effect_has_no_false_effect():
    """In the shipped epidemic, a meeting that infects no one can be left out, and all others end as before."""
    text = json.dumps(_loaded("contagion", until="6d"))
    _, rows = run(text)
    ill = infections(rows)
    sent = [(row[0], row[7]["to"]) for row in rows if row[6] == "message.sent"]
    without = [number for number, moment in enumerate(sent) if moment not in ill]
    assert len(ill) > 3
    for number in without[:: max(1, len(without) // 6)][:6]:
        _, others = run(text, partial(_is, number))
        assert infections(others) == ill


def _loaded(name: str, **changes: Any) -> dict[str, Any]:
    return {**YAML(typ="safe").load((SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")), **changes}
