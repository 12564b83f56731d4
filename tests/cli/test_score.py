"""`sim score`: queries and judges over recorded runs; what is kept, and how the variance is split."""

import contextlib
import hashlib
import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import sim
from tests.helpers import command
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

SCENARIO = """
name: talk
until: 1m
agents:
  - {name: boss, loop: {min_loop_delay: 20s}, rules: [{do: {send: {to: ann-1, topic: order, data: "Work harder!"}}}]}
  - name: ann
    count: 3
    loop: {min_loop_delay: 10s}
    rules: [{do: {publish: {topic: said, data: {text: "='Good day ' + str(round(now))"}}}}]
"""
MEASURES = """
models:
  tiers: {strict: a, kind: b, default: c}
  default: default
  rules:
    - {use: judge, text: "*whole number*", choose: [{weight: 1, say: "3"}, {weight: 2, say: "5"}]}
    - {use: judge, say: partly}
score:
  measures:
    said:
      sql: SELECT actor, count(*) FROM events WHERE topic = 'action.publish' GROUP BY 1
      agents: [ann]
    events: {sql: SELECT count(*) FROM events, of: run}
    civility: {ask: How civil is the agent?, scale: [1, 7], judges: [strict, kind], repeats: 2, agents: [ann]}
    agreement: {ask: Do they agree?, options: [agree, partly, disagree], of: run}
"""


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three recorded runs, and measures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    (tmp_path / "talk.yaml").write_text(SCENARIO)
    (tmp_path / "measures.yaml").write_text(MEASURES)
    return [Path(sim.run("talk.yaml", out="runs", seed=seed).run or "") for seed in (1, 2, 3)]


def scored(*arguments: object, code: int = 0) -> dict[str, Any]:
    """Return what `sim score --json` prints."""
    got, out, err = command("score", *arguments, "--json")
    assert got == code, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.slow
def test_queries_and_judges_over_several_runs(talk: list[Path]) -> None:
    """Each run, agent, judge and repetition has a score; the record is unchanged, and variances are split."""
    before = [hashlib.sha256((run / "run.db").read_bytes()).hexdigest() for run in talk]
    told = scored(*talk, "--measures", "measures.yaml", "--to", "scores.csv")
    assert before == [hashlib.sha256((run / "run.db").read_bytes()).hexdigest() for run in talk]
    counts = {name: sum(one["measure"] == name for one in told["scores"]) for name in ("said", "events", "civility")}
    assert counts == {"said": 9, "events": 3, "civility": 3 * 3 * 2 * 2}
    found = {(one["measure"], one["judge"]): one for one in told["summaries"]}
    assert found["said", "query"]["mean"]["mean"] == 6
    assert found["agreement", "judge"]["options"] == {"agree": 0, "partly": 3, "disagree": 0}
    assert (found["civility", "kind"]["runs"], found["civility", "kind"]["agents"]) == (3, 3)
    sources = [part["source"] for part in told["variances"]["civility"]]
    assert sources == ["judge", "seed", "agent", "interaction", "repetition"]
    assert len(Path("scores.csv").read_text().splitlines()) == 1 + len(told["scores"])


@pytest.mark.slow
def test_scores_are_kept(talk: list[Path]) -> None:
    """The same command asks nothing; another definition, model or repetition does."""
    with Endpoint(lambda seen: fitting(seen, "4")) as endpoint:
        given = [talk[0], "--measures", "measures.yaml", "--measure", "civility", "--base-url", endpoint.url]
        first = scored(*given, "--model", "openai:m")
        assert len(endpoint.seen) == 12
        assert scored(*given, "--model", "openai:m")["scores"] == first["scores"]
        assert len(endpoint.seen) == 12
        scored(*given, "--model", "openai:other")
        assert len(endpoint.seen) == 24
        Path("measures.yaml").write_text(MEASURES.replace("How civil", "How kind"))
        scored(*given, "--model", "openai:m")
        assert len(endpoint.seen) == 36


@pytest.mark.slow
def test_what_judges_see(talk: list[Path]) -> None:
    """By default what the agent did, the latest lines if there are too many; with `evidence` what that selects."""
    with Endpoint(lambda seen: fitting(seen, "4")) as endpoint:
        given = [talk[0], "--measures", "measures.yaml", "--measure", "civility"]
        scored(*given, "--base-url", endpoint.url, "--model", "openai:m")
        systems = {seen.body["messages"][0]["content"] for seen in endpoint.seen}
        select = "SELECT data ->> '$.text' FROM events WHERE actor = :agent AND topic = 'said' LIMIT 1"
        evidence = f'evidence: "{select}"'
        Path("measures.yaml").write_text(MEASURES.replace("agents: [ann]}\n", f"agents: [ann], {evidence}}}\n"))
        scored(*given, "--base-url", endpoint.url, "--model", "openai:m")
        only = endpoint.seen[-1].body["messages"][0]["content"]
    assert len(systems) == 3
    assert all("Good day 50" in text and "Work harder" not in text for text in systems)
    assert "Good day 0" in only
    assert "Good day 10" not in only


@pytest.mark.slow
def test_judges_that_do_not_answer(talk: list[Path]) -> None:
    """A score without an answer is asked for again next time; one without a value is kept, and said."""
    state = {"broken": True}

    def serve(seen: Seen) -> Reply:
        return error(400) if state["broken"] else fitting(seen, "very civil")

    with Endpoint(serve) as endpoint:
        given = [talk[0], "--measures", "measures.yaml", "--measure", "civility", "--base-url", endpoint.url]
        told = scored(*given, "--model", "openai:m", code=1)
        assert all(one["answer"] is None for one in told["scores"])
        state["broken"] = False
        told = scored(*given, "--model", "openai:m")
        asked = len(endpoint.seen)
        assert {one["error"] for one in told["scores"]} == {"the answer does not have the form of the question"}
        scored(*given, "--model", "openai:m")
        assert len(endpoint.seen) == asked


@pytest.mark.proof
def test_scoring_that_was_killed_goes_on(talk: list[Path]) -> None:
    """A killed command keeps its scores; the next one asks only for the others."""
    Path("measures.yaml").write_text(MEASURES.replace("repeats: 2", "repeats: 40"))
    with Endpoint(lambda seen: Reply(**{**_fields(fitting(seen, "4")), "delay": 0.1})) as endpoint:
        given = [str(talk[0]), "--measures", "measures.yaml", "--measure", "civility", "--base-url", endpoint.url]
        arguments = [sys.executable, "-m", "sim", "score", *given, "--model", "openai:m", "--concurrency", "4"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(endpoint.seen) < 30:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = len(endpoint.seen)
        told = scored(*given, "--model", "openai:m")
        assert len(told["scores"]) == 240
        assert len(endpoint.seen) - before <= 240 - 30 + 10


def _fields(reply: Reply) -> dict[str, Any]:
    import attrs

    return {field.name: getattr(reply, field.name) for field in attrs.fields(Reply)}


@pytest.mark.slow
def test_the_tables_of_the_terminal(talk: list[Path]) -> None:
    """The cost comes first, on stderr; then what the scores say, and where their variance comes from."""
    code, out, err = command("score", *talk, "--measures", "measures.yaml")
    assert code == 0, err
    assert "39 scores of judges, about " in err
    assert "agree 0, partly 3, disagree 0" in out
    assert "variance of the scores" in out
    code, out, _ = command("score", *talk, "--measures", "measures.yaml", "--estimate")
    assert "0 scores of judges (39 are there already)" in out


def test_measures_of_the_scenario_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario can bring its measures."""
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(SCENARIO + MEASURES)
    run = sim.run("own.yaml", out="runs").run
    assert len(scored(run)["scores"]) == 3 + 1 + 12 + 1


@pytest.mark.parametrize(
    ("damage", "said"),
    [("UPDATE scores SET value = 'much'", "a score is 'much'"), (b"nonsense", "it is not a SQLite database")],
)
def test_kept_scores_that_are_damaged(talk: list[Path], damage: str | bytes, said: str) -> None:
    """One sentence names the file of the scores; queries need no such file."""
    scored(talk[0], "--measures", "measures.yaml")
    path = talk[0] / "scores.db"
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    else:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute(damage)
    code, _, err = command("score", talk[0], "--measures", "measures.yaml")
    assert (code, "scores.db" in err, said in err, "hint: " in err) == (1, True, True, True), err
    assert len(scored(talk[0], "--measures", "measures.yaml", "--measure", "events")["scores"]) == 1
    path.unlink()
    scored(talk[0], "--measures", "measures.yaml", "--measure", "events")
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("scale: [1, 7]", "scal: [1, 7]"), "scale"),
        (("scale: [1, 7], ", ""), "judges give numbers or options"),
        (("sql: SELECT count(*) FROM events, of: run", "of: run"), "a query or a question"),
        (("SELECT count(*) FROM events, of", "SELECT actor FROM events, of"), "returns"),
        (("GROUP BY 1", "GROUP BY 1, 2, nothing"), "nothing"),
        (("SELECT actor, count(*)", "SELECT actor"), "returns 1 columns"),
        (("SELECT actor, count(*)", "SELECT actor, topic"), "which is no finite number"),
        (("SELECT actor, count(*)", "SELECT actor, 9e999"), "score.measures.said.sql returns inf, which is no finite"),
        (("GROUP BY 1", "GROUP BY actor, id"), "score.measures.said.sql returns 'ann-1' twice"),
        (("SELECT count(*) FROM events", "DELETE FROM events"), "score.measures.events.sql: the query is not valid"),
        (("agents: [ann]}", "agents: [anna]}"), "has no agent 'anna'"),
        (("judges: [strict, kind]", "judges: [stern]"), "stern"),
    ],
)
def test_measures_that_make_no_sense(talk: list[Path], change: tuple[str, str], said: str) -> None:
    """One sentence names the measure or the line, and the exit code is 2."""
    assert change[0] in MEASURES
    Path("measures.yaml").write_text(MEASURES.replace(*change))
    code, _, err = command("score", talk[0], "--measures", "measures.yaml")
    assert (code, said in err) == (2, True), err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "has no measures"),
        (["--measures", "nowhere.yaml"], "cannot be read"),
        (["--measures", "talk.yaml"], "has no measures"),
        (["--measures", "measures.yaml", "--measure", "civilty"], "there is no measure 'civilty'"),
        (["--measures", "measures.yaml", "--to", "x.txt"], "no format that is known"),
        (["--measures", "measures.yaml", "--model", "openai:m", "--batch"], "online, not in batches"),
    ],
)
def test_wrong_usage(talk: list[Path], arguments: list[str], said: str) -> None:
    """One sentence says what is wrong, and the exit code is 2."""
    code, _, err = command("score", talk[0], *arguments)
    assert (code, said in err) == (2, True), err


def test_another_judge_is_asked_anew(talk: list[Path]) -> None:
    """Scores by other models or rules are not taken for those of the new judge; prices change none."""
    given = (talk[0], "--measures", "measures.yaml", "--measure", "civility")
    before = scored(*given)["scores"]
    Path("measures.yaml").write_text(
        MEASURES.replace('choose: [{weight: 1, say: "3"}, {weight: 2, say: "5"}]', 'say: "6"')
    )
    after = scored(*given)["scores"]
    assert {one["value"] for one in before} <= {3.0, 5.0}
    assert {one["value"] for one in after} == {6.0}
    Path("measures.yaml").write_text(
        MEASURES.replace("default: default", "default: default\n  prices: {c: {input: 1, output: 1}}")
    )
    code, out, _ = command("score", *given, "--estimate", "--json")
    assert (code, json.loads(out)["scores"]) == (0, 0)


def test_measures_can_be_json(talk: list[Path]) -> None:
    """A file of measures can be JSON, which is YAML too."""
    Path("measures.json").write_text(json.dumps({"score": {"measures": {"n": {"sql": "SELECT 7", "of": "run"}}}}))
    assert scored(talk[0], "--measures", "measures.json")["scores"][0]["value"] == 7


def test_one_name_is_one_measure(talk: list[Path]) -> None:
    """Runs whose scenarios mean something else by a measure are not scored together."""
    runs = []
    for of in (1, 2):
        Path("own.yaml").write_text(SCENARIO + f"score: {{measures: {{n: {{sql: SELECT {of}, of: run}}}}}}\n")
        runs.append(sim.run("own.yaml", out="runs", seed=of).run)
    code, _, err = command("score", *runs)
    assert (code, "is not that of the runs before" in err) == (2, True)
