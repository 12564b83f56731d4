"""The options for language models and their endpoints."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from sim.base.errors import UsageError

if TYPE_CHECKING:
    from sim.llm.access import Access, Endpoint
    from sim.llm.batches.settings import Batching

Command = TypeVar("Command", bound=Callable[..., Any])

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"

_ENDPOINT = (
    click.option("--base-url", metavar="URL", help=f"The endpoint of openai models. Default: {URL}. Key: {KEY}."),
    click.option(
        "--endpoint",
        "endpoints",
        multiple=True,
        metavar="NAME=URL",
        help="A further endpoint, for models NAME:...",
    ),
    click.option(
        "--endpoint-key",
        "endpoint_keys",
        multiple=True,
        metavar="NAME=VARIABLE",
        help="The environment variable with the key of an --endpoint.",
    ),
    click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="An HTTP header for the endpoint."),
    click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="Request limit of the endpoint."),
    click.option("--tokens-per-minute", type=click.IntRange(1), metavar="N", help="Token limit of the endpoint."),
    click.option(
        "--stream",
        is_flag=True,
        help="Have endpoints send answers in parts: sim watch and sim view show them as they arrive.",
    ),
    click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Concurrent requests. Default: 64."),
)
_BATCHES = (
    click.option(
        "--batch/--no-batch", default=None,
        help="Answer calls to endpoints in batches, at a lower price; or online. Default: online, or as in the record.",
    ),
    click.option("--batch-poll", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                 help="Real time between two looks at a batch. Default: 60."),
    click.option("--batch-wait", metavar="DURATION",
                 help="The longest real time of a batch, which is then cancelled. Default: 25h."),
    click.option("--batch-price", type=click.FloatRange(0, 1), metavar="SHARE",
                 help="The price in a batch, as a share of the full price. Default: 0.5."),
    click.option("--batch-requests", type=click.IntRange(1), metavar="N",
                 help="The most requests of a batch. Default: 50000."),
    click.option("--batch-bytes", type=click.IntRange(1), metavar="N",
                 help="The most bytes of a batch. Default: 200000000."),
)  # fmt: skip
_OTHER = click.option(
    "--other-endpoint", is_flag=True, help="Allow prompts to go to a different endpoint than in the recorded run."
)
MODEL = click.option(
    "--model", "models", multiple=True, metavar="[TIER=]PROVIDER:NAME",
    help="A language model instead of the scenario's, for one tier or all; for example openai:NAME.",
)  # fmt: skip
ENDPOINT = (
    "base_url", "endpoints", "endpoint_keys", "headers", "requests_per_minute", "tokens_per_minute", "concurrency",
    "stream", "batch", "batch_poll", "batch_wait", "batch_price", "batch_requests", "batch_bytes",
)  # fmt: skip
"""The names of the options of endpoints, without `--other-endpoint`."""
_ESTIMATE = (
    click.option("--estimate", "only_estimate", is_flag=True, help="Estimate the cost of models; do not run."),
    click.option("--probe", type=click.IntRange(1, 50), metavar="N",
                 help="With --estimate: make N calls for real, and scale the others by them. They cost money."),
)  # fmt: skip


def model_options(command: Command) -> Command:
    """Add the options of language models to a command."""
    for option in reversed((MODEL, *_ENDPOINT, *_BATCHES, *_ESTIMATE)):
        command = option(command)
    return command


def endpoint_options(command: Command) -> Command:
    """Add the options of endpoints to a command that continues a run. The models come from the run."""
    for option in reversed((*_ENDPOINT, *_BATCHES, _OTHER)):
        command = option(command)
    return command


def access_of(options: dict[str, Any], models: Sequence[str] | None = None) -> "Access | None":
    """Remove the options of `model_options` from `options` and return their access; None without models.

    The environment is read only if a model is at an endpoint.

    Args:
        options: the options of the command.
        models: the models, for commands without an option for them.
    """
    names = tuple(options.pop("models") if models is None else models)
    base_url, headers = options.pop("base_url"), options.pop("headers")
    endpoints = _endpoints(options.pop("endpoints"), options.pop("endpoint_keys"))
    asked = {name: options.pop(name) for name in ("requests_per_minute", "tokens_per_minute", "concurrency")}
    limits = {name: number for name, number in asked.items() if number is not None}
    batching, stream = _batching(options), options.pop("stream")
    if not (names or base_url or headers or endpoints or limits or batching or stream):
        return None
    from sim.llm.access import Access  # the import is slow

    access = Access(names, endpoints=endpoints)
    access.check_endpoints()
    if batching and stream:
        raise UsageError("--stream is given with --batch, whose answers do not arrive in parts", hint="leave one out")
    if access.outside:
        own = "openai" in access.providers  # the environment variables are for this endpoint only
        return Access(
            names,
            base_url=base_url or (os.environ.get(URL) if own else None) or None,
            api_key=_key(KEY) if own else None,
            headers=dict(map(_header, headers)),
            endpoints=endpoints,
            stream=stream,
            batching=batching,
            **limits,
        )
    if batching:
        raise UsageError("--batch is given, but no model at an endpoint", hint="add --model openai:NAME")
    if base_url or headers or limits or endpoints or stream:
        raise UsageError("an endpoint is given, but no model at an endpoint", hint="add --model openai:NAME")
    return access if names else None


def _batching(options: dict[str, Any]) -> "Batching | Literal[False] | None":
    """Remove the options of batches and return the settings: None if no option was given, False for none."""
    wanted = options.pop("batch")
    asked = {name: options.pop(f"batch_{name}") for name in ("poll", "wait", "price", "requests", "bytes")}
    given = {name: value for name, value in asked.items() if value is not None}
    if given and not wanted:
        raise UsageError(f"--batch-{next(iter(given))} is given without --batch", hint="add --batch")
    if not wanted:
        return None if wanted is None else False
    from sim.llm.batches.settings import Batching  # the import is slow

    return Batching(**given)


def _endpoints(given: Sequence[str], keys: Sequence[str]) -> "dict[str, Endpoint]":
    variables = dict(_pair(text, "--endpoint-key must have the form NAME=VARIABLE") for text in keys)
    urls = dict(_pair(text, "--endpoint must have the form NAME=URL") for text in given)
    for name, variable in variables.items():
        if name not in urls:
            raise UsageError(f"--endpoint-key names the unknown endpoint {name!r}", hint=f"add --endpoint {name}=URL")
        if _key(variable) is None:
            raise UsageError(f"the environment variable {variable!r} with the key of {name} is not set")
    if not urls:
        return {}
    from sim.llm.access import Endpoint  # the import is slow

    return {name: Endpoint(url, _key(variables[name]) if name in variables else None) for name, url in urls.items()}


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise UsageError(form)  # without the text, which can contain a secret
    return name, value


def _key(variable: str) -> str | None:
    return os.environ.get(variable, "").strip() or None  # a key that was read from a file can end with a newline


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("--header must have the form NAME:VALUE")  # without the text, which can contain a secret
    return name.strip(), value.strip()
