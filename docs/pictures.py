"""Draws docs/contagion.svg and docs/live.svg from runs of the scenarios: `uv run python docs/pictures.py`.

docs/report.png is the beginning of the report of scenarios/ecology.yaml, docs/bench.png that of the page of a bench of
scenarios/town.yaml (docs/bench.md says which), docs/sop.png that of a bench of scenarios/lead_response.yaml over
`sop.design` with three seeds in tick-sequential and autonomous mode, as Chromium draws them 1180 pixels wide.
"""

import io
import re
from pathlib import Path

from rich.console import Console

import sim
from sim.assembly.build import build
from sim.cli.render.live import picture
from sim.cli.render.snapshot import RateMeter, take_snapshot
from sim.runner import SimulationRunner
from sim.scenario import load
from sim.store import HashRecorder

ROOT = Path(__file__).parent.parent
HOUR = 3600 * 10**9
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 300, 46, 36
COLOURS = {"S": ("#4878a8", "susceptible"), "I": ("#c8503c", "ill"), "R": ("#5a9a5a", "recovered")}


def contagion() -> str:
    """Return the epidemic curve as an SVG."""
    metrics = sim.run(ROOT / "scenarios" / "contagion.yaml").metrics
    days = [seconds / 86400 for seconds in metrics["time"]]
    parts = [_frame(days[-1], 34)]
    for number, (name, (colour, label)) in enumerate(COLOURS.items()):
        points = " ".join(f"{_x(d, days[-1]):.1f},{_y(v, 34):.1f}" for d, v in zip(days, metrics[name], strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{LEFT + 20 + 110 * number}" y="18" fill="{colour}" font-weight="bold">{label}</text>')
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
        speed: simulated seconds a real second, for the rates: here nobody waits.
    """
    runner = SimulationRunner(build(load(ROOT / "scenarios" / "ecology.yaml")), until_ns=48 * HOUR, mode="autonomous")
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


def _frame(days: float, people: int) -> str:
    marks = [
        f'<text x="{_x(day, days):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{day}</text>'
        for day in range(0, int(days) + 1, 2)
    ]
    for count in range(0, people + 1, 10):
        y = _y(count, people)
        marks.append(f'<line x1="{LEFT}" x2="{WIDTH - 14}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        marks.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{count}</text>')
    marks.append(f'<text x="{WIDTH - 14}" y="{HEIGHT - 2}" text-anchor="end">simulated days</text>')
    return "\n".join(marks)


def _x(day: float, days: float) -> float:
    return LEFT + day / days * (WIDTH - LEFT - 14)


def _y(count: float, people: int) -> float:
    return HEIGHT - BOTTOM - count / people * (HEIGHT - BOTTOM - 30)


if __name__ == "__main__":
    (ROOT / "docs" / "contagion.svg").write_text(contagion(), encoding="utf-8")
    (ROOT / "docs" / "live.svg").write_text(live(), encoding="utf-8")
