"""Profiles of endpoints: a file that says once how models are reached, for every command that calls models."""

import os
from pathlib import Path

import attrs
import click
import pytest

import sim as package
from sim.cli import VERBS, model_options, verbs
from sim.llm.batches.settings import Batching
from sim.scenario.profile import FIELDS, read_profile
from tests.cli.test_endpoints import TIERS
from tests.llm.endpoint import Endpoint, fitting

KEY, HEADER = "sk-canary-0123456789", "Basic canary-of-a-header"
PROFILES = """
lab:
  models: [small=fast:tiny, large=openai:huge]
  base_url: {large}
  key: LAB_KEY
  headers: {{X-Team: research, X-Token: {{env: LAB_HEADER}}}}
  concurrency: 3
  endpoints:
    fast: {{base_url: {small}, key: FAST_KEY}}
    unused: {{base_url: http://127.0.0.1:9/v1, key: NEVER_SET}}
"""


@pytest.fixture
def tiers(tmp_path, monkeypatch):
    """A scenario that asks a model of each of two tiers, in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAB_KEY", "FAST_KEY", "LAB_HEADER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tiers.yaml").write_text(TIERS)
    return tmp_path / "tiers.yaml"


def _write(text):
    Path("endpoints.yaml").write_text(text)


@pytest.mark.slow
def test_a_profile_stands_for_the_options(sim, tiers, monkeypatch):
    """Models, addresses, keys and headers come from it, for a run, an estimate, a branch and Python.

    No key, and no header, is in any file of the run.
    """
    secrets = {"LAB_KEY": KEY, "FAST_KEY": "sk-of-fast-alone", "LAB_HEADER": HEADER}
    for name, value in {**secrets, "OPENAI_API_KEY": "sk-of-openai-alone"}.items():
        monkeypatch.setenv(name, value)
    with Endpoint(fitting) as small, Endpoint(fitting) as large:
        _write(PROFILES.format(small=small.url, large=large.url))
        for args in (
            ("run", tiers),
            ("run", tiers, "--estimate"),
            ("branch", "tiers", "--at", "0s"),
        ):
            done = sim(*args, "--profile", "lab")
            assert done.code == 0, done.err
        access = read_profile("endpoints.yaml:lab").access(os.environ | {"NEVER_SET": "x"})
        assert package.run(tiers, access=access).models["total"]["calls"] == 2
        assert len(small.seen) == len(large.seen) == 3
        assert {seen.headers["authorization"] for seen in large.seen} == {f"Bearer {KEY}"}
        assert {seen.headers["x-token"] for seen in large.seen} == {HEADER}
        assert {seen.headers["authorization"] for seen in small.seen} == {"Bearer sk-of-fast-alone"}
    recorded = b"".join(path.read_bytes() for path in Path("runs").rglob("*.*"))
    assert not any(secret.encode() in recorded for secret in secrets.values())


def test_options_override_a_profile(sim, tiers, monkeypatch):
    """One value at a time: the model of a tier, an address, a limit. A key goes only to the address that it is for."""
    monkeypatch.setenv("LAB_KEY", KEY)
    monkeypatch.setenv("FAST_KEY", KEY)
    monkeypatch.setenv("LAB_HEADER", HEADER)
    with Endpoint(fitting) as here, Endpoint(fitting) as there:
        _write(PROFILES.format(small=here.url, large=here.url))
        args = ("run", tiers, "--no-record", "--profile", "lab")
        assert sim(*args, "--model", "small=scripted:x").code == 0
        assert [seen.body["model"] for seen in here.seen] == ["huge"]
        assert sim(*args, "--base-url", there.url, "--endpoint", f"fast={there.url}").code == 0
        assert len(there.seen) == 2
        assert not any(secret in str(seen.headers) for seen in there.seen for secret in (KEY, HEADER))


def test_every_option_of_endpoints_is_a_key_of_a_profile():
    """A new option of endpoints is also one of profiles, and each command with one takes profiles as well."""
    named = {"models": "models", "base_url": "base_url", "endpoints": "endpoints", "endpoint_keys": "endpoints"}
    batch = {f"batch_{field.name}" for field in attrs.fields(Batching)} | {"batch"}
    missing = set(model_options.ENDPOINT) - {"profile"} - FIELDS_OF_OPTIONS - named.keys() - batch
    assert not missing
    assert set(FIELDS) == {*named.values(), "key", "batch", *FIELDS_OF_OPTIONS}
    for verb in VERBS:
        command = verbs.get_command(click.Context(verbs), verb)
        assert command is not None
        options = {option.name for option in command.params}
        assert "profile" in options or not options & set(model_options.ENDPOINT), verb


FIELDS_OF_OPTIONS = {"headers", "requests_per_minute", "tokens_per_minute", "concurrency", "stream"}


def test_batches_of_a_profile(sim, tiers):
    """They are as those of the options, which change a single value or turn them off."""
    _write("lab: {models: [openai:m], base_url: http://127.0.0.1:9/v1, batch: {poll: 5, wait: 2h}}\n")
    profile = read_profile("lab")
    assert profile.batch == Batching(poll=5, wait=7200)
    options = dict.fromkeys(model_options.ENDPOINT) | {"profile": profile, "models": ()}
    options |= {"endpoints": (), "endpoint_keys": (), "headers": ()}
    changed = model_options.access_of(options | {"batch_poll": 7})
    online = model_options.access_of(options | {"batch": False})
    assert changed is not None
    assert online is not None
    assert (changed.batching, online.batching) == (Batching(poll=7, wait=7200), False)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (
            "lab: {base_url: http://x/v1, key: sk-canary-1}",
            ":1: key is not the name of an environment variable",
            "no file",
        ),
        ("lab:\n  api_key: sk-canary-1", ":2: a profile has no such key, and never a secret", "write `key`"),
        ("lab:\n  headers: {Authorization: sk-canary-1}", ":2: the value of the header Authorization is a", "{env:"),
        ("lab:\n  base_ulr: http://x/v1", ":2: a profile has no 'base_ulr'", "did you mean 'base_url'?"),
        ("lab:\n\n  concurrency: none", ":3: concurrency is a whole number of at least 1, not 'none'", ""),
        ("lab:\n  stream: 1", ":2: stream is true or false, not 1", ""),
        ("lab:\n  batch: {price: 7}", ":2: batch is not valid: the price of batches is a share", ""),
        ("lab:\n  batch: {pol: 7}", ":2: a profile has no 'pol'", "did you mean 'poll'?"),
        ("lab:\n  base_url: http://me:sk-canary-1@x/v1", ":1: the profile lab is not valid: the base URL must", ""),
        ("lab:\n  models: [gpt]", ":1: the profile lab is not valid: a model must be PROVIDER:NAME", ""),
        ("lab:\n  models: {a: b}", ":2: models are a list of texts", "[openai:NAME]"),
        ("lab:\n  endpoints: {fast: {key: A}}", ":2: the endpoint fast has no base_url", ""),
        ("lab: 5", ":1: lab is a mapping, not a single value", "base_url"),
        ("lap: {}", " has no profile 'lab'", "did you mean 'lap'?"),
        ("lab: {", ":1: ", ""),
        ("[]", ": profiles are a mapping by name", "write"),
        (
            "lab:\n  models: [openai:m]\n  base_url: http://127.0.0.1:9/v1\n  key: NOT_SET",
            ":4: the environment",
            "set it",
        ),
        ("lab: {base_url: http://127.0.0.1:9/v1}", "an endpoint is given, but no model at an endpoint", "add --model"),
    ],
)
def test_a_profile_that_is_not_valid(sim, tiers, text, where, words):
    """One sentence with the file, the line and a hint, without what may be a secret; nothing is run."""
    _write(text)
    done = sim("run", tiers, "--profile", "lab")
    assert done.code == 2
    assert where in done.err.replace("endpoints.yaml", "")
    assert words in done.err
    assert "canary" not in done.err
    assert not Path("runs").exists()


def test_a_file_of_profiles_that_is_not_there(sim, tiers):
    """The sentence names the file; a text that is no name says how a profile is named."""
    assert "other.yaml cannot be read" in sim("run", tiers, "--profile", "other.yaml:lab").err
    assert "write FILE:NAME" in sim("run", tiers, "--profile", "endpoints.yaml").err


def test_the_profiles_of_the_page(sim, tiers):
    """docs/models.md shows a file that is read as it stands."""
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    _write(page.partition("```yaml\n# endpoints.yaml\n")[2].partition("```")[0])
    lab, night = read_profile("lab"), read_profile("night")
    assert (lab.concurrency, lab.key and lab.key.name, night.batch) == (
        32,
        "LAB_API_KEY",
        Batching(poll=300, wait="12h"),
    )
