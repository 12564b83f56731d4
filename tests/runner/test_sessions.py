"""Sessions: forked processes that keep a replay, and what is said if one fails or ends."""

import os

import pytest

from sim.base.errors import RunError, UsageError
from sim.runner.replay_process import FORKS, ReplayProcess, answer_all, write

pytestmark = pytest.mark.skipif(not FORKS, reason="processes are not forked here")


def served(answer):
    """Return a session whose process answers with a function."""
    return ReplayProcess(
        lambda requests, answers: answer_all(requests, answers, lambda asked: write(answers, answer(asked)))
    )


def test_any_error_is_an_answer():
    """Whatever an answer raises is said with a hint, and the process stays for the next question."""

    def answer(asked):
        if asked["n"] == 0:
            raise UsageError("a wrong question", hint="ask another")
        return {"share": 1 / (asked["n"] - 1)}

    session = served(answer)
    try:
        with pytest.raises(UsageError, match="a wrong question"):
            session.ask({"n": 0})
        with pytest.raises(RunError, match="ZeroDivisionError: ") as caught:
            session.ask({"n": 1})
        assert caught.value.hint is not None
        assert session.ask({"n": 3}) == {"share": 0.5}
    finally:
        session.close()


def test_a_process_that_has_ended_is_said_and_begins_anew():
    """If the process ends before a question, also a long one, that is said once; the next question has a new one."""
    session = served(lambda asked: {"long": len(asked["text"])} if asked["text"] else os._exit(3))
    try:
        with pytest.raises(RunError, match="has ended"):
            session.ask({"text": ""})
        for length in (10, 100_000):
            assert session.ask({"text": "x" * length}) == {"long": length}
            os.kill(session._process, 9)
            os.waitid(os.P_PID, session._process, os.WEXITED | os.WNOWAIT)
            with pytest.raises(RunError, match="has ended"):
                session.ask({"text": "x" * length})
    finally:
        session.close()
