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
from sim.llm.port import ErrorClass, StopReason

OPENAI_URL: Final = "https://api.openai.com/v1"
"""Where requests go if the operator gives no address."""

CONCURRENCY: Final = 64
"""Requests that are under way at one endpoint at once, if the operator says nothing else."""

REDACTED = "[redacted]"

_SHORTEST = 6  # a secret shorter than this would be found in innocent text

_GUESSES = 200_000  # rounds of a fingerprint: about a tenth of a second

_WORDS = (*get_args(StopReason), *get_args(ErrorClass))  # what the record says itself, so no header makes it a secret

_SCHEME = re.compile(r"(?:bearer|basic)\s+(\S+)", re.IGNORECASE)

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token (RFC 9110)


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
        concurrency: requests that may be under way at once, at least 1.

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

    def __attrs_post_init__(self) -> None:
        if self.base_url is not None:
            _check_url(self.base_url)
        if self.api_key is not None and (not _is_plain(self.api_key) or " " in self.api_key):
            raise UsageError("the API key must be of printable ASCII characters, without white space")
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
            unknown = next((provider for provider, _, _ in pairs if provider not in PROVIDERS), None)
            if unknown is not None:
                known = ", ".join(PROVIDERS)
                raise UsageError(f"there is no model provider {unknown[:40]!r}", hint=f"known: {known}")
            if tier in result:
                raise UsageError(f"two models are given for {'all calls' if tier == '*' else f'the tier {tier}'}")
            result[tier] = tuple((provider, model) for provider, _, model in pairs)
        return result

    @property
    def outside(self) -> bool:
        """Whether any model is at an endpoint."""
        return any(provider not in INSIDE for chain in self.chains().values() for provider, _ in chain)

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
        parts = urlsplit(self.base_url or OPENAI_URL)
        address = f"{parts.scheme}://{parts.netloc}".lower() + parts.path.rstrip("/")
        return hashlib.pbkdf2_hmac("sha256", address.encode(), b"sim endpoint", _GUESSES).hex()[:32]

    def check_key(self) -> None:
        """Refuse to ask OpenAI's own endpoint without a key.

        Raises:
            UsageError: if there is none.
        """
        if self.outside and self.is_openai and not self.has_key:
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


PROVIDERS = ("scripted", "simulated", "openai")
"""Who can answer; all but the first two stand outside."""

INSIDE = ("scripted", "simulated")
"""Providers that answer in the core, in simulated time."""
