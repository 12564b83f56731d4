"""Profiles of endpoints: how models are reached, kept in a file, so that no command line repeats it.

A file of profiles is YAML, a mapping of profiles by name. It holds no key: it names the environment variable that has
the key. What a profile says is used as the options of the same names are, and nothing of it is recorded but what is
recorded of them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.llm.access import Access, Endpoint
from sim.llm.batches.settings import Batching
from sim.scenario.yaml_tree import Map, Mark, Seq, read_tree

DEFAULT_FILE: Final = "endpoints.yaml"
"""The file in the current folder in which a profile is looked up if no file is named."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_SECRET: Final = re.compile(r"auth|cookie|credential|key|passw|secret|session|signature|token", re.IGNORECASE)
_NO_KEY: Final = "write the name of an environment variable that has it, such as LAB_API_KEY: no file holds a key"


@attrs.frozen
class EnvironmentVariable:
    """The name of an environment variable, with the place in the file that has it."""

    name: str
    at: Mark = attrs.field(eq=False)

    def read(self, environment: Mapping[str, str]) -> str:
        """Return the value of the variable.

        Raises:
            UsageError: if it is not set. The message has the place, not the name, which may be a key by mistake.
        """
        value = environment.get(self.name, "").strip()  # a key that was read from a file can end with a newline
        if not value:
            _fail(self.at, "the environment variable that is named here is not set", "set it, or correct the name")
        return value


@attrs.frozen
class ProfileEndpoint:
    """Another endpoint of a profile: its address, and the variable with its key."""

    base_url: str = attrs.field(repr=False)
    key: EnvironmentVariable | None = None


@attrs.frozen(kw_only=True)
class Profile:
    """How models are reached, without secrets: what the options of endpoints say, each under its name.

    Attributes:
        models: as `--model`: `PROVIDER:NAME`, or `TIER=PROVIDER:NAME`.
        base_url: as `--base-url`.
        key: the environment variable with the key for that address.
        headers: as `--header`; a value is a text, or `{env: VARIABLE}`.
        requests_per_minute: as `--requests-per-minute`.
        tokens_per_minute: as `--tokens-per-minute`.
        concurrency: as `--concurrency`.
        stream: as `--stream`.
        endpoints: further endpoints by name, as `--endpoint`: each with `base_url`, and `key` as above.
        batch: as `--batch`: true, or a mapping with `poll`, `wait`, `price`, `requests` and `bytes`.
    """

    models: tuple[str, ...] = ()
    base_url: str | None = attrs.field(default=None, repr=False)
    key: EnvironmentVariable | None = None
    headers: Mapping[str, str | EnvironmentVariable] = attrs.field(factory=dict, repr=False)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrency: int | None = None
    stream: bool = False
    endpoints: Mapping[str, ProfileEndpoint] = attrs.field(factory=dict, repr=False)
    batch: Batching | None = None

    def api_key(self, environment: Mapping[str, str]) -> str | None:
        """Return the key; None if the profile names no variable. Raises UsageError if it is not set."""
        return None if self.key is None else self.key.read(environment)

    def header_values(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the values of their variables. Raises UsageError if one is not set."""
        return {
            name: value if isinstance(value, str) else value.read(environment) for name, value in self.headers.items()
        }

    def places(self, environment: Mapping[str, str]) -> dict[str, Endpoint]:
        """Return the further endpoints with their keys. Raises UsageError if a variable is not set."""
        return {
            name: Endpoint(place.base_url, None if place.key is None else place.key.read(environment))
            for name, place in self.endpoints.items()
        }

    def access(self, environment: Mapping[str, str]) -> Access:
        """Return the access for `sim.run(..., access=...)` and its kin.

        Args:
            environment: where the keys are, such as `os.environ`.

        Raises:
            UsageError: if a variable is not set, or its value cannot be sent.
        """
        limits = {name: getattr(self, name) for name in ("requests_per_minute", "tokens_per_minute", "concurrency")}
        return Access(
            self.models,
            base_url=self.base_url,
            api_key=self.api_key(environment),
            headers=self.header_values(environment),
            endpoints=self.places(environment),
            stream=self.stream,
            batching=self.batch,
            **{name: number for name, number in limits.items() if number is not None},
        )


FIELDS: Final = tuple(field.name for field in attrs.fields(Profile))
"""The keys of a profile."""


def read_profile(where: str) -> Profile:
    """Read a profile of a file.

    Args:
        where: `FILE:NAME`; or `NAME`, of the file `endpoints.yaml` in the current folder.

    Raises:
        UsageError: if the file cannot be read or has no such profile, or the profile is not valid; with its line.
    """
    file, _, name = where.rpartition(":")
    path = Path(file or DEFAULT_FILE)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{where[:80]!r} names no profile", hint=f"write FILE:NAME, or NAME of the file {DEFAULT_FILE} here"
        )
    profiles = _read(path)
    if name not in profiles:
        hint = did_you_mean(name, profiles) or f"it has {', '.join(profiles) or 'none'}"
        raise UsageError(f"{path} has no profile {name!r}", hint=hint)
    return _profile(profiles, name)


def _read(path: Path) -> Map:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        hint = f"make it, or name another: --profile FILE:NAME; {DEFAULT_FILE} is the default"
        raise UsageError(f"the profiles {path} cannot be read: {error.strerror or error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the profiles {path} cannot be read: they are not UTF-8") from error
    tree, problems = read_tree(text, str(path))
    if problems:
        first = problems[0]
        raise UsageError(f"{first.file}:{first.line}: {first.message}", hint=first.hint)
    if not isinstance(tree, Map):
        raise UsageError(f"{path}: profiles are a mapping by name", hint="write `lab: {base_url: http://...}`")
    return tree


def _fail(at: Mark, message: str, hint: str | None = None) -> NoReturn:
    raise UsageError(f"{at.file}:{at.line}: {message}", hint=hint)


def _profile(profiles: Map, name: str) -> Profile:
    tree = _mapping(profiles, name, FIELDS)
    values: dict[str, Any] = {}
    for key in tree:
        values[key] = _READ[key](tree, key)
    profile = Profile(**values)
    try:  # addresses, names and headers are checked as those of options are; keys come later
        Access(
            profile.models,
            base_url=profile.base_url,
            concurrency=profile.concurrency or 1,
            headers={name: value if isinstance(value, str) else "x" for name, value in profile.headers.items()},
            endpoints={name: Endpoint(place.base_url) for name, place in profile.endpoints.items()},
        ).chains()
    except UsageError as error:
        _fail(profiles.keys_at[name], f"the profile {name} is not valid: {error}", error.hint)
    return profile


def _mapping(parent: Map, key: str, allowed: tuple[str, ...] = ()) -> Map:
    """Return a mapping, whose keys are among the allowed; () allows all."""
    value = parent[key]
    if not isinstance(value, Map):
        _fail(parent.values_at[key], f"{key} is a mapping, not {_kind(value)}", f"its keys: {', '.join(allowed)}")
    for one in value:
        if allowed and one not in allowed:
            at = value.keys_at[one]
            if _SECRET.search(one):
                _fail(at, "a profile has no such key, and never a secret", f"write `key`, and there {_NO_KEY[6:]}")
            hint = did_you_mean(one, allowed) or f"there are {', '.join(allowed)}"
            _fail(at, f"a profile has no {one[:40]!r}", hint)
    return value


def _kind(value: object) -> str:
    return "a list" if isinstance(value, Seq) else "a mapping" if isinstance(value, Map) else "a single value"


def _text(tree: Map, key: str) -> str:
    value = tree[key]
    if not isinstance(value, str) or not value:
        _fail(tree.values_at[key], f"{key} is a text, not {_kind(value)}" if value != "" else f"{key} is empty")
    return value


def _variable(tree: Map, key: str) -> EnvironmentVariable:
    value, at = tree[key], tree.values_at[key]
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        _fail(at, f"{key} is not the name of an environment variable in capital letters", _NO_KEY)
    return EnvironmentVariable(value, at)


def _count(tree: Map, key: str) -> int:
    value = tree[key]
    if value.__class__ is not int or value < 1:
        _fail(tree.values_at[key], f"{key} is a whole number of at least 1, not {value!r:.40}")
    return int(value)


def _flag(tree: Map, key: str) -> bool:
    value = tree[key]
    if value.__class__ is not bool:
        _fail(tree.values_at[key], f"{key} is true or false, not {value!r:.40}")
    return bool(value)


def _models(tree: Map, key: str) -> tuple[str, ...]:
    value = tree[key]
    models = tuple(value) if isinstance(value, Seq) else (value,)
    if not models or not all(isinstance(one, str) for one in models):
        _fail(tree.values_at[key], "models are a list of texts", "write [openai:NAME], or [small=ollama:NAME]")
    return models


def _headers(tree: Map, key: str) -> dict[str, str | EnvironmentVariable]:
    mapping, headers = _mapping(tree, key), dict[str, str | EnvironmentVariable]()
    for name, value in mapping.items():
        if isinstance(value, Map):
            headers[name] = _variable(_mapping(mapping, name, ("env",)), "env")
        elif _SECRET.search(name):
            hint = "write {env: VARIABLE}: no file holds a secret"
            _fail(mapping.values_at[name], f"the value of the header {name[:40]} is a secret", hint)
        else:
            headers[name] = _text(mapping, name)
    return headers


def _endpoints(tree: Map, key: str) -> dict[str, ProfileEndpoint]:
    mapping, endpoints = _mapping(tree, key), dict[str, ProfileEndpoint]()
    for name in mapping:
        place = _mapping(mapping, name, ("base_url", "key"))
        if "base_url" not in place:
            _fail(mapping.keys_at[name], f"the endpoint {name[:40]} has no base_url")
        endpoints[name] = ProfileEndpoint(_text(place, "base_url"), _variable(place, "key") if "key" in place else None)
    return endpoints


def _batch(tree: Map, key: str) -> Batching | None:
    value = tree[key]
    if value.__class__ is bool:
        return Batching() if value else None
    mapping = _mapping(tree, key, tuple(field.name for field in attrs.fields(Batching)))
    try:
        return Batching(**mapping)
    except (UsageError, TypeError) as error:
        _fail(tree.keys_at[key], f"batch is not valid: {error}")


_READ: Final = {
    "models": _models, "base_url": _text, "key": _variable, "headers": _headers, "requests_per_minute": _count,
    "tokens_per_minute": _count, "concurrency": _count, "stream": _flag, "endpoints": _endpoints, "batch": _batch,
}  # fmt: skip
