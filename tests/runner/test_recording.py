"""How much of a run is recorded is a choice, which changes nothing in the run."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.cli import main
from sim.kernel.levels import LEVELS
from sim.record import open_run

SCENARIO = """\
name: levels
until: 60s
seed: 4
accounts: {bank: 5}
places: {grid: [4, 4], wrap: true}
limits: {moves: {global: 3 per 1s}}
costs: {move: {moves: 1}}
metrics: {every: 10s, values: {money: "total('person', 'paid')", moved: "published('place.entered')"}}
interventions: [{at: 30s, name: storm, publish: {topic: storm}}]
agents:
  - name: person
    count: 6
    place: "=index * 2"
    balance: 20
    state: {paid: 0, looked: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: chance(0.2), do: {transfer: {to: bank, amount: 1}}, set: {paid: "=paid + 1"}, record: {paid: "=paid"}}
      - {when: chance(0.2), do: {move: {to: "=choice(free_places())"}}}
      - {when: chance(0.1), do: {send: {to: "=choice(agents('person'))", data: hello}}}
      - {when: chance(0.1), do: {sleep: {event: storm, timeout: 5s}}}
      - {when: chance(0.1), do: {transfer: {to: bank, amount: 1000}}}
      - {when: message is not None, do: noop}
      - {do: noop, set: {looked: "=len(neighbours())"}}
"""
RARE = {"metric.sample", "observation", "intervention.applied"}
"""What the level `samples` keeps of the scenario."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the scenario."""
    folder = tmp_path_factory.mktemp("levels")
    (folder / "levels.yaml").write_text(SCENARIO, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, sim.RunResult]:
    """Return the results of the scenario, recorded at each level."""
    return {level: sim.run(folder / "levels.yaml", recording=level, out=folder / "runs") for level in LEVELS}


def rows(result: sim.RunResult) -> list[Any]:
    """Return the events on record."""
    with open_run(Path(result)) as stored:
        return list(stored.events())


@pytest.mark.slow
def test_the_run_is_the_same_at_each_level(results):
    """Samples, observations, counts and the digest of the final state do not depend on the level; events keep their
    identities and places in the order.
    """
    whole = results["all"]
    with open_run(Path(whole)) as stored:
        digest, recorded = stored.info.digest, list(stored.events())
    for level, result in results.items():
        same = attrs.evolve(
            result, run=whole.run, hash=whole.hash, events=whole.events, recording="all",
            wall_seconds=whole.wall_seconds,
        )  # fmt: skip
        assert same == whole, level
        with open_run(Path(result)) as stored:
            assert stored.info.digest == digest
            kept = list(stored.events())
        assert [row for row in recorded if row in kept] == kept


def test_a_level_keeps_what_it_promises(results):
    """`samples` keeps samples, observations and interventions; `changes` leaves out only actions that succeeded and
    that nothing else saw; refused ones stay.
    """
    topics = {level: [row.topic for row in rows(result)] for level, result in results.items()}
    assert set(topics["samples"]) == RARE
    whole, some = rows(results["all"]), rows(results["changes"])
    left_out = [row for row in whole if row not in some]
    assert {row.topic for row in left_out} == {"action.noop", "action.sleep"}
    assert all(row.data["success"] for row in left_out)
    assert any(row.topic == "action.transfer" and not row.data["success"] for row in some)


def test_the_hash_names_its_level(results, folder):
    """Hashes of two levels are never equal, and show of which level they are; without a record they are the same."""
    assert len({result.hash.partition(":")[2] or result.hash for result in results.values()}) == 3
    for level, result in results.items():
        assert result.hash.startswith("" if level == "all" else f"{level}:")
        assert sim.run(folder / "levels.yaml", recording=level).hash == result.hash


@pytest.mark.parametrize("level", ["changes", "samples"])
def test_what_is_made_of_a_run_says_what_it_could_compare(results, level, capsys):
    """Replay, branch and verification work at each level, and say at which; a branch keeps the level of its past."""
    run = results[level].run
    again = sim.replay(run)
    assert (again.same, again.hash, again.recording) == (True, results[level].hash, level)
    assert f"level `{level}`" in again.sentence()
    later = sim.branch(run, at="20s", record=False)
    assert later.hash == results[level].hash
    done = {name: _command(capsys, name, run, *more) for name, more in (("verify", ()), ("show", ()))}
    assert all(f"level `{level}`" in out for out, _ in done.values())
    out, err = _command(capsys, "show", run, "events", "--topic", "action.*", "--json")
    assert json.loads(out)["count"] == sum(row.topic.startswith("action.") for row in rows(results[level]))
    assert f"level `{level}`" in err


def _command(capsys: pytest.CaptureFixture[str], *arguments: str | None) -> tuple[str, str]:
    """Return what a command that succeeds writes to stdout and to stderr."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
    out, err = capsys.readouterr()
    return out, err


def test_the_level_of_the_scenario_holds_unless_an_option_says_otherwise(folder):
    """A file names its level; an option comes first; a level that does not exist is refused."""
    file = folder / "own.yaml"
    file.write_text(SCENARIO + "recording: {level: samples}\n", encoding="utf-8")
    assert sim.run(file).recording == "samples"
    assert sim.run(sim.load(file), recording="changes").recording == "changes"
    with pytest.raises(UsageError, match="recording"):
        sim.run(file, recording="some")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="level"):
        sim.run(file, overrides=["recording.level=some"])


@pytest.mark.slow
def test_trials_record_samples_unless_asked_otherwise(folder):
    """A trial is recorded at the level `samples`, unless the scenario or the plan says otherwise."""
    file = folder / "levels.yaml"
    made = {
        level: sim.sweep(file, seeds=1, jobs=1, record=True, recording=level, out=folder / f"of-{level}")
        for level in (None, "all")
    }
    infos = {}
    for level, experiment in made.items():
        (run,) = (Path(experiment.folder) / "runs").iterdir()
        with open_run(run) as stored:
            infos[level] = stored.info
        assert sim.replay(run).same
    assert str(infos[None].hash).startswith("samples:")
    assert ":" not in str(infos["all"].hash)
    assert infos[None].digest == infos["all"].digest
