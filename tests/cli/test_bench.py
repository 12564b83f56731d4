import contextlib
import csv
import json
import signal
import stat
import sys

import pytest

from sim.archives.compare import results_difference
from sim.experiments.bench.plan import make_bench
from sim.experiments.experiment import carry_out, evaluate
from sim.experiments.folder import begin, continue_experiment, write
from sim.experiments.options import Precision
from sim.experiments.plan import TrialHosting
from sim.experiments.pool import Inline
from sim.experiments.results import Results
from tests.proof.forking import Commands

QUICK = ("--seeds", 1, "--jobs", 1)

TALKERS = """
from sim import Action, Agent
from sim.llm.service import Models
from sim.llm.types import ChatMessage, ModelRequest


class Talker(Agent):
    reach = "space"

    async def decide_action(self):
        seen = self.world.space.near(self.agent_id)
        if self.rng.random() < 0.5:
            request = ModelRequest((ChatMessage("user", "word " * (20 + 100 * len(seen))),))
            await Models.of(self.world).complete(self, request)
        print("what agents print is no result")
        x, y = self.world.space.where(self.agent_id)
        return Action("walk", {"to": [min(29, x + self.rng.randint(0, 1)), y]})
"""
TALK = """
name: talk
until: 4m
execution: {use_autonomous_loops: false, sync: barrier, tick: {period: 10s}}
space: {size: [30, 30], perception: 4, speed: 1}
models:
  provider: simulated
  simulated: {server: {slots: 4}, output_tokens: {lognormal: [30, 200]}}
  rules: [{say: good day}]
agents:
  - {name: talker, kind: "talkers_of_bench:Talker", count: 8, position: "=[randint(0, 29), randint(0, 29)]"}
"""
RARE = """
name: rare
until: 1s
execution: {use_autonomous_loops: false, sync: barrier, tick: {period: 1s}}
models: {provider: simulated}
agents: [{name: a, rules: [{when: chance(0.5), do: {ask: {prompt: hello}}}]}]
"""


def test_a_bench_of_a_small_scenario(sim, tiny, tmp_path):
    """Every mode is run with every seed, each as `sim run` would; page, JSON and CSV are there for the owner alone."""
    done = sim("bench", tiny, "--seeds", 2, "--json")
    told = json.loads(done.out)
    folder = tmp_path / told["folder"]

    assert done.code == 0
    assert told["folder"] == "bench/tiny-1"
    assert told["settings"]["seeds"] == [3, 4]
    assert [(trial["mode"], trial["seed"]) for trial in told["trials"] if trial["status"] == "measured"] == [
        (mode, seed) for seed in (3, 4) for mode in ("tick-sequential", "tick-parallel", "autonomous", "causal")
    ]
    single = json.loads(sim("run", tiny, "--mode", "autonomous", "--seed", 4, "--no-record", "--json").out)
    assert single["hash"] == told["trials"][6]["hash"]
    files = ["bench.csv", "bench.html", "bench.json", "plan.json", "results.db"]
    assert sorted(file.name for file in folder.iterdir()) == files
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert json.loads((folder / "bench.json").read_text())["trials"] == told["trials"]
    with (folder / "bench.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert float(rows[2]["done_publish"]) == told["trials"][2]["outcomes"]["done_publish"]
    assert "8 of 8 trials" in done.err
    assert sim("verify", folder).out.startswith(f"intact: plan {told['id']}, 8 trials; results {told['hash']}")


@pytest.mark.proof
def test_the_table_has_a_block_for_each_combination(sim, tiny):
    """Swept values head their tables; at the end the speed-ups of all stand under each other."""
    done = sim("bench", tiny, *QUICK, "--mode", "tick-parallel", "--mode", "autonomous", "--vary", "until=2m,3m")

    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("until")] == [
        "until=2m", "until=3m", "until  tick-parallel  autonomous", "until  mode           seeds  mean_luck  steps",
    ]  # fmt: skip
    assert done.out.count("makespan in real time, mean over 1 seed\n") == 2
    assert done.out.splitlines()[-1] == "bench/tiny-1/bench.html"


def done_by(folder):
    """Return the measurements of the trials on record, with the real time and the CPU time that they took."""
    with contextlib.closing(Results(folder, read_only=True)) as results:
        return list(results.trials())


def test_a_stopped_bench_continues_with_the_job_that_was_not_done(tiny, tmp_path):
    """What is on record is kept as it was measured, to the last digit of its times; the results are those of a bench
    that was not stopped; and who measured what, and when, is on record.
    """
    plan = make_bench(tiny, modes=("tick-parallel", "autonomous"), count=3, until="30s")
    hashes = {}
    for name, stopped in (("whole", False), ("stopped", True)):
        with contextlib.closing(begin(plan, tmp_path / name)) as results:
            for progress in carry_out(results, Inline(), TrialHosting()):
                if stopped and progress.done == 4:  # two jobs of two modes
                    break
        before = done_by(tmp_path / name)
        with contextlib.closing(continue_experiment(tmp_path / name)) as results:
            ran = [(one.last.seed, one.last.mode) for one in carry_out(results, Inline(), TrialHosting())]
            hashes[name] = results.hash()
            write(results, evaluate(results))
            assert len(results.sessions()) == (2 if stopped else 1)
        assert ran == ([(5, "tick-parallel"), (5, "autonomous")] if stopped else [])
        assert [one for one in done_by(tmp_path / name) if one in before] == before
    assert hashes["stopped"] == hashes["whole"]
    assert results_difference(tmp_path / "whole", tmp_path / "stopped") is None


def test_real_time_can_be_limited(tiny, tmp_path):
    """After the limit no job begins, and what is there is told, even if it is nothing; the rest can be carried out."""
    with contextlib.closing(
        begin(make_bench(tiny, modes=("autonomous",), count=2, until="30s"), tmp_path / "b")
    ) as one:
        assert list(carry_out(one, Inline(), TrialHosting(max_wall=1e-9))) == []
        assert "0 of 2 runs were done" in write(one, evaluate(one)).read_text()
        ran = [progress.last.seed for progress in carry_out(one, Inline(), TrialHosting(max_wall="1h"))]
        assert ran == [3, 4]


@pytest.mark.proof
def test_the_modes_of_a_combination_have_the_same_seeds(tiny, tmp_path):
    """If seeds are added until outcomes are precise, they are added for all modes, which are compared seed by seed."""
    plan = make_bench(
        tiny, modes=("tick-parallel", "autonomous"), until="1m", precision=Precision(0.01, 13), outcomes=["mean_luck"]
    )
    with contextlib.closing(begin(plan, tmp_path / "b")) as results:
        *_, last = carry_out(results, Inline(), TrialHosting())
        assert (last.done, last.planned) == (26, 26)
        assert {seed for _, seed in results.done()} == set(range(3, 16))


@pytest.mark.proof
def test_a_bench_that_is_killed_is_resumed(sim, tiny, tmp_path):
    """After a kill -9, `sim bench --resume` runs only what is not on record, and gives the results of a whole bench."""
    command = ("bench", "tiny.yaml", "--mode", "tick-parallel", "--mode", "autonomous", "--seeds", 3, "--until", "1m")
    with Commands() as commands:
        assert commands.call(tmp_path, *command, "--to", "whole") == 0
        assert commands.call(tmp_path, *command, "--to", "killed", point="results.added", n=2) == -signal.SIGKILL
    before = done_by(tmp_path / "killed")
    told = json.loads(sim("bench", "--resume", "killed", "--json").out)

    assert (len(before), len(told["trials"]), told["complete"]) == (4, 6, True)
    assert [one for one in done_by(tmp_path / "killed") if one in before] == before
    assert told["hash"] == json.loads(sim("sweep", "--resume", "whole", "--json").out)["hash"]
    assert sim("verify", "killed").code == 0


@pytest.fixture
def talk(tmp_path, monkeypatch):
    """A scenario on two axes of time, whose agents are made by code beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "talkers_of_bench.py").write_text(TALKERS)
    (tmp_path / "talk.yaml").write_text(TALK)
    return tmp_path / "talk.yaml"


def test_a_scenario_on_two_axes_of_time(sim, talk):
    """Each mode is a rule of who may go on: less waiting is quicker, and all but the free one have equal events."""
    modes = ("tick-sequential", "tick-parallel", "autonomous", "causal", "causal-radius", "oracle")
    named = [word for mode in modes for word in ("--mode", mode)]
    done = sim("bench", talk, "--allow", "talkers_of_bench", "--seed", 7, *named, "--json")
    told = json.loads(done.out)
    span = {trial["mode"]: trial["makespan"] for trial in told["trials"]}

    assert done.code == 0
    assert {trial["basis"] for trial in told["trials"]} == {"service"}
    assert span["autonomous"] <= span["oracle"] <= span["causal"] < span["tick-parallel"] < span["tick-sequential"]
    assert len({trial["hash"] for trial in told["trials"] if trial["mode"] != "autonomous"}) == 1
    assert all(len(trial["concurrency"]) == 200 and trial["calls"] > 50 for trial in told["trials"])
    assert told["rows"][-1]["figures"]["of_oracle"]["mean"] == 100


def test_calls_in_flight_of_an_ordinary_scenario(sim, tmp_path, monkeypatch):
    """With simulated models and a stop condition the makespan is simulated time, and calls are followed over it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ask.yaml").write_text(
        "name: ask\nexecution: {tick: {period: 1s}}\n"
        "models: {provider: simulated, simulated: {first_token: 3, per_token: 0}, rules: [{say: hello}]}\n"
        "agents: [{name: a, count: 4, state: {n: 0}, loop: {min_loop_delay: 1s},"
        " rules: [{when: n < 2, do: {ask: {prompt: hi}}, set: {n: '=n + 1'}}, {do: stop}]}]\n"
        "metrics: {every: 1s}\nstop: {when: in_state('stopped') == 4}\n"
    )
    trials = json.loads(sim("bench", "ask.yaml", *QUICK, "--json").out)["trials"]
    autonomous = next(trial for trial in trials if trial["mode"] == "autonomous")

    assert autonomous["basis"] == "simulated"
    assert autonomous["calls"] == 8
    assert autonomous["in_flight"] * autonomous["makespan"] == pytest.approx(24)  # 8 calls of 3 s
    assert max(calls for _, calls in autonomous["concurrency"]) == 4
    assert sum(calls for _, calls in autonomous["concurrency"]) / 200 == pytest.approx(
        autonomous["in_flight"], abs=1e-3
    )


def test_a_run_that_fails_is_told_in_its_row(sim, tiny):
    """The others go on; the exit code is 1, and the folder is there."""
    stuck = tiny.with_name("stuck.yaml")
    stuck.write_text(
        "name: stuck\nuntil: 10s\nexecution: {max_deltas: 20, agent_loop: {min_loop_delay: 0}}\n"
        "agents: [{name: a, rules: [{do: noop}]}]\n"
    )
    done = sim("bench", stuck, *QUICK, "--mode", "tick-parallel", "--mode", "autonomous")

    assert done.code == 1
    assert "autonomous: simulated time is stuck at 0 s" in done.out
    assert "sim: error: 1 of 2 runs failed: autonomous: simulated time is stuck at 0 s" in done.err
    row = next(line for line in done.out.splitlines() if line.startswith("tick-parallel"))
    assert row.rstrip().endswith("1  1 of 1")


def test_a_process_that_dies_is_told(sim, talk):
    """What it should have measured has failed; whoever kills it, the bench goes on."""
    text = talk.with_name("talkers_of_bench.py").read_text()
    dying = text.replace("        seen =", "        import os\n        os._exit(7)\n        seen =")
    talk.with_name("talkers_of_bench.py").write_text(dying)
    done = sim("bench", talk, "--allow", "talkers_of_bench", *QUICK)

    assert done.code == 1
    assert "the process of the run ended early" in done.out


@pytest.mark.proof
def test_a_mode_without_meaning_is_left_out(sim, tiny):
    """A scenario that has no meaning in a mode is told why; the exit code is 1 only if the mode was asked for."""
    tiny.write_text(tiny.read_text() + "execution: {ties: shuffled}\n")
    named = sim("bench", tiny, *QUICK, "--mode", "causal")
    left_out = sim("bench", tiny, *QUICK)

    assert (left_out.code, named.code) == (0, 1)
    assert "causal: execution.sync: causal excludes a shuffled order" in left_out.out
    assert "1 of 1 runs failed" in named.err


def test_failed_iterations_are_told(sim, tiny):
    """Agents whose iterations fail are measured, but a reader must know."""
    tiny.write_text("name: bad\nuntil: 10s\nagents: [{name: a, state: {x: 0}, rules: [{set: {x: '=1 / x'}}]}]\n")
    done = sim("bench", tiny, *QUICK, "--mode", "autonomous")

    assert done.code == 0
    assert "autonomous: 5 iterations failed: 5 x ExpressionError: '1 / x': division by zero" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mode", "fast"], "'fast' is not one of"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--seeds", "3", "--seed", "1"], "number of seeds"),
        (["--vary", "until"], "does not say how to vary"),
        (["--vary", "agents.nobody.count=1"], "there is no 'nobody'"),
        (["--vary", "agents.walker.count=0,1"], "not valid"),
        (["--seeds", "9999"], "the limit is 10,000"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--on", "ray"], "which machines of a cluster do not have in common"),
        (["--vary", "mode=tick,autonomous"], "the mode is no key of a scenario"),
        (["--resume", "bench/tiny-1"], "leave out all other options"),
        (["--again"], "add --resume FOLDER"),
    ],
)
def test_wrong_usage(sim, tiny, options, words):
    """What makes no sense is refused before anything runs or is made: exit code 2."""
    done = sim("bench", tiny, *options)

    assert done.code == 2
    assert words in done.err
    assert not tiny.with_name("bench").exists()


@pytest.mark.proof
def test_folders_are_counted_and_never_written_over(sim, tiny):
    """Each bench gets the next free number; a folder that holds one is refused."""
    quick = (*QUICK, "--mode", "autonomous")
    first, second = sim("bench", tiny, *quick), sim("bench", tiny, *quick)
    given = sim("bench", tiny, *quick, "--to", "bench/tiny-2")

    assert first.out.splitlines()[-1] == "bench/tiny-1/bench.html"
    assert second.out.splitlines()[-1] == "bench/tiny-2/bench.html"
    assert given.code == 2
    assert "bench/tiny-2 already contains results.db" in given.err


def test_hostile_text_does_nothing_to_a_terminal(sim, tiny):
    """Escape sequences in names and errors are spelled out."""
    quick = (*QUICK, "--mode", "autonomous")
    done = sim("bench", tiny, *quick, "--to", "x\x1b[31m")
    again = sim("bench", tiny, *quick, "--to", "x\x1b[31m")

    assert (done.code, again.code) == (0, 2)
    assert "\x1b" not in done.out + done.err + again.err
    assert done.out.splitlines()[-1] == "x\\x1b[31m/bench.html"


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_bench_that_is_ended_keeps_what_it_has(start, tiny, tmp_path, number):
    """Ctrl-C ends the processes, and what was measured is written; the exit code is 1."""
    tiny.write_text(tiny.read_text().replace("until: 10m", "until: 10000h"))
    process = start("bench", tiny, "--jobs", 1, "--seeds", 1, "--vary", "until=1m,10000h", "--mode", "autonomous")
    assert process.stderr.readline() == "1 of 2 trials: until=1m, mode=autonomous, seed 3: measured\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "sim: interrupted; continue with: sim bench --resume bench/tiny-1\n" in err
    told = json.loads((tmp_path / "bench" / "tiny-1" / "bench.json").read_text())
    assert (told["complete"], len(told["trials"])) == (False, 1)


@pytest.mark.proof
def test_different_times_are_not_compared(sim, tmp_path, monkeypatch):
    """In an ordinary scenario causal is counted in service time, so it has no speed-up; a switch puts all on that."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ask.yaml").write_text(
        "name: ask\nuntil: 10s\n"
        "models: {provider: simulated, simulated: {first_token: 3, per_token: 0}, rules: [{say: hello}]}\n"
        "agents: [{name: a, count: 2, loop: {min_loop_delay: 1s}, rules: [{do: {ask: {prompt: hi}}}]}]\n"
    )
    mixed = sim("bench", "ask.yaml", *QUICK)
    equal = sim("bench", "ask.yaml", *QUICK, "--set", "execution.sync=barrier")

    assert (mixed.code, equal.code) == (0, 0)
    assert "different times are not compared: --set execution.sync=barrier" in mixed.out
    assert "makespan in service time, mean over 1 seed" in equal.out
    assert "not compared" not in equal.out


def test_without_calls_there_is_no_service_time(sim, tiny):
    """A scenario that calls no model is counted in real time in every mode."""
    done = sim("bench", tiny, *QUICK, "--mode", "tick-parallel", "--mode", "causal", "--json")

    assert [trial["basis"] for trial in json.loads(done.out)["trials"]] == ["wall", "wall"]


@pytest.mark.proof
def test_seeds_without_calls_are_counted_like_the_others(sim, tmp_path, monkeypatch):
    """With models the makespan is service time, and 0 s of it if nobody calls: else one seed could not be compared."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rare.yaml"
    file.write_text(RARE)
    done = sim("bench", file, "--seeds", 6, "--jobs", 1, "--mode", "tick-parallel", "--mode", "causal", "--to", "rare")
    trials = json.loads((tmp_path / "rare" / "bench.json").read_text())["trials"]

    assert {trial["basis"] for trial in trials} == {"service"}
    assert {trial["calls"] > 0 for trial in trials} == {True, False}
    assert all((trial["makespan"] > 0) == (trial["calls"] > 0) for trial in trials)
    assert "makespan in service time, mean over 6 seeds" in done.out
