"""Places from graph files and from installed packages: formats, travel times, what is refused, and the record."""

import io
import json
import os
import shutil
import sys
from pathlib import Path

import networkx as nx
import pytest

import sim
from sim.base.errors import RunError, ScenarioError
from sim.experiments.plan import check_scenario, make_sweep
from sim.experiments.ray_workers import _files
from sim.record import open_run
from sim.scenario import graph_files, json_schema, load
from sim.scenario.assembly.build import build
from tests.packages import install

HEAD = "name: net\nuntil: 20s\n"
AGENTS = """
agents:
  - name: ann
    place: a
    loop: {min_loop_delay: 1s}
    rules: [{do: {move: {to: "=choice(adjacent())"}}}]
"""
EDGES = "a b\nb c\nc a\n"


def scenario(folder: Path, places: str, agents: str = AGENTS, name: str = "net.yaml") -> Path:
    """Write a scenario with these places."""
    file = folder / name
    file.write_text(f"{HEAD}places: {places}{agents}")
    return file


def places_of(file: Path, **options):
    """Return the places of the world of a scenario."""
    world = build(load(file, **options)).world
    assert world.places is not None
    return world.places


def problem_of(file: Path, **options):
    """Return the one problem of a scenario."""
    with pytest.raises(ScenarioError) as caught:
        build(load(file, **options))
    (problem,) = caught.value.problems
    return problem


def triangle() -> nx.Graph:
    """Return a graph with attributes."""
    graph = nx.Graph()
    graph.add_node("a", people=5, name="the mill")
    graph.add_edge("a", "b", distance=2.5)
    graph.add_edge("b", "c", distance=4, travel_time="1m")
    graph.add_edge("c", "a", distance=0)
    return graph


def written(write, graph) -> bytes:
    """Return what a function of networkx writes."""
    stream = io.BytesIO()
    write(graph, stream)
    return stream.getvalue()


def one(**node) -> str:
    """Return node-link JSON with one node."""
    return json.dumps({"nodes": [node], "edges": []})


FILES = {
    "net.graphml": lambda graph: written(nx.write_graphml, graph),
    "net.gexf": lambda graph: written(nx.write_gexf, graph),
    "net.gml": lambda graph: "\n".join(nx.generate_gml(graph)).encode(),
    "net.json": lambda graph: json.dumps(nx.node_link_data(graph)).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_formats_with_attributes(tmp_path, name):
    """Nodes, edges, travel times and attributes are the same from each format that can hold them."""
    (tmp_path / name).write_bytes(FILES[name](triangle()))
    places = places_of(scenario(tmp_path, f"{{file: {name}, length: distance, travel_time: 2s}}"))
    assert places.nodes == ["a", "b", "c"]
    assert [places.travel_ns("a", other) for other in "bc"] == [5 * 10**9, 0]
    assert places.adjacent("c") == ["a", "b"]
    assert places.about("a")["people"] == 5
    assert places.between("b", "a")["distance"] == places.between("a", "b")["distance"] == 2.5
    assert places.between("a", "nowhere") == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.edgelist", EDGES),
        ("net.edgelist", "# ring\na b 1\nb c 2 # far\nc a 3\n"),
        ("net.adjlist", "a b c\nb c\nc\n"),
        ("NET.GML", 'graph [\nnode [ id 0 label "a" ]\nnode [ id 1 label "b" ]\nedge [ source 0 target 1 ]\n]'),
        ("net.json", '{"nodes": [{"id": "a"}, {"id": 2}], "links": [{"source": "a", "target": 2}]}'),
        ("net.gml", "graph [\nnode [ id 0 ]\nnode [ id 1 ]\nedge [ source 0 target 1 ]\n]"),
    ],
)  # fmt: skip
def test_other_formats(tmp_path, name, text):
    """Plain lists of edges, JSON with `links`, and GML without labels are read too, also with a byte order mark."""
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    places = places_of(scenario(tmp_path, f"{{file: {name}, travel_time: 3s}}", "\nagents: [{name: ann}]\n"))
    first, second = places.nodes[:2]
    assert places.travel_ns(first, second) == 3 * 10**9


def test_names_in_the_scenario_are_checked_against_the_file(tmp_path):
    """A place that the graph does not have is found when the scenario is loaded, with the nearest name."""
    (tmp_path / "net.graphml").write_bytes(FILES["net.graphml"](nx.les_miserables_graph()))
    problem = problem_of(scenario(tmp_path, "{file: net.graphml}", AGENTS.replace("place: a", "place: Valjen")))
    assert (problem.line, problem.hint) == (6, "did you mean 'Valjean'?")


def test_rules_read_the_attributes_of_places(tmp_path):
    """`attribute` gives that of the agent's place, or of another one; none where there is none."""
    (tmp_path / "net.graphml").write_bytes(FILES["net.graphml"](triangle()))
    told = {"own": "attribute('people')", "other": "attribute('people', 'b')", "absent": "attribute('x', 'nowhere')"}
    state = ", ".join(f"{key}: 0" for key in told)
    values = ", ".join(f'{key}: "={value}"' for key, value in told.items())
    rule = f"{{do: stop, set: {{{values}}}}}"
    for place, expected in (("place: a, ", 5), ("", None)):
        agents = f"\nagents: [{{name: ann, {place}state: {{{state}}}, rules: [{rule}]}}]\n"
        run = sim.run(scenario(tmp_path, "{file: net.graphml}", agents), out=tmp_path / "runs").run
        assert run is not None
        with open_run(run) as stored:
            assert stored.info.digest is not None
            assert stored.info.digest["agents"]["ann"]["state"] == {"own": expected, "other": None, "absent": None}


def test_several_edges_between_two_places(tmp_path):
    """Of several edges the fastest counts, and an edge from a place to itself is none."""
    graph = nx.MultiDiGraph()
    for start, end, time in (("a", "b", 5), ("b", "a", 2), ("a", "b", 9), ("a", "a", 1)):
        graph.add_edge(start, end, travel_time=time)
    (tmp_path / "net.graphml").write_bytes(FILES["net.graphml"](graph))
    places = places_of(scenario(tmp_path, "{file: net.graphml, both_ways: true}"))
    assert places.travel_ns("a", "b") == places.travel_ns("b", "a") == 2 * 10**9
    assert (places.adjacent("a"), places.adjacent("b")) == (["b"], ["a"])


# -- what is refused

BOTH = "file: net.graphml, both_ways: true"

ENTITIES = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">'
    + "".join(f'<!ENTITY lol{n} "{f"&lol{n - 1 or str()};" * 10}">' for n in range(1, 10))
    + ']><graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
    '<node id="&lol9;"/></graph></graphml>'
)
NAN = nx.Graph([("a", "b", {"w": float("nan")})])
OUTSIDE = '<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/hostname">]><graphml><graph><node id="&x;"/></graph></graphml>'


@pytest.mark.parametrize(
    ("name", "content", "words", "hint"),
    [
        ("net.graphml", ENTITIES, "it has a document type, which could declare entities", "remove <!DOCTYPE ...>"),
        ("net.gexf", OUTSIDE, "it has a document type, which could declare entities", "remove <!DOCTYPE ...>"),
        ("net.graphml", "<a>" * 60, "its elements are nested more than 50 deep", None),
        ("net.graphml", "<graphml>", "it cannot be read as GraphML: ExpatError: no element found", None),
        ("net.gexf", "<gexf/>", "it cannot be read as GEXF", None),
        ("net.gml", "graph [", "it cannot be read as GML", None),
        ("net.gml", "graph " + "[ a " * 5000, "it cannot be read as GML", None),
        ("net.json", "[" * 100_000, "it cannot be read as node-link JSON", None),
        ("net.json", '{"nodes": []}', "it cannot be read as node-link JSON", None),
        ("net.json", '{"nodes": [], "edges": []}', "it has 0 nodes; a graph of places has 1 to 100000", None),
        ("net.json", '{"nodes": [{"id": 1}, {"id": "1"}], "edges": []}', "several nodes with the name '1'", None),
        ("net.json", one(id=True), "the node True cannot be a place", None),
        ("net.json", one(id="\x1b[2J"), "characters that cannot be shown", None),
        ("net.json", one(id="x" * 65), "has 1 to 64 characters", None),
        ("net.json", one(id="a", t="x" * 1001), "the attribute t is too long", None),
        ("net.json", one(id="a", n=2**63), "n is too large", None),
        ("net.graphml", FILES["net.graphml"](NAN), "w is not a finite number", None),
        ("net.edgelist", "a b c d\n", "expected two places, and perhaps a weight, found 'a b c d'", None),
        ("net.edgelist", "a b 1\nb c\n", "some edges have a weight, and some have none", None),
        ("net.edgelist", "a b x\n", "it cannot be read as an edge list", None),
        ("net.edgelist", b"\xff\xfe", "it cannot be read as an edge list", None),
        ("net.pickle", "", "'net.pickle' has no known format", "its name ends in .graphml, .gexf, .gml"),
        ("net", "", "'net' has no known format", None),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, name, content, words, hint):
    """A file that is damaged, hostile or no graph of places is refused in one sentence, at its place."""
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    problem = problem_of(scenario(tmp_path, f"{{file: {name}}}"))
    assert (problem.line, problem.column) == (3, 16)
    assert problem.message.startswith("places.file: ")
    assert words in problem.message
    assert len(problem.message) < 400
    assert hint is None or (problem.hint or "").startswith(hint)


def test_size(tmp_path, monkeypatch):
    """A file, and a graph, that is too large is refused."""
    (tmp_path / "net.edgelist").write_text(EDGES)
    file = scenario(tmp_path, "{file: net.edgelist}")
    for limit, words in (
        ("MAX_EDGES", "it has 3 edges"),
        ("MAX_CELLS", "it has 3 nodes"),
        ("MAX_GRAPH_BYTES", "larger than 2 by"),
    ):
        graph_files.read_graph.cache_clear()
        with monkeypatch.context() as changed:
            changed.setattr(graph_files, limit, 2)
            assert words in problem_of(file).message
    assert places_of(file).nodes == ["a", "b", "c"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_no_graph_file(tmp_path):
    """A pipe is refused; reading it would wait for somebody who writes to it."""
    os.mkfifo(tmp_path / "net.edgelist")
    assert "'net.edgelist' is not a file" in problem_of(scenario(tmp_path, "{file: net.edgelist}")).message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../net.edgelist", "is not in the folder of the scenario"),
        ("/etc/hostname", "is not in the folder of the scenario"),
        ("sub/../../net.edgelist", "is not in the folder of the scenario"),
        ("link.edgelist", "leads out of the folder of the scenario"),
        ("none.edgelist", "none.edgelist cannot be read: No such file or directory"),
        ("folder.edgelist", "folder.edgelist cannot be read: Is a directory"),
    ],
)
def test_only_files_beside_the_scenario(tmp_path, name, words):
    """A scenario of somebody else cannot make sim read other files."""
    folder = tmp_path / "own"
    (folder / "folder.edgelist").mkdir(parents=True)
    (tmp_path / "net.edgelist").write_text(EDGES)
    (folder / "link.edgelist").symlink_to(tmp_path / "net.edgelist")
    assert words in problem_of(scenario(folder, f"{{file: {name}}}")).message


@pytest.mark.parametrize(
    ("places", "words", "hint"),
    [
        ("{file: net.graphml}", "the edges of the graph lead one way", "add `both_ways: true` to ignore their"),
        (f"{{{BOTH}, length: w, travel_time: 1s}}", "a - b: its w is not a number of at least 0", None),
        (f"{{{BOTH}, length: v, travel_time: 1s}}", "it has no attribute 'v'", None),
        (f"{{{BOTH}, length: w}}", "length needs travel_time", "for example travel_time: 1s"),
        ("{file: late.graphml}", "the edge a - b: ", None),
        ("{graph: karate_club, length: w}", "length needs file, or a graph of a package", None),
        ("{graph: karate_club, params: {n: 1}}", "params needs file, or a graph of a package", None),
        ("{nodes: [a], both_ways: true}", "both_ways needs file, or a graph of a package", None),
        ("{file: net.graphml, nodes: [a]}", "expected one of graph, file, nodes, grid, found file and nodes", None),
        ("{graph: karate_clup}", "expected karate_club or les_miserables, or", "did you mean 'karate_club'?"),
        ("{file: 5}", "expected text, found 5", None),
        ("{}", "expected one of graph, file, nodes, grid, found none", None),
    ],
)  # fmt: skip
def test_keys_that_do_not_fit(tmp_path, places, words, hint):
    """What the other keys of `places` say must fit the graph."""
    (tmp_path / "net.graphml").write_bytes(FILES["net.graphml"](nx.DiGraph([("a", "b", {"w": -1})])))
    (tmp_path / "late.graphml").write_bytes(FILES["net.graphml"](nx.Graph([("a", "b", {"travel_time": "soon"})])))
    problem = problem_of(scenario(tmp_path, places, "\nagents: [{name: ann}]\n"))
    assert words in problem.message
    assert hint is None or (problem.hint or "").startswith(hint)


def test_without_networkx(tmp_path, monkeypatch):
    """The error names the extra that has it."""
    monkeypatch.setitem(sys.modules, "networkx", None)
    graph_files.read_graph.cache_clear()
    (tmp_path / "net.edgelist").write_text(EDGES)
    problem = problem_of(scenario(tmp_path, "{file: net.edgelist}"))
    assert "networkx reads graph files, and it is not installed" in problem.message
    assert problem.hint == "pip install 'actor-sim[graphs]'"


# -- the record


def test_a_run_needs_the_file_no_more(tmp_path, monkeypatch):
    """Replay and branch use the recorded graph: without the file, and without networkx."""
    (tmp_path / "net.edgelist").write_text(EDGES)
    first = sim.run(scenario(tmp_path, "{file: net.edgelist}"), out=tmp_path / "runs")
    assert first.run is not None
    (tmp_path / "net.edgelist").unlink()
    monkeypatch.setitem(sys.modules, "networkx", None)
    graph_files.read_graph.cache_clear()
    moved = Path(shutil.move(first.run, tmp_path / "elsewhere"))
    assert sim.replay(moved).same
    for at in ("5s", 0):
        branched = sim.branch(moved, at=at, out=tmp_path / "branches")
        assert branched.hash == first.hash
        assert branched.run is not None
        assert sim.replay(branched.run).same


@pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")
def test_a_changed_record_is_noticed(tmp_path):
    """A recorded graph that was edited or lost is no base for a replay."""
    (tmp_path / "net.edgelist").write_text(EDGES)
    run = sim.run(scenario(tmp_path, "{file: net.edgelist}"), out=tmp_path / "runs").run
    assert run is not None
    places = Path(run, "places.json")
    places.write_text(places.read_text().replace('"a"', '"z"'))
    with open_run(run) as stored:
        assert len(stored.integrity.problems) == 1
    with pytest.raises(RunError, match=r"places.json is not the graph of places that was used: it was changed"):
        sim.replay(run)
    places.unlink()
    with pytest.raises(RunError, match=r"places.json, the graph of places, cannot be read: No such file"):
        sim.branch(run, at=0)


def test_a_file_named_as_the_record(tmp_path):
    """A graph file of the user that is called places.json beside scenario.yaml is read as what it is."""
    (tmp_path / "places.json").write_bytes(FILES["net.json"](triangle()))
    assert places_of(scenario(tmp_path, "{file: places.json}", name="scenario.yaml")).nodes == ["a", "b", "c"]


def test_the_plan_of_a_sweep_is_made_for_the_graph(tmp_path):
    """An experiment is not continued with another graph."""
    (tmp_path / "net.edgelist").write_text(EDGES)
    file = scenario(tmp_path, "{file: net.edgelist}")
    plan = make_sweep(file, count=1, vary=["places.travel_time=1s,2s"])
    check_scenario(plan, file)
    (tmp_path / "net.edgelist").write_text("a b\nb c\n")
    with pytest.raises(sim.UsageError, match="is not the scenario of this plan"):
        check_scenario(plan, file)


def test_a_sweep_on_another_machine_has_the_graph(tmp_path):
    """The files that a job takes along are enough: its scenario is the one of the plan, and it loads there."""
    (tmp_path / "net.edgelist").write_text(EDGES)
    plan = make_sweep(scenario(tmp_path, "{file: net.edgelist}"), count=1)
    there = tmp_path / "there"
    there.mkdir()
    for name, content in _files(plan).items():
        (there / name).write_bytes(content)
    check_scenario(plan, there / "scenario.yaml")
    assert places_of(there / "scenario.yaml").nodes == ["a", "b", "c"]


# -- packages

RING = """
import networkx

def ring(size: int = 3):
    if size > 99:
        raise ValueError("too many")
    return networkx.cycle_graph(size)

def broken():
    return 5

number = 5
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with the package `rings`, from which modules are imported."""
    folder = tmp_path / "site"
    offers = {name: f"rings_of_tests:{name}" for name in ("ring", "broken", "number", "missing")}
    offers |= {"net": "rings_of_tests:net.edgelist", "lost": "rings_of_tests:lost.gml"}
    files = {"rings_of_tests/__init__.py": RING, "rings_of_tests/net.edgelist": EDGES}
    install(folder, "rings", files, offers={"sim.graphs": offers})
    monkeypatch.syspath_prepend(folder)
    yield folder
    sys.modules.pop("rings_of_tests", None)


def test_a_file_of_a_package_is_only_read(tmp_path, site):
    """It needs no permission, because nothing is imported."""
    assert places_of(scenario(tmp_path, "{graph: 'rings:net'}")).nodes == ["a", "b", "c"]
    assert "rings_of_tests" not in sys.modules


def test_a_function_of_a_package_makes_the_graph(tmp_path, site):
    """Its arguments are `params`, which can be overridden; what it made is recorded, so a replay imports nothing."""
    agents = "\nagents: [{name: ann, place: 2, rules: [{do: {move: {to: '=choice(adjacent())'}}}]}]\n"
    file = scenario(tmp_path, "{graph: 'rings:ring', params: {size: 5}}", agents)
    problem = problem_of(file)
    assert "'ring' belongs to the package rings, which is not allowed" in problem.message
    assert problem.hint == "allow it: --allow rings"
    assert "rings_of_tests" not in sys.modules
    assert places_of(file, allow=("rings",)).nodes == ["0", "1", "2", "3", "4"]
    assert len(places_of(file, allow=("rings",), overrides=("places.params.size=7",)).nodes) == 7
    recorded = sim.run(file, allow=("rings",), out=tmp_path / "runs").run
    assert recorded is not None
    with open_run(recorded) as stored:
        assert stored.info.options["packages"] == {"rings": "1.2.0"}
    shutil.rmtree(site)
    sys.modules.pop("rings_of_tests")
    assert sim.replay(recorded).same


@pytest.mark.parametrize(
    ("places", "words", "hint"),
    [
        ("{graph: 'rings:rng'}", "the package rings has no graph 'rng'", "did you mean 'ring'?"),
        ("{graph: 'rungs:ring'}", "no installed package 'rungs' offers a graph", "did you mean 'rings'?"),
        ("{graph: 'rings:ring', params: {sise: 3}}", "rings:ring cannot be called: got", "did you mean 'size'?"),
        ("{graph: 'rings:broken', params: {a: 3}}", "rings:broken cannot be called", "it takes no params"),
        ("{graph: 'rings:ring', params: {size: 100}}", "rings:ring failed: ValueError: too many", None),
        ("{graph: 'rings:ring', params: {size: 0}}", "rings:ring: it has 0 nodes", None),
        ("{graph: 'rings:broken'}", "rings:broken gives int, and not a graph of networkx", None),
        ("{graph: 'rings:number'}", "is neither a function nor a graph file", None),
        ("{graph: 'rings:missing'}", "the graph 'missing' of the package rings cannot be imported", None),
        ("{graph: 'rings:lost'}", "rings:lost leads to 'rings_of_tests:lost.gml', and there is no such file", None),
        ("{graph: 'rings:net', params: {size: 1}}", "rings:net is a file and takes no params", "leave params out"),
    ],
)  # fmt: skip
def test_graphs_of_packages_that_do_not_fit(tmp_path, site, places, words, hint):
    """What is wrong with a graph of a package is told at its place in the scenario."""
    problem = problem_of(scenario(tmp_path, places), allow=("rings",))
    assert problem.line == 3
    assert problem.message.startswith("places.graph: ")
    assert words in problem.message
    assert hint is None or problem.hint == hint


@pytest.mark.slow
def test_the_schema_has_the_keys():
    """Editors complete the keys, and the names of graphs that sim has."""
    found = json_schema()["$defs"]["Places"]["properties"]
    assert {"file", "params", "length", "both_ways"} <= set(found)
    assert "karate_club" in json.dumps(found["graph"])
