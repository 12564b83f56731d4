"""Futures as forks of processes: one replay serves all moments, because a process stays at each of some moments (edge).

The processes: a coordinator, which this program talks to; the walker, which repeats the run once, verifies it, and is
forked at each of the given moments; these holders, which wait; and for each piece of work a fork of the nearest holder,
which continues to its moment, and is forked for each future. None has a thread or an event loop. The coordinator and
all that follow from it are one group of processes, which ends with this program.
"""

import contextlib
import gc
import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Final

import attrs

from sim.base.errors import RunError, SimError
from sim.base.registry import using
from sim.experiments.attribution.task import (
    LATE,
    SAME,
    Assigned,
    EventBetween,
    Future,
    FutureChange,
    FuturesTask,
    Own,
    Passage,
    Prepared,
    RunSetup,
    short,
)
from sim.experiments.pool import NEVER, Deadline, process
from sim.experiments.trial import sentence
from sim.record.reader import open_run
from sim.runner.engine import PATIENT
from sim.runner.plain import StepMoment

FORKS: Final = sys.platform == "linux"
"""Whether processes are forked here: forks are not safe beside the libraries of macOS, and Windows has none."""

_EARLY: Final = "was it killed, or is the memory full? fewer futures at the same time need less: --jobs 1"
_SAID: Final = "`sim replay RUN` repeats the run, and says whether it can be repeated here"
_NO_FORKS: Final = "a process cannot be forked on Windows"
_REBUILT: Final = "leave out fork=True: then the run is built again for each future"

_LOOK: Final = 0.5  # real seconds after which it is seen whether a process has ended early

Line = dict[str, Any]


class ForkedFutures:
    """Futures as forks.

    Args:
        setup: the run.
        moments: where a process stays, ascending; the first is the start.
        jobs: how many futures run at the same time.

    Attributes:
        own, seconds, patterns, deadline: see `Futures`.

    Raises:
        SimError: if the run cannot be repeated.
    """

    within = True
    way = "forked"
    deadline = NEVER

    def __init__(self, setup: RunSetup, moments: Sequence[StepMoment], jobs: int) -> None:
        self.carried_out = 0
        here, there = Pipe()
        self._here: Any = here  # it has another type on Windows
        self._process = process(_coordinate, there, setup, tuple(moments), jobs)
        there.close()
        own: Own = self._answer()
        self.own, self.seconds, self.patterns = own.future, own.seconds, own.patterns

    def values(self, tasks: list[FuturesTask]) -> list[list[Future]]:
        """See `Futures`."""
        self._here.send(("values", (tasks, self.deadline)))
        futures: list[list[Future]] = self._answer()
        self.carried_out += sum(one != LATE for row in futures for one in row)
        return futures

    def steps(self, time_ns: int) -> int:
        """See `Futures`."""
        self._here.send(("steps", time_ns))
        return int(self._answer())

    def between(self, first: StepMoment, last: StepMoment) -> Passage:
        """See `Futures`."""
        self._here.send(("between", (first, last)))
        passage: Passage = self._answer()
        return passage

    def close(self) -> None:
        """End all processes."""
        self._here.close()
        self._process.join()

    def _answer(self) -> Any:
        try:
            answer = self._here.recv()
        except EOFError:
            raise RunError("a process of the futures ended early", hint=_EARLY) from None
        if isinstance(answer, SimError):
            raise answer
        return answer


# -- processes, as POSIX has them


def _fork() -> int:
    if sys.platform == "win32":
        raise RunError(_NO_FORKS, hint=_REBUILT)  # FORKS is asked before
    return os.fork()


def _ended(child: int) -> int | None:
    """Return how a process has ended; None: it has not."""
    if sys.platform == "win32":
        raise RunError(_NO_FORKS, hint=_REBUILT)  # FORKS is asked before
    ended, status = os.waitpid(child, os.WNOHANG)
    return status if ended else None


def _lead_group() -> None:
    if sys.platform != "win32":
        os.setpgid(0, 0)


def _end_group() -> None:
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)


# -- the coordinator


def _coordinate(there: Any, setup: RunSetup, moments: tuple[StepMoment, ...], jobs: int) -> None:
    """Start the walker, then serve requests until the program ends; then end all processes of this group."""
    _lead_group()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what agents print is no part of a result
    sys.stdout = sys.stderr
    logging.getLogger("sim.actors").addHandler(logging.NullHandler())  # failures of agents are part of a future
    try:
        coordinator = _Coordinator(there, setup, moments, jobs)
        there.send(coordinator.own())
        while True:
            verb, argument = there.recv()
            there.send(getattr(coordinator, verb)(argument))
    except EOFError:
        pass
    except SimError as error:
        with contextlib.suppress(OSError):
            there.send(error)
    finally:
        _end_group()


class _Coordinator:
    """Hands pieces of work to the holders, a limited number at a time, and reads their results."""

    def __init__(self, there: Any, setup: RunSetup, moments: tuple[StepMoment, ...], jobs: int) -> None:
        self._there = there
        self._jobs = jobs
        self._moments = moments
        self._answers, out = os.pipe()
        self._rest = b""
        pipes = [os.pipe() for _ in moments]
        self._walker = _fork()
        if self._walker == 0:
            _leave(lambda: _walk(setup, moments, [read for read, _ in pipes], out), out, {"lost": "the replay"})
        self._commands = [write for _, write in pipes]
        self._number = 0

    def own(self) -> Own:
        """Return what is known of the run itself, when it has been repeated and verified."""
        patterns = []
        for line in self._lines():
            if "pattern" in line:
                patterns.append(line["pattern"])
            elif "own" in line:
                return Own(Future(line["own"], line["problem"]), line["seconds"], tuple(patterns))
        raise RunError("the replay ended early", hint=_EARLY)

    def values(self, order: tuple[list[FuturesTask], Deadline]) -> list[list[Future]]:
        """Carry out tasks until a deadline; futures under way are carried out."""
        (tasks, deadline), waiting = order, []
        futures = [[LATE] * len(task.seeds) for task in tasks]
        for place, task in enumerate(tasks):
            size = max(1, -(-len(task.seeds) // self._jobs))
            for start in range(0, len(task.seeds), size):
                seeds = task.seeds[start : start + size]
                command = {"do": "values", "seeds": seeds, "change": task.change.to_json(), "through": task.through}
                command |= _moment(task.moment) | {"end": deadline.at}
                waiting.append((command, place, start))
        running: dict[int, tuple[int, int]] = {}
        waiting.reverse()
        while True:
            while waiting and len(running) < self._jobs and not deadline.is_over:
                command, place, start = waiting.pop()
                running[self._send(command)] = place, start
            if not running:
                return futures
            for line in self._lines():
                place, start = running[line["piece"]]
                if "seed" in line:
                    futures[place][start + line["seed"]] = Future(line["value"], line["problem"])
                elif "done" in line:
                    del running[line["piece"]]
                    break
                elif "problem" in line:
                    raise RunError(line["problem"], hint=_SAID)

    def steps(self, time_ns: int) -> int:
        """Return how many steps an instant has."""
        piece = self._send({"do": "steps", **_moment(StepMoment(time_ns))})
        return int(self._one(piece)[0]["steps"])

    def between(self, moments: tuple[StepMoment, StepMoment]) -> Passage:
        """Return what happened between two moments."""
        first, last = moments
        lines = self._one(self._send({"do": "between", "to": [last.time_ns, last.step], **_moment(first)}))
        events = [EventBetween(*line["event"]) for line in lines if "event" in line]
        return Passage(tuple(events), tuple(Assigned(*line["set"]) for line in lines if "set" in line))

    def _one(self, piece: int) -> list[Line]:
        lines: list[Line] = []
        for line in self._lines():
            if "done" in line:
                return lines
            if "problem" in line:
                raise RunError(line["problem"], hint=_SAID)
            lines.append(line)
        return lines

    def _send(self, command: Line) -> int:
        """Hand a piece of work to the nearest holder before its moment."""
        self._number += 1
        moment = StepMoment(*command["moment"])
        place = max(place for place, own in enumerate(self._moments) if own <= moment)
        data = json.dumps({"piece": self._number, **command}).encode() + b"\n"
        view = memoryview(data)
        while view:
            view = view[os.write(self._commands[place], view) :]
        return self._number

    def _lines(self) -> Any:
        """Yield the answers, and notice the end of the program and of the walker."""
        while True:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                answer = json.loads(line)
                if "lost" in answer:
                    raise RunError(
                        answer.get("problem") or f"the process of {answer['lost']} ended early",
                        hint=_SAID if "problem" in answer else _EARLY,
                    )
                yield answer
            ready, _, _ = select.select([self._answers, self._there.fileno()], [], [], _LOOK)
            if self._there.fileno() in ready and self._there.poll() and self._is_over():
                raise EOFError
            if self._answers in ready:
                self._rest += os.read(self._answers, 1 << 16)
            elif _ended(self._walker) is not None:
                raise RunError("the process of the replay ended early", hint=_EARLY)

    def _is_over(self) -> bool:
        """Whether the program has ended: it sends nothing while it waits for an answer."""
        self._there.recv()
        return False


def _moment(moment: StepMoment) -> Line:
    return {"moment": [moment.time_ns, moment.step]}


# -- the walker and the holders


def _walk(setup: RunSetup, moments: Sequence[StepMoment], commands: Sequence[int], out: int) -> None:
    """Repeat the run, with a fork at each moment, and stay, to see whether one of these ends early."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with open_run(Path(setup.run), verify=False) as stored, using(setup.again.definitions):
        prepared = Prepared(stored, setup)
        prepared.run.verify(stored)
        begun = time.process_time()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*PATIENT)
        for moment, command in zip(moments, commands, strict=True):
            prepared.run.to(moment)
            if _fork() == 0:
                _leave(lambda own=command: _hold(prepared, own, out), out, {"lost": "a moment"})  # type: ignore[misc]
        own = prepared.future(None, SAME, quick=False)
        for pattern in prepared.run.patterns:
            _tell(out, {"pattern": pattern})
        _tell(out, {"own": own.value, "problem": own.problem, "seconds": time.process_time() - begun})
    while True:
        _, status = os.waitpid(-1, 0)
        if status:
            _tell(out, {"lost": "a moment"})


def _hold(prepared: Prepared, commands: int, out: int) -> None:
    """Wait at a moment for work, and have a fork do each piece."""
    rest, children = b"", dict[int, int]()
    while True:
        ready, _, _ = select.select([commands], [], [], _LOOK if children else None)
        if ready:
            data = os.read(commands, 1 << 16)
            if not data:
                return
            rest += data
        while b"\n" in rest:
            line, _, rest = rest.partition(b"\n")
            command = json.loads(line)
            piece = command["piece"]
            child = _fork()
            if child == 0:
                _leave(lambda own=command: _do(prepared, own, out), out, {"piece": piece})  # type: ignore[misc]
            children[child] = piece
        for child in list(children):
            status = _ended(child)
            if status is not None:
                piece = children.pop(child)
                if status:
                    _tell(out, {"piece": piece, "problem": _ending(status)})


def _do(prepared: Prepared, command: Line, out: int) -> None:
    """Do a piece of work."""
    piece, run, moment = command["piece"], prepared.run, StepMoment(*command["moment"])
    if command["do"] != "between":
        run.to(moment)
    if command["do"] == "values":
        change, through, end = FutureChange.from_json(command["change"]), command["through"], Deadline(command["end"])
        for place, seed in enumerate(command["seeds"]):
            if end.is_over:
                break
            _future(lambda own=seed: prepared.future(own, change, through), {"piece": piece, "seed": place}, out)  # type: ignore[misc]
    elif command["do"] == "steps":
        _tell(out, {"piece": piece, "steps": run.steps_at(moment.time_ns)})
    else:
        passage = prepared.passage(moment, StepMoment(*command["to"]))
        for event in passage.events:
            _tell(out, {"piece": piece, "event": attrs.astuple(event)})
        for one in passage.assigned:
            _tell(out, {"piece": piece, "set": attrs.astuple(one)})
    _tell(out, {"piece": piece, "done": True})


def _future(carried_out: Callable[[], Future], line: Line, out: int) -> None:
    """Fork a future, and wait for its end."""
    child = _fork()
    if child == 0:

        def work() -> None:
            _tell(out, {**line, **attrs.asdict(carried_out())})

        _leave(work, out, {**line, "value": None}, failed=0)
    _, status = os.waitpid(child, 0)
    if status:
        _tell(out, {**line, "value": None, "problem": _ending(status)})


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"its process was ended by signal {-code}" if code < 0 else f"its process ended with the code {code}"


def _leave(work: Callable[[], None], out: int, line: Line, failed: int = 0) -> None:
    """Do the work of a fork, tell what went wrong, and end the process without cleaning up what others use."""
    code = 0
    try:
        work()
    except BaseException as error:
        code = failed
        with contextlib.suppress(BaseException):
            _tell(out, {**line, "problem": short(sentence(error))})
    finally:
        os._exit(code)


def _tell(out: int, line: Line) -> None:
    """Write a line, whose texts are `short`: up to 4,096 bytes are written as one, whoever else writes (POSIX)."""
    os.write(out, json.dumps(line).encode() + b"\n")
