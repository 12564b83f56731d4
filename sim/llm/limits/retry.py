"""The retry policy: which failures are retried, how often, and after which wait.

These are plain functions of an error and a random draw; the client does the waiting. It is the only layer of retries:
all others are switched off (`max_retries=0` in the real client), so that a call makes exactly the requests that it
counts.
By default rate limits and overload have five retries, network errors and incomplete streams three, other errors two,
with backoffs from 10 s. Rate limits and overload first have two immediate retries, after 1.5 s each; an empty answer
has one, because it is no matter of load.
"""

import math
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from types import MappingProxyType
from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.llm.types import ErrorClass, ModelError

DEFAULT_TIMEOUT: Final = 120.0
"""The default time limit of one request, in seconds."""

OVER_ADVICE: Final = 0.2
"""A wait that an endpoint asks for becomes up to this share longer, so that refused callers do not return together."""

LEAST_BACKOFF: Final = 0.1
"""The smallest share of a backoff; the rest is random ("full jitter", Brooker, AWS 2015)."""


def _is_time(owner: object, field: "attrs.Attribute[float]", value: object) -> None:
    """Refuse values that are not a time limit; `None` would mean to wait forever."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"{field.name} must be a number of seconds above 0, not {value!r}")


@attrs.frozen
class RetryRule:
    """How one class of errors is retried.

    Args:
        retries: the most retries of a model, each after a backoff.
        base: the first backoff in seconds; each further backoff is twice as long.
        immediate: further retries before the first backoff, each after `RetryPolicy.immediate_delay`.
    """

    retries: int
    base: float = attrs.field(default=10.0, validator=_is_time)
    immediate: int = 0

    @property
    def requests(self) -> int:
        """The most requests to one model, including the first."""
        return 1 + self.immediate + self.retries


_LATER = RetryRule(5, immediate=2)  # the endpoint works, but asks to retry later
_LINE = RetryRule(3)
_OTHER = RetryRule(2)

DEFAULT_RULES: Final[Mapping[ErrorClass, RetryRule]] = MappingProxyType(
    {
        "rate_limit": _LATER,
        "overload": _LATER,
        "network": _LINE,
        "incomplete": _LINE,
        "server": _OTHER,
        "timeout": _OTHER,
        "malformed": _OTHER,
        "empty": RetryRule(0, immediate=1),
    }
)
"""The retried classes of errors. Never retried: `quota`, `bad_request`, `context_length`, `content`, `auth`,
`not_found`, `reasoning`.
"""

MOST_REQUESTS: Final = max(rule.requests for rule in DEFAULT_RULES.values())
"""The default maximum of requests of one call: the highest of all rules."""


@attrs.frozen
class RetryPolicy:
    """How often and how long one call is tried.

    Args:
        rules: the rule of each class of errors; a class without a rule is never retried.
        requests: the most requests of one call, over all errors and all models of its fallback chain.
        timeout: the time limit of one request in seconds, from its first byte to its last.
        deadline: the most seconds of requests and of waits between them in one call. The wait for a turn at the
            governor does not count, as it is not a failure.
        immediate_delay: seconds before an immediate retry.
        longest: the longest backoff in seconds. A wait that the endpoint asks for can be longer.
    """

    rules: Mapping[ErrorClass, RetryRule] = DEFAULT_RULES
    requests: int = attrs.field(default=MOST_REQUESTS, validator=attrs.validators.ge(1))
    timeout: float = attrs.field(default=DEFAULT_TIMEOUT, validator=_is_time)
    deadline: float = attrs.field(default=600.0, validator=_is_time)
    immediate_delay: float = attrs.field(default=1.5, validator=_is_time)
    longest: float = attrs.field(default=120.0, validator=_is_time)

    def pause(self, error: ModelError, tries: int, draw: float, *, immediate: bool = False) -> float | None:
        """Return the seconds to wait before the next attempt with the same model, or None to give up.

        If an endpoint asks for a wait of 0 (or names a date in the past), the backoff applies instead: otherwise the
        retries would have no pause. A 0 is used only after a network error that the provider itself has repaired.

        Args:
            error: the latest failure.
            tries: how often this model has failed in this class, including this failure.
            draw: a number in [0, 1) for the jitter.
            immediate: whether only immediate retries are made, because the caller itself tries again later.
        """
        rule = self.rules.get(error.kind)
        if rule is None or tries >= rule.requests or (immediate and tries > rule.immediate):
            return None
        if error.retry_after is not None and (error.retry_after > 0 or error.kind == "network"):
            return error.retry_after * (1 + OVER_ADVICE * draw)
        if tries <= rule.immediate:
            return self.immediate_delay * (1 + OVER_ADVICE * draw)
        backoff = min(self.longest, rule.base * 2.0 ** min(tries - rule.immediate - 1, 60))
        return backoff * (LEAST_BACKOFF + (1 - LEAST_BACKOFF) * draw)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a response asks to wait, or None if it has no readable value.

    Reads `retry-after-ms`, then `retry-after` as seconds or as an HTTP date (RFC 9110). A date is compared with the
    `date` of the response, so that clock differences do not matter, and with `now` if there is none.

    Args:
        headers: headers of the response, with lowercase names or in a case-insensitive mapping.
        now: Unix time in seconds.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    until, sent = _date(text), _date(headers.get("date", ""))
    return None if until is None else max(0.0, until - (now if sent is None else sent))


def _number(text: str | None) -> float | None:
    """Return a finite number of at least 0, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _date(text: str) -> float | None:
    """Return the Unix time of an HTTP date, or None. HTTP dates are always in GMT."""
    fields = parsedate_tz(text)
    if fields is None:
        return None
    try:
        return float(mktime_tz((*fields[:9], fields[9] or 0)))
    except (ValueError, OverflowError):
        return None
