"""Measured latency: what was on record before a kill stays as it was, and the resumed run replays to its own hash."""

import random

import pytest

from sim.base.crashpoints import POINTS
from sim.record.hashing import RunHash, encode_events
from tests.proof.bench import Bench, Record, check_calls, points

KILLS = 12
LATER = tuple(name for name in POINTS if name not in {"run.drafted", "run.created"})

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]


def _begins_with(after: Record, before: Record) -> None:
    """Check that a record is the beginning of a later one."""
    assert after.events[: len(before.events)] == before.events
    assert after.arrivals[: len(before.arrivals)] == before.arrivals
    for new, old in zip(after.effects, before.effects, strict=False):
        fixed = (old.id, old.place, old.request_hash, old.safety, old.time_ns, old.events_before, old.hash_before)
        assert fixed == (
            new.id, new.place, new.request_hash, new.safety, new.time_ns, new.events_before, new.hash_before,
        )  # fmt: skip
        assert old.outcome is None or (old.outcome, old.result) == (new.outcome, new.result)
    assert len(after.effects) >= len(before.effects)


def _events_are_those(record: Record) -> None:
    """Check the events before each effect, which may not have been stored when it began, against its hash."""
    running, done = RunHash(), 0
    for row in record.effects:
        running.add_events(encode_events(record.events[done : row.events_before]), row.events_before - done)
        done = row.events_before
        assert running.stream == row.hash_before


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_the_record_before_a_kill_is_a_prefix(service, tmp_path, tell, mode, backend):
    """With measured and modelled effects mixed: events, effects and arrivals on record at each kill are the beginning
    of those of the resumed run, which replays to its own hash; no outcome on record is paid for again.
    """
    rng = random.Random(f"measured {mode} {backend}")
    bench = Bench(tmp_path, service, backend, mode=mode, measured=0.5)
    kills = points(rng, POINTS, 120), points(rng, LATER, 120)
    while bench.kills < KILLS:
        ended = bench.begin(kills[0])
        records: list[Record] = []
        while ended.code != 0:
            assert ended.code == -9, ended.err
            records.append(bench.record())
            bench.note_kill(records[-1])
            if records[-1].status == "finished":
                break
            before = len(service.calls)
            last = len(records) == 3 or rng.random() < 0.2
            ended = bench.call("resume", bench.run) if last else bench.end(next(kills[1]), "resume", bench.run)
            again = [call for call in service.calls[before:] if (call.agent, call.ordinal) in records[-1].known]
            assert not again, f"an outcome was on record, and its effect done again; {ended}"
        final = bench.record()
        for record in records:
            _begins_with(final, record)
        _events_are_those(final)
        result = bench.replay()
        assert (result.same, result.complete, result.hash) == (True, True, final.hash), result.difference
        check_calls(service.seen(), service.applied, len(records))
    tell(bench.figures(f"measured, {mode}, {backend}"))
