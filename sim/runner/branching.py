"""`branch`: a new run that shares the record of another one up to a time, and continues live (edge)."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from sim.base.errors import UsageError
from sim.kernel import to_text
from sim.kernel.codec import JsonObject, decode
from sim.kernel.effects import EffectHandle
from sim.kernel.levels import level_of
from sim.llm import Access
from sim.record import HashRecorder, RunRecorder, create_run
from sim.record.files import SCENARIO, hashes_of, remove_run
from sim.record.history import RunHistory
from sim.record.reader import StoredRun, open_run, run_folder
from sim.record.verifying_recorder import VerifyingRecorder
from sim.record.zip_archives import archive_of
from sim.runner.edited import branch_time, edits_of
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code
from sim.runner.in_doubt import InDoubtEffects
from sim.runner.options import BranchOptions, HostOptions, RunOptions, taking
from sim.runner.origin import Origin
from sim.runner.rebuild import (
    RecordedSpec,
    check_endpoint,
    check_not_running,
    missing_packages_named,
    recorded_edits,
    scenario_text,
    with_batches,
)
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.running import run_from
from sim.runner.spec import Kept
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
    return await _branch(run_folder(run), options)


branch = in_plain_code(branch_async)


async def _branch(folder: Path, options: BranchOptions) -> RunResult:
    with open_run(folder) as stored:
        check_not_running(stored)
        edits = edits_of(stored, options)
        at_ns = branch_time(stored, options, edits)
        again = with_batches(stored, options)
        kept = _options(stored, again)
        if edits or "edits" in kept:
            kept["edits"] = [*kept.get("edits", ()), *(edit.to_json() for edit in edits)]
        if at_ns == 0:
            scenario_text(stored, again)
            return await _from_start(stored, again, kept)
        if at_ns > (end := end_of(stored)):
            raise UsageError(f"the record of {folder} ends at {to_text(end)}, before {to_text(at_ns)}")
        origin = Origin(
            run=stored.info.id,
            at_ns=at_ns,
            overrides=tuple(options.overrides),
            seed=options.seed,
            models=options.models,
        )
        rebuilt = RecordedSpec.from_record(stored, again, checked=True, until=options.until)
        rebuilt.edit(edits)
        rebuilt.check_branch(folder, at_ns, origin.overrides, origin.models)
        rebuilt.check_batching(origin.overrides, origin.models)
        doubts = InDoubtEffects(stored, options.effects or {}, undecided=False, at_ns=at_ns)
        await rebuilt.prepare()
        return await _continued(stored, rebuilt, again, kept, origin, doubts)


async def _continued(
    stored: StoredRun,
    rebuilt: RecordedSpec,
    again: BranchOptions,
    options: JsonObject,
    origin: Origin,
    doubts: InDoubtEffects,
) -> RunResult:
    """Repeat a run up to the time of a branch, and continue it live, with a record of its own."""
    history = RunHistory(stored, origin.at_ns)
    gone_live = False

    def live(runner: RunController, doubtful: list[EffectHandle]) -> bool:
        nonlocal gone_live
        runner.live.prepare(parse_all(origin.overrides))  # nothing is kept of a branch that is not possible
        if origin.overrides or origin.seed is not None or origin.models:  # else it has the record of its run
            runner.host.submit("branch", origin.to_input())
        gone_live = doubts.settle(runner, doubtful)
        return gone_live

    with _recorder(rebuilt, _place(stored, again), options, origin) as recorder:
        kept = Kept.by(recorder, VerifyingRecorder(history, rebuilt.pause, recorder, copy=True))
        try:
            result = await execute(rebuilt, again, kept, past=history, then=live)
        finally:
            if not gone_live:  # the replay failed, or a person must decide first: keep nothing
                recorder.close()
                if kept.folder is not None:
                    remove_run(kept.folder)
        return attrs.evolve(result, run=result.run if gone_live else None, doubts=doubts.open)


def _recorder(
    rebuilt: RecordedSpec, out: Path | None, options: JsonObject, origin: Origin
) -> AbstractContextManager[HashRecorder | RunRecorder]:
    """Return what records a branch: in a new run folder in `out`; None: nowhere."""
    level = level_of(options)
    if out is None:
        return nullcontext(HashRecorder(level=level))
    files = rebuilt.simulation.scenario.recorded_files()
    header = rebuilt.header({**options, **hashes_of(files)}, origin)
    return RunRecorder(create_run(out, header, rebuilt.text, files), level=level)


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


async def _from_start(stored: StoredRun, again: BranchOptions, kept: Mapping[str, Any]) -> RunResult:
    """Run the scenario again: a branch at time 0 has no history."""
    info = stored.info
    models = again.models or tuple(kept.get("model", ()))
    hosting = part_of(again, HostOptions) | {"access": attrs.evolve(again.access or Access(), models=models)}
    chosen = RunOptions(
        **hosting,
        seed=info.seed if again.seed is None else again.seed,
        mode=info.run_mode,
        until=kept["until"],
        clock=kept.get("clock"),
        speed=kept.get("speed"),
        out=_place(stored, again),
        overrides=[*kept["set"], *again.overrides],
        tags=kept["tags"],
    )
    edits = recorded_edits(stored.path, kept)
    origin = Origin(run=info.id, at_ns=0, seed=again.seed)  # what was set is in the options
    with missing_packages_named(stored):
        return await run_from(stored.path / SCENARIO, chosen, origin, edits=edits)


def _place(stored: StoredRun, again: BranchOptions) -> Path | None:
    """Return the folder in which a branch is written: that of its run, or `runs` if that is in an archive."""
    if not again.record:
        return None
    return again.out or (stored.path.parent if archive_of(stored.path) is None else Path("runs"))


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
