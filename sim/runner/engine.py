"""The engine: `execute` runs what was built, from the start or the end of its past, and closes its record (edge)."""

import contextlib
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final, Literal, NoReturn

import anyio
import attrs

from sim.agents.latest_events import listening
from sim.base.errors import RunError, SimError
from sim.host.watchdog import Stuck, Watchdog
from sim.kernel import to_ns, to_seconds, to_text
from sim.kernel.effects import EffectHandle
from sim.kernel.ports import History
from sim.runner.event_loop import RunThread, running_on
from sim.runner.levels import at_level, skip_early
from sim.runner.options import HostOptions, Watcher
from sim.runner.outside_requests import OutsideRequests
from sim.runner.progress import shown
from sim.runner.result import RunResult
from sim.runner.runner import RunController, RunSink
from sim.runner.spec import Kept, Spec
from sim.tools import Tools

Then = Callable[[RunController, list[EffectHandle]], bool]
"""What happens where the past of a run ends, with the effects that are in doubt there: whether it continues live."""

_ENDINGS = (signal.SIGINT, signal.SIGTERM)
"""Signals that suspend a run."""

PATIENT = (50_000, 20, 20)
"""Thresholds of the garbage collector during a run; the default is (700, 10, 10)."""

_GRACE = 5.0
"""Real seconds that the current step has to end after the first signal."""


async def execute(
    spec: Spec, hosting: HostOptions, kept: Kept, *, past: History | None = None, then: Then | None = None
) -> RunResult:
    """Run to the end, or until a signal, and close the record.

    A new run, one that is replayed, resumed or branched, a trial, an estimate, and questions to agents: all end here.

    Args:
        spec: what is run.
        hosting: how it is hosted.
        kept: where its record goes.
        past: what the run repeats first; None: it has no past.
        then: what happens where the past ends; None: the run ends there.

    Raises:
        RunError: if the run fails. Its record is closed as failed, unless the run was still repeating its past.
        KeyboardInterrupt, SystemExit: after a second signal within one step, or after the first one if
            `on_interrupt` is `raise`. The record is closed as interrupted before.
    """
    return await _Execution(spec, hosting, kept, past, then).carry_out()


def controller(
    spec: Spec,
    hosting: HostOptions,
    kept: Kept,
    *,
    past: History | None = None,
    then: Then | None = None,
    watcher: Watcher | None = None,
) -> RunController:
    """Return what runs a simulation from its beginning.

    Args:
        spec, hosting, kept, past, then: as in `execute`.
        watcher: gets the progress.
    """
    simulation = spec.simulation
    kernel = simulation.world.kernel
    kernel.recorder = at_level(simulation.world, kept.keeper, simulation.scenario.recording.level)
    kernel.effects.namespace = kept.uid
    runner = RunController(
        simulation,
        until_ns=spec.until_ns,
        mode=spec.mode,
        speed=spec.speed,
        progress=watcher,
        history=past,
        live=then,
    )
    if simulation.models is not None:
        simulation.models.begin(kernel.effects.namespace, runner.host, kept.folder)
    kernel.recorder = listening(simulation.world, kernel.recorder)
    spec.attach(runner)
    if hosting.begun is not None:
        with kernel.acting_as(None):  # calls on agents are then inputs on record, and other changes are refused
            hosting.begun(runner)
    skip_early(kernel)
    return runner


@attrs.frozen
class _Execution:
    """A run under way; see `execute`."""

    spec: Spec
    hosting: HostOptions
    kept: Kept
    past: History | None
    then: Then | None

    async def carry_out(self) -> RunResult:
        """Run, and end the program as a signal asks for."""
        signals = Signals()
        try:
            async with Tools.of(self.spec.simulation.world).connected():
                with shown(self.hosting.progress) as watcher:
                    result = await self._until_closed(signals, watcher)
        except BaseException as error:
            if signals.number is None or not _interrupts(error):
                raise
            _raise_for(signals.number, "the run was interrupted within a step", self.kept.folder)
        if signals.number is not None and result.status == "interrupted" and self.hosting.on_interrupt == "raise":
            _raise_for(signals.number, f"the run was interrupted at {result.sim_seconds:g} s", self.kept.folder)
        return result

    async def _until_closed(self, signals: "Signals", watcher: Watcher | None) -> RunResult:
        spec, kept, simulation = self.spec, self.kept, self.spec.simulation
        kernel = simulation.world.kernel
        started = time.monotonic()
        runner = controller(spec, self.hosting, kept, past=self.past, then=self.then, watcher=watcher)
        inbox = None
        if kept.folder is not None and kept.epoch is not None:
            inbox = OutsideRequests(kept.folder, kept.epoch, runner)
        try:
            with inbox or contextlib.nullcontext(), self._speaking():
                result = await self._until_ended(runner, signals, started)
                finished = result.status == "finished"
                if inbox is not None:
                    inbox.finished = finished
                if finished and simulation.models is not None:
                    await simulation.models.tidy()
                return result
        except BaseException as error:
            if runner.host.live and not _interrupts(error):
                _fail(kept.keeper, kernel.now, error)
            else:
                kept.keeper.close()
            raise
        finally:
            runner.host.calls.close()
            simulation.world.ended = True
            if simulation.models is not None:
                await simulation.models.aclose()
            runner.clockwork.close()
            kernel.close()

    def _speaking(self) -> contextlib.AbstractContextManager[object]:
        """Return what shows unfinished answers of models beside the record, if this process writes one."""
        if self.kept.folder is None or self.kept.epoch is None or self.spec.simulation.models is None:
            return contextlib.nullcontext()
        from sim.runner.unfinished import UnfinishedWriter  # the import is slow

        return UnfinishedWriter(self.kept.folder, self.spec.simulation.models)

    async def _until_ended(self, runner: RunController, signals: "Signals", started: float) -> RunResult:
        with Watchdog(runner.clockwork, self.hosting.stuck or _ignore), COLLECTOR.patient(), self._limited(runner):
            status = await _watched(runner, signals, self.kept.keeper)
        if status == "interrupted" and self.past is not None and not runner.host.live:
            if signals.number is not None and self.hosting.on_interrupt == "raise":
                raise KeyboardInterrupt
            raise RunError("interrupted during the replay of the record: the run is unchanged")
        return runner.finish(
            status,
            self.kept.keeper,
            run=None if self.kept.folder is None else str(self.kept.folder),
            backend=running_on(),
            wall_seconds=time.monotonic() - started,
        )

    @contextlib.contextmanager
    def _limited(self, runner: RunController) -> Iterator[None]:
        """Suspend the run when `max_wall` is over."""
        if self.hosting.max_wall is None:
            yield
            return

        def suspend() -> None:
            runner.interrupted_by = f"max_wall {to_text(to_ns(self.hosting.max_wall or 0))}"
            runner.host.suspend()

        timer = threading.Timer(to_seconds(to_ns(self.hosting.max_wall)), suspend)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Collector:
    """The garbage collector of this process, which works less often while runs are under way.

    A run creates few cycles, and collection took a tenth of its time. What there was before it is frozen, unless the
    program has frozen its objects itself: those stay frozen, and those of the run are not added, as what it leaves
    would never be collected. Of runs at the same time, the first begins this and the last ends it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._thresholds = gc.get_threshold()
        self._frozen = False  # whether the program has frozen objects itself: asked until it has, as it takes long

    @contextlib.contextmanager
    def patient(self) -> Iterator[None]:
        """Let the collector be patient within the block."""
        with self._lock:
            if not self._runs:
                self._begin()
            self._runs += 1
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if not self._runs:
                    self._end()

    def _begin(self) -> None:
        self._thresholds = gc.get_threshold()
        self._frozen = self._frozen or gc.get_freeze_count() > 0
        if not self._frozen:
            gc.freeze()
        gc.set_threshold(*PATIENT)

    def _end(self) -> None:
        gc.set_threshold(*self._thresholds)
        if not self._frozen:
            gc.unfreeze()


COLLECTOR: Final = _Collector()
"""That of this process."""


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
