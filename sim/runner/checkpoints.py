"""Checkpoints of a replay: processes that stand at moments of a run, so that others need no new replay (edge).

The first pass goes through the run, and is forked about every 32nd part of its events. A moment is then found by a
fork of the nearest checkpoint before it, which repeats what lies between. Measured: a fork takes 5 to 50 ms, and a
checkpoint of `queue` 16 MB. Where a process cannot be forked, each moment is a replay.
"""

import gc
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn, Self

from sim.base.errors import RunError, SimError, UsageError
from sim.kernel import Duration
from sim.kernel.codec import encode
from sim.record.reader import open_run
from sim.runner.moment import Moment
from sim.runner.moments import Place, arrive, moment_of, place_of
from sim.runner.options import ReplayOptions
from sim.runner.walk import Walk

MOST: Final = 32
"""The most checkpoints: then a moment of a million events is at most about 30,000 events behind one of them."""

FORKS: Final = sys.platform == "linux"
"""Whether checkpoints are made: elsewhere, a process that has threads cannot be forked safely, or not at all."""


class Moments:
    """The moments of a run, for a session that asks for several. Close it, or use it as a context manager.

    Args:
        run: the folder of the run, which has ended.
        options: see `ReplayOptions`.
    """

    def __init__(self, run: Path, options: ReplayOptions) -> None:
        self._run = run
        self._options = options
        self._asked: BinaryIO | None = None
        self._answers: BinaryIO | None = None
        self._process = 0

    def at(self, at: Duration) -> Moment:
        """Return the state at one time. The first call goes through the run up to there; a later one at most further.

        Args:
            at: the simulated time, as in `Run.at`.

        Raises:
            UsageError, RunError: as `Run.at`.
        """
        with open_run(self._run, verify=False) as stored:
            place = place_of(stored, at, None)
            if not FORKS:
                return moment_of(stored, place, self._options)
        if self._asked is None:
            self._begin()
        return self._ask(place)

    def _ask(self, place: Place) -> Moment:
        assert self._asked is not None, "it has begun"
        assert self._answers is not None, "it has begun"
        try:
            self._asked.write(b"%d\n" % place.time_ns)
            self._asked.flush()
            line = self._answers.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            self.close()
            raise RunError("the replay that finds moments has ended", hint="ask again: it begins anew")
        answer = json.loads(line)
        if "error" in answer:
            kind, text, hint = answer["error"]
            raise (UsageError if kind == "UsageError" else RunError)(text, hint=hint)
        return Moment(**answer)

    def _begin(self) -> None:
        if sys.platform != "linux":
            return
        requests, answers = os.pipe(), os.pipe()
        with warnings.catch_warnings():  # the child calls nothing that another thread could have locked
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            os.close(requests[1])
            os.close(answers[0])
            _in_child(lambda: _Head(self._run, self._options, answers[1]).serve(requests[0]))
        os.close(requests[0])
        os.close(answers[1])
        self._asked, self._answers = os.fdopen(requests[1], "wb"), os.fdopen(answers[0], "rb")

    def close(self) -> None:
        """End the processes."""
        for pipe in (self._asked, self._answers):
            if pipe is not None:
                pipe.close()
        self._asked = self._answers = None
        if sys.platform == "linux" and self._process:
            os.waitpid(self._process, 0)
            self._process = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _in_child(work: Callable[[], object]) -> NoReturn:
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


class _Head:
    """The process whose walk is furthest, and which has made the checkpoints behind it.

    Args:
        run: the folder of the run.
        options: see `ReplayOptions`.
        answers: the descriptor to which answers are written.
    """

    def __init__(self, run: Path, options: ReplayOptions, answers: int) -> None:
        self._run = run
        self._options = options
        self._answers = answers
        self._walk: Walk | None = None
        self._now = 0
        self._marks: list[int] = []  # the times of the checkpoints that are still to be made
        self._checkpoints: list[tuple[int, int]] = []  # a time, and the descriptor that takes requests

    def serve(self, requests: int) -> None:
        """Answer requests until their pipe is closed."""
        with os.fdopen(requests, "rb") as lines:
            while line := lines.readline():
                try:
                    self._find(int(line))
                except SimError as error:
                    self._answer({"error": [type(error).__name__, str(error), error.hint]})

    def _find(self, time_ns: int) -> None:
        if self._walk is None:
            stored = open_run(self._run, verify=False)
            chunks = "SELECT json_extract(data, '$[0][0]') FROM chunks ORDER BY id"
            times = [time for (time,) in stored.query(chunks)]
            self._marks = sorted(set(times[:: max(1, -(-len(times) // MOST))]) - {0})
            self._walk = Walk(stored, self._options)
            gc.freeze()
            gc.disable()  # a collection would copy what the checkpoints share
            self._checkpoints.append((0, self._checkpoint(self._walk)))
        walk = self._walk
        behind = [pipe for at, pipe in self._checkpoints if at <= time_ns]
        if time_ns < self._now and behind:
            os.write(behind[-1], b"%d\n" % time_ns)
            return
        while self._marks and self._marks[0] < min(time_ns, walk.end_ns):
            self._now = self._marks.pop(0)
            walk.to(self._now)
            self._checkpoints.append((self._now, self._checkpoint(walk)))
        _answer_from(walk, self._run, time_ns, self._answers)

    def _checkpoint(self, walk: Walk) -> int:
        if sys.platform != "linux":
            return -1
        requests = os.pipe()
        if not os.fork():
            os.close(requests[1])
            for _, pipe in self._checkpoints:
                os.close(pipe)
            _in_child(lambda: _wait(walk, self._run, requests[0], self._answers))
        os.close(requests[0])
        return requests[1]

    def _answer(self, found: dict[str, Any]) -> None:
        _write(self._answers, found)


def _wait(walk: Walk, run: Path, requests: int, answers: int) -> None:
    """Stand at a moment, and answer requests for later ones."""
    with os.fdopen(requests, "rb") as lines:
        while line := lines.readline():
            _answer_from(walk, run, int(line), answers)


def _answer_from(walk: Walk, run: Path, time_ns: int, answers: int) -> None:
    """Let a fork of a walk go on to a time, and write the state there."""
    if sys.platform != "linux":
        return
    process = os.fork()
    if not process:
        _in_child(lambda: _go_on(walk, run, time_ns, answers))
    if os.waitpid(process, 0)[1]:
        _write(answers, {"error": ["RunError", "the process that looked for the moment has failed", None]})


def _go_on(walk: Walk, run: Path, time_ns: int, answers: int) -> None:
    try:
        walk.reopen(open_run(run, verify=False))  # SQLite must not be used on both sides of a fork
        found = arrive(walk, time_ns).to_json()
    except SimError as error:
        found = {"error": [type(error).__name__, str(error), error.hint]}
    _write(answers, found)


def _write(answers: int, found: dict[str, Any]) -> None:
    line = encode(found) + b"\n"
    while line:
        line = line[os.write(answers, line) :]
