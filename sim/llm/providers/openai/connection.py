"""The connection to one OpenAI-compatible endpoint, over AsyncOpenAI, on asyncio and on trio (edge).

Failures become a `ModelError`. Responses are not trusted: their size is bounded (`transport`), and the key is removed
from every text. Redirects are refused, so that the key is not sent elsewhere. Proxies and keys in the environment are
ignored. The import of `openai` takes a second, so it happens at the first use.
"""

import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from sim.base.errors import RunError, SimError, UsageError
from sim.llm.access import OPENAI_URL, Access
from sim.llm.limits.governor import ReportedLimits
from sim.llm.limits.retry import DEFAULT_TIMEOUT, parse_retry_after
from sim.llm.providers.openai.errors import classify, message_in, read_rates, reset_after, retry_delay
from sim.llm.types import Completion, ModelError

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

CONNECTIONS: Final = 256
"""The most concurrent connections of a pool: more than a governor admits."""

CONNECT_TIMEOUT: Final = 10.0
"""Time limit in seconds for a connection and for a place in the pool. A longer wait for a place means a leak."""

CONNECT_SHARE: Final = 0.4
"""The largest share of a request's time limit for each step of a connection (TCP, then TLS)."""

PROBE_TIMEOUT: Final = 10.0
"""Time limit of the probe in seconds. A slower endpoint counts as reachable."""

_MODELS: Final = "/models"

_ABSENT: Final = (404, 405, 501)
"""How servers answer at a path that they do not have."""

_KEY_HINT: Final = "set the key in OPENAI_API_KEY, or in a header"

_DEAD_HINT: Final = "check that the server is running and that the base URL is right"

_LONGEST_DETAIL: Final = 300
_LONGEST_NAME: Final = 200  # characters of the name of a model

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


class Connection:
    """The connection to one endpoint.

    Args:
        access: the endpoint, the key and the headers. No text of this class contains them.
        name: the provider name of its models.
        on_rates: called with the limits that a response reports.
        timeout: the most seconds without data from the endpoint.
    """

    def __init__(
        self,
        access: Access,
        *,
        name: str = "openai",
        on_rates: Callable[[ReportedLimits], None] = lambda rates: None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.name = name
        self.access = access
        self._timeout = timeout
        self._connections = max(CONNECTIONS, access.concurrency)
        self.cut = access.cut
        self._on_rates = on_rates
        self._pool: _Pool | None = None
        self._discretion = _Discretion(self.cut)
        for logger in _LOGGERS:
            logging.getLogger(logger).addFilter(self._discretion)

    async def use(
        self, work: Callable[["openai.AsyncOpenAI"], Awaitable[T]], *, most_tokens: Callable[[], float] = lambda: 0.0
    ) -> T | ModelError:
        """Return what `work` makes of the client, or the failure.

        The failure is not raised here: a chained exception would contain the request, and with it the key.

        Args:
            work: sends requests; it may raise ModelError.
            most_tokens: returns the most tokens that the request can use. It is called only after a refusal, for the
                wait, because an exact count takes time.
        """
        import httpx2
        import openai

        try:
            pool = self._pool = self._pool or self._connect()
        except httpx2.InvalidURL:  # its text contains a part of the address
            return ModelError("bad_request", "the base URL is not valid")
        pool.calls += 1
        try:
            return await work(pool.client)
        except ModelError as error:
            return ModelError(error.kind, self.said(str(error)), usage=error.usage)
        except openai.APITimeoutError as error:
            if isinstance(error.__cause__, httpx2.PoolTimeout) and pool.calls < self._connections:
                self._drop(pool)
                return ModelError("network", "the pool lost its connections and was replaced", retry_after=0.0)
            return ModelError("timeout", "the endpoint sent nothing for too long")
        except openai.APIStatusError as error:
            return self._refused(most_tokens, error.status_code, error.body, error.message, error.response.headers)
        except openai.APIConnectionError as error:
            cause = error.__cause__
            return ModelError("network", self.said(f"{type(cause).__name__}: {cause}"))
        except openai.APIError as error:  # the endpoint sent an error inside a stream
            return self._refused(most_tokens, None, error.body, error.message, {})
        except httpx2.HTTPError as error:
            return ModelError("network", self.said(f"{type(error).__name__}: {error}"))
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or a number with thousands of digits
            return ModelError("malformed", self.said(f"the endpoint sent no JSON: {error}"))
        finally:
            pool.calls -= 1
            if pool.calls == 0 and pool is not self._pool:
                await pool.client.close()

    async def probe(self) -> object:
        """Check that the endpoint can be reached, by a request for its list of models, which is free of charge.

        An endpoint that has no such list, is slow, or refuses only this request passes the check.

        Returns:
            The list as it came, or None.

        Raises:
            RunError: if the endpoint cannot be reached.
            UsageError: if the endpoint refuses the key, or its address lacks `/v1`.
        """
        import httpx2
        import openai

        failure: SimError | None = None  # raised below: a chained exception would contain the request
        try:
            pool = self._pool = self._pool or self._connect()
            return await self._list_models(pool, _MODELS)
        except httpx2.InvalidURL:
            failure = UsageError("the base URL is not valid", hint="use the form http://HOST:PORT/v1")
        except openai.APIStatusError as error:
            if error.status_code == 401 and "scope" not in error.message:  # a key can be limited to chats
                failure = UsageError(f"{self._here} refuses the key: {self.said(error.message)}", hint=_KEY_HINT)
            elif error.status_code == 404 and await self._is_below(pool):
                failure = UsageError(
                    f"{self._here} does not answer at the base URL, but at the base URL with /v1",
                    hint="add /v1 to the base URL",
                )
        except (openai.APIError, httpx2.HTTPError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                cause = error.__cause__
                said = self.said(f"{type(cause).__name__}: {cause}")
                failure = RunError(f"{self._here} cannot be reached: {said}", hint=_DEAD_HINT)
        if failure is not None:
            raise failure
        return None

    async def show(self, model: str) -> object:
        """Return what an Ollama says of a model, for free (`POST /api/show`, beside `/v1`); None: it says nothing."""
        import httpx2
        import openai

        pool = self._pool = self._pool or self._connect()
        url = f"{str(pool.client.base_url).rstrip('/').removesuffix('/v1')}/api/show"
        try:
            return await pool.client.post(
                url,
                cast_to=object,
                body={"model": model},
                options={"timeout": self._brief, "headers": self.anonymous()},
            )
        except (openai.APIError, httpx2.HTTPError, ValueError, RecursionError):
            return None

    async def probe_batches(self) -> None:
        """Check that the endpoint has batches, by a request for their list, which is free of charge.

        Raises:
            UsageError: if it has none.
        """
        import httpx2
        import openai

        status = 0
        try:
            pool = self._pool = self._pool or self._connect()
            await self._list_models(pool, "/batches?limit=1")
        except openai.APIStatusError as error:
            status = error.status_code
        except (openai.APIError, httpx2.HTTPError, ValueError, RecursionError):
            pass  # it says nothing about batches
        if status in _ABSENT:
            raise UsageError(
                f"{self._here} has no batches: it answers GET /batches with {status}", hint="leave --batch out"
            )

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

    async def _list_models(self, pool: _Pool, path: str) -> object:
        return await pool.client.get(
            path, cast_to=object, options={"timeout": self._brief, "headers": self.anonymous()}
        )

    @property
    def _brief(self) -> float:
        """How long a request that is only a look may take, in seconds."""
        return min(PROBE_TIMEOUT, self._timeout)

    async def aclose(self) -> None:
        """Close all connections."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._discretion)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.client.close()

    def _connect(self) -> _Pool:
        import httpx2
        import openai

        from sim.llm.providers.openai.transport import BoundedTransport

        access = self.access
        headers: dict[str, str | openai.Omit] = {
            "OpenAI-Organization": openai.Omit(),  # otherwise the library reads these from the environment
            "OpenAI-Project": openai.Omit(),
            **({"Authorization": f"Bearer {access.api_key}"} if access.api_key else {}),
            **access.headers,
        }
        limits = httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        connect = min(CONNECT_TIMEOUT, CONNECT_SHARE * self._timeout)  # a timeout then shows if it was sent
        timeout = httpx2.Timeout(self._timeout, connect=connect, pool=CONNECT_TIMEOUT)
        tls = self._tls()
        http_client = httpx2.AsyncClient(
            transport=BoundedTransport(lambda: httpx2.AsyncHTTPTransport(verify=tls, limits=limits), self._look_at),
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
            default_headers=headers,  # type: ignore[arg-type]  # the library takes `Omit` here as in each request
            http_client=http_client,
        )
        return _Pool(client)

    def _tls(self) -> ssl.SSLContext | bool:
        """Return what TLS trusts: nothing for an address without TLS, because certificates take 50 ms to load."""
        plain = (self.access.base_url or OPENAI_URL).startswith("http://")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True

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

    def anonymous(self) -> "dict[str, str | openai.Omit]":
        """Return the headers that omit the Authorization header if there is no key, as local servers need."""
        import openai

        if self.access.has_key:
            return {}
        return {"Authorization": openai.Omit()}

    # -- errors and texts

    def _refused(
        self,
        most_tokens: Callable[[], float],
        status: int | None,
        body: object,
        message: str,
        headers: Mapping[str, str],
    ) -> ModelError:
        if status is not None and 300 <= status < 400:
            return ModelError(
                "bad_request",
                f"the endpoint redirects (status {status}), and the key is not sent elsewhere",
                hint="give the address that it redirects to, if it is right, as the base URL",
            )
        if isinstance(body, list):  # the library takes no message from it
            message = f"{message} {message_in(body)}"
        kind = classify(status, body, message, headers)
        after = parse_retry_after(headers, time.time())
        if after is None:
            after = retry_delay(body)
        if after is None and kind == "rate_limit":
            after = reset_after(read_rates(headers), most_tokens())
        return ModelError(kind, self.said(message), retry_after=after)

    def said(self, text: str) -> str:
        """Return a text as one short line without secrets."""
        text = self.cut(text)[: 4 * _LONGEST_DETAIL]
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= _LONGEST_DETAIL else f"{line[:_LONGEST_DETAIL]}…"

    def clean(self, completion: Completion) -> Completion:
        """Return an answer without secrets, because an endpoint can repeat what it received."""
        calls = tuple(
            attrs.evolve(call, id=self.cut(call.id), name=self.cut(call.name), arguments=self.cut(call.arguments))
            for call in completion.tool_calls
        )
        return attrs.evolve(
            completion, text=self.cut(completion.text), model=self.cut(completion.model)[:_LONGEST_NAME],
            tool_calls=calls, reasoning=self.cut(completion.reasoning),
        )  # fmt: skip
