"""The page of events has what the event types say of themselves."""

import importlib.util
import re
from pathlib import Path

from sim.events.event_type import EVENT_TYPES

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_that_of_the_event_types():
    """docs/events.md is what docs/event_types.py writes, with a chapter for each topic."""
    spec = importlib.util.spec_from_file_location("event_types", DOCS / "event_types.py")
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    text = (DOCS / "events.md").read_text(encoding="utf-8")
    assert written.page(text) == text, "uv run python docs/event_types.py"
    chapters = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert chapters == sorted(topic.replace("*", "KIND") for topic in EVENT_TYPES)
