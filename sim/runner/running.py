"""From a scenario file to a result, in plain code or inside a running event loop."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs

from sim.base.distributions import installed_version
from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.record import HashRecorder, RunRecorder, create_run
from sim.record.files import hashes_of
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code
from sim.runner.options import RunOptions, taking
from sim.runner.origin import Origin
from sim.runner.result import RunResult
from sim.runner.spec import Kept, Spec
from sim.scenario import Scenario, load
from sim.scenario.packaged import find_scenario
from sim.tools.rights import Kinds
from sim.world.edits import Edit

Load = Callable[[Path, Sequence[str], Sequence[str], Kinds | None], Scenario]

Chosen = TypeVar("Chosen", bound=RunOptions)

Source = Scenario | Mapping[str, Any] | str | os.PathLike[str]
"""What a run is of: a scenario, a mapping, the path of a file, or PACKAGE:NAME of one of a package."""


@taking(RunOptions)
@in_definitions
async def run_async(scenario: Source, options: RunOptions) -> RunResult:
    """Run a scenario and return the result.

    Works in plain code and, in a new thread, where an event loop is already running (a notebook).

    Args:
        scenario: a scenario, the path of a scenario file, a mapping with the keys of such a file, or PACKAGE:NAME of
            one of an installed package.
        options: see `RunOptions`.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong.
        RunError: if the run fails.
        KeyboardInterrupt, SystemExit: after Ctrl-C or SIGTERM, once the record is closed; see `on_interrupt`.
    """
    return await run_from(scenario, options)


@in_definitions
async def run_from(
    scenario: Source,
    options: RunOptions,
    origin: Origin | None = None,
    load: Load = load,
    *,
    edits: Sequence[Edit] = (),
) -> RunResult:
    """As `run_async`.

    Args:
        scenario, options: as those of `run`.
        origin: the run from which a branch at time 0 comes, for the record.
        load: what loads a scenario file with overrides; a program that runs one many times need not read it each time.
        edits: the events of the run of origin that are left out or replaced.
    """
    checked, text, chosen = read_scenario(scenario, options, load)
    level = chosen.recording or (None if "level" in checked.recording.model_fields_set else chosen.default_recording)
    if level is not None:  # as an override, so that a replay finds it
        checked = checked.recorded_at(level)
        chosen = attrs.evolve(chosen, overrides=(*chosen.overrides, f"recording.level={level}"))
    spec = Spec.of(checked, text, chosen)
    spec.edit(edits)
    await spec.prepare()
    return await execute(spec, chosen, kept_by(spec, chosen, origin, edits))


run = in_plain_code(run_async)


def read_scenario(scenario: Source, options: Chosen, load: Load = load) -> tuple[Scenario, str | None, Chosen]:
    """Return a checked scenario, its text if it can be recorded, and the options with what its package needs.

    Raises:
        ScenarioError: if it is not valid.
        UsageError: if overrides are given for a scenario that has been loaded.
    """
    if isinstance(scenario, Mapping):
        checked = Scenario.from_dict(scenario, options.overrides, options.allow, options.kinds)
        return checked, checked.source.text, options
    if isinstance(scenario, Scenario):
        if options.overrides:
            raise UsageError("overrides change a scenario file, and this is a scenario that has been loaded")
        source = scenario.source
        as_written = source is not None and source.from_program and not source.overrides
        return scenario, source.text if as_written else None, options
    path, allow = find_scenario(scenario, options.allow)
    checked = load(path, options.overrides, allow, options.kinds)
    text = checked.source.text.replace("\r\n", "\n").replace("\r", "\n")  # as it is read from the record later
    return checked, text, attrs.evolve(options, allow=allow)


def kept_by(spec: Spec, options: RunOptions, origin: Origin | None, edits: Sequence[Edit]) -> Kept:
    """Create the run folder of a new run, if there is to be one.

    Raises:
        UsageError: if the text of its scenario is not known.
    """
    scenario = spec.simulation.scenario
    level = scenario.recording.level
    if options.out is None:
        return Kept.by(HashRecorder(level=level))
    if spec.text is None:
        hint = "give the path of its file, or a mapping"
        raise UsageError("a recorded run needs the text of its scenario, and not a Scenario object", hint=hint)
    files, access = scenario.recorded_files(), options.access
    packages = _named_packages(scenario, options)
    chosen: Keywords = {
        "until": options.until,
        "clock": options.clock,
        "speed": options.speed,
        "set": list(options.overrides),
        "allow": list(options.allow),
        "model": list(access.models) if access else [],
        "endpoint": access.fingerprint if access else None,
        **({"edits": [edit.to_json() for edit in edits]} if edits else {}),
        **({"batch": True} if access and access.batching else {}),
        "tags": list(options.tags),
        **({"expected": dict(options.expected)} if options.expected else {}),
        **({} if level == "all" else {"recording": level}),
        **hashes_of(files),
        **({"packages": packages} if packages else {}),
    }
    folder = create_run(options.out, spec.header(chosen, origin), spec.text, files)
    return Kept.by(RunRecorder(folder, level=level))


def _named_packages(scenario: Scenario, options: RunOptions) -> dict[str, str]:
    """Return the versions, by name, of the packages that the operator allowed or that the graph of places comes from.

    The run can be continued without them: what it needs of them is recorded, or is the code of agents.
    """
    graph = scenario.places.graph if scenario.places is not None and scenario.places.loaded is not None else None
    names = (*options.allow, *([] if graph is None else [graph.partition(":")[0]]))
    return {name: version for name in names if (version := installed_version(name)) is not None}
