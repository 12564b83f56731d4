"""Messages and published events that do not arrive, or arrive with other data.

A branch names single ones of its run by their identities (source and counter); an intervention describes them. Neither
tells the sender: its action succeeds, and the event keeps its counter, so the order of whatever the sender causes later
is what it was. Draws are keyed by moment, so a run that is edited differs from the original by what the edit causes,
and by nothing else.

Prior art: `do` in causal models (Pearl 2009), message suppression in counterfactual replay of distributed systems. A
fork of the process before the event would be quicker for many edits of one moment, and is left to a later step.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import attrs

from sim.events.topic import matches
from sim.kernel import Source
from sim.kernel.codec import Json, Raw, decode_as, encode, freeze
from sim.world.message import Message
from sim.world.service import Service, Warned

if TYPE_CHECKING:
    from sim.world.world import World


Kind = Literal["message", "event"]


@attrs.frozen
class Edit:
    """One event of a recorded run that is left out, or gets other data.

    Attributes:
        event: its number in the record of its run.
        source, counter: its identity.
        time_ns: when it happened.
        topic: of a message or of a published event.
        to: the receiver of a message; None: it is a published event.
        replaced: whether it gets other data; otherwise it is left out.
        data: the other data, JSON-like.
    """

    event: int
    source: int
    counter: int
    time_ns: int
    topic: str
    to: str | None
    replaced: bool = False
    data: Any = None

    def to_json(self) -> dict[str, Json]:
        """Return it as a JSON-like mapping."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the edit that a record has.

        Raises:
            ValueError: if it is none.
        """
        return decode_as(encode(data), cls)


@attrs.define
class EditRule:
    """Which messages or events an intervention edits from now on.

    Attributes:
        kind: what it edits.
        topic: a pattern of topics; of messages, `*` stands for all, and any other text for itself.
        senders, receivers: the ids of agents; None: whoever it is.
        left: how many more it edits; None: all.
        until_ns: the time from which on it edits nothing; None: it always does.
        replaced: the new data; None: they are left out.
    """

    kind: Kind
    topic: str
    senders: frozenset[str] | None = None
    receivers: frozenset[str] | None = None
    left: int | None = None
    until_ns: int | None = None
    replaced: Raw | None = None

    def takes(self, kind: Kind, sender: str, topic: str, to: str | None) -> bool:
        """Return whether it edits this one."""
        if kind != self.kind or (self.senders is not None and sender not in self.senders):
            return False
        if self.receivers is not None and to not in self.receivers:
            return False
        return self.topic in ("*", topic) if kind == "message" else matches(self.topic, topic)


class Edits(Service):
    """The edits of one run.

    Args:
        world: the world.
    """

    name: ClassVar[str] = "edits"

    def __init__(self, world: "World") -> None:
        self._kernel = world.kernel
        self._open: dict[tuple[int, int], Edit] = {}
        self._rules: list[EditRule] = []
        self._counts = {"suppressed": 0, "replaced": 0}

    @classmethod
    def on(cls, world: "World") -> Self:
        """Return the edits of a world, which has some from now on."""
        edits = world.services.get(cls.name)
        if isinstance(edits, cls):
            return edits
        made = cls(world)
        world.add_service(made)
        world.event_bus.editor = made
        return made

    def add(self, edits: Sequence[Edit]) -> None:
        """Have single events of a recorded run edited."""
        self._open |= {(edit.source, edit.counter): edit for edit in edits}

    def follow(self, rule: EditRule) -> None:
        """Edit what a rule describes, from now on. Of several rules, the first one counts."""
        self._rules.append(rule)

    def message(self, source: Source, message: Message) -> Message | None:
        """Return the message that is delivered instead, or the same one; None: none is.

        Args:
            source: who causes it, before it has counted it.
            message: the message.
        """
        edit = self._edit_of("message", source, message.sender, message.topic, message.to)
        if edit is None:
            return message
        replaced, raw = edit
        return Message(message.sender, message.to, message.topic, raw, message.time) if replaced else None

    def event(self, source: Source, topic: str, raw: Raw) -> Raw | None:
        """Return the data that is published instead, or the same; None: nothing is. See `message`."""
        edit = self._edit_of("event", source, source.name, topic, None)
        if edit is None:
            return raw
        replaced, other = edit
        return other if replaced else None

    def _edit_of(self, kind: Kind, source: Source, sender: str, topic: str, to: str | None) -> tuple[bool, Raw] | None:
        """Return whether this one gets other data, and which; None: it is not edited."""
        key = source.ordinal, source.counter + 1
        edit = self._open.get(key)
        if edit is not None and (edit.time_ns, edit.topic, edit.to) == (self._kernel.now, topic, to):
            del self._open[key]
            return self._count(edit.replaced), freeze(edit.data)
        now = self._kernel.now
        for rule in self._rules:
            if rule.left == 0 or (rule.until_ns is not None and now >= rule.until_ns):
                continue
            if rule.takes(kind, sender, topic, to):
                rule.left = None if rule.left is None else rule.left - 1
                return self._count(rule.replaced is not None), rule.replaced or freeze(None)
        return None

    def _count(self, replaced: bool) -> bool:
        self._counts["replaced" if replaced else "suppressed"] += 1
        return replaced

    def metrics(self) -> dict[str, float | None]:
        """See `Service.metrics`."""
        return dict(self._counts)

    def summary(self) -> dict[str, Json]:
        """See `Service.summary`."""
        return {**self._counts, **({"missed": len(self._open)} if self._open else {})}

    def warnings(self) -> Sequence[Warned]:
        """Name the events that should have been edited, and did not happen again."""
        if not self._open:
            return ()
        count, numbers = len(self._open), ", ".join(str(edit.event) for edit in list(self._open.values())[:5])
        what = f"event {numbers}" if count == 1 else f"{count} events ({numbers}{', ...' if count > 5 else ''})"
        return (
            Warned(
                f"{what} of the original run did not happen again, and {'was' if count == 1 else 'were'} not edited",
                "another change, or another edit before it, prevented that; leave out fewer events",
            ),
        )
