"""Views of runs, read back from their pages as the script of the page does."""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from sim.inspect.viewer import write_view
from sim.record import StoredRun
from tests.report.conftest import browser as browser
from tests.report.conftest import ran as ran
from tests.report.conftest import stored as stored

_BLOCK = re.compile(r'<script type="application/octet-stream" id="block-(\d+)">([A-Za-z0-9+/=]*)</script>')
_ABOUT = re.compile(r'<script type="application/json" id="about">(.*?)</script>')


@attrs.frozen
class Page:
    """A page that was written: what it says of the run, and its blocks.

    Attributes:
        file: the page.
        about: what it says of the whole run.
        blocks: the text of each block.
    """

    file: Path
    about: dict[str, Any]
    blocks: list[bytes]

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield what each chunk has beside its events."""
        for frame, *_ in self.about["chunks"]:
            yield json.loads(self.blocks[frame])

    def lines(self) -> Iterator[bytes]:
        """Yield the events of all chunks, as they are in the page."""
        for _, lines, *_ in self.about["chunks"]:
            yield from self.blocks[lines].split(b"\n")

    def name(self, label: str) -> int:
        """Return the number of a name."""
        return int(self.about["names"].index(label))


def read(file: Path) -> Page:
    """Read a page."""
    text = file.read_text(encoding="utf-8")
    blocks = [zlib.decompress(base64.b64decode(body)) for _, body in _BLOCK.findall(text)]
    (about,) = _ABOUT.findall(text)
    return Page(file, json.loads(about), blocks)


def page_of(run: StoredRun) -> Page:
    """Write the page of a run, and read it."""
    return read(write_view(run).file)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a chunk after 64 events, so that small runs have several."""
    monkeypatch.setattr("sim.inspect.viewer.chunks.MOST_EVENTS", 64)
