"""Interprets failures and headers of an OpenAI-compatible endpoint. These are plain functions of the response."""

import re
from collections.abc import Mapping
from typing import Any, Final

from sim.llm.limits.governor import ReportedLimits
from sim.llm.types import ErrorClass

_CODES: Final[Mapping[str, ErrorClass]] = {
    "insufficient_quota": "quota", "billing_hard_limit_reached": "quota", "billing_not_active": "quota",
    "exceeded_current_quota_error": "quota", "insufficient_balance": "quota", "access_terminated": "quota",
    "account_deactivated": "quota", "budget_exceeded": "quota", "arrearage": "quota",
    "rate_limit_exceeded": "rate_limit", "rate_limit_error": "rate_limit", "rate_limit_reached_error": "rate_limit",
    "too_many_requests": "rate_limit", "resource_exhausted": "rate_limit", "throttling": "rate_limit",
    "context_length_exceeded": "context_length", "exceed_context_size_error": "context_length",
    "content_filter": "content", "content_policy_violation": "content", "moderation_blocked": "content",
    "overloaded_error": "overload", "engine_overloaded_error": "overload", "unavailable_error": "overload",
    "invalid_api_key": "auth", "api_key_invalid": "auth", "model_not_found": "not_found",
}  # fmt: skip
"""The codes of OpenAI, and those of Moonshot, DashScope, DeepSeek, Anthropic, Gemini, LiteLLM and llama.cpp."""

_TOO_LONG: Final = (
    "context_length", "context length", "context window", "context size", "exceed_context", "too many tokens",
    "prompt is too long", "maximum context", "input is too long",
)  # fmt: skip
_FILTERED: Final = ("content_filter", "content_policy", "content management policy", "moderation_blocked")
_BUSY: Final = ("overloaded", "capacity", "server is busy")

_BY_STATUS: Final[Mapping[int, ErrorClass]] = {
    401: "auth", 402: "quota", 403: "auth", 404: "not_found", 408: "timeout", 409: "server", 413: "context_length",
    429: "rate_limit", 501: "bad_request", 503: "overload", 504: "timeout", 529: "overload",
}  # fmt: skip

_RETRY_IN = re.compile(
    r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)? ?(?:ms|s|m|h|seconds?|minutes?|hours?)(?![a-z]))+)",
    re.IGNORECASE,
)
_UNIT = re.compile(r"([smh])(?:econds?|inutes?|ours?)", re.IGNORECASE)
_LONGEST: Final = 2000  # characters of a text that is searched

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
    fields = _error_in(body)
    code = fields.get("code")
    if status is None and isinstance(code, int | str) and str(code).isdecimal() and len(str(code)) == 3:
        status = int(code)
    named = _by_code(fields)
    if named == "quota" or (named is not None and status in (None, 400)):
        return named
    words = f"{code} {fields.get('type')} {message}".lower()
    # The text of an error counts only if neither a code nor the status identifies the cause.
    if status in (400, 403, 413, 422, 500, None) and any(word in words for word in _TOO_LONG):
        return "context_length"
    if status in (400, 403, 422, None) and any(word in words for word in _FILTERED):
        return "content"
    if status == 429 and headers.get("x-should-retry", "").lower() == "false" and retry_delay(body) is None:
        return "quota"
    if status is None:
        return "rate_limit" if "rate_limit" in words else "overload" if any(w in words for w in _BUSY) else "server"
    if status == 403 and named == "rate_limit":
        return "rate_limit"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return "server" if status >= 500 else "bad_request"


def retry_delay(body: object) -> float | None:
    """Return the seconds that the body of an error asks to wait: `retryDelay` of a `RetryInfo`, as Gemini sends it.

    If there is none, the text counts (`Please retry in 3.2s`). None: the body does not say.
    """
    fields = _error_in(body)
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping) and isinstance(detail.get("retryDelay"), str):
            seconds = _seconds(detail["retryDelay"])
            if seconds is not None:
                return seconds
    said = _RETRY_IN.search(str(fields.get("message", ""))[:_LONGEST])
    return None if said is None else _seconds(_UNIT.sub(r"\1", said[1].lower()).replace(" ", ""))


def message_in(body: object) -> str:
    """Return the message of an error in a body; empty if it has none."""
    message = _error_in(body).get("message")
    return message if isinstance(message, str) else ""


def _error_in(body: object) -> Mapping[Any, Any]:
    """Return the error object of a body, which some servers wrap in a list, or in text."""
    if isinstance(body, list) and body:
        body = body[0]
    fields: Mapping[Any, Any] = body if isinstance(body, Mapping) else {}
    nested = fields.get("error")
    return nested if isinstance(nested, Mapping) else fields


def _by_code(fields: Mapping[Any, Any]) -> ErrorClass | None:
    """Return the class that the code, the type, the status or the reason of an error names; None: none does."""
    details = fields.get("details")
    reasons = [one.get("reason") for one in details if isinstance(one, Mapping)] if isinstance(details, list) else []
    for value in (fields.get("code"), fields.get("type"), fields.get("status"), *reasons):
        if isinstance(value, str):
            name = value.lower()
            error_class = _CODES.get(name) or _CODES.get(name.partition(".")[0])  # Throttling.RateQuota
            if error_class is not None:
                return error_class
    return None


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
