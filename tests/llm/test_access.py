"""What the operator gives: names of models, and secrets that nobody sees."""

import pytest

from sim.base.errors import UsageError
from sim.llm.access import LOCAL, Access, Endpoint
from sim.llm.serialization import answer_from_json, answer_to_json
from sim.llm.types import Answer, Attempt, Completion, TokenUsage

KEY = "sk-canary-0123456789"


def test_models_are_named_for_all_or_for_a_tier():
    """A chain is separated by commas, and a name may contain colons."""
    access = Access(("openai:a,openai:b:8b", "small=scripted:c"))
    assert access.chains() == {"*": (("openai", "a"), ("openai", "b:8b")), "small": (("scripted", "c"),)}
    assert access.outside
    assert not Access(("simulated:x",)).outside


@pytest.mark.parametrize("models", [("gpt",), ("openai:",), ("=openai:a",), ("openai:a", "openai:b")])
def test_malformed_models_are_refused(models):
    """A model without provider, or given twice, is an error of usage."""
    with pytest.raises(UsageError):
        Access(models).chains()


def test_offline_keeps_the_names_and_no_secret():
    """An estimate runs the same models, simulated, without endpoint and key."""
    access = Access(("large=openai:a,openai:b",), base_url="http://x", api_key=KEY)
    assert access.offline() == Access(("large=simulated:a,simulated:b",))


def test_secrets_are_not_shown():
    """Neither key nor headers nor the address are in the text of the record."""
    access = Access(("openai:a",), base_url="http://host-canary", api_key=KEY, headers={"x-key": "tok-abcdef"})
    assert KEY not in repr(access)
    assert "tok-abcdef" not in repr(access)
    assert "host-canary" not in repr(access)


def test_secrets_are_taken_out_of_what_comes_back():
    """The key, the address and what stands in headers are replaced at any depth."""
    access = Access(base_url="http://host-canary/v1/", api_key=KEY, headers={"authorization": "Bearer tok-abcdef"})
    value = {
        "error": [f"bad key {KEY}!"],
        "echo": "Bearer tok-abcdef",
        "other": ("tok-abcdef", "http://host-canary/v1"),
    }
    scrubbed = str(access.scrub(value))
    assert KEY not in scrubbed
    assert "tok-abcdef" not in scrubbed
    assert "canary" not in scrubbed
    assert "bad key [redacted]!" in scrubbed


@pytest.mark.parametrize("header", ["completion", "100000", "end_turn", "rate_limit", "gpt-4o", "openai"])
def test_a_header_does_not_break_the_form_of_an_answer(header):
    """Names of fields, numbers, and words that the record says itself stay, whatever a header's value is."""
    usage = TokenUsage(100000, 5)
    completion = Completion("hello", (), "end_turn", usage, "gpt-4o")
    attempts = tuple(Attempt("openai", "gpt-4o", outcome, 0.5) for outcome in ("rate_limit", "ok"))
    answer = Answer(completion, attempts)
    access = Access(("openai:gpt-4o",), headers={"x-title": header})
    assert answer_from_json(access.scrub(answer_to_json(answer))) == answer


def test_single_words_of_headers_are_no_secrets():
    """Only whole values are, and what follows `Bearer` or `Basic`: the words of a title are everybody's."""
    access = Access(headers={"x-title": "debate club", "authorization": "Bearer tok-abcdef"})
    assert access.cut("the debate about the Bearer of news") == "the debate about the Bearer of news"
    assert access.cut("debate club, tok-abcdef") == "[redacted], [redacted]"


@pytest.mark.parametrize(
    "given",
    [
        *(
            {"base_url": url}
            for url in (
                "http://user:canary@host/v1", "http://user:can/canary@host/v1", "http://u:canary#pw@host/v1",
                "http://canary@host", "http://host/v1?key=canary", "host-canary/v1", "ftp://canary/v1",
                "http://canary:port/v1", "http://canary host/v1", "http://canary\n/v1", "http://[canary/v1", "http:///v1",
            )
        ),
        *({"api_key": key} for key in ("sk-canary\n-1234", "sk canary", "sk-canary-\u20ac", "sk-canary ")),
        {"headers": {"bad name canary": "x"}},
        {"headers": {"": "canary"}},
        {"headers": {"x-key": "canary\r\nx-other: y"}},
        {"headers": {"x-key": "canary-\u20ac"}},
    ],
    ids=repr,
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_at_once(given):
    """User or password in the address, no address, an illegal key or header: an error of usage that repeats nothing."""
    with pytest.raises(UsageError) as refused:
        Access(("openai:a",), **given)
    assert "canary" not in f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "https://host", "http://[::1]:1/v1/", "http://\u00f6.example"]
)
def test_addresses_are_accepted(url):
    """HTTP with or without TLS, by name or number."""
    assert Access(base_url=url).base_url == url


def test_without_secrets_nothing_is_changed():
    """Short words in headers are no secrets: they would be found in innocent text."""
    access = Access(headers={"x-mode": "a"})
    assert access.scrub({"a": ["a", 1, None]}) == {"a": ["a", 1, None]}


def test_an_unknown_provider_is_refused():
    """A provider whose address nothing gives is refused, with the known ones; an address alone is not enough."""
    for access in (Access(("opnai:a",)), Access(("opnai:a",), base_url="http://x")):
        with pytest.raises(UsageError, match="unknown model provider 'opnai'") as raised:
            access.check_endpoints()
        assert "openai, ollama, vllm, llamacpp" in (raised.value.hint or "")


@pytest.mark.parametrize("name", list(LOCAL))
def test_local_servers_are_at_their_usual_address(name):
    """The name of a local server stands for its address on this machine; it gets no key, and needs none."""
    access = Access((f"{name}:m",), api_key=KEY)

    assert access.at(name).base_url == LOCAL[name]
    assert access.at(name).api_key is None
    access.check_key()
    assert access.fingerprint == Access(("openai:m",), base_url=LOCAL[name]).fingerprint


def test_the_address_of_a_local_server_can_be_given():
    """`base_url` moves the only endpoint; beside others it is that of `openai`, and `endpoints` moves any."""
    moved = Access(("ollama:m",), base_url="http://gpu:1/v1")
    beside = Access(("small=ollama:m", "large=openai:n"), base_url="http://gpu:1/v1")
    named = Access(("small=ollama:m", "large=openai:n"), endpoints={"ollama": Endpoint("http://box:2/v1")})

    assert moved.at("ollama").base_url == "http://gpu:1/v1"
    assert (beside.at("ollama").base_url, beside.at("openai").base_url) == (LOCAL["ollama"], "http://gpu:1/v1")
    assert named.at("ollama").base_url == "http://box:2/v1"


def test_each_endpoint_gets_its_own_key():
    """The key and the headers of one endpoint go to no other; all are secrets."""
    access = Access(
        ("small=fast:m", "large=openai:n"), api_key=KEY, headers={"x-team": "team-canary"},
        endpoints={"fast": Endpoint("http://fast-canary/v1", "sk-other-123")},
    )  # fmt: skip

    assert (access.at("openai").api_key, access.at("fast").api_key) == (KEY, "sk-other-123")
    assert access.at("fast").headers == {}
    assert {KEY, "sk-other-123", "http://fast-canary/v1"} <= set(access.secrets)
    assert "canary" not in repr(access)


@pytest.mark.slow
def test_another_address_of_any_endpoint_is_another_fingerprint():
    """The hash covers every endpoint that is used, whatever the order of the models, and none that is not."""

    def at(*models: str, **urls: str) -> str | None:
        return Access(models, endpoints={name: Endpoint(url) for name, url in urls.items()}).fingerprint

    one = at("s=a:m", "l=b:n", a="http://x", b="http://y")
    assert one == at("l=b:n", "s=a:m", b="http://y/", a="http://X", c="http://unused")
    assert one != at("s=a:m", "l=b:n", a="http://x", b="http://z")
    assert one != at("s=a:m", "l=b:n", a="http://y", b="http://x")


@pytest.mark.parametrize("name", ["openai", "scripted", "Fast", "a b", ""])
def test_names_of_endpoints(name):
    """An endpoint has a name of its own: small letters, digits and hyphens."""
    with pytest.raises(UsageError, match="is not a valid name of an endpoint"):
        Access(endpoints={name: Endpoint("http://x")})
