"""The audit service: an append-only record of what agents did and asked for, as a hash chain among the events.

`record` is called before the work that it is about begins. It hands the event to the writer at once. The intent of the
effect follows it there, and the writer commits in order, so the audit record of a call is on disk before the call
begins. `sim.record.audit_chain` has the form of a record, and checks the chain.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from sim.kernel.codec import JsonObject, decode, encode, freeze
from sim.record.audit_chain import FIRST, TOPIC, AuditRecord, record_hash
from sim.world.section import define_section, draws_nothing
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world import World


@attrs.frozen
class AuditSettings:
    """The audit chain: what agents did with tools, and what people approved. It has no settings."""


class Audit(Service):
    """The audit chain of a world.

    Args:
        world: the world whose agents are audited.

    Attributes:
        count: the number of records.
        head: the hash of the last record (64 hex digits); zeros if there is none.
    """

    name: ClassVar[str] = "audit"

    def __init__(self, world: "World") -> None:
        self.count = 0
        self.head = FIRST
        self._kernel = world.kernel

    def record(self, agent_id: str, what: str, data: JsonObject) -> None:
        """Append a record to the chain.

        Args:
            agent_id: the agent that it is about.
            what: what happens, as a dotted name such as `tool.call`.
            data: JSON-like; it is copied.

        Raises:
            ActorError: if the data is not JSON-like. Nothing is recorded then.
        """
        kernel, n = self._kernel, self.count + 1
        kept = decode(encode(data))  # as a reader of the record will see it: with text keys, in their order
        hash = record_hash(n, kernel.now, agent_id, what, kept, self.head)
        kernel.emit(TOPIC, freeze(AuditRecord(data=kept, hash=hash, n=n, previous=self.head, what=what)), agent_id)
        self.count, self.head = n, hash
        kernel.recorder.flush()  # into the writer's queue, before the intent of the effect that follows

    def state(self) -> Any:
        """Return the end of the chain, for the final digest; None without records."""
        return {"n": self.count, "hash": self.head} if self.count else None

    def metrics(self) -> Mapping[str, float]:
        """Return the number of records."""
        return {"records": self.count}

    def summary(self) -> JsonObject:
        """Return the end of the chain, for the result of a run."""
        return {"records": self.count, "head": self.head}


def _make(world: "World", settings: AuditSettings) -> None:
    world.add_service(Audit(world))


define_section("audit", AuditSettings, _make, draws=draws_nothing)
