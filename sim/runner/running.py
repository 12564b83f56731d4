"""From a scenario file to a result, in plain code or inside a running event loop (edge)."""

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NoReturn, Unpack

import anyio
import attrs

from sim.agents.latest_events import listening
from sim.base.distributions import installed_version
from sim.base.errors import RunError, SimError, UsageError
from sim.host.pacing import check_speed
from sim.host.watchdog import Stuck, Watchdog
from sim.kernel import Duration, to_ns, to_seconds, to_text
from sim.kernel.effects import EffectHandle
from sim.kernel.ports import History
from sim.record import HashRecorder, RunHeader, RunRecorder, create_run
from sim.record.files import hashes_of, versions
from sim.runner.event_loop import RunThread, in_definitions, in_plain_code, running_on
from sim.runner.fingerprint import code_hashes, package_versions
from sim.runner.inbox import InboxReader
from sim.runner.levels import at_level, skip_early
from sim.runner.options import Backend, OnInterrupt, RunKeywords, RunOptions, Watcher
from sim.runner.progress import shown
from sim.runner.result import RunResult
from sim.runner.runner import Mode, RunController, RunSink, check_rounds
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import Simulation, build
from sim.scenario.packaged import find_scenario
from sim.tools import Tools
from sim.tools.rights import Kinds

Load = Callable[[Path, Sequence[str], Sequence[str], Kinds | None], Scenario]

_ENDINGS = (signal.SIGINT, signal.SIGTERM)
"""Signals that suspend a run."""

PATIENT = (50_000, 20, 20)
"""Thresholds of the garbage collector during a run; the default is (700, 10, 10)."""

_GRACE = 5.0
"""Real seconds that the current step has to end after the first signal."""


@in_definitions
async def run_async(
    scenario: Scenario | Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[RunKeywords]
) -> RunResult:
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
    return await run_from(scenario, RunOptions.of(options))


@in_definitions
async def run_from(
    scenario: Scenario | Mapping[str, Any] | str | os.PathLike[str],
    options: RunOptions,
    origin: Mapping[str, Any] | None = None,
    load: Load = load,
) -> RunResult:
    """As `run_async`.

    Args:
        scenario, options: as those of `run`.
        origin: the run from which a branch at time 0 comes, for the record.
        load: what loads a scenario file with overrides; a program that runs one many times need not read it each time.
    """
    chosen = attrs.evolve(options, backend=running_on())
    if isinstance(scenario, Scenario) and chosen.overrides:
        raise UsageError("overrides change a scenario file, and this is a scenario that has been loaded")
    path: Path | None = None
    text: str | None = None
    if isinstance(scenario, Mapping):
        checked = Scenario.from_dict(scenario, chosen.overrides, chosen.allow, chosen.kinds)
        text = checked.source.text
    elif isinstance(scenario, Scenario):
        checked = scenario
        if scenario.source is not None and scenario.source.given and not scenario.source.overrides:
            text = scenario.source.text
    else:
        path, allow = find_scenario(scenario, chosen.allow)
        chosen = attrs.evolve(chosen, allow=allow)
        checked = load(path, chosen.overrides, allow, chosen.kinds)
    level = chosen.recording or (None if "recording" in checked.model_fields_set else chosen.default_recording)
    if level is not None:  # as an override, so that a replay finds it
        checked = checked.recorded_at(level)
        chosen = attrs.evolve(chosen, overrides=(*chosen.overrides, f"recording.level={level}"))
    until_ns = checked.end_ns if chosen.until is None else to_ns(chosen.until)
    if until_ns == 0:
        raise UsageError("a run must last longer than 0 s")
    autonomous = checked.execution.use_autonomous_loops
    mode: Mode = chosen.mode or ("autonomous" if autonomous else "tick")
    seed = checked.seed if chosen.seed is None else chosen.seed
    chosen = attrs.evolve(chosen, access=chosen.reached(chosen.access))
    simulation = build(
        checked, seed=seed, rights=chosen, access=chosen.access, until_ns=until_ns,
    )  # fmt: skip
    if simulation.models is not None:
        simulation.models.expected = chosen.expected
    if chosen.access is not None:
        chosen.access.check_key()
    speed = speed_of(checked, chosen)
    check_rounds(checked, mode, speed)  # before the folder is created
    if checked.models is not None and chosen.access is not None:
        from sim.scenario.assembly.models import check_batching  # the import is slow

        check_batching(checked.models, chosen.access, speed)
    Tools.of(simulation.world).check_servers()
    if simulation.models is not None:
        await simulation.models.prepare()
    if path is not None and chosen.out is not None:
        text = path.read_text(encoding="utf-8")
    keeper, folder = _keeper(simulation, text, chosen, seed, mode, origin)
    epoch = keeper.epoch if isinstance(keeper, RunRecorder) else None
    uid = "" if folder is None else folder.name
    session = Session(
        simulation, keeper, folder, uid, until_ns, mode, speed, chosen.backend, progress=chosen.progress,
        stuck=chosen.stuck, begun=chosen.begun, max_wall=chosen.max_wall, on_interrupt=chosen.on_interrupt, epoch=epoch,
    )  # fmt: skip
    return await session.carry_out()


run = in_plain_code(run_async)


@attrs.frozen
class Session:
    """Everything that one run or replay needs; see `RunController` and `RunOptions`."""

    simulation: Simulation
    keeper: RunSink
    folder: Path | None
    uid: str  # the name of the run in the keys of its effects
    until_ns: int
    mode: Mode
    speed: float | None
    backend: Backend
    progress: Watcher | bool | None = None
    stuck: Callable[[Stuck], None] | None = None
    begun: Watcher | None = None
    history: History | None = None
    live: Callable[[RunController, list[EffectHandle]], bool] | None = None
    inputs: Callable[[RunController], None] | None = None  # registers further kinds of input
    max_wall: Duration | None = None
    on_interrupt: OnInterrupt = "raise"
    epoch: int | None = None  # that of the recorder; None if the run takes nothing in from people outside

    async def carry_out(self) -> RunResult:
        """Run to the end, or until a signal, and close the record.

        Raises:
            RunError: if the run fails. Its record is closed as failed, unless the run was still replaying its record.
            KeyboardInterrupt, SystemExit: after a second signal within one step, or after the first one if
                `on_interrupt` is `raise`. The record is closed as interrupted before.
        """
        signals = Signals()
        try:
            async with Tools.of(self.simulation.world).connected():
                with shown(self.progress) as watcher:
                    result = await self._until_closed(signals, watcher)
        except BaseException as error:
            if signals.number is None or not _interrupts(error):
                raise
            _raise_for(signals.number, "the run was interrupted within a step", self.folder)
        if signals.number is not None and result.status == "interrupted" and self.on_interrupt == "raise":
            _raise_for(signals.number, f"the run was interrupted at {result.sim_seconds:g} s", self.folder)
        return result

    async def _until_closed(self, signals: "Signals", watcher: Watcher | None) -> RunResult:
        kernel = self.simulation.world.kernel
        kernel.recorder = at_level(self.simulation.world, self.keeper, self.simulation.scenario.recording.level)
        kernel.effects.namespace = self.uid
        started = time.monotonic()
        runner = RunController(
            self.simulation, until_ns=self.until_ns, mode=self.mode, speed=self.speed, progress=watcher,
            history=self.history, live=self.live,
        )  # fmt: skip
        if self.simulation.models is not None:
            self.simulation.models.begin(kernel.effects.namespace, runner.host, self.folder)
        kernel.recorder = listening(self.simulation.world, kernel.recorder)
        if self.inputs is not None:
            self.inputs(runner)
        if self.begun is not None:
            with kernel.acting_as(None):  # calls on agents are then inputs on record, and other changes are refused
                self.begun(runner)
        skip_early(kernel)
        inbox = None if self.folder is None or self.epoch is None else InboxReader(self.folder, self.epoch, runner)
        try:
            with inbox or contextlib.nullcontext(), self._speaking():
                result = await self._until_ended(runner, signals, started)
                finished = result.status == "finished"
                if inbox is not None:
                    inbox.finished = finished
                if finished and self.simulation.models is not None:
                    await self.simulation.models.tidy()
                return result
        except BaseException as error:
            if runner.host.live and not _interrupts(error):
                _fail(self.keeper, kernel.now, error)
            else:
                self.keeper.close()
            raise
        finally:
            runner.host.calls.close()
            self.simulation.world.ended = True
            if self.simulation.models is not None:
                await self.simulation.models.aclose()
            runner.clockwork.close()
            kernel.close()

    def _speaking(self) -> contextlib.AbstractContextManager[object]:
        """Return what shows unfinished answers of models beside the record, if this process writes one."""
        if self.folder is None or self.epoch is None or self.simulation.models is None:
            return contextlib.nullcontext()
        from sim.runner.unfinished import UnfinishedWriter  # the import is slow

        return UnfinishedWriter(self.folder, self.simulation.models)

    async def _until_ended(self, runner: RunController, signals: "Signals", started: float) -> RunResult:
        with Watchdog(runner.clockwork, self.stuck or _ignore), _patient_collector(), self._limited(runner):
            status = await _watched(runner, signals, self.keeper)
        if status == "interrupted" and self.history is not None and not runner.host.live:
            if signals.number is not None and self.on_interrupt == "raise":
                raise KeyboardInterrupt
            raise RunError("interrupted during the replay of the record: the run is unchanged")
        return runner.finish(
            status, self.keeper, run=None if self.folder is None else str(self.folder), backend=self.backend,
            wall_seconds=time.monotonic() - started,
        )  # fmt: skip

    @contextlib.contextmanager
    def _limited(self, runner: RunController) -> Iterator[None]:
        """Suspend the run when `max_wall` is over."""
        if self.max_wall is None:
            yield
            return

        def suspend() -> None:
            runner.interrupted_by = f"max_wall {to_text(to_ns(self.max_wall or 0))}"
            runner.host.suspend()

        timer = threading.Timer(to_seconds(to_ns(self.max_wall)), suspend)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextlib.contextmanager
def _patient_collector() -> Iterator[None]:
    """Run the garbage collector less often: a run creates few cycles, and collection took a tenth of its time.

    A process that has frozen its objects itself keeps them frozen, and those of the run are not added: what it leaves
    would never be collected. One that has done both already, such as a worker of an experiment, is left as it is.
    """
    before = gc.get_threshold()
    frozen = gc.get_freeze_count()
    if before == PATIENT and frozen:
        yield
        return
    if not frozen:
        gc.freeze()
    gc.set_threshold(*PATIENT)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


def _keeper(
    simulation: Simulation,
    text: str | None,
    options: RunOptions,
    seed: int,
    mode: Mode,
    origin: Mapping[str, Any] | None,
) -> tuple[HashRecorder | RunRecorder, Path | None]:
    level = simulation.scenario.recording.level
    if options.out is None:
        return HashRecorder(level=level), None
    if text is None:
        hint = "give the path of its file, or a mapping"
        raise UsageError("a recorded run needs the text of its scenario, and not a Scenario object", hint=hint)
    given = simulation.scenario.recorded_files()
    kept = {
        "until": options.until,
        "clock": options.clock,
        "speed": options.speed,
        "set": list(options.overrides),
        "allow": list(options.allow),
        "model": list(options.access.models) if options.access else [],
        "endpoint": options.access.fingerprint if options.access else None,
        **({"batch": True} if options.access and options.access.batching else {}),
        "tags": list(options.tags),
        **({"expected": dict(options.expected)} if options.expected else {}),
        **({} if level == "all" else {"recording": level}),
        **hashes_of(given),
        **({"packages": packages} if (packages := _named_packages(simulation.scenario, options)) else {}),
    }
    header = RunHeader(
        name=simulation.scenario.name, seed=seed, mode=mode, backend=options.backend, options=kept,
        code=code_hashes(simulation.code), origin=origin,
        versions={**package_versions(simulation.code), **versions()},
    )  # fmt: skip
    folder = create_run(options.out, header, text, given)
    return RunRecorder(folder, level=level), folder


def _named_packages(scenario: Scenario, options: RunOptions) -> dict[str, str]:
    """Return the versions, by name, of the packages that the operator allowed or that the graph of places comes from.

    The run can be continued without them: what it needs of them is recorded, or is the code of agents.
    """
    graph = scenario.places.graph if scenario.places is not None and scenario.places.loaded is not None else None
    names = (*options.allow, *([] if graph is None else [graph.partition(":")[0]]))
    return {name: version for name in names if (version := installed_version(name)) is not None}


def speed_of(scenario: Scenario, options: RunOptions) -> float | None:
    """Return the simulated seconds per real second; None if the run jumps from event to event.

    Raises:
        UsageError: if a speed is given without the wall clock, or is not a number above 0.
    """
    clock = options.clock or scenario.execution.clock
    if options.speed is not None and clock == "virtual":
        raise UsageError("a speed needs the wall clock", hint="add --clock wall")
    if options.speed is not None:
        check_speed(options.speed)
    return None if clock == "virtual" else options.speed or scenario.execution.speed


def _fail(keeper: RunSink, now: int, error: BaseException) -> None:
    """Close the record of a failed run; an error while closing must not hide the failure."""
    try:
        keeper.finish("failed", {}, now, {"error": f"{type(error).__name__}: {error}"})
    except (SimError, OSError) as second:
        error.add_note(f"in addition, the record could not be closed: {second}")


@attrs.define
class Signals:
    """Which signal interrupted a run, if one did."""

    number: int | None = None


def _interrupts(error: BaseException) -> bool:
    """Return whether an error means that the run was interrupted from outside: by Ctrl-C, or cancelled by the host
    program.

    A task group wraps the error that ends it, so an interruption may be inside an exception group.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(_interrupts(part) for part in error.exceptions)
    return isinstance(error, KeyboardInterrupt | anyio.get_cancelled_exc_class())


def _raise_for(number: int, message: str, folder: Path | None) -> NoReturn:
    """Raise the exception that ends a program as the signal would; the record is already closed."""
    if number == signal.SIGTERM:
        raise SystemExit(128 + number) from None
    kept = "nothing was recorded" if folder is None else f"{folder} can be resumed"
    raise KeyboardInterrupt(f"{message}; {kept}") from None


async def _watched(runner: RunController, signals: Signals, keeper: RunSink) -> Literal["finished", "interrupted"]:
    """Run; the first SIGINT or SIGTERM suspends the run between two steps, the second one interrupts the step."""
    thread = threading.current_thread()
    if isinstance(thread, RunThread):

        def interrupted() -> None:
            signals.number = signal.SIGINT
            runner.host.suspend()

        thread.on_interrupt(interrupted)
    if thread is not threading.main_thread():
        return await runner.run()
    before = {number: signal.getsignal(number) for number in _ENDINGS}

    ended = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        keeper.seal()  # events of the interrupted step must not be kept: the step runs again on resume
        signal.default_int_handler(number, frame)

    def suspend(number: int, _: object) -> None:
        signals.number = number
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # In a thread, because the event loop may be blocked, or in a step that never ends: its own signal handler would
        # not be called then, and the second signal could not end the step.
        threading.Thread(target=_suspend, args=(runner, number, ended), name="sim-suspend", daemon=True).start()

    try:
        for number in _ENDINGS:
            signal.signal(number, suspend)
        return await runner.run()
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _suspend(runner: RunController, number: int, ended: threading.Event) -> None:
    """Suspend the run; if the current step does not end within `_GRACE`, end the process as the signal does."""
    threading.Thread(target=runner.host.suspend, daemon=True).start()  # it waits for the event loop, which may be stuck
    if not ended.wait(_GRACE):
        os.kill(os.getpid(), number)


def _ignore(stuck: Stuck) -> None:
    """Ignore a stuck step: no listener was given."""
