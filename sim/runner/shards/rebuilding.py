"""Rebuilding a shard whose process has ended, from what it was sent (edge).

What a shard does follows from its setup and its orders alone: it draws by keys, and calls nothing outside. So a new
process that is sent the same orders comes to the same state. Chosen over states that are saved now and then: nothing is
written while all is well but the orders, which hold only what other islands sent. The price is that what the shard has
done is computed again.
"""

from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Final

from sim.base.errors import RunError
from sim.runner.shards.protocol import AnyShard, Order, Report, Setup, ShardLost, read_order, receive, send

Start = Callable[[int, Setup], AnyShard]
"""Starts the shard with a number."""

ATTEMPTS: Final = 3
"""The run fails when so many processes of a shard have ended during one order: what ends them is in the order."""

Outline = tuple[int | None, int, int, int, int, int]
"""What a report is compared by: `next`, `now`, `delta`, `running`, and the numbers of events and letters."""


class RebuiltShard:
    """A shard that is made again when its process ends.

    Args:
        number: its number, from 1.
        setup: what the shard is made of.
        start: starts a process.

    Attributes:
        setup: as given.
        rebuilt: how many times it was made again.
    """

    def __init__(self, number: int, setup: Setup, start: Start) -> None:
        self.setup = setup
        self.rebuilt = 0
        self._number = number
        self._start = start
        self._shard = start(number, setup)
        self._orders = TemporaryFile()  # noqa: SIM115  # `close` closes it
        self._done: list[Outline] = []  # of the orders that are kept
        self._pending: Order | None = None
        self._attempts = 0

    def ask(self, order: Order) -> None:
        """Send an order; `report` waits for its report."""
        self._pending = order
        try:
            self._shard.ask(order)
        except ShardLost as lost:
            self._rebuild(lost)

    def report(self) -> Report:
        """Wait for the report of the order that was sent last, or of the setup.

        Raises:
            ShardLost: if the process has ended, and others after it while they did the same.
            RunError: if the shard failed, or one that was made again did something else than the one before.
        """
        while True:
            try:
                found = self._shard.report()
                break
            except ShardLost as lost:
                self._rebuild(lost)
        if self._pending is not None:
            send(self._orders, self._pending)
            self._done.append(_outline(found))
        self._pending = None
        self._attempts = 0
        return found

    def close(self) -> None:
        """End the process."""
        self._shard.close()
        self._orders.close()

    def _rebuild(self, lost: ShardLost) -> None:
        """Start processes until one has done what was asked before; send it the order that has no report yet."""
        while True:
            self._attempts += 1
            self._shard.close()
            if self._attempts == ATTEMPTS:
                raise lost
            try:
                self._shard = self._start(self._number, self.setup)
                self._repeat()
            except ShardLost as again:
                lost = again
                continue
            self.rebuilt += 1
            return

    def _repeat(self) -> None:
        if self._pending is None:
            return  # the report of the setup is what is waited for
        self._shard.report()
        self._orders.seek(0)
        for before in self._done:
            order = read_order(receive(self._orders))
            self._shard.ask(order)
            if _outline(self._shard.report()) != before:
                raise RunError(
                    f"shard {self._number} ({', '.join(self.setup.islands)}) was started again after its process had"
                    f" ended, and did something else than before until {order.end / 1e9:g} s",
                    hint="rules that read what is outside of the simulation can cause it: run it in one process,"
                    " and compare with sim replay",
                )
        self._shard.ask(self._pending)


def _outline(report: Report) -> Outline:
    return report.next, report.now, report.delta, report.running, len(report.rows), len(report.letters)
