"""Every request of a person is applied exactly once, whatever happens to the processes of the run."""

import itertools
import json
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.record.inbox import InboxAnswer, InboxFile, ask, await_answer
from tests.inbox.helpers import DESK, Program, going_on, is_running, rows, wait_for

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it kills and stops processes by signals"),
    pytest.mark.timeout(600),
]


class Person(threading.Thread):
    """Tells `helper` one number after the other for as long as somebody listens, from a thread.

    Args:
        run: the run folder.
        pause: the longest pause between two requests, in seconds.
        seed: of the pauses.
    """

    def __init__(self, run: Path, pause: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.told: list[str] = []  # the keys of the requests, which are the texts too
        self.ended = threading.Event()
        self._run = run
        self._pause = pause
        self._random = random.Random(seed)
        self.start()

    def run(self) -> None:
        """Tell numbers until `ended`."""
        for number in itertools.count():
            if self.ended.wait(self._random.uniform(0, self._pause)):
                return
            try:
                self.told.append(ask(self._run, "tell", agent_id="helper", text=str(number), topic=""))
            except (UsageError, RunError):  # between two processes, nobody listens
                time.sleep(0.01)
                continue

    def wait(self) -> None:
        """Wait until one more thing was told."""
        before = len(self.told)
        wait_for(lambda: len(self.told) > before)

    def end(self) -> None:
        """Stop telling."""
        self.ended.set()
        self.join()


def _check(run: Path, told: list[str]) -> None:
    """Check that each request is on record once, became one message, and has an answer that says so."""
    kept = rows(run, "SELECT data ->> '$.row' FROM inputs WHERE data ->> '$.kind' = 'tell'")
    assert sorted(kept) == sorted(told)
    sent = rows(run, "SELECT data FROM messages")
    assert len(sent) == len(set(sent)) == len(told)
    with InboxFile(run) as inbox:
        answers = {key: inbox.answer_to(key) for key in told}
    times = dict(rows(run, "SELECT data ->> '$.row', time_ns FROM inputs"))
    assert {key: None if a is None else (a.outcome, a.time_ns) for key, a in answers.items()} == {
        key: ("done", times[key]) for key in told
    }
    replayed = sim.replay(run)
    assert replayed.same, replayed.difference
    assert replayed.complete


def _finish(run: Path, program: Program) -> None:
    """End the run in order."""
    assert wait_for(lambda: _stopped(run, program))
    code, _, err = program.end(60)
    assert code == 0, err


def _stopped(run: Path, program: Program) -> bool:
    if program.process.poll() is not None:  # it may end before anybody has seen its answer
        return True
    try:
        key = ask(run, "stop_all")
    except UsageError:  # it is not under way yet
        return False
    return await_answer(run, key, 30) is not None


def _kills(tmp_path, start, times, seed):
    """Kill the process of a run at random moments while a person tells things, and resume it each time."""
    (tmp_path / "desk.yaml").write_text(DESK)
    chance = random.Random(seed)
    program = start().begin("run", "desk.yaml", "--json")
    run = going_on(tmp_path / "runs")
    person = Person(run, 0.03, seed)
    for _ in range(times):
        following = start()
        person.wait()
        time.sleep(chance.uniform(0, 0.3))
        program.kill()
        program = following.begin("resume", run, "--json")
    person.wait()
    person.end()
    _finish(run, program)
    assert len(person.told) > times
    _check(run, person.told)


@pytest.mark.proof
def test_each_request_is_applied_once_over_kills(tmp_path, start):
    """The process is killed three times at random moments while a person tells it things: each becomes one message."""
    _kills(tmp_path, start, 3, 1)


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2, 7))
def test_each_request_is_applied_once_over_many_kills(tmp_path, start, seed):
    """The same with other moments, 50 times each."""
    _kills(tmp_path, start, 50, seed)


@pytest.mark.proof
@pytest.mark.parametrize("when", ["unanswered", "answered"])
def test_a_kill_beside_an_answer(tmp_path, start, when):
    """A process that is killed after a request was applied, just before or after it was answered, leaves it applied:
    the process that resumes the run only answers it.
    """
    (tmp_path / "desk.yaml").write_text(DESK)
    program = start().begin("run", "desk.yaml", "--json", kill=when, n=2)
    run = going_on(tmp_path / "runs")
    told = []
    for number in range(3):
        told.append(ask(run, "tell", agent_id="helper", text=str(number), topic=""))
        if number == 0:
            assert await_answer(run, told[0], 20) is not None
        elif number == 1:
            following = start()
            assert program.end()[0] == -signal.SIGKILL
            program = following.begin("resume", run, "--json")
            wait_for(lambda: is_running(run))
    _finish(run, program)
    _check(run, told)


@pytest.mark.proof
def test_a_process_that_was_fenced_out_takes_nothing_in(tmp_path, start):
    """A process that is stopped, and whose run another one has taken over, takes in nothing when it goes on, and ends;
    requests that were asked of it are applied by the other one, once.
    """
    (tmp_path / "desk.yaml").write_text(DESK)
    old = start().begin("run", "desk.yaml", "--json")
    run = going_on(tmp_path / "runs")
    told = [ask(run, "tell", agent_id="helper", text="first", topic="")]
    assert await_answer(run, told[0], 20) is not None
    old.process.send_signal(signal.SIGSTOP)
    told += [ask(run, "tell", agent_id="helper", text=f"of the old one {n}", topic="") for n in range(5)]
    new = start().begin("resume", run, "--take-over", "--json")
    wait_for(lambda: all(await_answer(run, key, 1) for key in told))
    old.process.send_signal(signal.SIGCONT)
    told += [ask(run, "tell", agent_id="helper", text=f"of the new one {n}", topic="") for n in range(5)]
    code, _, err = old.end()
    assert code == 1
    assert "was taken over by another process (epoch 2, not 1)" in err
    _finish(run, new)
    _check(run, told)


@pytest.mark.proof
def test_many_people_at_once(tmp_path, start):
    """Requests of several people at one time are all applied once, in the order of the inbox."""
    (tmp_path / "desk.yaml").write_text(DESK)
    program = start().begin("run", "desk.yaml", "--json", "--backend", "trio")
    run = going_on(tmp_path / "runs")
    people = [threading.Thread(target=_tell_many, args=(run, name), daemon=True) for name in "abcd"]
    for person in people:
        person.start()
    for person in people:
        person.join()
    _finish(run, program)
    sent = [json.loads(data) for data in rows(run, "SELECT data FROM messages ORDER BY id")]
    assert sorted(sent) == sorted(f"{name}{n:02}" for name in "abcd" for n in range(25))
    for name in "abcd":
        own = [text for text in sent if text[0] == name]
        assert own == sorted(own)
    assert sim.replay(run).same


def _tell_many(run: Path, name: str) -> None:
    for n in range(25):
        ask(run, "tell", agent_id="helper", text=f"{name}{n:02}", topic="")


@pytest.mark.proof
def test_a_request_that_the_record_has_lost_is_applied_again(tmp_path):
    """The record decides what was applied. A request that was answered, but whose input was lost with the last records,
    is taken in by the process that continues from what is left.
    """
    path = tmp_path / "desk.yaml"
    path.write_text(DESK)
    first = sim.run(path, out=tmp_path / "runs", max_wall=0.4)
    run = Path(str(first.run))
    with InboxFile(run, create=True) as inbox:
        keys = [
            inbox.put(1, "tell", {"agent_id": "helper", "text": text, "topic": ""}) for text in ("lost", "wrong", "new")
        ]
        inbox.take(1, 0)
        inbox.answer(1, keys[0], InboxAnswer("done", 5))
        inbox.answer(1, keys[1], InboxAnswer("wrong", None, "it was wrong"))
    sim.resume(run, max_wall=1.5)
    assert rows(run, "SELECT data FROM messages") == ['"lost"', '"new"']
    sim.resume(run, max_wall=1.0)
    assert rows(run, "SELECT data FROM messages") == ['"lost"', '"new"']


@pytest.mark.proof
def test_a_paused_run_is_still_paused_after_a_kill(tmp_path, start):
    """A run that was paused and whose process was killed stands still where it was when it is continued, and says so;
    the end of the pause, and what was told meanwhile, are in the record once.
    """
    (tmp_path / "desk.yaml").write_text(DESK)
    program = start().begin("run", "desk.yaml", "--json")
    run = going_on(tmp_path / "runs")
    paused = await_answer(run, ask(run, "pause_all"), 20)
    assert paused is not None
    following = start()
    program.kill()
    program = following.begin("resume", run, "--json")
    wait_for(lambda: is_running(run))
    key = ask(run, "tell", agent_id="helper", text="still?", topic="")
    told = await_answer(run, key, 20)
    assert told is not None
    assert told.time_ns == paused.time_ns
    assert await_answer(run, ask(run, "resume_all"), 20) is not None
    later = await_answer(run, ask(run, "stop_all"), 20)
    assert later is not None
    assert later.time_ns is not None
    assert told.time_ns is not None
    assert later.time_ns > told.time_ns
    code, _, err = program.end()
    assert code == 0
    assert "people have paused this run" in err
    _check(run, [key])
