"""Draws the SVG pictures of docs/ from runs of scenarios: `uv run python docs/pictures.py`.

docs/report.png is the beginning of the overview of scenarios/ecology.yaml, docs/bench.png that of the page of a bench
of scenarios/town.yaml (docs/bench.md says which), docs/sop.png that of a bench of scenarios/lead_response.yaml over
`sop.design` with three seeds in tick-sequential and autonomous mode, as Chromium draws them 1180 pixels wide.
"""

import contextlib
import functools
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

import sim
from sim.cli.render.live import picture
from sim.cli.render.snapshot import RateMeter, take_snapshot
from sim.experiments.experiment import carry_out, evaluate
from sim.experiments.figures import outcome_drawings
from sim.experiments.folder import begin
from sim.experiments.plan import TrialHosting, make_sweep
from sim.experiments.pool import Inline
from sim.inspect.viewer import write_view
from sim.record import HashRecorder, open_run
from sim.runner import RunController
from sim.scenario import load
from sim.scenario.assembly.build import build

ROOT = Path(__file__).parent.parent
HOUR = 3600 * 10**9
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 300, 46, 36
COLOURS = {"S": ("#4878a8", "susceptible"), "I": ("#c8503c", "ill"), "R": ("#5a9a5a", "recovered")}


def contagion() -> str:
    """Return the epidemic curve as an SVG."""
    metrics = sim.run(ROOT / "scenarios" / "contagion.yaml").metrics
    return _chart(
        metrics["time"], {label: (colour, metrics[name]) for name, (colour, label) in COLOURS.items()}, 34, 10
    )


@functools.cache
def houston(archive: bool) -> sim.RunResult:
    """Return two weeks of `houston.yaml`, with or without the archive."""
    return sim.run(load(ROOT / "scenarios" / "houston.yaml", [f"goals.archive={str(archive).lower()}"]))


def goals() -> str:
    """Return the tokens of a call over two weeks of `houston.yaml`, with and without the archive, as an SVG."""
    curves, times = {}, list[float]()
    for label, colour, archive in (("with the archive", "#4878a8", True), ("without", "#c8503c", False)):
        metrics = houston(archive).metrics
        times, curves[label] = metrics["time"], (colour, metrics["tokens_per_call"])
    return _chart(times, curves, 9000, 2000)


def sweep() -> str:
    """Return `R` of the first sweep of docs/experiments.md as an SVG."""
    plan = make_sweep(ROOT / "scenarios" / "contagion.yaml", vary=["agents.person.state.beta=0.02..0.2:4"], count=12)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(begin(plan, Path(folder) / "sweep")) as results:
        for _ in carry_out(results, Inline(), TrialHosting()):
            pass
        (_, drawing) = next(outcome_drawings(evaluate(results), "R"))
    return f"{drawing.image().svg}\n"


def view(target: Path) -> None:
    """Write the view of the fifth day of `contagion.yaml` as a PNG, as Chromium draws it; without one, nothing."""
    with tempfile.TemporaryDirectory() as folder:
        page = _contagion_page(folder)
        _photograph(f"{page.as_uri()}#t=400000&colour=event&tab=chat&agent=person-34", target, (1360, 860))


def overview(target: Path) -> None:
    """Write the beginning of the overview of `ecology.yaml` as a PNG, as Chromium draws it; without one, nothing."""
    with tempfile.TemporaryDirectory() as folder:
        run = sim.run(ROOT / "scenarios" / "ecology.yaml", out=folder).run
        assert run is not None
        with open_run(run) as stored:
            page = write_view(stored, opens="overview").file
        _photograph(page.as_uri(), target, (1180, 1740))


def replays(moment: Path, causes: Path, steps: Path) -> None:
    """Write what replays find in `contagion.yaml`: the panels of the view as PNGs, and the steps as a chart.

    The panels are those of a served page in Chromium, on the third day and at the seventh infection.
    """
    sys.path.insert(0, str(ROOT))
    from sim.inspect.viewer import ViewServer
    from tests.viewer.browser import Browser

    with tempfile.TemporaryDirectory() as folder:
        done = sim.run(ROOT / "scenarios" / "contagion.yaml", out=folder)
        with sim.open(done) as run, ViewServer(run) as server, Browser(Path(folder) / "profile") as browser:
            seventh = run.query("SELECT id FROM events WHERE topic = 'person.infected' ORDER BY id")[6][0]
            run.causes(seventh).plot().save(steps)
            for key, anchor, found, target in (
                ("m", "#t=230400&tab=moment", "[data-events]", moment),
                ("c", f"#event={seventh}&tab=events", ".causes[data-event]", causes),
            ):
                browser.call(
                    "Emulation.setDeviceMetricsOverride", width=1180, height=740, deviceScaleFactor=1, mobile=False
                )
                browser.call("Page.navigate", url="about:blank")
                browser.call("Page.navigate", url=server.url + anchor)
                press = f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))"
                seen = f"Boolean(document.querySelector('{found}'))"
                while not browser.evaluate(seen):  # the first key shows what it costs, the next one begins
                    browser.evaluate(f"new Promise((done) => setTimeout(() => done({press}), 1500))")
                browser.evaluate(f"document.querySelector('{found}').scrollIntoView()")
                browser.evaluate("new Promise((done) => setTimeout(done, 3000))")
                browser.picture(target)


_PARTS = (((20, 120, 690, 380), 20), ((380, 685, 980, 738), 6), ((720, 130, 1160, 660), 3))
"""Of a frame: where the map, the bar and the chat are, and how many colours each has at least once it is drawn."""


def moving_view(target: Path, hours: range = range(6, 331, 12)) -> None:
    """Write the view of `contagion.yaml` as a moving picture (GIF), a frame for each of some hours; see `view`.

    Pillow joins the frames: `uv run --with pillow python docs/pictures.py moving`.
    """
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        page, frames = _contagion_page(folder), []
        for hour in hours:
            shot = Path(folder) / f"{hour}.png"
            address = f"{page.as_uri()}#t={hour * 3600}&colour=event&tab=chat&agent=person-34"
            frame = None
            while frame is None or not all(len(frame.crop(area).getcolors(10**6)) >= least for area, least in _PARTS):
                if not _photograph(address, shot, (1180, 740)):
                    return
                frame = Image.open(shot).convert("RGB")
            frames.append(frame)
        palette = frames[len(frames) // 2].quantize(64)  # one for all, so that what does not move stays the same
        first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames)
        first.save(target, save_all=True, append_images=others, duration=350, loop=0, optimize=True)


def _contagion_page(folder: str) -> Path:
    run = sim.run(ROOT / "scenarios" / "contagion.yaml", out=folder).run
    assert run is not None
    with open_run(run) as stored:
        return write_view(stored).file


def _photograph(address: str, target: Path, size: tuple[int, int]) -> bool:
    """Write a page as a PNG, as Chromium draws it; return False if there is no Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return False
    subprocess.run([  # noqa: S603 - a fixed program and a page of our own
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=8000", f"--screenshot={target}", address,
    ], check=True, capture_output=True)  # fmt: skip
    return True


Curve = tuple[str, Sequence[float]]
"""A colour, and a value for each time."""


def _chart(times: Sequence[float], curves: Mapping[str, Curve], most: int, step: int) -> str:
    """Return curves over simulated time as an SVG.

    Args:
        times: in seconds.
        curves: the curves by their labels.
        most: the highest value of the axis.
        step: the distance of the lines of the grid.
    """
    days = [seconds / 86400 for seconds in times]
    parts = [_frame(days[-1], most, step)]
    for number, (label, (colour, values)) in enumerate(curves.items()):
        known = [(day, value) for day, value in zip(days, values, strict=True) if value is not None]
        points = " ".join(f"{_x(day, days[-1]):.1f},{_y(value, most):.1f}" for day, value in known)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{LEFT + 20 + 150 * number}" y="18" fill="{colour}" font-weight="bold">{label}</text>')
    body = "\n".join(parts)
    style = 'font-family="sans-serif" font-size="13" fill="#444"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def live(hours: float = 41.5, speed: float = 3600.0) -> str:
    """Return what `sim run scenarios/ecology.yaml --live --clock wall --speed 3600` shows after some hours, as an SVG.

    Args:
        hours: simulated.
        speed: simulated seconds a real second, for the rates: here no reader waits.
    """
    runner = RunController(build(load(ROOT / "scenarios" / "ecology.yaml")), until_ns=48 * HOUR, mode="autonomous")
    kernel, pulse = runner.simulation.world.kernel, RateMeter()
    kernel.recorder = HashRecorder()
    runner.begin()
    for second in range(3):
        now = hours * 3600 + second * speed / 3
        kernel.run(round(now * 10**9))
        look = take_snapshot(runner)
        rates = pulse.rates(look, now / speed)
    console = Console(file=io.StringIO(), record=True, width=112, highlight=False, markup=False, emoji=False)
    console.print(picture(look, rates, list(look.newest[-6:])))
    svg = console.export_svg(title="sim run scenarios/ecology.yaml --live", font_aspect_ratio=0.61)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # they would come from another machine


def _frame(days: float, most: int, step: int) -> str:
    marks = [
        f'<text x="{_x(day, days):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{day}</text>'
        for day in range(0, int(days) + 1, 2)
    ]
    for count in range(0, most + 1, step):
        y = _y(count, most)
        marks.append(f'<line x1="{LEFT}" x2="{WIDTH - 14}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        marks.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count}</text>')
    marks.append(f'<text x="{WIDTH - 14}" y="{HEIGHT - 2}" text-anchor="end">simulated days</text>')
    return "\n".join(marks)


def _x(day: float, days: float) -> float:
    return LEFT + day / days * (WIDTH - LEFT - 14)


def _y(count: float, most: int) -> float:
    return HEIGHT - BOTTOM - count / most * (HEIGHT - BOTTOM - 30)


if __name__ == "__main__" and sys.argv[1:] == ["moving"]:
    moving_view(ROOT / "docs" / "view.gif")
elif __name__ == "__main__":
    (ROOT / "docs" / "contagion.svg").write_text(contagion(), encoding="utf-8")
    (ROOT / "docs" / "goals.svg").write_text(goals(), encoding="utf-8")
    (ROOT / "docs" / "live.svg").write_text(live(), encoding="utf-8")
    (ROOT / "docs" / "sweep.svg").write_text(sweep(), encoding="utf-8")
    view(ROOT / "docs" / "view.png")
    replays(*(ROOT / "docs" / name for name in ("moment.png", "causes.png", "causes.svg")))
    overview(ROOT / "docs" / "report.png")
