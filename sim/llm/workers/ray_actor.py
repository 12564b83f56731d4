"""A worker as an actor of Ray, in a process on a machine of its cluster (edge).

Whatever it takes and returns is bytes, which Ray moves as they are, and no method raises: an error would be pickled.
"""

import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio

from sim.base.source import package_hash
from sim.llm.workers.program import serve
from sim.llm.workers.sealing import Seal

_KEY: Final = 32  # bytes of a public key


class WorkerActor:
    """Makes the calls of endpoints as `program` does. It ends with the run, as Ray ends the actors of a process.

    Args:
        abort: ends the process at once, see `serve`; None: as systems do.
    """

    def __init__(self, abort: Callable[[], None] | None = None) -> None:
        self._abort = abort or partial(os._exit, 1)
        self._seal = Seal()
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._leaving: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._problem = ""
        threading.Thread(target=self._serve, daemon=True).start()

    def hello(self) -> bytes:
        """Return the public key of this worker, and the hash of its code; see `greeting`."""
        return self._seal.public + package_hash().encode()

    def put(self, data: bytes) -> bytes:
        """Take bytes of the run."""
        self._arrived.put(data)
        return b""

    def take(self) -> bytes:
        """Wait for bytes for the run, and return all that there are; none: the worker has ended."""
        parts = [self._leaving.get()]
        while parts[-1] and not self._leaving.empty():
            parts.append(self._leaving.get())
        if not parts[-1]:
            self._leaving.put(b"")  # it has ended for the next call, too
        return b"".join(parts)

    def why(self) -> bytes:
        """Return why it has ended, as part of a sentence."""
        return self._problem.encode(errors="replace")

    def _serve(self) -> None:
        try:
            anyio.run(serve, self._arrived.get, self._leaving.put, self._abort, self._seal.opened)
        except Exception as error:  # an error of its own, after which it takes nothing any more
            self._problem = f"ended with an error: {type(error).__name__}: {error}"
        self._leaving.put(b"")


def greeting(said: bytes) -> tuple[bytes, str]:
    """Return the public key and the hash of the code that a worker has said."""
    return said[:_KEY], said[_KEY:].decode()
