"""`branch`: a new run that shares the record of another one up to a time, and continues live (edge)."""

from collections.abc import Mapping
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.kernel import to_ns, to_text
from sim.kernel.codec import decode
from sim.kernel.effects import EffectHandle
from sim.kernel.levels import level_of
from sim.llm import Access
from sim.record import HashRecorder, RunHeader, RunRecorder, create_run
from sim.record.archive import archive_of
from sim.record.files import SCENARIO, hashes_of, remove_run, versions
from sim.record.history import RunHistory
from sim.record.reader import RunInfo, StoredRun, open_run, run_folder
from sim.record.verifying_recorder import VerifyingRecorder
from sim.runner.event_loop import in_definitions, in_plain_code, running_on
from sim.runner.fingerprint import package_versions
from sim.runner.in_doubt import InDoubtEffects
from sim.runner.options import BranchOptions, HostOptions, RunOptions, taking
from sim.runner.rebuild import (
    RebuiltSimulation,
    check_endpoint,
    check_not_running,
    missing_packages_named,
    scenario_text,
    with_batches,
)
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.running import run_from
from sim.scenario.overrides import parse_all
from sim.tools.rights import part_of


@taking(BranchOptions)
@in_definitions
async def branch_async(run: str | PathLike[str], options: BranchOptions) -> RunResult:
    """Create a new run that copies the record of another run up to a time and then continues live.

    Args:
        run: the original run: its folder, or its name in the folder `runs`.
        options: see `BranchOptions`.

    Raises:
        UsageError: if the time is after the end of the record, or a parameter cannot change during a run.
        ScenarioError: if a changed parameter is not valid.
        RunError: as `resume`.
    """
    return await _branch(run_folder(run), to_ns(options.at), options)


branch = in_plain_code(branch_async)


async def _branch(folder: Path, at_ns: int, options: BranchOptions) -> RunResult:
    overrides, seed, models = tuple(options.overrides), options.seed, options.models
    with open_run(folder) as stored:
        check_not_running(stored)
        info, again = stored.info, with_batches(stored, options)
        changes = {"set": list(overrides), "seed": seed, **({"model": list(models)} if models else {})}
        origin = {"run": info.id, "at_ns": at_ns, **changes}
        kept = _options(stored, again)
        out = (options.out or _runs_beside(folder)) if options.record else None
        if at_ns == 0:
            scenario_text(stored, again)
            kept["model"] = list(models) or kept.get("model", [])
            return await _from_start(stored, again, kept, out)
        end = end_of(stored)
        if at_ns > end:
            raise UsageError(f"the record of {folder} ends at {to_text(end)}, before {to_text(at_ns)}")
        rebuilt = RebuiltSimulation.of(stored, again, checked=True, until=options.until)
        rebuilt.check_branch(folder, at_ns, overrides, models)
        rebuilt.check_batching(overrides, models)
        doubts = InDoubtEffects(stored, options.effects or {}, undecided=False, at_ns=at_ns)
        given = rebuilt.simulation.scenario.recorded_files()
        kept |= hashes_of(given)
        header = _header(info, rebuilt, kept, origin)
        await rebuilt.prepare()
        new = None if out is None else create_run(out, header, rebuilt.text, given)
        history = RunHistory(stored, at_ns)
        gone_live = False

        def live(runner: RunController, doubtful: list[EffectHandle]) -> bool:
            nonlocal gone_live
            runner.live.prepare(parse_all(overrides))  # nothing is kept of a branch that is not possible
            if overrides or seed is not None or models:  # else the branch must have the record of the original run
                runner.host.submit("branch", changes)
            gone_live = doubts.settle(runner, doubtful)
            return gone_live

        level = level_of(kept)
        with nullcontext(HashRecorder(level=level)) if new is None else RunRecorder(new, level=level) as recorder:
            keeper = VerifyingRecorder(history, rebuilt.pause, recorder, copy=True)
            name, epoch = ("", None) if isinstance(recorder, HashRecorder) else (recorder.folder.name, recorder.epoch)
            session = rebuilt.session(again, keeper, history, live, folder=new, uid=name, epoch=epoch)
            try:
                result = await session.carry_out()
            finally:
                if not gone_live:  # the replay failed, or a person must decide first: keep nothing
                    recorder.close()
                    if new is not None:
                        remove_run(new)
            return attrs.evolve(result, run=result.run if gone_live else None, doubts=doubts.open)


def _options(stored: StoredRun, again: BranchOptions) -> dict[str, Any]:
    """Return the options of a branch: those of its run, but for what is changed."""
    options = stored.info.options
    kept = {
        **options,
        "until": options.get("until") if again.until is None else again.until,
        "endpoint": check_endpoint(stored, again, again.models),
        "tags": list(again.tags),
        **({"model_later": list(again.models)} if again.models else {}),
    }
    kept.pop("batch", None)
    if again.access is not None and again.access.batching:
        kept["batch"] = True
    return kept


def _header(
    info: RunInfo, rebuilt: RebuiltSimulation, options: Mapping[str, Any], origin: Mapping[str, Any]
) -> RunHeader:
    return RunHeader(
        name=info.name, seed=info.seed, mode=info.mode, backend=running_on(), options=options, code=rebuilt.code,
        origin=origin, versions={**package_versions(rebuilt.simulation.code), **versions()},
    )  # fmt: skip


async def _from_start(stored: StoredRun, again: BranchOptions, kept: Mapping[str, Any], out: Path | None) -> RunResult:
    """Run the scenario again: a branch at time 0 has no history."""
    info = stored.info
    shared = part_of(again, HostOptions) | {
        "access": attrs.evolve(again.access or Access(), models=tuple(kept.get("model", ())))
    }
    chosen = RunOptions(
        **shared,
        seed=info.seed if again.seed is None else again.seed,
        mode="tick" if info.mode == "tick" else "autonomous",
        until=kept["until"],
        clock=kept.get("clock"),
        speed=kept.get("speed"),
        out=out,
        overrides=[*kept["set"], *again.overrides],
        tags=kept["tags"],
    )
    origin = {"run": info.id, "at_ns": 0, "set": [], "seed": again.seed}  # what was set is in the options
    with missing_packages_named(stored):
        return await run_from(stored.path / SCENARIO, chosen, origin)


def _runs_beside(folder: Path) -> Path:
    """Return the folder in which a branch of a run is written: that of the run, or `runs` if it is in an archive."""
    return folder.parent if archive_of(folder) is None else Path("runs")


def end_of(stored: StoredRun) -> int:
    """Return the simulated time of the last record of a run, in nanoseconds."""
    if stored.info.sim_ns is not None:
        return stored.info.sim_ns
    rows = stored.query("SELECT CAST(data AS BLOB) FROM chunks ORDER BY id DESC LIMIT 1")
    last = int(decode(rows[0][0])[-1][0]) if rows else 0
    ((outside,),) = stored.query(
        "SELECT max(time_ns) FROM (SELECT time_ns FROM arrivals UNION ALL SELECT time_ns FROM effects)"
    )
    return max(last, outside or 0)
