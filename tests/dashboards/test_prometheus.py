"""A real Prometheus scrapes real runs, and every query of every panel has an answer."""

import re

import pytest

from tests.dashboards.conftest import ROOT, wait_for

pytestmark = pytest.mark.proof

EVERYTHING = ROOT / "tests" / "telemetry" / "everything.yaml"
MEANT_FOR = {
    "overview": (ROOT / "scenarios" / "ecology.yaml", "--clock", "wall", "--speed", 60),
    "resources": (EVERYTHING, "--until", "100h", "--clock", "wall", "--speed", 60),
    "models": (EVERYTHING, "--until", "100h", "--clock", "wall", "--speed", 60),
}


@pytest.mark.parametrize("name", MEANT_FOR)
def test_every_query_of_every_panel_answers(name, generate, running, prometheus):
    """No query of a dashboard is empty for the run that it is meant for, and no rule fails."""
    instance = running(*MEANT_FOR[name])
    server = prometheus(instance)
    board = next(board for board in generate.BOARDS if board.name == name)
    open_queries = {
        (title, panel.title, query): generate.expression(query, f'instance="{instance}"').replace(
            "$__rate_interval", "5s"
        )
        for title, panels in board.rows.items()
        for panel in panels
        for query, _ in panel.queries
    }

    def all_answered() -> bool:
        for key, text in list(open_queries.items()):
            if server.values(text):
                del open_queries[key]
        return not open_queries

    assert wait_for(all_answered, 60), list(open_queries)
    (target,) = server.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert wait_for(lambda: {rule["health"] for rule in _rules(server)} == {"ok"}, 10), _rules(server)


def _rules(server):
    return [rule for group in server.get("rules")["groups"] for rule in group["rules"]]


def test_what_is_stored_is_what_the_run_says(running, prometheus):
    """Types, help texts and the histogram arrive as they were meant, and the series are few."""
    instance = running(*MEANT_FOR["models"])
    server = prometheus(instance)
    assert wait_for(lambda: server.values(f'sim_model_call_seconds_count{{instance="{instance}"}}'), 30)
    known = server.get("metadata")
    assert known["sim_model_call_seconds"][0]["type"] == "histogram"
    assert {kind["type"] for name, kinds in known.items() if name.startswith("sim_") for kind in kinds} == {
        "counter", "gauge", "histogram"
    }  # fmt: skip
    assert 100 < server.values("scrape_samples_scraped")[0] < 500
    assert server.values(f'sim_run_info{{instance="{instance}",scenario="everything"}}') == [1]
    assert re.fullmatch(r"2\.\d+\..*|3\.\d+\..*", server.get("status/buildinfo")["version"])
