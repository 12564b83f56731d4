"""Answers requests in batches: collects them until the run cannot continue, submits them together, and waits (edge).

A request names the call that it belongs to (`key`, the idempotency key of the effect), which is its id in the batch.
The same call comes again if its request has failed, and after a crash. Counting distinguishes the two: the n-th time
that a call comes in this process, it belongs to the n-th batch on note that has it, if there is one. So a resumed run
finds each request in the batch in which it was, with the same errors in the same order, and submits nothing twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import anyio
import attrs

from sim.base.crashpoints import reach
from sim.llm.batches.jobs import BatchJobs, no_result
from sim.llm.batches.lines import AT_ONCE, Result, request_line
from sim.llm.batches.notes import Note
from sim.llm.batches.place import Place, Waiting
from sim.llm.batches.settings import Batching
from sim.llm.capabilities import Can
from sim.llm.providers.openai.batch import BatchApi, BatchState
from sim.llm.providers.openai.body import body_of
from sim.llm.providers.openai.provider import CHAT, EMBEDDINGS, OpenAIProvider
from sim.llm.types import Completion, ModelError, ModelRequest, Observer

PATIENCE: Final = 60.0
"""The longest time in real seconds that a batch waits for other work outside, such as tools, and calls that wait for
their next attempt.
"""


@attrs.define(eq=False)
class _Call:
    """A request that waits for its result."""

    key: str
    path: str
    model: str
    line: bytes
    weight: int  # as the limit of requests counts it
    done: anyio.Event = attrs.field(factory=anyio.Event)
    result: Result = attrs.field(factory=Result)
    batch: str = ""


@attrs.define(eq=False)
class _Batch:
    """A batch that this process follows.

    Attributes:
        content: the lines of its requests, or None if another process has planned it.
        calls: the calls that wait for it, by key.
        state: its final state, when all results were read.
        results: the results that no call has taken yet, by key.
    """

    note: Note
    content: bytes | None = None
    calls: dict[str, _Call] = attrs.field(factory=dict)
    state: BatchState | None = None
    results: dict[str, Result] = attrs.field(factory=dict)

    def take(self, key: str) -> Result:
        """Return the result of a request, for its call."""
        assert self.state is not None, "all results were read"
        return self.results.pop(key, None) or Result(error=no_result(self.state))


class BatchProvider:
    """Answers requests through the batches of one endpoint.

    Args:
        online: answers requests without a key at once, and reads the answers of all others.
        batching: the settings of the operator.
        place: returns the run that the batches belong to.
        others: returns how many requests wait at further providers of this kind.
    """

    def __init__(
        self,
        online: OpenAIProvider,
        batching: Batching,
        place: Callable[[], Place],
        others: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = online.name
        self._online = online
        self._jobs = BatchJobs(online.name, BatchApi(online.connection), batching, lambda: place().notes)
        self._batching = batching
        self._place = place
        self._others = others
        self._collected: dict[str, _Call] = {}  # by key
        self._changed = anyio.Event()
        self._patience: float | None = None  # the time of the loop until which other work is waited for
        self._collecting = False
        self._batches: dict[int, _Batch] = {}  # by number
        self._times: Counter[str] = Counter()  # by key: how often a call has come
        self._unsettled: set[str] = set()  # the keys of calls that have no result

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request. An observer gets the whole answer at once.

        Raises:
            ModelError: if the request fails, or its batch.
        """
        if not request.key:
            return await self._online.complete(model, request, observe)
        call = self._call(model, request)
        self._unsettled.add(call.key)
        try:
            self._enter(call)
            await call.done.wait()
        finally:
            self._leave(call)
        return self._read(call, request, observe)

    @property
    def unsettled(self) -> int:
        """The number of requests that have no result."""
        return len(self._unsettled)

    @property
    def waiting(self) -> Waiting | None:
        """What is under way, or None."""
        live = [batch for batch in list(self._batches.values()) if batch.state is None and batch.calls]
        if not live:
            return None
        return Waiting(sum(len(batch.calls) for batch in live), len(live), min(batch.note.at for batch in live))

    async def probe(self) -> None:
        """Check that the endpoint can be reached: see `Connection.probe`."""
        await self._online.probe()
        await self._online.connection.probe_batches()

    async def said_of(self, model: str) -> Can:
        """Return what the endpoint says of a model: see `OpenAIProvider.said_of`."""
        return await self._online.said_of(model)

    def without_formats(self, model: str) -> None:
        """Send no JSON Schema that is only preferred to a model."""
        self._online.without_formats(model)

    async def aclose(self) -> None:
        """Close all connections. Batches under way stay at the endpoint."""
        await self._online.aclose()

    async def tidy(self) -> None:
        """Cancel the batches that are under way and delete all files, as far as the endpoint allows it.

        The run has ended and is on record.
        """
        notes = self._place().notes
        for note in notes.pending:
            if note.provider == self.name:
                batch = self._batches.get(note.number)
                if batch is None or batch.state is None:
                    await self._jobs.cancel(note)
                await self._jobs.clear(note)

    # -- calls

    def _call(self, model: str, request: ModelRequest) -> _Call:
        path = EMBEDDINGS if request.texts else CHAT
        access = self._online.connection.access
        if not access.is_openai:  # whether another endpoint keeps a format is found out online only
            request = attrs.evolve(request, preferred_format=None)
        body = body_of(access, model, request, stream=False)
        line = request_line(request.key, path, body)
        if len(line) > self._batching.bytes:
            raise ModelError("bad_request", f"the request has {len(line)} bytes, more than a batch may have")
        return _Call(request.key, path, model, line, max(1, len(request.texts)))

    def _enter(self, call: _Call) -> None:
        """Let a call wait for the batch that has it, or collect it for the next one."""
        noted = self._place().notes.of(call.key)
        times = self._times[call.key]
        self._times[call.key] += 1
        if times < len(noted):
            self._join(noted[times], call)
        else:
            self._collect([call])

    def _join(self, note: Note, call: _Call) -> None:
        batch = self._batches.get(note.number)
        if note.failure is not None:
            self._settle(call, Result(error=note.failure), "")
        elif batch is None:
            self._follow(_Batch(note, calls={call.key: call}))
        elif batch.state is None:
            batch.calls[call.key] = call
        else:
            self._settle(call, batch.take(call.key), batch.state.id)

    def _settle(self, call: _Call, result: Result, batch: str) -> None:
        """Hand a result over to a call."""
        call.result, call.batch = result, batch
        self._unsettled.discard(call.key)
        call.done.set()

    def _leave(self, call: _Call) -> None:
        """Forget a call that has its result, or was cancelled."""
        self._unsettled.discard(call.key)
        self._patience = None  # the run can continue
        if self._collected.get(call.key) is call:
            del self._collected[call.key]
        for note in self._place().notes.of(call.key):
            if (batch := self._batches.get(note.number)) is not None and batch.calls.get(call.key) is call:
                del batch.calls[call.key]
        self._tell()

    def _read(self, call: _Call, request: ModelRequest, observe: Observer | None) -> Completion:
        assembly = self._online.assembly(call.model, request, observe)
        error = call.result.error
        if error is None:
            try:
                assembly.feed_whole(call.result.body)
                return attrs.evolve(self._online.completion(assembly), batch=call.batch)
            except ModelError as fault:
                error = fault
                error.usage = error.usage or assembly.usage()
        after = AT_ONCE if error.retry_after is None and call.batch else error.retry_after
        raise ModelError(error.kind, self._online.connection.said(str(error)), retry_after=after, usage=error.usage)

    # -- collecting

    def _collect(self, calls: Iterable[_Call]) -> None:
        self._collected.update((call.key, call) for call in calls)
        self._tell()
        if not self._collecting:
            self._collecting = True
            self._place().background.beside(self._submit_when_idle)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _submit_when_idle(self) -> None:
        """Submit what was collected each time that the run cannot continue without it.

        Other work outside can let the run continue, so it is waited for, but not longer than `PATIENCE`.
        """
        try:
            while True:
                while not self._collected:
                    await self._changed.wait()
                busy = await self._place().background.idle() - self.unsettled - self._others()
                if self._patience is None:
                    self._patience = anyio.current_time() + PATIENCE
                left = self._patience - anyio.current_time()
                if busy > 0 and left > 0:
                    with anyio.move_on_after(left):
                        await self._changed.wait()
                    continue
                self._patience = None
                if busy <= 0:
                    self._clear_settled()
                self._submit()
        finally:
            self._collecting = False

    def _submit(self) -> None:
        collected, self._collected = self._collected, {}
        groups: dict[tuple[str, str], list[_Call]] = {}
        for key in sorted(collected):
            call = collected[key]
            groups.setdefault((call.path, call.model), []).append(call)  # a batch has one path and one model
        for (path, model), calls in groups.items():
            for part in self._parts(calls):
                note = self._place().notes.plan(self.name, path, model, tuple(call.key for call in part))
                content = b"".join(call.line for call in part)
                for call in part:
                    call.line = b""
                self._follow(_Batch(note, content, {call.key: call for call in part}))

    def _parts(self, calls: Iterable[_Call]) -> Iterable[list[_Call]]:
        """Split calls so that no part exceeds the limits of a batch."""
        part: list[_Call] = []
        weight = size = 0
        for call in calls:
            weight, size = weight + call.weight, size + len(call.line)
            if part and (weight > self._batching.requests or size > self._batching.bytes):
                yield part
                part, weight, size = [], call.weight, len(call.line)
            part.append(call)
        if part:
            yield part

    # -- one batch

    def _follow(self, batch: _Batch) -> None:
        self._batches[batch.note.number] = batch
        self._place().background.beside(partial(self._carry, batch))

    async def _carry(self, batch: _Batch) -> None:
        """Submit a batch, or find it again, wait for its end, and hand over the results."""
        note = batch.note
        try:
            if note.batch is None and not (await self._begin(batch)):
                return
        except ModelError as error:
            self._place().notes.failed(note, error)
            del self._batches[note.number]
            for call in list(batch.calls.values()):
                self._settle(call, Result(error=error), "")
            return
        state = await self._jobs.end_of(note)
        batch.results = await self._jobs.results(note, state)
        batch.state = state
        reach("batch.ended")
        for call in list(batch.calls.values()):
            self._settle(call, batch.take(call.key), state.id)

    async def _begin(self, batch: _Batch) -> bool:
        """Submit a batch of this process, or find one of an earlier process. Return whether the endpoint has it.

        Raises:
            ModelError: if the endpoint refuses it.
        """
        note, notes = batch.note, self._place().notes
        content, batch.content = batch.content, None
        state = await (self._jobs.find(note) if content is None else self._jobs.submit(note, content))
        if state is not None:
            notes.submitted(note, state.id)
            return True
        await self._jobs.forget_file(note)
        notes.drop(note)
        del self._batches[note.number]
        self._times.subtract(batch.calls.keys())
        for call in list(batch.calls.values()):
            self._enter(call)
        return False

    # -- files

    def _clear_settled(self) -> None:
        """Delete the files of batches whose answers are all on record."""
        for number, batch in list(self._batches.items()):
            if batch.state is not None and self._unsettled.isdisjoint(batch.note.ids):
                del self._batches[number]
                for id in batch.note.ids:
                    self._times.pop(id, None)
                self._place().background.beside(partial(self._jobs.clear, batch.note))
