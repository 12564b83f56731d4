"""A type checker finds wrong calls of the public functions, and accepts right ones.

The idea is that of `test_type_errors` of Temporal's Python SDK: a comment states the error that mypy must report for
the line below, and mypy must report no other.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CALLS = '''
from pathlib import Path

import sim

result: sim.RunResult = sim.run("a.yaml", seed=3, mode="tick", out="runs", progress=True)
sim.run(Path("a.yaml"), out=Path("runs"), progress=lambda runner: print(runner.until), max_wall="10m")
sim.run(sim.load("a.yaml", ["seed=3"]), backend="trio", overrides=["seed=3"])
# error: Unexpected keyword argument "seeed".*did you mean "seed"
sim.run("a.yaml", seeed=3)
# error: Argument "seed" .*has incompatible type "str"
sim.run("a.yaml", seed="3")
# error: Argument "mode" .*has incompatible type
sim.run("a.yaml", mode="ticks")
# error: Argument 1 .*has incompatible type "int"
sim.run(3)
# error: "RunResult" has no attribute "hsh"
result.hsh

replayed: sim.ReplayResult = sim.replay(result, backend="trio", progress=True)
resumed: sim.RunResult = sim.resume("runs/a", effects={17: "retry"}, allow_change=True)
branched: sim.RunResult = sim.branch(Path("runs/a"), at="1h", seed=2, overrides=["stop=null"])
sim.branch(result, without=[169], replace={170: {"ill": False}})
# error: Argument "without" .*has incompatible type "str"
sim.branch(result, without="169")
# error: Unexpected keyword argument "allow_chnage"
sim.replay(result, allow_chnage=True)
# error: Argument "effects" .*has incompatible type
sim.resume(result, effects=["retry"])


async def program() -> None:
    """Use the async forms."""
    one: sim.RunResult = await sim.run_async("a.yaml", seed=3)
    two: sim.RunResult = await sim.branch_async(one, at=3600, seed=2)
    three: sim.ReplayResult = await sim.replay_async(two)
    four: sim.RunResult = await sim.resume_async(two, undecided=True)
    # error: Argument "replace" .*has incompatible type
    await sim.branch_async(one, replace=[170])
    # error: Unexpected keyword argument "seeed"
    await sim.run_async("a.yaml", seeed=3)
    # error: Incompatible types in "await"
    await sim.run("a.yaml")
    print(three.same, four.hash)


with sim.open("a") as run:
    chart: sim.Chart = run.plot("S", "I")
    path: Path = chart.save("a.svg")
    story: list[str] = list(run.agent("ann").story())
    agents: list[str] = list(run.agents)
    run.frame("actions", as_="polars", expand=["data"], where="kind = ?", parameters=["send"])
    # error: Argument "as_" .*has incompatible type
    run.frame("actions", as_="excel")
    # error: Argument "expand" .*has incompatible type "int"
    run.sql("select 1", expand=3)
    # error: Argument 1 to "plot" .* has incompatible type "list\\[str\\]"
    run.plot(["S"])
    # error: "AgentRecord" has no attribute "prompt"
    run.agent("ann").prompt()
found: sim.Comparison = sim.diff(result, "a~1", limit=None)
infos: sim.RunList = sim.runs("runs")
sim.open(infos[0], out=Path("runs"), verify=False)
# error: Argument 1 to "open" has incompatible type "int"
sim.open(3)
# error: Argument "limit" .*has incompatible type "str"
sim.diff(result, result, limit="all")
found_by: sim.Experiment = sim.sweep("a.yaml", vary={"a.b": [1, 2], "a.c": "0..1:5"}, seeds=3, until_precision="5%")
compared: sim.Experiment = sim.arms(result, at="1h", arms={"low": {"a.b": 1}, "high": ["a.b=2"]}, record=True)
image: sim.Chart = compared.resume(again=True, jobs=2).plot_differences("S")
found_by.frame("trials", as_="polars")
# error: Argument 1 to "frame" .*has incompatible type
found_by.frame("trails")
# error: Unexpected keyword argument "seed"
sim.sweep("a.yaml", seed=3)
# error: Missing named argument "at"
sim.arms(result, arms={})
# error: Unexpected keyword argument "seeds"
found_by.resume(seeds=3)
survey: sim.Survey = sim.ask(result, ["Why?", sim.Question("How?", scale=(1, 7))], at="1h", agents=["ann"])
scores: sim.Scores = sim.score([result, "runs/a"], measures=Path("m.yaml"), names=["civility"])
values: list[float | None] = [score.value for score in scores]
# error: Argument 2 .*has incompatible type "int"
sim.ask(result, 3)
# error: Module has no attribute "opn"
sim.opn("a")
'''


@pytest.mark.proof
def test_mypy_reports_wrong_calls_and_accepts_right_ones(tmp_path):
    """Each line below a comment has the error that the comment states; no other line has one."""
    lines = CALLS.splitlines()
    expected = {number + 1: line.strip()[9:] for number, line in enumerate(lines, 1) if line.strip()[:9] == "# error: "}
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    found = {int(line): text for line, text in re.findall(r"calls\.py:(\d+): error: (.*)", done.stdout)}
    assert len(expected) > 15
    assert found.keys() == expected.keys(), done.stdout + done.stderr
    assert [found[number] for number, text in expected.items() if not re.search(text, found[number])] == []
