"""The scenarios of the project, which come with the package: their names, what they show, and copies of them.

They are the files of the folder `scenarios/` of the source tree, which is the package `sim.gallery` of an installation.
"""

import importlib.resources
import re

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean

_FILES = importlib.resources.files


def scenario_names() -> list[str]:
    """Return the names of the scenarios, sorted."""
    files = (file.name for file in _FILES("sim.gallery").iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def scenario_text(name: str) -> str:
    """Return the text of a scenario.

    Raises:
        UsageError: if there is none of this name.
    """
    names, file = scenario_names(), name.replace("-", "_")
    if file not in names:
        hint = did_you_mean(file, names) or "sim new --list lists them"
        raise UsageError(f"there is no scenario {name[:80]!r} in the gallery", hint=hint)
    return _FILES("sim.gallery").joinpath(f"{file}.yaml").read_text(encoding="utf-8")


def scenario_title(name: str) -> str:
    """Return what a scenario shows, in one line: its `description`."""
    match = re.search(r"^description: (.+)$", scenario_text(name), re.MULTILINE)
    assert match is not None, "a test reads the description of each scenario"
    return match[1].strip("\"'")


def scenario_copy(name: str, new: str) -> str:
    """Return the text of a scenario under another name.

    Args:
        name: that of the scenario.
        new: the name of the copy, which stands in its `name:` and in the commands of its comments.
    """
    text = re.sub(r"^name: .+$", f"name: {new}", scenario_text(name), count=1, flags=re.MULTILINE)
    return text.replace(f"scenarios/{name.replace('-', '_')}.yaml", f"{new}.yaml")
