"""`resume`: replay the record of a run that ended early, and continue it live (edge)."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Unpack

import attrs

from sim.errors import RunError, UsageError
from sim.kernel.effects import EffectHandle
from sim.runner.in_doubt import InDoubtEffects
from sim.runner.options import ReplayKeywords, ReplayOptions
from sim.runner.rebuild import RebuiltSimulation, check_endpoint
from sim.runner.result import RunResult
from sim.runner.runner import SimulationRunner
from sim.runner.running import blocking
from sim.store import RunRecorder
from sim.store.history import RunHistory
from sim.store.reader import open_run
from sim.store.verifying_recorder import VerifyingRecorder


def resume(
    run: str | Path,
    *,
    effects: Mapping[int, str] | None = None,
    undecided: bool = False,
    take_over: bool = False,
    allow_loss: bool = False,
    **options: Unpack[ReplayKeywords],
) -> RunResult:
    """Go on with a run that was killed, interrupted or failed: make again what is on record, then go on live.

    Args:
        run: the folder of the run.
        effects: what becomes of effects in doubt, by id: `retry`, `done`, `done:JSON` or `failed`. If one is missing,
            nothing is done or changed, and the result lists it in `doubts`.
        undecided: go on although effects are in doubt; their agents stay paused.
        take_over: fence out a process that has the run and hangs.
        allow_loss: go on although the last records are lost; effects that may have been done in the lost part, and must
            not be done twice, are put to a person like those in doubt.
        options: see `ReplayOptions`.

    Raises:
        UsageError: if it has finished, or a decision is not possible.
        RunError: if it cannot be gone on with; DivergenceError if it cannot be made again as it was.
    """
    chosen = ReplayOptions.of(options)
    work = partial(
        _resume, Path(run), chosen, effects=effects or {}, undecided=undecided, take_over=take_over,
        allow_loss=allow_loss,
    )  # fmt: skip
    return blocking(work, chosen.backend)


async def _resume(
    folder: Path,
    again: ReplayOptions,
    *,
    effects: Mapping[int, str],
    undecided: bool,
    take_over: bool,
    allow_loss: bool,
) -> RunResult:
    with open_run(folder, verify=False) as stored:
        if stored.info.status == "finished":
            raise UsageError(
                f"{folder} has finished: there is nothing to go on with", hint="sim branch makes a new run"
            )
        if stored.info.lost is not None and not allow_loss:
            raise RunError(
                stored.info.lost,
                hint="put the files back if you have them; --allow-loss continues from what is left, and asks about"
                " each effect that may have been done and must not be done twice",
            )
        stored.unsafe_lost()  # damage is named before anything is written
    recorder = RunRecorder(folder, resumed=True, take_over=take_over)
    with recorder, open_run(folder) as stored:
        check_endpoint(stored, again)
        rebuilt = RebuiltSimulation.of(stored, again, checked=True)
        doubts = InDoubtEffects(stored, effects, undecided=undecided, lost=stored.unsafe_lost())
        history = RunHistory(stored)
        keeper = VerifyingRecorder(history, rebuilt.pause, recorder)

        def live(runner: SimulationRunner, doubtful: list[EffectHandle]) -> bool:
            settled = doubts.settle(runner, doubtful)
            if settled:
                keeper.proceed()
                rebuilt.lose_calls()
            return settled

        await rebuilt.prepare()
        session = rebuilt.session(again, keeper, history, live, folder, stored.info.uid)
        result = await attrs.evolve(session, begun=doubts.attach).carry_out()
        return attrs.evolve(result, doubts=doubts.open)
