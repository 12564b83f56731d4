"""The options that say which language models run and how they are reached."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sim.errors import UsageError
from sim.llm.access import Access

Command = TypeVar("Command", bound=Callable[..., Any])

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"

_ENDPOINT = (
    click.option("--base-url", metavar="URL", help=f"The endpoint of openai models; else {URL}. The key is in {KEY}."),
    click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header for the endpoint."),
    click.option("--requests-per-minute", type=click.IntRange(1), metavar="N", help="A limit of the endpoint."),
    click.option("--tokens-per-minute", type=click.IntRange(1), metavar="N", help="Another one."),
    click.option("--concurrency", type=click.IntRange(1), metavar="N", help="Requests at once; else 64."),
)
_OTHER = click.option(
    "--other-endpoint", is_flag=True, help="Let prompts go to another endpoint than the one of the run."
)
_MODELS = (
    click.option(
        "--model", "models", multiple=True, metavar="[TIER=]PROVIDER:NAME",
        help="A language model in place of the scenario's, such as openai:NAME; for one tier, or for all.",
    ),
    *_ENDPOINT,
    click.option("--estimate", "only_estimate", is_flag=True, help="Only say what the language models would cost."),
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
    asked = {name: options.pop(name) for name in ("requests_per_minute", "tokens_per_minute", "concurrency")}
    limits = {name: number for name, number in asked.items() if number is not None}
    access = Access(names)
    if access.outside:
        return Access(
            names,
            base_url=base_url or os.environ.get(URL) or None,
            api_key=os.environ.get(KEY, "").strip() or None,  # a file it was read from ends with a newline
            headers=dict(map(_header, headers)),
            **limits,
        )
    if base_url or headers or limits:
        raise UsageError("an endpoint is given, but no model that is there", hint="add --model openai:NAME")
    return access if names else None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError("a header is of the form NAME:VALUE")  # without the text, which may be a secret
    return name.strip(), value.strip()
