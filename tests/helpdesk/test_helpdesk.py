"""The scenario `helpdesk`: what it shows, and that it is the same in every way of running it."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.agents.conversation import Conversations
from sim.record import open_run
from sim.runner import RunController
from sim.runner.options import Backend
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, fitting

ROOT = Path(__file__).parents[2]
FILE = ROOT / "scenarios" / "helpdesk.yaml"
KILLS = 50
MODES = ("autonomous", "tick")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the command as a process of its own; it is killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*args: object, **environment: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "sim", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def done(process: "subprocess.Popen[str]", code: int = 0) -> dict[str, Any]:
    """Return the JSON that a command printed."""
    out, err = process.communicate(timeout=100)
    assert process.returncode == code, err
    result: dict[str, Any] = json.loads(out)
    return result


def called(*args: object) -> dict[str, Any]:
    """Return the JSON that a command prints that is called inside this process."""
    code, out, err = command(*args, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "until"),
    [("autonomous", "1d"), ("tick", "1d"), *(pytest.param(m, "5d", marks=pytest.mark.proof) for m in MODES)],
)
def test_it_is_the_same_on_backends_hash_seeds_and_processes(start: Start, mode: str, until: str) -> None:
    """This process and another, with other backends and other hash seeds, give the same hash."""
    what = ("run", FILE, "--no-record", "--json", "--mode", mode, "--until", until)
    other = start(*what, "--backend", "trio", PYTHONHASHSEED="271828")
    assert called(*what)["hash"] == done(other)["hash"]


@pytest.mark.slow
def test_it_shows_what_its_first_lines_say(tmp_path: Path) -> None:
    """Large refunds wait for the supervisor, also over the weekend; small ones do not; every question is answered."""
    kept: list[RunController] = []
    result = sim.run(FILE, out=tmp_path, begun=kept.append)
    world = kept[0].simulation.world
    with open_run(Path(result.run or "")) as stored:
        gates = stored.query("SELECT status, json_extract(arguments, '$.amount'), time, decided FROM gates")
        paid = stored.query("SELECT json_extract(arguments, '$.amount') FROM actions WHERE kind = 'transfer'")
        posts = [row[0] for row in stored.query("SELECT time FROM actions WHERE kind = 'post_message'")]
        stored.verify()
    assert {status for status, *_ in gates} == {"used", "denied", "cancelled"}  # by the end of the run
    assert all(amount > 50 for _, amount, *_ in gates)
    assert {amount for status, amount, *_ in gates if status == "used"} == {180}
    assert {amount for (amount,) in paid} == {45, 180}
    assert world.calendar is not None
    judged = [(asked, decided) for status, _, asked, decided in gates if status != "cancelled"]
    for _, decided in judged:
        civil = world.calendar.at(round(decided * 1e9))
        assert civil.weekday() < 5
        assert 9 <= civil.hour < 17
    assert max(decided - asked for asked, decided in judged) > 48 * 3600
    by_day = sum(8 <= world.calendar.at(round(at * 1e9)).hour < 20 for at in posts)
    assert by_day > 0.8 * len(posts)
    late = result.sim_seconds - 86_400  # what waits for the supervisor on the last day is not answered before the end
    assert all(one.last_active_ns > late * 1e9 for one in Conversations.of(world).waiting())
    assert result.services["memories"]["added"] == len(paid)
    assert result.wall_seconds < 20


@pytest.mark.slow
def test_a_replay_is_exact(tmp_path: Path) -> None:
    """Every event of the replay equals the record."""
    result = sim.run(FILE, out=tmp_path)
    again = sim.replay(result.run or "")
    assert (again.same, again.complete, again.hash) == (True, True, result.hash)


def _killed(start: Start, folder: Path, reference: str, rng: random.Random, kills: int, *options: str) -> int:
    """Kill runs at random moments, resume each, and count those that were killed while they went on."""
    hit = 0
    for number in range(kills):
        out = folder / f"runs-{number}"
        process = start("run", FILE, "--out", out, "--json", *options)
        deadline = time.monotonic() + 60
        while not any(out.glob("helpdesk-*/run.db")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.8)
        process.kill()
        process.communicate()
        (run,) = out.glob("helpdesk-*")
        with open_run(run, verify=False) as stored:
            if stored.info.status == "finished":
                assert stored.info.hash == reference
                continue
        hit += 1
        assert called("resume", run, "--out", out)["hash"] == reference
    return hit


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_hash(start: Start, tmp_path: Path) -> None:
    """Killed at a random moment; the proof does it fifty times."""
    reference = sim.run(FILE).hash
    _killed(start, tmp_path, reference, random.Random(1), 1)


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_fifty_kills(start: Start, tmp_path: Path, backend: str) -> None:
    """Killed at fifty random moments on both backends together, every run comes to the same end."""
    reference = sim.run(FILE).hash
    hit = _killed(start, tmp_path, reference, random.Random(backend), KILLS // 2, "--backend", backend)
    assert hit > 5


def serve(seen: Seen) -> Reply:
    """Answer as a model that looks the order up, and then says what it found."""
    last = seen.body["messages"][-1]
    assert {tool["function"]["name"] for tool in seen.body["tools"]} >= {"orders__lookup", "world__transfer"}
    if last["role"] == "tool":
        return fitting(seen, "It is " + json.loads(last["content"])["observation"]["state"] + ".")
    order = last["content"].rpartition(" ")[2].strip("?")
    return fitting(seen, "", calls=[("orders__lookup", json.dumps({"id": order}))])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.proof)])
def test_it_runs_unchanged_at_a_real_endpoint(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --model and --base-url alone, real requests over a loopback socket answer; a replay makes none."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-key")
    with Endpoint(serve) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/v1"
        model = ("--model", "openai:served", "--base-url", url)
        result = called("run", FILE, "--until", "12h", *model, "--out", tmp_path, "--backend", backend)
        asked = len(endpoint.seen)
        assert asked >= 4
        assert result["services"]["tools"]["calls"]["orders.lookup"] * 2 == asked
        assert called("replay", result["run"], "--out", tmp_path)["same"]
        assert len(endpoint.seen) == asked


def _wait_for(stored: Callable[[], list[Any]], process: "subprocess.Popen[str]") -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        found = stored()
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.proof
def test_people_take_part_from_another_terminal(start: Start, tmp_path: Path) -> None:
    """`sim approve` lets a refund go on that waits for a real person, and `sim tell` leaves a note to an assistant."""
    running = start(
        "run", FILE, "--out", tmp_path, "--json", "--until", "6h", "--clock", "wall", "--speed", "2000",
        "--set", "approvals.person=real",
    )  # fmt: skip

    def gates() -> list[Any]:
        (folder,) = tmp_path.glob("helpdesk-*") if any(tmp_path.glob("helpdesk-*/run.db")) else (None,)
        if folder is None:
            return []
        with open_run(folder, verify=False) as stored:
            return stored.query("SELECT gate FROM gates WHERE status = 'pending' ORDER BY id")

    (gate,) = _wait_for(gates, running)
    told = called("tell", "helpdesk", "helper-3", "be kind today", "--out", tmp_path)
    approved = called("approve", "helpdesk", gate, "--note", "fine", "--out", tmp_path)
    assert told["outcome"] == approved["outcome"] == "done"
    stopped = called("stop", "helpdesk", "--out", tmp_path)
    assert stopped["outcome"] == "done"
    result = done(running)
    with open_run(Path(result["run"])) as stored:
        rows = stored.query("SELECT status, note FROM gates WHERE gate = ?", (gate,))
        notes = stored.query("SELECT arguments FROM actions WHERE kind = 'remember' AND agent = 'helper-3'")
    assert rows == [("used", "fine")]
    assert any("person said: be kind today" in text for (text,) in notes)
    assert called("replay", result["run"], "--out", tmp_path)["same"]
