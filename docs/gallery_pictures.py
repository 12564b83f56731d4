"""The pictures of docs/gallery.md, each drawn from runs of the scenario beside it. They are redrawn by

python docs/gallery_pictures.py
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import anyio

import sim
from sim.kinds.town import generate
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import load
from sim.scenario.assembly.build import Simulation, build

DOCS = Path(__file__).parent
SCENARIOS = DOCS.parent / "scenarios"
BLUE, RED, GREEN, SAND = "#4878a8", "#c8503c", "#5a9a5a", "#e2c044"
PALE = ("#cfe0f0", "#f3d3cc", "#d3e8d0", "#f5e9b8", "#e0d4ec", "#cdeae8", "#f0dcc3")
WIDTH, HEIGHT, PANEL = 760, 300, 340


def schelling() -> str:
    """Return where people of two kinds stand at the start and at the end, as an SVG."""
    parts = []
    for left, seconds, title in ((20, 1, "at the start"), (400, 100, "in the end")):
        world = _ended("schelling", seconds).world
        alike = math.fsum(agent.state["share"] for agent in world.agents.values()) / len(world.agents)
        parts.append(_text(left, 20, f"{title}: {alike:.0%} of neighbours alike", weight="bold"))
        for name, agent in world.agents.items():
            assert world.places is not None, "the scenario has places"
            x, y = map(int, (world.places.where(name) or "0,0").split(","))
            colour = RED if agent.state["kind"] == "red" else BLUE
            parts.append(_square(left + 16 * x, 30 + 16 * y, 15, colour))
    return _page(parts, 360)


def opinions() -> str:
    """Return the opinions of all people over time for two bounds of confidence, as an SVG."""
    shares = [n / 40 for n in range(41)]
    parts = []
    for left, d, title in ((40, 0.2, "d = 0.2: two camps"), (420, 0.5, "d = 0.5: consensus")):
        values = "{" + ", ".join(f"q{n}: \"quantile('person', 'opinion', {s})\"" for n, s in enumerate(shares)) + "}"
        sampled = f"metrics={{every: 500ms, values: {values}}}"
        changed = [f"agents.person.state.d={d}", sampled, "properties={}"]  # these are about the metrics of the file
        metrics = sim.run(load(SCENARIOS / "opinions.yaml", changed), until="20s").metrics
        axes = _Axes(left, (0, 20, 5), (0, 1, 0.25), "seconds", "opinion")
        parts += axes.frame(title)
        parts += [axes.line(metrics["time"], metrics[f"q{n}"], BLUE, 0.8) for n in range(41)]
    return _page(parts)


def sugarscape() -> str:
    """Return the land with its people after 200 s, and the inequality of wealth over time, as an SVG."""
    simulation = _ended("sugarscape", 200)
    world, parts = simulation.world, [_text(20, 20, "after 200 s: sugar, and people (dark: rich)", weight="bold")]
    assert world.places is not None, "the scenario has places"
    assert world.stocks is not None, "the scenario has sugar"
    shades = ("#f7f3e3", "#f3e7b8", "#eedb8c", "#e8ce62", SAND)
    for y in range(50):
        levels = [int(world.stocks.level(f"{x},{y}")) for x in range(50)]
        for level, row in itertools.groupby(range(50), key=levels.__getitem__):
            first, *more = row
            size = f'width="{6 * (1 + len(more))}" height="6"'
            parts.append(f'<rect x="{20 + 6 * first}" y="{30 + 6 * y}" {size} fill="{shades[level]}"/>')
    for name, agent in world.agents.items():
        if (place := world.places.where(name) or "") and "sugar" in agent.state:
            x, y = map(int, place.split(","))
            colour = "#7c2d20" if agent.state["sugar"] > 60 else RED
            parts.append(f'<circle cx="{23 + 6 * x}" cy="{33 + 6 * y}" r="2.6" fill="{colour}"/>')
    metrics = sim.run(load(SCENARIOS / "sugarscape.yaml", ["metrics.every=1s"])).metrics
    axes = _Axes(400, (0, 200, 50), (0, 0.6, 0.1), "seconds", "Gini coefficient of sugar")
    parts += axes.frame("")
    parts += [axes.line([0, 200], [level, level], "#888", 1, "5 4") for level in (0.23, 0.503)]
    parts.append(_text(axes.x(198), axes.y(0.56), "in the book at the end: 0.503", anchor="end"))
    parts.append(_text(axes.x(198), axes.y(0.23) - 6, "in the book at the start: 0.230", anchor="end"))
    parts.append(axes.line(metrics["time"][2:], metrics["gini"][2:], BLUE, 2.5))
    return _page(parts, 345)


def culture() -> str:
    """Return the borders between the cultures of villages after a while and in the end, as an SVG."""
    parts = []
    for left, seconds, title in ((20, 60, "after 60 s"), (400, 5000, "in the end")):
        world = _ended("culture", seconds).world
        assert world.places is not None, "the scenario has places"
        cultures = {world.places.where(name): agent.state["culture"] for name, agent in world.agents.items()}
        regions = _regions(cultures)
        parts.append(_text(left, 20, f"{title}: {len(regions)} regions", weight="bold"))
        shared = [region for region in regions if len(region) > 1]
        for region, fill in zip(shared, itertools.cycle(PALE), strict=False):
            for place in region:
                x, y = map(int, str(place).split(","))
                parts.append(_square(left + 32 * x, 30 + 32 * y, 32, fill))
        parts += _borders(left, cultures)
        parts.append(f'<rect x="{left}" y="30" width="320" height="320" fill="none" stroke="#888"/>')
    return _page(parts, 365)


def _borders(left: int, cultures: Mapping[str | None, Sequence[int]]) -> Iterable[str]:
    """Yield the lines between villages, the darker the more features they differ in."""
    for place, own in cultures.items():
        x, y = map(int, str(place).split(","))
        for right, down in ((1, 0), (0, 1)):
            other = cultures.get(f"{x + right},{y + down}", own)
            if other != own:
                unlike = sum(a != b for a, b in zip(own, other, strict=True)) / len(own)
                x2, y2 = left + 32 * (x + 1), 30 + 32 * (y + 1)
                grey = f"{round(230 * (1 - unlike)):02x}" * 3
                ends = f'x1="{x2 - 32 * down}" y1="{y2 - 32 * right}" x2="{x2}" y2="{y2}"'
                yield f'<line {ends} stroke="#{grey}" stroke-width="3"/>'


def _regions(cultures: Mapping[str | None, Sequence[int]]) -> list[list[str | None]]:
    """Return the sets of places of a grid that are connected and have the same culture."""
    left, regions = dict(cultures), []
    while left:
        first = next(iter(left))
        own = left.pop(first)
        region = [first]
        for place in region:
            x, y = map(int, str(place).split(","))
            for near in (f"{x - 1},{y}", f"{x + 1},{y}", f"{x},{y - 1}", f"{x},{y + 1}"):
                if left.get(near) == own:
                    region.append(near)
                    del left[near]
        regions.append(region)
    return regions


def wolf_sheep() -> str:
    """Return the meadow with its animals after 100 turns, and how many there are over time, as an SVG."""
    world, parts = _ended("wolf_sheep", 101).world, [_text(20, 20, "after 100 s: grass, sheep, wolves", weight="bold")]
    assert world.places is not None, "the scenario has places"
    assert world.variables is not None, "its places have grass"
    for x, y in itertools.product(range(30), repeat=2):
        fill = "#bcd9a8" if world.variables.get("grass", f"{x},{y}") else "#efe7d3"
        parts.append(_square(20 + 10 * x, 30 + 10 * y, 10, fill))
    for name, agent in sorted(world.agents.items(), key=lambda item: item[1].group):
        x, y = map(int, (world.places.where(name) or "0,0").split(","))
        colour, size = ("#444", 4.5) if agent.group == "wolf" else ("#fff", 3.5)
        parts.append(f'<circle cx="{25 + 10 * x}" cy="{35 + 10 * y}" r="{size}" fill="{colour}" stroke="#444"/>')
    metrics = sim.run(load(SCENARIOS / "wolf_sheep.yaml")).metrics
    axes = _Axes(400, (0, 200, 50), (0, 500, 100), "seconds", "animals; places with grass")
    parts += axes.frame("")
    for name, colour in (("grass", GREEN), ("sheep", BLUE), ("wolves", RED)):
        parts.append(axes.line(metrics["time"], metrics[name], colour, 2))
        parts.append(
            _text(axes.x({"grass": 12, "sheep": 72, "wolves": 132}[name]), 52, name, fill=colour, weight="bold")
        )
    return _page(parts, 345)


def civil_violence() -> str:
    """Return where citizens rebel at the height of the first outburst, and their numbers over time, as an SVG."""
    metrics = sim.run(load(SCENARIOS / "civil_violence.yaml"), recording="samples").metrics
    height = max(range(len(metrics["time"])), key=metrics["active"].__getitem__)
    seconds = round(metrics["time"][height])
    world = _ended("civil_violence", seconds).world
    assert world.places is not None, "the scenario has places"
    assert world.variables is not None, "its places show who is there"
    parts = [_text(20, 20, f"after {seconds - 1} s: quiet, active, jailed; cops", weight="bold")]
    parts.append('<rect x="20" y="30" width="320" height="320" fill="#f4f4f4"/>')
    fills = {"quiet": "#bcd0e4", "active": RED, "jailed": "#999", "empty": "#000"}
    for name in world.agents:
        place = world.places.where(name) or "0,0"
        x, y = map(int, place.split(","))
        parts.append(_square(20 + 8 * x, 30 + 8 * y, 7, fills[world.variables.get("shows", place)]))
    axes = _Axes(400, (0, 100, 25), (0, 400, 100), "seconds", "citizens (of 1,120)")
    parts += axes.frame("")
    for name, colour in (("jailed", "#777"), ("active", RED)):
        parts.append(axes.line(metrics["time"], metrics[name], colour, 2))
        parts.append(_text(axes.x({"active": 30, "jailed": 62}[name]), 52, name, fill=colour, weight="bold"))
    return _page(parts, 365)


def cascade() -> str:
    """Return how often a right and a wrong cascade has begun, in theory and in runs of 100 towns, as an SVG."""
    axes = _Axes(40, (0.5, 1, 0.1), (0, 1, 0.25), "p: how often a hint is right", "share of towns", width=700)
    precisions = [0.5 + n / 200 for n in range(101)]
    parts = axes.frame("")
    for label, colour, sign, height in (("right", BLUE, 1, 0.9), ("wrong", RED, -1, 0.05)):
        parts.append(axes.line(precisions, [published(sign, p, 20) for p in precisions], colour, 2))
        parts.append(_text(axes.x(0.52), axes.y(height), f"{label} cascade: theory (line), a run (dots)", fill=colour))
    for p in (0.51, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        metrics = sim.run(load(SCENARIOS / "cascade.yaml", [f"agents.person.state.p={p}"])).metrics
        for name, colour in (("right", BLUE), ("wrong", RED)):
            share = metrics[name][-1]
            half = 1.96 * math.sqrt(share * (1 - share) / 100)
            parts.append(axes.line([p, p], [max(0, share - half), min(1, share + half)], colour, 1.2))
            parts.append(f'<circle cx="{axes.x(p):.1f}" cy="{axes.y(share):.1f}" r="4" fill="{colour}"/>')
    return _page(parts)


def published(sign: int, p: float, people: int) -> float:
    """Return the probability of a cascade, from equation 2 of Bikhchandani, Hirshleifer and Welch (1992).

    Args:
        sign: 1 for the right cascade, -1 for the wrong one.
        p: the probability that a hint is right.
        people: an even number of people who have decided.
    """
    begun = 1 - (p - p * p) ** (people / 2)
    return (p * (p + 1) if sign > 0 else (p - 2) * (p - 1)) * begun / (2 * (1 - p + p * p))


def queue() -> str:
    """Return the mean wait over the run beside that of theory, as an SVG."""
    metrics = sim.run(SCENARIOS / "queue.yaml").metrics
    axes = _Axes(40, (0, 100, 20), (0, 40, 10), "hours", "seconds", width=700)
    parts = axes.frame("the mean wait of all customers so far")
    parts.append(axes.line([0, 100], [26.7, 26.7], "#888", 1, "5 4"))
    parts.append(_text(axes.x(99), axes.y(26.7) + 16, "Erlang C: 26.7 s", anchor="end"))
    parts.append(axes.line([t / 3600 for t in metrics["time"]], metrics["mean_wait"], BLUE, 2.5))
    return _page(parts)


def town() -> str:
    """Return the model calls of 25 residents in each hour of a day, as an SVG."""
    calls = generate(1).calls_by_hour()
    axes = _Axes(60, (0, 24, 3), (0, 5000, 1000), "hour of the day", "calls", width=680)
    parts = axes.frame("model calls per hour; red: hours whose number is published")
    for hour, count in calls.items():
        top, x = axes.y(count), axes.x(hour + 0.1)
        colour = RED if hour in (6, 12) else BLUE
        size = f'width="{axes.x(0.8) - axes.x(0):.1f}" height="{axes.y(0) - top:.1f}"'
        parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{colour}"/>')
    return _page(parts)


class _Axes:
    """A frame with two axes, each (low, high, step).

    Args:
        left: where it begins, in pixels.
        horizontal, vertical: the axes.
        under, beside: what the axes show.
        width: in pixels.
    """

    def __init__(
        self,
        left: float,
        horizontal: tuple[float, float, float],
        vertical: tuple[float, float, float],
        under: str,
        beside: str,
        width: float = PANEL - 20,
    ) -> None:
        self.left, self.width = left, width
        self.horizontal, self.vertical = horizontal, vertical
        self.under, self.beside = under, beside

    def x(self, value: float) -> float:
        """Return where a value is along the horizontal axis, in pixels."""
        low, high, _ = self.horizontal
        return self.left + (value - low) / (high - low) * self.width

    def y(self, value: float) -> float:
        """Return where a value is along the vertical axis, in pixels."""
        low, high, _ = self.vertical
        return HEIGHT - 40 - (value - low) / (high - low) * (HEIGHT - 80)

    def frame(self, title: str) -> list[str]:
        """Return the grid, the numbers and the words around it."""
        right = self.left + self.width
        parts = [_text(self.left, 18, title, weight="bold"), _text(self.left - 6, 34, self.beside)]
        parts.append(_text(right, HEIGHT - 6, self.under, anchor="end"))
        for value in _steps(*self.vertical):
            y = self.y(value)
            parts.append(f'<line x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(_text(self.left - 6, y + 4, f"{value:g}", anchor="end"))
        parts += [_text(self.x(v), HEIGHT - 22, f"{v:g}", anchor="middle") for v in _steps(*self.horizontal)]
        return parts

    def line(self, x: Sequence[float], y: Sequence[float], colour: str, width: float, dashes: str = "") -> str:
        """Return a line through points."""
        points = " ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True) if b is not None)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def _steps(low: float, high: float, step: float) -> list[float]:
    return [round(low + n * step, 9) for n in range(round((high - low) / step) + 1)]


def _ended(name: str, seconds: int) -> Simulation:
    """Return a scenario in tick mode as it is after some simulated seconds, or when it has stopped."""
    simulation = build(load(SCENARIOS / f"{name}.yaml"), recorder=HashRecorder())
    anyio.run(RunController(simulation, until_ns=seconds * 10**9, mode="tick").run)
    return simulation


def _square(x: float, y: float, side: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", fill: str = "#444", weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}" font-weight="{weight}">{text}</text>' if text else ""


def _page(parts: Iterable[str], height: int = HEIGHT) -> str:
    body = "\n".join(part for part in parts if part)
    style = 'font-family="sans-serif" font-size="13" fill="#444"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {style}>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


PICTURES: Mapping[str, Callable[[], str]] = {
    draw.__name__: draw
    for draw in (cascade, civil_violence, culture, opinions, queue, schelling, sugarscape, town, wolf_sheep)
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (DOCS / f"{name}.svg").write_text(draw(), encoding="utf-8")
