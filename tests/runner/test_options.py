"""The options of runs: what the types say and what is checked at run time are the same."""

from typing import Any, get_type_hints

import attrs
import pytest

import sim
from sim.llm import Access
from sim.runner.options import ReplayKeywords, ReplayOptions, RunKeywords, RunOptions
from sim.tools.mcp import McpServer


@pytest.mark.parametrize(("keywords", "options"), [(RunKeywords, RunOptions), (ReplayKeywords, ReplayOptions)])
def test_the_signature_and_the_record_agree(keywords: Any, options: Any) -> None:
    """Each option has the same name and the same type where a type checker reads it and where it is checked."""
    late = {
        "Access": Access,
        "Agent": sim.Agent,
        "McpServer": McpServer,
        "Definitions": sim.Definitions,
    }  # imported only if they are needed
    hints = get_type_hints(options, localns=late)
    declared = {field.name: hints[field.name] for field in attrs.fields(options)}
    spelled_out = get_type_hints(keywords, localns=late)

    assert set(spelled_out) == set(declared)
    for name, hint in declared.items():
        assert spelled_out[name] == hint or name == "out", name  # a path may be given as text


def test_a_misspelt_option_is_named(tmp_path) -> None:
    """An option that does not exist is refused at once, with the nearest name; nothing is run."""
    options: Any = {"seeed": 3}
    for verb in (sim.run, sim.replay, sim.resume):
        with pytest.raises(sim.UsageError, match="there is no option 'seeed'"):
            verb(tmp_path / "nothing.yaml", **options)
    with pytest.raises(sim.UsageError, match="did you mean 'seed'"):
        sim.run(tmp_path / "nothing.yaml", **options)
    with pytest.raises(sim.UsageError, match=r"'allow_chnage'.*did you mean 'allow_change'"):
        sim.replay(tmp_path, allow_chnage=True)  # type: ignore[call-arg]  # what is tested


def test_values_are_checked_before_anything_is_read(tmp_path) -> None:
    """A value that an option does not take is refused, also before a missing file is noticed."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"backend": "curio"}, "the backend is asyncio or trio, not 'curio'"),
        ({"mode": "fast"}, "the mode is autonomous or tick, not 'fast'"),
        ({"max_wall": 0}, "max_wall must be above 0 s"),
    ]
    for options, words in wrong:
        with pytest.raises(sim.UsageError, match=words):
            sim.run(tmp_path / "nothing.yaml", **options)
