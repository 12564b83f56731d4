"""The files in dashboards/: made from code, consistent, and accepted by the programs that read them."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from ruamel.yaml import YAML

from sim.inspect.telemetry import CATALOG
from tests.dashboards.conftest import FOLDER, ROOT, tool

BOARDS = ("overview", "resources", "models")
NAMES = {metric.name for metric in CATALOG.values()} | {
    f"{metric.name}{suffix}" for metric in CATALOG.values() if metric.kind == "histogram" for suffix in
    ("_bucket", "_sum", "_count")
}  # fmt: skip


def board(name: str) -> Any:
    """Return a dashboard as it is checked in."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def panels(name: str) -> list[Any]:
    """Return its panels without the rows."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def expressions(name: str) -> list[str]:
    """Return all expressions, with Grafana's variables put in."""
    texts = [target["expr"] for panel in panels(name) for target in panel["targets"]]
    return [text.replace("$__rate_interval", "10s").replace("$instance", ".*") for text in texts]


def rules() -> Any:
    """Return all rules."""
    loaded = YAML(typ="safe").load((FOLDER / "rules.yml").read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def metrics_in(expression: str) -> set[str]:
    """Return the metrics of ours that an expression names."""
    return set(re.findall(r"\bsim_\w+", expression))


def test_the_files_are_what_the_program_makes(generate):
    """The dashboards that are checked in are those that docs/dashboards.py writes."""
    assert tuple(made.name for made in generate.BOARDS) == BOARDS
    for made in generate.BOARDS:
        assert (FOLDER / f"{made.name}.json").read_text(encoding="utf-8") == generate.build(made)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_have_their_place(name):
    """Ids are unique, no panel covers another one or leaves the grid, and each says what it shows."""
    found = board(name)["panels"]
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        place = panel["gridPos"]
        assert 0 <= place["x"] <= place["x"] + place["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in found], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart, (one, other)
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels(name))
    assert all(target["refId"] for panel in panels(name) for target in panel["targets"])


@pytest.mark.parametrize("name", BOARDS)
def test_queries_are_of_known_metrics(name):
    """Every query is valid PromQL, names metrics that runs have, and only those of the chosen run."""
    for text in expressions(name):
        promql_parser.parse(text)
        assert metrics_in(text) <= NAMES, text
    for panel in panels(name):
        for target in panel["targets"]:
            named = re.findall(r"\b(?:sim|process)_\w+", target["expr"])
            assert target["expr"].count('instance=~"$instance"') == len(named), target["expr"]


def test_every_metric_is_looked_at():
    """Every metric is in a dashboard, a rule, or in the list of those that are for queries of one's own."""
    own = {
        "sim_wall_seconds_total", "sim_speed_ratio", "sim_speed_target_ratio", "sim_stuck_steps_total",
        "sim_ticks_total", "sim_tick_overruns_total", "sim_mailbox_messages_max", "sim_bus_filter_errors_total",
        "sim_bus_subscriptions", "sim_observations_total", "sim_rate_limit", "sim_rate_overspent_total",
        "sim_budget_units", "sim_quota_held", "sim_quota_limit", "sim_pool_capacity", "sim_model_ceiling_units",
        "sim_agent_iterations_total", "sim_agent_iteration_errors_total", "sim_agent_wakeups_total",
        "sim_agent_mailbox_messages",
    }  # fmt: skip
    texts = [text for name in BOARDS for text in expressions(name)] + [rule["expr"] for rule in rules()]
    used = {name.removesuffix("_bucket") for text in texts for name in metrics_in(text)}
    assert used | own == {metric.name for metric in CATALOG.values()}
    assert not used & own


def test_rules_are_of_known_metrics():
    """Every rule names metrics that runs have, or records of other rules; every alert says what to do."""
    records = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        promql_parser.parse(rule["expr"])
        assert metrics_in(rule["expr"]) <= NAMES
        assert set(re.findall(r"\bsim:[\w:]+", rule["expr"])) <= records
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"]


def test_every_alert_is_tested():
    """rules_test.yml has a case in which each alert fires, and one in which it does not."""
    cases = YAML(typ="safe").load((FOLDER / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"] if "alert_rule_test" in case]
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert {check["alertname"] for check in checks if check["exp_alerts"]} == alerts
    assert {check["alertname"] for check in checks if not check["exp_alerts"]} == alerts


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "rules.yml"), ("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")],
    ids=" ".join,
)
def test_promtool_accepts(arguments):
    """Prometheus' own tool accepts the rules and the configuration, and its tests of the alerts pass."""
    done = subprocess.run([tool("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr


def test_the_containers_find_their_files():
    """Every file that compose.yaml mounts is there, nothing listens beyond this machine, and images are pinned."""
    services = YAML(typ="safe").load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))["services"]
    mounted = {volume.split(":")[0] for service in services.values() for volume in service["volumes"]}
    assert {f"./{name}.json" for name in BOARDS} <= mounted
    for source in mounted:
        assert not source.startswith(".") or (FOLDER / source).is_file(), source
    assert "--web.listen-address=127.0.0.1:9090" in services["prometheus"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert all(re.search(r":v?\d+\.\d+\.\d+$", service["image"]) for service in services.values())
    for file in Path(FOLDER, "grafana").glob("*.yml"):
        assert YAML(typ="safe").load(file.read_text(encoding="utf-8"))["apiVersion"] == 1


def test_the_page_explains_every_metric_and_alert():
    """docs/metrics.md has a row for each metric, as the catalog has it, and docs/watch.md names each alert."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in CATALOG.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        assert f"| `{metric.name}` | {labels} | {metric.help} |" in page
    page = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
    for rule in rules():
        assert "alert" not in rule or f"`{rule['alert']}`" in page
