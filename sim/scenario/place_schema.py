"""The models of `places` in a scenario file: graphs, grids, what grows at places, and their rules."""

from typing import Annotated, Any, Final

import attrs
from pydantic import Field, PlainValidator, PrivateAttr, ValidationInfo, WithJsonSchema, model_validator

from sim.agents.packages import is_offered_name
from sim.base.expressions import Expression, did_you_mean
from sim.kernel.duration import MAX_NS
from sim.scenario import fields as f
from sim.scenario.graph_files import PlaceGraph
from sim.scenario.place_graphs import LoadedGraph
from sim.scenario.scopes import Context
from sim.scenario.symbols import MAX_CELLS
from sim.scenario.units import SECOND, FieldError, Nanoseconds, PositiveNanoseconds, duration, shown
from sim.scenario.values import ValueTemplate
from sim.world.places import Attributes

_TRUE = Expression.parse("true")


@attrs.frozen
class Edge:
    """An edge between two places.

    Attributes:
        ends: the names of the two places.
        travel_time: in nanoseconds; None stands for the default.
    """

    ends: tuple[str, str]
    travel_time: int | None = None


def _edge(value: Any) -> Edge:
    if isinstance(value, Edge):
        return value
    if not isinstance(value, list) or len(value) not in (2, 3):
        raise FieldError(f"expected an edge such as [a, b] or [a, b, 30s], found {shown(value)}")
    return Edge((_node(value[0]), _node(value[1])), duration(value[2]) if len(value) == 3 else None)


def _node(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or not 1 <= len(str(value)) <= 64:
        raise FieldError(f"expected the name of a place (text or a whole number), found {shown(value)}")
    return str(value)


_NODE_SCHEMA = {"type": ["string", "integer"]}
NodeField = Annotated[str, PlainValidator(_node), WithJsonSchema(_NODE_SCHEMA)]
EdgeField = Annotated[Edge, PlainValidator(_edge), WithJsonSchema({"type": "array", "minItems": 2, "maxItems": 3})]


SHIPPED: Final = ("karate_club", "les_miserables")
"""The graphs that are part of this package."""


def _graph(value: Any) -> str:
    if not isinstance(value, str) or not (value in SHIPPED or is_offered_name(value)):
        message = f"expected {' or '.join(SHIPPED)}, or PACKAGE:NAME of an installed package, found {shown(value)}"
        raise FieldError(message, did_you_mean(str(value), SHIPPED))
    return value


_GRAPH_SCHEMA = {
    "anyOf": [{"enum": list(SHIPPED)}, {"type": "string", "pattern": ":"}],
    "description": "a graph of sim, or PACKAGE:NAME of one of an installed package",
}
GraphField = Annotated[str, PlainValidator(_graph), WithJsonSchema(_GRAPH_SCHEMA)]


class Stock(f.Part):
    """What grows at places, and what agents gather there."""

    capacity: Annotated[f.PlaceNumber, Field(description="the most that there is at a place; it is full at first")]
    growth: Annotated[f.NotNegative, Field(description="how much grows at a place in each period")] = 1.0
    every: Annotated[PositiveNanoseconds, Field(description="the length of a period")] = SECOND


class PlaceRule(f.Part):
    """A condition, and the variables that a place sets if it holds."""

    name: Annotated[str | None, Field(max_length=100, description="a name for readers")] = None
    when: Annotated[f.SiteCondition, Field(description="a condition over the variables of the place; default true")] = (
        _TRUE
    )
    set: Annotated[dict[str, f.SiteValue], Field(min_length=1, description="new values of variables of the place")]


class Places(f.Part):
    """The places of the world: a graph by its name or in a file, nodes and edges, or a grid."""

    graph: Annotated[
        GraphField | None,
        Field(description="a graph: karate_club (34 places), les_miserables (77), or PACKAGE:NAME of a package"),
    ] = None
    params: Annotated[dict[str, f.Json] | None, Field(description="what the graph of a package is made with")] = None
    file: Annotated[str | None, Field(description="a graph file, relative to the scenario: .graphml, .gml, ...")] = None
    nodes: Annotated[
        tuple[NodeField, ...] | None, Field(strict=False, min_length=1, description="the names of the places")
    ] = None
    edges: Annotated[
        tuple[EdgeField, ...],
        Field(strict=False, description="connections in both directions: [a, b], or [a, b, 30s] with the travel time"),
    ] = ()
    grid: Annotated[
        tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None,
        Field(strict=False, description="columns, rows; places are named x,y"),
    ] = None
    diagonals: Annotated[bool, Field(description="grid: edges to all eight neighbours")] = False
    wrap: Annotated[bool, Field(description="grid: the last column and row are adjacent to the first ones")] = False
    stock: Annotated[Stock | None, Field(description="what agents gather at places")] = None
    variables: Annotated[
        dict[f.StateKey, f.SiteValue],
        Field(
            max_length=20,
            description="variables of each place, with their values at the start",
        ),
    ] = Field(default_factory=dict)
    every: Annotated[PositiveNanoseconds, Field(description="how often places follow their rules")] = SECOND
    rules: Annotated[
        tuple[PlaceRule, ...],
        Field(strict=False, max_length=20, description="in each period a place takes the first that applies"),
    ] = ()
    travel_time: Annotated[Nanoseconds, Field(description="of edges that set none; with `length`, of one unit")] = 0
    length: Annotated[str | None, Field(description="the attribute of edges in the file that is their length")] = None
    both_ways: Annotated[bool, Field(description="file, or graph of a package: ignore the direction of edges")] = False

    _loaded: Any = PrivateAttr(default=None)

    @property
    def loaded(self) -> LoadedGraph | None:
        """The graph that the file, or the package, gives; None if the scenario has the places itself."""
        graph: LoadedGraph | None = self._loaded
        return graph

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> "Places":
        sources = [name for name in ("graph", "file", "nodes", "grid") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise FieldError(f"expected one of graph, file, nodes, grid, found {' and '.join(sources) or 'none'}")
        if self.grid is not None and self.grid[0] * self.grid[1] > MAX_CELLS:
            raise FieldError(f"expected at most {MAX_CELLS} cells in the grid")
        for key, needed in (("edges", "nodes"), ("diagonals", "grid"), ("wrap", "grid")):
            if getattr(self, key) and getattr(self, needed) is None:
                raise FieldError(f"{key} {'need' if key == 'edges' else 'needs'} {needed}")
        if self.stock is not None and self.grid is None and self.stock.capacity.names & {"x", "y"}:
            raise FieldError("x and y are the column and the row in a grid, and there is no grid here")
        self._check_variables()
        self._check_graph(f.context_of(info))
        self._check_nodes()
        return self

    def _check_variables(self) -> None:
        """Check what the rules of places set, and which names they use."""
        taken = next((name for name in self.variables if name in ("index", "x", "y", "place")), None)
        if taken is not None:
            raise FieldError(f"a place has {taken!r} already; choose another name")
        wrong = tuple(
            FieldError(
                f"places have no variable {key[:80]!r}", did_you_mean(key, self.variables), ("rules", number, "set")
            )
            for number, rule in enumerate(self.rules)
            for key in rule.set
            if key not in self.variables
        )
        if wrong:
            raise FieldError("rules set what is no variable", parts=wrong)
        values: list[Expression | ValueTemplate] = [*self.variables.values(), *(rule.when for rule in self.rules)]
        values += [value for rule in self.rules for value in rule.set.values()]
        if self.grid is None and any(value.names & {"x", "y"} for value in values):
            raise FieldError("x and y are the column and the row in a grid, and there is no grid here")

    def _check_graph(self, context: Context | None) -> None:
        """Take the graph that was loaded, and check what the other keys say about it."""
        elsewhere = self.file is not None or (self.graph is not None and self.graph not in SHIPPED)
        for key in ("params", "length", "both_ways"):
            if getattr(self, key) and not elsewhere:
                raise FieldError(
                    f"{key} needs file, or a graph of a package",
                    parts=(FieldError(f"{key} needs file, or a graph of a package", None, (key,)),),
                )
        loaded: LoadedGraph | None = context.graph if elsewhere and context is not None else None
        if loaded is None:
            return
        self._loaded = loaded
        if loaded.graph.directed and not self.both_ways:
            hint = "add `both_ways: true` to ignore their directions"
            raise FieldError("the edges of the graph lead one way, but those of places lead both ways", hint)
        if self.length is not None and not self.travel_time:
            raise FieldError("length needs travel_time, the time for one unit of length", "for example travel_time: 1s")
        travel_times(loaded.graph, self.travel_time, self.length)

    def _check_nodes(self) -> None:
        nodes = self.nodes or ()
        if len(set(nodes)) != len(nodes):
            raise FieldError(f"the place {next(n for n in nodes if nodes.count(n) > 1)!r} appears twice in nodes")
        unknown = tuple(
            FieldError(f"there is no place {end!r} in nodes", did_you_mean(end, nodes), ("edges", number))
            for number, edge in enumerate(self.edges)
            for end in edge.ends
            if end not in nodes
        )
        if unknown:
            raise FieldError("edges lead nowhere", parts=unknown)


def travel_times(graph: PlaceGraph, travel_ns: int, length: str | None) -> list[tuple[str, str, int]]:
    """Return the edges of a graph with their travel times in nanoseconds.

    An edge takes its attribute `travel_time`, else its length times `travel_ns`, else `travel_ns`.

    Args:
        graph: the graph.
        travel_ns: the travel time of an edge, or of one unit of length.
        length: the attribute that is the length of an edge; None: edges have none.

    Raises:
        FieldError: if an attribute that is needed is missing, or is no time or no length.
    """
    return [(a, b, _travel_ns(f"the edge {a} - {b}", about, travel_ns, length)) for a, b, about in graph.edges]


def _travel_ns(where: str, about: Attributes, travel_ns: int, length: str | None) -> int:
    try:
        if "travel_time" in about:
            return duration(about["travel_time"])
        if length is None:
            return travel_ns
        if length not in about:
            raise FieldError(f"it has no attribute {length[:60]!r} for its length", did_you_mean(length, about))
        units = about[length]
        if isinstance(units, str | bool) or units < 0:
            raise FieldError(f"its {length[:60]} is not a number of at least 0, but {shown(units)}")
        whole = round(units * travel_ns)
        if whole > MAX_NS:
            raise FieldError(f"its {length[:60]} of {units} takes too long")
    except FieldError as error:
        raise FieldError(f"{where}: {error}", error.hint) from None
    return whole
