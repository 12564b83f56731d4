"""The cost of a wake-up against the number of agents, log-log, as SVG."""

import math
from collections.abc import Sequence

from benchmarks.harness import Row

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 460, 60, 150, 40, 50
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#999999", "#000000")

Point = tuple[float, float]


def to_svg(rows: Sequence[Row], title: str) -> str:
    """Return a picture with one line for each peer; `rows` are of one workload."""
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row.values:
            lines.setdefault(row.peer, []).append((math.log10(row.agents), math.log10(1e6 / row.median)))
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    low = (math.floor(min(x for x, _ in points)), math.floor(min(y for _, y in points)))
    high = (math.ceil(max(x for x, _ in points)), math.ceil(max(y for _, y in points)))

    def place(point: Point) -> Point:
        across = (point[0] - low[0]) / max(1, high[0] - low[0])
        up = (point[1] - low[1]) / max(1, high[1] - low[1])
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_text(_WIDTH / 2, 22, title, "middle"), _text(_LEFT, _TOP - 4, "µs per operation", "middle")]
    for x in range(low[0], high[0] + 1):
        parts += [_rule(place((x, low[1])), place((x, high[1])))]
        parts += [_text(place((x, 0))[0], _HEIGHT - _BOTTOM + 18, f"{10**x:,}", "middle")]
    for y in range(low[1], high[1] + 1):
        parts += [_rule(place((low[0], y)), place((high[0], y)))]
        parts += [_text(_LEFT - 8, place((0, y))[1] + 4, f"{10.0**y:g}", "end")]
    parts += [_text(_WIDTH / 2, _HEIGHT - 10, "agents", "middle")]
    ends = sorted((place(line[-1])[1], name) for name, line in lines.items())
    for (_, name), level in zip(ends, _apart([y for y, _ in ends]), strict=True):
        colour = _COLOURS[list(lines).index(name) % len(_COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, lines[name]))
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in map(place, lines[name])]
        parts += [_text(_WIDTH - _RIGHT + 10, level + 4, name, "start", colour)]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
        ' font-size="13">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _apart(levels: list[float]) -> list[float]:
    """Return sorted heights for labels, moved down where two would overlap."""
    placed: list[float] = []
    for level in levels:
        placed.append(max(level, placed[-1] + 15) if placed else level)
    return placed


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _rule(start: Point, end: Point) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'
