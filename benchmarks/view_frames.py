"""How many frames a second the page of `sim view` draws while its bar of time is moved.

    uv run python -m benchmarks.view_frames PAGE [SECONDS] [ANCHOR]

ANCHOR is the end of an address of the page, such as `#tab=chat&agent=villager-7`.

A real Chromium without a screen opens the page, and a script moves the bar from the start to the end of the run and
back, a step for each frame of the browser. Counted are the frames in which the map was drawn again at another time.
"""

import sys
import tempfile
from pathlib import Path

from tests.viewer.browser import Browser

_SCRUB = """
(async () => {
  const bar = document.querySelector("canvas.scrubber"), map = document.querySelector("canvas.map");
  const area = bar.getBoundingClientRect(), y = area.top + 20;
  const send = (name, x) =>
    bar.dispatchEvent(new PointerEvent(name, { clientX: x, clientY: y, pointerId: 1, bubbles: true }));
  bar.setPointerCapture = () => {};
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const begin = performance.now(), drawn = Number(map.dataset.drawn || 0), pauses = [];
  let frames = 0, last = begin;
  send("pointerdown", area.left + 10);
  for (let now = begin; now - begin < SECONDS * 1000; now = await frame()) {
    const phase = ((now - begin) / 5000) % 2, share = phase < 1 ? phase : 2 - phase; // five seconds from end to end
    send("pointermove", area.left + 8 + share * (area.width - 16));
    if (now > last) pauses.push(now - last);
    last = now;
    frames++;
  }
  send("pointerup", area.left + 10);
  pauses.sort((one, other) => one - other);
  const seconds = (performance.now() - begin) / 1000;
  const pause = (share) => pauses[Math.min(pauses.length - 1, Math.floor(pauses.length * share))];
  return { seconds, frames: frames / seconds, drawn: (Number(map.dataset.drawn) - drawn) / seconds,
    median_ms: pause(0.5), p95_ms: pause(0.95), worst_ms: pause(1) };
})()
"""


def measure(page: Path, seconds: float = 20.0, anchor: str = "") -> dict[str, float]:
    """Return frames a second, frames drawn a second, and the pauses between frames in milliseconds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, Browser(Path(home)) as browser:
        browser.open(page, anchor=anchor)
        browser.evaluate("new Promise((done) => setTimeout(done, 1000))")
        found: dict[str, float] = browser.evaluate(_SCRUB.replace("SECONDS", str(seconds)))
        assert browser.said == [], browser.said
        return found


if __name__ == "__main__":
    file, seconds, anchor = (*sys.argv[1:], *("20", "")[len(sys.argv) - 2 :])[:3]
    for name, value in measure(Path(file), float(seconds), anchor).items():
        print(f"{name:>10}  {value:.1f}")
