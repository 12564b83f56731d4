"""A replay that is kept in a process of its own: several questions about a run need one pass through it (edge)."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from sim.kernel.duration import MAX_NS
from sim.record.reader import open_run
from sim.runner.moments import RATE, ReplayCost, cost_of
from sim.runner.options import ReplayOptions
from sim.runner.replay_process import FORKS, ReplayProcess
from sim.runner.walk import Walk


class KeptReplay:
    """A session of questions about one run. Close it, or use it as a context manager.

    Args:
        run: the folder of the run, which has ended.
        options: see `ReplayOptions`.
        serve: what the process does; see `ReplayProcess`.
        rate: how many events the replay repeats in a second.
    """

    def __init__(
        self, run: Path, options: ReplayOptions, serve: Callable[[int, int], object], *, rate: int = RATE
    ) -> None:
        self._run = run
        self._options = options
        self._rate = rate
        self._session = ReplayProcess(serve)

    def begin(self) -> None:
        """Make the process of the session, which waits for questions: best before this program has threads."""
        self._session.begin()

    def cost(self) -> ReplayCost:
        """Return what a pass through the whole run costs, before it is made.

        Raises:
            UsageError, RunError: as `Run.at`.
        """
        if FORKS:
            cost = self._session.ask({"cost": True})
            return ReplayCost(**{**cost, "changed": tuple(cost["changed"])})
        with open_run(self._run, verify=False) as stored, Walk(stored, self._options) as walk:
            return cost_of(walk, MAX_NS, self._rate)

    def close(self) -> None:
        """End the process, and those that it has made."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
