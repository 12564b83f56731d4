"""Values of state variables over time: `recording.state`."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.base.errors import ScenarioError
from sim.record import open_run

VOTERS = """
name: voters
until: 1m
seed: 3
metrics: {every: 5s, values: {heavy: "mean('voter', 'weight')"}}
recording: {state: [opinion, seen, weight]}
agents:
  - name: voter
    count: 6
    state: {opinion: "=choice(['red', 'blue'])", seen: [], weight: 1.5, other: 0}
    rules:
      - when: chance(0.2)
        set: {opinion: "=choice(['red', 'blue', 'green'])", seen: "=seen + [index]", other: "=other + 1"}
      - do: {sleep: {for: "=exponential(2)"}}
"""
METRICS = """metrics: {every: 5s, values: {heavy: "mean('voter', 'weight')"}}"""


def write(text: str, folder: Path) -> Path:
    """Write a scenario file."""
    file = folder / "voters.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def rows(run: str | None) -> list[tuple[float, str, str, str]]:
    """Return the view `variables` of a run: time, agent, name, value as JSON text."""
    assert run is not None
    with open_run(Path(run)) as stored:
        return stored.query("SELECT time, agent, name, value FROM variables ORDER BY id")


def agents_of(run: str | None) -> dict[str, Any]:
    """Return the final states of the agents of a run."""
    assert run is not None
    with open_run(Path(run)) as stored:
        return dict((stored.info.digest or {})["agents"])


@pytest.mark.slow
def test_values_are_recorded_when_they_change(tmp_path):
    """At each sample the named variables that have changed are on record, at time 0 and at the end all of them are
    what they are; a variable that is not named is never there, and one that does not change is there once."""
    result = sim.run(write(VOTERS, tmp_path), out=tmp_path / "runs")
    found = rows(result.run)
    assert {name for _, _, name, _ in found} == {"opinion", "seen", "weight"}
    assert sum(name == "weight" for _, _, name, _ in found) == 6
    assert len({(agent, name) for time, agent, name, _ in found if time == 0}) == 18
    assert {time for time, *_ in found} <= {5.0 * n for n in range(13)}
    last: dict[tuple[str, str], object] = {}
    for _, agent, name, value in found:
        assert last.get((agent, name)) != value
        last[agent, name] = value
    for (agent, name), known in last.items():
        final = agents_of(result.run)[agent]["state"][name]
        assert known == (json.dumps(final, separators=(",", ":")) if isinstance(final, list) else final)


@pytest.mark.slow
def test_recording_them_changes_nothing_else(tmp_path):
    """With and without it, and at the level `samples`, the other events and the final state are the same."""
    with_, without = (
        sim.run(write(text, tmp_path), out=tmp_path / "runs")
        for text in (VOTERS, VOTERS.replace("recording: {state: [opinion, seen, weight]}\n", ""))
    )
    samples = sim.run(write(VOTERS, tmp_path), out=tmp_path / "runs", recording="samples")
    events = []
    for result in (with_, without):
        with open_run(Path(str(result.run))) as stored:
            events.append([(e.time_ns, e.actor, e.topic, e.data) for e in stored.events() if e.topic != "state.sample"])
    assert events[0] == events[1]
    assert agents_of(with_.run) == agents_of(without.run)
    assert rows(samples.run) == rows(with_.run)


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_it_repeats(tmp_path, mode):
    """The hash is that of the other event loop and of a replay, in both modes."""
    file = write(VOTERS, tmp_path)
    one = sim.run(file, out=tmp_path / "runs", mode=mode)
    other = sim.run(file, out=tmp_path / "runs", mode=mode, backend="trio")
    assert one.hash == other.hash
    assert sim.replay(str(one.run)).hash == one.hash


def test_no_metric_is_needed(tmp_path):
    """A scenario without metrics has samples of the variables; agents that are made at time 0 are in the first one."""
    text = VOTERS.replace(METRICS, "metrics: {every: 20s}")
    text += "  - {name: maker, rules: [{do: {spawn: {agent: voter}}, when: iteration == 1}, {do: stop}]}\n"
    found = rows(sim.run(write(text, tmp_path), out=tmp_path / "runs").run)
    assert {agent for time, agent, *_ in found if time == 0} == {f"voter-{n}" for n in range(1, 7)} | {
        agent for _, agent, *_ in found
    }
    assert max(time for time, *_ in found) == 60


def test_trials_keep_the_default_level(tmp_path):
    """Naming variables chooses no level: trials of a sweep are recorded at `samples`, as without them."""
    swept = sim.sweep(write(VOTERS, tmp_path), seeds=2, jobs=1, out=tmp_path / "study", record=True)
    assert {trial["hash"].partition(":")[0] for trial in swept.frame("trials").to_dict("records")} == {"samples"}


@pytest.mark.parametrize(
    ("names", "words", "hint"),
    [
        ("[opinon]", "recording.state[0]: no agent has a state variable 'opinon'", "did you mean 'opinion'?"),
        ("[seen, opinion, seen]", "recording.state[2]: 'seen' is named twice", None),
        ("[now]", "recording.state[0]", None),
        (str([f"v{n}" for n in range(21)]), "recording.state", None),
    ],
)
def test_names_are_checked(tmp_path, names, words, hint):
    """A variable that no agent has, one that is named twice, and too many are refused at their place in the file."""
    file = write(VOTERS.replace("[opinion, seen, weight]", names), tmp_path)
    with pytest.raises(ScenarioError) as caught:
        sim.run(file)
    problems = caught.value.problems
    assert any(words in problem.message and problem.line == 6 for problem in problems), problems
    assert hint is None or any(problem.hint == hint for problem in problems)
