"""Sweeps and arms in Python: the same as on the command line, as objects that can be shown, plotted and resumed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import sim
from sim.experiments.experiment import Progress
from sim.llm import Access
from tests.helpers import command

EVIL = "<script>alert(1)</script>"
DICE = """
name: dice
until: 1h
agents:
  - name: player
    state: {sides: 6, total: 0, note: none}
    loop: {min_loop_delay: 10m}
    rules: [{do: noop, set: {total: "=total + randint(1, sides)"}, record: {thrown: "=total"}}]
metrics: {every: 10m, values: {total: "total('player', 'total')", sides: "total('player', 'sides')"}}
"""
SIDES = "agents.player.state.sides"


@pytest.fixture(autouse=True)
def dice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in the current folder."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "dice.yaml"
    file.write_text(DICE)
    return file


def test_a_sweep_is_that_of_the_command_line() -> None:
    """The same values and seeds are the same plan, with the same hash of each run."""
    made = sim.sweep("dice.yaml", vary={SIDES: [4, 6]}, seeds=3, jobs=1, out="one")
    assert command("sweep", "dice.yaml", "--vary", f"{SIDES}=4,6", "--seeds", 3, "--to", "two")[0] == 0

    other = sim.Experiment.open("two")
    assert made.complete
    assert other.complete
    assert other.plan.id == made.plan.id
    assert made.frame()["hash"].tolist() == other.frame()["hash"].tolist()
    assert repr(made).replace("one", "two") == repr(other)
    assert made.page.exists()


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_frames_have_numbers(library: Any) -> None:
    """A table has a row for each trial, or each estimate; varied values that are numbers are numbers in it."""
    made = sim.sweep("dice.yaml", vary={SIDES: "4..8:3"}, seeds=2, jobs=1)
    trials, estimates = made.frame(as_=library), made.frame("estimates", as_=library)
    assert trials.shape[0] == 6
    assert estimates.shape[0] == 9
    sides = trials["state.sides"] if library != "arrow" else trials["state.sides"].to_pylist()
    assert list(sides) == [4, 4, 6, 6, 8, 8]
    assert made.frame("differences", as_=library).shape[0] == 0
    with pytest.raises(sim.UsageError, match="no table 'trails'") as refused:
        made.frame("trails")  # type: ignore[arg-type] # the test is about wrong calls
    assert refused.value.hint == "did you mean 'trials'?"


def test_texts_are_harmless() -> None:
    """No text of a scenario becomes markup."""
    made = sim.sweep("dice.yaml", vary={"agents.player.state.note": [EVIL, "none"]}, seeds=1, jobs=1)
    html = made._repr_html_()
    assert "<script" not in html + made.plot("total").svg
    assert "&lt;script" in html


GREEDY = """
from collections.abc import Mapping
import sim

class Greedy(sim.Agent):
    class Params:
        prices: Mapping[str, int] = {}

    async def decide_action(self):
        self.params.prices["a"] += 1
        self.world.observe(self.agent_id, "price", float(self.params.prices["a"]))
"""


def test_trials_share_nothing_that_an_agent_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that changes a mapping in its params changes it for no other agent, and for no other trial."""
    Path("greedy.py").write_text(GREEDY)
    agents = "[{name: g, count: 2, kind: 'greedy:Greedy', params: {prices: {a: 0}}, loop: {min_loop_delay: 1s}}]"
    Path("g.yaml").write_text(f"name: g\nuntil: 1s\nagents: {agents}\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    made = sim.sweep("g.yaml", seeds=3, jobs=1, allow=("greedy",))
    assert set(made.frame()["mean_price"].tolist()) == {1.0}
    scenario = sim.load("g.yaml", allow=("greedy",))
    assert len({sim.run(scenario, seed=1, allow=("greedy",)).hash for _ in range(2)}) == 1


def test_a_sweep_that_ends_early_goes_on(tmp_path: Path) -> None:
    """What was done when a call ended is kept; `resume` runs the rest, and the results are those of a whole sweep."""

    def stop(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        sim.sweep("dice.yaml", vary={SIDES: [4, 6]}, seeds=3, jobs=1, out="part", progress=stop)
    assert stopped.value.__notes__ == ["sim.Experiment.open('part').resume() continues"]
    part = sim.Experiment.open("part")
    assert not part.complete
    assert "not complete" in repr(part)
    assert len(part.frame()) == 3

    seen: list[int] = []
    whole = part.resume(jobs=1, progress=lambda progress: seen.append(progress.done))
    assert seen == [4, 5, 6]
    assert whole.complete
    once = sim.sweep("dice.yaml", vary={SIDES: [4, 6]}, seeds=3, jobs=1, out="once")
    assert whole.frame()["hash"].tolist() == once.frame()["hash"].tolist()


def test_arms_differ_from_their_baseline() -> None:
    """Arms are compared seed by seed; one that changes nothing has no difference and reaches nobody."""
    run = sim.run("dice.yaml", out="runs")
    made = sim.arms(run, at="30m", arms={"many": {SIDES: 1000}, "same": {}, "text": [f"{SIDES}=1000"]}, seeds=2, jobs=1)
    rows = {(one.arm, one.outcome): one.difference.mean for one in made.differences}
    assert rows["many", "total"] == rows["text", "total"] > 0
    assert rows["same", "total"] == 0
    assert [(arm.arm, [one.agent for one in arm.agents]) for arm in made.reach] == [
        ("many", ["player"]), ("same", []), ("text", ["player"]),
    ]  # fmt: skip
    assert made.frame("reached")["agent"].tolist() == ["player", "player"]
    assert made.frame("differences")["changed"].max() == 2
    assert "differences from the baseline, seed by seed" in repr(made)
    for chart in (made.plot("total"), made.plot_differences("total"), made.plot_reach()):
        assert chart.svg.startswith("<svg")
        assert "var(" not in chart.svg


def test_plots_are_of_an_outcome_over_a_key() -> None:
    """A chart is over the first key with numbers, or over the one that is named; what is not there is refused."""
    made = sim.sweep("dice.yaml", vary={SIDES: [4, 6], "agents.player.count": [1, 2]}, seeds=2, jobs=1)
    assert made.plot("total").label == "total over state.sides"
    assert made.plot("total", over="player.count").label == made.plot("total", over="count").label
    with pytest.raises(sim.UsageError, match="there is no outcome 'totl'") as refused:
        made.plot("totl")
    assert refused.value.hint == "did you mean 'total'?"
    with pytest.raises(sim.UsageError, match="there is no chart over 'x'"):
        made.plot("total", over="x")
    with pytest.raises(sim.UsageError, match="there are no differences"):
        made.plot_differences()
    with pytest.raises(sim.UsageError, match="a sweep has no arms"):
        made.plot_reach()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": 3}, "there is no option 'seed'"),
        ({"seeds": 0}, "at least 1, not 0"),
        ({"jobs": 0}, "1 to 1000 processes, not 0"),
        ({"answers": "none"}, "seed, all or fresh, not 'none'"),
        ({"until_precision": 5}, "is no share of a mean"),
        ({"vary": {SIDES: 5}}, "is varied by 5"),
        ({"vary": {"agents.plyer.count": [1]}}, "plyer"),
        ({"access": Access(("openai:x",))}, "key"),
    ],
)
def test_wrong_calls_change_nothing(options: dict[str, Any], said: str) -> None:
    """A wrong argument is refused before anything is written."""
    with pytest.raises(sim.SimError, match=said):
        sim.sweep("dice.yaml", **options)
    assert not Path("experiments").exists()


class Lucky(sim.Agent):
    """Throws a six each time."""

    thrown = 6

    async def decide_action(self) -> sim.Action:
        """Note the throw."""
        self.state["total"] = self.state.get("total", 0) + self.thrown
        return sim.Action("noop")


def test_classes_of_the_program_itself_run_in_this_process() -> None:
    """A class that other processes cannot import can be an agent; its trials run one after the other."""

    class Unlucky(Lucky):
        """Throws a one each time."""

        thrown = 1

    text = "name: luck\nuntil: 1h\nagents: [{name: player, kind: KIND, loop: {min_loop_delay: 10m}}]\n"
    text += "metrics: {every: 10m, values: {total: \"total('player', 'total')\"}}\n"
    for kind in (Lucky, Unlucky):
        Path("luck.yaml").write_text(text.replace("KIND", kind.__name__))
        made = sim.sweep("luck.yaml", seeds=2, kinds={kind.__name__: kind}, out=kind.__name__)
        assert not made.problems
        assert made.estimates[0].outcomes["total"].mean == (36 if kind is Lucky else 6)


@pytest.mark.anyio
async def test_a_loop_goes_on_beside_a_sweep() -> None:
    """While `sweep_async` works, other tasks go on; if it is cancelled, what is done is kept."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            made = await sim.sweep_async("dice.yaml", seeds=2, jobs=1, out="done")
            group.cancel_scope.cancel()
    assert made.complete
    assert turns > 0
    assert sim.sweep("dice.yaml", seeds=3, jobs=1, out="later").complete  # it has not been cancelled

    def stop(progress: Progress) -> None:
        anyio.from_thread.run_sync(scope.cancel)

    with anyio.CancelScope() as scope:
        await sim.sweep_async("dice.yaml", seeds=5, jobs=1, out="cut", progress=stop)
    assert scope.cancelled_caught
    cut = sim.Experiment.open("cut")
    assert not cut.complete
    assert 0 < cut.estimates[0].seeds < 5


SCRIPT = """
import sim

print(sim.sweep("dice.yaml", seeds=2, jobs=2, out="made").complete)
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(dice: Path) -> None:
    """A script that calls `sweep` at its top level is not run again by the processes that it starts."""
    (dice.parent / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout, done.stderr) == ("True\n", "")
