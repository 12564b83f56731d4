"""`sim verify` on the audit records of a run."""

import json
from pathlib import Path

import pytest

from sim.record import RunHeader, RunRecorder, create_run
from sim.record.audit_chain import FIRST, TOPIC, record_hash


@pytest.fixture
def audited(tmp_path) -> tuple[Path, str]:
    """A finished run with one audit record, and that record as `sim verify` prints it."""
    hash = record_hash(1, 7, "a1", "tool.call", {"tool": "shop.refund"}, FIRST)
    data = {"data": {"tool": "shop.refund"}, "hash": hash, "n": 1, "previous": FIRST, "what": "tool.call"}
    recorder = RunRecorder(create_run(tmp_path, RunHeader("shop", 1, "autonomous", "asyncio"), "name: shop\n"))
    recorder.event((7, 0, 0, 1, 1, "a1", TOPIC, data, (1, 1)))
    recorder.finish("finished", {}, 8, {})
    return recorder.folder, f"1:{hash}"


def test_the_last_record_is_printed(sim, audited):
    """An intact chain is counted, and its last record printed, as text and as JSON."""
    run, head = audited
    assert f"1 audit records (head {head})" in sim("verify", run).out
    assert json.loads(sim("verify", run, "--json").out)["audit"] == {"records": 1, "head": head[2:]}


def test_a_noted_record_must_still_be_there(sim, audited):
    """A head from an earlier check is compared; text that is no head is wrong input."""
    run, head = audited
    assert sim("verify", run, "--audit-head", head).code == 0
    done = sim("verify", run, "--audit-head", "1:" + "0" * 64)
    assert (done.code, done.err) == (
        1,
        f"sim: {run} is damaged: audit record 1 (event 1) is not the one that was noted\n",
    )
    assert sim("verify", run, "--audit-head", "first").code == 2


def test_a_file_that_is_gone_is_named(sim, audited):
    """Without `run.audit`, the first record has no proof any more."""
    run, _ = audited
    (run / "run.audit").unlink()
    done = sim("verify", run)
    assert done.code == 1
    assert "audit record 1 (event 1) was added: run.audit has 0 records" in done.err
