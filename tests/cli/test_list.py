"""`sim list`: where runs come from, what was set, and tags."""

import json
import re

import pytest

import sim as package


@pytest.fixture
def runs(sim, tiny):
    """A run with values and tags, a branch of it, a branch from its start, and a run with nothing set; not a branch
    that is not recorded.
    """
    package.run(tiny, out="runs", overrides=["agents.walker.count=4"], tags=["pilot", "a.1"])
    assert sim("branch", "tiny", "--at", "5m", "--seed", "7", "--set", "events=[]", "--tag", "what-if").code == 0
    assert sim("branch", "tiny~1", "--at", "0s", "--set", "seed=9", "--tag", "pilot").code == 0
    unrecorded = sim("branch", "tiny~1", "--at", "5m", "--no-record", "--json")
    assert (unrecorded.code, json.loads(unrecorded.out)["run"]) == (0, None)
    assert sim("run", tiny, "-q").code == 0
    done = sim("list", "--json")
    return json.loads(done.out)["runs"][::-1]


@pytest.mark.slow
def test_json_has_origin_changes_and_tags(runs):
    """Each run says where it comes from, what was set by whom, and its tags; a branch has none of its original run."""
    first, branch, anew, plain = runs
    assert (first["origin"], first["set"], first["tags"]) == (None, ["agents.walker.count=4"], ["pilot", "a.1"])
    origin = {"run": first["id"], "time": 300.0, "set": ["events=[]"], "seed": 7, "models": []}
    assert (branch["origin"], branch["set"], branch["tags"]) == (origin, ["agents.walker.count=4"], ["what-if"])
    assert anew["origin"] == {"run": first["id"], "time": 0.0, "set": [], "seed": None, "models": []}
    assert (anew["set"], anew["tags"]) == (["agents.walker.count=4", "seed=9"], ["pilot"])
    assert (plain["origin"], plain["set"], plain["models"], plain["tags"]) == (None, [], [], [])


@pytest.mark.slow
def test_the_table_has_only_columns_that_are_used(sim, runs):
    """Origin, changes and tags are columns if any listed run has some."""
    first, branch, anew, plain = runs
    lines = {line.split()[0]: line for line in sim("list").out.splitlines()}
    assert lines["run"].split()[-3:] == ["from", "set", "tags"]
    assert f"{first['id']} at 5m" in lines[branch["id"]]
    assert "agents.walker.count=4 events=[] seed=7" in lines[branch["id"]]
    assert f"{first['id']} at 0s" in lines[anew["id"]]
    assert lines[first["id"]].split()[-3:] == ["agents.walker.count=4", "pilot", "a.1"]
    assert lines[plain["id"]].split()[-1] == plain["hash"][:16]
    assert package.replay(branch["path"]).same


@pytest.mark.slow
def test_runs_are_found_by_their_tags(sim, runs):
    """`--tag` lists the runs that have each of the tags."""
    first, _, anew, _ = runs

    def found(*tags):
        done = sim("list", "--json", *(part for tag in tags for part in ("--tag", tag)))
        return [info["id"] for info in json.loads(done.out)["runs"]]

    assert found("pilot") == [anew["id"], first["id"]]
    assert found("pilot", "a.1") == [first["id"]]
    assert found("none") == []
    assert sim("list", "--tag", "none").out == "no runs in runs with this tag\n"


def test_tags_are_not_in_the_hash(tiny):
    """Two runs that differ in their tags have one hash; a tag that is given twice counts once."""
    one = package.run(tiny, out="runs")
    other = package.run(tiny, out="runs", tags=["x", "y", "x"])
    assert one.hash == other.hash


@pytest.mark.parametrize("tag", ["", "a b", "-x", "x" * 65, "ä", "a\n"])
def test_what_is_no_tag_is_refused(sim, tiny, tag):
    """A tag is a word of letters, digits and a few signs; anything else is wrong usage, and no run is made."""
    done = sim("run", tiny, "--tag", tag)
    assert done.code == 2
    assert re.match(r"sim: error: '.*' cannot be a tag\nhint: use at most 64 letters", done.err)
    with pytest.raises(package.UsageError, match="tags are a list of words, not 'pilot'"):
        package.run(tiny, tags="pilot")
    with pytest.raises(package.UsageError, match="at most 20 tags"):
        package.run(tiny, tags=[f"t{n}" for n in range(21)])
    assert not (tiny.parent / "runs").exists()
