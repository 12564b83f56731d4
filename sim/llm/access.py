"""What the operator gives, and a scenario never: which models run, at which endpoint, with which key.

The key is in no text that this class makes. `scrub` takes it out of whatever comes back from an endpoint, before that
reaches the core and the record: an endpoint may repeat it, in an error or even in an answer.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, get_args
from urllib.parse import urlsplit

import attrs

from sim.errors import UsageError
from sim.llm.types import ErrorClass, StopReason

OPENAI_URL: Final = "https://api.openai.com/v1"
"""Where requests go if the operator gives no address."""

LOCAL: Final[Mapping[str, str]] = {
    "ollama": "http://127.0.0.1:11434/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
}
"""Where servers of models listen on this machine, as they come."""

CONCURRENCY: Final = 64
"""Requests that are under way at one endpoint at once, if the operator says nothing else."""

REDACTED = "[redacted]"

_SHORTEST = 6  # a secret shorter than this would be found in innocent text

_GUESSES = 200_000  # rounds of a fingerprint: about a tenth of a second

_WORDS = (*get_args(StopReason), *get_args(ErrorClass))  # what the record says itself, so no header makes it a secret

_SCHEME = re.compile(r"(?:bearer|basic)\s+(\S+)", re.IGNORECASE)

INSIDE: Final = ("scripted", "simulated")
"""Providers that answer in the core, in simulated time; all others stand outside."""

_ENDPOINT_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token (RFC 9110)


@attrs.frozen
class Endpoint:
    """An endpoint beside that of `openai`.

    Args:
        url: its address, without user and password.
        api_key: for it; no other endpoint gets it.

    Raises:
        UsageError: if the address or the key cannot be sent; it does not repeat them.
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
        models: `PROVIDER:NAME` for all calls, or `TIER=PROVIDER:NAME`; a name may be a chain, separated by commas.
        base_url: of the endpoint, without user and password; None is the provider's own.
        api_key: for the endpoint.
        headers: sent with every request.
        requests_per_minute: the endpoint's limit, if it is known.
        tokens_per_minute: the same for tokens.
        concurrency: requests that may be under way at once at each endpoint, at least 1.
        endpoints: further ones by name, which is the PROVIDER of their models. `ollama`, `vllm` and `llamacpp` are at
            their usual addresses on this machine if they are not among them. Address, key, headers and limits above
            are those of `openai`; if another provider is the only one at an endpoint, `base_url` is its address.

    Raises:
        UsageError: if address, key or a header cannot be sent; it does not repeat them. If `concurrency` is below 1.
    """

    models: tuple[str, ...] = ()
    base_url: str | None = attrs.field(default=None, repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int = CONCURRENCY
    endpoints: Mapping[str, Endpoint] = attrs.field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.base_url is not None:
            _check_url(self.base_url)
        _check_api_key(self.api_key)
        for name in self.endpoints:
            if not _ENDPOINT_NAME.fullmatch(name) or name in (*INSIDE, "openai"):
                raise UsageError(
                    f"{name[:40]!r} cannot be the name of an endpoint",
                    hint="small letters, digits and hyphens, but not scripted, simulated or openai",
                )
        if not all(_HEADER_NAME.fullmatch(name) and _is_plain(value) for name, value in self.headers.items()):
            raise UsageError("a header must have a name of letters, digits and hyphens, and a printable ASCII value")
        if self.concurrency < 1:
            raise UsageError(f"the concurrency must be at least 1, not {self.concurrency}")

    def chains(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Return the (provider, model) pairs by tier, best first; the tier `*` stands for all.

        Raises:
            UsageError: if one is not of the form.
        """
        result: dict[str, tuple[tuple[str, str], ...]] = {}
        for text in self.models:
            tier, equals, names = text.partition("=")
            if not equals:
                tier, names = "*", text
            pairs = [name.partition(":") for name in names.split(",")]
            if not tier or not all(provider and colon and model for provider, colon, model in pairs):
                raise UsageError(f"a model is PROVIDER:NAME or TIER=PROVIDER:NAME, not {text[:80]!r}")
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
        """The names of the endpoints at which there are models, each once."""
        asked = (provider for chain in self.chains().values() for provider, _ in chain)
        return tuple(dict.fromkeys(provider for provider in asked if provider not in INSIDE))

    def at(self, provider: str) -> "Access":
        """Return how the models of one provider are reached: its address and key as `base_url` and `api_key`.

        Raises:
            UsageError: if it is not known where they are.
        """
        if provider == "openai":
            return attrs.evolve(self, endpoints={})
        given = self.endpoints.get(provider)
        alone = self.providers == (provider,)
        local = LOCAL.get(provider)
        url = given.url if given is not None else (local and (self.base_url if alone else None)) or local
        if url is None:
            known = ", ".join(dict.fromkeys((*INSIDE, "openai", *LOCAL, *self.endpoints)))
            raise UsageError(
                f"there is no model provider {provider[:40]!r}",
                hint=f"known: {known}; --endpoint {provider[:40]}=URL gives the address of another one",
            )
        return Access(
            base_url=url,
            api_key=None if given is None else given.api_key,
            headers=self.headers if alone else {},
            requests_per_minute=self.requests_per_minute if alone else None,
            tokens_per_minute=self.tokens_per_minute if alone else None,
            concurrency=self.concurrency,
        )

    @property
    def is_openai(self) -> bool:
        """Whether the endpoint is OpenAI's own."""
        return self.base_url is None or urlsplit(self.base_url).hostname == urlsplit(OPENAI_URL).hostname

    @property
    def has_key(self) -> bool:
        """Whether requests say who sends them."""
        return bool(self.api_key) or "authorization" in map(str.lower, self.headers)

    @property
    def fingerprint(self) -> str | None:
        """A hash that is equal for the same address, from which the address cannot be read; None without an endpoint.

        It is slow to compute, against guessing: addresses are short.
        """
        if not self.outside:
            return None
        places = [self.at(provider).address for provider in sorted(self.providers)]
        several = len(places) > 1
        address = "\n".join(map(" ".join, zip(sorted(self.providers), places, strict=True))) if several else places[0]
        return hashlib.pbkdf2_hmac("sha256", address.encode(), b"sim endpoint", _GUESSES).hex()[:32]

    @property
    def address(self) -> str:
        """The address in the form in which equal ones are equal."""
        parts = urlsplit(self.base_url or OPENAI_URL)
        return f"{parts.scheme}://{parts.netloc}".lower() + parts.path.rstrip("/")

    def check_endpoints(self) -> None:
        """Refuse models at an endpoint that is not known.

        Raises:
            UsageError: naming it.
        """
        for provider in self.providers:
            self.at(provider)

    def check_key(self) -> None:
        """Refuse to ask OpenAI's own endpoint without a key, and models at an endpoint that is not known.

        Raises:
            UsageError: if there is none.
        """
        if any(place.is_openai and not place.has_key for place in map(self.at, self.providers)):
            raise UsageError(
                "the models are at OpenAI's own endpoint, which wants a key, and none is given",
                hint="set OPENAI_API_KEY, or give the address of another endpoint with --base-url",
            )

    def offline(self) -> "Access":
        """Return the same models, simulated: for an estimate of what they will cost."""
        named = [
            f"{'' if tier == '*' else tier + '='}{','.join(f'simulated:{model}' for _, model in chain)}"
            for tier, chain in self.chains().items()
        ]
        return Access(tuple(named))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be seen, the longest first: the key, the address, each header's value, and in one such as
        `Bearer TOKEN` the token alone. A header that only says what the record says itself is none.
        """
        values = list(self.headers.values())
        values += [match[1] for value in values if (match := _SCHEME.fullmatch(value))]
        public = (*self.models, *_WORDS)
        found = {value for value in values if not any(value in text for text in public)}
        found |= {self.api_key or "", (self.base_url or "").rstrip("/")}
        for endpoint in self.endpoints.values():
            found |= {endpoint.api_key or "", endpoint.url.rstrip("/")}
        return tuple(sorted((text for text in found if len(text) >= _SHORTEST), key=lambda text: (-len(text), text)))

    def cut(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text

    def scrub(self, value: Any) -> Any:
        """Return a JSON-like value without the secrets in its texts. Keys and numbers are not the endpoint's words."""
        if isinstance(value, str):
            return self.cut(value)
        if isinstance(value, Mapping):
            return {key: self.scrub(part) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(part) for part in value]
        return value


def _check_api_key(key: str | None) -> None:
    if key is not None and (not _is_plain(key) or " " in key):
        raise UsageError("the API key must be of printable ASCII characters, without white space")


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and text == text.strip()


def _check_url(url: str) -> None:
    """Refuse what is no address, or holds more than one: libraries log it, and parts of it get into errors.

    Raises:
        UsageError: without the address, which may hold a password.
    """
    if any(sign in url for sign in "@?#"):
        raise UsageError(
            "the base URL must have no user, password, query or fragment",
            hint="give what the endpoint wants to know as a header, such as --header 'Authorization: Basic ...'",
        )
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not url.isprintable() or " " in url:
        raise UsageError("the base URL is not valid", hint="it is of the form http://HOST:PORT/v1")
