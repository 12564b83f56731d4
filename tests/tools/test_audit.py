"""The audit service: its records form a chain, and are on disk before the work that they are about."""

from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.base.errors import ActorError
from sim.kernel.codec import decode, encode
from sim.record.audit_chain import FIRST, TOPIC, AuditHead, check_chain, record_hash
from sim.tools.audit import Audit
from tests.actors.helpers import Lab
from tests.tools.test_approvals import JSON


def audited(*data: Any) -> tuple[Lab, Audit]:
    """Return a world in which data was recorded, at 1 s each."""
    lab = Lab()
    audit = Audit(lab.world)
    lab.world.add_service(audit)
    for number, value in enumerate(data):
        lab.at(number + 1, partial(audit.record, "a", "tool.call", value))
    lab.run(len(data) + 2)
    return lab, audit


def test_records_form_a_chain():
    """A record names the hash of the one before it; the end of the chain is in the final state."""
    lab, audit = audited({"tool": "t"}, {"tool": "u"})
    first, second = (decode(encode(row.data)) for row in lab.rows("a", TOPIC))
    assert first["hash"] == record_hash(1, 10**9, "a", "tool.call", {"tool": "t"}, FIRST)
    assert second["hash"] == record_hash(2, 2 * 10**9, "a", "tool.call", {"tool": "u"}, first["hash"])
    assert lab.world.digest()["services"] == {"audit": {"n": 2, "hash": second["hash"]}}
    assert audit.summary() == {"records": 2, "head": second["hash"]}


def test_without_records_the_final_state_is_as_before():
    """A run in which nothing is audited has the digest that it had without the service."""
    lab, _ = audited()
    assert "services" not in lab.world.digest()


def test_what_is_not_json_is_refused():
    """Data that is not JSON raises, and leaves the chain as it was."""
    lab, audit = audited()
    with lab.kernel.acting_as(lab.kernel.scenario), pytest.raises(ActorError):
        audit.record("a", "tool.call", {"x": cast(Any, object())})
    assert (audit.count, audit.head) == (0, FIRST)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.text("abcé", max_size=3), JSON, max_size=3), max_size=3))
def test_any_data_has_a_chain_that_can_be_checked(data):
    """Whatever is recorded, the chain as read from the record is intact."""
    lab, audit = audited(*data)
    rows = lab.rows()
    hashes = [decode(encode(row[7]))["hash"] for row in rows if row[6] == TOPIC]
    found = check_chain([(1, encode(rows))], hashes)
    assert (found.problem, found.head) == (None, AuditHead(audit.count, audit.head))
