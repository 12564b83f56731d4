"""Edge: calls of the host program, and the waits for them.

A host program changes a run by recorded inputs only. A call queues its input at once, so it needs no `await`. Awaiting
it waits until it has taken effect. While no run is under way, a call is applied at once, and a wait itself runs the
world, because otherwise a program that does one thing after another would wait for ever.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from sim.base.errors import SimError, UsageError
from sim.host.effect_tasks import Portal
from sim.kernel.actor import Actor
from sim.kernel.kernel import Kernel, Pause, crash_of

_LOG = logging.getLogger("sim.host")
_ENDED = "the run has ended"


class HostCall:
    """A call of the host program on a run, or a wait for something in it.

    It takes effect without `await`. Awaiting it, as often as wanted and in any event loop, waits until it has taken
    effect, and returns its value or raises why it was refused. One that is never awaited gives no warning.

    Attributes:
        name: what was called, for messages.
        bounded: whether it takes effect within a bounded simulated time.
        done: whether it has taken effect, or was refused.
    """

    __slots__ = ("_calls", "_error", "_value", "bounded", "done", "name")

    def __init__(self, calls: "HostCalls", name: str, *, bounded: bool) -> None:
        self._calls = calls
        self._value: Any = None
        self._error: Exception | None = None
        self.name = name
        self.bounded = bounded
        self.done = False

    def __repr__(self) -> str:
        return f"<HostCall {self.name} {'done' if self.done else 'pending'}>"

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._calls.wait(self).__await__()

    def applied(self, answer: object) -> None:
        """Take the answer of the handler of the input: an actor that carries it out, the text of a refusal, or None."""
        if isinstance(answer, Actor) and answer.exit is None:
            answer.on_exit = lambda actor, end: self.end(error=crash_of(actor, end) if end.kind == "crashed" else None)
        elif isinstance(answer, str):
            _LOG.warning("%s was refused: %s", self.name, answer)
            self.end(error=UsageError(f"{self.name} was refused: {answer}"))
        else:
            self.end()

    def end(self, value: Any = None, error: Exception | None = None) -> None:
        """Note that it has taken effect, or why not, and wake all that wait for it."""
        if not self.done:
            self._value, self._error, self.done = value, error, True
            self._calls.forget(self)

    def result(self) -> Any:
        """Return its value, or raise why it was refused."""
        if self._error is not None:
            raise self._error
        return self._value


class _Notice:
    """An event that is set once, from any thread, and awaited in any event loop."""

    def __init__(self) -> None:
        self._set = False
        self._listeners: list[Callable[[], object]] = []

    def set(self) -> None:
        self._set = True
        while self._listeners:
            self._listeners.pop()()

    async def wait(self) -> None:
        event, door = anyio.Event(), Portal()
        self._listeners.append(lambda: door.call(event.set))
        if not self._set:
            await event.wait()


class Driver(Protocol):
    """The part of a host that calls use."""

    kernel: Kernel

    def submit(self, kind: str, data: object, applied: Callable[[object], object] | None = None, /) -> None:
        """Queue an input; `applied` is called with the answer of its handler."""

    def apply_now(self) -> None:
        """Apply the queued inputs, while no run is under way."""

    def look_up(self) -> None:
        """Make a run that waits look at `holds` again."""

    def in_other_thread(self) -> bool:
        """Whether the caller runs in another thread than the run."""

    def held(self) -> bool:
        """Whether somebody has paused the run, so that simulated time stands still."""


class HostCalls:
    """The open calls of a host program on one run, and who drives the run.

    Args:
        host: the host of the run.
        drive: runs the kernel until a condition holds, between two runs. None: only somebody else drives it.
    """

    def __init__(self, host: Driver, drive: Callable[[Callable[[], object]], Awaitable[Pause]] | None) -> None:
        self._host = host
        self._drive = drive
        self._open: dict[HostCall, None] = {}
        self._notice = _Notice()
        self._running = False  # whether somebody runs the world
        self._driving = False  # whether a wait runs the world
        self._closed = False

    # -- who drives the run

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """A run of the world, which only one task at a time can make. A wait that runs the world makes room for it.

        Raises:
            UsageError: if a run is under way, or the caller is a step of one.
        """
        if self._running or self._host.kernel.running:
            raise UsageError(
                "this world is being run already, by another call of `run`",
                hint="await the first call; an agent or a process waits with `await sim.sleep(...)`",
            )
        self._running = True
        try:
            while self._driving:
                self._host.look_up()
                await self._notice.wait()
            yield
        finally:
            self._running = False
            self._tell()

    @property
    def idle(self) -> bool:
        """Whether the world is not being run, and the caller, in the thread of the world, may."""
        return not (self._running or self._driving or self._closed or self._host.in_other_thread())

    # -- calls

    def submit(self, kind: str, data: object, name: str) -> HostCall:
        """Queue an input and return its call. While no run is under way, it is applied before this returns."""
        call = self._new(name, bounded=True)
        try:
            self._host.submit(kind, data, call.applied)
        except SimError:
            del self._open[call]
            raise
        if self._drive is not None and self.idle:
            self._driving = True
            try:
                self._host.apply_now()
            finally:
                self._driving = False
        return call

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object]) -> HostCall:
        """Return a wait for something in the run; `register` gets the function to call with its value."""
        call = self._new(name, bounded=False)
        register(call.end)
        return call

    def _new(self, name: str, *, bounded: bool) -> HostCall:
        if self._closed:
            raise UsageError(f"{name} is too late: {_ENDED}")
        call = HostCall(self, name, bounded=bounded)
        self._open[call] = None
        return call

    def forget(self, call: HostCall) -> None:
        """Remove a call that has ended."""
        self._open.pop(call, None)
        self._tell()

    def close(self) -> None:
        """End all open calls: the run has ended without them."""
        self._closed = True
        for call in list(self._open):
            if call.bounded:
                _LOG.warning("%s was not applied: %s", call.name, _ENDED)
            call.end(error=UsageError(f"{call.name} was not applied: {_ENDED}"))

    def _tell(self) -> None:
        notice, self._notice = self._notice, _Notice()
        notice.set()

    # -- waits

    async def wait(self, call: HostCall) -> Any:
        """Wait until a call has ended, and return its value."""
        await anyio.lowlevel.checkpoint()
        beside = not self.idle
        while True:
            notice = self._notice
            if call.done:
                return call.result()
            if self._drive is None or not self.idle:
                await notice.wait()
            elif beside and not call.bounded:
                raise UsageError(
                    f"{call.name} still waits, but the run beside it has ended at {self._host.kernel.seconds:g} s",
                    hint="wait again during the next run, or use world.run(until=...) with what ends the wait",
                )
            else:
                await self._run_for(call, self._drive)

    async def _run_for(self, call: HostCall, drive: Callable[[Callable[[], object]], Awaitable[Pause]]) -> None:
        self._driving = True
        try:
            pause = await drive(lambda: call.done or self._running or self._host.held())
        finally:
            self._driving = False
            self._tell()
        if call.done or self._running:
            return
        if self._host.held():
            raise UsageError(
                f"{call.name} cannot end, because the run is paused", hint="Control.resume_all ends the pause"
            )
        if pause is Pause.LIMIT:
            call.end(error=UsageError(f"{call.name} waits for ever: no event is due any more"))
