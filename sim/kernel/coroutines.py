"""Coroutines that yield to the kernel, and the warning for a wait that is never awaited."""

import functools
import gc
import inspect
import types
import warnings
from collections.abc import Callable, Coroutine, Generator
from functools import update_wrapper
from types import FunctionType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, cast

from sim.base.errors import UsageError

ONE_CALL = "call its function once for each process"
"""The hint for a coroutine that cannot be spawned."""

P = ParamSpec("P")
R = TypeVar("R")


def coroutine(function: Callable[P, Generator[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make a function with `yield` return a native coroutine.

    Like `types.coroutine`, it changes the flags of the code. With that function, calls return generators, which Python
    drops without a word if they are never awaited. A native coroutine causes Python's own warning, with the line, and
    costs the same. An `async def` cannot be used instead: its `yield` would make an asynchronous generator.
    """
    code = function.__code__
    flags = code.co_flags & ~inspect.CO_GENERATOR | inspect.CO_COROUTINE
    native = FunctionType(
        code.replace(co_flags=flags),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    native.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(native, function)
    del native.__dict__["__wrapped__"]  # it is no wrapper: the code is that of the function
    return cast(Callable[P, Coroutine[Any, Any, R]], native)


class _UnderWay(Coroutine[Any, Any, Any]):
    """Stands for the coroutine of an actor while it runs a step that needs none."""

    def send(self, value: Any, /) -> NoReturn:
        """Raise: the step is under way, and nothing can continue it."""
        raise RuntimeError("a step without a coroutine cannot be continued")

    def throw(self, *error: Any) -> NoReturn:
        """Raise, as `send`."""
        raise RuntimeError("a step without a coroutine cannot be continued")

    def close(self) -> None:
        """No-op."""

    def __await__(self) -> NoReturn:
        """Raise, as `send`."""
        raise RuntimeError("a step without a coroutine cannot be awaited")


UNDER_WAY: Final = _UnderWay()


@types.coroutine
def resume(coro: Coroutine[Any, Any, Any], request: Any) -> Generator[Any, Any, Any]:
    """Continue a coroutine that has been run up to its first wait, as `await` would."""
    while True:
        try:
            value = yield request
        except GeneratorExit:
            coro.close()
            raise
        except BaseException as error:
            step = functools.partial(coro.throw, error)
        else:
            step = functools.partial(coro.send, value)
        try:
            request = step()
        except StopIteration as done:
            return done.value


def warn_unawaited(name: str, source: object) -> None:
    """Warn, as Python does for coroutines, that a wait was dropped without being used."""
    warnings.warn(f"coroutine {name!r} was never awaited", RuntimeWarning, stacklevel=3, source=source)


def has_begun(coro: Coroutine[Any, Any, Any]) -> bool:
    """Return whether the first step of a coroutine has run, so that it can catch an error raised in it."""
    body: object = coro  # a generator can serve as a coroutine
    if inspect.isgenerator(body):
        return inspect.getgeneratorstate(body) != inspect.GEN_CREATED
    return not inspect.iscoroutine(body) or inspect.getcoroutinestate(body) != inspect.CORO_CREATED


def _is_over(coro: "types.CoroutineType[Any, Any, Any]") -> bool:
    """Return whether a coroutine that neither runs nor waits has ended.

    `cr_frame` says so as well, but makes an object of 176 bytes that lives as long as the coroutine. So it is looked at
    only if the coroutine does not refer to its function any more.
    """
    return FunctionType not in map(type, gc.get_referents(coro)) and coro.cr_frame is None


def check_coroutine(name: object, coro: object) -> None:
    """Check the arguments of `spawn`.

    Raises:
        UsageError: if the name is no text, or `coro` is not a coroutine that has not begun.
    """
    if not isinstance(name, str):
        raise UsageError(
            f"the first argument of spawn is the name of the process, not {type(name).__name__!r}",
            hint="write spawn('clerk', clerk())",
        )
    if inspect.iscoroutine(coro):
        if coro.cr_suspended or coro.cr_running or _is_over(coro):
            raise UsageError(f"the coroutine of {name} has begun already", hint=ONE_CALL)
        return
    called = getattr(coro, "__name__", type(coro).__name__)
    if inspect.isfunction(coro) or inspect.ismethod(coro):
        raise UsageError(
            f"spawn needs a coroutine, not the function {called}", hint=f"call it: spawn({name!r}, {called}())"
        )
    if inspect.isasyncgen(coro):
        raise UsageError(
            f"{called} is an asynchronous generator, because it has `yield`", hint="write await instead of yield"
        )
    if inspect.isgenerator(coro) and not coro.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        raise UsageError(
            f"{called} is a generator, and a process is a coroutine",
            hint="write `async def` and `await sleep(5)` instead of `yield env.timeout(5)` or `yield 5`",
        )
    if not (hasattr(coro, "send") and hasattr(coro, "throw") and hasattr(coro, "close")):
        raise UsageError(f"spawn needs a coroutine, not {type(coro).__name__!r}", hint="write spawn('clerk', clerk())")
