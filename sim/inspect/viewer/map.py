"""What the map shows: a plane, a grid, a graph of places, or the contacts of agents."""

import math
import re
from typing import Any, Final

from sim.base.numbers import is_number
from sim.kernel.codec import Json
from sim.scenario import Scenario
from sim.world import Places

_CELL: Final = re.compile(r"(\d{1,6}),(\d{1,6})")
_AXES: Final = (("x", "y"), ("lon", "lat"), ("lng", "lat"), ("long", "lat"), ("longitude", "latitude"))
"""Attributes of places that are taken for coordinates: to the right, and down or, of a latitude, up."""

MOST_PLACES: Final = 100_000
_MOST_EDGES: Final = 200_000


class GroundMap:
    """The ground on which agents stand. Without a scenario it is found out from the places that agents enter.

    Args:
        scenario: the scenario as run; None: it is not known.
        places: its places, or None.
    """

    def __init__(self, scenario: Scenario | None, places: Places | None) -> None:
        space = None if scenario is None else scenario.space
        size = None if space is None else space.size
        self._box = None if size is None else [0.0, 0.0, *size]
        self._step = 1.0 if scenario is None else scenario.execution.tick.period / 1e9
        self._grid = None if scenario is None or scenario.places is None else scenario.places.grid
        self._nodes: dict[str, int] = {} if places is None else {node: n for n, node in enumerate(places.nodes)}
        self._unknown = places is None
        self._at = None if places is None else _coordinates(places)
        self._edges: dict[tuple[int, int], None] = {}
        if places is not None and self._grid is None:
            for node in places.nodes:
                for other in places.adjacent(node):
                    self._edge(self._nodes[node], self._nodes[other])

    def stand(self, x: float, y: float) -> None:
        """Note that somebody stands at a position, which may be outside of what is known of a plane."""
        box = self._box or [0.0, 0.0, 1.0, 1.0]
        if x < box[0] or y < box[1] or x > box[2] or y > box[3] or box is not self._box:
            self._box = [min(x, box[0]), min(y, box[1]), max(x, box[2]), max(y, box[3])]

    def place(self, name: object) -> int:
        """Return the number of a place, or -1 for none."""
        if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            return -1
        number = self._nodes.get(str(name))
        if number is None:
            if len(self._nodes) >= MOST_PLACES:
                return -1
            number = self._nodes[str(name)] = len(self._nodes)
        return number

    def moved(self, before: int, after: int) -> None:
        """Note that an agent moved from one place to another; without a scenario, it shows that they are adjacent."""
        if self._unknown and before >= 0 <= after != before:
            self._edge(before, after)

    def _edge(self, one: int, other: int) -> None:
        if len(self._edges) < _MOST_EDGES:
            self._edges[min(one, other), max(one, other)] = None

    def to_json(self) -> dict[str, Json]:
        """Return the ground, JSON-like."""
        if self._box is not None:
            return {"kind": "plane", "box": self._box, "step": self._step}
        if self._grid is not None:
            return {"kind": "grid", "columns": self._grid[0], "rows": self._grid[1], "places": list(self._nodes)}
        cells = [_CELL.fullmatch(node) for node in self._nodes]
        if cells and all(cells):
            columns, rows = (max(int(cell[part]) for cell in cells if cell) + 1 for part in (1, 2))
            if columns * rows <= 4 * MOST_PLACES:
                return {"kind": "grid", "columns": columns, "rows": rows, "places": list(self._nodes)}
        if self._nodes:
            edges = [list(edge) for edge in self._edges]
            coordinates = {} if self._at is None or len(self._at) != len(self._nodes) else {"at": self._at}
            return {"kind": "graph", "places": list(self._nodes), "edges": edges, **coordinates}
        return {"kind": "contacts"}


def _coordinates(places: Places) -> list[list[float]] | None:
    """Return the coordinates of all places, to the right and down, if their graph file gives them; otherwise None."""
    for across, up in _AXES:
        pairs: list[tuple[Any, Any]] = [
            (places.about(node).get(across), places.about(node).get(up)) for node in places.nodes
        ]
        points = [(float(x), float(y)) for x, y in pairs if _is_coordinate(x) and _is_coordinate(y)]
        if pairs and len(points) == len(pairs):
            if up == "y":
                return [[x, y] for x, y in points]
            middle = sum(y for _, y in points) / len(points)
            width = math.cos(math.radians(middle))  # of a degree, compared with a height
            return [[x * width, -y] for x, y in points]
    return None


def _is_coordinate(value: Any) -> bool:
    return is_number(value) and abs(value) < 1e12
