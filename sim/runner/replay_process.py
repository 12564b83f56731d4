"""The process of a replay: forked, it keeps the replay, and answers questions about it until it is closed (edge).

Questions and answers are JSON, a line each. Where a process cannot be forked, there is none.
"""

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn
from weakref import WeakSet

from sim.base.errors import RunError, SimError, UsageError
from sim.kernel.codec import decode, encode

FORKS: Final = sys.platform == "linux"
"""Whether processes are forked: elsewhere, one that has threads cannot be forked safely, or not at all."""


_BEGUN: Final = WeakSet["ReplayProcess"]()  # a forked process has their pipes too, which must not stay open there


class ReplayProcess:
    """A process that keeps a replay. It begins with the first question, or before that if it is asked to.

    Args:
        serve: what it does: it gets the descriptors from which it reads questions, and to which it writes answers.
    """

    def __init__(self, serve: Callable[[int, int], object]) -> None:
        self._serve = serve
        self._asked: BinaryIO | None = None
        self._answers: BinaryIO | None = None
        self._process = 0

    def begin(self) -> None:
        """Fork the process, if there is none: best before this one has threads."""
        if sys.platform != "linux" or self._asked is not None:
            return
        requests, answers = os.pipe(), os.pipe()
        with warnings.catch_warnings():  # the child calls nothing that another thread could have locked
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            os.close(requests[1])
            os.close(answers[0])
            _let_go([other for other in _BEGUN if other is not self])
            in_child(lambda: self._serve(requests[0], answers[1]))
        os.close(requests[0])
        os.close(answers[1])
        self._asked, self._answers = os.fdopen(requests[1], "wb"), os.fdopen(answers[0], "rb")
        _BEGUN.add(self)

    @property
    def descriptors(self) -> list[int]:
        """Those of its pipes that are open."""
        return [pipe.fileno() for pipe in (self._asked, self._answers) if pipe is not None]

    def ask(self, question: Any) -> Any:
        """Return the answer to a question; the process begins if there is none.

        Raises:
            UsageError, RunError: if the answer is an error, or the process has ended.
        """
        self.begin()
        assert self._asked is not None, "it has begun"
        assert self._answers is not None, "it has begun"
        try:
            self._asked.write(encode(question) + b"\n")
            self._asked.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            self.close()
            raise RunError("the process that repeats the run has ended", hint="ask again: a new process begins")
        answer = json.loads(line)
        if "error" in answer:
            kind, text, hint = answer["error"]
            raise (UsageError if kind == "UsageError" else RunError)(text, hint=hint)
        return answer

    def close(self) -> None:
        """End the process, and those that it has made."""
        for pipe in (self._asked, self._answers):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a process that has ended takes no rest of a question
                    pipe.close()
        self._asked = self._answers = None
        _BEGUN.discard(self)
        if sys.platform == "linux" and self._process:
            os.waitpid(self._process, 0)
            self._process = 0


def _let_go(others: Iterable[ReplayProcess]) -> None:
    """Give the pipes of other such processes up in a process that was forked; otherwise theirs would never end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for other in others:
        for descriptor in other.descriptors:
            os.dup2(nothing, descriptor)
    os.close(nothing)


def in_child(work: Callable[[], object]) -> NoReturn:
    """Do the work of a forked process, and end it without what its program does at its end."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)  # output of agents is no result, and the streams of a notebook need its threads
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until it ends
        if sys.platform == "linux":
            os.setsid()  # Ctrl-C is for the program; its end closes the pipes
        work()
        code = 0
    finally:
        os._exit(code)


def answer_all(requests: int, answers: int, answer: Callable[[Any], object]) -> None:
    """Call `answer` with each question until no more can come. It writes its answer, unless it raises an error."""
    with os.fdopen(requests, "rb") as lines:
        while line := lines.readline():
            try:
                answer(json.loads(line))
            except Exception as error:  # whatever agents raise
                write_error(answers, as_answer(error))


def as_answer(error: Exception) -> SimError:
    """Return an error as one that can be the answer."""
    if isinstance(error, SimError):
        return error
    text = f"{type(error).__name__}: {error}".replace("\n", " ")
    return RunError(f"the run could not be repeated: {text:.500}", hint="`sim replay RUN` says where it fails")


def write_error(answers: int, error: SimError) -> None:
    """Write an error as the answer."""
    write(answers, {"error": [type(error).__name__, str(error), error.hint]})


def write(answers: int, answer: Any) -> None:
    """Write an answer; its keys stay in their order."""
    line = json.dumps(answer, default=lambda value: decode(encode(value))).encode() + b"\n"
    while line:
        line = line[os.write(answers, line) :]
