"""Stocks of places: what grows there, and what agents gather."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.kernel import Kernel
from sim.runner import branch, replay, run
from sim.scenario import loads
from sim.world import Places
from sim.world.stocks import Stocks

SECOND = 10**9


def test_stocks_are_exact():
    """What grows ten times by a tenth is 1, and what is gathered in tenths leaves nothing behind."""
    kernel = Kernel()
    stocks = Stocks(kernel, {"a": 1.0}, 0.1, SECOND)
    for _ in range(10):
        assert stocks.take("a", 0.1) == 0.1
    assert stocks.level("a") == 0
    for second in range(1, 11):
        kernel.advance_to(second * SECOND)
        assert stocks.level("a") == second / 10
    assert stocks.take("a") == 1


FORAGERS = """
name: foragers
until: 10s
execution: {{use_autonomous_loops: {autonomous}, tick: {{order: shuffled}}}}
places: {{grid: [5, 5], wrap: true, stock: {{capacity: "=4 if x == y else 1", growth: 0.5, every: 2s}}}}
agents:
  - name: forager
    count: 4
    place: "=index * 6"
    state: {{sugar: 0}}
    loop: {{min_loop_delay: 1s}}
    rules: [{{do: [{{move: {{to: "=richest(2)"}}}}, gather], set: {{sugar: "=sugar + result.data.amount"}}}}]
metrics: {{every: 1s, values: {{left: stock(), corner: "stock('0,0')", sugar: "total('forager', 'sugar')"}}}}
"""


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.1, 9)), max_size=8), st.floats(0, 3), st.floats(0, 10))
def test_a_stock_is_what_a_count_period_by_period_gives(steps, growth, capacity):
    """A stock grows by `growth` at the end of each period up to its capacity, and nobody takes more than there is."""
    kernel = Kernel()
    stocks = Stocks(kernel, {"field": capacity}, growth, 10 * SECOND)
    there, period = capacity, 0
    for wait, most in steps:
        kernel.run(kernel.now + wait * SECOND)
        while period < kernel.now // (10 * SECOND):
            there, period = min(capacity, there + growth), period + 1
        assert stocks.level("field") == pytest.approx(there)
        with kernel.acting_as(kernel.scenario):
            taken = stocks.take("field", most)
        assert taken == pytest.approx(min(there, most))
        there -= taken
    assert stocks.total() == stocks.state()["field"] >= 0
    with kernel.acting_as(kernel.scenario):
        assert stocks.level("nowhere") == stocks.take("nowhere") == 0


def test_rows_and_columns_end_at_the_edge_or_go_round():
    """In a grid, one sees along row and column, the nearest first, up to the edge or round a torus; each place once."""
    flat, torus = Places.grid(4, 3, 0), Places.grid(4, 3, 0, wrap=True)
    assert list(flat.straight("0,0", 2)) == [["1,0", "0,1"], ["2,0", "0,2"]]
    assert list(torus.straight("0,0", 2)) == [["1,0", "0,1", "3,0", "0,2"], ["2,0", "0,2", "0,1"]]
    assert sorted(torus.adjacent("0,0")) == ["0,1", "0,2", "1,0", "3,0"]
    assert len(Places.grid(5, 5, 0, diagonals=True, wrap=True).adjacent("0,0")) == 8
    with pytest.raises(UsageError, match="grid"):
        list(Places(["a"], []).straight("a", 1))


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=9), st.integers(0, 7), st.integers(0, 7))
def test_without_travel_times_only_what_is_connected_is_reached(edges, start, end):
    """If no edge takes time, a journey takes none, and exists exactly if the search with times finds one."""
    nodes = [str(n) for n in range(8)]
    at_once = Places(nodes, [(str(a), str(b), 0) for a, b in edges])
    slow = Places(nodes, [(str(a), str(b), 1) for a, b in edges])
    found = slow.travel_ns(str(start), str(end))
    assert at_once.travel_ns(str(start), str(end)) == (None if found is None else 0)


@pytest.mark.parametrize("autonomous", ["true", "false"])
def test_what_is_gathered_is_gone_and_grows_back(autonomous, tmp_path):
    """Agents go to the richest place in sight and take what is there; the record replays, and branches, to its hash."""
    path = tmp_path / "foragers.yaml"
    path.write_text(FORAGERS.format(autonomous=autonomous), encoding="utf-8")
    result = run(path, out=tmp_path / "runs")
    sugar, left = result.metrics["sugar"], result.metrics["left"]

    assert result.errors == 0
    assert result.refused == {}
    assert left[0] + sugar[0] == 5 * 4 + 20 * 1
    assert sugar[-1] > sugar[1] > 0
    assert left[-1] < left[0]
    assert result.run is not None
    assert replay(result.run).hash == result.hash
    assert branch(result.run, at="5s", out=tmp_path / "runs").hash == result.hash


def test_the_nearest_of_the_richest_places_is_chosen(tmp_path):
    """Of several places with most, `richest` names the nearest; places where somebody stands do not count."""
    text = """
name: choice
until: 2s
places: {grid: [7, 1], stock: {capacity: "=[0, 5, 5, 1, 2, 5, 9][x]"}}
agents:
  - {name: other, place: "6,0", rules: [{do: {sleep: {for: 1h}}}]}
  - name: chooser
    place: "3,0"
    rules:
      - {do: {publish: {topic: chosen, data: ["=richest(3)", "=richest(2)", "=richest(1)", "=richest(0)"]}}}
"""
    assert set(choices(text, tmp_path)) == {("2,0", "2,0", "2,0", "3,0")}
    equal = {chosen[0] for chosen in choices(text.replace("5, 5, 1, 2, 5, 9", "5, 5, 1, 5, 5, 9"), tmp_path)}
    assert equal == {"2,0", "4,0"}


def choices(text: str, folder: Path) -> list[tuple[str, ...]]:
    """Run a scenario, and return the data of each event `chosen`."""
    (folder / "choice.yaml").write_text(text, encoding="utf-8")
    result = run(folder / "choice.yaml", out=folder / "runs")
    assert result.run is not None
    with sim.open(result.run) as recorded:
        found = recorded.sql("SELECT data FROM events WHERE topic = 'chosen'", as_="polars")["data"].to_list()
    return [tuple(data) for data in found]


@pytest.mark.parametrize(
    ("places", "function", "said"),
    [
        ("{grid: [2, 2]}", "stock('0,0')", "needs something to gather"),
        ("{nodes: [a], stock: {capacity: 1}}", "richest(1)", "needs places in rows and columns"),
        ("{grid: [2, 2], stock: {capacity: 1}}", "stock('0,9')", "there is no place '0,9'"),
    ],
)
def test_functions_of_stocks_need_stocks(places, function, said):
    """What asks for stocks where there are none, or for a place that does not exist, is refused before the run."""
    text = f'name: x\nplaces: {places}\nagents: [{{name: a, rules: [{{when: "{function} == 1"}}]}}]\n'
    with pytest.raises(ScenarioError) as refused:
        loads(text, "x.yaml")
    assert said in str(refused.value.problems)
    assert refused.value.problems[0].line == 3


@pytest.mark.parametrize("distance", ["1.5", "-1", "true", "'far'"])
def test_a_distance_is_a_whole_number(distance, tmp_path):
    """Any other distance is a failure of the iteration, with a sentence."""
    text = f"""
name: x
until: 1s
places: {{grid: [2, 2], stock: {{capacity: 1}}}}
agents: [{{name: a, place: "0,0", rules: [{{do: {{publish: {{topic: seen, data: "=richest({distance})"}}}}}}]}}]
"""
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    assert run(path).errors > 0


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("{nodes: [a], wrap: true}", "wrap needs grid"),
        ("{nodes: [a], stock: {capacity: '=x'}}", "there is no grid here"),
        ("{nodes: [a], stock: {capacity: -1}}", "at least 0"),
        ("{nodes: [a], stock: {capacity: '=now'}}", "no name 'now'"),
        ("{nodes: [a], stock: {growth: 1}}", "capacity"),
        ("{nodes: [a], stock: {capacity: 1, every: 0s}}", "every"),
    ],
)
def test_wrong_stocks_are_refused_in_one_sentence(places, said):
    """What cannot be a stock, or a torus, is refused with its place in the file."""
    with pytest.raises(ScenarioError) as refused:
        loads(f"name: x\nplaces: {places}\nagents: [{{name: a}}]\n", "x.yaml")
    assert said in str(refused.value.problems)
    assert refused.value.problems[0].line == 2


def test_a_capacity_that_is_no_number_is_refused_before_the_run(tmp_path):
    """An expression whose value is no number from 0 ends the start with a sentence that names the place."""
    path = tmp_path / "x.yaml"
    path.write_text("name: x\nplaces: {grid: [3, 1], stock: {capacity: '=1 - x'}}\nagents: [{name: a}]\n")
    with pytest.raises(UsageError, match=r"places.stock.capacity: .* at 2,0"):
        run(path)


def test_gathering_is_refused_where_nothing_is(tmp_path):
    """`gather` is refused to an agent without a place, without stocks, and for an amount of 0; nothing is taken."""
    path = tmp_path / "x.yaml"
    for places, place, amount in (
        ("stock: {capacity: 2}", "", 1),
        ("stock: {capacity: 2}", "place: a,", 0),
        ("", "place: a,", 1),
    ):
        metrics = "metrics: {every: 1s, values: {left: stock()}}\n" if places else ""
        path.write_text(
            f"name: x\nuntil: 1s\nplaces: {{nodes: [a], {places}}}\n{metrics}"
            f"agents: [{{name: a, {place} rules: [{{do: {{gather: {{amount: {amount}}}}}}}]}}]\n"
        )
        result = run(path)
        assert sum(result.refused.values()) > 0
        assert not places or result.metrics["left"][-1] == 2
