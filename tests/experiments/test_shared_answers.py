"""Answers of models that trials share: each is asked for once, within a run never reused, and on record."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

import sim
from sim.base.errors import RunError
from sim.llm import Access
from sim.llm.shared_answers import SharedAnswers
from sim.record import open_run
from sim.record.answer_book import AnswerBook
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

ROOT = Path(__file__).parents[2]
SCENARIO = """
name: talk
until: 1m
models: {prices: {m: {input: 1, output: 1}}}
agents:
  - name: ana
    count: 2
    state: {said: 0, mood: 1.0}
    loop: {min_loop_delay: 10s}
    rules:
      - do: {ask: {prompt: "=str(mood) + ' ' + str(said // 2)"}}
        set: {said: "=said + 1"}
metrics: {every: 30s, values: {said: "total('ana', 'said')"}}
"""


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario in which two agents ask, each of its questions twice."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    path = tmp_path / "talk.yaml"
    path.write_text(SCENARIO)
    return path


def numbered(seen: Seen) -> Reply:
    """Answer each request with its number, so that no two answers are equal."""
    return fitting(seen, f"answer {seen.number}")


def asked(endpoint: Endpoint) -> Counter[str]:
    """Return how often each question was asked."""
    return Counter(seen.body["messages"][-1]["content"] for seen in endpoint.seen)


def swept(talk: Path, endpoint: Endpoint, *more: object, vary: str = "until=60,61,62") -> dict[str, Any]:
    """Return what a sweep against an endpoint prints."""
    given = ["--vary", vary, "--model", "openai:m", "--base-url", endpoint.url, "--seeds", 2]
    code, out, err = command("sweep", talk, *given, *more, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.proof
def test_each_answer_is_asked_for_once_by_seed(talk: Path) -> None:
    """Three combinations with two seeds: one set of answers for each seed; within a run, the second time is another."""
    with Endpoint(numbered) as endpoint:
        told = swept(talk, endpoint, vary="until=52,55,58")
        assert set(asked(endpoint).values()) == {2 * 2 * 2}  # agents, times, seeds
    assert [row["outcomes"]["said"]["mean"] for row in told["rows"]] == [12, 12, 12]
    lines = (Path(told["folder"]) / "results.csv").read_text().splitlines()
    place = lines[0].split(",").index("reused")
    assert sum(int(line.split(",")[place]) for line in lines[1:]) == 6 * 12 - 24


@pytest.mark.proof
@pytest.mark.parametrize(("answers", "calls"), [("fresh", 48), ("seed", 24), ("all", 12)])
def test_the_switch(talk: Path, answers: str, calls: int) -> None:
    """Two agents ask six times in each of four trials, of two seeds: `fresh` asks each time, `all` shares all."""
    with Endpoint(numbered) as endpoint:
        swept(talk, endpoint, "--answers", answers, vary="until=55,58")
        assert len(endpoint.seen) == calls


@pytest.mark.proof
def test_workers_that_want_the_same_answer_ask_once(talk: Path) -> None:
    """Trials of one seed in several processes at the same time wait for each other's answers."""
    with Endpoint(lambda seen: Reply(**{**_fields(numbered(seen)), "delay": 0.05})) as endpoint:
        given = ["--vary", "until=60.0..61.0:4", "--model", "openai:m", "--base-url", endpoint.url, "--jobs", 2]
        code, _, err = command("sweep", talk, *given, "--seeds", 1)
        assert code == 0, err
        assert max(asked(endpoint).values()) == 4  # two agents, each twice


def _fields(reply: Reply) -> dict[str, Any]:
    import attrs

    return {field.name: getattr(reply, field.name) for field in attrs.fields(Reply)}


@pytest.mark.proof
def test_failures_are_not_kept(talk: Path) -> None:
    """A call that failed is made again by the next trial."""
    state = {"broken": True}

    def serve(seen: Seen) -> Reply:
        return error(400) if state["broken"] else numbered(seen)

    with Endpoint(serve) as endpoint:
        swept(talk, endpoint, vary="until=60")
        state["broken"] = False
        before = len(endpoint.seen)
        swept(talk, endpoint, vary="until=60")
        assert len(endpoint.seen) > before


@pytest.mark.slow
def test_it_is_said_in_the_record(talk: Path, tmp_path: Path) -> None:
    """The outcome of the effect says that an answer was reused; events and hash are those of a run that asked."""
    found: list[Any] = []
    with Endpoint(lambda seen: fitting(seen, "the same")) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="k")
        for name in ("one", "other"):
            with AnswerBook(tmp_path / "answers.db") as book:

                def share(runner: Any, book: AnswerBook = book) -> None:
                    runner.simulation.models.shared = SharedAnswers(book, "1")

                found.append(sim.run(talk, access=access, begun=share, out=tmp_path / name))
        requests = len(endpoint.seen)
    one, other = found
    assert (one.models.get("reused"), other.models["reused"]) == (None, requests)
    assert other.models["reused_micro"] == other.models["total"]["cost_micro"] > 0
    with open_run(Path(other.run)) as stored:
        rows = stored.query("SELECT DISTINCT CAST(result AS TEXT) ->> '$.reused' FROM effects")
    assert rows == [(1,)]
    replayed = sim.replay(other.run)
    assert replayed.same, replayed.difference


def test_the_lock_of_an_answer(tmp_path: Path) -> None:
    """Two books of one process, or a killed one, leave no lock; what is kept first stays."""
    calls: list[str] = []

    async def ask() -> str:
        calls.append("asked")
        return f"answer {len(calls)}"

    async def twice(book: AnswerBook) -> list[tuple[Any, bool]]:
        return [await book.answer("ab" * 32, ask, keep=bool) for _ in range(2)]

    with AnswerBook(tmp_path / "a.db") as book:
        assert anyio.run(twice, book) == [("answer 1", False), ("answer 1", True)]
    with AnswerBook(tmp_path / "a.db") as book:
        assert anyio.run(twice, book) == [("answer 1", True), ("answer 1", True)]
    assert calls == ["asked"]
    assert threading.active_count() >= 1


def test_two_books_of_one_process_ask_once(tmp_path: Path) -> None:
    """Books of one process exclude each other as those of two processes do, also after a third one was closed."""
    asked: list[str] = []

    async def both() -> list[tuple[Any, bool]]:
        found: list[tuple[Any, bool]] = []
        waiting, go_on = anyio.Event(), anyio.Event()

        async def ask() -> str:
            asked.append("asked")
            waiting.set()
            await go_on.wait()
            return "answer"

        async def want(book: AnswerBook) -> None:
            found.append(await book.answer("cd" * 32, ask, keep=bool))

        with AnswerBook(tmp_path / "a.db") as one, AnswerBook(tmp_path / "a.db") as other:
            async with anyio.create_task_group() as group:
                group.start_soon(want, one)
                await waiting.wait()
                AnswerBook(tmp_path / "a.db").close()
                assert not locked_by_another_process(tmp_path / "a.lock")
                group.start_soon(want, other)
                await anyio.wait_all_tasks_blocked()
                go_on.set()
        return found

    assert sorted(anyio.run(both)) == [("answer", False), ("answer", True)]
    assert asked == ["asked"]


def locked_by_another_process(path: Path) -> bool:
    """Return whether another process can lock the place of the answer `cdcdcd...`."""
    code = f"import fcntl; fcntl.lockf(open({str(path)!r}, 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0x{'cd' * 6})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks on Windows")
def test_a_file_that_cannot_be_locked_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks, as NFS can be, is named in one sentence; the call does not wait for ever."""

    def lockf(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    async def ask() -> str:
        raise AssertionError("nothing is asked")

    async def want(book: AnswerBook) -> None:
        with anyio.fail_after(5):
            await book.answer("ab" * 32, ask, keep=bool)

    monkeypatch.setattr("fcntl.lockf", lockf)
    with AnswerBook(tmp_path / "a.db") as book, pytest.raises(RunError, match=r"a\.lock cannot be used: No locks"):
        anyio.run(want, book)


def test_a_damaged_book_is_refused(tmp_path: Path) -> None:
    """One sentence names the file."""
    path = tmp_path / "answers.db"
    path.write_text("no database at all, but long enough to look like one, and then some more text " * 20)
    with pytest.raises(sim.SimError, match=r"answers\.db"), AnswerBook(path):
        pass


@pytest.mark.proof
def test_branches_of_the_debate_ask_only_after_they_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty branches from the middle make at most 55 % of the calls of twenty runs, and none before they part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    def serve(seen: Seen) -> Reply:
        if not seen.body.get("tools"):
            return fitting(seen, "FOR. It is quieter.")
        return fitting(seen, "", calls=[("vote", json.dumps({"choice": "yes"}))])

    with Endpoint(serve) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="sk-none")
        whole = sim.run(ROOT / "scenarios" / "debate.yaml", access=access, out="runs")
        once = len(endpoint.seen)
        with open_run(Path(whole.run or "")) as stored:
            times = [time for (time,) in stored.query("SELECT time_ns FROM effects ORDER BY time_ns")]
        middle = f"{times[len(times) // 2 - 1] + 1}ns"
        part = sum(time > times[len(times) // 2 - 1] for time in times)
        given = ["--at", middle, "--arm", "strict:limits.llm_calls.global=500 per 1m", "--seeds", 10]
        code, out, err = command("branch", "debate", *given, "--base-url", endpoint.url, "--json")
        assert code == 0, err
        asked_later = len(endpoint.seen) - once
    told = json.loads(out)
    assert [row["seeds"] for row in told["rows"]] == [10, 10]
    assert 10 * part <= asked_later <= 20 * part
    assert asked_later <= 0.55 * 20 * once
