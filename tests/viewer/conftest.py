"""Runs to look at, of scenarios and made up event by event; and their pages, read back as the script of a page does."""

import base64
import json
import re
import types
import typing
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

import sim
from sim.events.event_type import EventData, read_data, type_of
from sim.inspect.viewer import write_view
from sim.inspect.viewer.overview import Overview
from sim.record import RunHeader, RunRecorder, StoredRun, create_run, open_run
from tests.event_checks import CHECKS
from tests.viewer.browser import CHROMIUM, Browser

Stored = Callable[..., StoredRun]
SECOND = 10**9
HOSTILE = '"><script>document.title="hacked"</script>\n\x1b[31m\u202eevil\u2028&amp;'


def states(agent: str, *changes: tuple[float, str]) -> list[tuple[float, str, str, Any]]:
    """Return the events of an agent that goes from one state to the next at the times given."""
    before, events = "stopped", []
    for time, after in changes:
        events.append((time, agent, "agent.state", {"from": before, "to": after, "reason": ""}))
        before = after
    return events


MadeUp = Sequence[tuple[float, str, str, Any]]


def filled(events: MadeUp) -> list[tuple[float, str, str, Any]]:
    """Return made-up events with the form of their topics: fields that they leave out are 0, false, empty or null."""
    found: list[tuple[float, str, str, Any]] = []
    for time, actor, topic, data in events:
        kind = type_of(topic)
        assert kind is not None, topic
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind) if field.required}
        found.append((time, actor, topic, {name: _nothing(field.type) for name, field in fields.items()} | data))
        assert isinstance(read_data(topic, found[-1][3]), EventData), topic
    return found


def _nothing(kind: Any) -> Any:
    """Return the plainest value of a type."""
    if type(None) in typing.get_args(kind) or kind is Any:
        return None
    first = typing.get_args(kind)[0] if isinstance(kind, types.UnionType) else typing.get_origin(kind) or kind
    return first()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    """Record made-up events (time in seconds, actor, topic, data) in order of time, and open the run.

    `scenario` is its text, `seconds` when it ended, `digest` its final state; others go into the header.
    """
    opened: list[StoredRun] = []
    CHECKS.active = False  # they need not fit their event types

    def record(
        events: list[tuple[float, str, str, Any]], *, scenario: str = "name: town\n", seconds: float = 100,
        digest: dict[str, Any] | None = None, **header: Any,
    ) -> StoredRun:  # fmt: skip
        given: dict[str, Any] = {"name": "town", "seed": 7, "mode": "autonomous", "backend": "asyncio"} | header
        with RunRecorder(create_run(tmp_path / "runs", RunHeader(**given), scenario)) as recorder:
            for number, (time, actor, topic, data) in enumerate(sorted(events, key=lambda event: event[0])):
                recorder.event((round(time * SECOND), 0, 0, 20, number, actor, topic, data, None))
            recorder.finish("finished", digest or {}, round(seconds * SECOND), {})
        opened.append(open_run(recorder.folder))
        return opened[-1]

    yield record
    for run in opened:
        run.close()


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Stored]:
    """Run the text of a scenario and open the run."""
    opened: list[StoredRun] = []

    def run(text: str, **options: Any) -> StoredRun:
        file = tmp_path / "scenario.yaml"
        file.write_text(text, encoding="utf-8")
        folder = sim.run(file, out=tmp_path / "runs", **options).run
        assert folder is not None
        opened.append(open_run(Path(folder)))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A Chromium with an empty page; without one on the machine the test is skipped."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine (apt-get install chromium)")
    with Browser(tmp_path / "profile") as opened:
        yield opened


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


def overview_of(run: StoredRun) -> dict[str, Any]:
    """Return the overview of a run, with the data of its sections by name."""
    overview = Overview(run)
    overview.folds.read()
    found: Any = overview.to_json()
    return {**found, "sections": {one["name"]: one["data"] for one in found["sections"]}}
