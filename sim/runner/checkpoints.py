"""Checkpoints of a replay: processes that stand at moments of a run, so that others need no new replay (edge).

The first pass goes through the run, and is forked about every 64th part of its events, or every 32nd if memory is
short. A moment is then found by a fork of the nearest checkpoint before it, which repeats what lies between. Measured:
a fork takes 5 to 50 ms, and a checkpoint of `queue` 16 MB. Where a process cannot be forked, each moment is a replay.
"""

import gc
import os
import sys
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import RunError, SimError
from sim.kernel import Duration
from sim.kernel.codec import Json
from sim.kernel.duration import MAX_NS
from sim.record.reader import open_run
from sim.runner.kept_replay import KeptReplay
from sim.runner.moment import Moment
from sim.runner.moments import RunPosition, arrive, cost_of, moment_of, place_of
from sim.runner.options import ReplayOptions
from sim.runner.replay_process import FORKS, answer_all, as_answer, in_child, write, write_error
from sim.runner.walk import Walk

MOST: Final = 64
"""The most checkpoints: then a moment of a million events is at most about 16,000 events behind one of them."""

_SPARE: Final = 0.25
"""The part of the memory that stays free: if less is, every second checkpoint is not made."""


class Moments(KeptReplay):
    """The moments of a run, for a session that asks for several. Close it, or use it as a context manager.

    Args:
        run: the folder of the run, which has ended.
        options: see `ReplayOptions`.
    """

    def __init__(self, run: Path, options: ReplayOptions) -> None:
        super().__init__(run, options, lambda requests, answers: _Head(run, options, answers).serve(requests))

    def at(self, at: Duration) -> Moment:
        """Return the state at one time. The first call goes through the run up to there; a later one at most further.

        Args:
            at: the simulated time, as in `Run.at`.

        Raises:
            UsageError, RunError: as `Run.at`.
        """
        return self._find(at, None)

    def at_event(self, event: int) -> Moment:
        """Return the state after the step that made an event, by its number; otherwise as `at`."""
        return self._find(None, event)

    def _find(self, at: Duration | None, event: int | None) -> Moment:
        with open_run(self._run, verify=False) as stored:
            place = place_of(stored, at, event)
            if not FORKS:
                return moment_of(stored, place, self._options)
        return Moment(**self._session.ask({"at": place.time_ns, "event": place.event}))

    def ahead(self) -> tuple[int, int]:
        """Continue by one checkpoint, so that later questions are answered soon.

        Returns:
            How many of the checkpoints there are, and how many there will be. Where no process can be forked, none.

        Raises:
            UsageError, RunError: as `Run.at`.
        """
        if not FORKS:
            return 0, 0
        counts = self._session.ask({"ahead": True})
        return counts["made"], counts["made"] + counts["left"]


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
        self._failed: SimError | None = None  # why the walk cannot continue

    def serve(self, requests: int) -> None:
        """Answer requests until their pipe is closed."""
        answer_all(requests, self._answers, self._answer)

    def _answer(self, asked: dict[str, Json]) -> None:
        walk = self._started()
        if "cost" in asked:
            write(self._answers, attrs.asdict(cost_of(walk, MAX_NS)))
        elif "ahead" in asked:
            self._on(walk)
            write(self._answers, {"made": len(self._checkpoints), "left": len(self._marks)})
        else:
            self._find(walk, asked)

    def _started(self) -> Walk:
        if self._walk is None:
            stored = open_run(self._run, verify=False)
            chunks = "SELECT json_extract(data, '$[0][0]') FROM chunks ORDER BY id"
            times = [time for (time,) in stored.query(chunks)]
            self._walk = Walk(stored, self._options)
            every = max(1, -(-len(times) // MOST))
            self._marks = sorted({time for time in times[::every] if 0 < time < self._walk.end_ns})
            gc.freeze()
            gc.disable()  # a collection would copy what the checkpoints share
            self._checkpoints.append((0, self._checkpoint(self._walk)))
        return self._walk

    def _on(self, walk: Walk) -> None:
        """Continue to the next checkpoint, if there is one, and make it, or leave it out if memory is short."""
        if self._failed is not None:
            raise self._failed
        if not self._marks:
            return
        if len(self._marks) % 2 and not _is_room():
            del self._marks[0]
            return
        try:
            walk.to(self._marks[0])
        except Exception as error:  # whatever agents raise: half of a step cannot be repeated
            self._failed = as_answer(error)
            raise self._failed from error
        self._now = self._marks.pop(0)
        self._checkpoints.append((self._now, self._checkpoint(walk)))

    def _find(self, walk: Walk, asked: dict[str, Any]) -> None:
        time_ns = asked["at"]
        behind = [pipe for at, pipe in self._checkpoints if at <= time_ns]
        if time_ns < self._now:
            write(behind[-1], asked)
            return
        while self._marks and self._marks[0] < time_ns:
            self._on(walk)
        if self._failed is not None:
            raise self._failed
        _answer_from(walk, self._run, asked, self._answers)

    def _checkpoint(self, walk: Walk) -> int:
        if sys.platform != "linux":
            return -1
        requests = os.pipe()
        if not os.fork():
            os.close(requests[1])
            for _, pipe in self._checkpoints:
                os.close(pipe)
            in_child(lambda: _wait(walk, self._run, requests[0], self._answers))
        os.close(requests[0])
        return requests[1]


def _is_room(file: Path = Path("/proc/meminfo")) -> bool:
    """Return whether enough memory is free for a denser row of checkpoints (Linux)."""
    rows = dict(line.split(":") for line in file.read_text(encoding="ascii").splitlines())
    free, whole = (int(rows[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    return free > _SPARE * whole


def _wait(walk: Walk, run: Path, requests: int, answers: int) -> None:
    """Stand at a moment, and answer requests for later ones."""
    answer_all(requests, answers, lambda asked: _answer_from(walk, run, asked, answers))


def _answer_from(walk: Walk, run: Path, asked: dict[str, Any], answers: int) -> None:
    """Let a fork of a walk continue to a place, and write the state there."""
    if sys.platform != "linux":
        return
    place = RunPosition(asked["at"], asked["event"])
    process = os.fork()
    if not process:
        in_child(lambda: _answer_in_fork(walk, run, place, answers))
    status = os.waitpid(process, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _OF_THE_END:
        _answer_from(walk, run, {"at": walk.end_ns, "event": None}, answers)
    elif status:
        write_error(answers, RunError("the process that looked for the moment has failed"))


_OF_THE_END: Final = 3
"""The status of a process that looked for an event of the end, and has gone too far for the state there."""


def _answer_in_fork(walk: Walk, run: Path, place: RunPosition, answers: int) -> None:
    try:
        walk.reopen(open_run(run, verify=False))  # SQLite must not be used on both sides of a fork
        if place.event is None:
            moment = arrive(walk, place.time_ns)
        elif walk.to_event(place.event, place.time_ns):
            moment = walk.moment()
        else:
            os._exit(_OF_THE_END)
        write(answers, moment.to_json())
    except Exception as error:  # whatever agents raise
        write_error(answers, as_answer(error))
