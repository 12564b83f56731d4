"""What a company could not do: dead letters, lost events, and expressions that fail at present.

One finding that cannot be used is one dead letter; the rest of its batch is done. A fault that lasts is said when it
begins, and each daily summary repeats it until it is over. Nothing is dropped without a row in the record.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs

from sim.kernel.codec import ABSENT, Raw
from sim.kinds.sop.channels import Channels
from sim.kinds.sop.events import DeadLetterSet
from sim.world import Warned, World

SHOWN: Final = 3
"""How many dead letters of one look are named in its warning; all are in the record."""


@attrs.frozen
class DeadLetter:
    """A finding, or a trigger, of which no task can be made.

    Args:
        source: what found it, in words such as `the watcher inbox`.
        item: what was found, as canonical JSON.
        why: why no task can be made of it.
    """

    source: str
    item: Raw
    why: str


class Faults:
    """The faults of one company.

    Args:
        world: the world.
        channel: the channel of warnings.
        counts: where dead letters and lost events are counted.
    """

    def __init__(self, world: World, channel: str, counts: Counter[str]) -> None:
        self._world = world
        self._channel = channel
        self._counts = counts
        self._lasting: dict[str, str] = {}  # what fails at present → why
        self._first: DeadLetter | None = None

    def say(self, author: str, warning: str) -> None:
        """Post a warning."""
        Channels.of(self._world).post(self._channel, author, warning)

    def begins(self, what: str, why: str, author: str) -> None:
        """Note that something fails. The warning is posted when it begins to, or its reason changes.

        Args:
            what: what fails, such as `The watcher inbox`.
            why: the reason.
            author: in whose name the warning is posted.
        """
        if self._lasting.get(what) != why:
            self._lasting[what] = why
            self._counts["faults"] += 1
            self.say(author, f"{what} cannot be used: {why}")

    def ends(self, what: str) -> None:
        """Note that something works, or is not needed any more."""
        self._lasting.pop(what, None)

    @property
    def lasting(self) -> list[str]:
        """What fails at present, with the reasons."""
        return [f"{what} ({why})" for what, why in self._lasting.items()]

    def set_aside(self, letters: list[DeadLetter], agent: str, author: str) -> None:
        """Record dead letters and say so, in one warning for all of a batch.

        Args:
            letters: what cannot be used.
            agent: the employee whose tasks they would have become.
            author: in whose name the warning is posted.
        """
        if not letters:
            return
        room = self._world.event_bus.max_data_bytes // 2
        for letter in letters:
            self._counts["dead_letters"] += 1
            fits, size = len(letter.item) <= room, len(letter.item)
            self._world.event_bus.report(
                DeadLetterSet(
                    agent=agent,
                    item=letter.item if fits else ABSENT,
                    item_bytes=ABSENT if fits else size,
                    source=letter.source,
                    why=letter.why[:2000],
                )
            )
        self._first = self._first or letters[0]
        reasons = "; ".join(dict.fromkeys(letter.why for letter in letters[:SHOWN]))
        more = f"; and {len(letters) - SHOWN} more" if len(letters) > SHOWN else ""
        count = "1 dead letter" if len(letters) == 1 else f"{len(letters)} dead letters"
        self.say(author, f"{count} of {letters[0].source}, of which no task is made: {reasons}{more}")

    def lose(self, count: int, what: str, author: str) -> None:
        """Say that events or triggers were lost because too many waited.

        Args:
            count: how many.
            what: what they were for, such as `the watcher inbox`.
            author: in whose name the warning is posted.
        """
        self._counts["lost"] += count
        self.say(author, f"{count} lost for {what}, because too many waited; shorten its interval, or filter earlier")

    def warnings(self) -> Iterator[Warned]:
        """Yield what a user of the run should know: of what no task was made, what was lost, and what still fails."""
        if self._first is not None:
            count = self._counts["dead_letters"]
            letters = "1 dead letter, of which" if count == 1 else f"{count:,} dead letters, of which"
            text = f"{letters} no task was made; the first, of {self._first.source}: {self._first.why}"
            yield Warned(text, "list them with: sim show RUN dead_letters")
        if lost := self._counts["lost"]:
            text = f"{lost:,} events or triggers were lost, because too many waited for an employee or a watcher"
            yield Warned(text, "shorten their intervals, or filter earlier")
        for what, why in self._lasting.items():
            yield Warned(f"at the end of the run, {what[0].lower()}{what[1:]} cannot be used: {why}")

    def state(self) -> dict[str, str]:
        """Return what fails at present, for the final digest."""
        return self._lasting
