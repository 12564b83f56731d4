"""Runs that are made again from their record: replay (is it the same?), resume (go on), branch (what if?) (edge)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import attrs

from sim.errors import DivergenceError, RunError, UsageError
from sim.kernel import Duration, to_ns, to_text
from sim.kernel.codec import decode
from sim.kernel.effects import Ticket
from sim.llm import Access
from sim.runner.code import code_hashes
from sim.runner.doubt import Doubts
from sim.runner.host import Session, blocking, run_async, running_on, speed_of
from sim.runner.options import ReplayKeywords, ReplayOptions, RunOptions
from sim.runner.result import ReplayResult, RunResult
from sim.runner.runner import SimulationRunner
from sim.scenario.build import Simulation, build
from sim.scenario.furniture import limits_per_tick
from sim.scenario.live import change, check_live
from sim.scenario.load import loads
from sim.scenario.model_service import change_models, check_models
from sim.store import RunHeader, RunRecorder, create_run
from sim.store.checked import PARTS, CheckedRecorder, Part
from sim.store.files import SCENARIO, remove_run
from sim.store.past import Past
from sim.store.reader import StoredRun, open_run


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


def branch(
    run: str | Path,
    *,
    at: Duration,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    until: Duration | None = None,
    out: str | Path | None = None,
    effects: Mapping[int, str] | None = None,
    models: Sequence[str] = (),
    **options: Unpack[ReplayKeywords],
) -> RunResult:
    """Make a new run whose past is the record of another one, and whose future is live.

    Args:
        run: the folder of the run that it leaves.
        at: the simulated time at which it leaves it; what is due then is future already.
        overrides: `key=value` changes of live parameters; of any, at 0.
        seed: of the draws after `at`.
        until: simulated time at which the branch ends; by default that of the run that it leaves.
        out: the folder for run folders; by default that of the run that it leaves.
        effects: what becomes of effects that were begun before `at` and have no outcome on record; as in `resume`.
        models: language models in place of those before `at`, as in `Access.models`.
        options: see `ReplayOptions`.

    Raises:
        UsageError: if the time lies after the end of the record, or a parameter is structural.
        ScenarioError: if a changed parameter is not valid.
        RunError: as `resume`.
    """
    chosen = ReplayOptions.of(options)
    work = partial(
        _branch, Path(run), to_ns(at), chosen, overrides=tuple(overrides), seed=seed, until=until,
        out=None if out is None else Path(out),
        effects=effects or {}, models=tuple(models),
    )  # fmt: skip
    return blocking(work, chosen.backend)


# -- the three


async def _replay(folder: Path, parts: frozenset[Part], again: ReplayOptions) -> ReplayResult:
    with open_run(folder) as stored:
        _check_still(stored)
        plan = _Plan.of(stored, again, checked=False)
        past = Past(stored)
        keeper = CheckedRecorder(past, plan.pause, parts=parts)
        difference: str | None = None
        result: RunResult | None = None
        try:
            result = await plan.session(again, keeper, past).carry_out()
        except DivergenceError as error:
            difference = str(error)
        info = stored.info
        complete = not past.unfinished
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
            sim_seconds=plan.simulation.world.now,
            wall_seconds=None if result is None else result.wall_seconds,
            backend=running_on(),
            code_changed=plan.changed_code,
        )


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
                hint="put the files back if you have them; --allow-loss goes on from what is left, and asks about each"
                " effect that may have been done and must not be done twice",
            )
        stored.unsafe_lost()  # damage is named before anything is written
    recorder = RunRecorder(folder, again=True, take_over=take_over)
    with recorder, open_run(folder) as stored:
        _check_endpoint(stored, again)
        plan = _Plan.of(stored, again, checked=True)
        doubts = Doubts(stored, effects, undecided=undecided, lost=stored.unsafe_lost())
        past = Past(stored)
        keeper = CheckedRecorder(past, plan.pause, recorder)

        def live(runner: SimulationRunner, doubtful: list[Ticket]) -> bool:
            settled = doubts.settle(runner, doubtful)
            if settled:
                keeper.proceed()
                plan.lose_calls()
            return settled

        await plan.prepare()
        session = plan.session(again, keeper, past, live, folder, stored.info.uid)
        result = await attrs.evolve(session, begun=doubts.attach).carry_out()
        return attrs.evolve(result, doubts=doubts.open)


async def _branch(
    folder: Path,
    at_ns: int,
    again: ReplayOptions,
    *,
    overrides: tuple[str, ...],
    seed: int | None,
    until: Duration | None,
    out: Path | None,
    effects: Mapping[int, str],
    models: tuple[str, ...],
) -> RunResult:
    with open_run(folder) as stored:
        _check_still(stored)
        info = stored.info
        changes = {"set": list(overrides), "seed": seed, **({"model": list(models)} if models else {})}
        origin = {"run": info.id, "at_ns": at_ns, **changes}
        kept = {**info.options, "until": info.options.get("until") if until is None else until}
        kept |= {
            "endpoint": _check_endpoint(stored, again, models),
            **({"model_later": list(models)} if models else {}),
        }
        if at_ns == 0:
            _scenario_text(stored, again)
            kept["model"] = list(models) or kept.get("model", [])
            return await _from_start(stored, again, kept, overrides, seed, out or folder.parent)
        end = _end_of(stored)
        if at_ns > end:
            raise UsageError(f"{folder} is on record up to {to_text(end)}, which is before {to_text(at_ns)}")
        check_live(overrides, to_text(at_ns))
        plan = _Plan.of(stored, again, checked=True, until=until)
        plan.check_branch(folder, at_ns, overrides, models)
        doubts = Doubts(stored, effects, undecided=False, at_ns=at_ns)
        header = RunHeader(
            name=info.name, seed=info.seed, mode=info.mode, backend=running_on(), options=kept, code=plan.code,
            origin=origin,
        )  # fmt: skip
        await plan.prepare()
        new = create_run(out or folder.parent, header, plan.text)
        past = Past(stored, at_ns)
        gone_live = False

        def live(runner: SimulationRunner, doubtful: list[Ticket]) -> bool:
            nonlocal gone_live
            if overrides or seed is not None or models:  # else nothing may show that there was something to do
                runner.host.submit("branch", changes)
            gone_live = doubts.settle(runner, doubtful)
            return gone_live

        with RunRecorder(new) as recorder:
            keeper = CheckedRecorder(past, plan.pause, recorder, copy=True)
            try:
                result = await plan.session(again, keeper, past, live, new, new.name).carry_out()
            finally:
                if not gone_live:  # its past could not be made, or a person decides first: nothing is worth keeping
                    recorder.close()
                    remove_run(new)
            return attrs.evolve(result, run=result.run if gone_live else None, doubts=doubts.open)


async def _from_start(
    stored: StoredRun,
    again: ReplayOptions,
    kept: dict[str, Any],
    overrides: tuple[str, ...],
    seed: int | None,
    out: Path,
) -> RunResult:
    """A branch at 0 has no past: it is a run of the same scenario."""
    info = stored.info
    return await run_async(
        stored.path / SCENARIO,
        progress=again.progress,
        stuck=again.stuck,
        seed=info.seed if seed is None else seed,
        mode="tick" if info.mode == "tick" else "autonomous",
        until=kept["until"],
        clock=kept.get("clock"),
        speed=kept.get("speed"),
        out=out,
        overrides=[*kept["set"], *overrides],
        kinds=again.kinds,
        allow=again.allow,
        access=attrs.evolve(again.access or Access(), models=tuple(kept.get("model", ()))),
        max_wall=again.max_wall,
        on_interrupt=again.on_interrupt,
    )


def models_asked(options: Mapping[str, Any]) -> list[str]:
    """Return the language models that a stored run asks, if they are not its scenario's.

    A branch may have changed them on the way; of those before and after, the ones at an endpoint count.

    Args:
        options: of the run.
    """
    before, later = (tuple(options.get(name) or ()) for name in ("model", "model_later"))
    return list(later if Access(later).outside or not before else before)


def _check_endpoint(stored: StoredRun, again: ReplayOptions, models: Sequence[str] = ()) -> str | None:
    """Refuse to send the prompts of a run to another endpoint than before, unless the operator says so.

    Args:
        stored: the run.
        again: how it is made again.
        models: those that it is to ask from now on.

    Returns:
        The fingerprint of the endpoint.

    Raises:
        UsageError: if the endpoint is not the one on record, or a key is missing.
    """
    options = stored.info.options
    access = attrs.evolve(again.access or Access(), models=tuple(models or models_asked(options)))
    recorded, now = options.get("endpoint"), access.fingerprint
    if now is None:
        return recorded
    if now != recorded and not again.other_endpoint and (recorded is not None or not models):
        which = "OpenAI's own" if any(access.at(name).is_openai for name in access.providers) else "not the same"
        raise UsageError(
            f"{stored.path} was run at another endpoint than the one that is given now, which is {which}: its prompts"
            " would go there, so nothing was sent",
            hint="--base-url URL (or OPENAI_BASE_URL) gives the endpoint of the run, --other-endpoint allows this one",
        )
    access.check_key()
    return now


def _check_still(stored: StoredRun) -> None:
    """Refuse a run that still grows."""
    if stored.info.status == "running":
        raise RunError(f"{stored.path} is being written by another process", hint="wait until that run has ended")


def _end_of(stored: StoredRun) -> int:
    """Return the simulated time up to which a run is on record, in nanoseconds."""
    if stored.info.sim_ns is not None:
        return stored.info.sim_ns
    rows = stored.query("SELECT CAST(data AS BLOB) FROM chunks ORDER BY id DESC LIMIT 1")
    last = int(decode(rows[0][0])[-1][0]) if rows else 0
    ((outside,),) = stored.query(
        "SELECT max(time_ns) FROM (SELECT time_ns FROM arrivals UNION ALL SELECT time_ns FROM effects)"
    )
    return max(last, outside or 0)


# -- what they share


@attrs.frozen
class _Plan:
    """A stored run, ready to be made again."""

    simulation: Simulation
    text: str
    overrides: tuple[str, ...]
    until_ns: int
    mode: Any
    speed: float | None
    access: Access
    code: Mapping[str, str]
    changed_code: tuple[str, ...]

    @classmethod
    def of(cls, stored: StoredRun, again: ReplayOptions, *, checked: bool, until: Duration | None = None) -> "_Plan":
        """Build the simulation of a stored run.

        Args:
            stored: the run.
            again: how it is made again.
            checked: refuse code that has changed.
            until: end there instead.
        """
        info = stored.info
        text = _scenario_text(stored, again)
        options = RunOptions(
            until=info.options.get("until") if until is None else until,
            clock=info.options.get("clock"),
            speed=info.options.get("speed"),
        )
        overrides = tuple(info.options.get("set", ()))
        scenario = loads(text, str(stored.path / SCENARIO), overrides)
        access = attrs.evolve(again.access or Access(), models=tuple(info.options.get("model", ())))
        until_ns = scenario.end_ns if options.until is None else to_ns(options.until)
        simulation = build(
            scenario, seed=info.seed, kinds=again.kinds, allow=again.allow, access=access, until_ns=until_ns
        )
        code = code_hashes(simulation.nursery.classes)
        changed = tuple(name for name in sorted({*code, *info.code}) if code.get(name) != info.code.get(name))
        if changed and checked and not again.allow_change:
            raise RunError(
                f"the code is not the one that {stored.path} was recorded with: {', '.join(changed)} changed",
                hint="--allow-change goes on with it, and checks it against the record",
            )
        return cls(simulation, text, overrides, until_ns, info.mode, speed_of(scenario, options), access, code, changed)

    async def prepare(self) -> None:
        """See that the endpoint of models is there, if there is one."""
        if self.simulation.models is not None:
            await self.simulation.models.prepare()

    def lose_calls(self) -> None:
        """Have model calls billed that were under way when the process ended."""
        models, kernel = self.simulation.models, self.simulation.world.kernel
        if models is not None:
            models.lose(ticket.key for ticket in kernel.effects.in_flight.values() if ticket.effect.kind == "llm")

    def pause(self) -> None:
        """Let the kernel stop at the end of the present instant."""
        self.simulation.world.kernel.pause()

    def session(
        self,
        again: ReplayOptions,
        keeper: CheckedRecorder,
        past: Past,
        live: Callable[[SimulationRunner, list[Ticket]], bool] | None = None,
        folder: Path | None = None,
        uid: str = "",
    ) -> Session:
        """Return what makes the run again, and goes on with `live` as the run `uid` in `folder`."""
        return Session(
            self.simulation, keeper, folder, uid, self.until_ns, self.mode, self.speed, running_on(),
            progress=again.progress, stuck=again.stuck, past=past, live=live, inputs=self._inputs,
            max_wall=again.max_wall, on_interrupt=again.on_interrupt,
        )  # fmt: skip

    def _inputs(self, runner: SimulationRunner) -> None:
        applied = list(self.overrides)

        def leave(data: Mapping[str, Any]) -> None:
            """A branch leaves its origin: from here on parameters, or the seed, are others."""
            if data["set"]:
                applied.extend(data["set"])
                scenario = loads(self.text, SCENARIO, applied)
                change(self.simulation, scenario)
                runner.feed.change(scenario)
                runner.ticks.refreshed = limits_per_tick(scenario)
            if data["seed"] is not None:
                self.simulation.world.kernel.reseed(data["seed"])
            if "model" in data:
                self._change_models(tuple(data["model"]))

        self.simulation.world.on_input("branch", leave)

    def check_branch(self, folder: Path, at_ns: int, overrides: tuple[str, ...], models: tuple[str, ...]) -> None:
        """Refuse a branch that cannot be, before there is a run of it.

        Raises:
            UsageError: if it would end before it begins, or there is no one moment to leave the run at, or the models
                cannot stand in for the scenario's.
            ScenarioError: if a changed parameter is not valid.
        """
        if self.until_ns <= at_ns:
            raise UsageError(f"the branch ends at {to_text(self.until_ns)}, before it begins", hint="give --until")
        loads(self.text, SCENARIO, [*self.overrides, *overrides])
        if self.simulation.service is not None:
            raise UsageError(
                f"{folder} was run with execution.sync, in which agents stand at different times: it has no one moment"
                f" {to_text(at_ns)} to leave it at",
                hint="--at 0 begins anew with other parameters",
            )
        if models:
            self.check_models(models)

    def check_models(self, names: tuple[str, ...]) -> None:
        """Check that these models can stand in for the scenario's.

        Raises:
            UsageError: if not.
        """
        models = self.simulation.scenario.models
        if models is None:
            raise UsageError("the scenario has no language models to replace", hint="add `models: {}` to it")
        check_models(models, attrs.evolve(self.access, models=names))

    def _change_models(self, names: tuple[str, ...]) -> None:
        service, models = self.simulation.models, self.simulation.scenario.models
        assert service is not None, "checked before"
        assert models is not None, "checked before"
        change_models(service, models, attrs.evolve(self.access, models=names))


def _scenario_text(stored: StoredRun, again: ReplayOptions) -> str:
    path = stored.path / SCENARIO
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    if hashlib.sha256(text.encode()).hexdigest() != stored.info.scenario_hash and not again.allow_change:
        raise RunError(
            f"{path} is not the scenario that was run: it was changed",
            hint="--allow-change goes on with it, and checks it against the record",
        )
    return text
