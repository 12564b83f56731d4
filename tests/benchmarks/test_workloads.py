"""The benchmarks: every peer does the same work, and no wake-up costs more calls than it did."""

import json
import re
from types import SimpleNamespace

import pytest

from benchmarks import calls, harness, plot, report
from benchmarks.harness import Row
from benchmarks.workload import Workload, measure
from benchmarks.workloads import WORKLOADS

AGENTS, TIMES = 20, 3

PROGRAMS = [
    pytest.param(workload, peer, id=f"{workload.key}-{peer.name}")
    for workload in WORKLOADS.values()
    for peer in workload.peers.values()
    if peer.present and workload.unit != "seconds"
]


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch):
    """Leave out the full collection before each measurement: with all tests in memory it takes longer than they do."""
    monkeypatch.setattr("benchmarks.workload.gc", SimpleNamespace(collect=lambda: 0))


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "peer"), PROGRAMS)
def test_every_peer_does_the_same_work(workload, peer):
    """At one size all peers of a workload do equally many operations: agents x times, or the agents themselves."""
    agents = min(AGENTS, peer.most)
    meter = measure(workload, peer.name, agents, TIMES)
    assert meter.operations == (agents if workload.unit == "bytes" else agents * TIMES)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "name"), calls.COUNTED)
def test_no_operation_costs_more_calls_than_before(key, name):
    """The calls of Python and C functions for one operation stay within the stored bounds: no time is measured."""
    label, counted = calls.label(key, name), calls.count(key, name)
    for kind, bound in calls.bounds()[label].items():
        assert counted[kind] <= bound * (1 + calls.SLACK), (
            f"{label} now takes {counted[kind]} {kind} calls for one operation, not {bound}; if that is meant, run "
            f"`python -m benchmarks --update-bounds` and say why in the commit"
        )


def test_calls_are_the_same_each_time():
    """Counting twice gives the same numbers, so that a difference means a change of the code."""
    assert calls.count("W1", "sim") == calls.count("W1", "sim")


def test_counting_notices_one_more_call():
    """A call more for each operation shows as at least one more: the check would find it."""

    def one_more(meter, lib, agents, times):
        meter.begin()
        for _ in range(agents * times):
            abs(1)
            str.upper("")
        meter.end(agents * times)

    WORKLOADS["probe"] = Workload("probe", "probe", (1,))
    WORKLOADS["probe"].peer("probe")(one_more)
    try:
        assert calls.count("probe", "probe")["c"] >= 2
    finally:
        del WORKLOADS["probe"]


def test_a_peer_that_is_not_installed_is_named_and_left_out():
    """A missing peer stops nothing: it is reported, and the others are measured."""
    workload = Workload("probe", "probe", (1,))
    workload.peer("absent", needs="surely_not_installed.part")(lambda *_: None)
    assert harness.missing([workload]) == ["surely_not_installed.part"]
    assert harness.run(workload, 1, 1, 0.1, print) == []


def _rows():
    rows = [Row("W1", "operations", n, p, "1", 2, [v, 2 * v, 3 * v], [1 / v], [0.0], [1e6])
            for n in (1_000, 10_000) for p, v in (("sim", 400_000.0), ("simpy", 200_000.0))]  # fmt: skip
    return [*rows, Row("W1", "operations", 10_000, "trio", "1", 2, failure="it broke")]


def test_the_report_gives_medians_and_ratios():
    """A table holds the median, the range, and the ratio to SimPy in the same run; a failure is shown, not hidden."""
    page = report.to_markdown({"python": "3"}, _rows(), ["trio was left out"], WORKLOADS)
    assert "| sim | 1 | **800k** | 400k to 1.2M | 2.00 |" in page
    assert "failed: it broke" in page
    assert "trio was left out" in page
    assert json.dumps(report.to_json({}, _rows(), []))


def test_a_peer_that_takes_no_memory_more_is_told():
    """Few agents may fit into memory that the process has already: the ratio is infinite then."""
    rows = [Row("W4", "bytes", 10, p, "1", 1, [v], [0.0], [0.0], [1e6]) for p, v in (("sim", 0.0), ("simpy", 848.0))]
    assert "| inf |" in report.to_markdown({}, rows, [], WORKLOADS)


def test_the_plot_is_an_svg_with_a_line_for_each_peer():
    """The picture has one line for every peer that was measured."""
    picture = plot.to_svg(_rows(), "title")
    assert picture.startswith("<svg ")
    assert picture.endswith("</svg>\n")
    assert len(re.findall("<polyline points=", picture)) == 2
