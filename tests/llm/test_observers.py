"""Observers of a run see answers as they arrive, thoughts and calls of tools too, and change nothing."""

import threading
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.cli.render.streams import Streams
from sim.llm.types import Delta
from sim.record import open_run
from sim.record.unfinished import (
    LONGEST,
    MOST,
    UNFINISHED,
    UnfinishedAnswer,
    drop_unfinished,
    read_unfinished,
    write_unfinished,
)
from sim.runner import RunController
from sim.runner.unfinished import UnfinishedWriter

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


STREAMED = (
    TEXT.replace("PROVIDER", "simulated").split("conversations")[0]
    + """
models: {provider: simulated, rules: [{say: <think>I look at the clock.</think>It is noon.}]}
agents:
  - {name: ann, rules: [{do: [{ask: {prompt: What time is it?, stream: STREAM}}, stop]}]}
"""
)


@pytest.mark.parametrize("stream", [True, False])
def test_others_see_answers_that_arrive(stream: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfinished answers that arrive in parts are beside the record while their call is under way, for `sim watch` and
    `sim view`. They change neither the record nor its hash, and are gone at the end; without parts, there are none.
    """
    seen = list[UnfinishedAnswer]()

    class Look(UnfinishedWriter):
        def _add(self, agent_id: str, part: Delta) -> None:
            super()._add(agent_id, part)
            write_unfinished(self._folder, self._answers.answers())  # as its thread does, at its next turn
            seen.extend(read_unfinished(self._folder))

        def _end(self, agent_id: str, *args: Any) -> None:
            super()._end(agent_id, *args)
            assert self._answers.answers() == ()

    monkeypatch.setattr("sim.runner.unfinished.UnfinishedWriter", Look)
    file = tmp_path / "x.yaml"
    file.write_text(STREAMED.replace("STREAM", str(stream).lower()), encoding="utf-8")
    watched = sim.run(file, out=tmp_path / "runs")
    folder = Path(watched.run or "")
    assert not (folder / UNFINISHED).exists()
    assert watched.hash == sim.run(file, out=None).hash
    assert [(one.agent, one.kind) for one in seen if one.text.endswith(("clock.", "noon."))] == (
        [("ann", "think"), ("ann", "text")] if stream else []
    )
    with open_run(folder) as stored:
        assert stored.query("SELECT count(*) FROM events WHERE topic LIKE '%partial%'") == [(0,)]


def test_an_unfinished_answer_is_data(tmp_path: Path) -> None:
    """Only what has the form is read: at most 20 answers, the ends of long ones, from a file of the folder itself."""
    assert read_unfinished(tmp_path) == ()
    write_unfinished(tmp_path, [UnfinishedAnswer(f"a{number}", "think", "x" * 5000) for number in range(30)])
    found = read_unfinished(tmp_path)
    assert (len(found), {len(one.text) for one in found}) == (MOST, {LONGEST})
    for text in ("", "[", "{}", "3", '[["a", "say", "x"], ["a", "text"], 3, ["a", "text", 1]]', "[" * 100_000):
        (tmp_path / UNFINISHED).write_text(text)
        assert read_unfinished(tmp_path) == ()
    (tmp_path / UNFINISHED).unlink()
    (tmp_path / "other").write_text('[["a", "text", "secret"]]')
    (tmp_path / UNFINISHED).symlink_to(tmp_path / "other")
    assert read_unfinished(tmp_path) == ()
    drop_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_folder_that_cannot_be_written_harms_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the unfinished answers cannot be written, the run ends as it would, and nothing of them is left."""
    tried = threading.Event()

    def full(folder: Path, answers: Any) -> None:
        tried.set()
        raise OSError("the disk is full")

    class Slow(UnfinishedWriter):
        def _add(self, agent_id: str, part: Delta) -> None:
            super()._add(agent_id, part)
            tried.wait(10)

    monkeypatch.setattr("sim.runner.unfinished.write_unfinished", full)
    monkeypatch.setattr("sim.runner.unfinished.PAUSE", 0.001)
    monkeypatch.setattr("sim.runner.unfinished.UnfinishedWriter", Slow)
    (tmp_path / "x.yaml").write_text(STREAMED.replace("STREAM", "true"), encoding="utf-8")
    assert sim.run(tmp_path / "x.yaml", out=tmp_path / "runs").status == "finished"
    assert tried.is_set()


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([Delta("think", "I loo"), Delta("think", "k.")], "ann thinks I look."),
        ([Delta("think", "I look."), Delta("text", "It is\nnoon")], "ann says It is noon"),
        ([Delta("text", "x"), Delta("tool_start", tool="clock__read")], "ann calls clock.read"),
        (
            [Delta("tool_start", tool="b"), Delta("tool_arguments", '{"x'), Delta("tool_arguments", '"')],
            'ann calls b {"x"',
        ),
        ([Delta("tool_complete", "{}", "clock__read")], "ann has called clock.read {}"),
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
