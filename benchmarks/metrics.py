"""What metrics cost a run that is scraped, as a ratio within one run: `uv run python -m benchmarks.metrics`.

The run is the day (1,000 agents, recorded on disk), or the same with more agents. While it runs, a client scrapes
the endpoint over HTTP for some seconds, rests for as long, and so on. The steps that the kernel makes in a window with
scrapes are compared with those in the windows before and after it, so that whatever else the machine does, and how the
run changes, concerns both alike. Steps are counted by second of real time, which needs a quiet machine, and by second
of processor time of the process without the client. The first figure needs no comparison: the processor time that went
into scrapes, as a share of all that the process used meanwhile.
"""

import argparse
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import attrs

from benchmarks.day import SCENARIO


@attrs.define
class Window:
    """Steps a second, of real time and of processor time, with scrapes or without.

    Attributes:
        share: the share of the processor time that went into scrapes.
        scrapes: seconds until each was answered.
        size: bytes of an answer.
    """

    scraped: bool
    share: float = 0.0
    real: float = 0.0
    processor: float = 0.0
    scrapes: list[float] = attrs.field(factory=list)
    size: int = 0


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics", description=__doc__)
    parser.add_argument("--agents", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two scrapes (default 1)")
    parser.add_argument("--window", type=float, default=3.0, help="seconds of each window (default 3)")
    parser.add_argument("--windows", type=int, default=21, help="how many (default 21)")
    options = parser.parse_args()
    if options.windows < 5:
        parser.error("at least five windows are needed")
    windows = measure(options.agents, options.every, options.window, options.windows)
    print(summary(windows, options.agents, options.every))


def measure(agents: int, every: float, seconds: float, count: int) -> list[Window]:
    """Run the day until all windows are through."""
    from sim import run  # late: as in `benchmarks.day`
    from sim.inspect.telemetry import Address, Exporter, Server
    from sim.runner import RunController

    exporter = Exporter()
    windows = [Window(scraped=number % 2 == 1) for number in range(count)]
    begun = threading.Event()
    runners: list[RunController] = []

    def hook(runner: RunController) -> None:
        exporter.begun(runner)
        runners.append(runner)
        begun.set()

    def watch(url: str) -> None:
        begun.wait()
        time.sleep(seconds)  # until the run has got going
        for window in windows:
            _fill(window, runners[0], exporter, url, every, seconds)
        runners[0].host.suspend()

    with Server(exporter, Address.parse("0")) as server, tempfile.TemporaryDirectory(prefix="sim-metrics-") as folder:
        watcher = threading.Thread(target=watch, args=(f"{server.address.url}/metrics",))
        watcher.start()
        run(SCENARIO, until="3650d", out=Path(folder), overrides=[f"agents.clerk.count={agents}"], begun=hook)
        watcher.join()
    return windows


def _fill(window: Window, runner: Any, exporter: Any, url: str, every: float, seconds: float) -> None:
    kernel = runner.simulation.world.kernel
    began, steps, used = time.monotonic(), kernel.steps, time.process_time() - time.thread_time()
    spent = exporter.spent
    while (left := began + seconds - time.monotonic()) > 0:
        if window.scraped:
            asked = time.monotonic()
            with urllib.request.urlopen(url) as answer:  # noqa: S310  # our own endpoint
                window.size = len(answer.read())
            window.scrapes.append(time.monotonic() - asked)
        time.sleep(min(left, every))
    window.real = (kernel.steps - steps) / (time.monotonic() - began)
    used = time.process_time() - time.thread_time() - used
    window.processor = (kernel.steps - steps) / used
    window.share = (exporter.spent - spent) / used


def cost(rates: list[float]) -> tuple[float, float, float]:
    """Return what every other window lost against its neighbours: the median, and the quartiles."""
    lost = [1 - rates[n] / ((rates[n - 1] + rates[n + 1]) / 2) for n in range(1, len(rates) - 1, 2)]
    low, middle, high = statistics.quantiles(lost, n=4)
    return middle, low, high


def summary(windows: list[Window], agents: int, every: float) -> str:
    """Return the result as text."""
    scrapes = [seconds for window in windows for seconds in window.scrapes]
    rate = statistics.median(window.real for window in windows if not window.scraped)
    size, median = max(window.size for window in windows), statistics.median(scrapes) * 1000
    lines = [
        f"{agents:,} agents, {rate:,.0f} steps a second unwatched",
        f"  a scrape every {every:g} s: {len(scrapes)} of {size:,} bytes, median {median:.0f} ms",
    ]
    shares = [window.share for window in windows if window.scraped]
    lines.append(f"  processor time that went into scrapes: {statistics.mean(shares):.2%} (at most {max(shares):.2%})")
    for name, rates in (("processor", [w.processor for w in windows]), ("real", [w.real for w in windows])):
        middle, low, high = cost(rates)
        lines.append(f"  steps lost, by {name} time: {middle:.1%} (half of the windows: {low:.1%} to {high:.1%})")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
