"""The options that say which language models run and how they are reached."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sim.errors import UsageError
from sim.llm.access import Access, Endpoint

Command = TypeVar("Command", bound=Callable[..., Any])

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"

_ENDPOINT = (
    click.option("--base-url", metavar="URL", help=f"The endpoint of openai models; else {URL}. The key is in {KEY}."),
    click.option(
        "--endpoint",
        "endpoints",
        multiple=True,
        metavar="NAME=URL",
        help="The URL of a further endpoint, for models NAME:...",
    ),
    click.option(
        "--endpoint-key",
        "endpoint_keys",
        multiple=True,
        metavar="NAME=VARIABLE",
        help="The environment variable with the key of such an endpoint.",
    ),
    click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header for the endpoint."),
    click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="A limit of the endpoint."),
    click.option("--tokens-per-minute", type=click.IntRange(1), metavar="N", help="A limit of the endpoint."),
    click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Requests at once; else 64."),
)
_OTHER = click.option(
    "--other-endpoint", is_flag=True, help="Allow prompts to be sent to another endpoint than that of the run."
)
_MODELS = (
    click.option(
        "--model", "models", multiple=True, metavar="[TIER=]PROVIDER:NAME",
        help="A language model in place of the scenario's, such as openai:NAME; for one tier, or for all.",
    ),
    *_ENDPOINT,
    click.option("--estimate", "only_estimate", is_flag=True, help="Print the cost of models; run nothing."),
)  # fmt: skip


def model_options(command: Command) -> Command:
    """Give a verb the options of language models."""
    for option in reversed(_MODELS):
        command = option(command)
    return command


def endpoint_options(command: Command) -> Command:
    """Give a verb that goes on with a run the options that say how language models are reached, but not which ones."""
    for option in reversed((*_ENDPOINT, _OTHER)):
        command = option(command)
    return command


def access_of(options: dict[str, Any], models: Sequence[str] | None = None) -> Access | None:
    """Take the options of `model_options` out of others and return what they give; None if they give nothing.

    The environment is read only if an endpoint is wanted.

    Args:
        options: the options of the verb.
        models: which models, if that is not one of the options.
    """
    names = tuple(options.pop("models") if models is None else models)
    base_url, headers = options.pop("base_url"), options.pop("headers")
    endpoints = _endpoints(options.pop("endpoints"), options.pop("endpoint_keys"))
    asked = {name: options.pop(name) for name in ("requests_per_minute", "tokens_per_minute", "concurrency")}
    limits = {name: number for name, number in asked.items() if number is not None}
    access = Access(names, endpoints=endpoints)
    access.check_endpoints()
    if access.outside:
        own = "openai" in access.providers  # the environment speaks of this one alone
        return Access(
            names,
            base_url=base_url or (os.environ.get(URL) if own else None) or None,
            api_key=_key(KEY) if own else None,
            headers=dict(map(_header, headers)),
            endpoints=endpoints,
            **limits,
        )
    if base_url or headers or limits or endpoints:
        raise UsageError("an endpoint is given, but no model that is there", hint="add --model openai:NAME")
    return access if names else None


def _endpoints(given: Sequence[str], keys: Sequence[str]) -> dict[str, Endpoint]:
    variables = dict(_pair(text, "an endpoint's key is of the form NAME=VARIABLE") for text in keys)
    urls = dict(_pair(text, "an endpoint is of the form NAME=URL") for text in given)
    for name, variable in variables.items():
        if name not in urls:
            raise UsageError(f"--endpoint-key names {name!r}, which is no endpoint", hint=f"add --endpoint {name}=URL")
        if _key(variable) is None:
            raise UsageError(f"the environment variable {variable!r} with the key of {name} is not set")
    return {name: Endpoint(url, _key(variables[name]) if name in variables else None) for name, url in urls.items()}


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise UsageError(form)  # without the text, which may be a secret
    return name, value


def _key(variable: str) -> str | None:
    return os.environ.get(variable, "").strip() or None  # a file it was read from ends with a newline


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("a header is of the form NAME:VALUE")  # without the text, which may be a secret
    return name.strip(), value.strip()
