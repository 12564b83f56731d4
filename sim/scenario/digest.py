"""The hash of a scenario file together with the files that it refers to."""

import hashlib
from pathlib import Path

from sim.scenario.place_graphs import load_graph
from sim.scenario.populations import load_tables, record_of
from sim.scenario.symbols import mapping
from sim.scenario.yaml_tree import Map, read_tree


def scenario_digest(file: Path) -> str:
    """Return the hash (64 hex digits) of a scenario file, of the graph in the file that its places refer to, and of the
    tables that describe its agents.

    Raises:
        OSError: if the scenario cannot be read.
    """
    data = file.read_bytes()
    whole = hashlib.sha256(data)
    refers = b"places" in data or b"table" in data
    tree = read_tree(data.decode(errors="replace"), str(file))[0] if refers else None
    if isinstance(tree, Map) and "file" in mapping(tree, "places"):
        loaded, _ = load_graph(tree, str(file), (), None)
        whole.update(b"" if loaded is None else loaded.record())
    if isinstance(tree, Map):
        whole.update(record_of(load_tables(tree, str(file), {})[0]) or b"")
    return whole.hexdigest()
