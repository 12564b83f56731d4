"""Observers of a run see answers as they arrive, thoughts and calls of tools too, and change nothing."""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.cli.render.streams import Streams
from sim.llm.types import Delta
from sim.runner import RunController

TEXT = """
name: observed
until: 1m
conversations: {}
models:
  provider: PROVIDER
  rules:
    - {use: agent, role: tool, say: It is noon.}
    - {say: <think>I look at the clock.</think>Let me see., call: {clock.read: {}}}
tools: {functions: {clock.read: {description: Read the clock., parameters: {}, returns: "'noon'"}}}
executor: {tasks: {job: {type: reader, goal: What time is it?, criteria: [{text: known, tool: clock.read}]}}}
agents: [{name: reader, kind: executor, settings: {type: reader, tools: [clock.read]}}]
"""


@pytest.mark.parametrize("provider", ["scripted", "simulated"])
def test_observers_see_thoughts_texts_and_calls(provider: str, tmp_path: Path) -> None:
    """Each part comes with its agent; the hash is that of a run that nothing observes."""
    file, seen = tmp_path / "x.yaml", list[tuple[str, Delta]]()
    file.write_text(TEXT.replace("PROVIDER", provider), encoding="utf-8")

    def begun(runner: RunController) -> None:
        assert runner.simulation.models is not None
        runner.simulation.models.observers.append(lambda agent, part: seen.append((agent, part)))

    observed, alone = sim.run(file, out=None, begun=begun), sim.run(file, out=None)
    assert observed.hash == alone.hash
    assert {agent for agent, _ in seen} == {"reader"}
    kinds = [part.kind for _, part in seen]
    assert [kind for kind in dict.fromkeys(kinds) if kind != "tool_arguments"] == [
        "think", "text", "tool_start", "tool_complete",
    ]  # fmt: skip
    assert "".join(part.text for _, part in seen if part.kind == "think") == "I look at the clock."


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([Delta("think", "I loo"), Delta("think", "k.")], "ann thinks I look."),
        ([Delta("think", "I look."), Delta("text", "It is\nnoon")], "ann says It is noon"),
        ([Delta("text", "x"), Delta("tool_start", tool="clock__read")], "ann calls clock__read"),
        ([Delta("tool_complete", "{}", "clock__read")], "ann has called clock__read {}"),
        ([Delta("text", "x"), Delta("discard", "network")], None),
        ([Delta("text", "a" * 300)], "ann says ..." + "a" * 100),
    ],
)
def test_the_live_display_has_what_models_say(parts: list[Delta], line: str | None) -> None:
    """One line for each agent that was last heard: what it thinks, says, calls or has called."""
    streams: Any = Streams()
    for part in parts:
        streams.add("ann", part)
    assert streams.lines() == (() if line is None else (line,))
    for number in range(9):
        streams.add(f"a{number}", Delta("text", "x"))
    assert [text.split()[0] for text in streams.lines()] == ["a5", "a6", "a7", "a8"]
