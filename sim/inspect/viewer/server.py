"""The page of a view on this machine, which follows a run under way. Part of the edge.

The page asks for what is new about once a second, and for blocks when it needs them. With what is new come the
unfinished answers of models, which are provisional: they are not on record. What the record does not hold is found by
replays, which begin when the page asks for them.
"""

import json
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs
from wsgiref.types import WSGIEnvironment

from sim.base.errors import SimError, UsageError
from sim.base.local_server import LOOPBACK, Address, LocalServer, Start, text_answer
from sim.inspect.viewer.blocks import FileBlocks
from sim.inspect.viewer.overview import Overview
from sim.inspect.viewer.page import MARK, Extra, Opens, about_element, shell, tabs
from sim.inspect.viewer.replays import OF_TRACES, Replays
from sim.inspect.viewer.sections import sections
from sim.inspect.viewer.view import View
from sim.kernel.codec import Json, encode
from sim.record import StoredRun, open_run
from sim.record.unfinished import read_unfinished
from sim.runner.options import ReplayOptions

_SECONDS: Final = 1.0
"""The least time between two reads of the record, as a writer commits about once a second."""

_MANY: Final = 2_000
"""With more chunks than this, the record is read less often, so that the chunks do not become too many."""

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
_LISTS: Final = ("chunks", "names", "topics", "calls", "parts")
_DIGITS: Final = 9
_LONGEST: Final = 10_000  # characters of a query, which can have the name of an agent


class ViewServer:
    """Serves the view of one run while it is used as a context manager. The run is only read.

    Args:
        stored: the run.
        port: the port on this machine; 0 selects a free port.
        opens: the tab with which the page opens.
        replay: how the run is replayed for what its record does not hold; see `ReplayOptions`. By default, changed code
            is reported and compared with the record.

    Attributes:
        url: the address of the page, with a secret: other users of this machine cannot open it without that.

    Raises:
        UsageError: if the port cannot be used.
        RunError: if the run is damaged.
    """

    def __init__(
        self, stored: StoredRun, port: int = 0, *, opens: Opens = "agents", replay: ReplayOptions | None = None
    ) -> None:
        self._site = Site(stored, opens, replay=replay or ReplayOptions(allow_change=True))
        try:
            address, hint = Address(LOOPBACK, port), "use --serve 0 for a free port"
            self._server = LocalServer(self._site, address, "view", hint, private=True)
        except UsageError:
            self._site.close()
            raise
        self.url = f"{self._server.url}/"

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)
        self._site.close()


class Site:
    """The WSGI application of the page.

    Args:
        stored: the run.
        opens: the tab with which the page opens.
        seconds: the least real time between two reads of the record.
        more: what the page has beside the view.
        replay: how the run is replayed for what its record does not hold; None: it is not replayed.
    """

    def __init__(
        self,
        stored: StoredRun,
        opens: Opens,
        *,
        seconds: float | None = None,
        more: Extra | None = None,
        replay: ReplayOptions | None = None,
    ) -> None:
        self._folder: Path = stored.path
        self._replays = None if replay is None else Replays(self._folder, replay)
        self._opens = opens
        self._seconds = _SECONDS if seconds is None else seconds
        self._more = more
        self._head, self._tail = shell(stored, sections(), follows=True, opens=opens, more=more).split(MARK)
        self._blocks = FileBlocks()
        self._lock, self._of_moments, self._of_traces = threading.Lock(), threading.Lock(), threading.Lock()
        self._view = View(stored, self._blocks)
        self._view.read(stored)
        self._version = 1
        self._read_at = time.monotonic()

    def close(self) -> None:
        """Delete the blocks, and end the replays."""
        self._blocks.close()
        if self._replays is not None:
            self._replays.close()

    def __call__(self, environ: WSGIEnvironment, start: Start) -> Iterable[bytes]:
        """Answer a request: for the page, for a block, for what is new, or for what a replay finds."""
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] != "GET":
            return text_answer(start, HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        if path == "/":
            return answer(start, self._page(), "text/html; charset=utf-8")
        if path == "/news":
            asked = parse_qs(environ.get("QUERY_STRING", "")[:1000])
            return answer(start, json.dumps(self.news(asked)).encode(), "application/json")
        if path == "/overview":
            return self._overview(start)
        kind, _, number = path[1:].partition("/")
        if kind == "block" and number.isascii() and number.isdigit() and len(number) <= _DIGITS:
            body = self._blocks.read(int(number))
            if body is not None:
                return answer(start, body, "application/octet-stream")
        if kind == "replay" and (replayed := self._replayed(number, environ.get("QUERY_STRING", ""))) is not None:
            return answer(start, json.dumps(replayed).encode(), "application/json")
        return text_answer(start, HTTPStatus.NOT_FOUND, "not found; the page is at /")

    def _replayed(self, what: str, query: str) -> dict[str, Json] | None:
        """Return what a replay finds, or None if there is no such question."""
        if self._replays is None:
            return {"error": "this page makes no replays", "hint": f"sim view {self._view.info.id} --serve has them"}
        asked = parse_qs(query[:_LONGEST], keep_blank_values=True)
        with self._of_traces if what in OF_TRACES else self._of_moments:
            return self._replays.answer(what, {name: texts[0] for name, texts in asked.items()})

    def _page(self) -> bytes:
        with self._lock:
            self._read(fresh=True)  # as far as the run is now, and not as far as a page that was open before
            about = self._about()
        return (self._head + about_element(about) + self._tail).encode()

    def _overview(self, start: Start) -> Iterable[bytes]:
        """Return the overview of what is on record now, for which the record is read."""
        try:
            with open_run(self._folder, verify=False) as stored:
                overview = Overview(stored)
                overview.folds.read()
                return answer(start, encode(overview.to_json()), "application/json")
        except SimError:  # it is being written
            return text_answer(start, HTTPStatus.SERVICE_UNAVAILABLE, "the run cannot be read now; ask again")

    def news(self, asked: dict[str, list[str]], *, fresh: bool = False) -> dict[str, Json]:
        """Return what the page does not have yet: all that has changed, and further items of its lists.

        Args:
            asked: what it has, as the parameters of its question.
            fresh: whether to read the record however short ago it was read.
        """
        counts = {name: _number(asked.get(name, [])) for name in ("version", *_LISTS)}
        version = counts.pop("version")
        with self._lock:
            self._read(fresh=fresh)
            about: dict[str, Json] = {"version": version} if version == self._version else self._about(**counts)
            running = self._view.info.status == "running"
        if running and (unfinished := read_unfinished(self._folder)):
            about["unfinished"] = [[one.agent, one.kind, one.verb, one.text] for one in unfinished]
        return about

    def _about(self, **counts: int) -> dict[str, Json]:
        follows = self._view.info.status == "running"
        page = {"opens": self._opens, "tabs": tabs(sections()), "whole": True}
        more = {} if self._more is None else self._more.about()
        return {
            **self._view.about(**counts),
            **page,
            "served": True,
            "follows": follows,
            "version": self._version,
            **more,
        }

    def _read(self, *, fresh: bool) -> None:
        """Read what is new on record, if enough time has passed."""
        now = time.monotonic()
        wait = 0 if fresh else self._seconds * max(1, len(self._view.chunks.table) / _MANY)
        if self._view.info.status != "running" or now - self._read_at < wait:
            return
        self._read_at = now
        try:
            with open_run(self._folder, verify=False) as stored:  # its log can be gone by the next read
                if self._view.read(stored):
                    self._version += 1
        except SimError:  # it is being written; the next read finds it whole
            return


def answer(start: Start, body: bytes, kind: str) -> Iterable[bytes]:
    """Answer with a body of a type, which no other site may use and no cache keeps."""
    start("200 OK", [("Content-Type", kind), ("Content-Length", str(len(body))), *_HEADERS])
    return [body]


def _number(texts: list[str]) -> int:
    text = texts[0] if texts else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0
