"""`replay`: run a stored run again from its record, and compare the two (edge)."""

from functools import partial
from pathlib import Path
from typing import Unpack

from sim.errors import DivergenceError
from sim.runner.options import ReplayKeywords, ReplayOptions
from sim.runner.rebuild import RebuiltSimulation, check_not_running
from sim.runner.result import ReplayResult, RunResult
from sim.runner.running import blocking, running_on
from sim.store.history import RunHistory
from sim.store.reader import open_run
from sim.store.verifying_recorder import PARTS, Part, VerifyingRecorder


def replay(run: str | Path, *, parts: frozenset[Part] = PARTS, **options: Unpack[ReplayKeywords]) -> ReplayResult:
    """Make a run again with its effects answered from the record, and say whether it is the same.

    Nothing is done outside, and nothing is written. Code that has changed is no hindrance: that is what is checked.

    Args:
        run: the folder of the run.
        parts: what is compared.
        options: see `ReplayOptions`.

    Raises:
        UsageError, RunError: if the run cannot be read, or what it needs is not there.
    """
    chosen = ReplayOptions.of(options)
    return blocking(partial(_replay, Path(run), parts, chosen), chosen.backend)


async def _replay(folder: Path, parts: frozenset[Part], again: ReplayOptions) -> ReplayResult:
    with open_run(folder) as stored:
        check_not_running(stored)
        rebuilt = RebuiltSimulation.of(stored, again, checked=False)
        history = RunHistory(stored)
        keeper = VerifyingRecorder(history, rebuilt.pause, parts=parts)
        difference: str | None = None
        result: RunResult | None = None
        try:
            result = await rebuilt.session(again, keeper, history).carry_out()
        except DivergenceError as error:
            difference = str(error)
        info = stored.info
        complete = not history.unfinished
        same_hash = result is not None and (not complete or result.hash == info.hash or parts != PARTS)
        if difference is None and not same_hash:
            difference = "the hash of the run is not the one on record"
        return ReplayResult(
            run=str(folder),
            same=difference is None,
            difference=difference,
            complete=complete,
            events=keeper.compared if difference is not None else keeper.events,
            hash=None if result is None else result.hash,
            recorded_hash=info.hash,
            sim_seconds=rebuilt.simulation.world.now,
            wall_seconds=None if result is None else result.wall_seconds,
            backend=running_on(),
            code_changed=rebuilt.changed_code,
        )
