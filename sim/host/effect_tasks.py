"""Carries out effects in tasks of the host (edge).

An effect starts when its intent is durable, and its outcome is handed over when that is durable. Many of either share a
commit, because the writer commits whatever has come in meanwhile.
"""

import contextvars
import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import sniffio

from sim.crashpoints import reach
from sim.errors import SimError
from sim.kernel.codec import decode, encode
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel

LARGEST_RESULT = 16 * 2**20
"""Bytes of a result as canonical JSON. A larger one would be kept in memory, in the record and in every replay."""


class Portal:
    """Lets any thread have something called in the thread of the event loop, without waiting for it."""

    def __init__(self) -> None:
        self._token: Any = anyio.lowlevel.current_token().native_token
        self._context = contextvars.copy_context()  # that of another thread does not say which event loop this is
        self._context.run(sniffio.current_async_library_cvar.set, sniffio.current_async_library())  # nor does asyncio's

    def call(self, callback: Callable[[], object]) -> None:
        """Have `callback` called soon; never if the event loop has ended."""
        soon = getattr(self._token, "call_soon_threadsafe", None) or self._token.run_sync_soon
        try:
            soon(lambda: self._context.run(callback))
        except RuntimeError:  # asyncio's for a closed loop; trio's RunFinishedError is one too
            return


class EffectTasks:
    """The effects that are to be carried out, or are under way.

    Args:
        kernel: whose effects.
        measured: called with a measured effect and its outcome, which still needs its place.
        news: called when a modelled effect has its outcome.
        failed: called with what went wrong in writing.

    Attributes:
        door: into the event loop that they are carried out in; None until it is known, and when it is left.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        measured: Callable[[EffectHandle, Outcome], None],
        news: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._kernel = kernel
        self._measured = measured
        self._news = news
        self._failed = failed
        self._fresh: list[EffectHandle] = []
        self._scopes: dict[EffectHandle, anyio.CancelScope] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self.door: Portal | None = None

    @property
    def under_way(self) -> int:
        """How many effects are being carried out now."""
        return len(self._scopes)

    async def open(self) -> None:
        """Be ready to carry effects out in tasks of the present event loop."""
        self.door = Portal()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()

    async def close(self) -> None:
        """Stop what is under way; nothing of it is recorded."""
        group, self._group, self.door = self._group, None, None
        assert group is not None, "opened before"
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)  # without the error, which it would wrap in a group

    def add(self, handle: EffectHandle) -> None:
        """Take an effect whose intent has been recorded; `launch` starts it."""
        self._fresh.append(handle)

    def set_aside(self, doubtful: Callable[[EffectHandle], bool]) -> list[EffectHandle]:
        """Take back, and return, those taken that `doubtful` is true of."""
        aside = [handle for handle in dict.fromkeys(self._fresh) if doubtful(handle) and handle.state == "running"]
        self._fresh = [handle for handle in self._fresh if handle not in aside]
        for handle in aside:
            handle.doubtful = True
        return aside

    def drop(self, handle: EffectHandle) -> None:
        """Stop carrying out an effect that nobody waits for."""
        if scope := self._scopes.get(handle):
            scope.cancel()

    def launch(self) -> None:
        """Start what has been taken, as soon as the intents are durable."""
        if not self._fresh:
            return
        batch = [handle for handle in dict.fromkeys(self._fresh) if not handle.held]
        self._fresh = []
        self.when_durable(lambda: self._start(batch))

    def when_durable(self, then: Callable[[], object]) -> None:
        """Call `then` in the event loop when all that was recorded is durable."""
        door = self.door
        assert door is not None, "opened before"

        def told(error: Exception | None) -> None:
            door.call(then if error is None else lambda: self._failed(error))

        self._kernel.recorder.durable(told)

    def _start(self, batch: list[EffectHandle]) -> None:
        if self._group is None:
            return
        for handle in batch:
            if handle.state == "running":  # else it was cancelled before its intent was durable: it never happens
                self._group.start_soon(self._carry_out, handle)

    async def _carry_out(self, handle: EffectHandle) -> None:
        if self._group is None or handle.state != "running" or handle.held or handle in self._scopes:
            return
        outcome = Outcome("timeout")
        with anyio.CancelScope(deadline=anyio.current_time() + handle.effect.timeout) as scope:
            self._scopes[handle] = scope
            try:
                reach("effect.started")
                outcome = await _outcome(handle)
            except anyio.get_cancelled_exc_class() as error:
                if scope.cancel_called or self._group is None:
                    raise
                outcome = _failure(error)  # the work was cancelled, but not by us
            finally:
                del self._scopes[handle]
        if self.door is None:  # closed, while it came to its end without a step at which it could be cancelled
            return
        reach("effect.done")
        try:
            self._answered(handle, outcome)
        except SimError as error:  # it cannot be recorded: the run fails, and not this task alone
            self._failed(error)

    def _answered(self, handle: EffectHandle, outcome: Outcome) -> None:
        effects = self._kernel.effects
        if not handle.modelled:
            self._measured(handle, outcome)
        elif effects.wanted(handle):  # its place is fixed already: only the record must come first
            effects.record(handle, outcome)
            reach("effect.recorded")
            self.when_durable(lambda: self._hand_over(handle, outcome))

    def _hand_over(self, handle: EffectHandle, outcome: Outcome) -> None:
        if self._kernel.effects.wanted(handle):
            self._kernel.effects.post(handle, outcome)
        self._news()


async def _outcome(handle: EffectHandle) -> Outcome:
    """Carry an effect out. Request and value take the way through the record, so that a replay sees the same."""
    try:
        result: Any = handle.effect.call(decode(handle.request), handle.key)
        kept = encode(await result if inspect.isawaitable(result) else result)
    except (KeyboardInterrupt, GeneratorExit, anyio.get_cancelled_exc_class()):
        raise
    except BaseException as error:  # some libraries derive what they raise from BaseException
        return _failure(error)
    return Outcome("ok", decode(kept)) if len(kept) <= LARGEST_RESULT else _too_large(kept)


def _too_large(kept: bytes) -> Outcome:
    digest = hashlib.sha256(kept).hexdigest()
    message = f"the result has {len(kept)} bytes, and at most {LARGEST_RESULT} are kept (sha256 {digest})"
    return Outcome("error", {"type": "ResultTooLarge", "message": message})


def _failure(error: BaseException) -> Outcome:
    message = str(error).encode(errors="replace").decode()
    return Outcome("error", {"type": type(error).__name__, "message": message})
