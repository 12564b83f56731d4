"""The calls of models of a shard: it asks the coordinator to make them, and gets their answers with later orders."""

from collections.abc import Callable, Sequence
from typing import Final

from sim.base.errors import RunError
from sim.kernel.codec import Raw, decode
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel
from sim.kernel.ports import NullRecorder
from sim.kernel.rows import ClosedRow
from sim.runner.shards.protocol import Answered, Call, Closed, RowKey

_KIND: Final = "llm"  # the only effects that agents on islands have


class ShardCalls:
    """Stands for the edge on a shard: it notes calls that begin and end, for the next report.

    A call takes at least the latency of the islands, and a window is no longer. So what begins in a window is due after
    it, and the coordinator has the answer when it sends the order in which it is due.

    Args:
        kernel: the kernel of the shard.
        key: returns the place of the present step in the order of all shards.
    """

    def __init__(self, kernel: Kernel, key: Callable[[], RowKey]) -> None:
        self._kernel = kernel
        self._key = key
        self._begun: list[Call] = []
        self._ended: list[Closed] = []

    def start(self, handle: EffectHandle) -> bool:
        """Note a call that begins."""
        effect = handle.effect
        if effect.kind != _KIND or effect.latency_ns is None:
            raise RunError(
                f"{handle.actor.name} asks for an effect of the kind {effect.kind} on a shard, which only has calls of"
                " models with a latency in simulated time",
                hint="run it without --shards",
            )
        self._begun.append(
            Call(
                key=self._key(), actor=handle.actor.name, ordinal=handle.ordinal, request=Raw(handle.request),
                request_hash=handle.request_hash, safety=effect.safety, due=self._kernel.now + effect.latency_ns,
                timeout=effect.timeout,
            )
        )  # fmt: skip
        return True

    def abandon(self, handle: EffectHandle) -> None:
        """No-op: the end of the call is on record, by which the coordinator cancels it."""

    def closed(self, row: ClosedRow) -> None:
        """Note how a call has ended for its agent."""
        self._ended.append(Closed(self._key(), *row))

    def answer(self, answers: Sequence[Answered]) -> None:
        """Take the answers that are due in the next window; each is delivered at its time."""
        effects = self._kernel.effects
        for one in answers:
            handle = effects.in_flight.get((one.actor, one.ordinal))
            if handle is not None and effects.wanted(handle):
                effects.post(handle, Outcome(one.outcome, decode(one.value)))

    def take(self) -> tuple[tuple[Call, ...], tuple[Closed, ...]]:
        """Remove and return what has begun and what has ended since the last report."""
        taken = tuple(self._begun), tuple(self._ended)
        self._begun, self._ended = [], []
        return taken


class CallRecorder(NullRecorder):
    """A recorder that passes on how calls end.

    Attributes:
        calls: gets the ends; None: there are no calls.
    """

    calls: ShardCalls | None = None

    def closed(self, row: ClosedRow, /) -> None:
        """Pass on how a call has ended."""
        if self.calls is not None:
            self.calls.closed(row)
