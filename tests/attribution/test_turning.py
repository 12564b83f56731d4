"""Turning points: the curve of a run, its jumps, and how they are said."""

import json

import pytest

import sim
from sim.experiments.attribution.forks import FORKS
from tests.helpers import command

pytestmark = pytest.mark.skipif(not FORKS, reason="processes are not forked here")

ASKED = "last('side') > 0"


@pytest.fixture(scope="module")
def found(coin):
    """The turning points of the coin."""
    told: list[tuple[str, bool]] = []

    def confirm(text: str, money: bool) -> bool:
        told.append((text, money))
        return True

    found = sim.turning_point(coin, ASKED, budget=300, confirm=confirm)
    assert found is not None
    ((text, money),) = told
    assert not money
    assert "up to 300 futures, forked, take at most about" in text
    return found


def test_the_step_that_decides_is_found(found):
    """Before the one draw that decides, P is 0.5 within its interval; after it, 1 or 0; the jump is one step."""
    (jump,) = found.confirmed
    assert jump.steps == 1
    assert jump.before.moment.time_ns == 5 * 10**9
    assert (jump.after.p, jump.after.unknown) == (float(found.outcome), 0)
    low, high = jump.before.interval
    assert low < 0.5 < high
    assert next((one.agent, one.key) for one in jump.assigned) == ("flipper", "side")
    for point in found.points[:-1]:
        assert point.interval is not None
        after = point.moment > jump.before.moment
        assert point.p == float(found.outcome) if after else point.interval[0] < 0.5 < point.interval[1]


def test_the_moments_of_a_half_and_of_most_are_those_of_the_draw(found):
    """It is said between which moments the outcome of the run became likely for good: at the draw, for both levels."""
    late = found.passed[1]
    assert late.level == 0.95
    assert late.last_below is not None
    assert late.last_below.time_ns <= 5 * 10**9 <= late.first_above.time_ns


@pytest.mark.proof
def test_the_budget_holds_and_the_result_repeats(coin, found):
    """No more futures than the budget are carried out; the same run and options give the same result."""
    assert found.futures <= 300
    assert sim.turning_point(coin, ASKED, budget=300, jobs=1) == found


def test_the_curve_is_json(found):
    """All that was found can be written as JSON, with the known end of the run as the last point."""
    data = json.loads(json.dumps(found.to_json()))
    assert data["points"][-1]["p"] == float(found.outcome)
    assert data["jumps"][0]["assigned"][0]["key"] == "side"


def test_a_refused_cost_does_nothing(coin):
    """If the cost is refused, there is no future and no result."""
    assert sim.turning_point(coin, ASKED, confirm=lambda text, money: False) is None


def test_the_command_prints_saves_and_refuses(coin, tmp_path):
    """The command says the cost first, prints the curve, and writes it as a picture; other options are refused."""
    picture = tmp_path / "curve.svg"
    code, out, err = command("branch", coin, "--turning-point", ASKED, "--budget", 100, "--to", picture)
    assert code == 0, err
    assert "up to 100 futures, forked, take at most about" in err
    assert "as it came out" in out
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    for options in (("--seed", 3), ("--at", "1s"), ("--arm", "a:x=1"), ("--seeds", 3)):
        code, out, err = command("branch", coin, "--turning-point", ASKED, *options)
        assert (code, out) == (2, "")
        assert f"{options[0]} is not for --turning-point" in err
    code, out, err = command("branch", coin, "--budget", 150)
    assert code == 2
    assert "--budget is for futures" in err
