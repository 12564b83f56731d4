"""The settings of the operator for models: which models run, at which endpoint, with which key.

A scenario never contains them. No text that this module produces contains the key. An endpoint can repeat the key in
an error or in an answer, so `scrub` removes it from all that an endpoint returns, before it reaches the core and the
record.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import attrs

from sim.base.errors import ActorError, UsageError
from sim.base.extras import need
from sim.kernel.codec import encode
from sim.llm.batches.settings import Batching
from sim.llm.defaults import CONCURRENCY
from sim.llm.types import ErrorClass, StopReason

OPENAI_URL: Final = "https://api.openai.com/v1"
"""The default address of requests."""

LOCAL: Final[Mapping[str, str]] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
}
"""The default addresses of model servers on this machine."""

REDACTED = "[redacted]"

_SHORTEST = 6  # a shorter secret would also match ordinary text

_GUESSES = 200_000  # PBKDF2 iterations of a fingerprint: about 0.1 s

_WORDS = (*get_args(StopReason), *get_args(ErrorClass))  # public words of the record; no secrets

_SCHEME = re.compile(r"(?:bearer|basic)\s+(\S+)", re.IGNORECASE)

INSIDE: Final = ("scripted", "simulated")
"""Providers that answer in the core, in simulated time. All others are at an endpoint."""


def known_providers(endpoints: Iterable[str]) -> tuple[str, ...]:
    """Return the names that can stand before a model: providers in the core, `openai`, local servers, endpoints."""
    return tuple(dict.fromkeys((*INSIDE, "openai", *LOCAL, *endpoints)))


_ENDPOINT_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token (RFC 9110)


@attrs.frozen
class Endpoint:
    """An endpoint in addition to that of `openai`.

    Args:
        url: the address, without user and password.
        api_key: the key, sent to this endpoint only.

    Raises:
        UsageError: if the address or the key is not valid. The message does not contain them.
    """

    url: str = attrs.field(repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        _check_url(self.url)
        _check_api_key(self.api_key)


@attrs.frozen
class Access:
    """How models are reached.

    Args:
        models: `PROVIDER:NAME` for all calls, or `TIER=PROVIDER:NAME`; a name can be a chain, separated by commas.
        base_url: address of the endpoint, without user and password; None: the default of the provider.
        api_key: the key of the endpoint.
        headers: sent with every request.
        requests_per_minute: the limit of the endpoint, if known.
        tokens_per_minute: the same for tokens.
        concurrency: the most concurrent requests to each endpoint, at least 1.
        endpoints: further endpoints by name; the name is the PROVIDER of their models. `ollama`, `vllm` and `llamacpp`
            have default addresses on this machine. The address, key, headers and limits above are those of `openai`.
            If another provider is the only one at an endpoint, `base_url` is its address.
        stream: whether endpoints send answers in parts even if nothing in this process observes them, so that other
            processes can see them in the run folder as they arrive.
        batching: how calls to endpoints are answered in batches. None: online, or as the run on record; False: online.
        edge_workers: how many processes make the calls of endpoints; 0: the process of the run does.
        ray: the address of the Ray cluster that has these processes; None: they are on this machine.

    Raises:
        UsageError: if the address, the key or a header is not valid (the message does not contain them), if
            `concurrency` is below 1, or if there are both batches and worker processes.
    """

    models: tuple[str, ...] = ()
    base_url: str | None = attrs.field(default=None, repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int = CONCURRENCY
    endpoints: Mapping[str, Endpoint] = attrs.field(factory=dict, repr=False)
    stream: bool = False
    batching: Batching | Literal[False] | None = None
    edge_workers: int = 0
    ray: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.base_url is not None:
            _check_url(self.base_url)
        _check_api_key(self.api_key)
        for name in self.endpoints:
            if not _ENDPOINT_NAME.fullmatch(name) or name in (*INSIDE, "openai"):
                raise UsageError(
                    f"{name[:40]!r} is not a valid name of an endpoint",
                    hint="use lowercase letters, digits and hyphens; scripted, simulated and openai are reserved",
                )
        if not all(_HEADER_NAME.fullmatch(name) and _is_plain(value) for name, value in self.headers.items()):
            raise UsageError("a header must have a name of letters, digits and hyphens, and a printable ASCII value")
        if self.concurrency < 1:
            raise UsageError(f"the concurrency must be at least 1, not {self.concurrency}")
        if self.edge_workers and self.batching:
            raise UsageError(
                "worker processes are asked for with batches, which take a few requests only",
                hint="leave out --edge-workers or --batch",
            )

    def chains(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Return the (provider, model) pairs by tier, best first. The tier `*` means all calls.

        Raises:
            UsageError: if an entry does not have this form.
        """
        result: dict[str, tuple[tuple[str, str], ...]] = {}
        for text in self.models:
            tier, equals, names = text.partition("=")
            if not equals:
                tier, names = "*", text
            pairs = [name.partition(":") for name in names.split(",")]
            if not tier or not all(provider and colon and model for provider, colon, model in pairs):
                raise UsageError(f"a model must be PROVIDER:NAME or TIER=PROVIDER:NAME, not {text[:80]!r}")
            if tier in result:
                raise UsageError(f"two models are given for {'all calls' if tier == '*' else f'the tier {tier}'}")
            result[tier] = tuple((provider, model) for provider, _, model in pairs)
        return result

    @property
    def outside(self) -> bool:
        """Whether any model is at an endpoint."""
        return bool(self.providers)

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of the endpoints in use, without duplicates."""
        asked = (provider for chain in self.chains().values() for provider, _ in chain)
        return tuple(dict.fromkeys(provider for provider in asked if provider not in INSIDE))

    def at(self, provider: str) -> "Access":
        """Return the access to one provider: its address and key as `base_url` and `api_key`.

        Raises:
            UsageError: if the address of the provider is unknown.
        """
        if provider == "openai":
            return attrs.evolve(self, endpoints={})
        endpoint = self.endpoints.get(provider)
        alone = self.providers == (provider,)
        local = LOCAL.get(provider)
        url = endpoint.url if endpoint is not None else (local and (self.base_url if alone else None)) or local
        if url is None:
            providers = ", ".join(known_providers(self.endpoints))
            raise UsageError(
                f"unknown model provider {provider[:40]!r}",
                hint=f"known providers: {providers}; add another with --endpoint {provider[:40]}=URL",
            )
        return Access(
            base_url=url,
            api_key=None if endpoint is None else endpoint.api_key,
            headers=self.headers if alone else {},
            requests_per_minute=self.requests_per_minute if alone else None,
            tokens_per_minute=self.tokens_per_minute if alone else None,
            concurrency=self.concurrency,
            batching=self.batching,
        )

    @property
    def is_openai(self) -> bool:
        """Whether the endpoint is OpenAI's own."""
        return self.base_url is None or urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname

    @property
    def has_key(self) -> bool:
        """Whether requests carry a key or an Authorization header."""
        return bool(self.api_key) or "authorization" in map(str.lower, self.headers)

    @property
    def fingerprint(self) -> str | None:
        """A hash of the addresses that does not reveal them; None without an endpoint.

        Equal addresses have equal hashes. The hash is slow on purpose, because short addresses are easy to guess.
        """
        if not self.outside:
            return None
        places = [self.at(provider).address for provider in sorted(self.providers)]
        several = len(places) > 1
        address = "\n".join(map(" ".join, zip(sorted(self.providers), places, strict=True))) if several else places[0]
        return hashlib.pbkdf2_hmac("sha256", address.encode(), b"sim endpoint", _GUESSES).hex()[:32]

    @property
    def address(self) -> str:
        """The address in normal form, for comparison."""
        parts = urlsplit(self.base_url or OPENAI_URL)
        return f"{parts.scheme}://{parts.netloc}".lower() + parts.path.rstrip("/")

    def check_endpoints(self) -> None:
        """Check that all models are at known endpoints.

        Raises:
            UsageError: if one is not.
        """
        for provider in self.providers:
            self.at(provider)

    def check_key(self) -> None:
        """Check that all models are at known endpoints, that there is a key for OpenAI's own endpoint, and that the
        packages for endpoints are installed.

        Raises:
            UsageError: if an endpoint is unknown, or the key or a package is missing.
        """
        if any(place.is_openai and not place.has_key for place in map(self.at, self.providers)):
            raise UsageError(
                "the models are at OpenAI's own endpoint, which needs a key, and no key is given",
                hint="set OPENAI_API_KEY, or set another endpoint with --base-url",
            )
        if self.outside:
            need("models", "models at an endpoint need")

    def offline(self) -> "Access":
        """Return an access with simulated versions of the same models, for a cost estimate."""
        named = [
            f"{'' if tier == '*' else tier + '='}{','.join(f'simulated:{model}' for _, model in chain)}"
            for tier, chain in self.chains().items()
        ]
        return Access(tuple(named))

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The secret texts, longest first: keys, addresses, header values, and the token in `Bearer TOKEN`.

        A header value that also appears in public text of the record is not a secret.
        """
        values = list(self.headers.values())
        values += [match[1] for value in values if (match := _SCHEME.fullmatch(value))]
        public = (*self.models, *_WORDS)
        secrets = {value for value in values if not any(value in text for text in public)}
        secrets |= {self.api_key or "", (self.base_url or "").rstrip("/")}
        for endpoint in self.endpoints.values():
            secrets |= {endpoint.api_key or "", endpoint.url.rstrip("/")}
        return tuple(sorted((text for text in secrets if len(text) >= _SHORTEST), key=lambda text: (-len(text), text)))

    @cached_property
    def _needles(self) -> tuple[bytes, ...]:
        """The secrets as they are in the JSON of a text."""
        return tuple(encode(secret)[1:-1] for secret in self.secrets)

    def cut(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text

    def scrub(self, value: Any) -> Any:
        """Return a JSON-like value without secrets in its texts. Keys and numbers do not come from the endpoint.

        Nearly all values have none, which one look at their JSON shows.
        """
        if not self._needles:
            return value
        with suppress(ActorError):  # text that is no JSON
            text = encode(value)
            if not any(needle in text for needle in self._needles):
                return value
        return self._scrubbed(value)

    def _scrubbed(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.cut(value)
        if isinstance(value, Mapping):
            return {key: self._scrubbed(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self._scrubbed(part) for part in value]
        return value


def _check_api_key(key: str | None) -> None:
    if key is not None and (not _is_plain(key) or " " in key):
        raise UsageError("the API key must consist of printable ASCII characters without spaces")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _check_url(url: str) -> None:
    """Refuse an invalid address, or one with credentials or a query: libraries can log the address.

    Raises:
        UsageError: the message does not contain the address, which can hold a password.
    """
    if any(sign in url for sign in "@?#"):
        raise UsageError(
            "the base URL must have no user, password, query or fragment",
            hint="send credentials as a header, such as --header 'Authorization: Basic ...'",
        )
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not url.isprintable() or " " in url:
        raise UsageError("the base URL is not valid", hint="use the form http://HOST:PORT/v1")
