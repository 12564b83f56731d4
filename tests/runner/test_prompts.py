"""Requests to models in the core are not on record; a replay gives them again, with their answers."""

import json
from pathlib import Path

import pytest

import sim
from sim.base.errors import RecordWarning, RunError
from sim.record import open_run
from sim.runner.prompts import calls_in_core, prompt_rows, repeated_prompts

DEBATE = Path(__file__).parents[2] / "scenarios" / "debate.yaml"


@pytest.fixture(scope="module")
def debate(tmp_path_factory):
    """A run of a debate with scripted models."""
    result = sim.run(DEBATE, out=tmp_path_factory.mktemp("runs"))
    assert result.run is not None
    return Path(result.run)


@pytest.mark.slow
def test_each_call_has_its_request_and_its_answer(debate):
    """There is a request for each call, in the order of the record, and what an agent says is what was answered."""
    with open_run(debate) as stored:
        found = repeated_prompts(stored)
        uses = stored.query("SELECT id, data ->> '$.use' FROM events WHERE topic = 'model.call' ORDER BY id")
        said = [text for (text,) in stored.query("SELECT data ->> '$.text' FROM messages WHERE topic = 'statement'")]
        assert [(id, one.request["use"]) for id, one in found.items()] == uses
        assert len(found) == calls_in_core(stored) == 20
    answers = [one.answer["completion"]["text"] for one in found.values() if one.answer is not None]
    assert said
    assert not set(said) - set(answers)
    assert all(one.request["messages"][0]["role"] == "system" for one in found.values())


def test_nothing_is_written_for_it(debate):
    """The record is the same after prompts were repeated."""
    before = {path.name: path.read_bytes() for path in debate.iterdir()}
    with open_run(debate) as stored:
        repeated_prompts(stored)
    assert {path.name: path.read_bytes() for path in debate.iterdir()} == before


def test_the_rows_of_the_view_are_filled(debate):
    """Rows of `prompts` have the repeated requests and answers, and nothing else changes in them."""
    with open_run(debate) as stored:
        columns = stored.columns("prompts")
        plain = [dict(zip(columns, row, strict=True)) for row in stored.stream("prompts")]
        full = [dict(zip(columns, row, strict=True)) for row in prompt_rows(stored, repeated_prompts(stored))]
    added = ("request", "answer", "tool_calls", "stop")
    assert {row["request"] for row in plain} == {None}
    assert all(json.loads(row["request"]) for row in full)
    assert [{k: v for k, v in row.items() if k not in added} for row in full] == [
        {k: v for k, v in row.items() if k not in added} for row in plain
    ]


def test_frames_can_have_them(debate):
    """`Run.prompts(repeat=True)` gives the requests as messages."""
    with sim.open(debate) as run:
        assert run.prompts()["request"].isna().all()
        frame = run.prompts(repeat=True)
        assert frame["request"].str.len().gt(1).all()


def test_a_record_that_does_not_fit_is_refused(debate, tmp_path):
    """If a replay parts from the record, no prompt is shown that may never have been sent."""
    text = (debate / "scenario.yaml").read_text()
    for name in ("run.db", "run.head"):
        (tmp_path / name).write_bytes((debate / name).read_bytes())
    (tmp_path / "scenario.yaml").write_text(text.replace("against", "contra"))
    with pytest.warns(RecordWarning, match="is not the scenario that was run: it was changed"):
        stored = open_run(tmp_path)
    with stored, pytest.raises((RunError, sim.UsageError)):
        repeated_prompts(stored)
