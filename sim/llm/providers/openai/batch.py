"""Files and batches of an OpenAI-compatible endpoint (edge). Each method makes its requests once."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from sim.llm.providers.openai.connection import Connection
from sim.llm.types import ModelError

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

MAX_LINE: Final = 8 * 2**20
"""The most bytes of a line of a file. A longer line is skipped."""

_LONGEST: Final = 600.0  # real seconds for one step; an upload may have 200 MB
_PAGE: Final = 100
_PAGES: Final = 100  # the newest come first, and a batch that is looked for is new
_OVER: Final = ("completed", "failed", "expired", "cancelled")
_KEY: Final = "sim_batch"


@attrs.frozen
class BatchState:
    """What an endpoint says about a batch.

    Attributes:
        id: the id of the batch.
        status: its status.
        files: the ids of the files with its answers and its errors.
        errors: why the whole batch failed: code, message, and line of the file or None.
    """

    id: str
    status: str
    files: tuple[str, ...] = ()
    errors: tuple[tuple[str, str, int | None], ...] = ()

    @property
    def over(self) -> bool:
        """Whether no request of it will be answered any more."""
        return self.status in _OVER


class BatchApi:
    """The files and batches of one endpoint.

    Args:
        connection: the connection to the endpoint.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def upload(self, name: str, content: bytes) -> str:
        """Upload a file of requests and return its id.

        Raises:
            ModelError: if the endpoint does not accept it.
        """

        async def work(client: "openai.AsyncOpenAI") -> str:
            file = (name, content, "application/jsonl")
            return _id(await client.files.create(file=file, purpose="batch", extra_headers=self._headers()))

        return await self._call(work)

    async def create(self, file: str, path: str, key: str) -> BatchState:
        """Submit the requests of a file.

        Args:
            file: the id of the file.
            path: the path of all requests below `/v1`.
            key: a key by which `find` finds the batch.

        Raises:
            ModelError: if the endpoint does not accept them.
        """
        arguments: Any = {"endpoint": f"/v1{path}", "completion_window": "24h"}  # the library has fewer paths

        async def work(client: "openai.AsyncOpenAI") -> BatchState:
            headers = self._headers({"Idempotency-Key": key})
            made = client.batches.create(**arguments, input_file_id=file, metadata={_KEY: key}, extra_headers=headers)
            return _state(await made)

        return await self._call(work)

    async def retrieve(self, id: str) -> BatchState:
        """Return the state of a batch.

        Raises:
            ModelError: if the endpoint does not say.
        """
        return await self._call(
            lambda client: _then(client.batches.retrieve(id, extra_headers=self._headers()), _state)
        )

    async def cancel(self, id: str) -> None:
        """Cancel a batch. Answers that it has by then stay available.

        Raises:
            ModelError: if the endpoint does not accept that.
        """
        await self._call(lambda client: _then(client.batches.cancel(id, extra_headers=self._headers()), _state))

    async def find(self, key: str) -> BatchState | None:
        """Return the batch that was submitted with a key, or None if there is none.

        Raises:
            ModelError: if the endpoint does not say.
        """

        async def work(client: "openai.AsyncOpenAI") -> BatchState | None:
            wanted = lambda batch: _key(batch) == key  # noqa: E731
            submitted = await _first(client.batches.list, wanted, extra_headers=self._headers())
            return None if submitted is None else _state(submitted)

        return await self._call(work)

    async def find_file(self, name: str) -> str | None:
        """Return the id of the uploaded file with a name, or None if there is none.

        Raises:
            ModelError: if the endpoint does not say.
        """

        async def work(client: "openai.AsyncOpenAI") -> str | None:
            wanted = lambda file: getattr(file, "filename", None) == name  # noqa: E731
            uploaded = await _first(client.files.list, wanted, purpose="batch", extra_headers=self._headers())
            return None if uploaded is None else _id(uploaded)

        return await self._call(work)

    async def read(self, file: str, take: Callable[[bytes], None]) -> None:
        """Pass each line of a file to `take`.

        Raises:
            ModelError: if the file cannot be read to its end.
        """

        async def work(client: "openai.AsyncOpenAI") -> None:
            async with client.files.with_streaming_response.content(file, extra_headers=self._headers()) as response:
                await _lines(response.iter_bytes(), take)

        await self._call(work)

    async def delete(self, file: str) -> None:
        """Delete a file.

        Raises:
            ModelError: if the endpoint does not accept that.
        """
        await self._call(lambda client: client.files.delete(file, extra_headers=self._headers()))

    async def _call(self, work: Callable[["openai.AsyncOpenAI"], Awaitable[T]]) -> T:
        outcome: T | ModelError = ModelError("timeout", f"the endpoint took longer than {_LONGEST:g} s")
        with anyio.move_on_after(_LONGEST):
            outcome = await self._connection.use(work)
        if isinstance(outcome, ModelError):
            raise outcome
        said = outcome.id if isinstance(outcome, BatchState) else outcome
        if isinstance(said, str) and self._connection.cut(said) != said:
            raise ModelError("malformed", "the endpoint sent an id that contains a secret")
        return outcome

    def _headers(self, more: Mapping[str, str] | None = None) -> "dict[str, str | openai.Omit]":
        return {**self._connection.anonymous(), **(more or {})}


async def _then(request: Awaitable[Any], read: Callable[[Any], T]) -> T:
    return read(await request)


async def _first(list_page: Callable[..., Any], wanted: Callable[[Any], bool], **arguments: Any) -> Any:
    """Return the first object of a list that is wanted, or None. The list comes page by page, the newest first."""
    after: dict[str, str] = {}
    for _ in range(_PAGES):
        page = await list_page(limit=_PAGE, **after, **arguments)
        items = page.data if isinstance(getattr(page, "data", None), list) else []
        first = next(filter(wanted, items), None)
        if first is not None or not items or getattr(page, "has_more", None) is not True:
            return first
        after = {"after": _id(items[-1])}
    return None


async def _lines(chunks: AsyncIterator[bytes], take: Callable[[bytes], None]) -> None:
    """Split chunks at line feeds only, because other separators may be part of a text."""
    rest = b""
    skipping = False
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if not skipping and line.strip():
                take(line)
            skipping = False
        if len(rest) > MAX_LINE:
            rest, skipping = b"", True
    if rest.strip() and not skipping:
        take(rest)


def _id(value: Any) -> str:
    """Return the id of an object."""
    id = getattr(value, "id", None)
    if not isinstance(id, str) or not 0 < len(id) <= 500:
        raise ModelError("malformed", "the endpoint sent an object without an id")
    return id


def _state(value: Any) -> BatchState:
    """Return the checked state of a batch. The library does not check the fields that its own types declare."""
    id, status = _id(value), getattr(value, "status", None)
    if not isinstance(status, str):
        raise ModelError("malformed", "the endpoint sent a batch without a status")
    named = (getattr(value, name, None) for name in ("output_file_id", "error_file_id"))
    files = tuple(file for file in named if isinstance(file, str) and file)
    reasons = getattr(getattr(value, "errors", None), "data", None)
    errors = [
        (str(getattr(reason, "code", "")), str(getattr(reason, "message", "")), _line(reason))
        for reason in (reasons if isinstance(reasons, list) else [])
    ]
    return BatchState(id, status.lower(), files, tuple(errors))


def _key(value: Any) -> object:
    metadata = getattr(value, "metadata", None)
    return metadata.get(_KEY) if isinstance(metadata, Mapping) else None


def _line(reason: Any) -> int | None:
    line = getattr(reason, "line", None)
    return line if type(line) is int else None
