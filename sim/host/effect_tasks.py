"""Edge: carries out effects in tasks of the host.

An effect starts when its intent is on disk. Its outcome is delivered when the outcome is on disk. Many intents and
outcomes share one commit, because the writer commits all jobs in its queue together.
"""

import asyncio
import contextvars
import hashlib
import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import anyio.abc
import anyio.lowlevel
import sniffio

from sim.base.crashpoints import reach
from sim.base.errors import SimError
from sim.base.text import recordable_text
from sim.kernel.codec import decode, encode
from sim.kernel.effects import EffectHandle, Outcome
from sim.kernel.kernel import Kernel

LARGEST_RESULT = 16 * 2**20
"""Maximum length in bytes of a result as canonical JSON, because it is kept in memory, in the record and in replays."""

_GATHERED_FROM: Final = 5
"""From how many effects under way on an outcome waits for others, to share a commit, as with `commit_siblings` of
PostgreSQL.
"""

_TOGETHER: Final = 0.005
"""Real seconds that they wait: a commit takes about as long, and a call of a model far longer."""

_WAITS: Final = 5
"""How often they wait, at most, as long as simulated time stands still without another outcome in any case."""


class Portal:
    """Schedules calls in the thread of the event loop, from any thread and without waiting."""

    def __init__(self) -> None:
        self._token: Any = anyio.lowlevel.current_token().native_token
        self._context = contextvars.copy_context()  # anyio finds the event loop by it; other threads lack it
        self._context.run(sniffio.current_async_library_cvar.set, sniffio.current_async_library())  # unset in asyncio

    def call(self, callback: Callable[[], object]) -> None:
        """Schedule `callback` in the event loop. No-op if the loop has ended."""
        soon = getattr(self._token, "call_soon_threadsafe", None) or self._token.run_sync_soon
        try:
            soon(lambda: self._context.run(callback))
        except RuntimeError:  # asyncio raises it for a closed loop; the RunFinishedError of trio is a subclass
            return


class EffectTasks:
    """The effects that have to be carried out, or are being carried out.

    Args:
        kernel: the kernel of the effects.
        measured: a function that is called with an effect of measured latency and its outcome. It must fix the time of
            the delivery.
        news: a function that is called when an effect of modelled latency has got its outcome.
        settled: a function that is called when `settled` may have become true.
        failed: a function that is called with an error of the recorder, or of work beside the effects.

    Attributes:
        door: the portal into the event loop of the tasks; None before `open` and after `close`.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        measured: Callable[[EffectHandle, Outcome], None],
        news: Callable[[], None],
        settled: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._kernel = kernel
        self._measured = measured
        self._news = news
        self._when_settled = settled
        self._failed = failed
        self._fresh: list[EffectHandle] = []
        self._scopes: dict[EffectHandle, anyio.CancelScope] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # None on trio
        self._scope = anyio.CancelScope  # that of the library in use: anyio looks for it at each call
        self._time = anyio.current_time  # the same
        self._plain: dict[EffectHandle, asyncio.Task[None]] = {}
        self.door: Portal | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget what belonged to tasks that were cancelled, and so never ended it themselves."""
        self._starting = 0  # launched effects that are not under way yet
        self._ending: set[EffectHandle] = set()  # of modelled latency; their outcomes were not handed over yet
        self._undurable: list[Callable[[], object]] = []  # for the next request to the recorder
        self._gathering = False  # whether a task waits for more of them
        self._launched = -math.inf  # when effects were started last, in seconds of the loop

    @property
    def under_way(self) -> int:
        """The number of effects that are being carried out."""
        return len(self._scopes)

    @property
    def settled(self) -> bool:
        """Whether each effect in flight is being carried out or has its outcome, so that nothing is left to hand on."""
        return not (self._fresh or self._starting or self._ending)

    async def open(self) -> None:
        """Create the task group in the present event loop."""
        self._begin_anew()
        self.door = Portal()
        native = anyio.lowlevel.current_token().native_token
        self._loop = native if isinstance(native, asyncio.AbstractEventLoop) else None
        self._scope, self._time = type(anyio.CancelScope()), getattr(native, "time", anyio.current_time)
        self._group = anyio.create_task_group()
        await self._group.__aenter__()

    async def close(self) -> None:
        """Cancel the tasks. Their outcomes are not recorded."""
        group, self._group, self.door = self._group, None, None
        assert group is not None, "opened before"
        group.cancel_scope.cancel()
        for scope in self._scopes.values():
            scope.cancel()
        try:
            await self._end_plain()
        finally:
            await group.__aexit__(None, None, None)  # no error is passed, because the group would wrap it

    async def _end_plain(self) -> None:
        """Wait for the plain tasks, as a group does for its own: also if this task is cancelled meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        while self._plain:
            try:
                with anyio.CancelScope(shield=True):
                    await asyncio.wait(self._plain.values())
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start work that runs beside the effects until `close`. Its error ends the run."""
        assert self._group is not None, "opened before"
        self._group.start_soon(self._beside, work)

    async def _beside(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._failed(error)

    def add(self, handle: EffectHandle) -> None:
        """Add an effect whose intent was recorded. `launch` starts it."""
        self._fresh.append(handle)

    def set_aside(self, doubtful: Callable[[EffectHandle], bool]) -> list[EffectHandle]:
        """Remove and return the added effects for which `doubtful` returns True, and mark them as doubtful."""
        aside = [handle for handle in dict.fromkeys(self._fresh) if doubtful(handle) and handle.state == "running"]
        self._fresh = [handle for handle in self._fresh if handle not in aside]
        for handle in aside:
            handle.doubtful = True
        return aside

    def drop(self, handle: EffectHandle) -> None:
        """Cancel the task of an effect whose outcome is no longer needed."""
        if scope := self._scopes.get(handle):
            scope.cancel()

    def launch(self, *, more: bool) -> None:
        """Start the added effects as soon as their intents are on disk.

        Args:
            more: whether the kernel is about to go on, so that others can come. While enough effects are under way,
                these wait for them, to share a commit.
        """
        if not self._fresh:
            return
        now = self._time()
        if more and self.under_way >= _GATHERED_FROM and now < self._launched + _WAITS * _TOGETHER:
            return
        self._launched = now
        batch = [handle for handle in dict.fromkeys(self._fresh) if not handle.held]
        self._fresh = []
        self._starting += len(batch)
        self.when_durable(lambda: self._start(batch))

    def when_durable(self, then: Callable[[], object]) -> None:
        """Call `then` in the event loop when all intents, results and inputs so far are on disk."""
        self._undurable.append(then)
        self._ask_recorder()

    def _ask_recorder(self) -> None:
        door, waiting = self.door, self._undurable
        assert door is not None, "opened before"
        if not waiting:
            return
        self._undurable = []

        def written(error: Exception | None) -> None:
            door.call(lambda: self._written(door, waiting, error))

        self._kernel.recorder.durable(written)

    def _written(self, door: Portal, waiting: list[Callable[[], object]], error: Exception | None) -> None:
        if error is not None:
            self._failed(error)
        elif door is self.door:  # else they were closed meanwhile, and nothing waits for it any more
            for then in waiting:
                then()

    async def _gather(self) -> None:
        """Ask the recorder once for the outcomes of this turn of the event loop, and of a few more if many come."""
        for _ in range(_WAITS):
            many = self.under_way >= _GATHERED_FROM
            await anyio.sleep(_TOGETHER if many else 0)
            if not many or not self._kernel.effects.lacking_beside(self._ending):
                break
        self._gathering = False
        if self.door is not None:
            self._ask_recorder()

    def _start(self, batch: list[EffectHandle]) -> None:
        if self._group is None:
            return
        for handle in batch:
            if handle.state != "running":  # it was cancelled before its intent was on disk, and must not start
                self._has_begun()
            elif self._loop is None:
                self._group.start_soon(self._begin, handle)
            elif handle not in self._plain:  # a task of the group takes several times as long to begin and to end
                self._plain[handle] = self._loop.create_task(self._begin(handle))
            else:
                self._has_begun()

    async def _begin(self, handle: EffectHandle) -> None:
        """Carry out an effect. An error that is not one of its work ends the run."""
        self._has_begun()
        try:
            await self._carry_out(handle)
        except Exception as error:
            self._failed(error)
        finally:
            self._plain.pop(handle, None)

    def _has_begun(self) -> None:
        self._starting -= 1
        if not self._starting:
            self._when_settled()

    async def _carry_out(self, handle: EffectHandle) -> None:
        if self._group is None or handle.state != "running" or handle.held or handle in self._scopes:
            return
        outcome = Outcome("timeout")
        with self._scope(deadline=self._time() + handle.effect.timeout) as scope:
            self._scopes[handle] = scope
            try:
                reach("effect.started")
                outcome = await outcome_of(lambda: handle.effect.call(decode(handle.request), handle.key))
            except anyio.get_cancelled_exc_class() as error:
                if scope.cancel_called or self._group is None:
                    raise
                outcome = failure(error)  # the work was cancelled, but not by this scope
            finally:
                del self._scopes[handle]
        if self.door is None:  # closed meanwhile; the work had no further checkpoint at which to be cancelled
            return
        reach("effect.done")
        try:
            self._answered(handle, outcome)
        except SimError as error:  # the outcome cannot be recorded, so the whole run must fail
            self._failed(error)

    def _answered(self, handle: EffectHandle, outcome: Outcome) -> None:
        effects = self._kernel.effects
        if not handle.modelled:
            self._measured(handle, outcome)
        elif effects.wanted(handle):  # the time of delivery is fixed, but the outcome must be recorded first
            effects.record(handle, outcome)
            reach("effect.recorded")
            self._ending.add(handle)
            self._undurable.append(lambda: self._hand_over(handle, outcome))
            if not self._gathering and self._group is not None:
                self._gathering = True
                self._group.start_soon(self._gather)

    def _hand_over(self, handle: EffectHandle, outcome: Outcome) -> None:
        self._ending.discard(handle)
        if self._kernel.effects.wanted(handle):
            self._kernel.effects.post(handle, outcome)
        self._news()


async def outcome_of(work: Callable[[], Any]) -> Outcome:
    """Carry out the work of an effect. The result is encoded and decoded, so that a replay gets an equal value."""
    try:
        try:
            result: Any = work()
        except GeneratorExit as error:  # an error of the work: nothing can close this coroutine while it runs
            return failure(error)
        kept = encode(await result if inspect.isawaitable(result) else result)
    except (KeyboardInterrupt, GeneratorExit, anyio.get_cancelled_exc_class()):
        raise
    except BaseException as error:  # some libraries derive their errors from BaseException
        return failure(error)
    return Outcome("ok", decode(kept)) if len(kept) <= LARGEST_RESULT else _too_large(kept)


def _too_large(kept: bytes) -> Outcome:
    digest = hashlib.sha256(kept).hexdigest()
    message = f"the result has {len(kept)} bytes, and at most {LARGEST_RESULT} are kept (sha256 {digest})"
    return Outcome("error", {"type": "ResultTooLarge", "message": message})


def failure(error: BaseException) -> Outcome:
    """Return the outcome of an effect whose work has failed."""
    return Outcome("error", {"type": type(error).__name__, "message": recordable_text(str(error))})
