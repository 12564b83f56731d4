"""In-doubt effects: unsafe effects that started before a crash and have no recorded outcome. A person decides."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from sim.base.errors import UsageError
from sim.kernel import to_seconds
from sim.kernel.codec import Json, decode
from sim.kernel.duration import MAX_NS
from sim.kernel.effects import EffectHandle
from sim.record.head import UnsafeEffect
from sim.record.reader import StoredRun
from sim.record.writer import shortened
from sim.runner.result import InDoubtEffect
from sim.runner.runner import RunController

DECISIONS: Final = ("retry", "done", "failed")


class InDoubtEffects:
    """The effects of a stored run that may be in doubt, and the decisions of a person about them.

    Args:
        stored: the run.
        decisions: by id: `retry`, `done`, `done:JSON` (with the value that its agent gets) or `failed`.
        undecided: continue although decisions are missing; the agents of those effects stay paused.
        at_ns: the simulated time of a branch, in nanoseconds.
        lost: effects that may have been executed in a lost part of the record; they are held when the run reaches them.

    Attributes:
        open: effects that wait for a decision; known once the run is live.

    Raises:
        UsageError: if a decision is not valid, or names an effect that is not in doubt.
    """

    def __init__(
        self,
        stored: StoredRun,
        decisions: Mapping[int, str],
        *,
        undecided: bool,
        at_ns: int = MAX_NS,
        lost: Sequence[UnsafeEffect] = (),
    ) -> None:
        self.open: tuple[InDoubtEffect, ...] = ()
        self._undecided = undecided
        self._stored = stored
        rows = stored.query(
            "SELECT id, actor, ordinal FROM effects WHERE safety = 'unsafe' AND outcome IS NULL"
            " AND (ending IS NULL OR ending = 'abandoned' OR (ending = 'delivered' AND ended_ns >= ?))",
            (at_ns,),  # a branch may begin before the actor was cancelled, or before a person decided
        )
        self._ids = {(actor, ordinal): id for id, actor, ordinal in rows}
        self._lost = {(effect.actor, effect.ordinal): effect for effect in lost}
        ids = [str(id) for id in (*self._ids.values(), *(effect.id for effect in lost))]
        for id in decisions:
            if str(id) not in ids:
                hint = f"effects in doubt: {', '.join(ids)}" if ids else "no effect of this run is in doubt"
                raise UsageError(f"effect {id} is not in doubt", hint=hint)
        self._decided = {id: _decision(id, text) for id, text in decisions.items()}

    def attach(self, runner: RunController) -> None:
        """Tell the run which of its effects may have been executed in the lost part of the record."""
        if self._lost:
            runner.host.lost = self._is_lost

    def settle(self, runner: RunController, handles: list[EffectHandle]) -> bool:
        """Hold the in-doubt effects of the run, apply the decisions, and return whether the run may continue live.

        If a required decision is missing, it may not, and no decision is applied: they are applied together or not at
        all.
        """
        begun = {(handle.actor.name, handle.ordinal): handle for handle in handles}
        self.open = (
            *(self._describe(handle) for handle in handles if self._id(handle) not in self._decided),
            *(
                _described(effect)
                for place, effect in self._lost.items()
                if place not in begun and effect.id not in self._decided
            ),
        )
        if self.open and not self._undecided:
            return False
        for handle in handles:
            self._tell(runner, handle)
        if self._lost:
            runner.host.hold = partial(self._tell, runner)
        return True

    def _tell(self, runner: RunController, handle: EffectHandle) -> None:
        """Hold an effect, and apply the decision about it.

        An effect whose request differs from the lost one stays held: the decision was about another request.
        """
        place = {"actor": handle.actor.name, "ordinal": handle.ordinal}
        id, lost = self._id(handle), self._lost.pop((handle.actor.name, handle.ordinal), None)
        if not handle.held:
            runner.host.submit("effect.doubt", place)
        if id in self._decided and (lost is None or lost.request_hash == handle.request_hash):
            runner.host.submit("effect.decision", {**place, **self._decided[id]})

    def _is_lost(self, handle: EffectHandle) -> bool:
        return handle.effect.safety == "unsafe" and (handle.actor.name, handle.ordinal) in self._lost

    def _id(self, handle: EffectHandle) -> int:
        place = (handle.actor.name, handle.ordinal)
        return self._ids[place] if place in self._ids else self._lost[place].id

    def _describe(self, handle: EffectHandle) -> InDoubtEffect:
        if (lost := self._lost.get((handle.actor.name, handle.ordinal))) is not None:
            return _described(lost)
        id = self._id(handle)
        ((time_ns,),) = self._stored.query("SELECT time_ns FROM effects WHERE id = ?", (id,))
        shown = shortened(handle.effect.request)
        return InDoubtEffect(id, handle.actor.name, handle.ordinal, handle.effect.kind, to_seconds(time_ns), shown)


def _described(effect: UnsafeEffect) -> InDoubtEffect:
    return InDoubtEffect(
        effect.id, effect.actor, effect.ordinal, effect.kind, to_seconds(effect.time_ns), effect.request, lost=True
    )


def _decision(id: int, text: str) -> dict[str, Json]:
    word, separator, value = text.partition(":")
    if word not in DECISIONS or (separator and word != "done"):
        raise UsageError(f"effect {id} can be {', '.join(DECISIONS)} or done:JSON, not {text!r}")
    try:
        return {"decision": word, "value": decode(value.encode()) if separator else None}
    except (RecursionError, ValueError) as error:
        raise UsageError(f"effect {id}: the value after done: must be JSON, not {value[:80]!r}") from error
