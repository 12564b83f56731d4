"""Effects in doubt: begun before a crash, not to be done twice, with no outcome on record. A person decides."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from sim.errors import UsageError
from sim.kernel import to_seconds
from sim.kernel.codec import decode
from sim.kernel.duration import MAX_NS
from sim.kernel.effects import Ticket
from sim.runner.result import Doubt
from sim.runner.runner import SimulationRunner
from sim.store.head import UnsafeEffect
from sim.store.reader import StoredRun
from sim.store.writer import shortened

DECISIONS: Final = ("retry", "done", "failed")


class Doubts:
    """The effects of a stored run that may be in doubt, and what a person has decided.

    Args:
        stored: the run.
        decisions: by id: `retry`, `done`, `done:JSON` (with the value that its agent gets) or `failed`.
        undecided: go on although some are not decided; their agents stay paused.
        at_ns: simulated time at which a branch leaves the run.
        lost: effects that may have been done in a part of the record that is lost; they are held when they are begun.

    Attributes:
        open: those that wait for a decision; known when the run has gone live.

    Raises:
        UsageError: if a decision is none, or is about an effect that is not in doubt.
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
        self.open: tuple[Doubt, ...] = ()
        self._undecided = undecided
        self._stored = stored
        rows = stored.query(
            "SELECT id, actor, ordinal FROM effects WHERE safety = 'unsafe' AND outcome IS NULL"
            " AND (ending IS NULL OR ending = 'abandoned' OR (ending = 'delivered' AND ended_ns >= ?))",
            (at_ns,),  # a branch may leave before its actor was cancelled, or a person decided
        )
        self._ids = {(actor, ordinal): id for id, actor, ordinal in rows}
        self._lost = {(effect.actor, effect.ordinal): effect for effect in lost}
        known = [str(id) for id in (*self._ids.values(), *(effect.id for effect in lost))]
        for id in decisions:
            if str(id) not in known:
                hint = f"in doubt may be: {', '.join(known)}" if known else "no effect of this run is in doubt"
                raise UsageError(f"effect {id} is not in doubt", hint=hint)
        self._decided = {id: _decision(id, text) for id, text in decisions.items()}

    def attach(self, runner: SimulationRunner) -> None:
        """Let the run know which of its effects may have been done in the lost part of the record."""
        if self._lost:
            runner.host.lost = self._is_lost

    def settle(self, runner: SimulationRunner, tickets: list[Ticket]) -> bool:
        """Tell the run what is in doubt and what was decided, and return whether it may go live.

        If something is undecided that must not be, it may not, and nothing is told: decisions count together.
        """
        begun = {(ticket.actor.name, ticket.ordinal): ticket for ticket in tickets}
        self.open = (
            *(self._describe(ticket) for ticket in tickets if self._id(ticket) not in self._decided),
            *(
                _described(effect)
                for place, effect in self._lost.items()
                if place not in begun and effect.id not in self._decided
            ),
        )
        if self.open and not self._undecided:
            return False
        for ticket in tickets:
            self._tell(runner, ticket)
        if self._lost:
            runner.host.hold = partial(self._tell, runner)
        return True

    def _tell(self, runner: SimulationRunner, ticket: Ticket) -> None:
        """Hold an effect, and apply what was decided about it.

        One that asks for something else than before the loss stays held: what was decided was not about this.
        """
        place = {"actor": ticket.actor.name, "ordinal": ticket.ordinal}
        id, lost = self._id(ticket), self._lost.pop((ticket.actor.name, ticket.ordinal), None)
        if not ticket.held:
            runner.host.submit("effect.doubt", place)
        if id in self._decided and (lost is None or lost.request_hash == ticket.request_hash):
            runner.host.submit("effect.decision", {**place, **self._decided[id]})

    def _is_lost(self, ticket: Ticket) -> bool:
        return ticket.effect.safety == "unsafe" and (ticket.actor.name, ticket.ordinal) in self._lost

    def _id(self, ticket: Ticket) -> int:
        place = (ticket.actor.name, ticket.ordinal)
        return self._ids[place] if place in self._ids else self._lost[place].id

    def _describe(self, ticket: Ticket) -> Doubt:
        if (lost := self._lost.get((ticket.actor.name, ticket.ordinal))) is not None:
            return _described(lost)
        id = self._id(ticket)
        ((time_ns,),) = self._stored.query("SELECT time_ns FROM effects WHERE id = ?", (id,))
        shown = shortened(ticket.effect.request)
        return Doubt(id, ticket.actor.name, ticket.ordinal, ticket.effect.kind, to_seconds(time_ns), shown)


def _described(effect: UnsafeEffect) -> Doubt:
    return Doubt(
        effect.id, effect.actor, effect.ordinal, effect.kind, to_seconds(effect.time_ns), effect.request, lost=True
    )


def _decision(id: int, text: str) -> dict[str, Any]:
    word, separator, value = text.partition(":")
    if word not in DECISIONS or (separator and word != "done"):
        raise UsageError(f"effect {id} can be {', '.join(DECISIONS)} or done:JSON, not {text!r}")
    try:
        return {"decision": word, "value": decode(value.encode()) if separator else None}
    except (RecursionError, ValueError) as error:
        raise UsageError(f"effect {id}: what follows done: must be JSON, not {value[:80]!r}") from error
