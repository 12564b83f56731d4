"""The server of a played run: carries out what the windows of its page ask, and tells them of its state (edge).

The page is served by a process of its own (`site`), which reads the record. So an open window costs the process of the
run little: a few figures, at most `UPDATES` times a second.
"""

import logging
import os
import subprocess
import sys
import threading
import time
import webbrowser
from typing import Any, Final, Self, cast

import attrs

from sim.base.child import variables
from sim.base.errors import RunError, SimError, UsageError
from sim.base.shown import shown
from sim.base.text import plain
from sim.inspect.play.gate import UPDATES
from sim.inspect.play.pipe import Pipe
from sim.inspect.play.player import ScenarioPlayer
from sim.inspect.play.requests import read_request
from sim.runner.options import RunOptions, taking
from sim.runner.running import Source

_SHARE: Final = 0.02
"""The most of a core that the state of the run may take, for the windows. If it costs more, it is sent less often."""

_AT_LEAST: Final = 1.0
"""Real seconds after which the windows of a run that is being computed are updated in any case."""

_ENDING: Final = 5.0
"""Real seconds in which the process that serves the page has to end by itself."""

_LOG = logging.getLogger("sim.play")


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


class PageProcess:
    """The process that serves the page. It takes a second to start, during which the first run can be set up.

    Args:
        port: the port on this machine; 0 selects a free port.

    Raises:
        RunError: if the system does not start it.
    """

    def __init__(self, port: int = 0) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from sim.inspect.play.site import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=variables(os.environ),  # noqa: TID251  # what a process needs to start; keys are not part of it
                start_new_session=True,
            )
        except OSError as error:
            raise RunError(f"the process of the page cannot be started: {error.strerror or error}") from error
        self.pipe = Pipe(cast(Any, self._process.stdout), cast(Any, self._process.stdin))
        self.pipe.send({"port": port})

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def close(self) -> None:
        """End it."""
        self.pipe.close()
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        cast(Any, self._process.stdout).close()


class PlayServer:
    """Serves the page of a player, until `close` or the end of the block of a `with`.

    Args:
        player: the player. It is closed at the end.
        port: the port on this machine; 0 selects a free port.
        page: the process of the page, if it was started already; then its port counts.

    Attributes:
        player: the player.
        url: the address of the page, with a secret: other users of this machine cannot open it without that.

    Raises:
        UsageError: if the port cannot be used.
    """

    def __init__(self, player: ScenarioPlayer, port: int = 0, page: PageProcess | None = None) -> None:
        self.player = player
        self._page = PageProcess(port) if page is None else page
        self._ended = threading.Event()
        self._closing = False
        messages = iter(self._page.pipe)
        self._send_state()
        first: dict[str, Any] = next(messages, {"error": "the process that serves the page has ended", "hint": None})
        if "error" in first:
            self._page.close()
            player.close()
            raise UsageError(first["error"], hint=first["hint"])
        self.url: str = first["url"]
        threading.Thread(target=self._listen, args=(messages,), name="sim-windows", daemon=True).start()
        threading.Thread(target=self._speak, name="sim-state", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until `close`, or Ctrl-C.

        Raises:
            RunError: if the process that serves the page has ended. The run is paused then.
        """
        self._ended.wait()
        if not self._closing:
            raise RunError("the process that serves the page has ended", hint="sim play again; sim resume continues")

    def close(self) -> None:
        """End the run and the server. A second call does nothing."""
        if not self._closing:
            self._closing = True
            self._ended.set()
            self.player.close()
            self._page.close()

    def _listen(self, messages: Any) -> None:
        """Carry out what windows ask, one after the other, so that setups, stops and steps do not meet."""
        try:
            for message in messages:
                if "alone" in message:
                    if self.player.going:
                        self.player.hold("paused: the last window was closed")
                else:
                    self._page.pipe.send({"number": message["number"], "answer": self._carry_out(message["request"])})
            if not self._closing:
                self.player.hold("paused: the process that serves the page has ended")
        finally:
            self._ended.set()
            self._page.pipe.close()  # the process of the page ends with it: what it asks would have no answer

    def _carry_out(self, request: str) -> dict[str, Any]:
        """Carry out a request, and return what the page says about it."""
        try:
            return {"said": read_request(request.encode()).carry_out(self.player)}
        except SimError as error:
            return {"error": str(error), "hint": error.hint}
        except Exception as error:  # an internal error: the page and the log show it, and the run continues
            text = plain(f"{type(error).__name__}: {error!s:.300}")
            _LOG.exception("sim: error: play: %s", text)
            return {"error": f"internal error, see the log of the program: {text}", "hint": None}

    def _speak(self) -> None:
        """Send the state of the run whenever there is something new."""
        player, sent = self.player, -1
        while not self._ended.is_set():
            with player.news:
                while player.version == sent and not self._ended.is_set():
                    if not player.news.wait(_AT_LEAST) and player.going:
                        player.tell()  # what waits for a person is news, although nothing happens then
                sent = player.version
            begun = time.thread_time()
            try:
                self._send_state()
            except Exception as error:  # an internal error: the next state is sent again
                _LOG.exception("sim: error: play: %s", plain(f"{type(error).__name__}: {error!s:.300}"))
            self._ended.wait(max(1 / UPDATES, (time.thread_time() - begun) / _SHARE))

    def _send_state(self) -> None:
        self._page.pipe.send({"state": self.player.state(), "folder": str(self.player.folder.resolve())})


@taking(PlayOptions)
def play(scenario: Source, options: PlayOptions) -> PlayServer:
    """Play a scenario: show a live model on a page in the browser, which starts, pauses, steps and changes its run.

    It returns at once; the page is served until `close`, or until the end of the block of a `with`.

    Args:
        scenario: a scenario, the path of a scenario file, a mapping with the keys of such a file, or PACKAGE:NAME of
            one of an installed package.
        options: see `PlayOptions`. Each run gets a run folder, by default in `runs`.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong.
        RunError: if the page cannot be served.
    """
    page = PageProcess(options.port or 0)  # first: it starts while this process loads the scenario
    try:
        player = ScenarioPlayer(scenario, options)
    except BaseException:
        page.close()
        raise
    server = PlayServer(player, page=page)
    if options.browser:
        webbrowser.open(server.url)
    return server
