"""Worker processes that make the calls of endpoints for a run (edge).

The run decides what is asked, when, and what it costs; a worker sends the request, decodes the answer and counts
tokens. A call goes to the worker with the fewest calls, and a worker has a bounded number of them, so a slow one slows
its own calls only. If a worker ends, another one is started in its place, and its calls are `Interrupted`: the client
repeats them. A worker that is alive but does not answer is killed.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal

import anyio
import attrs

from sim.base.errors import RunError, UsageError
from sim.kernel.ports import Background
from sim.llm.access import Access
from sim.llm.limits.governor import ReportedLimits
from sim.llm.sending import Interrupted, Sending, sending
from sim.llm.types import Completion, ModelError, ModelRequest, Observer
from sim.llm.workers.link import Link, Links, Processes
from sim.llm.workers.messages import (
    Answered,
    Ask,
    Count,
    Counted,
    Drop,
    Dropped,
    Failed,
    Frames,
    Message,
    Part,
    Ping,
    Place,
    Pong,
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
"""How many workers may end one after another, none of which has answered anything. After more, the run ends."""

_STARTING: Final = 60.0  # seconds within which a worker must have started
_OPENING: Final = 180.0  # seconds within which the first ones must have a place to start, which a cluster may lack
_COUNTING: Final = 0.5  # seconds that a count of tokens is waited for, before the run counts itself
_BEAT: Final = 5.0  # seconds between two looks at whether a worker has sent anything
_SILENT: Final = 12  # looks without a sign of life, after which it is killed: a minute

_State = Literal["absent", "starting", "ready", "ended"]
"""The state of a worker. A replacement begins as `absent`. Only one that is `ready` gets calls."""


@attrs.define
class WorkerFigures:
    """What a summary says of the workers of a run.

    Attributes:
        processes: how many there are at a time.
        on_ray: whether they are on a Ray cluster.
        replaced: how many have ended during the run, and were replaced.
        missing: how many have ended, and wait for another one in their place: a cluster may have no free core.
        interrupted: requests that a worker had when it ended, and may have sent.
        counted_late: counts of tokens that no worker made in time, so that the process of the run made them.
    """

    processes: int
    on_ray: bool = False
    replaced: int = 0
    missing: int = 0
    interrupted: int = 0
    counted_late: int = 0


@attrs.frozen
class _Lost:
    """The outcome of what a worker was asked that has ended: how it ended."""

    how: str


@attrs.frozen
class _Broken:
    """The outcome of a call whose observer has failed."""

    error: Exception


_Outcome = Answered | Failed | Dropped | Counted | Said | Refused | _Lost | _Broken


@attrs.define(eq=False)
class _Waiting:
    """What is asked of a worker, until its outcome is there. `call`: it is a request for a model.

    `note.sent` is whether the worker has the request or got a part of it, so that it may send it.
    """

    done: anyio.Event
    call: bool = False
    observe: Observer | None = None
    note: Sending = attrs.field(factory=Sending)
    outcome: _Outcome | None = None

    def end(self, outcome: _Outcome) -> None:
        """Hand over the outcome; the first one counts."""
        if self.outcome is None:
            self.outcome = outcome
            self.done.set()


@attrs.define(eq=False)
class _Turn:
    """A call that waits for a place, until a slot has one for it."""

    granted: anyio.Event = attrs.field(factory=anyio.Event)
    slot: "_Slot | None" = None


@attrs.define(eq=False)
class _Slot:
    """The place of one worker, which its replacements take over.

    Attributes:
        number: from 0.
        link: to the present worker; None: there is none.
        state: of the present worker.
        calls: how many calls it has, with those that are about to get there.
        asked: what it was asked, by number.
        taken: the highest number that it has read, and so may have sent to an endpoint.
        handed: the highest number that was written to it.
        outbox: frames that wait to be written, each with the number of its answer, if it gets one.
        news: set when there are some.
        frames: what has come in of a frame that is not complete.
        heard: how often bytes have come in.
        useful: whether the present worker has had an outcome.
        had_one: whether there was a worker before.
        started: set when the first worker is ready.
    """

    number: int
    link: Link | None = None
    state: _State = "absent"
    calls: int = 0
    asked: dict[int, _Waiting] = attrs.field(factory=dict)
    taken: int = 0
    handed: int = 0
    outbox: list[tuple[int | None, bytes]] = attrs.field(factory=list, repr=False)  # the first frame has the keys
    news: anyio.Event = attrs.field(factory=anyio.Event)
    frames: Frames = attrs.field(factory=Frames, repr=False)
    heard: int = 0
    useful: bool = False
    had_one: bool = False
    started: anyio.Event = attrs.field(factory=anyio.Event)

    def put(self, frame: bytes, number: int | None = None) -> None:
        """Have a frame written as soon as the worker takes it. `number`: that of its answer."""
        self.outbox.append((number, frame))
        self.news.set()

    def emptied(self) -> bytes:
        """Return what waits to be written, which counts as handed over from now on."""
        self.news = anyio.Event()
        for number, _ in self.outbox:
            if number is not None:
                self.handed = max(self.handed, number)
                self.asked[number].note.sent = True
        data = b"".join(frame for _, frame in self.outbox)
        self.outbox.clear()
        return data

    def withdraw(self, number: int) -> bool:
        """Take back what was not written yet, and return whether that was possible."""
        rest = [one for one in self.outbox if one[0] != number]
        withdrawn = len(rest) < len(self.outbox)
        self.outbox = rest
        return withdrawn


class EdgeWorkers:
    """The worker processes of one run.

    Args:
        start: what each worker gets first.
        count: the number of processes.
        at_once: the most calls that a worker has at a time.
        background: returns what runs work beside the run.
        cut: removes secrets from a text.
        links: where workers are started.

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
        links: Links | None = None,
    ) -> None:
        self.figures = WorkerFigures(count, links is not None)
        self.on_rates: dict[str, Callable[[ReportedLimits], None]] = {}
        self._start = start
        self._at_once = at_once
        self._background = background
        self._cut = cut
        self._links = links or Processes()
        self._slots = [_Slot(number) for number in range(count)]
        self._number = 0
        self._line: deque[_Turn] = deque()  # calls that wait for a worker
        self._counts: deque[anyio.Event] = deque()
        self._in_vain = 0
        self._attended = False
        self._event = anyio.Event  # that of the library in use: anyio looks for it at each call
        self._closed = False

    # -- what the run asks for

    async def ask(self, provider: str, model: str, request: ModelRequest, observe: Observer | None) -> Completion:
        """Make one request.

        Raises:
            ModelError: if it fails.
            Interrupted: if the worker ended before there was an outcome.
        """
        self._attend()
        waiting = _Waiting(self._event(), True, observe, sending())
        waiting.note.sent = False
        slot = await self._place()
        number = self._next()
        try:
            frame = framed(Ask(number, provider, model, request, observe is not None))
        except ValueError as error:
            self._free(slot)
            raise ModelError("bad_request", f"the request cannot be sent to a worker process: {error}") from error
        slot.asked[number] = waiting
        slot.put(frame, number)
        try:
            await waiting.done.wait()
        except BaseException:
            self._drop(slot, number)
            raise
        outcome = waiting.outcome
        if isinstance(outcome, Answered):
            return outcome.completion
        if isinstance(outcome, Failed | _Broken):
            raise outcome.error
        assert isinstance(outcome, _Lost), "else it has another outcome"
        self.figures.interrupted += waiting.note.sent
        raise Interrupted(outcome.how, waiting.note)

    def _drop(self, slot: _Slot, number: int) -> None:
        """Have a call end whose answer is no longer needed. Its place is free when the worker says that it has ended,
        or at once, if the worker has not got the request.
        """
        waiting = slot.asked.get(number)
        if waiting is None:
            return
        waiting.observe = None
        if slot.withdraw(number):
            del slot.asked[number]
            self._free(slot)
        else:
            slot.put(framed(Drop(number)))

    async def count(self, request: ModelRequest) -> int | None:
        """Return the tokens of a request; None: no worker has counted them in time, which the figures have.

        Counts come in order.
        """
        self._attend()
        turn, before = anyio.Event(), self._counts[-1] if self._counts else None
        self._counts.append(turn)
        try:
            ready = [slot for slot in self._slots if slot.state == "ready"]
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
        if isinstance(outcome, Counted):
            return outcome.tokens
        self.figures.counted_late += 1
        return None

    async def probe(self, provider: str) -> None:
        """Check that an endpoint can be reached. It is called within `opened`.

        Raises:
            UsageError, RunError: see `Connection.probe`.
        """
        await self._look(partial(Probe, provider=provider))

    async def said_of(self, provider: str, model: str) -> Mapping[str, bool]:
        """Return what an endpoint says of a model, after `probe`. It is called within `opened`."""
        return await self._look(partial(Say, provider=provider, model=model))

    async def _look(self, make: Callable[[int], Message]) -> Mapping[str, bool]:
        outcome = await self._outcome(self._slots[0], make)
        if isinstance(outcome, Said):
            return outcome.can
        if isinstance(outcome, Refused):
            raise (UsageError if outcome.usage else RunError)(outcome.message, hint=outcome.hint)
        raise RunError("the worker process for model calls has ended")

    async def _outcome(self, slot: _Slot, make: Callable[[int], Message]) -> _Outcome | None:
        number = self._next()
        frame = framed(make(number))
        waiting = slot.asked[number] = _Waiting(anyio.Event())
        slot.put(frame, number)
        try:
            await waiting.done.wait()
        finally:
            slot.asked.pop(number, None)
            slot.withdraw(number)
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
            await turn.granted.wait()
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
        ready = [slot for slot in self._slots if slot.state == "ready" and slot.calls < self._at_once]
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
            turn.granted.set()

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
            self._event = type(anyio.Event())
            for slot in self._slots:
                self._background().beside(partial(self._run, slot))

    async def _run(self, slot: _Slot, *, strict: bool = False) -> None:
        """Keep a worker in a slot. `strict`: fail if it ends.

        Raises:
            RunError: if one cannot be started, or if workers end again and again.
        """
        while not self._closed:
            link = slot.link or await self._open(slot, _OPENING if strict else math.inf)
            how = await self._serve(slot, link) or await link.ended()
            await link.close()
            self._lose(slot, how)
            if strict:
                raise RunError(f"a worker process for model calls {how}", hint=_VAIN_HINT)
            if self._in_vain > MOST_IN_VAIN:
                raise RunError(
                    f"{self._in_vain} worker processes for model calls have ended one after another, and none of them"
                    f" had answered anything; the last one {how}",
                    hint=_VAIN_HINT,
                )

    async def _open(self, slot: _Slot, seconds: float) -> Link:
        """Start a worker in a slot.

        Raises:
            RunError: if it cannot be started, or not within so many seconds.
        """
        with anyio.move_on_after(seconds) as waiting:
            slot.link = await self._links.open(self._cut)
        link = slot.link
        if link is None:
            assert waiting.cancelled_caught, "else it is there"
            raise RunError(f"a worker process for model calls had no place within {seconds:g} seconds", hint=_WAITING)
        slot.state, slot.frames, slot.useful = "starting", Frames(), False
        slot.outbox.insert(0, (None, link.first(self._start)))
        slot.news.set()
        self.figures.replaced += slot.had_one
        self.figures.missing -= slot.had_one
        slot.had_one = True
        return link

    async def _serve(self, slot: _Slot, link: Link) -> str:
        """Listen to a worker until it ends. Return what was wrong with it, or nothing if it has ended by itself."""
        problems: list[str] = []
        seconds = _STARTING if slot.state == "starting" else float("inf")
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as start:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write, slot, link)
                group.start_soon(link.collect_errors)
                group.start_soon(self._watch, slot, link, problems)
                try:
                    await self._read(slot, link, start)
                except ValueError as error:
                    problems.append(self._cut(f"sent something else than a message: {error}"))
                    slot.taken = slot.handed  # what it has announced of them may be in what cannot be read
                slot.state = "ended"
                group.cancel_scope.cancel()
        if start.cancelled_caught:
            slot.state = "ended"
            problems.append(f"did not start in {_STARTING:g} seconds")
        return problems[0] if problems else ""

    async def _read(self, slot: _Slot, link: Link, start: anyio.CancelScope) -> None:
        """Act on what a worker sends, until it has ended.

        Raises:
            ValueError: if it sends something else than messages.
        """
        while chunk := await link.receive():
            slot.heard += 1
            for body in slot.frames.feed(chunk):
                self._take(slot, read_from_worker(body))
            if slot.state == "ready":
                start.deadline = float("inf")

    async def _write(self, slot: _Slot, link: Link) -> None:
        """Write what waits in the outbox. A worker that does not read has this task wait, and no other.

        One that takes nothing any more, but has not ended, is killed: what it is asked would never be answered.
        """
        while True:
            await slot.news.wait()
            data = slot.emptied()
            if data and not await link.send(data):
                link.kill()
                return

    async def _watch(self, slot: _Slot, link: Link, problems: list[str]) -> None:
        """Kill a worker that is alive, but does not answer. What it has sent before is still read.

        Time is counted in looks, because this process can have been stopped, too.
        """
        silent = 0
        while silent < _SILENT:
            heard = slot.heard
            await anyio.sleep(_BEAT)
            if slot.heard > heard or slot.state != "ready":
                silent = 0
            else:
                if silent == 0:
                    slot.put(framed(Ping()))
                silent += 1
        problems.append(f"did not answer for {_SILENT * _BEAT:g} seconds")
        link.kill()

    def _take(self, slot: _Slot, message: Any) -> None:
        """Act on a message of a worker."""
        if isinstance(message, Taken):
            if message.number > slot.handed:
                raise ValueError("it has read more than it was sent")
            slot.taken = max(slot.taken, message.number)
        elif isinstance(message, Part):
            self._show(slot, message)
        elif isinstance(message, Rates):
            if message.provider not in self.on_rates:
                raise ValueError("it reports the limits of an endpoint that is not known")
            self.on_rates[message.provider](message.limits)
        elif isinstance(message, Ready):
            slot.state = "ready"
            slot.started.set()
            self._give()
        elif not isinstance(message, Pong):
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
                slot.put(framed(Drop(part.number)))

    def _lose(self, slot: _Slot, how: str) -> None:
        """Note that a worker has ended, with what it was asked: it has sent nothing that it had not announced."""
        self._in_vain += not (slot.useful or self._closed)
        taken = slot.taken if slot.link is None or slot.link.keeps else slot.handed  # what it announced can be lost
        slot.link, slot.state = None, "absent"
        self.figures.missing += 1
        asked, slot.asked = slot.asked, {}
        slot.outbox.clear()
        for number, waiting in asked.items():
            waiting.note.sent = number <= taken
            waiting.end(_Lost(how))
            slot.calls -= waiting.call

    async def aclose(self) -> None:
        """End the workers."""
        self._closed = True
        async with anyio.create_task_group() as group:
            for slot in self._slots:
                link, slot.link = slot.link, None
                if link is not None:
                    group.start_soon(link.close)
        await self._links.close()


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
    start, links = Start(places, timeout, counted_as), None
    if access.ray is not None:
        from sim.llm.workers.ray_link import RayCluster  # its packages are an extra

        links = RayCluster(access.ray, access.edge_workers)
    return EdgeWorkers(start, access.edge_workers, at_once=at_once, background=background, cut=access.cut, links=links)


_WAITING: Final = "on a Ray cluster it waits for a free core; `ray status` says what others use"


_VAIN_HINT: Final = "run without --edge-workers to see whether a call fails in this process, too"


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
