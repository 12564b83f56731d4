"""What the operator gives: names of models, and secrets that nobody sees."""

import pytest

from sim.errors import UsageError
from sim.llm.access import Access

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
    """Neither key nor headers nor the address, which may hold a password, are in the text of the record."""
    access = Access(("openai:a",), base_url=f"http://u:{KEY}@h", api_key=KEY, headers={"x-key": "tok-abcdef"})
    assert KEY not in repr(access)
    assert "tok-abcdef" not in repr(access)


def test_secrets_are_taken_out_of_what_comes_back():
    """The key and what stands in headers are replaced at any depth, also in keys of mappings."""
    access = Access(api_key=KEY, headers={"authorization": "Bearer tok-abcdef"})
    value = {"error": [f"bad key {KEY}!"], KEY: 1, "echo": "Bearer tok-abcdef", "other": "tok-abcdef"}
    scrubbed = str(access.scrub(value))
    assert KEY not in scrubbed
    assert "tok-abcdef" not in scrubbed
    assert "bad key [redacted]!" in scrubbed


def test_without_secrets_nothing_is_changed():
    """Short words in headers are no secrets: they would be found in innocent text."""
    access = Access(headers={"x-mode": "a"})
    assert access.scrub({"a": ["a", 1, None]}) == {"a": ["a", 1, None]}
