"""What the server of a page finds by replays: moments, and what led to an event."""

import json
from pathlib import Path

import pytest

import sim
from sim.inspect.viewer import ViewServer
from sim.runner.causes import causes_of, influence_of
from sim.runner.options import ReplayOptions
from tests.viewer.test_server import get

ROOT = Path(__file__).parents[2]
SHOP = """
name: shop
until: 1m
seed: 3
pools: {till: {kind: resource, slots: 1}}
agents:
  - name: buyer
    count: 3
    state: {asked: 0}
    rules:
      - {when: iteration == 1, do: {sleep: {for: "=1 + index"}}}
      - {when: asked < 3, set: {asked: "=asked + 1"}, do: {send: {to: keeper, topic: order, data: "=asked"}}}
      - {do: {sleep: {for: 10s}}}
  - name: keeper
    state: {sold: 0}
    rules:
      - {when: message is not None, set: {sold: "=sold + message.data"}}
      - {do: {sleep: {message: true}}}
metrics: {every: 5s, values: {sold: "mean('keeper', 'sold')"}}
"""


def asked(server, path):
    """Return what the server answers to a question."""
    status, _, body = get(server.url, f"/replay/{path}")
    assert status == 200, body
    return json.loads(body)


@pytest.fixture
def shop(ran):
    """A run of a shop."""
    return ran(SHOP)


@pytest.mark.slow
def test_any_moment_of_the_page_is_that_of_a_replay(shop):
    """The cost comes first; then each time and each event has the state that `sim show RUN state` finds.

    At a time, what is due then has happened, as everywhere on the page; the end is the final state.
    """
    with sim.open(shop.path) as run, ViewServer(shop) as server:
        cost = asked(server, "cost")
        assert (cost["changed"], cost["seconds"]) == ([], 1)
        assert cost["events"] > 0
        for question, known in (
            ("t=30", run.at("30s1ns")), ("event=20", run.at_event(20)), ("t=2.5", run.at("2.5s1ns")),
            ("t=60", run.at("60s")), ("t=0", run.at("1ns")),
        ):  # fmt: skip
            found = asked(server, f"moment?{question}")
            assert (found["time"], found["events"], found["ended"]) == (known.time, known.events, known.ended)
            assert [row[:5] for row in found["rows"]] == [list(row[:5]) for row in known.rows()]
        last = shop.query("SELECT max(id) FROM events")[0][0]
        assert asked(server, f"moment?event={last}")["ended"] is True
        one = asked(server, "moment?t=30&agent=buyer-2")
        assert dict(one["facts"])["agent"] == "buyer-2, of the entry buyer"
        assert [listed["title"] for listed in one["lists"]][:2] == ["variables", "timers"]


@pytest.mark.slow
def test_a_pass_goes_from_checkpoint_to_checkpoint(shop):
    """Each request makes one checkpoint more, until there are all of them; a question in between is answered."""
    with ViewServer(shop) as server:
        known = asked(server, "ahead")
        while known["made"] < known["total"]:
            assert asked(server, "moment?t=1")["time"] == pytest.approx(1)
            known = asked(server, "ahead")
        assert asked(server, "ahead") == known


@pytest.mark.slow
def test_what_cannot_be_found_is_said(shop):
    """A wrong question, an unknown agent and an event of no step are answered by an error with its hint."""
    with ViewServer(shop) as server:
        assert "seconds, not as 'soon'" in asked(server, "moment?t=soon")["error"]
        assert "no event 100000" in asked(server, "moment?event=100000")["error"]
        unknown = asked(server, "moment?t=3&agent=buyer-9")
        assert "no agent 'buyer-9'" in unknown["error"]
        assert "buyer-" in unknown["hint"]
        assert "start of the run" in asked(server, "causes?event=1")["error"]
        assert get(server.url, "/replay/nothing")[0] == 404


@pytest.mark.slow
def test_changed_code_is_said_with_the_cost(shop):
    """If the scenario has changed since, the cost names it; a state is shown as far as the events are equal."""
    scenario = shop.path / "scenario.yaml"
    scenario.write_text(scenario.read_text("utf-8").replace("for: 10s", "for: 20s"), encoding="utf-8")
    with ViewServer(shop) as server:
        assert asked(server, "cost")["changed"] == ["scenario.yaml"]
        assert asked(server, "moment?t=1")["time"] == pytest.approx(1)
        assert "differs from its record" in asked(server, "moment?t=59")["error"]
        assert asked(server, "moment?t=1")["time"] == pytest.approx(1)


@pytest.mark.slow
def test_causes_and_influence_are_those_of_a_trace_of_their_own(shop):
    """Whatever is asked in which order, each event has the causes and the influence of its own traced replay."""
    last = shop.query("SELECT max(id) FROM events")[0][0]
    with ViewServer(shop) as server:
        assert asked(server, "trace_cost")["events"] > 0
        for event in (last // 2, 12, last - 20):
            causes = causes_of(shop, event, ReplayOptions()).to_json()
            assert asked(server, f"causes?event={event}") == json.loads(json.dumps(causes))
            influence = influence_of(shop, event, ReplayOptions()).to_json()
            assert asked(server, f"influence?event={event}") == json.loads(json.dumps(influence))


@pytest.mark.slow
def test_a_trace_that_failed_fails_once(shop):
    """If a run cannot be traced, each question has the same error as its answer, and nothing is replayed again."""
    scenario = shop.path / "scenario.yaml"
    text = scenario.read_text("utf-8")
    scenario.write_text(text.replace("for: 10s", "for: 20s"), encoding="utf-8")
    with ViewServer(shop) as server:
        failed = asked(server, "causes?event=30")
        assert "differs from its record" in failed["error"]
        scenario.write_text(text, encoding="utf-8")
        assert asked(server, "influence?event=31") == failed
    with ViewServer(shop) as server:
        assert asked(server, "causes?event=30")["event"] == 30


@pytest.mark.slow
def test_an_answer_has_a_most_and_says_what_is_cut(ran):
    """Texts of a page end with how many characters are left out, and with the command that has them; so do steps."""
    long = "x" * 20_000
    text = SHOP.replace("state: {sold: 0}", f"state: {{sold: 0, note: {long}}}")
    with ViewServer(ran(text)) as server:
        rows = {row[0]: row for row in asked(server, "moment?t=5")["rows"]}
        assert rows["keeper"][5].endswith("more characters; sim show RUN state --json has all]")
        assert len(rows["keeper"][5]) < 400
        (variables, *_) = asked(server, "moment?t=5&agent=keeper")["lists"]
        assert 10_000 < len(dict(variables["rows"])["note"]) < 10_100
        assert len(asked(server, "causes?event=30&most=1")["steps"]) == 1
        for most in (0, 501):
            refused = asked(server, f"causes?event=30&most={most}")
            assert "a page shows 1 to 500 steps" in refused["error"]
            assert "--limit 0" in refused["hint"]


@pytest.mark.slow
def test_what_agents_share_is_cut_too(ran):
    """The state of what agents share can be long as well: of 600 pools, a page has the beginning."""
    pools = ", ".join(f"pool-{number}: {{kind: resource, slots: {number + 1}}}" for number in range(600))
    with ViewServer(ran(SHOP.replace("pools: {", f"pools: {{{pools}, "))) as server:
        shared = dict(asked(server, "moment?t=5")["shared"])
        assert len(shared["pools"]) < 10_100
        assert shared["pools"].endswith("more characters; sim show RUN state --json has all]")


@pytest.mark.slow
def test_servers_end_their_processes_in_any_order(shop):
    """Two servers of one run can be closed in the order in which they were opened: neither holds the other's pipes."""
    one, other = ViewServer(shop), ViewServer(shop)
    with other:
        with one:
            assert asked(one, "moment?t=5")["time"] == pytest.approx(5)
            assert asked(other, "moment?t=5")["time"] == pytest.approx(5)
        assert asked(other, "moment?t=6")["time"] == pytest.approx(6)
