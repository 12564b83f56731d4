"""`replay`: run a stored run again and compare it with its record (edge)."""

from os import PathLike

from sim.base.errors import DivergenceError
from sim.kernel.levels import level_of
from sim.record.history import RunHistory
from sim.record.reader import open_run, run_folder
from sim.record.verifying_recorder import PARTS, VerifyingRecorder
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code, running_on
from sim.runner.options import VerifyOptions, taking
from sim.runner.rebuild import RecordedSpec, check_not_running
from sim.runner.result import ReplayResult, RunResult
from sim.runner.spec import Kept


@taking(VerifyOptions)
@in_definitions
async def replay_async(run: str | PathLike[str], options: VerifyOptions) -> ReplayResult:
    """Run a run again, with effects answered from the record, and report whether it is the same.

    No effect is executed, and nothing is written. Changed code is accepted: the replay shows whether the change
    matters.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        options: see `VerifyOptions`.

    Raises:
        UsageError, RunError: if the run cannot be read, or something that it needs is missing.
    """
    folder, parts = run_folder(run), options.parts
    with open_run(folder) as stored:
        check_not_running(stored)
        rebuilt = RecordedSpec.from_record(stored, options, checked=False)
        history = RunHistory(stored)
        keeper = VerifyingRecorder(history, rebuilt.pause, parts=parts)
        difference: str | None = None
        cause: str | None = None
        result: RunResult | None = None
        try:
            result = await execute(rebuilt, options, Kept(keeper), past=history)
        except DivergenceError as error:
            difference, cause = str(error), error.hint
        info = stored.info
        complete = not history.unfinished
        same_hash = result is not None and (not complete or result.hash == info.hash or parts != PARTS)
        if difference is None and not same_hash:
            difference = "the hash of the run differs from the recorded one"
        return ReplayResult(
            run=str(folder),
            same=difference is None,
            difference=difference,
            cause=cause,
            complete=complete,
            events=keeper.compared if difference is not None else keeper.events,
            hash=None if result is None else result.hash,
            recorded_hash=info.hash,
            sim_seconds=rebuilt.simulation.world.now,
            wall_seconds=None if result is None else result.wall_seconds,
            backend=running_on(),
            code_changed=rebuilt.changed_code,
            recording=level_of(info.options),
        )


replay = in_plain_code(replay_async)
