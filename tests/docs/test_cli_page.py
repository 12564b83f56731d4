"""The page of the command line has what the commands say of themselves."""

import importlib.util
import re
from pathlib import Path

from sim.cli import VERBS
from sim.cli.info import PARTS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_that_of_the_commands():
    """docs/cli.md is what docs/commands.py writes, with a chapter for each command, also where nothing is built."""
    spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
    assert spec is not None
    assert spec.loader is not None
    commands = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(commands)
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert commands.page(text) == text, "uv run python docs/commands.py"
    assert re.findall(r"^## sim (\w+)$", text, re.MULTILINE) == [*VERBS]
    assert re.findall(r"^## sim info (\w+)$", text, re.MULTILINE) == [*PARTS]
