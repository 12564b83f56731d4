"""The real client: chat completions of any OpenAI-compatible endpoint, over AsyncOpenAI, on asyncio and on trio (edge).

It makes one attempt (`max_retries=0`) and reports the result. Responses are not trusted. Their size is bounded
(`transport`) and their fields are checked (`answer`). Redirects are refused, so that the key is not sent elsewhere. The
key is removed from every text. Proxies and keys in the environment are ignored. The import of `openai` takes a second,
so it happens at the first call.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from sim.errors import RunError, SimError, UsageError
from sim.llm.access import OPENAI_URL, Access
from sim.llm.answers import TOOL_CHOICES
from sim.llm.embeddings import EmbeddingAssembly
from sim.llm.limits.governor import ReportedLimits
from sim.llm.limits.retry import DEFAULT_TIMEOUT, parse_retry_after
from sim.llm.providers.openai.answer import Assembly
from sim.llm.providers.openai.errors import classify, read_rates, reset_after
from sim.llm.tokens import APPROXIMATE, Tokenizer, count_request
from sim.llm.types import ChatMessage, Completion, Delta, ErrorClass, ModelError, ModelRequest, Observer

if TYPE_CHECKING:
    import openai

CONNECTIONS: Final = 256
"""The most concurrent connections: more than a governor admits."""

CONNECT_TIMEOUT: Final = 10.0
"""Time limit in seconds for a connection and for a place in the pool. A longer wait for a place means a leak."""

CONNECT_SHARE: Final = 0.4
"""The largest share of a request's time limit for each step of a connection (TCP, then TLS)."""

PROBE_TIMEOUT: Final = 10.0
"""Time limit of the probe in seconds. A slower endpoint counts as reachable."""

_PATH: Final = "/chat/completions"

_EMBEDDINGS: Final = "/embeddings"
_MODELS: Final = "/models"

_KEY_HINT: Final = "set the key in OPENAI_API_KEY, or in a header"

_DEAD_HINT: Final = "check that the server is running and that the base URL is right"

_LONGEST_DETAIL: Final = 300

_LOGGERS: Final = ("httpcore2.connection", "httpcore2.http11", "httpx2", "openai._base_client")
"""The loggers that can log the traffic, which can contain secrets that the endpoint repeats."""


class _Discretion(logging.Filter):
    """Removes secrets from log records of the libraries."""

    def __init__(self, cut: Callable[[str], str]) -> None:
        super().__init__()
        self._cut = cut

    def filter(self, record: logging.LogRecord) -> bool:
        """Accept every record, without its secrets."""
        record.msg, record.args = self._cut(record.getMessage()), ()
        return True


@attrs.define
class _Pool:
    """A client with its connections, and the number of calls that use it."""

    client: "openai.AsyncOpenAI"
    calls: int = 0


class OpenAIProvider:
    """Answers requests through one endpoint.

    Args:
        access: the endpoint, the key and the headers. No text of this class contains them.
        name: the provider name of its models.
        tokenizer: estimates the usage that an endpoint does not report.
        on_rates: called with the limits that a response reports.
        timeout: the most seconds without data from the endpoint. The client sets the same limit for a whole request.
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
        self._access = access
        self._timeout = timeout
        self._connections = max(CONNECTIONS, access.concurrency)
        self._cut = access.cut
        self._tokenizer = tokenizer
        self._on_rates = on_rates
        self._pool: _Pool | None = None
        self._discretion = _Discretion(self._cut)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self._discretion)

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request. The answer is streamed if the request asks for it or if there is an observer.

        Raises:
            ModelError: if the request fails.
        """
        follow = None if observe is None else self._discreet(observe)
        assembly: Assembly | EmbeddingAssembly
        if request.texts:
            assembly = EmbeddingAssembly(request, model, self._tokenizer)
            failure = await self._exchange(model, request, assembly, stream=False)
        else:
            assembly = Assembly(request, model, self._tokenizer, follow)
            failure = await self._exchange(model, request, assembly, stream=request.stream or observe is not None)
        lost_after_the_end = failure is not None and failure.kind in ("network", "timeout") and assembly.over
        if failure is not None and not lost_after_the_end:
            raise failure
        try:
            return self._clean(assembly.completion())
        except ModelError as error:
            raise ModelError(error.kind, self._said(str(error)), usage=error.usage) from None

    async def probe(self) -> None:
        """Check that the endpoint can be reached, by a request for its list of models, which is free of charge.

        An endpoint that has no such list, is slow, or refuses only this request passes the check.

        Raises:
            RunError: if the endpoint cannot be reached.
            UsageError: if the endpoint refuses the key, or its address lacks `/v1`.
        """
        import httpx2
        import openai

        failure: SimError | None = None  # raised below: a chained exception would contain the request
        try:
            pool = self._pool = self._pool or self._connect()
            await self._list_models(pool, _MODELS)
        except httpx2.InvalidURL:
            failure = UsageError("the base URL is not valid", hint="use the form http://HOST:PORT/v1")
        except openai.APIStatusError as error:
            if error.status_code == 401 and "scope" not in error.message:  # a key can be limited to chats
                failure = UsageError(f"{self._here} refuses the key: {self._said(error.message)}", hint=_KEY_HINT)
            elif error.status_code == 404 and await self._is_below(pool):
                failure = UsageError(
                    f"{self._here} does not answer at the base URL, but at the base URL with /v1",
                    hint="add /v1 to the base URL",
                )
        except (openai.APIError, httpx2.HTTPError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                cause = error.__cause__
                said = self._said(f"{type(cause).__name__}: {cause}")
                failure = RunError(f"{self._here} cannot be reached: {said}", hint=_DEAD_HINT)
        if failure is not None:
            raise failure

    @property
    def _here(self) -> str:
        return "the endpoint" if self.name == "openai" else f"the endpoint {self.name}"

    async def _is_below(self, pool: _Pool) -> bool:
        """Whether the list of models is at the base URL with `/v1`."""
        import httpx2
        import openai

        try:
            await self._list_models(pool, f"/v1{_MODELS}")
        except openai.APIStatusError as error:
            return error.status_code in (401, 403)
        except (openai.APIError, httpx2.HTTPError, ValueError, RecursionError):
            return False
        return True

    async def _list_models(self, pool: _Pool, path: str) -> None:
        arguments: dict[str, Any] = {"options": {"timeout": min(PROBE_TIMEOUT, self._timeout), **self._anonymous()}}
        await pool.client.get(path, cast_to=object, **arguments)

    async def aclose(self) -> None:
        """Close all connections."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._discretion)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.client.close()

    # -- one exchange

    async def _exchange(
        self, model: str, request: ModelRequest, assembly: "Assembly | EmbeddingAssembly", *, stream: bool
    ) -> ModelError | None:
        """Send a request, pass the response to `assembly`, and return the error, if any.

        The error is raised elsewhere: a chained exception would contain the request, and with it the key.
        """
        import httpx2
        import openai

        try:
            pool = self._pool = self._pool or self._connect()
        except httpx2.InvalidURL:  # its text contains a part of the address
            return ModelError("bad_request", "the base URL is not valid")
        pool.calls += 1
        try:
            if stream and isinstance(assembly, Assembly):
                await self._stream(pool.client, model, request, assembly)
            else:
                arguments = self._arguments(model, request, stream=False)
                path = _EMBEDDINGS if request.texts else _PATH
                assembly.feed_whole(await pool.client.post(path, cast_to=object, **arguments))
        except ModelError as error:
            return ModelError(error.kind, self._said(str(error)), usage=error.usage or assembly.usage())
        except openai.APITimeoutError as error:
            if isinstance(error.__cause__, httpx2.PoolTimeout) and pool.calls < self._connections:
                self._drop(pool)
                return ModelError("network", "the pool lost its connections and was replaced", retry_after=0.0)
            return self._failed("timeout", "the endpoint sent nothing for too long", assembly)
        except openai.APIStatusError as error:
            return self._refused(request, error.status_code, error.body, error.message, error.response.headers)
        except openai.APIConnectionError as error:
            cause = error.__cause__
            return self._failed("network", f"{type(cause).__name__}: {cause}", assembly)
        except openai.APIError as error:  # the endpoint sent an error inside a stream
            failure = self._refused(request, None, error.body, error.message, {})
            failure.usage = assembly.usage() if assembly.begun else None
            return failure
        except httpx2.HTTPError as error:
            return self._failed("network", f"{type(error).__name__}: {error}", assembly)
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or a number with thousands of digits
            return self._failed("malformed", f"the endpoint sent no JSON: {error}", assembly)
        finally:
            pool.calls -= 1
            if pool.calls == 0 and pool is not self._pool:
                await pool.client.close()
        return None

    async def _stream(
        self, client: "openai.AsyncOpenAI", model: str, request: ModelRequest, assembly: Assembly
    ) -> None:
        """Pass a streamed answer to `assembly`, to its end, so that the connection can be reused.

        A server that cannot stream sends the whole answer in one response.

        The chunks are plain JSON values, because the library does not check the fields that its own types declare. It
        leaves its generators to garbage collection, so trio warns in development mode; the connection is released.
        """
        import openai

        arguments = self._arguments(model, request, stream=True)
        stream = await client.post(
            _PATH, cast_to=object, stream=True, stream_cls=openai.AsyncStream[object], **arguments
        )
        async with stream:
            if stream.response.headers.get("content-type", "").startswith("application/json"):
                body = await stream.response.aread()
                if body.lstrip().startswith(b"{"):  # otherwise it is a stream with a wrong content type
                    assembly.feed_whole(json.loads(body))
                    return
            async for chunk in stream:
                assembly.feed(chunk)

    def _arguments(self, model: str, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        body = _body(model, request, stream=stream)
        if "max_tokens" in body:
            body[limit_name(self._access)] = body.pop("max_tokens")
        return {"body": body, "options": self._anonymous()}

    def _anonymous(self) -> dict[str, Any]:
        """Return the options that omit the Authorization header if there is no key, as local servers need."""
        import openai

        if self._access.has_key:
            return {}
        return {"headers": {"Authorization": openai.Omit()}}

    def _connect(self) -> _Pool:
        import httpx2
        import openai

        from sim.llm.providers.openai.transport import BoundedTransport

        access = self._access
        headers: dict[str, Any] = {
            "OpenAI-Organization": openai.Omit(),  # otherwise the library reads these from the environment
            "OpenAI-Project": openai.Omit(),
            **({"Authorization": f"Bearer {access.api_key}"} if access.api_key else {}),
            **access.headers,
        }
        limits = httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        connect = min(CONNECT_TIMEOUT, CONNECT_SHARE * self._timeout)  # a timeout then shows if it was sent
        timeout = httpx2.Timeout(self._timeout, connect=connect, pool=CONNECT_TIMEOUT)
        http_client = httpx2.AsyncClient(
            transport=BoundedTransport(httpx2.AsyncHTTPTransport(limits=limits), self._look_at),
            follow_redirects=False,
            trust_env=False,
            timeout=timeout,
            headers={"Accept-Encoding": "identity"},
        )
        client = openai.AsyncOpenAI(
            api_key=access.api_key or "none",
            base_url=access.base_url or OPENAI_URL,
            max_retries=0,
            timeout=timeout,
            default_headers=headers,
            http_client=http_client,
        )
        return _Pool(client)

    def _drop(self, pool: _Pool) -> None:
        """Replace `pool` for new calls. Its current calls continue, and the last one closes it."""
        if self._pool is pool:
            self._pool = None

    def _look_at(self, headers: Mapping[str, str]) -> None:
        """Report the limits in a response. If it has `retry-after`, its reset times are ignored."""
        rates = read_rates(headers)
        if rates is not None and parse_retry_after(headers, time.time()):
            rates = attrs.evolve(rates, reset_requests=None, reset_tokens=None)
        if rates is not None:
            self._on_rates(rates)

    # -- errors and texts

    def _failed(self, kind: ErrorClass, detail: str, assembly: Assembly | EmbeddingAssembly) -> ModelError:
        usage = assembly.usage() if assembly.begun else None
        return ModelError(kind, self._said(detail), usage=usage)

    def _refused(
        self, request: ModelRequest, status: int | None, body: object, message: str, headers: Mapping[str, str]
    ) -> ModelError:
        if status is not None and 300 <= status < 400:
            return ModelError(
                "bad_request",
                f"the endpoint redirects (status {status}), and the key is not sent elsewhere",
                hint="give the address that it redirects to, if it is right, as the base URL",
            )
        kind = classify(status, body, message, headers)
        after = parse_retry_after(headers, time.time())
        if after is None and kind == "rate_limit":
            most = count_request(self._tokenizer, request) + (request.sampling.max_tokens or 0)
            after = reset_after(read_rates(headers), most)
        return ModelError(kind, self._said(message), retry_after=after)

    def _said(self, text: str) -> str:
        """Return a text as one short line without secrets."""
        text = self._cut(text)[: 4 * _LONGEST_DETAIL]
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]}…"

    def _clean(self, completion: Completion) -> Completion:
        """Return an answer without secrets, because an endpoint can repeat what it received."""
        calls = tuple(
            attrs.evolve(call, id=self._cut(call.id), name=self._cut(call.name), arguments=self._cut(call.arguments))
            for call in completion.tool_calls
        )
        return attrs.evolve(
            completion, text=self._cut(completion.text), model=self._cut(completion.model), tool_calls=calls
        )

    def _discreet(self, observe: Observer) -> Observer:
        """Wrap an observer so that it sees no secret, unless a secret is split over two parts."""

        def follow(delta: Delta) -> None:
            observe(attrs.evolve(delta, text=self._cut(delta.text), tool=self._cut(delta.tool)))

        return follow


def limit_name(access: Access) -> str:
    """Return the name of the field for the token limit of an answer.

    OpenAI's reasoning models refuse `max_tokens`, and other servers ignore `max_completion_tokens`.
    """
    return "max_completion_tokens" if access.is_openai else "max_tokens"


def _body(model: str, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
    """Return the JSON body of a request. Fields without a value are omitted."""
    if request.texts:
        asked = {"model": model, "input": list(request.texts), "encoding_format": "float"}
        return asked | ({} if request.dimensions is None else {"dimensions": request.dimensions})
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) or None,
        "seed": sampling.seed,
    }
    if request.tools:
        body["tools"] = [{"type": "function", "function": attrs.asdict(tool, recurse=False)} for tool in request.tools]
    if request.tool_choice is not None:
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_format is not None:
        form = {"name": "answer", "schema": request.response_format}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    body |= request.extra_body or {}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return {key: value for key, value in body.items() if value is not None}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    return choice if choice in TOOL_CHOICES else {"type": "function", "function": {"name": choice}}


def _message(message: ChatMessage) -> dict[str, Any]:
    result: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        result["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        result["content"] = message.content or None
    if message.tool_call_id is not None:
        result["tool_call_id"] = message.tool_call_id
    return result
