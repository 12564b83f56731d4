"""Prompts: text cannot close a section, or open one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.agents.engine import prompt, section


@pytest.mark.slow
@given(st.text(), st.text())
def test_text_cannot_leave_its_section(content: str, value: str) -> None:
    """Whatever the text, a section has exactly one beginning and one end, and nothing between them is markup."""
    made = section("learnings", content, source=value)
    if not content.strip():
        assert made == ""
        return
    assert made.startswith("<learnings source=")
    assert made.endswith("\n</learnings>")
    assert made.count("<") == made.count(">") == 2
    assert "\n" not in made.partition(">")[0]


def test_a_prompt_has_its_instructions_and_its_sections_in_order() -> None:
    """Empty sections are left out."""
    made = prompt("Be brief.", [("time_context", "Monday"), ("notes_context", []), ("learnings", ["a", "b <x>"])])
    assert made == ("Be brief.\n\n<time_context>\nMonday\n</time_context>\n\n<learnings>\na\nb &lt;x&gt;\n</learnings>")
