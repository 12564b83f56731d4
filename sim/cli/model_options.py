"""The options for language models and their endpoints."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import click

from sim.base.errors import UsageError
from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.llm.batches.settings import Batching
from sim.llm.defaults import CONCURRENCY
from sim.runner.options import ReplayOptions

if TYPE_CHECKING:
    from sim.llm.access import Access, Endpoint
    from sim.scenario.profile import Profile

Command = TypeVar("Command", bound=Callable[..., Any])

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"


class _ProfileType(click.ParamType["Profile"]):
    """A profile of endpoints, which is read when the command line is."""

    name = "profile"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Profile":
        from sim.scenario.profile import read_profile  # the import is slow

        return read_profile(value)


_ENDPOINT = (
    click.option(
        "--profile",
        type=_ProfileType(),
        metavar="[FILE:]NAME",
        help="A profile of endpoints.yaml, or of another file: what the options of endpoints say. They override it.",
    ),
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
        "--stream/--no-stream",
        default=None,
        help="Have endpoints send answers in parts: sim watch and sim view show them as they arrive.",
    ),
    click.option(
        "--concurrency", type=click.IntRange(1), metavar="N", help=f"Concurrent requests. Default: {CONCURRENCY}."
    ),
)
_BATCHING = Batching()
_BATCHES = (
    click.option(
        "--batch/--no-batch",
        default=None,
        help="Answer calls to endpoints in batches, at a lower price; or online. Default: online, or as in the record.",
    ),
    click.option(
        "--batch-poll",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help=f"Real time between two looks at a batch. Default: {_BATCHING.poll:g}.",
    ),
    click.option(
        "--batch-wait",
        metavar="DURATION",
        help=f"The longest real time of a batch, which is then cancelled. Default: {_BATCHING.wait / 3600:g}h.",
    ),
    click.option(
        "--batch-price",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help=f"The price in a batch, as a share of the full price. Default: {_BATCHING.price:g}.",
    ),
    click.option(
        "--batch-requests",
        type=click.IntRange(1),
        metavar="N",
        help=f"The most requests of a batch. Default: {_BATCHING.requests}.",
    ),
    click.option(
        "--batch-bytes",
        type=click.IntRange(1),
        metavar="N",
        help=f"The most bytes of a batch. Default: {_BATCHING.bytes}.",
    ),
)

MODEL = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="[TIER=]PROVIDER:NAME",
    help="A language model instead of the scenario's, for one tier or all; for example openai:NAME.",
)
ENDPOINT = (
    "profile", "base_url", "endpoints", "endpoint_keys", "headers", "requests_per_minute", "tokens_per_minute",
    "concurrency", "stream", "batch", "batch_poll", "batch_wait", "batch_price", "batch_requests", "batch_bytes",
)  # fmt: skip
"""The names of the options of endpoints, without `--other-endpoint`."""
_ESTIMATE = (
    click.option("--estimate", "only_estimate", is_flag=True, help="Estimate the cost of models; do not run."),
    click.option(
        "--probe",
        type=click.IntRange(1, 50),
        metavar="N",
        help="With --estimate: make N calls for real, and scale the others by them. They cost money.",
    ),
)


def model_options(command: Command) -> Command:
    """Add the options of language models to a command."""
    for option in reversed((MODEL, *_ENDPOINT, *_BATCHES, *_ESTIMATE)):
        command = option(command)
    return command


def endpoint_options(command: Command) -> Command:
    """Add the options of endpoints to a command that continues a run. The models come from the run."""
    other = options_of(ReplayOptions, "other_endpoint")
    for option in reversed((*_ENDPOINT, *_BATCHES, other)):
        command = option(command)
    return command


def models_in(options: Keywords, models: Sequence[str]) -> tuple[str, ...]:
    """Return the models that were asked for: those of `--model`, and those of the profile for other tiers.

    Args:
        options: the options of endpoints.
        models: the values of `--model`; one for all calls replaces all of the profile.
    """
    profile: Profile | None = options["profile"]
    if profile is None or any("=" not in text for text in models):
        return tuple(models)
    tiers = {text.partition("=")[0] for text in models}
    return (*(text for text in profile.models if "=" not in text or text.partition("=")[0] not in tiers), *models)


def access_of(options: Keywords, models: Sequence[str] | None = None) -> "Access | None":
    """Remove the options of `model_options` from `options` and return their access; None without models.

    The environment is read only if a model is at an endpoint.

    Args:
        options: the options of the command.
        models: the models, for commands that take them from a record too.
    """
    names = models_in(options, options.pop("models")) if models is None else tuple(models)
    profile: Profile | None = options.pop("profile")
    base_url, headers = options.pop("base_url"), options.pop("headers")
    endpoints = _endpoints(options.pop("endpoints"), options.pop("endpoint_keys"))
    asked = {name: options.pop(name) for name in _LIMITS}
    limits = {name: number for name, number in asked.items() if number is not None}
    batching, stream = _batching(options, profile), options.pop("stream")
    if not (names or profile or base_url or headers or endpoints or limits or batching or stream):
        return None
    from sim.llm.access import Access, Endpoint  # the import is slow

    places = {} if profile is None else {name: Endpoint(place.base_url) for name, place in profile.endpoints.items()}
    access = Access(names, endpoints={**places, **endpoints})
    access.check_endpoints()
    stream = bool(profile is not None and profile.stream) if stream is None else stream
    if batching and stream:
        raise UsageError("--stream is given with --batch, whose answers do not arrive in parts", hint="leave one out")
    if not access.outside:
        if batching:
            raise UsageError("--batch is given, but no model at an endpoint", hint="add --model openai:NAME")
        if profile or base_url or headers or limits or endpoints or stream:
            raise UsageError("an endpoint is given, but no model at an endpoint", hint="add --model openai:NAME")
        return access if names else None
    own = "openai" in access.providers  # its key and environment variables are for this endpoint only
    place = _place(base_url, profile, own=own)
    parts = _profile_parts(profile, access, moved=base_url is not None)
    return Access(
        names,
        base_url=place[0],
        api_key=place[1],
        headers=_joined(parts.pop("headers"), dict(map(_header, headers))),
        endpoints={**parts.pop("endpoints"), **endpoints},
        stream=stream,
        batching=batching,
        **{**parts, **limits},
    )


_LIMITS = ("requests_per_minute", "tokens_per_minute", "concurrency")


def _place(base_url: str | None, profile: "Profile | None", *, own: bool) -> tuple[str | None, str | None]:
    """Return the address and the key. A key goes only to the address that it was given for."""
    address, key = os.environ.get(URL) or None, _key(KEY)
    if base_url is not None:
        return base_url, key if own else None
    if profile is not None and profile.base_url is not None:
        return profile.base_url, profile.api_key(os.environ) if own else None
    if profile is not None and profile.key is not None and own:
        return None, profile.api_key(os.environ)  # of OpenAI, for which the variable of the address is not meant
    return (address, key) if own else (None, None)


def _profile_parts(profile: "Profile | None", access: "Access", *, moved: bool) -> Keywords:
    """Return what a profile says, by arguments of `Access`; if the address was moved, without the headers for it."""
    if profile is None:
        return {"headers": {}, "endpoints": {}}
    used = {name: place for name, place in profile.endpoints.items() if name in access.providers}
    limits = {name: number for name in _LIMITS if (number := getattr(profile, name)) is not None}
    return {
        "headers": {} if moved else profile.header_values(os.environ),
        "endpoints": attrs.evolve(profile, endpoints=used).places(os.environ),
        **limits,
    }


def _joined(before: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower() for name in headers}
    return {**{name: value for name, value in before.items() if name.lower() not in names}, **headers}


def _batching(options: Keywords, profile: "Profile | None") -> "Batching | Literal[False] | None":
    """Remove the options of batches and return the settings: None if no option was given, False for none."""
    wanted = options.pop("batch")
    asked = {name: options.pop(f"batch_{name}") for name in ("poll", "wait", "price", "requests", "bytes")}
    settings = {name: value for name, value in asked.items() if value is not None}
    before = None if profile is None else profile.batch
    if wanted is None and before is not None:
        return attrs.evolve(before, **settings)
    if settings and not wanted:
        raise UsageError(f"--batch-{next(iter(settings))} is given without --batch", hint="add --batch")
    if not wanted:
        return None if wanted is None else False
    from sim.llm.batches.settings import Batching  # the import is slow

    return Batching(**settings) if before is None else attrs.evolve(before, **settings)


def _endpoints(endpoints: Sequence[str], keys: Sequence[str]) -> "dict[str, Endpoint]":
    variables = dict(_pair(text, "--endpoint-key must have the form NAME=VARIABLE") for text in keys)
    urls = dict(_pair(text, "--endpoint must have the form NAME=URL") for text in endpoints)
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
