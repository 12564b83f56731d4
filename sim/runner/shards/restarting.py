"""Restarting a shard whose process has ended: a new process repeats all orders that the shard has carried out (edge).

What a shard does follows from its setup and its orders alone: it draws by keys, and calls nothing outside. So a new
process comes to the same state. Chosen over snapshots at intervals: without a failure, only the orders are written, and
these hold just what other islands sent. The price is that all that the shard has done is computed again.
"""

from tempfile import TemporaryFile
from typing import Final
from zlib import crc32

from sim.base.errors import RunError
from sim.kernel.codec import as_sent, changed
from sim.runner.shards.protocol import AnyShard, Order, Report, Setup, ShardLost, Start, read_order, receive, send

ATTEMPTS: Final = 3
"""The run fails when so many processes of a shard have ended during one order: the cause is in the order itself."""


class RestartedShard:
    """A shard with a new process whenever its process ends.

    Args:
        number: its number, from 1.
        setup: what the shard is made of.
        start: starts a process.

    Attributes:
        setup: as given.
        restarts: how many times a new process took the place of one that had ended.
    """

    def __init__(self, number: int, setup: Setup, start: Start) -> None:
        self.setup = setup
        self.restarts = 0
        self._number = number
        self._start = start
        self._shard: AnyShard | None = None
        self._orders = TemporaryFile()  # noqa: SIM115  # `close` closes it
        self._done: list[int] = []  # of the orders that are kept: checksums of their reports
        self._pending: Order | None = None
        self._attempts = 0
        try:
            self._shard = start(number, setup)
        except ShardLost as lost:
            self._restart(lost)

    def ask(self, order: Order) -> None:
        """Send an order; `report` waits for its report."""
        self._pending = order
        try:
            self._current.ask(order)
        except ShardLost as lost:
            self._restart(lost)

    def report(self) -> Report:
        """Wait for the report of the order that was sent last, or of the setup.

        Raises:
            ShardLost: if the process has ended, and others after it while they did the same.
            RunError: if the shard failed, the report is that of another order, or the new process did something else
                than the one before.
        """
        while True:
            try:
                report = self._current.report()
                break
            except ShardLost as lost:
                self._restart(lost)
        due = 0 if self._pending is None else self._pending.number
        if report.number != due:
            raise RunError(
                f"shard {self._number} sent the report of order {report.number}, and that of order {due} was due",
                hint="what carries the reports is at fault: the record is kept, and sim resume continues it",
            )
        if self._pending is not None:
            send(self._orders, as_sent(self._pending))
            self._done.append(_checksum(report))
        self._pending = None
        self._attempts = 0
        return report

    def close(self) -> None:
        """End the process."""
        self._end()
        self._orders.close()

    @property
    def _current(self) -> AnyShard:
        assert self._shard is not None, "`_restart` raises if it has started none"
        return self._shard

    def _end(self) -> None:
        if self._shard is not None:
            self._shard.close()
        self._shard = None

    def _restart(self, lost: ShardLost) -> None:
        """Start processes until one has done what was asked before; send it the order that has no report yet."""
        while True:
            self._attempts += 1
            self._end()
            if self._attempts == ATTEMPTS:
                raise ShardLost(f"{lost}: {ATTEMPTS} of its processes have ended during one order") from lost
            try:
                self._shard = self._start(self._number, self.setup)
                self._repeat()
            except ShardLost as again:
                lost = again
                continue
            self.restarts += 1
            return

    def _repeat(self) -> None:
        if self._pending is None:
            return  # the report of the setup is what is waited for
        self._current.report()
        self._orders.seek(0)
        for before in self._done:
            order = read_order(receive(self._orders))
            self._current.ask(order)
            if _checksum(self._current.report()) != before:
                raise RunError(
                    f"shard {self._number} ({', '.join(self.setup.islands)}) was started again after its process had"
                    f" ended, and its events before {order.end / 1e9:g} s differ from those recorded",
                    hint="code that reads something outside the simulation can cause this: run it in one process,"
                    " and compare with sim replay",
                )
        self._current.ask(self._pending)


def _checksum(report: Report) -> int:
    """Return a checksum of all that a report says, but for the time that it took."""
    return crc32(as_sent(changed(report, cpu_ns=0, reading_ns=0)))
