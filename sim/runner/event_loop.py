"""Plain functions for coroutine functions, in a new event loop or beside one that runs; and the reverse (edge)."""

import functools
import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from sim.base.registry import Definitions, using
from sim.runner.options import Backend, Hosting

P = ParamSpec("P")
T = TypeVar("T")

_CANCELLED: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


def in_definitions(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Have a coroutine function look names up in the definitions that it is given.

    They are the argument `definitions`, or those of an argument: of options, or of a scenario that was loaded with
    some.
    """

    @functools.wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with using(_definitions_of(*args, **kwargs)):
            return await work(*args, **kwargs)

    return call


def with_definitions(work: Callable[P, T]) -> Callable[P, T]:
    """Do as `in_definitions`, for a plain function."""

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with using(_definitions_of(*args, **kwargs)):
            return work(*args, **kwargs)

    return call


def _definitions_of(*args: Any, **kwargs: Any) -> Definitions | None:
    """Return the definitions that a call is given; see `in_definitions`."""
    candidates = [kwargs.get("definitions"), *(getattr(one, "definitions", None) for one in args)]
    candidates += [getattr(getattr(one, "source", None), "definitions", None) for one in args]
    return next((one for one in candidates if isinstance(one, Definitions)), None)


def in_plain_code(work: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the plain function for a coroutine function `NAME_async`: `NAME`, with the same arguments.

    It gets the docstring; that of the coroutine function then refers to it. An argument `backend` names the event loop.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        hosting = {name: value for name, value in kwargs.items() if name == "backend"}
        return blocking(functools.partial(work, *args, **kwargs), Hosting.of(hosting).backend)

    call.__name__ = call.__qualname__ = work.__name__.removesuffix("_async")  # so that it can be pickled
    work.__doc__ = f"As `{call.__name__}`, inside an asyncio or trio program, which keeps running meanwhile."
    return call


def beside_the_loop(work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return the coroutine function `NAME_async` for a plain function: `NAME`, which then runs in a thread.

    If its task is cancelled, `work` has to end as soon as `is_cancelled` says so.
    """

    @functools.wraps(work)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        cancelled, done, errors = threading.Event(), list[T](), list[Exception]()

        async def watch() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        def in_thread() -> T:
            _CANCELLED.set(cancelled)  # in the copy of the context that a thread gets
            return work(*args, **kwargs)

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                done.append(await anyio.to_thread.run_sync(in_thread))
            except Exception as error:  # a task group would raise it in an ExceptionGroup
                errors.append(error)
            group.cancel_scope.cancel()
        await anyio.lowlevel.checkpoint_if_cancelled()
        if errors:
            raise errors[0]
        return done[0]

    call.__name__ = call.__qualname__ = f"{work.__name__}_async"
    call.__doc__ = f"As `{work.__name__}`, inside an asyncio or trio program, which keeps running meanwhile."
    return call


def is_cancelled() -> bool:
    """Return whether the task that waits for this thread was cancelled; see `beside_the_loop`."""
    cancelled = _CANCELLED.get()
    return cancelled is not None and cancelled.is_set()


def blocking(work: Callable[[], Coroutine[Any, Any, T]], backend: Backend) -> T:
    """Run `work` in a new event loop; in a new thread where a loop is already running.

    Args:
        work: the coroutine function to run.
        backend: the library of the loop.
    """
    in_loop = functools.partial(_in_new_loop, work, backend)
    if not _inside_event_loop():
        return in_loop()
    done: list[T] = []
    RunThread(lambda: done.append(in_loop())).complete()
    return done[0]


class RunThread(threading.Thread):
    """The thread of a run that was started where an event loop is running, as in a notebook.

    Python delivers Ctrl-C (in a notebook: the button that interrupts a cell) to the thread that waits for this one.

    Args:
        work: what the thread does.

    Attributes:
        interrupted: whether Ctrl-C was pressed.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(name="sim-run")
        self._work = work
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self.interrupted = False
        self._suspend: Callable[[], None] | None = None

    def run(self) -> None:
        """Do the work, in the new thread."""
        try:
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def complete(self) -> None:
        """Start the thread, wait for its end, and raise the error that ended it.

        The first Ctrl-C suspends the run, whose record is then closed. The second one does not wait for that.
        """
        self.start()
        try:
            self._ended.wait()  # not `join`, which takes an interrupted thread for an ended one up to Python 3.12
        except KeyboardInterrupt:
            self.interrupted = True
            if self._suspend is not None:
                self._suspend()
            self._ended.wait()
        self.join()
        if self._error is not None:
            raise self._error

    def on_interrupt(self, suspend: Callable[[], None]) -> None:
        """Have `suspend` called, from another thread, when the run is interrupted; at once if it already was."""
        self._suspend = suspend
        if self.interrupted:
            suspend()


def heed_interrupt() -> None:
    """Raise KeyboardInterrupt if this is a `RunThread`, and Ctrl-C was pressed.

    For a run that keeps its event loop busy, which has to call this now and then.
    """
    thread = threading.current_thread()
    if isinstance(thread, RunThread) and thread.interrupted:
        raise KeyboardInterrupt


def running_on() -> Backend:
    """Return the event loop that this code runs in."""
    trio = sys.modules.get("trio")  # already imported if it is the backend, and slow to import if not
    return "trio" if trio is not None and trio.lowlevel.in_trio_run() else "asyncio"


def _in_new_loop(work: Callable[[], Coroutine[Any, Any, T]], backend: Backend) -> T:
    interrupts: list[BaseException] = []

    async def main() -> list[T]:
        # After a second Ctrl-C, no code awaits asyncio's task, which would print what it raised as a traceback.
        try:
            with anyio.CancelScope() as scope:
                thread, token = threading.current_thread(), anyio.lowlevel.current_token()
                if isinstance(thread, RunThread):  # a run has a better way to end, and says so later
                    thread.on_interrupt(lambda: anyio.from_thread.run_sync(scope.cancel, token=token))
                return [await work()]
            interrupts.append(KeyboardInterrupt())
        except (KeyboardInterrupt, SystemExit) as error:
            interrupts.append(error)
        return []

    done = anyio.run(main, backend=backend)
    if not done:
        raise interrupts[0]
    return done[0]


def _inside_event_loop() -> bool:
    try:
        anyio.lowlevel.current_token()
    except anyio.NoEventLoopError:
        return False
    return True
