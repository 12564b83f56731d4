"""Where the graph of `places` comes from: a file beside the scenario, or an installed package. And its record.

The graph that a run used is recorded with it, so that a replay needs neither the file nor the package.
"""

import inspect
from codecs import BOM_UTF8
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import attrs

from sim.agents.packages import GRAPHS, Offer, find_offer, is_offered_name
from sim.base.errors import Problem, UsageError
from sim.base.expressions import did_you_mean
from sim.base.text import of_error
from sim.kernel.codec import JsonObject, decode_as, encode
from sim.record.files import PLACES, SCENARIO
from sim.scenario.beside import bytes_beside, check_beside, suffix_of
from sim.scenario.fields import plain
from sim.scenario.graph_files import FORMATS, MAX_GRAPH_BYTES, PlaceGraph, graph_from, names_of_formats, read_graph
from sim.scenario.yaml_tree import Map

_MAX_RECORD: Final = 10 * MAX_GRAPH_BYTES
_KEYS: Final = ("file", "graph", "params")


@attrs.frozen
class LoadedGraph:
    """The graph of the places of a scenario that is not written in it.

    Attributes:
        reference: what the scenario says: the keys `file`, or `graph` and `params`.
        graph: the graph.
    """

    reference: JsonObject
    graph: PlaceGraph

    def record(self) -> bytes:
        """Return it as it is recorded with a run."""
        return encode(attrs.asdict(self))


def load_graph(
    tree: Map, file: str, allow: Collection[str], loaded_before: LoadedGraph | None
) -> tuple[LoadedGraph | None, list[Problem]]:
    """Return the graph that the places of a scenario refer to, and what is wrong with it; None if there is none.

    Args:
        tree: the tree of the scenario file.
        file: the path of the scenario file, for paths that are relative to it.
        allow: the packages that the operator allows.
        loaded_before: a graph that was loaded before.
    """
    places = tree.get("places")
    reference = _reference(places)
    if reference is None or not isinstance(places, Map):
        return None, []
    for loaded in (loaded_before, recorded_graph(Path(file))):
        if loaded is not None and loaded.reference == reference:
            return loaded, []
    key = "file" if "file" in reference else "graph"
    try:
        if key == "file":
            return LoadedGraph(reference, _read_file(Path(file).parent, reference["file"])), []
        return LoadedGraph(reference, _of_package(reference["graph"], reference.get("params") or {}, allow)), []
    except UsageError as error:
        return None, [places.values_at[key].problem(f"places.{key}: {error}", error.hint)]


def _reference(places: Any) -> dict[str, Any] | None:
    """Return the part of `places` that refers to a graph elsewhere; None if there is none."""
    if not isinstance(places, dict):
        return None
    reference = {key: plain(places[key]) for key in _KEYS if places.get(key) is not None}
    if isinstance(reference.get("file"), str) and "graph" not in reference:
        return reference
    named = reference.get("graph")
    params = reference.get("params", {})
    return reference if isinstance(named, str) and is_offered_name(named) and isinstance(params, dict) else None


def _read_file(folder: Path, name: str) -> PlaceGraph:
    """Return the graph in a file beside a scenario, or below it.

    Raises:
        UsageError: if there is no such file, or it has no graph.
    """
    check_beside(name)
    suffix = suffix_of(name, FORMATS)
    if suffix is None:
        raise UsageError(f"{name[:200]!r} has no known format", hint=f"its name ends in {names_of_formats()}")
    data = bytes_beside(folder, name, MAX_GRAPH_BYTES)
    return _named_graph(name, data, suffix)


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(MAX_GRAPH_BYTES + 1).removeprefix(BOM_UTF8)


def _named_graph(name: str, data: bytes, suffix: str) -> PlaceGraph:
    """Return the graph in a file; errors begin with its name."""
    try:
        return read_graph(data, suffix)
    except UsageError as error:
        raise UsageError(f"{name[:200]}: {error}", hint=error.hint) from None


# -- packages


def _of_package(name: str, params: JsonObject, allow: Collection[str]) -> PlaceGraph:
    """Return a graph that an installed package offers: that of a file, which is only read, or of a function.

    Raises:
        UsageError: if there is none, it is a function and the package is not allowed, or it gives no graph.
    """
    offer = find_offer(GRAPHS, name)
    suffix = suffix_of(offer.target, FORMATS)
    if suffix is None:
        return _made(offer, offer.load(allow), params)
    if params:
        raise UsageError(f"{offer.full_name} is a file and takes no params", hint="leave params out")
    return _named_graph(offer.full_name, _read(offer.file()), suffix)


def _made(offer: Offer, make: Any, params: JsonObject) -> PlaceGraph:
    """Return the graph that a function of a package makes."""
    if not callable(make):
        raise UsageError(f"{offer.full_name} leads to {offer.target!r}, which is neither a function nor a graph file")
    try:
        signature = inspect.signature(make)
        signature.bind(**params)
    except (TypeError, ValueError) as error:
        parameters = list(inspect.signature(make).parameters)
        wrong = next((name for name in params if name not in parameters), None)
        hint = None if wrong is None else did_you_mean(wrong, parameters)
        hint = hint or (f"it takes: {', '.join(parameters)}" if parameters else "it takes no params")
        raise UsageError(f"{offer.full_name} cannot be called: {error}", hint=hint) from None
    try:
        graph = make(**params)
    except (Exception, SystemExit) as error:  # the imported code may raise anything
        raise UsageError(f"{offer.full_name} failed: {of_error(error)}") from error
    try:
        return graph_from(graph)
    except AttributeError:
        raise UsageError(f"{offer.full_name} gives {type(graph).__name__}, and not a graph of networkx") from None
    except UsageError as error:
        raise UsageError(f"{offer.full_name}: {error}", hint=error.hint) from None


# -- the record


def recorded_graph(file: Path) -> LoadedGraph | None:
    """Return the graph that is recorded beside the scenario of a run; None if there is none.

    Args:
        file: the path of the scenario.
    """
    path = file.with_name(PLACES) if file.name == SCENARIO else None
    if path is None or not path.is_file() or path.stat().st_size > _MAX_RECORD:
        return None
    try:
        return decode_as(path.read_bytes(), LoadedGraph)
    except ValueError:
        return None  # it is another file of this name
