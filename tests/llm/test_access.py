"""What the operator gives: names of models, and secrets that nobody sees."""

import pytest

from sim.errors import UsageError
from sim.llm.access import Access
from sim.llm.port import Answer, Attempt, Completion, Usage
from sim.llm.wire import answer_from_json, answer_to_json

KEY = "sk-canary-0123456789"


def test_models_are_named_for_all_or_for_a_tier():
    """A chain is separated by commas, and a name may contain colons."""
    access = Access(("openai:a,openai:b:8b", "small=scripted:c"))
    assert access.chains() == {"*": (("openai", "a"), ("openai", "b:8b")), "small": (("scripted", "c"),)}
    assert access.outside
    assert not Access(("simulated:x",)).outside


@pytest.mark.parametrize("models", [("gpt",), ("openai:",), ("=openai:a",), ("opnai:a",), ("openai:a", "openai:b")])
def test_malformed_models_are_refused(models):
    """A model without provider, of an unknown one, or given twice is an error of usage."""
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
    usage = Usage(100000, 5)
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
