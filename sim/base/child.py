"""A child process of this one, with pipes to it (edge)."""

import codecs
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from sim.base.errors import RunError

_KEPT: Final = 2000  # characters of standard error that are kept, to say why the process ended

_LOST: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
"""How libraries say that the other end of a pipe is closed."""

_SHORT: Final = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_HINT: Final = "it needs memory, a process and open files (ulimit -a shows their limits); fewer processes need less"

_VARIABLES: Final = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TMPDIR", "TEMP", "TMP",
)  # fmt: skip
"""The variables that a child gets which is a part of this program."""

_CLOSING: Final = 5.0  # seconds in which its pipes must close; what it has started itself can keep them open

if sys.platform == "win32":
    _KILL: Final = signal.SIGTERM
else:
    _KILL = signal.SIGKILL


class Child:
    """A process that is written to and read from. It leads a session of its own, so Ctrl-C reaches this process only.

    Args:
        process: the process.
        cut: removes secrets from a text. What the process writes to standard error is shown without them.
    """

    def __init__(self, process: anyio.abc.Process, cut: Callable[[str], str] = str) -> None:
        self._process = process
        self._cut = cut
        self._errors = ""

    @classmethod
    async def start(
        cls,
        what: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str | os.PathLike[str] | None = None,
        errors: bool = True,
        cut: Callable[[str], str] = str,
    ) -> "Child":
        """Start a process.

        Args:
            what: what it is, for an error.
            command: the program and its arguments.
            environment: all of its variables.
            folder: its folder; None: that of this process.
            errors: whether its standard error is kept.
            cut: as of the class.

        Raises:
            RunError: if the system does not start it.
        """
        try:
            process = await anyio.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if errors else subprocess.DEVNULL,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            hint = _HINT if error.errno in _SHORT else None
            raise RunError(f"{what} cannot be started: {error.strerror or error}", hint=hint) from error
        return cls(process, cut)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None: it is not known to have ended."""
        return self._process.returncode

    async def send(self, data: bytes) -> bool:
        """Send bytes to its standard input, and return whether it still takes them."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except _LOST:
            return False
        return True

    async def receive(self, most: int = 1 << 16) -> bytes:
        """Return the next bytes of its standard output, at most `most`; none: there will be no more."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive(most)
        except _LOST:
            return b""

    async def collect_errors(self) -> None:
        """Read its standard error to the end, and keep the last of it.

        Secrets are removed before the text is cut, because half a secret would not be found any more.
        """
        stream = self._process.stderr
        assert stream is not None, "it was started to be kept"
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        with suppress(*_LOST):
            async for chunk in stream:
                self._errors = self._cut(self._errors + decode(chunk))[-_KEPT:]

    async def ended_in(self, seconds: float) -> bool:
        """Wait for its end for so long, and return whether it has ended."""
        with anyio.move_on_after(seconds):
            await self._process.wait()
        return self.code is not None

    def how(self) -> str:
        """Return how it ended, as part of a sentence, with the last line of its standard error."""
        if self.code is None:
            how = "closed its output"
        else:
            how = f"was ended by signal {-self.code}" if self.code < 0 else f"ended with exit code {self.code}"
        lines = [line.strip() for line in self._errors.splitlines() if line.strip()]
        return f"{how}: {lines[-1]}" if lines else how

    async def close(self, grace: float, *, terminate: bool = False) -> None:
        """Close its standard input; kill it, with its process group, if that does not end it.

        Args:
            grace: seconds in which it has to end.
            terminate: whether it gets SIGTERM, and the same time again, before it is killed.
        """
        assert self._process.stdin is not None
        with anyio.CancelScope(shield=True):
            with suppress(*_LOST):
                await self._process.stdin.aclose()
            if not await self.ended_in(grace) and terminate:
                _signal_group(self.pid, signal.SIGTERM)
                await self.ended_in(grace)
            self.kill()
            with suppress(*_LOST), anyio.move_on_after(_CLOSING):
                await self._process.aclose()

    def kill(self) -> None:
        """Kill it with its process group."""
        kill_group(self.pid)


def variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a child that is a part of this program: those with which it starts and finds modules.

    It gets no others, because those of a run can be keys.

    Args:
        own: the variables of this process.
    """
    kept = {name: own[name] for name in _VARIABLES if name in own}
    further = [part for part in own.get("PYTHONPATH", "").split(os.pathsep) if part]
    return {**kept, "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2]), *further])}


def kill_group(pid: int) -> None:
    """Kill a process that leads a group, with its group if the system has groups."""
    _signal_group(pid, _KILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(OSError):
        if sys.platform == "win32":
            os.kill(pid, number)
        else:
            os.killpg(pid, number)
