"""Rebuilds the simulation of a stored run from its scenario: what `replay`, `resume` and `branch` share."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import attrs

from sim.base.errors import RunError, UsageError
from sim.kernel import Duration, to_ns, to_text
from sim.kernel.codec import JsonObject
from sim.llm import Access, Batching
from sim.llm.batches.settings import uses_batches
from sim.record.files import REFERRED, SCENARIO
from sim.record.reader import StoredRun
from sim.runner.fingerprint import code_hashes, other_packages
from sim.runner.options import ReplayOptions, RunOptions
from sim.runner.origin import BranchChange
from sim.runner.runner import RunController
from sim.runner.spec import Spec, speed_of
from sim.scenario.assembly.build import build
from sim.scenario.assembly.live_parameters import LiveParameters
from sim.scenario.loading import loads, with_changes
from sim.scenario.overrides import parse_all
from sim.world.edits import Edit


@attrs.frozen(kw_only=True)
class RecordedSpec(Spec):
    """What a stored run was: its simulation, built again from its record.

    Attributes:
        text: the text of its scenario.
        access: how its models are reached.
        changed_code: the modules and packages that are not what they were when it was recorded.
    """

    text: str
    access: Access
    changed_code: tuple[str, ...]

    @classmethod
    def from_record(
        cls, stored: StoredRun, again: ReplayOptions, *, checked: bool, until: Duration | None = None
    ) -> Self:
        """Build the simulation of a stored run.

        Args:
            stored: the run.
            again: the options of the replay.
            checked: whether to refuse changed code.
            until: the simulated end, if not the recorded one.
        """
        info = stored.info
        text = scenario_text(stored, again)
        options = RunOptions(
            until=info.options.get("until") if until is None else until,
            clock=info.options.get("clock"),
            speed=info.options.get("speed"),
        )
        with missing_packages_named(stored):
            scenario = loads(text, str(stored.path / SCENARIO), info.options.get("set", ()), again.allow, again.kinds)
            access = attrs.evolve(
                again.access or Access(),
                models=tuple(info.options.get("model", ())),
                edge_workers=again.edge_processes,
                ray=again.ray,
            )
            until_ns = scenario.end_ns if options.until is None else to_ns(options.until)
            simulation = build(
                scenario,
                seed=info.seed,
                rights=again,
                access=access,
                until_ns=until_ns,
            )
        hashes = code_hashes(simulation.code)
        changed = _changed_code(stored, hashes, refuse=checked and not again.allow_change)
        spec = cls(
            simulation=simulation,
            text=text,
            until_ns=until_ns,
            mode=info.run_mode,
            speed=speed_of(scenario, options),
            access=access,
            changed_code=changed,
            hashes=hashes,
        )
        spec.edit(recorded_edits(stored.path, info.options))
        return spec

    def check_batching(self, overrides: Sequence[str] = (), models: Sequence[str] = ()) -> None:
        """Check that calls can be answered in batches from now on, if the operator has asked for it.

        Args:
            overrides: changes of the scenario by a branch.
            models: the models from now on, if a branch changes them.

        Raises:
            UsageError: if not.
        """
        scenario = with_changes(self.simulation.scenario, overrides)
        if scenario.models is not None:
            access = attrs.evolve(self.access, models=tuple(models)) if models else self.access
            from sim.scenario.assembly.models import check_batching  # the import is slow

            check_batching(scenario.models, access, self.speed)

    def lose_calls(self) -> None:
        """Bill the model calls that were in flight when the process ended."""
        models, kernel = self.simulation.models, self.simulation.world.kernel
        if models is not None:
            models.lose(handle.key for handle in kernel.effects.in_flight.values() if handle.effect.kind == "llm")

    def pause(self) -> None:
        """Make the kernel stop at the end of the current instant."""
        self.simulation.world.kernel.pause()

    def attach(self, runner: RunController) -> None:
        """Register the input with which a branch leaves its past."""

        def leave(data: JsonObject) -> None:
            """Change parameters, seed or models: from here on the branch differs from its original run."""
            change = BranchChange.from_input(data)
            if change.overrides:
                runner.live.change(parse_all(change.overrides))
            if change.seed is not None:
                self.simulation.world.kernel.reseed(change.seed)
            if change.models:
                self.change_models_to(change.models)

        self.simulation.world.on_input("branch", leave)

    def check_branch(self, folder: Path, at_ns: int, overrides: tuple[str, ...], models: tuple[str, ...]) -> None:
        """Refuse an impossible branch before its run is created.

        Raises:
            UsageError: if it would end before it begins, if the run has no single moment to branch at, or if the models
                cannot replace the scenario's.
            ScenarioError: if a changed parameter is not valid.
        """
        if self.until_ns <= at_ns:
            raise UsageError(f"the branch ends at {to_text(self.until_ns)}, before it begins", hint="give --until")
        LiveParameters(self.simulation).check(parse_all(overrides), f"at {to_text(at_ns)}", now=False)
        self.check_moment(folder, at_ns, "--at 0 runs the scenario again with other parameters")
        if models:
            self.check_models(models)

    def check_moment(self, folder: Path, at_ns: int, hint: str | None = None) -> None:
        """Refuse a run whose agents are at different times.

        Raises:
            UsageError: if they are.
        """
        if self.simulation.service is not None:
            raise UsageError(
                f"{folder} was run with execution.sync: its agents are at different times, so there is no single moment"
                f" {to_text(at_ns)}",
                hint=hint,
            )

    def check_models(self, names: tuple[str, ...]) -> None:
        """Check that these models can replace the scenario's.

        Raises:
            UsageError: if not.
        """
        models = self.simulation.scenario.models
        if models is None:
            raise UsageError("the scenario has no language models to replace", hint="add `models: {}` to it")
        from sim.scenario.assembly.models import check_latency, check_models  # the import is slow

        access = attrs.evolve(self.access, models=names)
        check_models(models, access)
        check_latency(self.simulation.scenario, outside=access.outside)

    def change_models_to(self, names: tuple[str, ...]) -> None:
        """Replace the language models of the running world."""
        service, models = self.simulation.models, self.simulation.scenario.models
        assert service is not None, "checked before"
        assert models is not None, "checked before"
        from sim.scenario.assembly.models import change_models  # the import is slow

        change_models(service, models, attrs.evolve(self.access, models=names))


@contextmanager
def missing_packages_named(stored: StoredRun) -> Iterator[None]:
    """Name a package that a run needs and that is not installed, instead of an error that follows from it.

    Raises:
        UsageError: if one is missing and something fails in the block.
    """
    try:
        yield
    except UsageError as error:
        missing = next((one for one in other_packages(stored.info.versions) if one.installed is None), None)
        if missing is None:
            raise
        raise UsageError(f"{stored.path} needs a package: {missing}", hint=missing.hint) from error


def _changed_code(stored: StoredRun, code: Mapping[str, str], *, refuse: bool) -> tuple[str, ...]:
    """Return the modules, and the packages, that are not what they were when a run was recorded.

    Raises:
        RunError: if there are any, and they are refused.
    """
    before, others = stored.info.code, other_packages(stored.info.versions)
    changed = [name for name in sorted({*code, *before}) if code.get(name) != before.get(name)]
    changed += map(str, others)
    if changed and refuse:
        accept = "--allow-change accepts the change and verifies the replay against the record"
        hints = [one.hint for one in others if one.hint is not None]
        raise RunError(
            f"the code has changed since {stored.path} was recorded: {', '.join(changed)}",
            hint=f"{hints[0]}; or {accept}" if hints else accept,
        )
    return tuple(changed)


def models_asked(options: Mapping[str, Any]) -> list[str]:
    """Return the language models of a stored run, if the operator chose them.

    A branch may have changed them; of the models before and after, those at an endpoint are returned.

    Args:
        options: the options of the run.
    """
    before, later = (tuple(options.get(name) or ()) for name in ("model", "model_later"))
    return list(later if Access(later).outside or not before else before)


def check_endpoint(stored: StoredRun, again: ReplayOptions, models: Sequence[str] = ()) -> str | None:
    """Refuse to send the prompts of a run to another endpoint than before, unless the operator allows it.

    Args:
        stored: the run.
        again: the options of the replay.
        models: the models that the run will ask from now on.

    Returns:
        The fingerprint of the endpoint.

    Raises:
        UsageError: if the endpoint is not the one on record, a key is missing, or there are to be worker processes
            and no endpoint.
    """
    options = stored.info.options
    access = attrs.evolve(again.access or Access(), models=tuple(models or models_asked(options)))
    again.check_workers(access)
    recorded, now = options.get("endpoint"), access.fingerprint
    if now is None:
        return recorded
    if now != recorded and not again.other_endpoint and (recorded is not None or not models):
        which = "OpenAI's own" if any(access.at(name).is_openai for name in access.providers) else "not the same"
        raise UsageError(
            f"{stored.path} was run at another endpoint than the one given now, which is {which}; nothing was sent,"
            " because its prompts would go there",
            hint="--base-url URL (or OPENAI_BASE_URL) gives the endpoint of the run, --other-endpoint allows this one",
        )
    access.check_key()
    return now


Again = TypeVar("Again", bound=ReplayOptions)


def with_batches(stored: StoredRun, again: Again) -> Again:
    """Return the options with batches as the run on record has them, unless the operator decides otherwise."""
    access = again.access or Access()
    if access.batching is None and uses_batches(stored.path, stored.info.options):
        access = attrs.evolve(access, batching=Batching())
    return attrs.evolve(again, access=access)


def recorded_edits(folder: Path, options: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the events that a run on record leaves out or replaces.

    Raises:
        RunError: if its options do not have them in the form in which they are recorded.
    """
    try:
        return tuple(Edit.from_json(edit) for edit in options.get("edits", ()))
    except (TypeError, ValueError) as error:
        raise RunError(f"{folder}: the record of what is left out or replaced is malformed: {error}") from error


def check_not_running(stored: StoredRun) -> None:
    """Refuse a run that is still being recorded.

    Raises:
        RunError: if it is.
    """
    if stored.info.status == "running":
        raise RunError(f"{stored.path} is being written by another process", hint="wait until that run has ended")


def is_recorded_text(stored: StoredRun, text: str) -> bool:
    """Return whether a text is the scenario with which a run was recorded."""
    return hashlib.sha256(text.encode()).hexdigest() == stored.info.scenario_hash


def scenario_text(stored: StoredRun, again: ReplayOptions) -> str:
    """Return the text of the scenario of a stored run.

    Raises:
        RunError: if it cannot be read, or was edited since and the options do not allow that; or if a
            file that it refers to is missing or was changed.
    """
    path = stored.path / SCENARIO
    for problem in filter(None, map(stored.referred_problem, REFERRED)):
        raise RunError(problem, hint="use a complete copy of the run")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    if not is_recorded_text(stored, text) and not again.allow_change:
        raise RunError(
            f"{path} was changed after the run",
            hint="--allow-change accepts the change and verifies the replay against the record",
        )
    return text
