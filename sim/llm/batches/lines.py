"""Requests and results of a batch, as lines of JSON in the form of OpenAI's Batch API.

Results are not trusted: a line that is not a result is ignored, and so is a second result of a request. A request
without a result has failed.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from sim.kernel.codec import JsonObject, encode
from sim.llm.providers.openai.errors import classify
from sim.llm.types import ErrorClass, ModelError

AT_ONCE: Final = 0.05
"""Seconds until a request that failed in a batch goes into the next one: it has waited in the batch already."""

QUEUE_FULL: Final = 900.0
"""Seconds to wait after the endpoint has refused a batch because too many tokens wait there."""

_BY_CODE: Final[Mapping[str, ErrorClass]] = {
    "batch_expired": "timeout",
    "request_timeout": "timeout",
    "batch_cancelled": "server",
    "token_limit_exceeded": "rate_limit",
    "model_not_found": "not_found",
    "invalid_model": "not_found",
}


@attrs.frozen
class Result:
    """What became of one request in a batch: the body of the answer, or the error."""

    body: Any = None
    error: ModelError | None = None


def request_line(id: str, path: str, body: JsonObject) -> bytes:
    """Return the line of a request.

    Args:
        id: names the request within the batch (`custom_id`).
        path: the path of the request below `/v1`.
        body: the body of the request.
    """
    return encode({"custom_id": id, "method": "POST", "url": f"/v1{path}", "body": dict(body)}) + b"\n"


def batch_key(run: str, number: int, ids: tuple[str, ...]) -> str:
    """Return the key (32 hex digits) by which a run finds a batch at the endpoint again.

    Args:
        run: the name of the run.
        number: the number of the batch in the run.
        ids: the ids of its requests.
    """
    return hashlib.sha256(encode((run, number, ids))).hexdigest()[:32]


def read_result(line: bytes) -> tuple[str, Result] | None:
    """Return the id of a request and its result, or None if a line is not a result."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("custom_id"), str):
        return None
    id, response, error = value["custom_id"], value.get("response"), value.get("error")
    if isinstance(response, dict) and isinstance(response.get("status_code"), int):
        status, body = response["status_code"], response.get("body")
        return id, Result(body) if 200 <= status < 300 else Result(error=_refusal(status, body))
    if isinstance(error, dict):
        return id, Result(error=failure_of(error.get("code"), error.get("message")))
    return None


def failure_of(code: object, message: object) -> ModelError:
    """Return the error that a code and a message of a batch, or of a request in it, stand for."""
    kind = _BY_CODE.get(str(code)) or classify(None, {"code": code}, str(message), {})
    return ModelError(
        kind, f"{code}: {message}"[:1000], retry_after=QUEUE_FULL if code == "token_limit_exceeded" else None
    )


def _refusal(status: int, body: object) -> ModelError:
    fields = body.get("error") if isinstance(body, dict) else None
    message = fields.get("message") if isinstance(fields, dict) else body
    return ModelError(classify(status, body, str(message)[:1000], {}), f"{status}: {message}"[:1000])
