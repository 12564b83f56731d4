"""What the map shows: a plane, a grid, a graph of places, or the contacts of agents."""

import re
from typing import Any, Final

from sim.scenario import Scenario
from sim.world import Places

_CELL: Final = re.compile(r"(\d{1,6}),(\d{1,6})")
MOST_PLACES: Final = 100_000
_MOST_EDGES: Final = 200_000


class Ground:
    """The ground on which agents stand. Without a scenario it is found out from the places that agents enter.

    Args:
        scenario: the scenario as run; None: it is not known.
        places: its places, or None.
    """

    def __init__(self, scenario: Scenario | None, places: Places | None) -> None:
        space = None if scenario is None else scenario.space
        self._size = None if space is None or space.size is None else list(space.size)
        self._step = 1.0 if scenario is None else scenario.execution.tick.period / 1e9
        self._grid = None if scenario is None or scenario.places is None else scenario.places.grid
        self._nodes: dict[str, int] = {} if places is None else {node: n for n, node in enumerate(places.nodes)}
        self._unknown = places is None
        self._edges: dict[tuple[int, int], None] = {}
        if places is not None and self._grid is None:
            for node in places.nodes:
                for other in places.adjacent(node):
                    self._edge(self._nodes[node], self._nodes[other])

    @property
    def plane(self) -> bool:
        """Whether positions are coordinates."""
        return self._size is not None

    def place(self, name: object) -> int:
        """Return the number of a place, or -1 for none."""
        if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            return -1
        found = self._nodes.get(str(name))
        if found is None:
            if len(self._nodes) >= MOST_PLACES:
                return -1
            found = self._nodes[str(name)] = len(self._nodes)
        return found

    def moved(self, before: int, after: int) -> None:
        """Note that an agent moved from one place to another; without a scenario, it shows that they are adjacent."""
        if self._unknown and before >= 0 <= after != before:
            self._edge(before, after)

    def _edge(self, one: int, other: int) -> None:
        if len(self._edges) < _MOST_EDGES:
            self._edges[min(one, other), max(one, other)] = None

    def to_json(self) -> dict[str, Any]:
        """Return the ground, JSON-like."""
        if self._size is not None:
            return {"kind": "plane", "size": self._size, "step": self._step}
        if self._grid is not None:
            return {"kind": "grid", "columns": self._grid[0], "rows": self._grid[1], "places": list(self._nodes)}
        cells = [_CELL.fullmatch(node) for node in self._nodes]
        if cells and all(cells):
            columns, rows = (max(int(cell[part]) for cell in cells if cell) + 1 for part in (1, 2))
            if columns * rows <= 4 * MOST_PLACES:
                return {"kind": "grid", "columns": columns, "rows": rows, "places": list(self._nodes)}
        if self._nodes:
            return {"kind": "graph", "places": list(self._nodes), "edges": [list(edge) for edge in self._edges]}
        return {"kind": "contacts"}
