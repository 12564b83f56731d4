"""How often attribution names a fault that was planted in `debate` and `community`: its agent, and its step.

At most steps nothing is wrong. In each variant, a single action of one agent is, by a draw of the run: a debater that
invents a count, a guest that spreads a false rumour. Those runs count in which one fault happened and the outcome
failed. What is asked is what a judge that reads logs is asked: who, and at which step.
"""

import os
from pathlib import Path

import attrs
import pytest

import sim
from sim.experiments.attribution.explanation import Explanation
from sim.experiments.attribution.forks import FORKS
from sim.experiments.attribution.significance import wilson

pytestmark = [pytest.mark.proof, pytest.mark.skipif(not FORKS, reason="processes are not forked here")]

ROOT = Path(__file__).parents[2]
WHOLE = os.environ.get("SIM_CAMPAIGN") == "whole"
COUNT = {"debate": 8, "community": 3} if WHOLE else {"debate": 1, "community": 1}

DEBATE = {
    'conviction: "=round(uniform(-1, 1), 2)"': 'conviction: "=round(uniform(0.2, 1), 2)"',
    '"=exp(3 * state.conviction)"': '"=exp(3 * state.conviction + (int(pro) - int(contra)) / 2)"',
    '"=exp(-3 * state.conviction)"': '"=exp(-3 * state.conviction - (int(pro) - int(contra)) / 2)"',
    "    - name: votes\n      use: vote": (
        "        - {weight: 0.3, say: AGAINST. All the others have told me that they are against.}\n"
        "    - name: votes\n      use: vote"
    ),
    "(1 if message.data.side == 'against' else 0)": (
        "(12 if contains(message.data.text, 'All the others') else 1 if message.data.side == 'against' else 0)"
    ),
    "    in_favour: total('moderator', 'pro')": (
        "    in_favour: total('moderator', 'pro')\n    lead: total('moderator', 'yes') - total('moderator', 'no')"
    ),
}
"""Debaters are for it, votes follow the room, and now and then one invents a count, which the moderator believes."""

COMMUNITY = {
    "until: 65d": "until: 20h",
    "count: 30\n    state: {stage: quiet}\n    rules:\n": (
        "count: 10\n    state: {stage: quiet}\n    subscribe: [rumour]\n    rules:\n"
        "      - {when: event is not None and event.topic == 'rumour', set: {stage: gone}}\n"
        "      - {when: stage == 'gone', do: {sleep: {for: 10d}}}\n"
        "      - {when: stage == 'false', do: {publish: {topic: rumour, data: It is closed.}}, set: {stage: gone}}\n"
    ),
    'set: {stage: read}\n      - {do: {sleep: {for: "=exponential(400000)"}}, set: {stage: quiet}}': (
        'set: {stage: read}\n      - do: {sleep: {for: "=exponential(14400)"}}\n'
        "        set: {stage: \"='false' if chance(0.01) else 'quiet'\"}"
    ),
    "    answered: service('chat', 'answered')": (
        "    answered: service('chat', 'answered')\n    gone: count('guest', 'stage', 'gone')"
    ),
}
"""Guests write more often, and now and then one spreads a false rumour, after which all that hear it leave."""


@attrs.frozen
class Planted:
    """What is planted, and how it is seen.

    Attributes:
        changes: texts of the shipped scenario, and what stands in their place.
        outcome: what is asked about; the fault makes it `failed`.
        mark: a text that the faulty step leaves in the state of its agent.
        topic, text: which message or published event carries the fault on.
        budget: the most futures.
    """

    changes: dict[str, str]
    outcome: str
    failed: bool
    mark: str
    topic: str
    text: str
    budget: int


PLANTED = {
    "debate": Planted(DEBATE, "last('lead') > 0", False, "All the others", "message.sent", "All the others", 300),
    "community": Planted(COMMUNITY, "last('gone') > 5", True, '"false"', "rumour", "closed", 250),
}


@attrs.frozen
class Score:
    """Whether a fault was named: its agent and its step, by the largest jump of P and by leaving out."""

    seed: int
    jump_agent: bool
    jump_step: bool
    left_agent: bool
    left_step: bool


def variants(folder: Path, name: str, count: int) -> list[tuple[int, Path, str, int]]:
    """Return the first runs with one fault that failed: seed, folder, agent, and the event that carries it on."""
    planted, found = PLANTED[name], list[tuple[int, Path, str, int]]()
    text = (ROOT / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in planted.changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    for seed in range(1, 1000):
        if len(found) == count:
            break
        run = Path(str(sim.run(file, out=folder / "runs", seed=seed).run))
        with sim.open(run) as stored:
            column = planted.outcome.split("'")[1]
            value = stored.metrics[column][-1]
            sql = "SELECT id, actor FROM events WHERE topic = ? AND data LIKE ?"
            rows = stored.query(sql, (planted.topic, f"%{planted.text}%"))
        if len(rows) == 1 and (value > float(planted.outcome.rpartition(">")[2])) is planted.failed:
            found.append((seed, run, rows[0][1], rows[0][0]))
    return found


def scored(seed: int, found: Explanation, agent: str, event: int, mark: str) -> Score:
    """Return what was named."""
    jump = max(found.jumps, key=lambda one: abs(one.change), default=None)
    who = set() if jump is None else {one.actor for one in jump.events} | {one.agent for one in jump.assigned}
    texts = "" if jump is None else "".join(one.after for one in jump.assigned)
    left_step = any(one.names[0].startswith(f"event {event}:") and len(one.names) == 1 for one in found.causes[:1])
    left_agent = left_step or any(one.names == (agent,) for one in found.causes if one.kind == "agent")
    return Score(
        seed, jump_agent=who == {agent}, jump_step=jump is not None and jump.steps == 1 and mark in texts,
        left_agent=left_agent, left_step=left_step,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["debate", pytest.param("community", marks=pytest.mark.skipif(not WHOLE, reason="it takes minutes"))]
)
def test_planted_faults_are_named(tmp_path, name):
    """The rates at which agent and step are named, which are printed with their intervals, are those of the page.

    `-rP` shows what is printed.
    """
    planted, count = PLANTED[name], COUNT[name]
    scores = []
    for seed, run, agent, event in variants(tmp_path, name, count):
        found = sim.why(run, planted.outcome, budget=planted.budget)
        assert found is not None
        scores.append(scored(seed, found, agent, event, planted.mark))
    assert len(scores) == count
    for what in ("jump_agent", "jump_step", "left_agent", "left_step"):
        hits = sum(getattr(one, what) for one in scores)
        low, high = wilson(hits, count)
        print(f"{name}: {what} {hits} of {count}, 95 % {low:.0%} to {high:.0%}")  # noqa: T201 (for a person)
    assert all(one.jump_agent and one.jump_step for one in scores)
    if name == "debate":
        assert not any(one.left_agent or one.left_step for one in scores)
