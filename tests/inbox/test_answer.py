"""A person answers from another process as an agent of a run, instead of its model."""

import json
import sys

import pytest

import sim
from sim.cli import main
from sim.record import open_run
from tests.inbox.helpers import going_on, is_running, rows, wait_for
from tests.llm.test_people import TALK

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it stops processes by signals")

LONG = TALK.replace("until: 90s", "until: null").replace("when: now < 30", "when: iteration % 2 == 1")
"""It asks for words and for a vote in turn, until it is stopped."""


@pytest.fixture
def call(capsys):
    """The command, inside this process: exit code, stdout, stderr."""

    def run(*args):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


def waiting(run):
    """Return the call that waits: its name, its text, and the names of the tools that it offers."""
    found = rows(run, "SELECT question, text, tools FROM questions WHERE status = 'open'")
    return [(name, text, [tool["name"] for tool in json.loads(tools)]) for name, text, tools in found]


@pytest.mark.proof
def test_a_person_answers_from_a_terminal(tmp_path, start, call):
    """Words, a call of a tool, the model, and a text for absence: each is on record as an input, and in a replay."""
    (tmp_path / "talk.yaml").write_text(LONG)
    program = start().begin("run", "talk.yaml", "--json", "--clock", "wall", "--speed", "50")
    run = going_on(tmp_path / "runs")
    code, out, _ = call("answer", run, "speaker", "--within", "1h")
    assert (code, out.partition(" (at ")[0]) == (0, "calls of speaker wait for a person")
    said, answers = [], (("a person speaks",), ("--tool", "vote", "--args", '{"choice": "aye"}'), ("--model",))
    for given in answers:
        wait_for(lambda: waiting(run))
        ((name, text, tools),) = waiting(run)
        if given[0] == "--tool" and not tools:  # the turn before the vote
            assert call("answer", run, name, "--model")[0] == 0
            wait_for(lambda: waiting(run) and waiting(run)[0][2])
            ((name, text, tools),) = waiting(run)
        assert ("Vote." in text) == (tools == ["vote"])
        code, out, err = call("answer", run, name, *given, "--json")
        assert (code, json.loads(out)["outcome"]) == (0, "done"), err
        said.append(name)
    wait_for(lambda: waiting(run) and waiting(run)[0][0] not in said)
    ((name, *_),) = waiting(run)
    following = start()
    program.kill()
    program = following.begin("resume", run, "--json")
    wait_for(lambda: is_running(run))
    assert call("answer", run, name, "said after a kill", "--wait", "60")[0] == 0
    said.append(name)
    wait_for(lambda: waiting(run) and waiting(run)[0][0] not in said)
    ((name, *_),) = waiting(run)
    code, _, err = call("answer", run, said[0], "too late")
    assert (code, err.partition(" (at ")[0]) == (
        1, f"sim: error: refused: {said[0]} does not wait for an answer any more",
    )  # fmt: skip
    code, _, err = call("answer", run, "question-99", "what?")
    assert (code, err.partition(" (at ")[0]) == (1, "sim: error: refused: there is no call 'question-99'")
    code, _, err = call("answer", run, "speakr", "--within", "5m")
    assert (code, "did you mean 'speaker'?" in err) == (2, True)
    assert call("answer", run, name, "--tool", "sing")[0] == 1
    code, out, _ = call("answer", run, "speaker", "--within", "0s")
    assert (code, out.partition(" (at ")[0]) == (0, "the model of speaker answers again")
    wait_for(lambda: waiting(run) == [])
    assert call("answer", run, "speaker", "--within", "1s", "--otherwise", "no one is here")[0] == 0
    wait_for(lambda: rows(run, "SELECT 1 FROM llm_calls WHERE model = 'otherwise'"))
    assert call("stop", run)[0] == 0
    assert program.end()[0] == 0
    with open_run(run) as stored:
        models = [event.data["model"] for event in stored.events() if event.topic == "model.call"]
    assert (models.count("person"), "otherwise" in models) == (3, True)
    assert sim.replay(run).same


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (("question-1",), "give one of TEXT, --tool, --within and --model"),
        (("question-1", "aye", "--model"), "give one of TEXT, --tool, --within and --model"),
        (("question-1", " "), "an answer needs a text"),
        (("question-1", "aye", "--otherwise", "x"), "--otherwise is the answer after the time of --within"),
        (("speaker", "--within", "0s", "--otherwise", "x"), "--otherwise is the answer after the time of --within"),
        (("speaker", "--within", "3s", "--otherwise", ""), "--otherwise needs a text"),
        (("question-1", "-", "--model"), "give one of TEXT, --tool, --within and --model"),
        (("speaker", "--within", "soon"), "'soon' is not a duration"),
        (("question-1", "aye", "--args", "{}"), "--args are the arguments of the tool of --tool"),
        (("question-1", "--tool", "vote", "--args", "aye"), "--args is not JSON"),
        (("question-1", "--tool", "vote", "--args", "[1]"), "--args is not an object of JSON"),
    ],
)
def test_wrong_usage(call, given, wrong):
    """What cannot be meant is one sentence with a hint, before a run is looked for."""
    code, out, err = call("answer", "talk", *given)
    assert (code, out) == (2, "")
    assert err.startswith(f"sim: error: {wrong}")
    assert "\nhint: " in err
