"""Effects in doubt at the command line: `sim resume` and `sim branch` list them, and do nothing before a decision."""

import json
from pathlib import Path

import pytest

PAYER = """
import os
from sim import Agent, Effect, perform

class Payer(Agent):
    async def decide_action(self):
        await perform(Effect("pay", {"to": self.agent_id}, self._pay, latency_ns=10**9, safety="unsafe"))

    def _pay(self, request, key):
        if "CRASH" in os.environ:
            os._exit(9)
"""
SCENARIO = """
name: pay
seed: 1
until: 4s
agents: [{name: p, kind: "payer_in_doubt:Payer", count: 2, loop: {min_loop_delay: 5s}}]
"""


@pytest.fixture
def crashed(tmp_path, monkeypatch, start):
    """The folder of a run that died while two agents were about to pay."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("payer_in_doubt.py").write_text(PAYER)
    Path("pay.yaml").write_text(SCENARIO)
    process = start("run", "pay.yaml", "--allow", "payer_in_doubt", CRASH="1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 9, err
    (folder,) = Path("runs").iterdir()
    return folder


@pytest.mark.slow
def test_resume_lists_what_is_in_doubt_and_waits(sim, crashed):
    """`sim resume` exits with 1, lists each effect and says what to add; with that it goes on to the end."""
    command = ("resume", crashed, "--allow", "payer_in_doubt")
    waits = sim(*command)
    assert (waits.code, waits.out) == (1, "")
    assert waits.err.splitlines() == [
        "sim: 2 effects are in doubt: started, but without a recorded outcome",
        '  1: pay of p-1 at 0s: {"to":"p-1"}',
        '  2: pay of p-2 at 0s: {"to":"p-2"}',
        "sim: nothing was changed: decide on all of these effects first (retry, done, done:JSON or failed)",
        "hint: add --effect 1=retry --effect 2=retry to the command",
    ]
    waits = sim(*command, "--effect", "2=done:5", "--json")
    result = json.loads(waits.out)
    assert (waits.code, result["status"], [doubt["id"] for doubt in result["doubts"]]) == (1, "interrupted", [1])
    done = sim(*command, "--effect", "2=done:5", "--effect", "1=retry", "--json")
    assert (done.code, json.loads(done.out)["doubts"]) == (0, []), done.err


@pytest.mark.slow
def test_branch_waits_without_leaving_a_run(sim, crashed):
    """`sim branch` asks too, and there is no run until all is decided."""
    assert sim("resume", crashed, "--allow", "payer_in_doubt", "--undecided", "-q").code == 0
    command = ("branch", crashed, "--at", "0.5s", "--allow", "payer_in_doubt")
    waits = sim(*command, "--json")
    result = json.loads(waits.out)
    assert (waits.code, result["run"], len(result["doubts"]), len([*Path("runs").iterdir()])) == (1, None, 2, 1)
    done = sim(*command, "--effect", "1=retry", "--effect", "2=failed", "--json")
    assert (done.code, json.loads(done.out)["status"], len([*Path("runs").iterdir()])) == (0, "finished", 2), done.err


@pytest.mark.slow
def test_undecided_goes_on_and_warns(sim, crashed):
    """With `--undecided` the run continues, and a warning says how many effects were not resolved."""
    done = sim("resume", crashed, "--allow", "payer_in_doubt", "--undecided")
    assert done.code == 0
    assert "sim: warning: 2 in-doubt effects were not resolved; the run continued without them" in done.err
