"""The one retry layer: which failures are tried again, how often, and how long one waits before it.

Plain functions of an error and a draw: who waits is the client. Everything else that might retry is switched off
(`max_retries=0` in the real client), so that a call makes as many requests as it says. The constants are those of seed
001, and a retry comes after the first try: rate limits five, the network three, anything else two, all from 10 s; rate
limits have two immediate retries of 1.5 s before these.
"""

import math
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from types import MappingProxyType
from typing import Final

import attrs

from sim.errors import UsageError
from sim.llm.types import ErrorClass, ModelError

DEFAULT_TIMEOUT: Final = 120.0
"""Seconds that one request may take, unless somebody says otherwise."""

OVER_ADVICE: Final = 0.2
"""A wait that an endpoint asks for is made up to this share longer, never shorter: who was refused together spreads."""

LEAST_BACKOFF: Final = 0.1
"""The least share of a backoff that is waited; the rest is drawn ("full jitter", Brooker, AWS 2015)."""


def _is_time(owner: object, field: "attrs.Attribute[float]", value: object) -> None:
    """Refuse what is no time limit: `None` would mean to wait for ever."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"{field.name} must be a number of seconds above 0, not {value!r}")


@attrs.frozen
class RetryRule:
    """How one class of errors is tried again.

    Args:
        retries: how often a model is asked again at most, each time after a backoff.
        base: seconds of the first backoff; each further one is twice as long.
        immediate: how many more retries come before the first backoff, `RetryPolicy.immediate_delay` apart.
    """

    retries: int
    base: float = attrs.field(default=10.0, validator=_is_time)
    immediate: int = 0

    @property
    def requests(self) -> int:
        """How often a model is asked at most, the first time included."""
        return 1 + self.immediate + self.retries


_LATER = RetryRule(5, immediate=2)  # the endpoint works and says "later"
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
    }
)
"""What is tried again. Not in it, so never: `quota`, `bad_request`, `context_length`, `content`, `auth`,
`not_found`.
"""

MOST_REQUESTS: Final = max(rule.requests for rule in DEFAULT_RULES.values())
"""The requests of one call, unless somebody says otherwise: no class of errors has more."""


@attrs.frozen
class RetryPolicy:
    """How often and how long one call tries.

    Args:
        rules: how each class of errors is tried again; a class that is not in it never is.
        requests: the most requests of one call, over all errors and all models of its fallback chain.
        timeout: seconds that one request may take, from its first byte to its last.
        deadline: seconds that a call may spend on requests and on waiting between them. Waiting for one's turn
            under the governor is not counted: it is the price of the limit, not a failure.
        immediate_delay: seconds before an immediate retry.
        longest: the longest backoff in seconds; a wait that the endpoint asks for may be longer.
    """

    rules: Mapping[ErrorClass, RetryRule] = DEFAULT_RULES
    requests: int = attrs.field(default=MOST_REQUESTS, validator=attrs.validators.ge(1))
    timeout: float = attrs.field(default=DEFAULT_TIMEOUT, validator=_is_time)
    deadline: float = attrs.field(default=600.0, validator=_is_time)
    immediate_delay: float = attrs.field(default=1.5, validator=_is_time)
    longest: float = attrs.field(default=120.0, validator=_is_time)

    def pause(self, error: ModelError, tries: int, draw: float) -> float | None:
        """Return the seconds to wait before the next try of the same model, or None to give it up.

        A wait of 0 that an endpoint asks for (or a date in the past) says nothing: taken at its word it would be asked
        without a pause. Only after a fault of the line, which the provider mended itself, it is kept.

        Args:
            error: how the latest try failed.
            tries: how often this model has failed in this class, this time included.
            draw: a number in [0, 1) for the jitter.
        """
        rule = self.rules.get(error.kind)
        if rule is None or tries >= rule.requests:
            return None
        if error.retry_after is not None and (error.retry_after > 0 or error.kind == "network"):
            return error.retry_after * (1 + OVER_ADVICE * draw)
        if tries <= rule.immediate:
            return self.immediate_delay * (1 + OVER_ADVICE * draw)
        backoff = min(self.longest, rule.base * 2.0 ** min(tries - rule.immediate - 1, 60))
        return backoff * (LEAST_BACKOFF + (1 - LEAST_BACKOFF) * draw)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a response asks to wait, or None if it does not, or not in a form that can be read.

    Reads `retry-after-ms`, then `retry-after` as seconds or as an HTTP date (RFC 9110). A date is compared with the
    response's own `date`, so that clocks that differ do no harm, and only without one with `now`.

    Args:
        headers: of the response, with names in lower case or a mapping that ignores case.
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
    """Return a finite number that is not below 0."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _date(text: str) -> float | None:
    """Return the Unix time of an HTTP date, which is always in GMT."""
    fields = parsedate_tz(text)
    if fields is None:
        return None
    try:
        return float(mktime_tz((*fields[:9], fields[9] or 0)))
    except (ValueError, OverflowError):
        return None
