"""What fits promise, shown with real runs: known values are recovered, and neither kills nor processes change a fit."""

import json
import signal
import sqlite3
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from pathlib import Path
from statistics import median

import attrs
import pytest

import sim
from sim.experiments.experiment import carry_out
from sim.experiments.fit_plan import make_fit
from sim.experiments.fit_tables import found_by
from sim.experiments.folder import begin
from sim.experiments.measure import Measured
from sim.experiments.plan import TrialHosting, TrialJob
from sim.experiments.pool import NEVER, Deadline, Ended, Inline
from tests.experiments.fits import SCENARIO as GROWTH
from tests.helpers import command
from tests.proof.forking import Commands

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]

MODELS = {
    "contagion": (
        "chance(beta)", "chance(beta / 100)", "agents.person.state.beta", "1..60", 12, "I,R", "6d",
        ["places={grid: [10, 10]}", "agents.person.count=100"],
    ),
    "schelling": (
        "share < wanted", "share < wanted / 100", "agents.person.state.wanted", "5..95", 40, "similar", "8s", [],
    ),
    "opinions": (
        "data - opinion) < d", "data - opinion) < d / 100", "agents.person.state.d", "5..60", 20, "spread",
         "8s", ["agents.person.count=100", "agents.person.state.others=99"],
    ),
}  # fmt: skip
"""Gallery models, each with a share as a whole number of percent, so that fits to other data have trials in common.

Their populations are large enough that one run says something about the share.
"""


class Remembering(Inline):
    """Does jobs in this process, and each trial once for several fits of one scenario."""

    def __init__(self) -> None:
        self.known: dict[tuple[tuple[str, str], ...], Measured] = {}

    def run(  # type: ignore[override]
        self, work: Callable[[TrialJob], list[Measured]], jobs: Iterable[TrialJob], /, deadline: Deadline = NEVER
    ) -> Generator[tuple[TrialJob, list[Measured] | Ended]]:
        for job in jobs:
            ((number, point),) = job.points.items()
            key = (*point.items(), ("seed", str(job.seed)))
            if key not in self.known:
                (self.known[key],) = work(job)
            found = self.known[key]
            yield job, [attrs.evolve(found, trial=attrs.evolve(found.trial, point=number))]


@pytest.mark.parametrize("model", MODELS)
def test_known_values_are_recovered(model: str, tmp_path: Path) -> None:
    """From the data of one run with known values, the interval of the fit has them in 9 of 10 seeds or more.

    Half of the intervals are narrower than half of the range: one that is all of it would always have them.
    """
    old, new, key, span, true, metrics, until, changes = MODELS[model]
    text = (ROOT / f"scenarios/{model}.yaml").read_text()
    assert old in text
    path = tmp_path / "model.yaml"
    text = text.replace(old, new).replace("'I' if index == 0", "'I' if index < 8")  # so that no outbreak ends early
    path.write_text(text.partition("\nproperties:")[0] + "\n")
    workers, hits, widths, recovered = Remembering(), 0, [], []
    for number in range(10):
        run = sim.run(path, seed=1000 + number, until=until, overrides=[*changes, f"{key}={true}"])
        names = metrics.split(",")
        rows = [
            f"{time:g},{','.join(str(run.metrics[name][place]) for name in names)}"
            for place, time in enumerate(run.metrics["time"]) if place
        ]  # fmt: skip
        data = tmp_path / f"data{number}.csv"
        data.write_text("\n".join([f"time,{metrics}", *rows]) + "\n")
        plan = make_fit(
            path, vary=(f"{key}={span}",), targets=[data], candidates=20, batch_size=5, count=5, held_out=0,
            until=until, overrides=changes, first_seed=1,
        )  # fmt: skip
        with closing(begin(plan, tmp_path / f"fit{number}")) as results:
            for _ in carry_out(results, workers, TrialHosting()):
                pass
            (value,) = found_by(results).intervals
        assert value.low is not None
        assert value.high is not None
        recovered.append((value.low, value.high))
        hits += value.low <= true <= value.high
        widths.append(value.width)
    assert hits >= 9, recovered
    assert median(widths) < 0.5, recovered


FIT = (
    "fit", "growth.yaml", "--vary", "agents.plant.state.rate=0.0..5.0", "--vary", "agents.plant.state.start=0.0..8.0",
    "--target", "data.csv", "--candidates", 12, "--batch-size", 4, "--seeds", 4,
)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A present folder with a scenario and data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "growth.yaml").write_text(GROWTH)
    (tmp_path / "data.csv").write_text("time,height\n" + "".join(f"{at},{1 + 2 * at}\n" for at in range(1, 6)))
    return tmp_path


def told(*arguments: object) -> dict[str, object]:
    """Return what a command prints as JSON."""
    code, out, err = command(*arguments, "--json")
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


def test_processes_kills_and_samplers(place: Path) -> None:
    """One process, two, and a fit that was killed twice have the same hash; so has a fit by CMA-ES."""
    one = told(*FIT, "--jobs", 1, "--to", "one")
    two = told(*FIT, "--jobs", 2, "--to", "two")
    assert (one["id"], one["hash"]) == (two["id"], two["hash"])
    with Commands() as commands:
        killed = (*FIT, "--jobs", 1, "--to", "killed")
        assert commands.call(place, *killed, point="results.added", n=7) == -signal.SIGKILL
        resumed = ("fit", "--resume", "killed", "--jobs", 1)
        assert commands.call(place, *resumed, point="results.added", n=15) == -signal.SIGKILL
    with closing(sqlite3.connect("killed/results.db")) as database:
        assert database.execute("SELECT count(*) FROM trials").fetchone() == (22,)
    assert told("fit", "--resume", "killed")["hash"] == one["hash"]
    assert command("verify", "killed")[0] == 0
    sampled = ("--sampler", "cmaes", "--candidates", 8)
    first, second = (told(*FIT, *sampled, "--jobs", jobs, "--to", f"cmaes{jobs}") for jobs in (1, 2))
    assert first["hash"] == second["hash"] != one["hash"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_ray_gives_the_same_fit(place: Path) -> None:
    """A fit on a Ray cluster has the candidates and the hash of one on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed: uv run --extra ray pytest -m proof")
    here = told(*FIT, "--jobs", 1, "--to", "here")
    there = told(*FIT, "--on", "ray", "--to", "there")
    assert (here["id"], here["hash"]) == (there["id"], there["hash"])
