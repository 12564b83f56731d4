"""Plays scenarios in a real Chromium, and writes the pictures of docs/play.md.

    uv run python -m benchmarks.play_pictures [FOLDER [SCENARIO ...]]

It needs Pillow, which comes with matplotlib, to write them with 64 colours, so that each takes little space.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from PIL import Image

from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.runner.options import RunOptions
from tests.viewer.browser import Browser

_COLOURS: Final = 64
_SIZE: Final[dict[str, Any]] = {"width": 1120, "height": 720}


def _schelling(player: ScenarioPlayer, _: Browser) -> None:
    player.step("tick")
    _rest(player)
    player.set("wanted", 0.6)
    for _turn in range(8):
        player.step("tick")
        _rest(player)


def _wolf_sheep(player: ScenarioPlayer, _: Browser) -> None:
    _until(player, 60)


def _contagion(player: ScenarioPlayer, _: Browser) -> None:
    _until(player, 3 * 86400)
    player.set("infectivity", 0.3)
    _until(player, 8 * 86400)


def _debate(player: ScenarioPlayer, browser: Browser) -> None:
    player.answer_for("debater-2", 600)
    player.go()
    browser.evaluate("location.hash = '#tab=play&agent=debater-2'")
    while not player.state()["people"]["waiting"]:
        time.sleep(0.05)
    player.hold()
    _rest(player)
    player.say("debater-2", "Think of the shops.")


def _lead_response(player: ScenarioPlayer, _: Browser) -> None:
    player.pace(2 * 86400.0)  # its ticks are too short to go from one to the next
    player.go()
    while player.state()["now"] < 9 * 86400:
        time.sleep(0.05)
    player.hold()
    _rest(player)


SCENARIOS: Final[dict[str, Any]] = {
    "schelling": (_schelling, ""), "wolf_sheep": (_wolf_sheep, ""), "contagion": (_contagion, ""),
    "debate": (_debate, ""), "lead_response": (_lead_response, "#tab=chat"),
}  # fmt: skip
"""How each scenario is played, and with which tab its page is opened."""


def _rest(player: ScenarioPlayer) -> None:
    """Wait until the run is paused or over."""
    while player.going:
        time.sleep(0.02)


def _until(player: ScenarioPlayer, seconds: float) -> None:
    """Let the run continue to a simulated time, in steps of its ticks."""
    while player.state()["now"] < seconds and player.state()["phase"] != "ended":
        player.step("tick")
        _rest(player)


def picture(name: str, folder: Path) -> Path:
    """Play a scenario, and write the picture of its page."""
    play, anchor = SCENARIOS[name]
    file = folder / f"play-{name.replace('_', '-')}.png"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        player = ScenarioPlayer(Path("scenarios") / f"{name}.yaml", RunOptions(out=Path(home) / "runs"))
        with PlayServer(player) as server, Browser(Path(home) / "profile") as browser:
            browser.open(server.url, anchor=anchor, **_SIZE)
            play(player, browser)
            while "paused" not in browser.evaluate("document.querySelector('#play-clock').textContent"):
                time.sleep(0.1)
            browser.evaluate("new Promise((done) => setTimeout(done, 2500))")
            browser.picture(file)
            assert browser.said == [], browser.said
    Image.open(file).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    for one in sys.argv[2:] or SCENARIOS:
        written = picture(one, target)
        print(f"{written}: {written.stat().st_size / 1000:.0f} kB", flush=True)
