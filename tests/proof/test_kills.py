"""Kill -9 at every crash point and at random moments, resume, compare."""

import random
import signal
from collections.abc import Iterator

import pytest

from sim.base.crashpoints import POINTS
from tests.proof.bench import Bench, Kill, check_calls, moment, points

KILLS = 25
"""In each of the twelve tests: 300."""

FIRST = tuple(name for name in POINTS if not name.startswith(("resume.", "arrivals.")))
LATER = tuple(name for name in POINTS if not name.startswith(("run.drafted", "run.created", "arrivals.")))
"""Without measured effects and inputs nothing arrives; `test_measured` is about that."""

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]


def _chain(bench: Bench, reference: str, first: Iterator[Kill], later: Iterator[Kill], rng: random.Random) -> None:
    """Run, be killed up to three times, and come to the same end."""
    ended = bench.begin(first)
    killed = 0
    while ended.code != 0:
        record = bench.record()
        bench.note_kill(record)
        killed += 1
        if record.status == "finished":  # killed after the end was written
            break
        known = record.known
        before = len(bench.service.calls)
        if killed < 3 and rng.random() < 0.8:
            ended = bench.end(next(later), "resume", bench.run)
        else:
            ended = bench.call("resume", bench.run)
            assert ended.code == 0, ended.err
        again = [call for call in bench.service.calls[before:] if (call.agent, call.ordinal) in known]
        assert not again, f"an outcome was on record, and its effect done again; {ended}"
    assert bench.record().hash == reference
    result = bench.replay()
    assert (result.same, result.complete, result.hash) == (True, True, reference), result.difference
    check_calls(bench.service.seen(), bench.service.applied, killed)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_killed_run_comes_to_the_same_end(service, tmp_path, tell, mode, backend, part):
    """Killed at any crash point and any moment, once or several times, a resumed run ends with the hash of one that
    was never killed; every idempotent effect is applied once, and no outcome on record is paid for again.
    """
    rng = random.Random(f"{mode} {backend} {part}")
    bench = Bench(tmp_path, service, backend, mode=mode, seed=part + 1)
    reference = bench.reference()
    first, later = points(rng, FIRST, 150), points(rng, LATER, 150)
    while bench.kills < KILLS:
        _chain(bench, reference, first, later, rng)
    tell(bench.figures(f"{mode}, {backend}, part {part}"))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_ctrl_c_counts_as_a_kill(service, tmp_path, tell, mode, backend):
    """A run that Ctrl-C ended at any moment, also while it was resumed, comes to the same end."""
    rng = random.Random(f"interrupt {mode} {backend}")
    bench = Bench(tmp_path, service, backend, mode=mode)
    reference = bench.reference()
    kills = iter(lambda: moment(rng, 150, signal.SIGINT), None)
    while bench.kills < 8:
        _chain(bench, reference, kills, kills, rng)
    tell(bench.figures(f"Ctrl-C, {mode}, {backend}"))
