"""How much script the page of `sim play` runs for each frame, with 1,000 agents at full speed.

    uv run python -m benchmarks.play_frames [SECONDS]

A real Chromium without a screen shows Schelling's model with 1,000 people, of whom most are never content, while it is
computed as fast as possible. Every tenth of a second, the time that Chromium has spent in scripts is divided by the
frames that were shown meanwhile.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

from sim.inspect.play import PlayServer, ScenarioPlayer
from sim.runner.options import RunOptions
from tests.viewer.browser import Browser

_AGENTS = 1_000
_OVERRIDES = (
    f"agents.person.count={_AGENTS}", "places.grid=[34,34]", "agents.person.state.wanted=0.8", "until=1h",
)  # fmt: skip
_COUNT = """
(() => {
  window.shown = 0;
  const count = () => { window.shown++; requestAnimationFrame(count); };
  count();
})()
"""


def _scripts(browser: Browser) -> tuple[float, int]:
    """Return the seconds spent in scripts so far, and the frames."""
    found = {one["name"]: one["value"] for one in browser.call("Performance.getMetrics")["metrics"]}
    return found["ScriptDuration"], browser.evaluate("window.shown")


def measure(seconds: float) -> dict[str, float]:
    """Return milliseconds of script for each frame (mean, 95th percentile, most), frames and updates a second."""
    found = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = RunOptions(out=Path(home) / "runs", overrides=_OVERRIDES)
        with (
            PlayServer(ScenarioPlayer("scenarios/schelling.yaml", options)) as server,
            Browser(Path(home) / "p") as browser,
        ):
            browser.open(server.url)
            browser.call("Performance.enable")
            browser.evaluate(_COUNT)
            server.player.go()
            browser.evaluate("new Promise((done) => setTimeout(done, 2000))")
            first = before = _scripts(browser)
            begun = time.monotonic()
            while time.monotonic() - begun < seconds:
                browser.evaluate("new Promise((done) => setTimeout(done, 100))")
                after = _scripts(browser)
                if after[1] > before[1]:
                    found.append((after[0] - before[0]) / (after[1] - before[1]) * 1000)
                before = after
            took = time.monotonic() - begun
            clock = browser.evaluate("document.querySelector('#play-clock').textContent")
            assert browser.said == [], browser.said
    found.sort()
    return {
        "mean_ms": (before[0] - first[0]) / (before[1] - first[1]) * 1000, "p95_ms": found[int(len(found) * 0.95)],
        "most_ms": found[-1], "frames_a_second": (before[1] - first[1]) / took,
        "updates_a_second": updates_in(clock),
    }  # fmt: skip


def updates_in(clock: str) -> float:
    """Return the updates a second that the clock of the page names.

    Raises:
        ValueError: if it names none, as it does while the run is not going.
    """
    found = re.search(r", (\d+) updates? a second$", clock)
    if found is None:
        raise ValueError(f"the clock of the page names no updates a second: {clock!r}; measure while the run goes")
    return float(found[1])


if __name__ == "__main__":
    for name, value in measure(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0).items():
        print(f"{name:>18}  {value:.1f}")
