"""`sim diff`, on runs of a small scenario."""

import json
import math
import re
import statistics
from array import array
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.inspect.compare.comparison import Pair, _standardized, compare
from sim.record import RunHeader, RunRecorder, create_run, open_run
from sim.runner import Distribution

HOSTILE = "a\u202eb\x1b[31m[bold]\n\x7f"


@pytest.fixture
def make(sim, tiny):
    """Run the small scenario with options, and return the folder of the run."""
    return lambda *options: sim("run", tiny, "--quiet", *options).out.strip()


@pytest.fixture
def diff(sim):
    """What `sim diff --json` says."""
    return lambda *args: json.loads(sim("diff", *args, "--json").out)


def test_two_seeds(sim, diff, make):
    """Two seeds part at the first draw that counts; the sentence, the lines and the outcomes say so."""
    left, right = make("--seed", 1), make("--seed", 2)
    done, found = sim("diff", left, right), diff(left, right)
    number = found["difference"]["number"]
    with open_run(Path(left)) as one, open_run(Path(right)) as other:
        ours, theirs = list(one.events()), list(other.events())

    assert done.code == 0
    assert ours[: number - 1] == theirs[: number - 1]
    assert ours[number - 1] != theirs[number - 1]
    assert found["equal"] is False
    assert found["equal_events"] == number - 1
    assert [event["counter"] for event in found["events"]["left"]] == [row[4] for row in ours[number - 1 :][:5]]
    assert found["settings"] == {"seed": {"left": 1, "right": 2}}
    assert f"equal events before the first difference: {number - 1}\nevent {number} " in done.out
    assert re.search(r"^seed +1 +2 *$", done.out, re.MULTILINE)
    for heading in ("outcome", "metric", "observation"):
        assert re.search(rf"^{heading} ", done.out, re.MULTILINE)


def test_figures_are_those_of_the_runs(sim, diff, make):
    """Figures, metrics and observations are those that `sim show` gives of each run, and differences add up."""
    runs = make("--seed", 1), make("--seed", 2)
    found, shown = diff(*runs), [json.loads(sim("show", run, "--json").out) for run in runs]

    for side, fields in zip(("left", "right"), shown, strict=True):
        assert found["figures"]["events"][side] == fields["events"]
        assert {kind: pair[side] for kind, pair in found["kinds"].items()} == fields["kinds"]
        series = fields["metrics"]["steps"]
        assert found["metrics"]["steps"]["last"][side] == series[-1]
        assert found["metrics"]["steps"]["mean"][side] == pytest.approx(statistics.fmean(series))
        assert found["observations"]["luck"]["mean"][side] == fields["observations"]["luck"]["mean"]
    assert "time" not in found["metrics"]
    for pair in (*found["figures"].values(), *found["metrics"]["steps"].values()):
        assert pair["difference"] == pytest.approx(pair["right"] - pair["left"])
    events = found["figures"]["events"]
    assert sum(pair["difference"] for pair in found["topics"].values()) == events["difference"]


def test_the_same_twice(sim, diff, make):
    """Two runs of one scenario and seed are equal, also on another host, which is named as a setting that differs."""
    left, right = make(), make("--backend", "trio")
    done, found = sim("diff", left, right), diff(left, right)

    assert done.code == 0
    assert found["equal"] is True
    assert found["difference"] is None
    assert (found["digest"], found["topics"], found["events"]) == ({}, {}, {"left": [], "right": []})
    assert found["settings"] == {"backend": {"left": "asyncio", "right": "trio"}}
    assert "the runs are equal: all events are equal (" in done.out
    assert "outcome" not in done.out
    assert sim("diff", left, left).out.count("the runs are equal") == 1


def test_options_and_modes(diff, make):
    """What was asked for beyond the scenario is a setting, and so is the mode."""
    found = diff(make(), make("--mode", "tick", "--until", "5m", "--set", "metrics.every=2m"))

    assert found["settings"] == {
        "mode": {"left": "autonomous", "right": "tick"},
        "options.set": {"left": [], "right": ["metrics.every=2m"]},
        "options.until": {"left": None, "right": "5m"},
    }
    assert found["figures"]["sim_seconds"] == {"left": 600.0, "right": 300.0, "difference": -300.0, "relative": -0.5}


def test_a_run_that_is_a_beginning_of_the_other(sim, make, tiny):
    """A run that was suspended equals the whole run as far as it goes, and the event it lacks is named."""
    whole = make()
    with open_run(Path(whole)) as run:
        info, events = run.info, list(run.events())
    part = create_run(tiny.parent / "runs", RunHeader("tiny", 3, "autonomous", "asyncio"), tiny.read_text())
    with RunRecorder(part) as recorder:
        for event in events[:50]:
            recorder.event(event)
    done = sim("diff", whole, part)
    found = json.loads(sim("diff", part, whole, "--json").out)

    assert done.code == 0
    assert "equal events before the first difference: 50\nevent 51 is " in done.out
    assert "on the left, and there is none on the right" in done.out
    assert found["difference"]["left"] is None
    assert found["difference"]["values"] is None
    assert found["digest"] is None
    assert found["figures"]["events"]["left"] == 50
    assert found["figures"]["sim_seconds"]["left"] == events[49][0] / 1e9
    assert found["kinds"]["publish"]["left"] is None
    assert found["kinds"]["publish"]["right"] == (info.summary or {})["kinds"]["publish"]


def test_runs_that_did_not_end(sim, diff, tiny):
    """Two runs without an end and with equal events are not said to be equal."""
    folders = []
    for _ in range(2):
        folders.append(create_run(tiny.parent / "runs", RunHeader("tiny", 3, "autonomous", "asyncio"), "name: tiny"))
        RunRecorder(folders[-1]).close()

    assert diff(*folders)["equal"] is None
    assert "all events are equal (0); a run that did not end has no final state" in sim("diff", *folders).out


def test_equal_events_with_another_final_state(sim, diff, tiny):
    """Where all events are equal, the parts of the final state that are not are named, with their first difference."""
    folders = []
    for agents in ({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": None}):
        folders.append(create_run(tiny.parent / "runs", RunHeader("tiny", 3, "autonomous", "asyncio"), "name: tiny"))
        with RunRecorder(folders[-1]) as recorder:
            recorder.event((0, 0, 0, 3, 1, "a", "t", None, None))
            recorder.finish("finished", {"agents": agents, "time": 1}, 1, {})
    done, found = sim("diff", *folders), diff(*folders)

    assert "all events are equal (1), but not the final state" in done.out
    assert found["equal"] is False
    assert found["digest"] == {
        "agents": {
            "entries": {"left": 2, "right": 3},
            "differ": 2,
            "path": "b",
            "values": {"left": "2", "right": "3"},
        }
    }
    assert re.search(r"^agents +2 +3 +2 +b +2 +3 *$", done.out, re.MULTILINE)


def test_only_requests_of_effects_differ(make):
    """Where events and final states are equal and the hashes are not, it was the requests of effects."""
    with open_run(Path(make())) as run:
        same = compare(run, run, 5)
    other = attrs.evolve(same, outcomes={**same.outcomes, "hash": Pair("a", "b")})

    assert other.equal is False
    assert "but not the requests of effects" in " ".join(other.verdict())


def test_two_scenarios(sim, diff, make, tiny):
    """Runs of different scenarios have little in common; what only one of them has stays empty on the other side."""
    left = make()
    tiny.write_text(tiny.read_text().replace("name: tiny", "name: other").replace("luck", "fate").replace("steps", "n"))
    right = make()
    done, found = sim("diff", left, right), diff(left, right)

    assert done.code == 0
    assert {"name", "scenario_hash"} <= set(found["settings"])
    assert found["observations"]["luck"]["mean"]["right"] is None
    assert found["observations"]["luck"]["standardized"] is None
    assert found["metrics"]["n"]["last"]["left"] is None
    assert found["metrics"]["steps"]["last"]["right"] is None


def test_limit(diff, make):
    """--limit says how many events of each run are shown where they part, and 0 shows all that follow."""
    left, right = make("--seed", 1), make("--seed", 2)
    one, every = diff(left, right, "--limit", 1), diff(left, right, "--limit", 0)

    assert one["events"]["left"] == [one["difference"]["left"]]
    assert one["events"]["right"] == [one["difference"]["right"]]
    rest = every["figures"]["events"]["right"] - every["equal_events"]
    assert len(every["events"]["right"]) == rest > 5


def test_wrong_usage(sim, make):
    """A run that is not there, and one run alone, are wrong usage."""
    run = make()
    for args in (("diff", run, "nothing"), ("diff", "nothing", run), ("diff", run), ("diff", run, run, "--limit", -1)):
        done = sim(*args)
        assert done.code == 2
        assert done.err.startswith("sim: error: ")


def test_a_damaged_run_is_no_difference(sim, make):
    """A run file that was changed afterwards is an error, not a difference."""
    left, right = make(), make()
    database = Path(right) / "run.db"
    data = database.read_bytes()
    place = data.rindex(b"feels like it")
    database.write_bytes(data[:place] + b"F" + data[place + 1 :])
    done = sim("diff", left, right)

    assert done.code == 1
    assert "is damaged" in done.err


def test_text_of_runs_is_harmless(sim, tiny):
    """Control characters are spelled out in the sentence, the lines and the tables, and markup is text."""
    folders = []
    for place in "12":
        evil = HOSTILE + place
        header = RunHeader(evil, 3, cast(Any, evil), "asyncio", {evil: evil})
        folders.append(create_run(tiny.parent / "runs", header, "name: tiny"))
        with RunRecorder(folders[-1]) as recorder:
            recorder.event((0, 0, 0, 3, 1, evil, evil, {evil: evil}, None))
            summary: dict[str, Any] = {"stopped_by": evil, "kinds": {evil: 1}, "metrics": {evil: [1]}}
            recorder.finish("finished", {evil: {evil: evil}}, 1, summary)
    done = sim("diff", *folders)

    assert done.code == 0
    assert done.out.count("[bold]") > 20
    assert all(sign.isprintable() or sign == "\n" for sign in done.out)
    assert all(sign.isprintable() or sign == "\n" for sign in sim("diff", *folders, "--json").out)


@pytest.mark.parametrize(
    ("left", "right", "difference", "relative"),
    [
        (4, 5, 1, 0.25),
        (-4, -5, -1, -0.25),
        (0, 5, 5, None),
        (None, 5, None, None),
        ("a", "b", None, None),
        (math.inf, 1, None, None),
    ],
)
def test_pairs(left, right, difference, relative):
    """A difference is right minus left, and relative to the size of the left; without a number there is none."""
    pair = Pair(left, right)

    assert (pair.difference, pair.relative) == (difference, relative)


@given(
    st.lists(st.integers(-100, 100), min_size=2, max_size=30),
    st.lists(st.integers(-100, 100), min_size=2, max_size=30),
    st.integers(1, 9),
)
def test_standardized_differences(left, right, factor):
    """They do not depend on the unit, and for samples of one size follow from the mean of both variances."""
    found, scaled = _cohen(left, right), _cohen([v * factor for v in left], [v * factor for v in right])
    variance = (statistics.variance(left) + statistics.variance(right)) / 2
    if variance == 0:
        assert found is None
        return
    assert found is not None
    assert scaled == pytest.approx(found)
    if len(left) == len(right):
        difference = statistics.fmean(right) - statistics.fmean(left)
        assert found == pytest.approx(difference / math.sqrt(variance))


def _cohen(left, right):
    sides = [Distribution.of(array("d", values)) for values in (left, right)]
    names = ("n", "mean", "deviation")
    return _standardized({name: Pair(*(getattr(side, name) for side in sides)) for name in names})
