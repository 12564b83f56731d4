"""Worker processes that make the calls of endpoints for a run (edge).

The run decides what is asked, when, and what it costs; a worker sends the request, decodes the answer and counts
tokens. A call goes to the worker with the fewest calls, and a worker has a bounded number of them, so a slow one slows
its own calls only. If a worker ends, it is replaced, and its calls are `Interrupted`: the client makes them again.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import anyio
import attrs

from sim.base.errors import RunError, UsageError
from sim.kernel.codec import Record
from sim.kernel.ports import Background
from sim.llm.access import Access
from sim.llm.limits.governor import ReportedLimits
from sim.llm.types import Completion, Interrupted, ModelRequest, Observer
from sim.llm.workers.link import Link, ProcessLink
from sim.llm.workers.messages import (
    Answered,
    Ask,
    Count,
    Counted,
    Drop,
    Dropped,
    Failed,
    Frames,
    Part,
    Place,
    Probe,
    Rates,
    Ready,
    Refused,
    Said,
    Say,
    Start,
    Taken,
    framed,
    read_from_worker,
)

MOST_IN_VAIN: Final = 10
"""How many workers may end one after another without an answer in between. After more, the run ends."""

_STARTING: Final = 60.0  # seconds within which a worker must have started
_COUNTING: Final = 0.5  # seconds that a count of tokens is waited for, before the run counts itself


@attrs.define
class WorkerFigures:
    """What a summary says of the workers of a run.

    Attributes:
        processes: how many there are at a time.
        replaced: how many have ended during the run, and were replaced.
        interrupted: requests that were sent by them and had no answer yet, and were sent again.
    """

    processes: int
    replaced: int = 0
    interrupted: int = 0


@attrs.frozen
class _Lost:
    """The outcome of what a worker was asked that has ended: how it ended, and whether it may have sent it."""

    how: str
    sent: bool


@attrs.frozen
class _Broken:
    """The outcome of a call whose observer has failed."""

    error: Exception


_Outcome = Answered | Failed | Dropped | Counted | Said | Refused | _Lost | _Broken


@attrs.define(eq=False)
class _Waiting:
    """What is asked of a worker, until its outcome is there. `call`: it is a request for a model."""

    call: bool = False
    observe: Observer | None = None
    done: anyio.Event = attrs.field(factory=anyio.Event)
    outcome: _Outcome | None = None

    def end(self, outcome: _Outcome) -> None:
        """Hand over the outcome; the first one counts."""
        if self.outcome is None:
            self.outcome = outcome
            self.done.set()


@attrs.define(eq=False)
class _Turn:
    """A call that waits for a place, until a slot has one for it."""

    given: anyio.Event = attrs.field(factory=anyio.Event)
    slot: "_Slot | None" = None


@attrs.define(eq=False)
class _Slot:
    """The place of one worker, which its replacements take over.

    Attributes:
        number: from 0.
        link: to the present worker; None: there is none yet.
        ready: whether it takes calls.
        calls: how many calls it has, with those that are about to get there.
        asked: what it was asked, by number.
        taken: the highest number that it has read, and so may have sent to an endpoint.
        outbox: frames that wait to be sent.
        news: set when there are some.
        frames: what has come in of a frame that is not complete.
        useful: whether the present worker has had an outcome.
        started: set when the first worker is ready.
    """

    number: int
    link: Link | None = None
    ready: bool = False
    calls: int = 0
    asked: dict[int, _Waiting] = attrs.field(factory=dict)
    taken: int = 0
    outbox: list[bytes] = attrs.field(factory=list)
    news: anyio.Event = attrs.field(factory=anyio.Event)
    frames: Frames = attrs.field(factory=Frames)
    useful: bool = False
    started: anyio.Event = attrs.field(factory=anyio.Event)

    def put(self, message: Record) -> None:
        """Send a message as soon as the worker takes it."""
        self.outbox.append(framed(message))
        self.news.set()


class EdgeWorkers:
    """The worker processes of one run.

    Args:
        start: what each worker gets first.
        count: the number of processes.
        at_once: the most calls that a worker has at a time.
        background: returns what runs work beside the run.
        cut: removes secrets from a text.
        open_link: starts a worker.

    Attributes:
        figures: for the summary.
        on_rates: by provider, called with the limits that its endpoint reports.
    """

    def __init__(
        self,
        start: Start,
        count: int,
        *,
        at_once: int,
        background: Callable[[], Background],
        cut: Callable[[str], str],
        open_link: Callable[[], Awaitable[Link]] = ProcessLink.open,
    ) -> None:
        self.figures = WorkerFigures(count)
        self.on_rates: dict[str, Callable[[ReportedLimits], None]] = {}
        self._start = framed(start)
        self._at_once = at_once
        self._background = background
        self._cut = cut
        self._open_link = open_link
        self._slots = [_Slot(number) for number in range(count)]
        self._number = 0
        self._line: deque[_Turn] = deque()  # calls that wait for a worker
        self._counts: deque[anyio.Event] = deque()
        self._in_vain = 0
        self._attended = False

    # -- what the run asks for

    async def ask(self, provider: str, model: str, request: ModelRequest, observe: Observer | None) -> Completion:
        """Make one request.

        Raises:
            ModelError: if it fails.
            Interrupted: if the worker ended before there was an outcome.
        """
        self._attend()
        slot = await self._place()
        waiting = _Waiting(True, observe)
        number = self._next()
        slot.asked[number] = waiting
        slot.put(Ask(number, provider, model, request, observe is not None))
        try:
            await waiting.done.wait()
        except BaseException:
            waiting.observe = None
            if number in slot.asked:  # its place is free when the worker says that it has ended
                slot.put(Drop(number))
            raise
        outcome = waiting.outcome
        if isinstance(outcome, Answered):
            return outcome.completion
        if isinstance(outcome, Failed):
            raise outcome.error
        if isinstance(outcome, _Broken):
            raise outcome.error
        assert isinstance(outcome, _Lost), "else it has another outcome"
        if outcome.sent:
            self.figures.interrupted += 1
        raise Interrupted(outcome.how, sent=outcome.sent)

    async def count(self, request: ModelRequest) -> int | None:
        """Return the tokens of a request; None: no worker has counted them in time. Counts come in order."""
        self._attend()
        turn, before = anyio.Event(), self._counts[-1] if self._counts else None
        self._counts.append(turn)
        try:
            ready = [slot for slot in self._slots if slot.ready]
            slot = min(ready, key=lambda slot: len(slot.asked), default=None)
            outcome = None
            if slot is not None:
                with anyio.move_on_after(_COUNTING):
                    outcome = await self._outcome(slot, partial(Count, request=request))
            if before is not None:
                await before.wait()
        finally:
            self._counts.remove(turn)
            turn.set()
        return outcome.tokens if isinstance(outcome, Counted) else None

    async def probe(self, provider: str) -> None:
        """Check that an endpoint can be reached. It is called within `opened`.

        Raises:
            UsageError, RunError: see `Connection.probe`.
        """
        await self._look(partial(Probe, provider=provider))

    async def said_of(self, provider: str, model: str) -> Mapping[str, bool]:
        """Return what an endpoint says of a model, after `probe`. It is called within `opened`."""
        return await self._look(partial(Say, provider=provider, model=model))

    async def _look(self, make: Callable[[int], Record]) -> Mapping[str, bool]:
        outcome = await self._outcome(self._slots[0], make)
        if isinstance(outcome, Said):
            return outcome.can
        if isinstance(outcome, Refused):
            raise (UsageError if outcome.usage else RunError)(outcome.message, hint=outcome.hint)
        raise RunError("the worker process for model calls has ended")

    async def _outcome(self, slot: _Slot, make: Callable[[int], Record]) -> _Outcome | None:
        number = self._next()
        waiting = slot.asked[number] = _Waiting()
        slot.put(make(number))
        try:
            await waiting.done.wait()
        finally:
            slot.asked.pop(number, None)
        return waiting.outcome

    def _next(self) -> int:
        self._number += 1
        return self._number

    # -- places

    async def _place(self) -> _Slot:
        """Wait for a worker that has room for a call, in order of arrival. The place is taken when it is returned."""
        if not self._line and (slot := self._with_room()) is not None:
            slot.calls += 1
            return slot
        turn = _Turn()
        self._line.append(turn)
        try:
            await turn.given.wait()
        except BaseException:
            if turn.slot is None:
                self._line.remove(turn)
            else:
                self._free(turn.slot)
            raise
        assert turn.slot is not None, "it was given"
        return turn.slot

    def _with_room(self) -> _Slot | None:
        """Return the worker with the fewest calls that has room for one; None: there is none."""
        ready = [slot for slot in self._slots if slot.ready and slot.calls < self._at_once]
        return min(ready, key=lambda slot: slot.calls, default=None)

    def _free(self, slot: _Slot) -> None:
        """Give back the place of a call."""
        slot.calls -= 1
        self._give()

    def _give(self) -> None:
        """Give free places to the calls that wait."""
        while self._line and (slot := self._with_room()) is not None:
            turn = self._line.popleft()
            turn.slot = slot
            slot.calls += 1
            turn.given.set()

    # -- the processes

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Start the workers before the run, and have them listen within the block. They stay when it ends.

        Raises:
            RunError: if one cannot be started.
        """
        try:
            async with anyio.create_task_group() as group:
                for slot in self._slots:
                    group.start_soon(partial(self._run, slot, strict=True))
                for slot in self._slots:
                    await slot.started.wait()
                yield
                group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    def _attend(self) -> None:
        """Have the workers listen until the end of the run, from its first call on."""
        if not self._attended:
            self._attended = True
            for slot in self._slots:
                self._background().beside(partial(self._run, slot))

    async def _run(self, slot: _Slot, *, strict: bool = False) -> None:
        """Keep a worker in a slot. `strict`: fail if it ends.

        Raises:
            RunError: if workers end again and again.
        """
        while True:
            if slot.link is None:
                slot.link = await self._open_link()
                slot.frames, slot.useful = Frames(), False
                slot.outbox.insert(0, self._start)
                slot.news.set()
            problem = await self._serve(slot, slot.link)
            how = problem or self._cut(await slot.link.ended())
            await slot.link.close(kill=True)
            self._lose(slot, how)
            if strict or self._in_vain > MOST_IN_VAIN:
                again = "" if strict else f"{self._in_vain} times without an answer in between; at last it "
                raise RunError(f"a worker process for model calls {again}{how}", hint=_VAIN_HINT)

    async def _serve(self, slot: _Slot, link: Link) -> str:
        """Listen to a worker until it ends. Return what is wrong with it, or nothing if it has ended by itself."""
        problem = ""
        start = anyio.CancelScope(deadline=float("inf") if slot.ready else anyio.current_time() + _STARTING)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write, slot, link)
                group.start_soon(link.collect_errors)
                with start:
                    while chunk := await link.receive():
                        for body in slot.frames.feed(chunk):
                            self._take(slot, read_from_worker(body))
                        if slot.ready:
                            start.deadline = float("inf")
                group.cancel_scope.cancel()
        except* ValueError as errors:
            problem = f"sent something else than a message: {_first(errors)}"
        return f"did not start in {_STARTING:g} seconds" if start.cancelled_caught else problem

    async def _write(self, slot: _Slot, link: Link) -> None:
        """Send what waits in the outbox. A worker that does not read has this task wait, and nobody else."""
        while True:
            await slot.news.wait()
            slot.news = anyio.Event()
            data = b"".join(slot.outbox)
            slot.outbox.clear()
            if data and not await link.send(data):
                return

    def _take(self, slot: _Slot, message: Any) -> None:
        """Act on a message of a worker."""
        if isinstance(message, Taken):
            slot.taken = max(slot.taken, message.number)
        elif isinstance(message, Part):
            self._show(slot, message)
        elif isinstance(message, Rates):
            self.on_rates[message.provider](message.limits)
        elif isinstance(message, Ready):
            slot.ready = True
            slot.started.set()
            self._give()
        else:
            waiting = slot.asked.pop(message.number, None)
            if waiting is not None:
                waiting.end(message)
                self._in_vain, slot.useful = 0, True
                if waiting.call:
                    self._free(slot)

    def _show(self, slot: _Slot, part: Part) -> None:
        """Show a part of an answer to its observer. If that fails, the call does, and nothing else."""
        waiting = slot.asked.get(part.number)
        if waiting is not None and waiting.observe is not None:
            try:
                waiting.observe(part.delta)
            except Exception as error:
                waiting.observe = None
                waiting.end(_Broken(error))
                slot.put(Drop(part.number))

    def _lose(self, slot: _Slot, how: str) -> None:
        """Note that a worker has ended, with what it was asked."""
        self.figures.replaced += 1
        self._in_vain += not slot.useful
        slot.link, slot.ready = None, False
        asked, slot.asked = slot.asked, {}
        slot.outbox.clear()
        for number, waiting in asked.items():
            waiting.end(_Lost(how, sent=number <= slot.taken))
            slot.calls -= waiting.call

    async def aclose(self) -> None:
        """End the workers."""
        async with anyio.create_task_group() as group:
            for slot in self._slots:
                link, slot.link = slot.link, None
                if link is not None:
                    group.start_soon(link.close)


def edge_workers(access: Access, timeout: float, counted_as: str, background: Callable[[], Background]) -> EdgeWorkers:
    """Return the workers that an operator has asked for. None is started yet.

    Args:
        access: the endpoints, with the number of workers.
        timeout: the most seconds without data from an endpoint.
        counted_as: the model whose tokenizer counts.
        background: returns what runs work beside the run.
    """
    at = {name: access.at(name) for name in access.providers}
    places = {
        name: Place(one.base_url, one.api_key, dict(one.headers), one.models, one.concurrency)
        for name, one in at.items()
    }
    at_once = math.ceil(len(places) * access.concurrency / access.edge_workers)
    start = Start(places, timeout, counted_as)
    return EdgeWorkers(start, access.edge_workers, at_once=at_once, background=background, cut=access.cut)


_VAIN_HINT: Final = "run without --edge-workers to see whether a call fails in this process, too"


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
