"""The link to one worker: bytes, over standard input and output of a process on this machine (edge)."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.abc

from sim.base.errors import RunError

_PROGRAM: Final = "sim.llm.workers.program"
_CHUNK: Final = 1 << 18  # bytes received at once
_GRACE: Final = 2.0  # seconds in which a worker must end after its input was closed
_KEPT_ERRORS: Final = 2000  # bytes of standard error that are kept, to say why it ended

_VARIABLES: Final = (
    "PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR",
)  # fmt: skip
"""The variables that a worker gets: those of the run can hold keys."""

_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class Link(Protocol):
    """Bytes to and from one worker."""

    async def send(self, data: bytes) -> bool:
        """Send bytes, and return whether the worker still takes them."""

    async def receive(self) -> bytes:
        """Return the next bytes, or none when the worker has ended."""

    async def collect_errors(self) -> None:
        """Keep the end of what the worker writes to standard error."""

    async def ended(self) -> str:
        """End what is left of the worker, and return how it ended, as part of a sentence."""

    async def close(self, *, kill: bool = False) -> None:
        """Have the worker end; kill it, at once or if it does not end."""


class ProcessLink:
    """A worker process. Its keys come over the pipe, and are not in its arguments or variables."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._errors = b""

    @classmethod
    async def open(cls) -> "ProcessLink":
        """Start a process.

        Raises:
            RunError: if this Python does not know its own program.
        """
        if not sys.executable:
            raise RunError("worker processes for model calls need a Python that knows its own program")
        own = os.environ  # noqa: TID251  # what a process needs to start; nothing of it is an input of the run
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=variables(own), start_new_session=True,
        )  # fmt: skip
        return cls(process)

    async def send(self, data: bytes) -> bool:
        """Send bytes, and return whether the worker still takes them."""
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except _LOST:
            return False
        return True

    async def receive(self) -> bytes:
        """Return the next bytes, or none when the worker has ended."""
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.receive(_CHUNK)
        except _LOST:
            return b""

    async def collect_errors(self) -> None:
        """Keep the end of what the worker writes to standard error."""
        assert self._process.stderr is not None
        with suppress(*_LOST):
            async for chunk in self._process.stderr:
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]

    async def ended(self) -> str:
        """End what is left of the process, and return how it ended, as part of a sentence."""
        with anyio.move_on_after(_GRACE, shield=True):  # it closes its output when it ends
            await self._process.wait()
            await self.collect_errors()
        await self.close(kill=True)
        lines = [line.strip() for line in self._errors.decode(errors="replace").splitlines() if line.strip()]
        code = self._process.returncode
        how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return f"{how}: {lines[-1]}" if lines else how

    async def close(self, *, kill: bool = False) -> None:
        """Close the input, so that the worker ends; kill it, at once or if it does not end."""
        process = self._process
        assert process.stdin is not None
        with anyio.CancelScope(shield=True):
            with suppress(*_LOST):
                await process.stdin.aclose()
            if not kill:
                with anyio.move_on_after(_GRACE):
                    await process.wait()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
            with suppress(*_LOST):
                await process.aclose()


def variables(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a worker: those that it needs to start, and where `sim` is."""
    found = {name: own[name] for name in _VARIABLES if name in own}
    return {**found, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
