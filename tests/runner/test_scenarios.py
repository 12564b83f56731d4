"""The shipped scenarios do what their comments say."""

import math
import statistics
from pathlib import Path

import pytest

from sim.kernel.rows import EventRow
from sim.record import HashRecorder
from sim.runner import RunController, run
from sim.scenario import load
from sim.scenario.assembly.build import build

SCENARIOS = Path(__file__).parents[2] / "scenarios"

T_19_995 = 2.861  # two-sided 99 % quantile of Student's t with 19 degrees of freedom


def erlang_c_wait(arrival: float, service: float, servers: int) -> float:
    """Return the mean wait in an M/M/c queue (Erlang 1917)."""
    load = service / arrival
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    busy = top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)
    return busy * service / (servers - load)


def test_erlang_c() -> None:
    """The theory that the scenario's comment quotes."""
    assert round(erlang_c_wait(30, 60, 3), 1) == 26.7
    assert round(erlang_c_wait(30, 60, 4), 1) == 5.2


@pytest.mark.proof
def test_the_queue_waits_as_theory_says() -> None:
    """The mean wait of M/M/3 lies in the 99 % interval of 20 batch means (Law and Kelton), over two fixed seeds."""
    means: list[float] = []
    for seed in (1, 2):
        simulation = build(load(SCENARIOS / "queue.yaml"), seed=seed)
        runner = RunController(simulation, until_ns=simulation.scenario.end_ns, mode="autonomous")
        _drive(runner)
        waits = list(simulation.world.observations["wait"])[200:]  # without the start from empty
        size = len(waits) // 20
        means.extend(statistics.fmean(waits[n * size : (n + 1) * size]) for n in range(20))
    groups = [statistics.fmean(means[n * 2 : (n + 1) * 2]) for n in range(20)]
    middle, error = statistics.fmean(groups), statistics.stdev(groups) / math.sqrt(20)
    assert abs(middle - erlang_c_wait(30, 60, 3)) < T_19_995 * error
    assert error < 4  # else the interval would prove nothing


def _drive(runner: RunController) -> None:
    import anyio

    anyio.run(runner.run)


@pytest.mark.slow
def test_contagion_conserves_people() -> None:
    """At every sample S + I + R is 34; the ill become fewer in the end, and the run ends when nobody is ill."""
    for mode in ("autonomous", "tick"):
        result = run(SCENARIOS / "contagion.yaml", mode=mode)
        totals = [sum(values) for values in zip(*(result.metrics[name] for name in "SIR"), strict=True)]
        assert set(totals) == {34}
        assert result.metrics["S"] == sorted(result.metrics["S"], reverse=True)
        assert result.metrics["R"] == sorted(result.metrics["R"])
        assert result.metrics["I"][-1] == 0
        assert result.stopped_by is not None


class Auditor(HashRecorder):
    """Checks a world at each of its events."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = 0
        self.world: object = None

    def event(self, row: EventRow, /) -> None:
        super().event(row)
        self._check()

    def _check(self) -> None:
        from sim.world import World

        world = self.world
        if not isinstance(world, World):
            return
        self.checks += 1
        tracker = world.rate_tracker
        for index in range(1, 13):
            name = f"writer-{index}"
            assert 0 <= tracker.get_usage(name, "llm_calls") <= 6
            assert 0 <= tracker.get_usage(name, "disk_writes") <= 4
            assert world.quotas.held(name, "disk_bytes") <= 2000
        assert tracker.total_usage("llm_calls") <= 60
        assert tracker.total_usage("bandwidth") <= 3000
        balances = world.ledger.state()["balances"]
        assert sum(balances.values()) == (12 * 5 + 3 * 2000) * 1_000_000
        assert min(balances.values()) >= 0


@pytest.mark.slow
def test_ecology_conserves_money_and_keeps_its_limits() -> None:
    """At every event: the sum of all balances is what it was, none is negative, no limit and no quota is exceeded."""
    for mode in ("autonomous", "tick"):
        auditor = Auditor()
        simulation = build(load(SCENARIOS / "ecology.yaml"), recorder=auditor)
        auditor.world = simulation.world
        runner = RunController(simulation, until_ns=3 * 3600 * 10**9, mode=mode)
        _drive(runner)
        assert auditor.checks > 2000
        assert simulation.world.rate_tracker.statistics()["llm_calls"].granted > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "until", "overrides"),
    [
        ("cascade", "22s", ["agents.person.count=210"]),
        ("opinions", "2s", []),
        ("sugarscape", "5s", ["agents.founder.state.people=60"]),
    ],
)
def test_a_model_of_the_gallery_runs_without_a_failure(name: str, until: str, overrides: list[str]) -> None:
    """No action of a model is refused, and no iteration fails. Its figures are compared with tests/docs."""
    result = run(SCENARIOS / f"{name}.yaml", until=until, overrides=overrides)
    assert (result.errors, result.refused) == (0, {})
    assert result.iterations > 200
