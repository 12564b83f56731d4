"""The file of an inbox: what it takes, who may read it, and what damage to it does."""

import json
import sqlite3
import stat
import sys
import threading
from typing import Any

import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.record import inbox as module
from sim.record.files import private_file
from sim.record.inbox import INBOX, LARGEST, InboxAnswer, InboxFile, ask, await_answer
from tests.inbox.helpers import rows


@pytest.fixture
def inbox(tmp_path):
    """An empty inbox."""
    with InboxFile(tmp_path, create=True) as file:
        yield file


def test_a_new_file_has_its_name_only_once_it_is_closed(tmp_path, monkeypatch):
    """A process that closes a file loses its locks on it, so no thread may find the file while another one makes it."""
    seen = []

    def made(path):
        private_file(path)
        seen.append((tmp_path / INBOX).exists())

    monkeypatch.setattr(module, "private_file", made)
    for _ in range(2):
        InboxFile(tmp_path, create=True).close()
    assert seen == [False]
    assert [path.name for path in tmp_path.iterdir()] == [INBOX]


def test_a_request_is_read_in_order_and_answered_once(inbox, tmp_path):
    """Requests are read in the order in which they were written; the answer goes to the one who has the key."""
    keys = [inbox.put(1, "tell", {"n": n}) for n in range(300)]
    assert len(set(keys)) == 300
    first = inbox.take(1, 0)
    rest = inbox.take(1, first[-1].id)
    assert [request.key for request in first + rest] == keys
    assert [json.loads(request.data)["n"] for request in first + rest] == list(range(300))
    assert inbox.answer_to(keys[0]) is None
    inbox.answer(1, keys[0], InboxAnswer("refused", 5, "it was full"))
    with InboxFile(tmp_path, create=True) as again:  # which changes nothing
        assert again.answer_to(keys[0]) == InboxAnswer("refused", 5, "it was full")
        assert again.answer_to(keys[1]) is None
        with pytest.raises(RunError, match="was removed or replaced"):
            again.answer_to("another")


def test_a_later_process_fences_an_earlier_one_out(inbox):
    """Once a process of a later epoch has claimed the inbox, an earlier one reads nothing and answers nothing. Requests
    to a later process are not read by an earlier one in any case.
    """
    key = inbox.put(1, "stop_all", {})
    later = inbox.put(2, "stop_all", {})
    assert [request.key for request in inbox.take(1, 0)] == [key]
    assert [request.key for request in inbox.take(2, 0)] == [key, later]
    assert inbox.take(1, 0) is None
    inbox.answer(1, key, InboxAnswer("done", 1))
    assert inbox.answer_to(key) is None
    inbox.answer(2, key, InboxAnswer("done", 2))
    assert inbox.answer_to(key) == InboxAnswer("done", 2)


def test_limits(inbox, monkeypatch):
    """Too large a request, too many that wait, and too many at all are refused, in one sentence each."""
    with pytest.raises(UsageError, match=r"a request can have 1,048,576 bytes, and this one has 1,048,587"):
        inbox.put(1, "tell", {"text": "x" * LARGEST})
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    monkeypatch.setattr(module, "MOST", 5)
    keys = [inbox.put(1, "tell", {}) for _ in range(3)]
    with pytest.raises(RunError, match="3 requests wait already"):
        inbox.put(1, "tell", {})
    inbox.take(1, 0)
    for key in keys:
        inbox.answer(1, key, InboxAnswer("done", 0))
    inbox.put(1, "tell", {})
    inbox.put(1, "tell", {})
    with pytest.raises(RunError, match="this run has had 5 requests"):
        inbox.put(1, "tell", {})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_the_file_is_private_from_the_first_moment(tmp_path, monkeypatch):
    """The file never exists with other rights than 0600, whatever the umask is."""
    seen = []

    def connect(*args, **kwargs):
        seen.append(stat.S_IMODE((tmp_path / INBOX).stat().st_mode))
        return original(*args, **kwargs)

    original = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)
    InboxFile(tmp_path, create=True).close()
    assert seen == [0o600]
    assert [path.name for path in tmp_path.iterdir()] == [INBOX]


QUICK = """
name: quick
until: 1h
execution: {clock: wall, speed: 6000}
agents: [{name: a, loop: {min_loop_delay: 60}, rules: [{do: {publish: {topic: worked}}}]}]
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_damage_to_the_inbox_never_disturbs_the_run(tmp_path, backend):
    """A run whose inbox is damaged continues as if it had none, and a person who asks gets one sentence."""
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK)
    told = []

    def begun(runner):
        (run,) = (tmp_path / "runs").glob("[!.]*")
        (run / INBOX).write_bytes(b"no database at all" * 100)
        with pytest.raises(RunError, match="it is not a SQLite database"):
            ask(run, "stop_all")
        told.append(run)

    result = sim.run(path, out=tmp_path / "runs", begun=begun, backend=backend)
    assert (result.status, result.sim_seconds) == ("finished", 3600)
    assert sim.replay(told[0]).same


@pytest.mark.parametrize("how", ["removed", "copied"])
def test_an_inbox_that_is_removed_or_replaced_is_found_again(tmp_path, how):
    """What people ask after the inbox was removed under way, or replaced by a copy, is taken in, each request once.
    Whoever waits for an answer in the file that is gone learns that none comes.
    """
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK.replace("6000", "60"))
    found: dict[str, Any] = {}

    def people(run):
        first = ask(run, "pause", agent_id="a")
        found["first"] = await_answer(run, first, 30)
        with InboxFile(run) as inbox:
            content = (run / INBOX).read_bytes()
            (run / INBOX).unlink()
            with pytest.raises(RunError, match="was removed or replaced, and with it the request"):
                inbox.answer_to(first)
        if how == "copied":
            private_file(run / INBOX, content)
        else:
            with pytest.raises(RunError, match=r"inbox\.db"):
                await_answer(run, first, 30)
        found["second"] = await_answer(run, ask(run, "resume", agent_id="a"), 30)
        found["last"] = await_answer(run, ask(run, "stop_all"), 30)

    def begun(runner):
        (run,) = (tmp_path / "runs").glob("[!.]*")
        thread = threading.Thread(target=people, args=(run,))
        thread.start()
        found["run"], found["thread"] = run, thread

    result = sim.run(path, out=tmp_path / "runs", begun=begun)
    found["thread"].join()
    assert result.status == "finished"
    assert [found[name].outcome for name in ("first", "second", "last")] == ["done"] * 3
    assert rows(found["run"], "SELECT data ->> '$.kind' FROM inputs") == ["pause", "resume", "stop_all"]


def test_rows_of_other_programs_are_answered_as_wrong(tmp_path):
    """A row that is no valid request changes nothing: it is answered with what is wrong with it."""
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK)
    asked = {}

    def begun(runner):
        (run,) = (tmp_path / "runs").glob("[!.]*")
        asked["run"] = run
        with InboxFile(run, create=True) as inbox:
            for kind, data in [
                ("branch", {"set": []}), ("remove_loop", {"agent_id": "a"}), ("_submit", {}), ("tell", []),
                ("tell", {"agent_id": ["a"], "text": "x"}), ("tell", {"agent_id": "a", "text": 1}), ("stop", {"x": 1}),
                ("pause", None),
            ]:  # fmt: skip
                asked[inbox.put(1, kind, data)] = kind

    assert sim.run(path, out=tmp_path / "runs", begun=begun).status == "finished"
    run = asked.pop("run")
    answers = {key: await_answer(run, key, 0.1) for key in asked}
    assert {answer and answer.outcome for answer in answers.values()} == {"wrong"}
    assert all(answer is not None and answer.reason for answer in answers.values())
    assert rows(run, "SELECT * FROM inputs") == []


def test_what_comes_too_late_is_refused(tmp_path):
    """A request that the run finds when it has ended is answered: it has ended."""
    path = tmp_path / "quick.yaml"
    path.write_text(QUICK.replace("1h", "1s"))
    keys = []

    def begun(runner):
        (run,) = (tmp_path / "runs").glob("[!.]*")
        original = runner.finish

        def finish(*args, **kwargs):
            keys.append((run, ask(run, "stop_all")))
            return original(*args, **kwargs)

        runner.finish = finish

    assert sim.run(path, out=tmp_path / "runs", begun=begun).status == "finished"
    ((run, key),) = keys
    assert await_answer(run, key, 0.1) == InboxAnswer("refused", None, "the run has ended")


@pytest.mark.slow
def test_runs_with_synchronised_rounds_take_nothing_in(tmp_path):
    """A run with `execution.sync` says that it takes nothing in from outside."""
    answers = []

    def begun(runner):
        (run,) = (tmp_path / "runs").glob("[!.]*")
        answers.append((run, ask(run, "stop_all")))

    sim.run("scenarios/town.yaml", until="20m", out=tmp_path / "runs", begun=begun)
    ((run, key),) = answers
    answer = await_answer(run, key, 0.1)
    assert answer is not None
    assert answer.outcome == "wrong"
    assert "execution.sync" in str(answer.reason)
