"""Interprets failures and headers of an OpenAI-compatible endpoint. These are plain functions of the response."""

import re
from collections.abc import Mapping
from typing import Any, Final

from sim.llm.limits.governor import ReportedLimits
from sim.llm.types import ErrorClass

_QUOTA: Final = ("insufficient_quota", "billing_hard_limit", "billing_not_active", "exceeded your current quota")
_TOO_LONG: Final = (
    "context_length", "context length", "context window", "context size", "exceed_context", "too many tokens",
    "prompt is too long", "maximum context", "input is too long",
)  # fmt: skip
_FILTERED: Final = ("content_filter", "content_policy", "content management policy", "moderation_blocked")
_BUSY: Final = ("overloaded", "capacity", "server is busy")

_BY_STATUS: Final[Mapping[int, ErrorClass]] = {
    401: "auth", 402: "quota", 403: "auth", 404: "not_found", 408: "timeout", 409: "server", 413: "context_length",
    429: "rate_limit", 503: "overload", 504: "timeout", 529: "overload",
}  # fmt: skip

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def classify(status: int | None, body: object, message: str, headers: Mapping[str, str]) -> ErrorClass:
    """Return the class of error of a response.

    Args:
        status: the HTTP status, or None for an error inside a stream.
        body: the error object, or any other body.
        message: the text of the error.
        headers: the headers of the response.
    """
    fields: Mapping[Any, Any] = body if isinstance(body, Mapping) else {}
    nested = fields.get("error")
    if isinstance(nested, Mapping):
        fields = nested
    code = fields.get("code")
    if status is None and isinstance(code, int | str) and str(code).isdecimal() and len(str(code)) == 3:
        status = int(code)
    words = f"{code} {fields.get('type')} {message}".lower()
    # The text of an error counts only if the status does not identify the cause.
    if status in (400, 403, 413, 422, 500, None) and any(word in words for word in _TOO_LONG):
        return "context_length"
    if status in (400, 403, 422, None) and any(word in words for word in _FILTERED):
        return "content"
    if status in (403, 429, None) and any(word in words for word in _QUOTA):
        return "quota"
    if status == 429 and headers.get("x-should-retry", "").lower() == "false":
        return "quota"
    if status is None:
        return "rate_limit" if "rate_limit" in words else "overload" if any(w in words for w in _BUSY) else "server"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server" if status >= 500 else "bad_request"


def read_rates(headers: Mapping[str, str]) -> ReportedLimits | None:
    """Return the limits that a response reports, or None if it reports none.

    The names are OpenAI's (`x-ratelimit-limit-tokens` and so on), which most compatible servers use.
    """
    if "x-ratelimit-limit-requests" not in headers and "x-ratelimit-limit-tokens" not in headers:
        return None
    get = headers.get
    return ReportedLimits(
        limit_requests=_seconds(get("x-ratelimit-limit-requests")),
        limit_tokens=_seconds(get("x-ratelimit-limit-tokens")),
        remaining_requests=_seconds(get("x-ratelimit-remaining-requests")),
        remaining_tokens=_seconds(get("x-ratelimit-remaining-tokens")),
        reset_requests=_seconds(get("x-ratelimit-reset-requests")),
        reset_tokens=_seconds(get("x-ratelimit-reset-tokens")),
    )


def reset_after(rates: ReportedLimits | None, tokens: float) -> float | None:
    """Return the seconds until a request can be sent again, for a 429 without `retry-after`.

    Tokens become available at the rate of their limit. The reset is the time at which all are available, which is much
    later, so it is used only if the limit is unknown.

    Args:
        rates: the limits that the response reports.
        tokens: the most tokens that the request can use.
    """
    if rates is None:
        return None
    waits = []
    if rates.remaining_requests is not None and rates.remaining_requests <= 0 and rates.reset_requests is not None:
        waits.append(rates.reset_requests)
    if rates.remaining_tokens is not None and rates.limit_tokens:
        lacking = min(tokens, rates.limit_tokens) - rates.remaining_tokens
        waits += [60 * lacking / rates.limit_tokens] if lacking > 0 else []
    elif rates.remaining_tokens is not None and rates.remaining_tokens <= 0 and rates.reset_tokens is not None:
        waits.append(rates.reset_tokens)
    return max(waits, default=None)


def _seconds(text: str | None) -> float | None:
    """Parse a plain number, or a duration such as `6m0s` or `20ms` (in seconds). None: not readable."""
    if text is None or len(text) > 40:
        return None
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
