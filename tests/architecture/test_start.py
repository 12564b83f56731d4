"""What the start of a command imports, and the words that are known before their modules are imported."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sim.agents import FAMILIES
from sim.base import words
from sim.record import VIEWS
from sim.world.action import DEFINED
from sim.world.section import SECTIONS

EMPTY = """
name: empty
until: 1h
agents: [{name: a, rules: [{do: {sleep: {for: 1h}}}]}]
"""

HEAVY = (
    "openai", "prometheus_client", "rich", "duckdb", "trio", "networkx", "scipy", "pandas",
    "sim.agents.ask", "sim.agents.conversation.service", "sim.agents.engine", "sim.agents.interview",
    "sim.experiments", "sim.inspect.telemetry", "sim.inspect.viewer", "sim.kinds.assistant",
    "sim.kinds.chat.service", "sim.kinds.executor.service", "sim.kinds.goals.service", "sim.kinds.sop.service",
    "sim.kinds.town.generation", "sim.llm.access", "sim.llm.client", "sim.llm.service", "sim.llm.types",
    "sim.memory.service", "sim.runner.asking", "sim.runner.branching", "sim.runner.estimate", "sim.runner.probing",
    "sim.runner.sync", "sim.scenario.assembly.models", "sim.scenario.interventions", "sim.scenario.models",
    "sim.tools.approvals", "sim.tools.mcp", "sim.tools.process", "sim.tools.section",
)  # fmt: skip
"""What a run without it has no use for, and what takes time to import."""

RUN = """
import json, sys
from sim.cli import main
try:
    main(sys.argv[1:])
except SystemExit as done:
    code, imported = done.code, sorted(sys.modules)
from sim.scenario.schema import Scenario
json.dump([code, imported, Scenario.known_keys()], sys.stderr)
"""


@pytest.mark.slow
def test_an_empty_run_imports_what_it_uses(tmp_path: Path) -> None:
    """`sim run` imports no kinds of agents and other parts that the scenario does not name, and yet knows all words."""
    (tmp_path / "empty.yaml").write_text(EMPTY, encoding="utf-8")
    command = [sys.executable, "-c", RUN, "run", "empty.yaml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    code, imported, keys = json.loads(done.stderr)
    assert code == 0
    assert [name for name in imported if name in HEAVY] == []
    assert keys[-len(words.SECTIONS) :] == list(words.SECTIONS)


COUNT = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
try:
    from sim.cli import main
    main(sys.argv[1:])
except SystemExit:
    sys.setprofile(None)
print(calls, file=sys.stderr)
"""


@pytest.mark.slow
def test_an_empty_run_starts_with_few_calls(tmp_path: Path) -> None:
    """The start of a run costs no more calls than it did: times differ between machines, calls do not."""
    (tmp_path / "empty.yaml").write_text(EMPTY, encoding="utf-8")
    command = [sys.executable, "-c", COUNT, "run", "empty.yaml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stderr.split()[-1]) < 640_000  # 800,000 while each field read docstrings anew


@pytest.mark.parametrize(
    ("registry", "announced", "module_of"),
    [
        (FAMILIES, words.KINDS, lambda family: family.agent.__module__),
        (SECTIONS, words.SECTIONS, lambda section: section.settings.__module__),
        (DEFINED, words.ACTIONS, lambda handler: handler.apply.__module__),
    ],
    ids=["kinds", "sections", "actions"],
)
def test_words_are_where_the_list_says(
    registry: Mapping[str, Any], announced: Mapping[str, str], module_of: Callable[[Any], str]
) -> None:
    """The list of words has all that `sim` defines, in its order, each with a module in the package that defines it."""
    own = {name: home for name, value in registry.items() if (home := module_of(value)).startswith("sim.")}
    assert list(own) == list(announced)
    assert [name for name, home in own.items() if _package(home) != _package(announced[name])] == []


def _package(module: str) -> str:
    return module.rpartition(".")[0]


def test_views_are_where_the_list_says() -> None:
    """Each view of the list is defined by its module, and comes after those of the store that it may use."""
    assert [name for name in VIEWS if name in words.VIEWS] == list(words.VIEWS)
    assert all(VIEWS[name].strip() for name in VIEWS)
