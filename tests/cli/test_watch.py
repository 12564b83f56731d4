import json
import signal
import time
from typing import Any

import pytest

from sim.cli.render.follower import Follower
from sim.record import RunHeader, RunRecorder, create_run
from sim.record.unfinished import UnfinishedAnswer, write_unfinished
from tests.helpers import wait_until_durable

TOWN = "name: town\nuntil: 10m\nagents: [{name: a}]\n"
WALL = """
name: slow
until: 1h
execution: {clock: wall}
agents: [{name: a, loop: {min_loop_delay: 0.05}, rules: [{do: {publish: {topic: step.made}}}]}]
"""


@pytest.fixture
def recorder(tmp_path):
    """A run that is being recorded."""
    header = RunHeader("town", 1, "autonomous", "asyncio")
    with RunRecorder(create_run(tmp_path / "runs", header, TOWN)) as recorder:
        yield recorder


def put(recorder, *events, at=1):
    """Record events (actor, topic, data) at a simulated second, and wait until a reader can see them."""
    for actor, topic, data in events:
        recorder.event((at * 10**9, 0, 0, 20, recorder.events, actor, topic, data, None))
    recorder.flush()
    wait_until_durable(recorder)


def state(before, after, reason=""):
    """Return a change of state of the one agent."""
    return ("a", "agent.state", {"from": before, "to": after, "reason": reason})


def test_a_follower_sees_what_comes_in(recorder):
    """Each look adds what has come into the file since the last one."""
    follower = Follower(recorder.folder)
    put(recorder, state("stopped", "starting"), state("starting", "running"))
    first, info = follower.look()
    put(recorder, state("running", "sleeping"), ("a", "action.sleep", {"arguments": {}, "success": True}), at=5)
    put(
        recorder,
        state("sleeping", "running"),
        ("a", "action.send", {"arguments": {}, "success": False, "error": "no"}),
        at=9,
    )
    second, _ = follower.look()

    assert (info.status, first.now, first.until, first.states["running"]) == ("running", 1.0, 600.0, 1)
    assert (first.figures["events"], second.figures["events"]) == (2, 6)
    assert (second.now, second.figures["actions"], second.figures["refused"], second.figures["wake-ups"]) == (
        9.0,
        1,
        1,
        1,
    )
    assert "action send refused: no" in second.newest[-1]


def test_a_follower_sees_answers_that_arrive(recorder):
    """What models are saying in the other process is shown while the run is under way, and not after its end."""
    write_unfinished(recorder.folder, [UnfinishedAnswer("a", "think", "is it\nnoon")])
    assert Follower(recorder.folder).look()[0].streams == ("a thinks is it noon",)
    put(recorder, state("stopped", "starting"))
    recorder.finish("finished", {}, 10**9, {})
    recorder.close()
    assert Follower(recorder.folder).look()[0].streams == ()


def test_a_follower_sees_the_end(recorder):
    """At the end the row of the run says so, and that all agents were stopped by it is not counted."""
    follower = Follower(recorder.folder)
    put(
        recorder, state("starting", "running"), state("running", "stopping", "end"), state("stopping", "stopped", "end")
    )
    recorder.finish("finished", {}, 600 * 10**9, {})
    look, info = follower.look()

    assert (info.status, look.status, look.now) == ("finished", "finished", 600.0)
    assert look.states["running"] == 1


def test_forged_events_break_no_follower(recorder):
    """Agents can publish under every topic: data that is not as it should be is passed over."""
    topics = ("agent.state", "action.x", "agent.error", "alert.x", "message.sent")
    forged: list[Any] = [None, 1, [], {"to": {}}, {"error": []}]
    put(recorder, *[("a", topic, data) for topic in topics for data in forged])

    look, _ = Follower(recorder.folder).look()
    assert look.figures["events"] == 25


def test_watch_of_a_run_that_has_ended(sim, tiny):
    """A run that has finished is shown as `sim show` does; one that was interrupted has not succeeded."""
    run = sim("run", tiny, "--quiet").out.strip()

    assert sim("watch", run).out == sim("show", run).out
    assert sim("watch", run).code == 0
    assert json.loads(sim("watch", run, "--json").out)["figures"]["events"] > 100
    assert sim("watch", "nothing").code == 2


def _folder(tmp_path):
    """Wait until a run has begun to record, and return its folder."""
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("runs/[!.]*/run.db-wal")) and time.monotonic() < deadline:
        time.sleep(0.02)
    (folder,) = tmp_path.glob("runs/[!.]*")
    return folder


@pytest.mark.slow
def test_watch_of_a_run_that_was_killed(sim, start, tmp_path):
    """A run whose process has gone is seen to be killed, and the exit code says that it did not succeed."""
    (tmp_path / "slow.yaml").write_text(WALL)
    running = start("run", "slow.yaml")
    folder = _folder(tmp_path)
    running.kill()
    running.wait()
    done = sim("watch", folder)

    assert done.code == 1
    assert "killed" in done.out


@pytest.mark.slow
def test_watch_follows_another_process(start, tmp_path):
    """A run of another process is followed to its end, here by Ctrl-C, in lines where there is no terminal."""
    (tmp_path / "slow.yaml").write_text(WALL)
    running = start("run", "slow.yaml")
    watching = start("watch", _folder(tmp_path), "--every", "0.1")
    assert watching.stderr is not None
    for line in watching.stderr:  # until there is something to be seen
        if "1 running" in line:
            break
    running.send_signal(signal.SIGINT)
    out, _ = watching.communicate(timeout=30)

    assert watching.returncode == 1
    assert "interrupted" in out
    assert "of 1h (" in line
