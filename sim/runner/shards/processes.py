"""The processes of shards, and the pipes to them (edge)."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from typing import IO, Final, NoReturn, cast
from weakref import WeakSet

from sim.base.child import variables
from sim.base.errors import RunError
from sim.kernel.codec import Record, as_sent
from sim.runner.shards.protocol import Order, Report, Setup, ShardLost, read_report, receive, send
from sim.runner.shards.shard import serve
from sim.scenario.assembly.build import Simulation


class ForkedProcess:
    """A fork of this process that serves as a shard; it has what is used here of `subprocess.Popen`.

    Args:
        whole: the world, which this process has built: the fork shares its memory until it changes it.

    Attributes:
        stdin, stdout: the pipes to it and from it.
    """

    stdin: IO[bytes]
    stdout: IO[bytes]
    _pid: int
    _code: int | None = None

    def __init__(self, whole: Simulation) -> None:
        if sys.platform == "win32":
            raise OSError("processes cannot be forked here")
        requests, reports = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(requests[1], "wb"), os.fdopen(reports[0], "rb")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the fork is not to raise it in our code
        with warnings.catch_warnings():  # `Forks` has seen that there are no other threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            _serve(requests[0], reports[1], [self, *_FORKED], whole)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(requests[0])
        os.close(reports[1])
        _FORKED.add(self)

    def kill(self) -> None:
        """End it at once."""
        if sys.platform != "win32" and self._ended(os.WNOHANG) is None:
            with contextlib.suppress(ProcessLookupError):  # a program that ignores SIGCHLD keeps no ended process
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end, and return its exit code; that of a signal is negative, and one that others took is 0."""
        _FORKED.discard(self)  # its pipes are closed next
        return self._ended(0) or 0

    def _ended(self, options: int) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self._pid, options)
            except ChildProcessError:  # the program ignores SIGCHLD, or waits for all processes: `Popen` says 0 then
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


_FORKED: Final = WeakSet[ForkedProcess]()  # a later fork has their pipes too, which must not stay open there


def _serve(requests: int, reports: int, others: list[ForkedProcess], whole: Simulation) -> NoReturn:
    """Do the work of a forked process, and end it without what its program does at its end."""
    code = 1
    try:
        if sys.platform != "win32":
            os.setsid()  # Ctrl-C is for the coordinator, whose end closes the pipes
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for other in others:
            for pipe in (other.stdin, other.stdout):
                if not pipe.closed:
                    os.close(pipe.fileno())
        gc.freeze()  # what was built stays to the end: a collection need not look at it, nor copy its pages
        os.dup2(2, 1)
        sys.stdout = sys.stderr  # what code prints is no report
        serve(os.fdopen(requests, "rb"), os.fdopen(reports, "wb"), whole)
        code = 0
    except BaseException:
        traceback.print_exc()  # of this process: the coordinator only sees that it has ended
    finally:
        os._exit(code)


class ShardProcess:
    """The process of one shard. Ctrl-C reaches the coordinator only.

    Args:
        number: its number, from 1.
        setup: what the shard is made of.
        whole: the world, if the process is to be a fork of this one; None: it is a new one, and builds the world.

    Attributes:
        number, setup: as given.
    """

    def __init__(self, number: int, setup: Setup, whole: Simulation | None = None) -> None:
        self.number = number
        self.setup = setup
        self._process = _new_process() if whole is None else ForkedProcess(whole)
        try:
            self._send(setup)
        except ShardLost:
            self.close()
            raise

    def ask(self, order: Order) -> None:
        """Send an order; `report` waits for its report.

        Raises:
            ShardLost: if the process has ended.
        """
        self._send(order)

    def report(self) -> Report:
        """Wait for the report of the order that was sent last, or of the setup.

        Raises:
            ShardLost: if the process has ended.
            RunError: if the shard failed.
        """
        body = receive(cast(IO[bytes], self._process.stdout))
        if not body:
            raise self._lost()
        report: Report = read_report(body)
        if report.error:
            raise RunError(report.error, hint=report.hint or None)
        return report

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what was not sent is of no use to a process that has ended

    def _send(self, record: Record) -> None:
        try:
            send(cast(IO[bytes], self._process.stdin), as_sent(record))
        except OSError:
            raise self._lost() from None

    def _lost(self) -> ShardLost:
        code = self._process.wait()
        islands = ", ".join(self.setup.islands)
        return ShardLost(f"shard {self.number} ({islands}) has ended with the exit code {code}")


def _new_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", "from sim.runner.shards.shard import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=variables(os.environ),  # noqa: TID251  # what a process needs to start; nothing of it is an input of the run
        start_new_session=True,
    )


class Forks:
    """Starts shards: each at first as a fork of this process, which has built the world, where that is possible.

    A fork starts in milliseconds, and shares the memory of what it does not change. Whatever takes its place when it
    has ended is a new process, because this one has threads by then, as it has if a program runs the scenario beside
    other work; and only on Linux can libraries be trusted to survive a fork.

    Args:
        whole: the world, of which nothing has run yet.
    """

    def __init__(self, whole: Simulation) -> None:
        self._whole = whole
        self._begun: set[int] = set()

    def __call__(self, number: int, setup: Setup) -> ShardProcess:
        """Start the shard with this number."""
        forked = number not in self._begun and sys.platform == "linux" and threading.active_count() == 1
        self._begun.add(number)
        return ShardProcess(number, setup, self._whole if forked else None)
