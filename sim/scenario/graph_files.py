"""Reads graph files with networkx, which is an extra. Files are not trusted: they can come from anybody."""

import io
import math
import warnings
import xml.parsers.expat as expat  # it is used to refuse what is not safe
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from sim.base.errors import UsageError
from sim.base.text import of_error
from sim.kernel.codec import decode
from sim.scenario.symbols import MAX_CELLS
from sim.world.places import Attributes

MAX_GRAPH_BYTES: Final = 20_000_000
MAX_EDGES: Final = 500_000
_LONGEST_NAME: Final = 64
_LONGEST_TEXT: Final = 1000
_DEEPEST: Final = 50


@attrs.frozen
class PlaceGraph:
    """A graph of places.

    Attributes:
        nodes: the names of the places, in the order of the file.
        edges: the two places of each edge, and the attributes of the edge.
        about: the attributes of the places that have some.
        directed: whether edges lead one way.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str, Attributes], ...]
    about: Mapping[str, Attributes]
    directed: bool = False


@lru_cache(maxsize=4)
def read_graph(data: bytes, suffix: str) -> PlaceGraph:
    """Return the graph in a file.

    Args:
        data: the content of the file.
        suffix: the suffix of its name, one of `FORMATS`.

    Raises:
        UsageError: if networkx is not installed, the file cannot be read, or it is more than places can be.
    """
    if len(data) > MAX_GRAPH_BYTES:
        raise UsageError(f"the file is larger than {MAX_GRAPH_BYTES} bytes")
    try:
        import networkx as nx
    except ImportError as error:
        raise UsageError(
            "networkx reads graph files, and it is not installed", hint="pip install 'actor-sim[graphs]'"
        ) from error
    name, read = FORMATS[suffix]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = read(nx, data)
    except UsageError:
        raise
    except Exception as error:  # the libraries raise errors of many kinds for a file that is damaged
        what = " ".join(of_error(error).split())[:200]
        raise UsageError(f"it cannot be read as {name}: {what}") from error
    return graph_from(graph)


def graph_from(graph: Any) -> PlaceGraph:
    """Return the graph of places that a graph of networkx is.

    Raises:
        UsageError: if it is more than places can be.
    """
    nodes, edges = list(graph.nodes(data=True)), graph.edges(data=True)
    if not 1 <= len(nodes) <= MAX_CELLS:
        raise UsageError(f"it has {len(nodes)} nodes; a graph of places has 1 to {MAX_CELLS}")
    if len(edges) > MAX_EDGES:
        raise UsageError(f"it has {len(edges)} edges; a graph of places has at most {MAX_EDGES}")
    names = [_name(node) for node, _ in nodes]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise UsageError(f"it has several nodes with the name {twice!r}")
    about = {name: _attributes(data, f"the node {name}") for name, (_, data) in zip(names, nodes, strict=True)}
    lines = [(_name(a), _name(b), _attributes(data, f"the edge {a} - {b}")) for a, b, data in edges if a != b]
    described = {name: attributes for name, attributes in about.items() if attributes}
    return PlaceGraph(tuple(names), tuple(lines), described, bool(graph.is_directed()))


def _name(node: object) -> str:
    name = str(node)
    if isinstance(node, bool) or not isinstance(node, str | int) or not name or len(name) > _LONGEST_NAME:
        raise UsageError(f"the node {node!r:.80} cannot be a place: its name has 1 to {_LONGEST_NAME} characters")
    if not name.isprintable():
        raise UsageError(f"the node {name!r} cannot be a place: its name has characters that cannot be shown")
    return name


def _attributes(data: Mapping[Any, Any], where: str) -> Attributes:
    """Return the attributes that are plain values; lists and mappings, as for drawing, are left out."""
    attributes = {str(key): value for key, value in data.items() if isinstance(value, str | int | float | bool)}
    for key, value in attributes.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{where:.120}: {key:.60} is not a finite number")
        if len(key) > _LONGEST_NAME or (isinstance(value, str) and len(value) > _LONGEST_TEXT):
            raise UsageError(f"{where:.120}: the attribute {key:.60} is too long")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise UsageError(f"{where:.120}: {key:.60} is too large")
    return attributes


# -- formats


def _graphml(networkx: Any, data: bytes) -> Any:
    _check_xml(data)
    return networkx.read_graphml(io.BytesIO(data))


def _gexf(networkx: Any, data: bytes) -> Any:
    _check_xml(data)
    return networkx.read_gexf(io.BytesIO(data))


def _gml(networkx: Any, data: bytes) -> Any:
    lines = data.decode("ascii").splitlines()  # other characters are written as entities
    try:
        return networkx.parse_gml(lines)
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return networkx.parse_gml(lines, label="id")  # its nodes have numbers only


def _node_link(networkx: Any, data: bytes) -> Any:
    document = decode(data)
    edges = "links" if isinstance(document, dict) and "links" in document else "edges"
    return networkx.node_link_graph(document, edges=edges, multigraph=False, directed=False)


def _edge_list(networkx: Any, data: bytes) -> Any:
    lines = [line.partition("#")[0].split() for line in data.decode("utf-8").splitlines()]
    lines = [line for line in lines if line]
    odd = next((line for line in lines if len(line) not in (2, 3)), None)
    if odd is not None:
        expected = "two places, and perhaps a weight"
        raise UsageError(f"it cannot be read as an edge list: expected {expected}, found {' '.join(odd)[:80]!r}")
    weighted = any(len(line) == 3 for line in lines)
    if weighted and any(len(line) == 2 for line in lines):
        raise UsageError("it cannot be read as an edge list: some edges have a weight, and some have none")
    return networkx.parse_edgelist(map(" ".join, lines), data=(("weight", float),) if weighted else False)


def _adjacency_list(networkx: Any, data: bytes) -> Any:
    return networkx.parse_adjlist(data.decode("utf-8").splitlines())


FORMATS: Final[Mapping[str, tuple[str, Callable[[Any, bytes], Any]]]] = {
    ".graphml": ("GraphML", _graphml),
    ".gexf": ("GEXF", _gexf),
    ".gml": ("GML", _gml),
    ".json": ("node-link JSON", _node_link),
    ".edgelist": ("an edge list", _edge_list),
    ".adjlist": ("an adjacency list", _adjacency_list),
}
"""By suffix, the name of a format and the function that reads it. None of them can hold code, as a pickle can."""


def _check_xml(data: bytes) -> None:
    """Refuse XML that declares entities, which can grow without bound or read other files, or that is too deep.

    Raises:
        UsageError: if it does.
    """
    parser, depth = expat.ParserCreate(), 0

    def refuse(*_: object) -> None:
        raise UsageError(
            "it has a document type, which could declare entities and is not read", hint="remove <!DOCTYPE ...>"
        )

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise UsageError(f"its elements are nested more than {_DEEPEST} deep")

    def end(*_: object) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler, parser.EntityDeclHandler = refuse, refuse
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(data, True)


def names_of_formats() -> str:
    """Return the known suffixes as text."""
    return ", ".join(FORMATS)
