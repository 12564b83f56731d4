"""The real client: chat completions and embeddings of any OpenAI-compatible endpoint (edge).

It makes one attempt and reports the result. The fields of a response are checked in `answer`, its size and its texts in
`connection`.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from sim.kernel.codec import Json
from sim.llm.access import Access
from sim.llm.capabilities import Can, is_of_ollama, said_by, said_by_ollama
from sim.llm.embeddings import EmbeddingAssembly
from sim.llm.limits.governor import ReportedLimits
from sim.llm.limits.retry import DEFAULT_TIMEOUT
from sim.llm.providers.openai.answer import Assembly
from sim.llm.providers.openai.body import body_of
from sim.llm.providers.openai.connection import Connection
from sim.llm.providers.openai.formats import Formats
from sim.llm.tokens import APPROXIMATE, Tokenizer, count_request
from sim.llm.types import Completion, Delta, ModelError, ModelRequest, Observer

if TYPE_CHECKING:
    import openai

CHAT: Final = "/chat/completions"
EMBEDDINGS: Final = "/embeddings"


class OpenAIProvider:
    """Answers requests through one endpoint.

    Args:
        access: the endpoint, the key and the headers.
        name: the provider name of its models.
        tokenizer: estimates the usage that an endpoint does not report.
        on_rates: called with the limits that a response reports.
        timeout: the most seconds without data from the endpoint. The client sets the same limit for a whole request.

    Attributes:
        connection: the connection to the endpoint.
    """

    def __init__(
        self,
        access: Access,
        *,
        name: str = "openai",
        tokenizer: Tokenizer = APPROXIMATE,
        on_rates: Callable[[ReportedLimits], None] = lambda rates: None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.name = name
        self.connection = Connection(access, name=name, on_rates=on_rates, timeout=timeout)
        self._tokenizer = tokenizer
        self._formats = Formats()
        self._listing: object = None

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request. The answer is streamed if the request asks for it or if there is an observer.

        A `preferred_format` is sent if the endpoint enforces it, as `Formats` finds out.

        Raises:
            ModelError: if the request fails.
        """
        if request.preferred_format is not None:
            return await self._formats.complete(model, request, lambda request: self.once(model, request, observe))
        return await self.once(model, request, observe)

    async def once(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request by one request over HTTP, with all of its fields.

        Raises:
            ModelError: if it fails.
        """
        assembly = self.assembly(model, request, observe)
        failure = await self._exchange(model, request, assembly, stream=request.stream or observe is not None)
        lost_after_the_end = failure is not None and failure.kind in ("network", "timeout") and assembly.over
        if failure is not None and not lost_after_the_end:
            raise failure
        return self.completion(assembly)

    def assembly(
        self, model: str, request: ModelRequest, observe: Observer | None = None
    ) -> Assembly | EmbeddingAssembly:
        """Return the object that reads the answer to a request. An observer sees no secret."""
        if request.texts:
            return EmbeddingAssembly(request, model, self._tokenizer)
        follow = None if observe is None else self._discreet(observe)
        return Assembly(request, model, self._tokenizer, follow)

    def completion(self, assembly: Assembly | EmbeddingAssembly) -> Completion:
        """Return the answer that was read, without secrets.

        Raises:
            ModelError: if it is not complete, or malformed.
        """
        try:
            return self.connection.clean(assembly.completion())
        except ModelError as error:
            raise ModelError(error.kind, self.connection.said(str(error)), usage=error.usage) from None

    async def probe(self) -> None:
        """Check that the endpoint can be reached: see `Connection.probe`."""
        self._listing = await self.connection.probe()

    async def said_of(self, model: str) -> Can:
        """Return what the endpoint says that a model can do, after `probe`. It costs nothing."""
        if is_of_ollama(self._listing):
            return said_by_ollama(await self.connection.show(model))
        return said_by(self._listing, model)

    def without_formats(self, model: str) -> None:
        """Send no JSON Schema that is only preferred to a model, without trying."""
        self._formats.enforced[model] = False

    async def aclose(self) -> None:
        """Close all connections."""
        await self.connection.aclose()

    async def _exchange(
        self, model: str, request: ModelRequest, assembly: Assembly | EmbeddingAssembly, *, stream: bool
    ) -> ModelError | None:
        """Send a request, pass the response to `assembly`, and return the error, if any."""

        async def exchange(client: "openai.AsyncOpenAI") -> None:
            try:
                if stream and isinstance(assembly, Assembly):
                    await self._stream(client, model, request, assembly)
                else:
                    path = EMBEDDINGS if request.texts else CHAT
                    body = self._body(model, request, stream=False)
                    whole = await client.post(
                        path, cast_to=object, content=body, options={"headers": self.connection.anonymous()}
                    )
                    assembly.feed_whole(whole)
            except ModelError as error:
                error.usage = error.usage or assembly.usage()
                raise

        def most_tokens() -> float:
            return count_request(self._tokenizer, request) + (request.sampling.max_tokens or 0)

        failure = await self.connection.use(exchange, most_tokens=most_tokens)
        if failure is not None and failure.usage is None and assembly.begun:
            failure.usage = assembly.usage()
        return failure

    async def _stream(
        self, client: "openai.AsyncOpenAI", model: str, request: ModelRequest, assembly: Assembly
    ) -> None:
        """Pass a streamed answer to `assembly`, to its end, so that the connection can be reused.

        A server that cannot stream sends the whole answer in one response.

        The chunks are plain JSON values, because the library does not check the fields that its own types declare. It
        leaves its generators to garbage collection, so trio warns in development mode; the connection is released.
        """
        import openai

        body = self._body(model, request, stream=True)
        stream = await client.post(
            CHAT,
            cast_to=object,
            stream=True,
            stream_cls=openai.AsyncStream[object],
            content=body,
            options={"headers": self.connection.anonymous()},
        )
        async with stream:
            if stream.response.headers.get("content-type", "").startswith("application/json"):
                whole = await stream.response.aread()
                if whole.lstrip().startswith(b"{"):  # otherwise it is a stream with a wrong content type
                    assembly.feed_whole(json.loads(whole))
                    return
            async for chunk in stream:
                assembly.feed(chunk)

    def _body(self, model: str, request: ModelRequest, *, stream: bool) -> bytes:
        return _json(body_of(self.connection.access, model, request, stream=stream))

    def _discreet(self, observe: Observer) -> Observer:
        """Wrap an observer so that it sees no secret, unless a secret is split over two parts."""
        cut = self.connection.cut

        def follow(delta: Delta) -> None:
            observe(attrs.evolve(delta, text=cut(delta.text), tool=cut(delta.tool)))

        return follow


def _json(body: dict[str, Json]) -> bytes:
    """Return a body as JSON with its keys in order: models write the fields of an answer in that of its schema."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
