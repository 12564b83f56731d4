"""`sim ask`: questions to the agents of a recorded run, which neither the run nor its agents notice."""

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.llm import Access
from sim.record import open_run
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

TEAM = """
name: team
until: 3d
memory: {}
models:
  rules:
    - {use: survey, text: "*whole number*", say: "=str(1 + state.mood % 7)"}
    - {use: survey, text: "*one of these*", say: "='yes' if state.mood > 3 else 'no'"}
    - {use: survey, text: "*one number*", say: "=str(state.mood / 2)"}
    - {use: survey, say: I do not remember much.}
agents:
  - name: mate
    count: 25
    state: {mood: "=index", day: 0}
    loop: {min_loop_delay: 1d}
    rules:
      - do: {remember: {content: "='This was day ' + str(int(now / 86400))"}}
        set: {mood: "=mood + 1", day: "=day + 1"}
"""
QUESTIONS = """
- How are you?
- {ask: "How do you feel?", scale: [1, 7]}
- {ask: "Do you like your work?", options: ["yes", "no"]}
- {ask: "How many hours did you work?", number: true}
- What do you remember?
"""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded run of 25 agents with memories."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (tmp_path / "team.yaml").write_text(TEAM)
    (tmp_path / "questions.yaml").write_text(QUESTIONS)
    return Path(sim.run("team.yaml", out="runs").run or "")


def asked(*arguments: object, code: int = 0) -> dict[str, Any]:
    """Return what `sim ask --json` prints."""
    got, out, err = command("ask", *arguments, "--json")
    assert got == code, err
    found: dict[str, Any] = json.loads(out)
    return found


def digest(run: Path) -> str:
    """Return a hash of the file of a run."""
    return hashlib.sha256((run / "run.db").read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_survey_of_a_population(team: Path) -> None:
    """25 agents, 5 questions, 3 times: the file of the run and what its agents remember later are as before."""
    before, later = digest(team), sim.branch(team, at="2d", seed=7, record=False).hash
    times = ["--at", "1d", "--at", "36h", "--at", "3d"]
    told = asked("team", "--questions", "questions.yaml", *times, "--to", "answers.csv")
    assert [len(survey["answers"]) for survey in told["surveys"]] == [125, 125, 125]
    assert digest(team) == before
    assert sim.branch(team, at="2d", seed=7, record=False).hash == later
    assert sim.replay(team).same
    assert len(Path("answers.csv").read_text().splitlines()) == 1 + 375
    first, _, last = ({(one["agent"], one["question"]): one for one in s["answers"]} for s in told["surveys"])
    assert (first["mate-3", "How do you feel?"]["value"], last["mate-3", "How do you feel?"]["value"]) == (4, 6)
    assert first["mate-25", "Do you like your work?"]["value"] == "yes"
    assert last["mate-3", "How many hours did you work?"]["value"] == 2.5
    assert first["mate-3", "What do you remember?"]["answer"] == "I do not remember much."


def test_what_is_due_at_the_time_has_not_happened(team: Path) -> None:
    """At a day agents are as before the step of this day; at time 0 they have begun."""
    moods = []
    for time in (["--at", "0"], ["--at", "1d"], ["--at", "24h1s"], []):
        told = asked("team", "Hours?", "--number", "--agents", "mate-1", *time)
        moods.append(told["surveys"][0]["answers"][0]["value"] * 2)
    assert moods == [1, 1, 2, 3]


def test_the_tables_of_the_terminal(team: Path) -> None:
    """The cost comes first, on stderr; then answers and, for each question with a form, what they say together."""
    code, out, err = command("ask", "team", "Happy?", "--options", "yes,no", "--agents", "mate", "--agents", "mate-2")
    assert code == 0, err
    assert err.splitlines()[0].startswith("sim: 25 answers (25 agents, 1 question), about ")
    assert "at most 0.0000" in err
    assert "yes 24, no 1" in out
    assert "25 answers; 0.0000 spent" in out


def test_an_estimate_asks_nothing(team: Path) -> None:
    """With `--estimate` only the cost is printed."""
    with Endpoint(lambda seen: fitting(seen, "fine")) as endpoint:
        told = asked("team", "How?", "--estimate", "--model", "openai:gpt-4o-mini", "--base-url", endpoint.url)
        assert endpoint.seen == []
    (survey,) = told["surveys"]
    assert survey["most"] > 0
    assert survey["outside"]


@pytest.mark.slow
def test_an_endpoint_answers_each_question_once(team: Path) -> None:
    """The same survey again asks nothing; another time or question does, and bad answers are asked for once more."""
    with Endpoint(lambda seen: fitting(seen, "5")) as endpoint:
        given = ["--model", "openai:m", "--base-url", endpoint.url, "--agents", "mate-1", "--agents", "mate-2"]
        asked("team", "How?", "--scale", "1,7", *given)
        assert len(endpoint.seen) == 2
        again = asked("team", "How?", "--scale", "1,7", *given)
        assert len(endpoint.seen) == 2
        assert again["surveys"][0]["reused"] == 2
        asked("team", "How?", "--scale", "1,7", "--at", "1d", *given)
        assert len(endpoint.seen) == 4
        systems = [seen.body["messages"][0]["content"] for seen in endpoint.seen]
        assert ["This was day 1" in text for text in systems] == [True, True, False, False]  # what each remembers then
        told = asked("team", "How?", "--scale", "6,7", *given)
        assert len(endpoint.seen) == 8
    assert {one["error"] for one in told["surveys"][0]["answers"]} == {
        "the answer does not have the form of the question"
    }


def test_missing_answers_are_a_failure(team: Path) -> None:
    """If a model does not answer, the others are printed, and the exit code is 1."""

    def serve(seen: Seen) -> Reply:
        return error(400) if "name: mate-2" in seen.body["messages"][0]["content"] else fitting(seen, "fine")

    with Endpoint(serve) as endpoint:
        given = ["--model", "openai:m", "--base-url", endpoint.url, "--agents", "mate-1", "--agents", "mate-2"]
        told = asked("team", "How?", *given, code=1)
    one, other = told["surveys"][0]["answers"]
    assert (one["answer"], other["answer"]) == ("fine", None)
    assert "no model answered" in other["error"]


CALLS = """
name: calls
until: 20s
models: {latency: 3s}
agents:
  - {name: ana, count: 3, loop: {min_loop_delay: 5s}, rules: [{do: {ask: {prompt: "=str(now)"}}}]}
"""


@pytest.mark.proof
@pytest.mark.parametrize("latency", ["3s", "null"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_calls_in_flight_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, latency: str, backend: Any
) -> None:
    """A survey in the middle of calls at an endpoint sends its own requests, and nothing of the agents."""
    monkeypatch.chdir(tmp_path)
    Path("calls.yaml").write_text(CALLS)
    with Endpoint(lambda seen: Reply(**{**_fields(fitting(seen, "x")), "delay": 0.2})) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url, api_key="k")
        given = [f"models.latency={latency}", "until=1s", "agents.ana.loop.min_loop_delay=300ms"]
        run = sim.run("calls.yaml", out="runs", access=access, overrides=given).run or ""
        before = len(endpoint.seen)
        with open_run(Path(run)) as stored:
            began = [time for (time,) in stored.query("SELECT time_ns FROM effects ORDER BY time_ns")]
        survey = sim.ask(run, ["How?"], at=f"{began[0] + 50_000_000}ns", access=access, backend=backend)
        assert [answer.answer for answer in survey.answers] == ["x"] * 3
        assert len(endpoint.seen) - before == 3
    assert threading.active_count() < 50


def _fields(reply: Reply) -> dict[str, Any]:
    import attrs

    return {field.name: getattr(reply, field.name) for field in attrs.fields(Reply)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there are no questions"),
        (["Q", "--at", "4d"], "ends at 3d, before 4d"),
        (["Q", "--agents", "mat"], "there is no agent 'mat'"),
        (["Q", "--scale", "7"], "two whole numbers"),
        (["Q", "--scale", "a,b"], "not of the form LOW,HIGH"),
        (["Q", "--scale", "1,7", "--number"], "one form"),
        (["--scale", "1,7"], "but no question"),
        (["--questions", "team.yaml"], "has no list of questions"),
        (["--questions", "nowhere.yaml"], "cannot be read"),
        (["Q", "--to", "answers.txt"], "no format that is known"),
        (["Q", "--to", "team.yaml"], "no format that is known"),
        (["Q", "--to", "nowhere/answers.csv"], "there is no folder nowhere in which files can be created"),
        (["Q", "--agents", ""], "there is no agent ''"),
        (["Q", "Q"], "a question is asked twice"),
        (["--questions", "/dev/null"], "has no list of questions"),
        (["Q", "--scale", f"1,{'9' * 5000}"], f"--scale '1,{'9' * 37} is not"),
        (["Q", "--base-url", "http://127.0.0.1:1/v1"], "no model at an endpoint"),
        (["Q", "--model", "openai:m", "--base-url", "http://127.0.0.1:1/v1", "--batch"], "online, not in batches"),
    ],
)
def test_wrong_usage(team: Path, arguments: list[str], said: str) -> None:
    """One sentence says what is wrong, and the exit code is 2."""
    code, _, err = command("ask", "team", *arguments)
    assert (code, said in err) == (2, True), err


def test_agents_that_have_stopped_are_not_asked(team: Path) -> None:
    """If all that were chosen have stopped, that is an error, with --json as without, and no file is written."""
    Path("gone.yaml").write_text(
        TEAM.replace("name: team", "name: gone").replace(
            "- do: {rem", "- {when: day > 0 and index < 2, do: stop}\n      - do: {rem"
        )
    )
    sim.run("gone.yaml", out="runs")
    for options in ([], ["--json", "--to", "answers.csv"]):
        code, _, err = command("ask", "gone", "How are you?", "--at", "2d", "--agents", "mate-1", *options)
        assert (code, "those that were chosen had stopped by then" in err) == (1, True), err
    assert not Path("answers.csv").exists()


def test_questions_of_a_file_are_checked(team: Path) -> None:
    """The error has the number of the question."""
    Path("bad.yaml").write_text("- Fine?\n- {ask: Well?, scal: [1, 7]}\n")
    code, _, err = command("ask", "team", "--questions", "bad.yaml")
    assert code == 2
    assert "bad.yaml: question 2: a question has no 'scal'" in err
    assert "scale" in err


def test_runs_without_models_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody has to speak for the agents."""
    monkeypatch.chdir(tmp_path)
    Path("mute.yaml").write_text("name: mute\nuntil: 1s\nagents: [{name: a, rules: [{do: noop}]}]\n")
    sim.run("mute.yaml", out="runs")
    code, _, err = command("ask", "mute", "Q")
    assert code == 2
    assert "no models" in err


def test_a_killed_run_can_be_asked_up_to_its_end(team: Path) -> None:
    """A run that was interrupted is asked about what it has recorded."""
    part = sim.run("team.yaml", out="parts", until="2d").run or ""
    told = asked(part, "Hours?", "--number", "--agents", "mate-1")
    assert told["surveys"][0]["seconds"] == 2 * 86400
