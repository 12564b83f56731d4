"""What a request needs of an endpoint beside text, and whether a refusal says that the endpoint cannot do it."""

import re
from collections.abc import Iterator
from typing import Final, Literal

from sim.llm.types import ErrorClass, ModelError, ModelRequest

Need = Literal["tools", "JSON schemas", "streams"]

_WORDS: Final[dict[Need, re.Pattern[str]]] = {
    "tools": re.compile(r"\btools?\b|tool[ _-](?:choice|call|use)|function.?call", re.IGNORECASE),
    "JSON schemas": re.compile(r"response_format|json[_ ]schema|json mode|structured.?output|\bgrammar", re.IGNORECASE),
    "streams": re.compile(r"\bstream(?:s|ing|_options)?\b", re.IGNORECASE),
}
_CANNOT: Final = re.compile(
    r"not (?:yet )?(?:support|implement|allow|enabled|available)|unsupported|requires? --|no endpoints found|"
    r"unknown (?:field|parameter)|unrecognized|extra (?:inputs|fields)|does(?:n't| not) (?:have|accept)|disabled",
    re.IGNORECASE,
)
_CLASSES: Final[tuple[ErrorClass, ...]] = ("bad_request", "not_found", "server")


def needs_of(request: ModelRequest) -> Iterator[Need]:
    """Yield what a request needs. A preferred format is no need."""
    if request.tools:
        yield "tools"
    if request.response_format is not None:
        yield "JSON schemas"
    if request.stream:
        yield "streams"


def lacking_in(error: ModelError, request: ModelRequest) -> Need | None:
    """Return what the endpoint says that it cannot do, of what a request needs; None: it says no such thing."""
    text = str(error)
    if error.kind not in _CLASSES or not _CANNOT.search(text):
        return None
    return next((need for need in needs_of(request) if _WORDS[need].search(text)), None)
