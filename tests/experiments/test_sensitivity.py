"""Sensitivity: designs with SALib, their indices, and how much of the variance is chance."""

import json
import math
import random
import re
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
import numpy as np
import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.designs import Design, points_of, untried, variable
from sim.experiments.folder import begin
from sim.experiments.indices import block_of, is_method, size_text
from sim.experiments.measure import Measured
from sim.experiments.options import Precision
from sim.experiments.plan import Plan, make_sweep
from sim.experiments.results import Results
from sim.experiments.sensitivity import Sensitivity, VarianceShares, sensitivity_of
from sim.experiments.trial import Trial
from tests.helpers import command

SCENARIO = """
name: ishigami
description: The function of Ishigami and Homma (1990), a test of sensitivity analysis.
until: 1s
agents:
  - name: point
    state: {x1: 0.0, x2: 0.0, x3: 0.0}
    rules: [{do: {stop: {}}, record: {y: "=sin(x1) + 7 * sin(x2) ** 2 + 0.1 * x3 ** 4 * sin(x1)"}}]
outcomes:
  y: {value: mean_y}
"""
VARY = tuple(f"agents.point.state.{name}=-3.14159265..3.14159265" for name in ("x1", "x2", "x3"))
FIRST = (0.314, 0.442, 0.0)
TOTAL = (0.558, 0.442, 0.244)

Function = Callable[[list[float], int], float | None]


def ishigami(x: list[float], _seed: int = 0) -> float:
    """The function itself."""
    return math.sin(x[0]) + 7 * math.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * math.sin(x[0])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The function as a scenario."""
    path = tmp_path / "ishigami.yaml"
    path.write_text(SCENARIO)
    return path


def as_input(text: str) -> float:
    """Return a value as a number; a letter is its place in the alphabet."""
    return float(ord(text) - ord("a") if text.isalpha() else text)


def carried_out(plan: Plan, folder: Path, function: Function) -> Results:
    """Return the results of a plan whose runs are not carried out: a function has their outcomes."""
    results = begin(plan, folder)
    first, count = plan.seeds
    results.add([
        Measured(Trial(number, seed, "autonomous", 0, outcomes={"y": function([*map(as_input, point.values())], seed)},
                       own=("y",)))
        for number, point in enumerate(plan.points) for seed in range(first, first + count)
    ])  # fmt: skip
    return results


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A small plan, of which others are made."""
    path = tmp_path_factory.mktemp("planned") / "ishigami.yaml"
    path.write_text(SCENARIO)
    return make_sweep(path, vary=VARY, design="morris", samples=2, count=1)


def found(
    plan: Plan, folder: Path, function: Function, design: Design, samples: int, seeds: int = 1,
    vary: tuple[str, ...] = VARY,
) -> Sensitivity:  # fmt: skip
    """Return the sensitivity of a function; of saltelli designs also that of pairs."""
    pairs = design == "saltelli"
    points = points_of([variable(text) for text in vary], design, samples, plan.design_seed, second_order=pairs)
    plan = attrs.evolve(
        plan, design=design, samples=samples, points=points, second_order=pairs, seeds=(1, seeds), vary=vary
    )
    with closing(carried_out(plan, folder / f"{design}-{samples}-{seeds}", function)) as results:
        return sensitivity_of(results)[0]


@pytest.mark.parametrize(
    ("design", "samples", "second_order", "size"),
    [("saltelli", 4, False, "4 × (3 + 2) = 20"), ("saltelli", 4, True, "4 × (2 × 3 + 2) = 32"),
     ("morris", 5, False, "5 × (3 + 1) = 20"), ("fast", 65, False, "65 × 3 = 195")],
)  # fmt: skip
def test_a_design_has_as_many_combinations_as_it_says(
    design: str, samples: int, second_order: bool, size: str
) -> None:  # fmt: skip
    """N(D + 2), N(2D + 2) with second order, N(D + 1) and ND; values are within their ranges, also of lists."""
    variables = [variable("a=0.0..2.0"), variable("b=1..3"), variable("c=x,y")]
    assert is_method(design)
    points = points_of(variables, design, samples, 7, second_order=second_order)
    assert len(points) == math.prod(block_of(design, 3, samples, second_order=second_order))
    assert size_text(design, 3, samples, second_order=second_order) == f"{size} combinations"
    assert points == points_of(variables, design, samples, 7, second_order=second_order)
    assert points != points_of(variables, design, samples, 8, second_order=second_order)
    for name, values in (("b", {"1", "2", "3"}), ("c", {"x", "y"})):
        assert {point[name] for point in points} == values
    assert all(0 <= float(point["a"]) <= 2 for point in points)


@pytest.mark.parametrize(
    ("vary", "design", "samples", "second_order", "said"),
    [(["a=1..2"], "saltelli", 10, False, "a power of two of samples, not 10"),
     (["a=1..2"], "saltelli", 1, False, "a power of two of samples, not 1"),
     (["a=1..2"], "saltelli", None, False, "needs --samples"), (["a=1..2"], "morris", 1, False, "at least 2 ways"),
     (["a=1..2"], "fast", 64, False, "at least 65 combinations for each input, not 64"),
     (["a=1..2"], "morris", 8, True, "need the design saltelli"), (["a=1..2:2"], "factorial", None, True, "saltelli"),
     (["a=1..2", "b=1..2"], "saltelli", 32768, False, "at most 100,000 combinations, not 131,072")],
)  # fmt: skip
def test_sizes_that_a_design_cannot_have(
    vary: list[str], design: str, samples: int | None, second_order: bool, said: str
) -> None:
    """One sentence says what does not fit, before anything is drawn."""
    with pytest.raises(UsageError, match=re.escape(said)):
        points_of([variable(one) for one in vary], design, samples, 0, second_order=second_order)  # type: ignore[arg-type]


def test_the_indices_of_ishigami(planned: Plan, tmp_path: Path) -> None:
    """First-order, total and pair indices are those of the function, within their bootstrapped intervals."""
    told = found(planned, tmp_path, ishigami, "saltelli", 128)
    for one, first, total in zip(told.inputs, FIRST, TOTAL, strict=True):
        assert one.first is not None
        assert one.total is not None
        assert one.first.mean == pytest.approx(first, abs=0.15)
        assert one.total.mean == pytest.approx(total, abs=0.15)
        assert abs(one.first.mean - first) <= 1.5 * (one.first.half or 0)
    assert max(told.pairs, key=lambda pair: told.pairs[pair].mean) == ("state.x1", "state.x3")
    assert (told.chance, told.blocks, told.left_out) == (None, 128, 0)


def test_a_fast_design_shows_the_same_and_leaves_no_trace(planned: Plan, tmp_path: Path) -> None:
    """FAST finds the shares of the variance, says that its intervals are rough, and leaves the state of numpy alone."""
    before = repr(np.random.get_state())
    told = found(planned, tmp_path, ishigami, "fast", 257)
    for one, first, total in zip(told.inputs, FIRST, TOTAL, strict=True):
        assert one.first is not None
        assert one.total is not None
        assert one.first.mean == pytest.approx(first, abs=0.1)
        assert one.total.mean == pytest.approx(total, abs=0.1)
    assert "rough" in told.note
    assert repr(np.random.get_state()) == before


def test_elementary_effects(planned: Plan, tmp_path: Path) -> None:
    """Of a linear function, the effect is the change over the whole range, the same everywhere, with its sign."""
    told = found(planned, tmp_path, lambda x, _: x[0] - 2 * x[1], "morris", 6)
    width = 2 * 3.14159265
    sizes = [one.effect.mean if one.effect else None for one in told.inputs]
    assert sizes == [pytest.approx(width), pytest.approx(2 * width), pytest.approx(0, abs=1e-9)]
    assert [one.mean_effect for one in told.inputs] == [
        pytest.approx(width), pytest.approx(-2 * width), pytest.approx(0, abs=1e-9)
    ]  # fmt: skip
    assert all(one.spread == pytest.approx(0, abs=1e-9) for one in told.inputs)


@pytest.mark.parametrize(
    ("values", "whole"),
    [("0..1", 1), ("a,b", 1), ("1..5", 4), ("a,b,c", 2), ("2,4,8", 6), ("1..100", 99), ("a,b,c,d,e,f,g,h", 7)],
)  # fmt: skip
def test_elementary_effects_of_whole_numbers_and_lists(
    planned: Plan, tmp_path: Path, values: str, whole: float
) -> None:
    """An effect is per whole range or list, whatever its steps are: of a linear function it is the same everywhere."""
    vary = (f"agents.point.state.x1={values}", "agents.point.state.x2=0.0..1.0")
    told = found(planned, tmp_path, lambda x, _: x[0] + x[1], "morris", 20, vary=vary).inputs[0]
    assert told.effect is not None
    if values == "2,4,8":  # by place it is not linear: 4 over the first half of the list, and 8 over the second
        assert 4 <= told.effect.mean <= 8
        return
    assert told.effect.mean == pytest.approx(whole)
    assert told.effect.half == pytest.approx(0, abs=1e-9)
    assert told.spread == pytest.approx(0, abs=1e-9)


def test_keys_that_change_together_are_one_input(planned: Plan, tmp_path: Path) -> None:
    """They have one effect, which is that of all of them from the first value of the list to the last."""
    vary = ("agents.point.state.x1,agents.point.state.x2=[0,0],[1,2],[2,4]", VARY[2])
    told = found(planned, tmp_path, lambda x, _: x[0] + x[1], "morris", 4, vary=vary)
    assert [one.key for one in told.inputs] == ["state.x1, state.x2", "state.x3"]
    assert [one.mean_effect for one in told.inputs] == [pytest.approx(6), pytest.approx(0, abs=1e-9)]
    shares = found(planned, tmp_path, lambda x, _: x[0] + x[1], "saltelli", 32, vary=vary).inputs
    assert [one.total and one.total.mean for one in shares] == [pytest.approx(1, abs=0.3), pytest.approx(0, abs=1e-9)]


def test_values_that_are_never_tried_are_named() -> None:
    """A Morris design can reach each value of a list; those that no combination has are named, and levels of ranges."""

    def named(values: str, samples: int, design: Design = "morris") -> list[str]:
        variables = [variable(f"k={values}"), variable("m,n=[1,x],[2,y]")]
        return untried(variables, points_of(variables, design, samples, 1), design)

    assert named("a,b,c,d,e,f,g,h", 40) == named("a,b,c,d,e", 40) == named("1..4", 20) == named("0.0..9.0", 2) == []
    assert named("1..5", 20) == [
        "4 of 5 values of k are tried: 1, 2, 4, 5; a list has a level for each value, a range has not"
    ]
    (told,) = named("a,b,c,d,e,f,g,h", 2)
    assert re.fullmatch(r"4 of 8 values of k are in no combination: \w, \w, \w, \w; take more samples", told)
    assert "values of k are in no combination" in named(",".join("abcdefghijklmnopqrstuvwxyz"), 2, "saltelli")[0]
    with pytest.raises(UsageError, match="k has one value"):
        named("a", 4)


@pytest.mark.parametrize("design", ["morris", "saltelli", "fast"])
def test_a_design_for_sensitivity_has_no_precision(scenario: Path, design: Design) -> None:
    """Seeds that are added to some combinations alone would look like effects: this is refused before any trial."""
    with pytest.raises(UsageError, match=f"a {design} design compares means over the same seeds") as caught:
        make_sweep(scenario, vary=VARY, design=design, samples=128, precision=Precision(0.05, 20))
    assert "leave out --until-precision" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("missing", "seeds", "left_out", "samples"),
    [(lambda x, seed: seed == 3 and x[1] > 0, 2, (3,), 8),
     (lambda x, seed: seed == 3 and min(x[:2]) > 3 and x[2] > 0, 3, (), 6)],
)  # fmt: skip
def test_means_are_over_the_same_seeds(
    planned: Plan, tmp_path: Path, missing: Callable[[list[float], int], bool], seeds: int, left_out: tuple[int, ...],
    samples: int,
) -> None:  # fmt: skip
    """A seed that some combinations lack is left out, or the samples that lack it: a missing trial is no effect."""
    told = found(
        planned, tmp_path, lambda x, seed: None if missing(x, seed) else x[0] + 100 * seed, "morris", 8, 3
    )  # fmt: skip
    assert [one.effect and one.effect.mean for one in told.inputs] == [
        pytest.approx(2 * 3.14159265), pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-9)
    ]  # fmt: skip
    assert (told.seeds, told.seeds_left_out, told.blocks) == (seeds, left_out, samples)
    assert ("1 of 3 seeds are left out" in told.note) == bool(left_out)
    assert ("samples are left out" in told.note) == (samples < 8)


def test_how_much_is_chance(planned: Plan, tmp_path: Path) -> None:
    """Seeds are replicates: what they add in the same way, and with certain inputs, is told apart from the inputs."""
    same = found(planned, tmp_path, lambda x, seed: x[0] + 3 * seed, "morris", 10, 3).chance
    other = found(
        planned, tmp_path, lambda x, seed: x[0] + random.Random(repr((x, seed))).uniform(-9, 9), "morris", 12, 3
    ).chance
    assert same is not None
    assert other is not None
    assert same.inputs + same.seeds == pytest.approx(1)
    assert same.seeds > 0.3
    assert other.together > 0.4
    assert other.seeds < 0.2
    assert found(planned, tmp_path, lambda x, _: x[0], "morris", 4, 2).chance == VarianceShares(1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("function", "design", "samples", "said"),
    [(lambda x, _: 3.0, "saltelli", 8, "it is the same for all combinations"),
     (lambda x, _: None if x[0] < 0 else x[0], "fast", 65, "a fast design needs all of them"),
     (lambda x, _: None if x[0] < 3.1 else x[0], "morris", 4, "0 of 4 samples"),
     (lambda x, _: float(x[0] > 2.5 and x[1] > 0), "saltelli", 8, "drawn independently of each other"),
     (lambda x, _: float(x[0] > 3 and x[1] > 3), "fast", 65, "never changes along the curves of"),
     (lambda x, _: 1e308 * math.copysign(1, x[0]), "morris", 4, "too large")],
)  # fmt: skip
def test_no_indices_without_variance_or_values(
    planned: Plan, tmp_path: Path, function: Function, design: Design, samples: int, said: str
):
    """An outcome that never changes, or has too few values, has no indices, and it is said why."""
    with warnings.catch_warnings(action="error"):
        told = found(planned, tmp_path, function, design, samples)
    assert told.inputs == ()
    assert said in told.note


def test_indices_that_are_not_told_from_nothing(planned: Plan, tmp_path: Path) -> None:
    """Of few samples, it is said which intervals are wider than their values, and no warning of Python escapes."""
    with warnings.catch_warnings(action="error"):
        told = found(planned, tmp_path, ishigami, "saltelli", 4)
    wide = [one.key for one in told.inputs if one.first and (one.first.half or 0) > abs(one.first.mean)]
    assert wide
    assert f"the interval of the first order of {', '.join(wide)} is wider than the value and includes 0" in told.note


def test_combinations_that_cannot_be_drawn_again(planned: Plan, tmp_path: Path) -> None:
    """If the combinations are not those that are drawn here, each package that may draw others is named."""
    plan = attrs.evolve(planned, points=planned.points[::-1])
    said = "are not those that its morris design has here"
    with closing(carried_out(plan, tmp_path / "e", ishigami)) as results, pytest.raises(UsageError, match=said) as told:
        sensitivity_of(results)
    assert "versions of sim, SALib, scipy or numpy" in str(told.value.hint)


def test_samples_without_a_value_are_left_out_and_counted(planned: Plan, tmp_path: Path) -> None:
    """A sample with a combination without a value is left out as a whole, and it is said how many are."""
    told = found(planned, tmp_path, lambda x, _: None if x[1] > 3 else x[0], "saltelli", 32)
    assert 0 < told.left_out < 8
    assert told.left_out + told.blocks == 32
    assert f"{told.left_out} of 32 samples are left out" in told.note
    assert told.inputs[0].total is not None
    assert told.inputs[0].total.mean == pytest.approx(1, abs=0.3)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small sweep from the command line, and what it said on stderr."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "ishigami.yaml").write_text(SCENARIO)
    vary = [part for text in VARY[:2] for part in ("--vary", text)]
    code, _, err = command(
        "sweep", folder / "ishigami.yaml", *vary, "--design", "morris", "--samples", 3, "--seeds", 1, "--jobs", 1,
        "--to", folder / "e",
    )  # fmt: skip
    assert code == 0, err
    return folder / "e", err


def test_the_number_of_runs_is_printed_first(swept: tuple[Path, str]) -> None:
    """Before anything runs, one line says how many runs the design takes, and why."""
    assert swept[1].splitlines()[0] == "sim: design morris: 3 × (2 + 1) = 9 combinations × 1 seed: 9 runs"


def test_a_report_of_sensitivity(swept: tuple[Path, str]) -> None:
    """`sim report FOLDER sensitivity` prints a table, writes a page with bars and scatter, and has it all as JSON."""
    folder, _ = swept
    code, out, err = command("report", folder, "sensitivity")
    assert (code, err) == (0, "")
    assert "effect (mu*)" in out
    assert "take --seeds 2 or more" in out
    page = (folder / "sensitivity.html").read_text()
    assert page.count("<svg") == 3  # bars, and a scatter for each input
    assert page.count("<circle") == 18
    code, out, err = command("report", folder, "sensitivity", "--json", "--outcome", "y", "--to", folder / "x.html")
    told = json.loads(out)
    assert (code, told["design"], [one["outcome"] for one in told["outcomes"]]) == (0, "morris", ["y"])
    assert {row["key"] for row in told["outcomes"][0]["inputs"]} == {"state.x1", "state.x2"}
    frame = sim.Experiment.open(folder).frame("sensitivity")
    assert list(frame["index"]) == ["effect", "mean_effect", "spread"] * 2
    assert command("verify", folder)[0] == 0
    for wrong, said in ((("--outcome", "z"), "there is no outcome 'z'"), (("--to", folder / "x.html"), "exists")):
        code, _, err = command("report", folder, "sensitivity", *wrong)
        assert (code, said in err) == (2, True)


def test_other_experiments_have_no_sensitivity(scenario: Path) -> None:
    """A factorial sweep is refused with the design to take; a bench does not take one."""
    plan = make_sweep(scenario, vary=("agents.point.state.x1=1,2",), count=1)
    results = carried_out(plan, scenario.parent / "e", lambda x, _: x[0])
    with closing(results), pytest.raises(UsageError, match="factorial design has no sensitivity indices"):
        sensitivity_of(results)
    code, _, err = command(
        "bench", scenario, "--vary", VARY[0], "--design", "morris", "--samples", 2
    )  # fmt: skip
    assert (code, "is for sensitivity analysis, not for modes" in err) == (2, True)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_ishigami_as_a_scenario(scenario: Path) -> None:
    """At N = 1,024, the indices of the scenario are those of the function within 0.05, from 5,120 real runs."""
    vary = [part for text in VARY for part in ("--vary", text)]
    folder = scenario.parent / "e"
    code, _, err = command(
        "sweep", scenario, *vary, "--design", "saltelli", "--samples", 1024, "--seeds", 1, "--to", folder
    )  # fmt: skip
    assert code == 0, err
    assert "1,024 × (3 + 2) = 5,120 combinations × 1 seed: 5,120 runs" in err
    code, out, _ = command("report", folder, "sensitivity", "--json")
    rows = {row["key"]: row for row in json.loads(out)["outcomes"][0]["inputs"]}
    for key, first, total in zip(("state.x1", "state.x2", "state.x3"), FIRST, TOTAL, strict=True):
        assert rows[key]["first"]["mean"] == pytest.approx(first, abs=0.05)
        assert rows[key]["total"]["mean"] == pytest.approx(total, abs=0.05)
