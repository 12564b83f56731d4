"""Batches at an endpoint: to submit or find one, to wait for its end, to read its results, to delete files (edge)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio

from sim.base.crashpoints import reach
from sim.base.errors import RunError
from sim.llm.batches.lines import Result, failure_of, read_result
from sim.llm.batches.notes import Note, Notes
from sim.llm.batches.settings import Batching
from sim.llm.providers.openai.batch import BatchApi, BatchState
from sim.llm.types import ErrorClass, ModelError

T = TypeVar("T")

_CANCELLING: Final = 900.0
"""Real seconds that an endpoint has to end a batch that was cancelled, or to come back if it cannot be reached."""

_SETTLING: Final = 5.0
"""Real seconds after which a batch that was submitted while the process was killed must be in the list of batches."""

_UNCLEAR: Final[tuple[ErrorClass, ...]] = ("network", "timeout", "server", "overload", "malformed", "incomplete")
"""Errors after which it is not known whether the endpoint did what it was asked for."""

_MISSING: Final[dict[str, tuple[ErrorClass, str]]] = {
    "expired": ("timeout", "the batch expired before the request was answered"),
    "cancelled": ("timeout", "the batch was cancelled before the request was answered"),
    "gone": ("server", "the endpoint does not know the batch any more"),
}
"""By status of a batch: the error of a request without a result."""

_RESUME: Final = "the batch stays at the endpoint, and sim resume waits for it"


class BatchJobs:
    """The batches of one endpoint.

    Args:
        provider: the name of the endpoint.
        api: its files and batches.
        batching: the settings of the operator.
        notes: returns the notes of the run.
    """

    def __init__(self, provider: str, api: BatchApi, batching: Batching, notes: Callable[[], Notes]) -> None:
        self._provider = provider
        self._api = api
        self._batching = batching
        self._notes = notes

    async def submit(self, note: Note, content: bytes) -> BatchState:
        """Submit a batch that is on note.

        Args:
            note: the note.
            content: the lines of its requests.

        Raises:
            ModelError: if the endpoint refuses it.
            RunError: if it is not known whether the endpoint has it.
        """
        reach("batch.noted")
        try:
            file = await self._api.upload(_name(note), content)
        except ModelError as error:
            if error.kind == "not_found":
                raise ModelError("not_found", f"the endpoint has no batches ({error})") from None
            raise
        reach("batch.uploaded")
        self._notes().uploaded(note, file)
        try:
            state = await self._api.create(file, note.path, note.key)
        except ModelError as error:
            submitted = await self.find(note) if error.kind in _UNCLEAR else None
            if submitted is None:
                await self._delete(file)
                raise error from None
            state = submitted
        reach("batch.created")
        return state

    async def find(self, note: Note) -> BatchState | None:
        """Return the batch that may have been submitted, or None if it was not.

        Raises:
            RunError: if the endpoint does not say.
        """
        look = partial(self._patiently, note, partial(self._api.find, note.key))
        try:
            batch: BatchState | None = await look()
            if batch is None:  # it can have been on its way when the process was killed
                await anyio.sleep(min(self._batching.poll, _SETTLING))
                batch = await look()
        except ModelError as error:
            raise RunError(
                f"{self._provider} does not list its batches, so it is not known whether one was submitted: {error}",
                hint="look there, and continue online with: sim resume RUN --no-batch",
            ) from None
        return batch

    async def end_of(self, note: Note) -> BatchState:
        """Wait until a batch is over, and return its final state. Cancel it if it takes too long.

        Raises:
            RunError: if the endpoint does not say, or does not end it.
        """
        id, notes = note.batch, self._notes()
        assert id is not None, "it was submitted"
        limit = note.at + self._batching.wait
        cancelled = False
        while True:
            try:
                state = await self._patiently(note, partial(self._api.retrieve, id))
            except ModelError:
                return BatchState(id, "gone")
            if state.over:
                return state
            if notes.now() > limit and cancelled:
                raise RunError(f"the batch {id} does not end, although it was cancelled", hint=_RESUME)
            if notes.now() > limit:
                cancelled, limit = True, notes.now() + _CANCELLING
                with suppress(ModelError):
                    await self._api.cancel(id)
            await anyio.sleep(self._batching.poll)

    async def results(self, note: Note, state: BatchState) -> dict[str, Result]:
        """Return the result of each request of a batch that is over, by id.

        Raises:
            RunError: if they cannot be read.
        """
        results: dict[str, Result] = {}
        wanted = frozenset(note.ids)

        def take(line: bytes) -> None:
            numbered = read_result(line)
            if numbered is not None and numbered[0] in wanted:
                results.setdefault(*numbered)

        for file in state.files:
            with suppress(ModelError):  # the file is gone, and so are the results in it
                await self._patiently(note, partial(self._api.read, file, take))
        reasons = _reasons(note, state)
        return {id: results.get(id) or Result(error=reasons.get(id) or no_result(state)) for id in note.ids}

    async def cancel(self, note: Note) -> None:
        """Cancel a batch, also if it is not known whether it was submitted, and if the endpoint allows it."""
        with suppress(ModelError):
            id = note.batch
            if id is None and note.failure is None and (batch := await self._api.find(note.key)) is not None:
                id = batch.id
            if id is not None:
                await self._api.cancel(id)

    async def clear(self, note: Note) -> None:
        """Delete the files of a batch whose answers are on record, as far as the endpoint allows it."""
        if note.batch is not None:
            with suppress(ModelError):
                for file in (await self._api.retrieve(note.batch)).files:
                    await self._delete(file)
        await self.forget_file(note)
        self._notes().clear(note)

    async def forget_file(self, note: Note) -> None:
        """Delete the file of requests, also if the process was killed before it knew the id."""
        with suppress(ModelError):
            file = note.file or await self._api.find_file(_name(note))
            if file is not None:
                await self._delete(file)

    async def _delete(self, file: str) -> None:
        with suppress(ModelError):
            await self._api.delete(file)

    async def _patiently(self, note: Note, work: Callable[[], Awaitable[T]]) -> T:
        """Do work at the endpoint, and repeat it until the endpoint can be reached.

        Raises:
            ModelError: of the kind `not_found`, if the endpoint does not have what the work is about.
            RunError: if the endpoint refuses it, or cannot be reached for long.
        """
        limit = max(note.at + self._batching.wait, self._notes().now()) + _CANCELLING
        while True:
            try:
                return await work()
            except ModelError as error:
                failed = error
            if failed.kind == "not_found":
                raise failed
            if failed.kind not in (*_UNCLEAR, "rate_limit") or self._notes().now() > limit:
                raise RunError(f"{self._provider} does not say what became of a batch: {failed}", hint=_RESUME)
            await anyio.sleep(self._batching.poll)


def _name(note: Note) -> str:
    return f"sim-{note.key}.jsonl"


def no_result(state: BatchState) -> ModelError:
    """Return the error of a request without a result."""
    return ModelError(*_MISSING.get(state.status, ("malformed", "the batch has no result for the request")))


def _reasons(note: Note, state: BatchState) -> dict[str, ModelError]:
    """Return the errors of a batch that was not accepted, by the id of the request.

    An error of one line is the error of its request. All other requests have failed because of it, and can be repeated.
    """
    if state.status != "failed":
        return {}
    whole = [failure_of(code, message) for code, message, line in state.errors if line is None]
    reason = whole[0] if whole else ModelError("server", "the endpoint did not accept the batch")
    reasons = dict.fromkeys(note.ids, reason)
    for code, message, line in state.errors:
        if line is not None and 1 <= line <= len(note.ids):
            reasons[note.ids[line - 1]] = ModelError("bad_request", f"{code}: {message}"[:1000])
    return reasons
