"""Effects that must not be done twice: after a kill a person decides, and nothing happens before."""

import json
import random
from collections import Counter

import pytest

from tests.proof.bench import Bench, Record, check_calls, points

KILLS = 8
POINTS = ("writer.written", "writer.committed", "effect.started", "effect.done", "effect.recorded", "arrivals.applied",
          "arrivals.durable")  # fmt: skip

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]


def _doubtful(record: Record) -> set[tuple[str, int]]:
    """Return the effects that may have been done, and that nobody may do again without asking."""
    return {
        row.place for row in record.effects if row.safety == "unsafe" and row.outcome is None and row.ending is None
    }


def _paused(record: Record) -> set[tuple[str, str]]:
    """Return the agents that were paused, and why."""
    states = [row for row in record.events if row[6] == "agent.state"]
    return {(row[5], row[7]["reason"]) for row in states if row[7]["to"] == "paused"}


def _decide(bench: Bench, doubts: list[dict[str, object]], rng: random.Random, retried: Counter[str]) -> list[str]:
    """Return the options that decide all doubts, each in one of the ways."""
    options: list[str] = []
    for doubt in doubts:
        decision = rng.choice(["retry", "done", "failed"])
        if decision == "retry":
            retried[f"{doubt['agent']} {doubt['ordinal']}"] += 1
        if decision == "done":
            decision = "done:" + json.dumps({"number": 5, "text": "a person saw it"})
        options += ["--effect", f"{doubt['id']}={decision}"]
    return options


@pytest.mark.parametrize("measured", [0.0, 0.5])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_unsafe_effects_wait_for_a_person(service, tmp_path, tell, mode, backend, measured):
    """An unsafe effect that may have been done is listed, its agent is PAUSED with reason approval, and the service
    gets it a second time only after `retry`; whatever is decided, the run ends and replays. Asking changes nothing.
    """
    rng = random.Random(f"doubts {mode} {backend} {measured}")
    bench = Bench(tmp_path, service, backend, mode=mode, measured=measured, unsafe=0.4)
    kills = points(rng, POINTS, 100)
    listed = 0
    while bench.kills < KILLS:
        retried: Counter[str] = Counter()
        ended = bench.begin(kills)
        killed = 0
        places: set[tuple[str, int]] = set()
        while ended.code != 0:
            record = bench.record()
            bench.note_kill(record)
            killed += 1
            asked = bench.call("resume", bench.run)
            assert asked.code == 0 or "doubts" in asked.result, asked.err
            doubts = asked.result["doubts"]
            assert asked.code == (1 if doubts else 0), asked.err
            places = {(doubt["agent"], doubt["ordinal"]) for doubt in doubts}
            assert places <= _doubtful(record)
            if not doubts:
                break
            assert bench.record() == record
            listed += len(doubts)
            options = _decide(bench, doubts, rng, retried)
            if killed < 3 and rng.random() < 0.5:
                ended = bench.end(next(kills), "resume", bench.run, *options)
            else:
                ended = bench.call("resume", bench.run, *options)
                assert ended.code == 0, ended.err
        final = bench.record()
        assert final.status == "finished"
        assert {(agent, f"approval:effect {ordinal}") for agent, ordinal in places} <= _paused(final)
        result = bench.replay()
        assert (result.same, result.hash) == (True, final.hash), result.difference
        check_calls(service.seen(), service.applied, killed * 2)
        for (agent, ordinal), seen in service.seen().items():
            if seen[0].safety == "unsafe":
                assert len(seen) <= 1 + retried[f"{agent} {ordinal}"]
    tell(bench.figures(f"unsafe, {mode}, {backend}, measured {measured:g}") + f"; {listed} effects put to a person")
    assert listed
