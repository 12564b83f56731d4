"""Run until a time, until something that an actor could wait for has happened, or until a condition holds."""

from collections.abc import Callable
from typing import Any, Self

from sim.errors import Cancelled, UsageError
from sim.kernel.actor import Actor, Exit
from sim.kernel.all_of import armed
from sim.kernel.duration import Duration, to_ns
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.latch import Join
from sim.kernel.waits import NOTHING, Wait

Until = Duration | Wait | Actor | Callable[[], object]
"""Up to where a run goes: a simulated time since the start, a wait, the end of an actor, or a condition."""


def run_until(kernel: Kernel, until: Until) -> Any:
    """Run a kernel, without a host program, up to a time or until something has happened.

    A run ends between two instants: all that is due at the instant in which it happens runs first.

    Args:
        kernel: what to run; its actors may not perform effects.
        until: a simulated time since the start (seconds, or text such as `10m`), a wait (a latch, a signal, `join`), an
            actor, whose end is waited for, or a function without arguments that is asked after each instant.

    Returns:
        The value of the wait, what the actor returned, the first true answer of the function; None for a time.

    Raises:
        UsageError: if nothing is due any more and it has not happened, or an effect has to be carried out.
        BaseException: what an actor that nothing watches raised, or the awaited actor.
    """
    if isinstance(until, int | float | str):
        _ran(kernel.run(to_ns(until)))
        kernel.advance_to(to_ns(until))
        return None
    if callable(until):
        while not (answer := until()):
            due = kernel.next_time()
            if due is None:
                raise never_happened(kernel)
            _ran(kernel.run(due + 1))
        return answer
    with Watch(kernel, until) as watch:
        if not watch.ended:
            _ran(kernel.run())
        return watch.result()


_NAME = "run until"


class Watch:
    """An actor that waits on behalf of who runs the kernel, and halts the run when the wait has ended."""

    def __init__(self, kernel: Kernel, until: Wait | Actor) -> None:
        self._kernel = kernel
        self._wait = Join(until) if isinstance(until, Actor) else until
        self._actor: Actor | None = None
        self._value: Any = NOTHING
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether the wait has ended."""
        return self._value is not NOTHING or self._error is not None

    def __enter__(self) -> Self:
        with self._kernel.acting_as(self._kernel.host):
            self._value = self._wait.take()
            if self._value is NOTHING:
                self._actor = self._kernel.adopt(_NAME)
                self._actor.on_exit = self._exit
                self._kernel.begin_now(self._actor, armed(self._wait))
        return self

    def __exit__(self, *_: object) -> None:
        if self._actor is not None:
            with self._kernel.acting_as(self._kernel.host):
                self._kernel.cancel(self._actor)

    def result(self) -> Any:
        """Return the value of the wait, or raise its error."""
        if self._error is not None:
            raise self._error
        if self._value is NOTHING:
            raise never_happened(self._kernel)
        return self._value

    def _exit(self, actor: Actor, end: Exit) -> None:
        if end.kind == "returned":
            self._value = end.value
        elif not isinstance(end.error, Cancelled):
            self._error = end.error
        if self.ended:
            self._kernel.halt()


def _ran(pause: Pause) -> None:
    if pause is Pause.BLOCKED:
        raise UsageError("an actor performs an effect, which needs a host program", hint="use World.run(until=...)")


def never_happened(kernel: Kernel) -> UsageError:
    """Return the error of a run in which nothing is due any more and what it waits for has not happened."""
    names = [actor.name for actor in kernel.actors.values() if actor.name != _NAME]
    waiting = f"; {', '.join(names[:5])}{' and others' if len(names) > 5 else ''} still wait" if names else ""
    return UsageError(
        f"nothing is due after {kernel.now / 1e9:g} s, and what the run waits for has not happened{waiting}",
        hint="let an actor set it, or run until a time",
    )
