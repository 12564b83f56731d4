"""A real Chromium without a screen, driven over a pipe in its own protocol (CDP): no driver and no port."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The browser hears commands on 3 and answers on 4; the pipes have higher numbers."""


class Browser:
    """One page in one browser.

    Args:
        home: an empty folder for its profile.

    Attributes:
        said: what went wrong on the page: errors, warnings, and what its policy refused.
        asked: the addresses that it wanted to load.
    """

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None
        self.said: list[str] = []
        self.asked: list[str] = []
        self._number = 0
        self._rest = b""
        self._loads = 0
        ours_out, theirs_in = os.pipe()[::-1]
        theirs_out, ours_in = os.pipe()[::-1]
        self._out, self._in = ours_out, ours_in
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START,
                str(theirs_in),
                str(theirs_out),
                CHROMIUM,
                *_FLAGS,
                f"--user-data-dir={home}",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._number:
                assert "error" not in heard, heard["error"]
                return dict(heard["result"])

    def open(
        self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, anchor: str = ""
    ) -> None:
        """Show a page, a file or an address, and wait until its script has run."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        address = page if isinstance(page, str) else page.resolve().as_uri()
        for url in ("about:blank", address + anchor):  # else an anchor alone would load nothing
            before = self._loads
            self.call("Page.navigate", url=url)
            while self._loads == before:
                self._hear()
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, script: str) -> Any:
        """Return what an expression on the page is; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys as a person does: characters, and names such as `Tab`, `Enter`, `ArrowRight` or `Shift+Tab`."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for given in keys:
            shift, _, name = given.rpartition("+") if len(given) > 1 else ("", "", given)
            text = {"Enter": "\r", **dict.fromkeys(codes.keys() - {"Enter"}, "")}.get(name, name)
            code = codes.get(name, ord(name.upper()) if len(name) == 1 else 0)
            more = {"key": name, "windowsVirtualKeyCode": code, "modifiers": 8 if shift == "Shift" else 0}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **more)
            self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what can be seen, or the whole page, as a PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 2**20)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(line)
        given = heard.get("params", {})
        match heard.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Runtime.exceptionThrown":
                self.said.append(str(given["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.said.append(str(given["args"]))
            case "Log.entryAdded":
                self.said.append(given["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(given["request"]["url"])
            case _:
                pass
        return heard

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.kill()
        self._process.wait()
