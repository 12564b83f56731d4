"""Values computed at the start and in sleeps: places by number, patterns and filters by expression, errors by line."""

import pytest

from sim.base.errors import ScenarioError
from sim.runner import run
from sim.scenario import loads
from sim.scenario.assembly.build import build

HEAD = "name: x\nuntil: 1m\nplaces: {nodes: [mill, 7, town], edges: [[mill, 7], [7, town]]}\nagents:\n"


def write(tmp_path, text):
    """Return a file with this text."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("place", "expected"), [("0", "mill"), ("7", "7"), ("'=index + 2'", "town"), ("mill", "mill")])
def test_a_number_names_a_place(place, expected):
    """`place: 0` is the first place, unless a place is called 0; so it is for an expression."""
    world = build(loads(HEAD + f"  - {{name: a, place: {place}}}\n")).world
    assert world.places is not None
    assert world.places.where("a") == expected


@pytest.mark.parametrize("to", ["2", "'=1 + 1'", "town"])
def test_a_number_names_where_to_move(tmp_path, to):
    """The action `move` takes the same values as `place`."""
    rule = f"{{do: {{move: {{to: {to}}}}}, set: {{there: =result.data.to}}}}"
    text = HEAD + f"  - {{name: a, place: 0, state: {{there: ''}}, rules: [{rule}]}}\n"
    result = run(write(tmp_path, text))
    assert result.errors == 0
    assert result.refused == {}


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("place: '=index / 0'", "agents.a.place"),
        ("place: '=9'", "agents.a.place"),
        ("balance: '=0 - 1'", "agents.a.balance"),
        ("start: '=0 - 1'", "agents.a.start"),
        ("state: {x: '=sqrt(0 - 1)'}", "agents.a.state.x"),
    ],
)
def test_an_error_at_the_start_names_file_and_line(tmp_path, line, path):
    """A value that cannot be computed when agents are made is a problem with file, line and column."""
    file = write(tmp_path, HEAD + f"  - name: a\n    {line}\n")
    with pytest.raises(ScenarioError) as caught:
        run(file)
    problem = caught.value.problems[0]
    assert (problem.file, problem.line) == (str(file), 6)
    assert problem.column > 5
    assert problem.message.startswith(f"{path}: a: ")


def test_a_sleep_waits_for_a_computed_event(tmp_path):
    """`event` may be an expression, and `where` sees the agent's own names as they were when it fell asleep."""
    text = """
name: x
until: 1m
agents:
  - name: a
    state: {kind: rain, least: 3, woken: 0}
    rules:
      - {when: woken_by == 'event', do: noop, set: {woken: "=woken + event.data.mm"}}
      - do: {sleep: {event: "='weather.' + kind", where: data.mm >= least and data.to == me}}
events:
  - {at: 1s, topic: weather.rain, data: {mm: 2, to: a}}
  - {at: 2s, topic: weather.sun, data: {mm: 8, to: a}}
  - {at: 3s, topic: weather.rain, data: {mm: 5, to: b}}
  - {at: 4s, topic: weather.rain, data: {mm: 4, to: a}}
metrics: {every: 10s, values: {woken: "total('a', 'woken')"}}
"""
    result = run(write(tmp_path, text))
    assert result.metrics["woken"][-1] == 4
    assert result.errors == 0
