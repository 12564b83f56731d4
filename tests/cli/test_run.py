import json
import re
import shlex
import sys

import pytest


def test_run_prints_a_summary(sim, tiny):
    """A run ends with a table of what happened; what was kept is named first."""
    done = sim("run", tiny)

    assert (done.code, done.err) == (0, "")
    assert re.search(r"^run +runs/tiny-3-[0-9a-f]{8} *$", done.out, re.MULTILINE)
    for word in ("scenario", "simulated", "10m in", "agents", "iterations", "actions", "publish", "send", "hash"):
        assert word in done.out
    assert re.search(r"^steps .*[▁▂▃▄▅▆▇█]{5}", done.out, re.MULTILINE)
    assert re.search(r"^luck +\d+", done.out, re.MULTILINE)


@pytest.mark.parametrize(("options", "named"), [((), "tiny"), (("--out", "my runs"), r"'my runs/tiny-3-[0-9a-f]{8}'")])
def test_a_summary_ends_with_the_next_command(sim, tiny, options, named):
    """The last line of the summary is a command that plays this run, also if its folder is elsewhere; it works."""
    done = sim("run", tiny, *options)
    *_, last = done.out.splitlines()

    assert re.fullmatch(f"play the run: sim view {named}", last)
    assert sim(*shlex.split(last.removeprefix("play the run: sim "))).code == 0


def test_the_next_command_names_this_run_and_no_other(sim, tiny):
    """A run that its scenario's name does not stand for is named by its folder; without a record, there is none."""
    sim("run", tiny)
    tiny.with_name("runs").joinpath("tiny").mkdir()

    assert re.search(r"sim view runs/tiny-3-[0-9a-f]{8}\n$", sim("run", tiny, "--until", "1m").out)
    assert "sim view" not in sim("run", tiny, "--no-record").out


def test_json_is_one_object(sim, tiny):
    """With --json stdout holds exactly one JSON object with the figures of the run."""
    done = sim("run", tiny, "--json")
    result = json.loads(done.out)

    assert done.code == 0
    assert done.out.count("\n") == 1
    assert result["status"] == "finished"
    assert (result["scenario"], result["seed"], result["mode"]) == ("tiny", 3, "autonomous")
    assert (result["sim_seconds"], result["agents"]) == (600, 3)
    assert len(result["hash"]) == 64
    assert {"run", "backend", "events", "wall_seconds", "iterations", "actions", "states", "wakeups"} <= set(result)


def test_options_reach_the_run(sim, tiny):
    """Mode, seed, end, changes and --no-record do what they say."""
    options = ("--mode", "tick", "--seed", 9, "--until", "1m", "--set", "agents.walker.count=2", "--no-record")
    result = json.loads(sim("run", tiny, *options, "--json").out)

    assert (result["mode"], result["seed"], result["sim_seconds"], result["agents"]) == ("tick", 9, 60, 2)
    assert result["run"] is None
    assert not (tiny.parent / "runs").exists()


def test_quiet(sim, tiny):
    """With --quiet only the folder of the run is printed."""
    done = sim("run", tiny, "--quiet", "--out", "kept")

    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"kept/tiny-3-[0-9a-f]{8}\n", done.out)


@pytest.mark.slow
def test_hash_depends_on_the_seed_alone(sim, start, tiny):
    """The hash of a run is the same on both hosts and for any hash seed of Python, and another for another seed."""
    what = ("run", tiny, "--json", "--no-record")
    elsewhere = start(*what, "--backend", "trio", PYTHONHASHSEED="2")
    told = {"asyncio": sim(*what).out, "other": sim(*what, "--seed", 4).out}
    told["trio"], _ = elsewhere.communicate(timeout=60)
    hashes = {name: json.loads(text)["hash"] for name, text in told.items()}

    assert hashes["asyncio"] == hashes["trio"]
    assert hashes["asyncio"] != hashes["other"]


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["nofile.yaml"], "nofile.yaml:1:1: the file cannot be read"),
        (["tinny.yaml"], "did you mean tiny.yaml?"),
        (["scenarios/opinions.yaml"], "sim new --from opinions"),
        (["tiny.yaml", "--set", "seed"], "is not of the form path=value"),
        (["tiny.yaml", "--set", "sede=3"], "did you mean 'seed'?"),
        (["tiny.yaml", "--set", "agents.walker.count=many"], "--set:1:"),
        (["tiny.yaml", "--until", "3x"], "'3x' is not a duration"),
        (["tiny.yaml", "--until", "0s"], "must last longer than 0 s"),
        (["tiny.yaml", "--seed", "-1"], "'--seed'"),
        (["tiny.yaml", "--mode", "ticks"], "'--mode'"),
        (["tiny.yaml", "--speed", "2"], "hint: add --clock wall"),
        (
            ["tiny.yaml", "--clock", "wall", "--speed", "nan"],
            "the speed is simulated seconds per real second, a number above 0, not nan",
        ),
        ([], "SCENARIO"),
    ],
)
def test_wrong_usage(sim, tiny, args, part):
    """Wrong usage is one sentence and a hint on stderr, exit code 2, with the same as JSON on stdout."""
    done = sim("run", *args, "--json", "--no-record")
    error = json.loads(done.out)["error"]

    assert done.code == 2
    assert done.err.startswith("sim: error: ")
    assert part in done.err
    assert "Traceback" not in done.err
    assert set(error) == {"message", "hint", "problems"}
    assert error["message"]


def test_problems_have_positions(sim, tiny):
    """Each problem of a scenario is reported with file, line and column, also as JSON."""
    tiny.write_text("name: tiny\nsede: 3\nagents: [{name: a, knid: policy}]\n")
    done = sim("run", tiny, "--json")

    assert done.code == 2
    problems = json.loads(done.out)["error"]["problems"]
    assert [(problem["line"], problem["column"]) for problem in problems] == [(2, 1), (3, 20)]
    assert f"{tiny}:2:1: " in done.err


def test_failed_run(sim, tiny):
    """A run that fails ends with exit code 1 and one sentence; a traceback comes only with --debug."""
    tiny.write_text("name: bad\nagents: [{name: a}]\nmetrics: {values: {x: sqrt(59 - now)}}\n")
    short, long = sim("run", tiny), sim("run", tiny, "--debug")

    assert (short.code, long.code) == (1, 1)
    assert re.fullmatch("sim: error: x cannot be evaluated: .*\n", short.err)
    assert "Traceback" in long.err
    assert "failed" in sim("list").out


def test_code_needs_permission(sim, tiny, monkeypatch):
    """A scenario that names code is refused until its module is allowed; then what the code prints is no result."""
    (tiny.parent / "chatty_agents.py").write_text(
        "import sim\n\nclass Chatty(sim.Agent):\n    async def decide_action(self):\n"
        "        print('thinking')\n        return None\n"
    )
    tiny.write_text("name: tiny\nuntil: 1s\nagents: [{name: a, kind: 'chatty_agents:Chatty'}]\n")
    monkeypatch.setattr("sys.path", list(sys.path))
    refused = sim("run", tiny, "--no-record")
    allowed = sim("run", tiny, "--no-record", "--allow", "chatty_agents", "--json")

    assert refused.code == 2
    assert "hint: allow it: --allow chatty_agents" in refused.err
    assert allowed.code == 0
    assert json.loads(allowed.out)["iterations"] > 0
    assert "thinking" in allowed.err


DEADLOCK = """
name: deadlock
until: null
agents:
  - {name: a, rules: [{do: {acquire: {pool: desk}}}]}
  - {name: b, rules: [{do: {acquire: {pool: desk}}}]}
pools: {desk: {kind: resource}}
"""


def test_a_deadlock_is_said(sim, tiny):
    """Agents that are blocked for ever are named on stderr, in the summary, by `show` and in JSON; `check` says that
    there is no time limit.
    """
    tiny.write_text(DEADLOCK)
    blocked = "2 agents are blocked: b on acquire `desk`, a on acquire `desk`"

    assert "ok: 2 agents, without a time limit" in sim("check", tiny).out
    done = sim("run", tiny)
    assert f"sim: warning: deadlock: {blocked}" in done.err
    assert blocked in done.out
    assert blocked in sim("show", "deadlock").out
    assert json.loads(sim("show", "deadlock", "--json").out)["deadlock"] == f"deadlock: {blocked}"


def test_messages_that_no_rule_reads_are_in_the_summary(sim, tiny):
    """Summary, `sim show` and JSON say who did not read what; `sim run` warns, with a rule that is valid as it is."""
    tiny.write_text("""
name: unread
until: 1m
agents:
  - {name: ann, rules: [{when: iteration == 1, do: {send: {to: bob, topic: "it's late"}}}, {do: stop}]}
  - name: bob
    rules:
      - {do: {sleep: {message: true}}}
""")

    done = sim("run", tiny)
    assert json.loads(sim("run", tiny, "--json").out)["unread"] == [
        {"agent": "bob", "topic": "it's late", "count": 1, "why": "no rule"}
    ]
    assert "unread 1 message: 1 it's late to bob" in " ".join(sim("show", "unread").out.split())
    assert '1 message with the topic "it\'s late" to bob was not read: no rule of bob applies to it' in done.err
    rule = re.search("such as ({.*}),", done.err)
    assert rule is not None
    tiny.write_text(tiny.read_text().replace("rules:\n", f"rules:\n      - {rule[1]}\n"))
    assert json.loads(sim("run", tiny, "--json").out)["unread"] == []


def test_strict_runs_allow_no_failed_iteration(sim, tiny):
    """With --strict, a run in which iterations failed prints its result, says so, and ends with code 1; else with 0."""
    broken = tiny.read_text().replace('"=uniform(0, 1)"', '"=1 / 0"')
    tiny.write_text(broken)
    assert sim("run", tiny, "--no-record").code == 0
    done = sim("run", tiny, "--no-record", "--strict", "--json")
    assert done.code == 1
    assert json.loads(done.out)["errors"] > 0
    assert "iterations of agents failed, and --strict allows none" in done.err
    tiny.write_text(broken.replace('"=1 / 0"', '"=1"'))
    assert sim("run", tiny, "--no-record", "--strict").code == 0
