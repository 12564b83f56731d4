"""Run a kernel until a time, until a wait or an actor has ended, or until a condition holds."""

import inspect
from collections.abc import Callable
from typing import Any, Self

from sim.base.errors import Cancelled, UsageError
from sim.kernel.actor import Actor, Exit
from sim.kernel.duration import Duration, to_ns
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.latch import Join
from sim.kernel.waits import NOTHING, Wait, receive, wait_for

Until = Duration | Wait | Actor | Callable[[], object]
"""The end of a run: a simulated time since the start, a wait, an actor (until its end), or a condition."""


def check_until(until: object) -> None:
    """Check the end of a run, before anything happens.

    Raises:
        UsageError: if it is neither a duration, a wait, an actor, nor a function that can be called between instants.
    """
    if isinstance(until, int | float | str):
        to_ns(until)
    elif isinstance(until, Actor) or (hasattr(until, "take") and hasattr(until, "arm") and not isinstance(until, type)):
        return
    elif inspect.iscoroutine(until):
        name = until.__qualname__
        until.close()  # otherwise Python would warn that it was never awaited
        raise UsageError(
            f"a run cannot end with the coroutine {name}()",
            hint="pass a time, a wait such as a latch, or the actor that spawn returned",
        )
    elif not callable(until) or isinstance(until, type) or inspect.iscoroutinefunction(until):
        raise UsageError(
            f"a run ends at a time, or with a wait, an actor or a condition, not with {until!r:.60}",
            hint="a condition is a function without arguments, and without async, that returns whether the run is over",
        )


def run_until(kernel: Kernel, until: Until) -> Any:
    """Run a kernel, without a host, until a time, or until a wait, an actor or a condition has ended the run.

    A run ends between two instants. What is due at a given time does not run any more; a wait, an actor or a condition
    ends the run when all entries of that instant have run.

    Args:
        kernel: the kernel to run. Its actors cannot perform effects.
        until: a simulated time since the start (seconds, or text such as `10m`), exclusive; a wait (a
            latch, a signal, `join`); an actor, for its end; or a function without arguments that is called after each
            instant, for its first true result.

    Returns:
        The value of the wait, the return value of the actor, or the first true result of the function. None for a time.

    Raises:
        UsageError: if no entry is due any more and the run has not reached its end, if an actor performs an effect, or
            if `until` is none of these.
        BaseException: the error of the awaited actor, or of an actor that crashed and has no `on_exit`.
    """
    check_until(until)
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
    """A context with an actor that waits on behalf of the caller, and halts the run when the wait has ended."""

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
            if self._value is not NOTHING:
                receive(self._wait, self._value)
            else:
                self._actor = self._kernel.adopt(_NAME)
                self._actor.on_exit = self._exit
                self._kernel.begin_now(self._actor, wait_for(self._wait))
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
    """Return the error for a run that has no further entries although its end condition is not met."""
    names = [actor.name for actor in kernel.actors.values() if actor.name != _NAME]
    waiting = f"; {', '.join(names[:5])}{' and others' if len(names) > 5 else ''} still wait" if names else ""
    return UsageError(
        f"no event is due after {kernel.now / 1e9:g} s, but the end condition of the run is not met{waiting}",
        hint="let an actor end the wait or meet the condition, or run until a time",
    )
