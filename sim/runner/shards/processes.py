"""The processes of shards, and the pipes to them (edge)."""

import os
import subprocess
import sys
from typing import IO, cast

from sim.base.child import variables
from sim.base.errors import RunError
from sim.kernel.codec import Record, as_sent
from sim.runner.shards.protocol import Order, Report, Setup, ShardLost, read_report, receive, send


class ShardProcess:
    """The process of one shard. Ctrl-C reaches the coordinator only.

    Args:
        number: its number, from 1.
        setup: what the shard is made of.

    Attributes:
        number, setup: as given.
    """

    def __init__(self, number: int, setup: Setup) -> None:
        self.number = number
        self.setup = setup
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from sim.runner.shards.shard import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables(os.environ),  # noqa: TID251  # what a process needs to start; nothing of it is an input of the run
            start_new_session=True,
        )
        self._send(setup)

    def ask(self, order: Order) -> None:
        """Send an order; `report` waits for its report.

        Raises:
            ShardLost: if the process has ended.
        """
        self._send(order)

    def report(self) -> Report:
        """Wait for the report of the order that was sent last, or of the setup.

        Raises:
            ShardLost: if the process has ended.
            RunError: if the shard failed.
        """
        body = receive(cast(IO[bytes], self._process.stdout))
        if not body:
            raise self._lost()
        report: Report = read_report(body)
        if report.error:
            raise RunError(report.error, hint=report.hint or None)
        return report

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what was not sent is of no use to a process that has ended

    def _send(self, record: Record) -> None:
        try:
            send(cast(IO[bytes], self._process.stdin), as_sent(record))
        except OSError:
            raise self._lost() from None

    def _lost(self) -> ShardLost:
        code = self._process.wait()
        islands = ", ".join(self.setup.islands)
        return ShardLost(f"shard {self.number} ({islands}) has ended with the exit code {code}")
