"""`resume`: replay the record of a run that ended early, and continue it live (edge)."""

from os import PathLike
from pathlib import Path

import attrs

from sim.base.errors import RunError, UsageError
from sim.kernel.effects import EffectHandle
from sim.kernel.levels import level_of
from sim.record import RunRecorder
from sim.record.history import RunHistory
from sim.record.reader import open_run, run_folder
from sim.record.verifying_recorder import VerifyingRecorder
from sim.record.zip_archives import check_not_archived
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code
from sim.runner.in_doubt import InDoubtEffects
from sim.runner.options import ResumeOptions, taking
from sim.runner.rebuild import RecordedSpec, check_endpoint, with_batches
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.spec import Kept


@taking(ResumeOptions)
@in_definitions
async def resume_async(run: str | PathLike[str], options: ResumeOptions) -> RunResult:
    """Continue a run that was killed, interrupted or failed: replay and verify its record, then continue live.

    Args:
        run: the run: its folder, or its name in the folder `runs`.
        options: see `ResumeOptions`.

    Raises:
        UsageError: if the run has finished, or a decision is not valid.
        RunError: if the run cannot be continued; DivergenceError if the replay differs from the record.
    """
    folder = run_folder(run)
    check_not_archived(folder, "a run that is resumed is written to its folder")
    return await _resume(folder, options)


resume = in_plain_code(resume_async)


async def _resume(folder: Path, options: ResumeOptions) -> RunResult:
    with open_run(folder, verify=False) as stored:
        if stored.info.status == "finished":
            raise UsageError(
                f"{folder} has finished: there is nothing to continue", hint="sim branch makes a new run from it"
            )
        if stored.info.lost is not None and not options.allow_loss:
            raise RunError(
                stored.info.lost,
                hint="restore the files if you have them; --allow-loss continues from what is left, and asks about"
                " each unsafe effect that may have been executed",
            )
        stored.unsafe_lost()  # report damage before anything is written
        stored.check(lost=False)
        level = level_of(stored.info.options)
    recorder = RunRecorder(folder, resumed=True, take_over=options.take_over, level=level)
    with recorder, open_run(folder) as stored:
        again = with_batches(stored, options)
        check_endpoint(stored, again)
        rebuilt = RecordedSpec.from_record(stored, again, checked=True)
        if rebuilt.simulation.models is not None:
            rebuilt.simulation.models.expected = stored.info.options.get("expected", {})
        rebuilt.check_batching()
        doubts = InDoubtEffects(stored, options.effects or {}, undecided=options.undecided, lost=stored.unsafe_lost())
        history = RunHistory(stored)
        keeper = VerifyingRecorder(history, rebuilt.pause, recorder)

        def live(runner: RunController, doubtful: list[EffectHandle]) -> bool:
            settled = doubts.settle(runner, doubtful)
            if settled:
                keeper.proceed()
                rebuilt.lose_calls()
            return settled

        def begun(runner: RunController) -> None:
            doubts.attach(runner)
            if again.begun is not None:
                again.begun(runner)

        await rebuilt.prepare()
        hosting, kept = attrs.evolve(again, begun=begun), Kept.by(recorder, keeper, stored.info.uid)
        result = await execute(rebuilt, hosting, kept, past=history, then=live)
        return attrs.evolve(result, doubts=doubts.open)
