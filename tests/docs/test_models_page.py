"""The page on language models says what the code does."""

import re
from pathlib import Path
from typing import get_args

from sim.llm.limits.retry import DEFAULT_RULES, MOST_REQUESTS, RetryPolicy
from sim.llm.types import ErrorClass

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_table_of_retries_is_that_of_the_code():
    """Each class of failure stands in one row, with the retries that its rule allows after the first try."""
    chapter = PAGE.partition("## What goes wrong")[2].partition("\n## ")[0]
    found: dict[str, tuple[int, int]] = {}
    for failures, at_once, later in re.findall(r"^\| (`.*?) \| (\d+) \| (\d+) \|$", chapter, re.MULTILINE):
        for kind in re.findall(r"`(\w+)`", failures):
            assert kind not in found
            found[kind] = (int(at_once), int(later))
    rules = {kind: DEFAULT_RULES.get(kind) for kind in get_args(ErrorClass)}
    assert found == {kind: (rule.immediate, rule.retries) if rule else (0, 0) for kind, rule in rules.items()}


def test_the_limits_of_a_call_are_those_of_the_code():
    """The page names the most requests of a call, and the waits between them."""
    policy = RetryPolicy()
    assert f"at most {MOST_REQUESTS} requests" in PAGE
    assert f"after {policy.immediate_delay:g} s" in PAGE
    assert f"one request may take {policy.timeout / 60:g} minutes, a call {policy.deadline / 60:g} minutes" in PAGE
