"""The site of a played run: the process that serves its page (edge).

It reads the record, so that this costs the run nothing. A window asks for what is new all the time, and gets an answer
when there is something, or after a few seconds. So it is known which windows are open: when the last one is closed, the
run is paused. What a window asks of the run is a request that only this page can make: its address has a secret, and it
names the page as its origin.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import sim.llm.views  # noqa: F401  # registers the views of model calls
from sim.base.errors import SimError
from sim.base.local_server import LOOPBACK, Address, LocalServer, Start, text_answer
from sim.inspect.play.gate import UPDATES
from sim.inspect.play.pipe import Pipe
from sim.inspect.play.requests import LARGEST, Leave, read_request
from sim.inspect.viewer.page import Extra
from sim.inspect.viewer.server import Site, answer
from sim.record import open_run

_WAIT: Final = 5.0
"""Real seconds after which a window gets an answer although nothing is new."""

_GONE: Final = 3.0
"""Real seconds without a question after which a window counts as closed."""

_RELOAD: Final = 1.0
"""Real seconds for which a window that says that it is left still counts as open, as it may be loaded again."""

_MOST_WINDOWS: Final = 100

_SHARE: Final = 0.5
"""The most of a core that updates of the windows may take. If they cost more, there are fewer."""

_SLOWEST: Final = 0.25
"""Real seconds between two updates of a window, at most: what came meanwhile has to be read in any case."""

_LOOK: Final = 0.25
"""Real seconds between two looks at which windows are open."""


class Windows:
    """Knows which windows of the page are open, and how soon each may be updated again.

    Args:
        clock: real time in seconds.

    Attributes:
        pause: the least real seconds between two updates of a window.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[str, int] = {}  # questions that wait for an answer, by window
        self._last: dict[str, float] = {}  # when a window got its last answer
        self.pause = 1 / UPDATES

    def asks(self, window: str) -> float:
        """Note that a window asks what is new, and return for how many real seconds it has to wait at least."""
        with self._lock:
            self._asking[window] = self._asking.get(window, 0) + 1
            last = self._last.get(window)
            return 0.0 if last is None else max(0.0, last + self.pause - self._clock())

    def answered(self, window: str, cost: float = 0.0) -> None:
        """Note that a window gets its answer.

        Args:
            window: the window.
            cost: the CPU seconds that the answer took. The next one is so late that all take `_SHARE` of a core, but
                not later than after `_SLOWEST`.
        """
        with self._lock:
            if window not in self._asking:  # it was left meanwhile: an answer that it cannot take does not open it
                return
            left = self._asking.pop(window) - 1
            if left:
                self._asking[window] = left
            self._last[window] = self._clock()
            self.pause = min(_SLOWEST, max(1 / UPDATES, cost * self._count() / _SHARE))
            while len(self._last) > _MOST_WINDOWS:
                del self._last[min(self._last, key=self._last.__getitem__)]

    def leaves(self, window: str) -> None:
        """Note that a window was closed, or is loaded again."""
        with self._lock:
            self._asking.pop(window, None)
            if window in self._last:
                self._last[window] = self._clock() - _GONE + _RELOAD

    @property
    def open(self) -> int:
        """How many are open."""
        with self._lock:
            return self._count()

    def _count(self) -> int:
        late = self._clock() - _GONE
        return len({*self._asking, *(window for window, last in self._last.items() if last > late)})


class PlaySite:
    """The WSGI application of the page.

    Args:
        ask: hands a request to the process of the run, and returns what it says about it.

    Attributes:
        windows: the windows that are open.
        served: whether it is served.
    """

    def __init__(self, ask: Callable[[bytes], Mapping[str, Any]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._site: Site | None = None
        self._run = ""
        self._news = threading.Condition()
        self._state: dict[str, Any] = {}
        self._folder = Path()
        self.windows = Windows()
        self.served = False

    def close(self) -> None:
        """Delete what is kept for the page."""
        if self._site is not None:
            self._site.close()

    def show(self, state: dict[str, Any], folder: Path) -> None:
        """Take in the state of the run, and answer the windows that wait for it."""
        with self._news:
            self._state, self._folder = state, folder
            self._news.notify_all()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answer a request: what is new, something to do, or a part of the page."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/news" and method == "GET":
            return answer(start, self._answer(environ), "application/json")
        if path == "/do":
            return self._do(environ, start)
        return self._view()(environ, start)

    def _view(self) -> Site:
        """Return the view of the run that is played now."""
        with self._lock:
            folder = self._folder
            if self._site is None or folder.name != self._run:
                more = Extra(*_resources(), lambda: {"live": self._state, "opens": "play"})
                with open_run(folder, verify=False) as stored:
                    site = Site(stored, "agents", seconds=0, more=more)
                self.close()
                self._site, self._run = site, folder.name
            return self._site

    def _answer(self, environ: Mapping[str, Any]) -> bytes:
        """Wait until there is something new for a window, and return it."""
        asked = parse_qs(environ.get("QUERY_STRING", "")[:1000])
        window, run = asked.get("window", [""])[0][:40], asked.get("run", [""])[0]
        version = asked.get("live", ["-1"])[0]
        time.sleep(self.windows.asks(window))
        cost = 0.0
        try:
            with self._news:
                self._news.wait_for(lambda: str(self._state["version"]) != version, _WAIT)
                state = self._state
            begun = time.thread_time()
            news = {} if state["run"] != run else self._view().news(asked)  # the window loads the page of another run
            body = json.dumps({**news, "live": state}).encode()
            cost = time.thread_time() - begun
            return body
        finally:
            self.windows.answered(window, cost)

    def _do(self, environ: Mapping[str, Any], start: Start) -> Iterable[bytes]:
        """Do what a window asks for."""
        if environ["REQUEST_METHOD"] != "POST":
            return text_answer(start, HTTPStatus.METHOD_NOT_ALLOWED, "use POST")
        if environ.get("HTTP_ORIGIN") != f"http://{environ.get('HTTP_HOST')}":
            return text_answer(start, HTTPStatus.FORBIDDEN, "only the page itself may ask for that")
        length = environ.get("CONTENT_LENGTH") or "0"
        if environ.get("CONTENT_TYPE", "").partition(";")[0] != "application/json" or not length.isdigit():
            return text_answer(start, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON")
        if len(length) > 9 or int(length) > LARGEST:
            return text_answer(start, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {LARGEST:,} bytes")
        body = environ["wsgi.input"].read(int(length))
        try:
            request = read_request(body)
        except ValueError as error:
            return text_answer(start, HTTPStatus.BAD_REQUEST, f"this is no request of the page: {error!s:.200}")
        if isinstance(request, Leave):
            self.windows.leaves(request.window[:40])
            return answer(start, b"{}", "application/json")
        return answer(start, json.dumps(self._ask(body)).encode(), "application/json")


@cache
def _resources() -> tuple[str, str]:
    """Return the style and the script that the page has beside those of the view."""
    package = files("sim.inspect.play")
    style, script = ((package / name).read_text(encoding="utf-8") for name in ("play.css", "play.js"))
    return style, script


class _Asked:
    """Requests that the process of the run carries out, and its answers."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._changed = threading.Condition()
        self._number = 0
        self._answers: dict[int, Mapping[str, Any]] = {}

    def ask(self, body: bytes) -> Mapping[str, Any]:
        """Hand on a request, and wait for what is said about it."""
        with self._changed:
            self._number += 1
            number = self._number
        self._pipe.send({"number": number, "request": body.decode()})
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    def answered(self, number: int, answer: Mapping[str, Any]) -> None:
        """Take in the answer to a request."""
        with self._changed:
            self._answers[number] = answer
            self._changed.notify_all()


def _watch(windows: Windows, pipe: Pipe) -> None:
    """Tell the process of the run when its last window was closed."""
    had = False
    while True:
        time.sleep(_LOOK)
        count = windows.open
        if had and not count:
            pipe.send({"alone": True})
        had = count > 0


def main() -> None:
    """Serve the page until the process of the run has ended, or closes the pipe."""
    pipe = Pipe(sys.stdin.buffer, sys.stdout.buffer)
    asked = _Asked(pipe)
    site = PlaySite(asked.ask)
    messages = iter(pipe)
    try:
        address, hint = Address(LOOPBACK, next(messages)["port"]), "give another port, or none"
        server = LocalServer(site, address, "play", hint, private=True)
    except SimError as error:
        pipe.send({"error": str(error), "hint": error.hint})
        return
    for message in messages:
        if "answer" in message:
            asked.answered(message["number"], message["answer"])
            continue
        site.show(message["state"], Path(message["folder"]))
        if not site.served:  # there is a run to show
            site.served = True
            server.__enter__()
            threading.Thread(target=_watch, args=(site.windows, pipe), name="sim-windows", daemon=True).start()
            pipe.send({"url": f"{server.url}/"})
    site.close()
    os._exit(0)  # threads that still wait for answers get none
