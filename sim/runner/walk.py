"""A walk: a replay that goes to one time after the other, and stands there while its world is read (edge).

It has no event loop, no thread and no writer, so that its process can be forked at any of its stops. Only the last
stop, the end of the run, is made by the host, as in any replay: answers to surveys at the end are waited for there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, cast

import attrs

from sim.base.errors import DivergenceError, RunError
from sim.base.registry import using
from sim.host.pacing import MonotonicClock
from sim.host.replayer import Replayer
from sim.kernel import to_text
from sim.kernel.codec import Json, decode, encode
from sim.kernel.effects import EffectHandle
from sim.kernel.kernel import Pause
from sim.kernel.ports import Recorder
from sim.record.files import SCENARIO
from sim.record.history import RunHistory
from sim.record.reader import StoredRun
from sim.record.verifying_recorder import VerifyingRecorder
from sim.runner.branching import end_of
from sim.runner.engine import COLLECTOR, controller
from sim.runner.event_loop import blocking
from sim.runner.moment import Moment, MomentWatch, take_moment
from sim.runner.options import ReplayOptions
from sim.runner.rebuild import RecordedSpec, check_not_running, is_recorded_text
from sim.runner.runner import RunController
from sim.runner.spec import Kept
from sim.runner.trace import Trace, TracedRecorder, TracingSlicer


class Walk:
    """The replay of a recorded run, which stops at the places that its caller asks for.

    Args:
        stored: the run.
        options: see `ReplayOptions`. A changed scenario or changed code is refused, unless they allow it.

    Attributes:
        stored: the run.
        end_ns: the time of the last record, in simulated nanoseconds.
        changed: what has changed since the run was recorded, if the options allow it: modules, packages, its scenario.
        runner: what replays it.
        keeper: what compares it with the record.

    Raises:
        UsageError: if something that the run needs is missing or not allowed.
        RunError: if the run is under way, or cannot be repeated because something has changed.
    """

    def __init__(self, stored: StoredRun, options: ReplayOptions) -> None:
        check_not_running(stored)
        self.stored = stored
        self.end_ns = end_of(stored)
        self._definitions = options.definitions
        self._watch: list[MomentWatch] = []
        with using(self._definitions):
            self._spec = RecordedSpec.from_record(stored, options, checked=True)
            self.changed = (
                *self._spec.changed_code,
                *(() if is_recorded_text(stored, self._spec.text) else (SCENARIO,)),
            )
            self._history = RunHistory(stored)
            self.keeper = VerifyingRecorder(self._history, self._spec.pause)
            hosting = attrs.evolve(options, begun=self._begun, progress=None)
            self.runner = controller(self._spec, hosting, Kept(self.keeper), past=self._history, then=_stay)
            self.runner.begin()
        self._kernel = self.runner.simulation.world.kernel

    def trace(self) -> Trace:
        """Trace the steps of the replay, which has not begun yet."""
        trace = Trace(self.runner)
        self._kernel.recorder = cast(Recorder, TracedRecorder(self._kernel.recorder, trace, lambda: self.keeper.events))
        self._replayer.slicer = TracingSlicer(self._kernel, MonotonicClock(), trace)
        trace.begin()
        return trace

    def _begun(self, runner: RunController) -> None:
        kernel = runner.simulation.world.kernel
        watch = MomentWatch(kernel.recorder)
        kernel.recorder = watch
        self._watch.append(watch)

    def reopen(self, stored: StoredRun) -> None:
        """Read the same run through another connection from now on, because the process has been forked."""
        self.stored = self._history.run = stored

    def check_one_time(self, time_ns: int) -> None:
        """Check that the run has one moment at a time.

        Raises:
            UsageError: if its agents are at different times.
        """
        if time_ns < self.end_ns:
            self._spec.check_moment(
                self.stored.path, time_ns, f"only its end can be shown: --at {to_text(self.end_ns)}"
            )

    def to(self, time_ns: int) -> None:
        """Continue to a time before the end: all that was due before it has happened.

        Raises:
            UsageError: see `check`.
            RunError: if the replay differs from the record.
        """
        self.check_one_time(time_ns)
        with self._stepping():
            while not self._replayer.over and self._replayer.some(time_ns) is Pause.BUDGET:
                pass
            if time_ns:  # at 0, agents have been started, but nothing has run
                self.keeper.compare_until(time_ns)

    def to_event(self, number: int, time_ns: int) -> bool:
        """Continue through the step that makes an event.

        Args:
            number: the number of the event.
            time_ns: when it happened.

        Returns:
            Whether there is such a step: the last events of a run, which stop its agents, belong to its end. If not,
            the walk may have gone too far for `to_end`.
        """
        if time_ns >= self.runner.until_ns:
            return False
        self._spec.check_moment(self.stored.path, time_ns)
        self.to(time_ns)
        slicer = self._replayer.slicer
        slicer.take_steps(1)
        with self._stepping():
            while self.keeper.events < number and not self._replayer.over:
                if self._replayer.some(time_ns + 1) is not Pause.BUDGET:
                    break
            self.keeper.compare_so_far()
        return self.keeper.events >= number

    def to_end(self) -> None:
        """Continue to the end of the run, or of its record. Nothing can follow."""
        with self._stepping(), COLLECTOR.patient():
            blocking(self.runner.run, "asyncio")

    def verify(self) -> dict[str, Json]:
        """End the run after `to_end`, and compare its final state with the one on record.

        Returns:
            The parts of `Moment.world` that the end has changed since `moment`: the services, because the end of an
            agent can withdraw what it has asked a person.

        Raises:
            RunError: if it differs.
        """
        finished = self.stored.info.status == "finished"
        world = self.runner.simulation.world
        with self._stepping():
            self.runner.finish(
                "finished" if finished else "interrupted", self.keeper, run=None, backend="asyncio", wall_seconds=0.0
            )
            services = decode(encode(world.service_states()))
        return {"services": services} if services else {}

    def moment(self, *, ended: bool = False) -> Moment:
        """Return the state of the run where the walk stands.

        Args:
            ended: whether that is the end.
        """
        with using(self._definitions):
            return take_moment(self.runner, self._watch[0], str(self.stored.path), self.keeper.events, ended=ended)

    def close(self) -> None:
        """End the replay; the run itself stays as it is."""
        world = self.runner.simulation.world
        self.runner.host.calls.close()
        world.ended = True
        self.runner.clockwork.close()
        self._kernel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _replayer(self) -> Replayer:
        replayer = self.runner.host.replayer
        assert replayer is not None, "a walk has a past"
        return replayer

    @contextmanager
    def _stepping(self) -> Iterator[None]:
        """Look names up in the definitions of the run, and say of a difference that nothing can be shown."""
        try:
            with using(self._definitions):
                yield
        except DivergenceError as error:
            raise RunError(
                f"a replay of {self.stored.path} differs from its record, so its state is not known: {error}",
                hint="`sim replay` says what has changed",
            ) from error


def _stay(_: RunController, __: list[EffectHandle]) -> bool:
    """End the run where its record ends."""
    return False
