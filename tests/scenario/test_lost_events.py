"""Rules that ask in one tick and wait in the next lose what is answered in between. No shipped scenario does it."""

from pathlib import Path

import pytest

import sim
from sim.scenario import load, loads
from sim.scenario.lost_events import may_lose_events
from tests.helpers import command

SHIPPED = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
BELL = (
    "{name: bell, rules: [{when: message is not None, do: {publish: {topic: rung}}}, {do: {sleep: {message: true}}}]}"
)


def of(*rules: str) -> str:
    """Return a scenario in which one agent has these rules, and another one answers messages with an event."""
    return (
        "name: x\nuntil: 1m\nexecution: {use_autonomous_loops: false}\nagents:\n"
        f"  - {BELL}\n"
        f"  - {{name: a, state: {{stage: new, asked: false, n: 0, heard: 0}}, rules: [{', '.join(rules)}]}}\n"
    )


ASK = "do: {send: {to: bell}}"
WAIT = "do: {sleep: {event: rung, timeout: 20s}}"
LOST = [
    (f"{{when: stage == 'new', {ASK}, set: {{stage: waits}}}}", f"{{when: stage == 'waits', {WAIT}}}"),
    (f"{{when: not asked, {ASK}, set: {{asked: true}}}}", f"{{when: asked and heard < 3, {WAIT}, set: {{heard: 1}}}}"),
    (f"{{when: n == 0, {ASK}, set: {{n: 1}}}}", "{when: n == 1, do: {sleep: {any: [{for: 20s}, {event: rung}]}}}"),
]
KEPT = [
    ("{when: stage == 'new', do: [{send: {to: bell}}, {sleep: {event: rung}}], set: {stage: heard}}", "{do: noop}"),
    (f"{{when: stage == 'new', {ASK}, set: {{stage: done}}}}", f"{{when: stage == 'waits', {WAIT}}}"),
    (f"{{when: stage == 'new', {ASK}, set: {{stage: \"=me\"}}}}", f"{{when: stage == 'waits', {WAIT}}}"),
    ("{when: stage == 'new', do: noop, set: {stage: waits}}", f"{{when: stage == 'waits', {WAIT}}}"),
    (f"{{when: n == 0, {ASK}, set: {{n: 1}}}}", "{when: n == 1, do: {sleep: {message: true}}}"),
]


@pytest.mark.parametrize("rules", LOST)
def test_waiting_one_tick_after_asking_is_warned_of(rules: tuple[str, str], tmp_path: Path) -> None:
    """`sim check` and a run in tick mode name both rules and what to write; in autonomous mode nothing is lost."""
    (problem,) = may_lose_events(loads(of(*rules)))
    assert problem.message.startswith("agents[1].rules[1] waits for 'rung' one iteration after rules[0] has asked: ")
    assert problem.hint == "do both in one rule: do: [{send: ...}, {sleep: ...}]"
    assert problem.line == 6
    file = tmp_path / "x.yaml"
    file.write_text(of(*rules), encoding="utf-8")
    code, out, _ = command("check", file)
    assert (code, "1 warning\n" in out, problem.message in out) == (0, True, True)
    assert [one["text"] for one in sim.run(file, out=None).warnings] == [problem.message]
    assert list(sim.run(file, out=None, mode="autonomous").warnings) == []


@pytest.mark.parametrize("rules", KEPT)
def test_what_loses_nothing_is_not_warned_of(rules: tuple[str, str]) -> None:
    """One rule that asks and waits, states that do not follow each other, and waits for messages are fine."""
    assert may_lose_events(loads(of(*rules))) == []


@pytest.mark.parametrize(("rules", "least", "most"), [(LOST[0], 20, 30), (KEPT[0], 1, 3)])
def test_one_rule_that_asks_and_waits_loses_nothing(
    rules: tuple[str, str], least: float, most: float, tmp_path: Path
) -> None:
    """The answer of the next tick wakes who asked and waited in one rule, and not who waits a tick later."""
    file = tmp_path / "x.yaml"
    file.write_text(
        of("{when: \"woken_by in ['event', 'timeout']\", do: stop, record: {waited: '=now'}}", *rules), encoding="utf-8"
    )
    assert least <= sim.run(file, out=None).observations["waited"].mean <= most


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_no_shipped_scenario_loses_events(file: Path) -> None:
    """All of them ask and wait in one rule."""
    assert may_lose_events(load(file)) == []
