"""The pipe between the process of a run and the one that serves its page: a line of JSON for each message (edge)."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any


class Pipe:
    """One end of it. Several threads may send.

    Args:
        incoming: what the other process sends.
        outgoing: what it gets.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. It is left out if the other process has ended."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError, ValueError):
            self._outgoing.write(line)
            self._outgoing.flush()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the other process until it has ended, or closed its end."""
        with suppress(OSError, ValueError):
            while line := self._incoming.readline():
                yield json.loads(line)

    def close(self) -> None:
        """Let the other process know that there will be no more."""
        with self._lock, suppress(OSError):
            self._outgoing.close()
