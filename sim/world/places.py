"""Places: a graph of nodes with travel times, and the positions of agents in it."""

import importlib.resources
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

from sim.base.errors import UsageError
from sim.kernel.codec import decode
from sim.kernel.ports import ANYONE, Guard

Attributes = Mapping[str, str | int | float | bool]
"""Attributes of a place or an edge by name."""

_MOST_KEPT = 2_000_000  # names of places near others, and as many of agents near others
_FEW = 64  # neighbours: longer lists are not kept for each agent, as many agents at one place would have many of them
_RINGS = 32  # up to which distance the places in sight of a place are kept


class Places:
    """An undirected graph on which agents stand. A grid is a graph with nodes named `column,row`.

    Args:
        nodes: the names of the nodes, in order.
        edges: tuples (node, node, travel time in simulated nanoseconds).
        about: attributes of nodes, as a graph file gives them.
        between: attributes of edges, as tuples (node, node, attributes).

    Attributes:
        gate: who may change it.
        instant: whether no edge takes time.

    Raises:
        UsageError: if an edge names an unknown node.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        edges: Iterable[tuple[str, str, int]],
        about: Mapping[str, Attributes] | None = None,
        between: Iterable[tuple[str, str, Attributes]] = (),
    ) -> None:
        self.gate: Guard = ANYONE
        self._about = dict(about or {})
        self._between: dict[tuple[str, str], Attributes] = {}
        for start, end, attributes in between:
            self._between.setdefault((start, end), attributes)
        self._edges: dict[str, dict[str, int]] = {node: {} for node in nodes}
        self._standing: dict[str, dict[str, None]] = {node: {} for node in self._edges}
        self._where: dict[str, str] = {}
        self._names = list(self._edges)
        self._rank = {node: rank for rank, node in enumerate(self._names)}
        self._free: tuple[list[str], list[int]] | None = None  # the free places and their ranks, from the first use on
        # Place → the agents at it, then those one edge away; by agent the others of them; and how many names these
        # are together. It is kept until one moves.
        self._around: dict[str, tuple[list[str], dict[str, list[str]], list[int]]] = {}
        self._kept_around = 0  # names in `_around`
        self._rings: dict[str, list[list[str]]] = {}  # place → the places in its row and column, by distance
        self._grid: tuple[int, int, bool] | None = None  # columns, rows, whether it wraps
        self._within: dict[tuple[str, int], list[str]] = {}  # place and radius → the places up to so far away
        self._kept = 0  # names in `_within`
        self.instant = True
        self._parts: dict[str, str] = {}  # place → the first place of its part of the graph, filled at first use
        for start, end, time in edges:
            for node in (start, end):
                if node not in self._edges:
                    raise UsageError(f"an edge leads to {node!r}, which is no place")
            self._edges[start][end] = time
            self._edges[end][start] = time
            self.instant = self.instant and not time

    @classmethod
    def grid(cls, columns: int, rows: int, travel_ns: int, *, diagonals: bool = False, wrap: bool = False) -> "Places":
        """Return a grid in which each place is adjacent to four others, or to eight with diagonals.

        With `wrap`, the last column is adjacent to the first, and the last row to the first: the grid is a torus.
        """
        cells = [(x, y) for y in range(rows) for x in range(columns)]
        steps = [(1, 0), (0, 1), *(((-1, 1), (1, 1)) if diagonals else ())]
        edges = [
            (f"{x},{y}", f"{(x + right) % columns},{(y + down) % rows}", travel_ns)
            for turn in (steps[:1], steps[1:2], steps[2:])  # all edges to the right, then down, then across
            for x, y in cells
            for right, down in turn
            if wrap or (0 <= x + right < columns and y + down < rows)
        ]
        places = cls([f"{x},{y}" for x, y in cells], [edge for edge in edges if edge[0] != edge[1]])
        places._grid = (columns, rows, wrap)
        return places

    @classmethod
    def shipped(cls, name: str, travel_ns: int) -> "Places":
        """Return a social network that is included in the package: `karate_club` or `les_miserables`.

        Sources: Zachary (1977) and Knuth (1993), with the nodes and edges of the versions in networkx.
        """
        text = importlib.resources.files("sim.world").joinpath(f"graphs/{name}.json").read_bytes()
        graph = decode(text)
        return cls(graph["nodes"], [(a, b, travel_ns) for a, b in graph["edges"]])

    @property
    def nodes(self) -> list[str]:
        """All places, in order."""
        return self._names.copy()

    def __contains__(self, node: object) -> bool:
        return node in self._edges

    def named(self, value: object) -> str | None:
        """Return the place that a value names, or None.

        An integer that is not the name of a place is the zero-based index of a place.
        """
        if value.__class__ is str:  # as nearly always
            return value if value in self._edges else None
        if isinstance(value, bool) or not isinstance(value, str | int):
            return None
        if str(value) in self._edges:
            return str(value)
        number = isinstance(value, int) and 0 <= value < len(self._edges)
        return self._names[value] if number else None  # type: ignore[index]  # `number` implies an int

    def free(self) -> list[str]:
        """Return the places where no agent stands, in order of declaration."""
        return list(self.all_free())

    def all_free(self) -> Sequence[str]:
        """Return what `free` returns, to be read at once: the list belongs to this object, and changes with it."""
        if self._free is None:
            names = [node for node, standing in self._standing.items() if not standing]
            self._free = names, [self._rank[node] for node in names]
        return self._free[0]

    def is_free(self, node: str) -> bool:
        """Return whether no agent stands at a place."""
        return not self._standing[node]

    def straight(self, node: str, distance: int) -> Sequence[Sequence[str]]:
        """Return the places of a grid in the row and the column of `node`: those 1 away, 2 away, up to `distance`.

        Raises:
            UsageError: if the places are no grid.
        """
        if self._grid is None:
            raise UsageError("only a grid has rows and columns")
        columns, rows, _ = self._grid
        distance = min(distance, max(columns, rows))
        rings = self._rings.get(node, [])
        if len(rings) < distance:
            y, x = divmod(self._rank[node], columns)
            rings = [*rings, *[self._ring(x, y, step) for step in range(len(rings) + 1, distance + 1)]]
            if distance <= _RINGS:
                self._rings[node] = rings
        return rings[:distance]

    def _ring(self, x: int, y: int, step: int) -> list[str]:
        """Return the places `step` away from column `x` and row `y`, in its row and its column."""
        assert self._grid is not None, "`straight` has checked it"
        columns, rows, wrap = self._grid
        names, row = self._names, y * columns
        if step <= x < columns - step and step <= y < rows - step:  # most places: no end is beyond the border
            down = step * columns
            return [names[row + x + step], names[row + x + down], names[row + x - step], names[row + x - down]]
        ends = ((x + step, y), (x, y + step), (x - step, y), (x, y - step))
        reached = (
            names[down % rows * columns + right % columns]
            for right, down in ends
            if wrap or (0 <= right < columns and 0 <= down < rows)
        )
        return list(dict.fromkeys(reached))

    def where(self, agent_id: str) -> str | None:
        """Return the place of an agent, or None."""
        return self._where.get(agent_id)

    def at(self, node: str) -> list[str]:
        """Return the agents at a place, in order of arrival."""
        return list(self._standing[node])

    def adjacent(self, node: str) -> list[str]:
        """Return the places one edge away, in order of declaration."""
        return list(self._edges[node])

    def about(self, node: str) -> Attributes:
        """Return the attributes of a place that its graph file gives; empty if there are none."""
        return self._about.get(node, {})

    def between(self, node: str, other: str) -> Attributes:
        """Return the attributes of the edge between two places that the graph file gives; empty if there are none."""
        return self._between.get((node, other)) or self._between.get((other, node)) or {}

    def neighbours(self, agent_id: str) -> list[str]:
        """Return the other agents at the place of `agent_id` or one edge away."""
        return list(self.around(agent_id))

    def around(self, agent_id: str) -> Sequence[str]:
        """Return what `neighbours` returns, to be read at once: the list belongs to this object."""
        here = self._where.get(agent_id)
        if here is None:
            return []
        kept = self._around.get(here)
        if kept is None:
            near = list(self._standing[here])
            for node in self._edges[here]:
                near += self._standing[node]
            kept = near, {}, [size := len(near)]
            if self._kept_around + size <= _MOST_KEPT:
                self._kept_around += size
                self._around[here] = kept
        others = kept[1].get(agent_id)
        if others is None:
            others = kept[0].copy()
            others.remove(agent_id)
            size = len(others)
            if size <= _FEW and self._kept_around + size <= _MOST_KEPT and here in self._around:
                self._kept_around += size
                kept[2][0] += size
                kept[1][agent_id] = others
        return others

    def within(self, node: str, radius: int) -> list[str]:
        """Return the places up to `radius` edges away, the nearest first, beginning with `node`.

        Those of a place are kept for the next call, as long as all together are at most 2,000,000 names.
        """
        kept = self._within.get((node, radius))
        if kept is not None:
            return kept.copy()
        reached, ring, edges = {node: None}, [node], self._edges
        for _ in range(radius):
            ring = list(dict.fromkeys(other for here in ring for other in edges[here] if other not in reached))
            if not ring:
                break
            reached.update(dict.fromkeys(ring))
        near = list(reached)
        if self._kept + len(near) <= _MOST_KEPT:
            self._kept += len(near)
            self._within[node, radius] = near.copy()
        return near

    def others_within(self, agent_id: str, radius: int) -> list[str]:
        """Return the other agents up to `radius` edges away, the nearest first."""
        here = self._where.get(agent_id)
        if here is None:
            return []
        standing = self._standing
        return [id for node in self.within(here, radius) for id in standing[node] if id != agent_id]

    def place(self, agent_id: str, node: str) -> None:
        """Put an agent at a place.

        Raises:
            UsageError: if the place does not exist.
        """
        if self.gate.current is None:
            self.gate.acting()  # it refuses a call from outside before anything changes
        if node not in self._edges:
            raise UsageError(f"{node!r} is no place")
        self._leave(agent_id)
        self._where[agent_id] = node
        self._standing[node][agent_id] = None
        self._changed(node)
        if self._free is not None and len(self._standing[node]) == 1:
            names, ranks = self._free
            at = bisect_left(ranks, self._rank[node])
            del names[at], ranks[at]

    def remove(self, agent_id: str) -> None:
        """Remove an agent from the graph."""
        if self.gate.current is None:
            self.gate.acting()  # it refuses a call from outside before anything changes
        self._leave(agent_id)

    def _leave(self, agent_id: str) -> None:
        here = self._where.pop(agent_id, None)
        if here is not None:
            del self._standing[here][agent_id]
            self._changed(here)
            if self._free is not None and not self._standing[here]:
                names, ranks = self._free
                at = bisect_left(ranks, self._rank[here])
                names.insert(at, here)
                ranks.insert(at, self._rank[here])

    def _changed(self, node: str) -> None:
        """Forget who stands around a place, because an agent has come or left."""
        around = self._around
        if around:
            for place in (node, *self._edges[node]):
                near = around.pop(place, None)
                if near is not None:
                    self._kept_around -= near[2][0]

    def travel_ns(self, start: str, end: str) -> int | None:
        """Return the travel time of the shortest path (Dijkstra), in nanoseconds; None if there is no path."""
        if self.instant:
            return 0 if self._part(start) == self._part(end) else None
        best = {start: 0}
        ahead = [(0, start)]
        while ahead:
            time, node = heappop(ahead)
            if node == end:
                return time
            if time > best[node]:
                continue
            for other, step in self._edges[node].items():
                if time + step < best.get(other, time + step + 1):
                    best[other] = time + step
                    heappush(ahead, (time + step, other))
        return None

    def _part(self, node: str) -> str:
        """Return the first place of the connected part of the graph to which a place belongs."""
        if not self._parts:
            for first in self._edges:
                ahead = [] if first in self._parts else [first]
                while ahead:
                    here = ahead.pop()
                    if here not in self._parts:
                        self._parts[here] = first
                        ahead.extend(self._edges[here])
        return self._parts[node]

    def state(self) -> Mapping[str, str]:
        """Return the place of each agent, for the final digest."""
        return dict(sorted(self._where.items()))
