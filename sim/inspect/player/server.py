"""The server of a played run: its page on this machine, and what its windows ask for. Part of the edge.

A window asks for what is new all the time, and gets an answer when there is something, or after a few seconds. So the
server knows which windows are open: when the last one is closed, the run is held. What a window has the run do is a
request that only this page can make: its address has a secret, and it names the page as its origin.
"""

import json
import threading
import time
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, Self
from urllib.parse import parse_qs

import attrs

from sim.base.errors import SimError, UsageError
from sim.base.local_server import LOOPBACK, Address, LocalServer, Start, text_answer
from sim.base.shown import shown
from sim.inspect.player.gate import UPDATES
from sim.inspect.player.player import Player
from sim.inspect.viewer.page import Extra
from sim.inspect.viewer.server import Site, answer
from sim.record import open_run
from sim.runner.options import RunOptions, taking
from sim.runner.running import Source

_WAIT: Final = 5.0
"""Real seconds after which a window gets an answer although nothing is new."""

_GONE: Final = 3.0
"""Real seconds without a question after which a window counts as closed."""

_LARGEST: Final = 65_536  # bytes of a request

_MOST_WINDOWS: Final = 100


@attrs.frozen(kw_only=True)
class PlayOptions(RunOptions):
    """How a scenario is played.

    Args:
        browser: whether to open the page in the browser.
        port: the port of the page on this machine; None selects a free one.
    """

    browser: bool = True
    port: int | None = attrs.field(
        default=None, metadata=shown("The port of the page on this machine. Default: a free one.", least=0, most=65535)
    )


class Windows:
    """Knows which windows of the page are open.

    Args:
        clock: real time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[str, int] = {}  # questions that wait for an answer, by window
        self._last: dict[str, float] = {}  # when a window got its last answer

    def asks(self, window: str) -> float:
        """Note that a window asks what is new, and return for how many real seconds it has to wait at least."""
        with self._lock:
            self._asking[window] = self._asking.get(window, 0) + 1
            last = self._last.get(window)
            return 0.0 if last is None else max(0.0, last + 1 / UPDATES - self._clock())

    def answered(self, window: str) -> None:
        """Note that a window gets its answer."""
        with self._lock:
            left = self._asking.pop(window, 1) - 1
            if left:
                self._asking[window] = left
            self._last[window] = self._clock()
            while len(self._last) > _MOST_WINDOWS:
                del self._last[min(self._last, key=self._last.__getitem__)]

    def leaves(self, window: str) -> None:
        """Note that a window was closed."""
        with self._lock:
            self._asking.pop(window, None)
            self._last.pop(window, None)

    @property
    def open(self) -> int:
        """How many are open."""
        with self._lock:
            late = self._clock() - _GONE
            return len({*self._asking, *(window for window, last in self._last.items() if last > late)})


class PlayServer:
    """Serves the page of a player, until `close` or the end of the block of a `with`.

    Args:
        player: the player. It is closed at the end.
        port: the port on this machine; 0 selects a free port.

    Attributes:
        player: the player.
        url: the address of the page, with a secret: other users of this machine cannot open it without that.

    Raises:
        UsageError: if the port cannot be used.
    """

    def __init__(self, player: Player, port: int = 0) -> None:
        self.player = player
        site = _PlaySite(player)
        self._site = site
        try:
            hint = "give another port, or none"
            self._server = LocalServer(site, Address(LOOPBACK, port), "play", hint, private=True)
        except UsageError:
            site.close()
            player.close()
            raise
        self.url = f"{self._server.url}/"
        self._ended = threading.Event()
        self._server.__enter__()
        threading.Thread(target=self._hold_alone, name="sim-windows", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until `close`, or Ctrl-C."""
        self._ended.wait()

    def close(self) -> None:
        """End the run and the server. A second call does nothing."""
        if not self._ended.is_set():
            self._ended.set()
            self.player.close()
            self._server.__exit__()
            self._site.close()

    def _hold_alone(self) -> None:
        """Hold the run when its last window was closed."""
        had = False
        while not self._ended.wait(0.25):
            count = self._site.windows.open
            if had and not count and self.player.going:
                self.player.hold("paused: the last window was closed")
            had = count > 0


class _PlaySite:
    """The WSGI application of the page."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._lock = threading.Lock()
        self._site: Site | None = None
        self._run = ""
        self.windows = Windows()

    def close(self) -> None:
        """Delete what is kept for the page."""
        if self._site is not None:
            self._site.close()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answer a request: what is new, something to do, or a part of the page."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/news" and method == "GET":
            return answer(start, json.dumps(self._news(environ)).encode(), "application/json")
        if path == "/do":
            return self._do(environ, start)
        return self._view()(environ, start)

    def _view(self) -> Site:
        """Return the view of the run that is played now."""
        with self._lock:
            folder = self._player.folder
            if self._site is None or folder.name != self._run:
                more = Extra(*_resources(), lambda: {"live": self._player.state(), "opens": "play"})
                with open_run(folder, verify=False) as stored:
                    site = Site(stored, "agents", seconds=1 / UPDATES, more=more)
                self.close()
                self._site, self._run = site, folder.name
            return self._site

    def _news(self, environ: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until there is something new for a window, and return it."""
        asked = parse_qs(environ.get("QUERY_STRING", "")[:1000])
        window, run = asked.get("window", [""])[0][:40], asked.get("run", [""])[0]
        known = asked.get("live", ["-1"])[0]
        player = self._player
        early = self.windows.asks(window)
        try:
            time.sleep(early)
            with player.news:
                player.news.wait_for(lambda: str(player.version) != known, _WAIT)
            state = player.state()
            if state["run"] != run:  # the window loads the page of that run
                return {"live": state}
            found = self._view().news(asked, fresh=state["phase"] != "going")
            return {**found, "live": state}
        finally:
            self.windows.answered(window)

    def _do(self, environ: Mapping[str, Any], start: Start) -> Iterable[bytes]:
        """Do what a window asks for."""
        if environ["REQUEST_METHOD"] != "POST":
            return text_answer(start, HTTPStatus.METHOD_NOT_ALLOWED, "use POST")
        if environ.get("HTTP_ORIGIN") != f"http://{environ.get('HTTP_HOST')}":
            return text_answer(start, HTTPStatus.FORBIDDEN, "only the page itself may ask for that")
        length = environ.get("CONTENT_LENGTH") or "0"
        if environ.get("CONTENT_TYPE", "").partition(";")[0] != "application/json" or not length.isdigit():
            return text_answer(start, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON")
        if int(length) > _LARGEST:
            return text_answer(start, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {_LARGEST:,} bytes")
        try:
            given = json.loads(environ["wsgi.input"].read(int(length)))
            told = self._carry_out(given)
        except (ValueError, KeyError, TypeError, AttributeError):
            return text_answer(start, HTTPStatus.BAD_REQUEST, "this is no request of the page")
        except SimError as error:
            told = {"error": str(error), "hint": error.hint}
        return answer(start, json.dumps(told).encode(), "application/json")

    def _carry_out(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a request, and return what the page says about it."""
        player, name = self._player, given["do"]
        match name:
            case "setup" | "again" | "go" | "hold" | "stop":
                getattr(player, name)()
            case "step":
                player.step(given["kind"], str(given.get("agent", "")))
            case "pace":
                player.pace(given["speed"])
            case "set":
                player.set(str(given["name"]), given["value"])
            case "tell":
                player.say(str(given["agent"]), str(given["text"]))
            case "approve":
                player.decide(str(given["gate"]), deny=given["deny"] is True)
            case "write":
                return {"said": player.write(str(given["file"]))}
            case "leave":
                self.windows.leaves(str(given["window"])[:40])
            case _:
                raise KeyError(name)
        return {}


@cache
def _resources() -> tuple[str, str]:
    """Return the style and the script that the page has beside those of the view."""
    package = files("sim.inspect.player")
    style, script = ((package / name).read_text(encoding="utf-8") for name in ("play.css", "play.js"))
    return style, script


@taking(PlayOptions)
def play(scenario: Source, options: PlayOptions) -> PlayServer:
    """Play a scenario: show a live model on a page in the browser, which starts, holds, steps and changes its run.

    It returns at once; the page is served until `close`, or until the end of the block of a `with`.

    Args:
        scenario: a scenario, the path of a scenario file, a mapping with the keys of such a file, or PACKAGE:NAME of
            one of an installed package.
        options: see `PlayOptions`. Each run gets a run folder, by default in `runs`.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong.
    """
    server = PlayServer(Player(scenario, options), options.port or 0)
    if options.browser:
        webbrowser.open(server.url)
    return server
