"""Blocks: compressed parts of the data of a view, numbered from 0. The page decodes one when it needs it."""

import base64
import tempfile
import threading
import zlib
from typing import IO, Final, Protocol

from sim.base.errors import RunError

MOST_BYTES: Final = 400 * 10**6
"""The largest page that is written."""

_LEVEL: Final = 5
"""Of zlib: a third faster than 6, for blocks that are 2 % larger."""


class Blocks(Protocol):
    """Takes blocks, in order."""

    def add(self, text: bytes) -> int:
        """Compress and keep a block, and return its number."""


class PageTooLarge(RunError):
    """A page would be larger than browsers can open."""


class NoBlocks:
    """Takes blocks, and keeps none."""

    def add(self, text: bytes) -> int:
        """Forget a block."""
        return -1


class PageBlocks:
    """Blocks in a page, each as an element that is no script.

    Args:
        page: the file of the page.

    Raises:
        PageTooLarge: if a block would make the page larger than browsers can open.
    """

    def __init__(self, page: IO[str]) -> None:
        self._page = page
        self._count = self._size = 0

    def add(self, text: bytes) -> int:
        """Write a block, and return its number."""
        number = self._count
        self._count += 1
        body = base64.b64encode(zlib.compress(text, _LEVEL)).decode()
        self._size += len(body)
        if self._size > MOST_BYTES:
            raise PageTooLarge(
                f"the page would have more than {MOST_BYTES // 10**6} MB, which browsers cannot open",
                hint="use --serve, with which the page loads only what it shows",
            )
        self._page.write(f'<script type="application/octet-stream" id="block-{number}">{body}</script>\n')
        return number


class FileBlocks:
    """Blocks in a temporary file, for a server. Threads may read them while one thread adds some."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        self._places: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def add(self, text: bytes) -> int:
        """Keep a block, and return its number."""
        body = zlib.compress(text, _LEVEL)
        with self._lock:
            begin = self._file.seek(0, 2)
            self._file.write(body)
            self._places.append((begin, len(body)))
            return len(self._places) - 1

    def read(self, number: int) -> bytes | None:
        """Return a block as it is compressed; None if there is none of this number."""
        with self._lock:
            if not 0 <= number < len(self._places):
                return None
            begin, length = self._places[number]
            self._file.seek(begin)
            return self._file.read(length)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()
