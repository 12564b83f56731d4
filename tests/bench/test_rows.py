from typing import Any

import attrs
import pytest

from sim.experiments.bench.files import to_csv, to_json
from sim.experiments.bench.rows import bench_of, evaluate

MODES = ("tick-parallel", "autonomous", "oracle")


def figures(point, seed, mode):
    """The barrier takes 100 s and more with each seed, the others a half and a quarter of it."""
    base = 100.0 + seed
    share = {"tick-parallel": 1, "autonomous": 2, "oracle": 4}[mode]
    return {
        "makespan": base / share,
        "hash": "h" if mode != "autonomous" else "other",
        "outcomes": {"m": 5.0 + seed if mode != "autonomous" else 10.0 + 2 * seed, "done_x": 3.0},
    }


def row_of(bench, mode):
    """Return the row of a mode in the first combination."""
    return next(row for row in bench.of_point(0) if row.mode == mode)


def test_speed_ups_are_compared_seed_by_seed(made):
    """Makespans differ between seeds, but each seed's speed-up is 2: so is the mean, and its interval has no width."""
    bench = made(MODES, figures)
    free = row_of(bench, "autonomous")
    assert free.figures["makespan"].mean == 51
    assert free.figures["makespan"].half == pytest.approx(4.3027 * 0.5 / 3**0.5, rel=1e-4)
    assert free.figures["speed_up"].mean == pytest.approx(2)
    assert free.figures["speed_up"].half == pytest.approx(0)
    assert free.figures["of_oracle"].mean == pytest.approx(50)
    assert row_of(bench, "tick-parallel").figures["speed_up"].mean == 1


def test_rates_are_those_of_each_run(made):
    """Actions and calls by makespan and by time of the processor, and that time by call."""
    found = row_of(made(MODES, lambda *_: {"makespan": 10.0, "cpu_seconds": 0.5}), "autonomous").figures
    assert found["actions_rate"].mean == 4
    assert found["calls_rate"].mean == 2
    assert found["actions_cpu_rate"].mean == 80
    assert found["calls_cpu_rate"].mean == 40
    assert found["cpu_call"].mean == pytest.approx(25_000)
    assert "cpu_iteration" not in found


def test_without_models_the_overhead_is_that_of_an_iteration(made):
    """A scenario that calls no model has no figures about calls."""
    found = row_of(made(MODES, lambda *_: {"calls": 0, "in_flight": None}), "autonomous").figures
    assert found["cpu_iteration"].mean == pytest.approx(20_000)
    assert {"cpu_call", "calls_rate", "calls_cpu_rate", "in_flight"}.isdisjoint(found)


def test_outcomes_and_hashes_are_compared_with_the_barrier(made):
    """Twice as much of one of two outcomes is a distance of a third of a half; equal hashes are counted."""
    bench = made(MODES, figures)
    free, oracle = row_of(bench, "autonomous"), row_of(bench, "oracle")
    assert free.figures["outcome_distance"].mean == pytest.approx(100 / 6)
    assert free.outcomes["m"].relative.mean == pytest.approx(1)
    assert free.outcomes["m"].distance.mean == pytest.approx(1 / 3)
    assert (free.equal, free.compared) == (0, 3)
    assert oracle.figures["outcome_distance"].mean == 0
    assert (oracle.equal, oracle.compared) == (3, 3)
    assert "outcome_distance" not in row_of(bench, "tick-parallel").figures


def test_chance_is_told_beside_the_drift(made):
    """How far two seeds of the barrier are apart: with 6, 7 and 8 of one of two outcomes, (1/13 + 2/14 + 1/15) / 6."""
    assert made(MODES, figures).noise == (pytest.approx((1 / 13 + 2 / 14 + 1 / 15) / 6),)


def test_what_is_counted_in_different_times_is_not_compared(made):
    """A makespan in real time is not held against one of a modelled server."""
    bench = made(MODES, lambda point, seed, mode: {"basis": "wall" if mode == "autonomous" else "service"})
    assert "speed_up" not in row_of(bench, "autonomous").figures
    assert row_of(bench, "oracle").figures["speed_up"].mean == 1


def test_a_run_that_failed_counts_for_nothing(made):
    """Its seed is left out of means and comparisons, and its problem is told once."""
    failed: dict[str, Any] = {"status": "failed", "problem": "it broke", "makespan": None, "outcomes": {}}
    bench = made(MODES, lambda _, seed, mode: failed if (seed, mode) == (2, "tick-parallel") else {})
    base, free = row_of(bench, "tick-parallel"), row_of(bench, "autonomous")
    assert (base.measured, base.problems) == (2, ("it broke",))
    assert (free.measured, free.compared, free.figures["speed_up"].n) == (3, 2, 2)
    assert [trial.problem for trial in bench.failures] == ["it broke"]


def test_a_mode_without_meaning_is_a_failure_only_if_it_was_asked_for(made, tmp_path):
    """Refusals are told in any case."""
    bench = made(MODES, lambda _, seed, mode: {"status": "refused", "problem": "no"} if mode == "oracle" else {})
    assert len(bench.failures) == 3
    unnamed = attrs.evolve(bench.plan, bench=attrs.evolve(bench_of(bench.plan), named=False))
    assert evaluate(unnamed, bench.trials, 0, bench.sessions).failures == []


def test_a_part_of_a_bench_is_evaluated_too(made):
    """What was measured before Ctrl-C counts."""
    bench = made(MODES, figures)
    part = evaluate(bench.plan, bench.trials[:4], 5, bench.sessions)
    assert (bench.complete, part.complete) == (True, False)
    assert row_of(part, "autonomous").measured == 1


def test_csv_has_a_line_for_each_run(made):
    """Swept values and outcomes are columns; text that a spreadsheet would run begins with a '."""
    bench = made(
        ("tick-parallel",), lambda *_: {"outcomes": {"=HYPERLINK(1)": 2.5}, "problem": "\x1b[31m-1"},
        vary=["agents.a.state.x==1,-2"], count=1,
    )  # fmt: skip
    head, first, second, *rest = to_csv(bench).split("\r\n")
    assert rest == [""]
    assert head.startswith("agents.a.state.x,seed,mode,")
    assert head.endswith(",'=HYPERLINK(1)")
    assert first.startswith("'=1,1,tick-parallel,")
    assert second.startswith("'-2,")
    assert "\\x1b[31m-1" in first
    assert first.endswith(",2.5")


def test_json_has_everything(made):
    """Settings, every run, and every row with its point; nothing that JSON does not know."""
    bench = made(MODES, figures, vary=["agents.a.count=1,2"])
    told: Any = to_json(bench)
    assert told["settings"]["points"] == [{"agents.a.count": "1"}, {"agents.a.count": "2"}]
    assert len(told["trials"]) == 18
    assert told["trials"][0]["point"] == {"agents.a.count": "1"}
    assert told["rows"][5]["point"] == {"agents.a.count": "2"}
    assert told["rows"][1]["figures"]["speed_up"] == {"n": 3, "mean": pytest.approx(2), "half": pytest.approx(0)}
    assert told["complete"]
