"""A run that a person plays: its steps, its server, and that its record is an ordinary one."""

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.inspect.play.site import Windows
from sim.record import open_run
from sim.runner.options import RunOptions
from tests.llm.test_people import TALK

WALKERS = """
name: walkers
until: 100s
seed: 4
execution: {tick: {period: 10s}}
agents:
  - name: walker
    count: 3
    state: {eager: 0.5}
    loop: {min_loop_delay: 1s}
    rules:
      - {name: shouts, when: chance(eager), do: {publish: {topic: shout, data: {at: "=now"}}}}
      - {name: rests, do: {sleep: {for: 3s}}}
metrics: {every: 5s, values: {shouting: "count('walker')"}}
"""


def eventually(condition):
    """Wait until a condition holds."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came about")


@pytest.fixture
def walkers(tmp_path):
    """A scenario file."""
    file = tmp_path / "walkers.yaml"
    file.write_text(WALKERS, encoding="utf-8")
    return file


@pytest.fixture
def player(walkers, tmp_path):
    """A player of it."""
    made = ScenarioPlayer(walkers, RunOptions(out=tmp_path / "runs"))
    yield made
    made.close()


def still(player):
    """Wait until the run is held or over, and return its state."""
    eventually(lambda: not player.going)
    return player.state()


def test_a_played_run_is_that_of_the_command(player, walkers):
    """However a run is stepped, paced and paused, its hash is that of a run that nobody touched, and it replays."""
    for kind in ("event", "tick", "agent", "event"):
        player.step(kind, "walker-2" if kind == "agent" else "")
        still(player)
    player.pace(1000.0)
    player.go()
    player.hold()
    player.pace(None)
    player.go()
    eventually(lambda: player.state()["phase"] == "ended")
    assert player.state()["note"].startswith("finished")
    with open_run(player.folder) as stored:
        assert stored.info.hash == sim.run(walkers).hash
    assert sim.replay(player.folder).same


def test_a_step_ends_where_it_says(player):
    """A step goes to the next event, to the end of the next tick, or to what an agent does next, and holds there."""
    assert player.state()["now"] == 0
    assert player.state()["phase"] == "ready"
    player.step("event")
    assert still(player)["now"] > 0
    player.step("tick")
    assert still(player)["now"] <= 10
    player.step("tick")
    assert 10 < still(player)["now"] <= 20
    loop = player._played.runner.simulation.manager.get_loop("walker-3")
    before = loop.iteration_count
    player.step("agent", "walker-3")
    still(player)
    assert loop.iteration_count == before + 1
    with pytest.raises(UsageError, match="there is no agent 'nobody'"):
        player.step("agent", "nobody")
    with pytest.raises(UsageError, match="a step goes to the next event, tick or agent"):
        player.step("year")


def test_the_pace_holds_simulated_time_back(player):
    """With a speed, simulated time follows real time; what passes while the run is paused never becomes simulated."""
    player.pace(0.001)
    player.go()
    eventually(lambda: player.going)
    time.sleep(0.2)
    player.hold()
    assert still(player)["now"] < 1
    with pytest.raises(UsageError, match="simulated seconds per real second"):
        player.pace(-1.0)


def test_one_run_after_the_other(player, tmp_path):
    """`again` sets up the next seed and `setup` the same; a run that never started is removed, and the page says so."""
    first = player.folder
    player.again()
    assert (player.seed, first.exists()) == (5, False)
    assert player.state()["note"] == f"removed {first.name}: it was set up and never started"
    player.step("event")
    still(player)
    second = player.folder
    player.stop()
    assert player.state()["phase"] == "ended"
    assert "sim resume" in player.state()["note"]
    with pytest.raises(UsageError, match="the run is over"):
        player.go()
    player.setup()
    assert (player.seed, second.exists(), player.folder != second) == (5, True, True)
    with pytest.raises(UsageError, match="a seed is a whole number"):
        player.setup(-1)
    assert sim.resume(second).status == "finished"
    player.close()
    assert [file.name for file in (tmp_path / "runs").iterdir()] == [second.name]
    assert (player.kept, player.removed[0], len(player.removed)) == ([second], first.name, 2)


CONTROLS = """
controls:
  eager: {key: agents.walker.state.eager, range: [0, 1], label: eagerness}
  walkers: {key: agents.walker.count, range: [1, 9]}
"""


@pytest.fixture
def controlled(tmp_path):
    """A player of a scenario with controls."""
    file = tmp_path / "walkers.yaml"
    file.write_text(WALKERS + CONTROLS, encoding="utf-8")
    made = ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))
    yield made
    made.close()


def knobs(player):
    """Return the controls as a page has them: value, and what this run has."""
    return {one["name"]: (one["value"], one["used"]) for one in player.state()["controls"]}


def ended(player):
    """Let the run go on to its end, and return its result."""
    player.go()
    eventually(lambda: player.state()["phase"] == "ended")
    return player._played.result


def test_a_live_control_is_an_input_and_others_count_from_the_next_setup(controlled):
    """A live control changes the run at once, on record; another one waits for the setup, and both stay chosen."""
    player = controlled
    player.step("tick")
    still(player)
    player.set("eager", 1)
    player.set("walkers", 5)
    eventually(lambda: player.state()["hand"][0]["time"] is not None)
    assert knobs(player) == {"eager": (1.0, 1.0), "walkers": (5, 3)}
    with pytest.raises(UsageError, match="eager is a number from 0 to 1"):
        player.set("eager", 7)
    with pytest.raises(UsageError, match="there is no control 'lazy'"):
        player.set("lazy", 1)
    assert ended(player).agents == 3
    assert sim.replay(player.folder).same
    with open_run(player.folder) as stored:
        assert [kind for (kind,) in stored.query("SELECT kind FROM arrivals WHERE effect IS NULL")] == ["parameters"]
    player.setup()
    assert knobs(player) == {"eager": (1.0, 1.0), "walkers": (5, 5)}
    assert player.state()["hand"] == []
    assert ended(player).agents == 5


@pytest.mark.slow
def test_what_was_done_by_hand_is_a_new_file(controlled, tmp_path):
    """One request writes values and changes as a file whose run has the same metrics, states and events of agents."""
    player = controlled
    player.set("walkers", 4)
    player.setup()
    player.step("tick")
    still(player)
    player.set("eager", 0.0)
    player.say("walker-1", "hello")
    eventually(lambda: all(one["time"] is not None for one in player.state()["hand"]))
    with pytest.raises(UsageError, match="there is no agent"):
        player.say("nobody", "hello")
    with pytest.raises(UsageError, match="needs a name such as walkers-by-hand"):
        player.write("../x.yaml")
    result = ended(player)
    assert player.write("mine.yaml").startswith(f"wrote {tmp_path / 'mine.yaml'}; run it with: sim run")
    with pytest.raises(UsageError, match="exists"):
        player.write("mine.yaml")
    again = sim.run(tmp_path / "mine.yaml", seed=player.seed)
    assert (again.agents, again.metrics, again.kinds, again.iterations) == (
        result.agents, result.metrics, result.kinds, result.iterations,
    )  # fmt: skip
    assert result.kinds != sim.run(tmp_path / "walkers.yaml", seed=player.seed).kinds


def ask(url, what, *, origin=None, kind="application/json", method="POST"):
    """Ask the server for something, as its page does; return the status and the answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    headers = {"Origin": origin or f"http://{parts.netloc}", "Content-Type": kind}
    try:
        body = what.encode(errors="surrogatepass") if isinstance(what, str) else json.dumps(what)
        connection.request(method, parts.path + "do", body, headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        return answer.status, json.loads(body) if answer.status == 200 else body
    finally:
        connection.close()


def news(url, version=-1, run="", window="w"):
    """Ask what is new, as a window of the page does."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        connection.request("GET", f"{parts.path}news?version=0&live={version}&run={run}&window={window}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


@pytest.mark.slow
def test_only_the_page_can_ask_for_something(player):
    """A request from another site, of another kind, too large, or that is none of the page, changes nothing."""
    with PlayServer(player) as server:
        assert ask(server.url, {"do": "go"}, origin="http://evil.example")[0] == 403
        assert ask(server.url, {"do": "go"}, kind="text/plain")[0] == 415
        assert ask(server.url, {"do": "go"}, method="GET")[0] == 405
        assert ask(server.url, "x" * 70_000)[0] == 413
        assert ask(server.url.replace(urlsplit(server.url).path, "/guess/"), {"do": "go"})[0] == 403
        for wrong in (
            "nonsense", "[]", {"do": "close"}, {"do": "__class__"}, {}, {"do": "step"}, {"do": "pace"},
            {"do": "step", "kind": "year"}, {"do": "go", "more": 1}, {"do": "pace", "speed": "fast"}, "\ud800",
        ):  # fmt: skip
            assert ask(server.url, wrong)[0] == 400, wrong
        assert ask(server.url, {"do": "step", "kind": "agent", "agent": "x"})[1]["error"] == "there is no agent 'x'"
        assert player.state()["phase"] == "ready"
        assert ask(server.url, {"do": "step", "kind": "event"}) == (200, {"said": ""})
        assert still(player)["phase"] == "paused"


@pytest.mark.slow
def test_no_part_of_the_page_is_there_without_its_secret_or_for_another_host(player):
    """Each path is refused without the secret of the address, and for a host name that is not this machine's."""
    with PlayServer(player) as server:
        parts = urlsplit(server.url)
        own = parts.netloc
        for path in ("", "news", "do", "overview", "block/0"):
            for where, host in ((f"/guess/{path}", own), (f"/{path}", own), (parts.path + path, "evil.example")):
                connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
                connection.request("GET", where, headers={"Host": host})
                assert connection.getresponse().status == 403, (where, host)
                connection.close()


@pytest.mark.slow
def test_windows_agree_and_a_closed_one_leaves_the_run_paused(player):
    """All windows have the same state; when the last one is closed while the run is under way, the run is paused."""
    with PlayServer(player) as server:
        player.pace(0.001)
        run = player.folder.name
        eventually(lambda: news(server.url, run=run)["live"]["speed"] == 0.001)
        states = [news(server.url, run=run, window=name)["live"] for name in ("one", "two")]
        assert states[0] == states[1]
        ask(server.url, {"do": "go"})
        eventually(lambda: news(server.url, run=run)["live"]["phase"] == "going")
        for name in ("one", "two"):
            ask(server.url, {"do": "leave", "window": name})
        time.sleep(1.5)
        news(server.url, run=run)
        assert player.going  # the third one is open
        ask(server.url, {"do": "leave", "window": "w"})
        assert still(player)["note"] == "paused: the last window was closed"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the variables of a process are read in /proc")
def test_the_process_of_the_page_gets_no_key(player, monkeypatch):
    """The process that serves the page has no variable of the operator beside those with which Python starts."""
    monkeypatch.setenv("SOME_API_KEY", "sk-a-key-of-the-operator")
    with PlayServer(player) as server:
        given = Path(f"/proc/{server._page.pid}/environ").read_bytes()
    assert b"PATH=" in given
    assert b"sk-a-key" not in given


@pytest.mark.slow
def test_the_run_is_paused_if_the_process_of_the_page_ends(player):
    """Without the process that serves the page, the run is paused, and whoever waits for its end hears of it."""
    with PlayServer(player) as server:
        player.pace(0.001)
        player.go()
        os.kill(server._page.pid, signal.SIGTERM)
        with pytest.raises(RunError, match="the process that serves the page has ended"):
            server.wait()
        assert still(player)["note"] == "paused: the process that serves the page has ended"


@pytest.mark.slow
def test_a_fault_of_the_program_is_shown_and_logged(player, caplog):
    """A request that ends in an error of the program itself is answered and logged, and others are carried out."""
    with PlayServer(player) as server:
        kept, player.step = player.step, lambda *given: 1 / 0
        said = ask(server.url, {"do": "step", "kind": "event"})[1]["error"]
        assert said == "internal error, see the log of the program: ZeroDivisionError: division by zero"
        assert "ZeroDivisionError" in caplog.text
        player.step = kept
        assert ask(server.url, {"do": "step", "kind": "event"}) == (200, {"said": ""})


def test_a_question_is_open_when_the_run_is_resumed(tmp_path):
    """A run that is stopped while a person is asked says what happens then; resumed, it takes the answer."""
    file = tmp_path / "talk.yaml"
    file.write_text(TALK, encoding="utf-8")
    player = ScenarioPlayer(file, RunOptions(out=tmp_path / "runs"))
    player.answer_for("speaker", 3600)
    player.go()
    eventually(lambda: player.state()["people"]["waiting"])
    player.stop()
    assert player.state()["note"].endswith("calls wait there for `sim answer` until their time is over")
    folder = player.folder
    player.close()

    def begun(runner):
        def take_part():
            people, control = runner.simulation.models.people, sim.Control(runner.simulation.manager)
            eventually(lambda: "question-1" in people.questions)
            control.answer("question-1", "later")
            eventually(lambda: people.ended["answered"])
            control.answer_for("speaker", 0)

        threading.Thread(target=take_part, daemon=True).start()

    result = sim.resume(folder, begun=begun)
    assert result.models["people"]["answered"] == 1
    assert sim.replay(folder).same


def test_a_run_can_end_while_it_is_paused(player, monkeypatch):
    """A pause that meets the end of the run is no error, at whichever moment the run ends."""
    seen = itertools.chain([False], itertools.repeat(True))
    with monkeypatch.context() as patch:
        patch.setattr(type(player._played), "ended", property(lambda _: next(seen)))
        player.hold("paused")
    assert player.state()["note"] == "paused"
    player.go()
    eventually(lambda: player.state()["phase"] == "ended")
    player.hold("too late")
    assert player.state()["note"].startswith("finished")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whoever_waits_hears_that_no_request_is_carried_out_any_more(player):
    """If the thread that carries out requests ends by an error of the program, the page ends, and so does the wait."""
    with PlayServer(player) as server:
        player.step("event")
        still(player)
        player.pace(0.001)
        player.go()
        kept, player.hold = player.hold, lambda *given: 1 / 0
        news(server.url)
        ask(server.url, {"do": "leave", "window": "w"})
        with pytest.raises(RunError, match="the process that serves the page has ended"):
            server.wait()
        eventually(lambda: server._page._process.poll() is not None)
        player.hold = kept


@pytest.mark.slow
def test_a_state_that_cannot_be_sent_is_logged_and_the_next_is_sent(player, caplog):
    """An error of the program while the page is updated is in the log, and the page gets the next state."""
    with PlayServer(player) as server:
        kept, player.state = player.state, lambda: 1 / 0
        player.tell()
        eventually(lambda: "ZeroDivisionError" in caplog.text)
        player.state = kept
        player.tell()
        eventually(lambda: news(server.url)["live"]["version"] == player.version)


def test_a_window_that_says_nothing_is_closed():
    """A window is open while it waits for an answer, and for 3 seconds after it got one."""
    now = [100.0]
    windows = Windows(lambda: now[0])
    windows.asks("one")
    now[0] += 60
    assert windows.open == 1
    windows.answered("one")
    now[0] += 2.9
    assert windows.open == 1
    now[0] += 0.2
    assert windows.open == 0


def test_a_window_that_was_left_is_not_opened_by_its_last_answer():
    """A window that is left while it waits for an answer counts as closed a second later, also if the answer comes."""
    now = [100.0]
    windows = Windows(lambda: now[0])
    windows.asks("one")
    windows.answered("one")
    windows.asks("one")
    windows.leaves("one")
    now[0] += 0.9
    assert windows.open == 1
    windows.answered("one")
    now[0] += 0.2
    assert windows.open == 0


def test_a_window_is_told_at_most_30_times_a_second():
    """A window that asks again has to wait until a thirtieth of a second has passed since its last answer."""
    now = [100.0]
    windows = Windows(lambda: now[0])
    assert windows.asks("one") == 0
    windows.answered("one")
    now[0] += 0.01
    assert windows.asks("one") == pytest.approx(1 / 30 - 0.01)
    assert windows.asks("two") == 0


@pytest.mark.slow
def test_it_can_be_played_from_python(walkers, tmp_path):
    """`sim.play` returns at once, with the address of the page; the end of the block ends the run."""
    with sim.play(walkers, out=tmp_path / "runs", browser=False) as server:
        assert news(server.url)["live"]["phase"] == "ready"
        assert news(server.url, run=server.player.folder.name)["run"]["status"] == "running"
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_a_page_that_is_opened_later_has_all_so_far(player):
    """A page shows the run as far as it is when it is opened, and not as far as a window that was open before."""

    def end():
        parts = urlsplit(server.url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
        connection.request("GET", parts.path)
        page = connection.getresponse().read().decode()
        connection.close()
        found = re.search(r'<script[^>]*id="about"[^>]*>(.*?)</script>', page, re.DOTALL)
        assert found
        return json.loads(found[1])["end"]

    with PlayServer(player) as server:
        end()
        for _ in range(2):
            player.step("tick")
            now = still(player)["now"]
            eventually(lambda now=now: end() == now)
            assert end() == now


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it sends a signal")
def test_the_command_says_at_its_end_what_was_kept_and_removed(walkers, tmp_path):
    """Ctrl-C ends `sim play`; it names the runs that are kept, and those that were removed as they never started."""
    command = [sys.executable, "-m", "sim", "play", str(walkers), "--no-browser", "--out", str(tmp_path / "runs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        (first,) = (tmp_path / "runs").iterdir()
        assert ask(url, {"do": "step", "kind": "event"})[0] == 200
        assert ask(url, {"do": "again"})[0] == 200
        (second,) = [folder for folder in (tmp_path / "runs").iterdir() if folder != first]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    kept, removed = said.splitlines()[-2:]
    assert kept == f"sim: kept {first}"
    assert removed == f"sim: removed {second.name}: it was set up and never started"
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == [first.name]
