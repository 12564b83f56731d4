"""Surveys with real models, their resumption, and the estimate of their spending."""

import shutil
from pathlib import Path

import pytest

import sim
from sim.base import crashpoints
from sim.llm import Access
from sim.record import open_run
from sim.runner.estimate import estimate
from sim.runner.options import Backend
from sim.scenario import loads
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting

PLAIN = """
name: plain
until: 1h
models: {rules: [{say: scripted}]}
agents:
  - {name: alice, count: 3, loop: {min_loop_delay: 10m}, rules: [{do: {publish: {topic: alice.works}}}]}
interventions:
  - {at: 30m, survey: {questions: [{ask: "How worried are you, from 1 to 7?", scale: [1, 7]}]}}
"""


def _speak(seen: Seen) -> Reply:
    return fitting(seen, "5") if "alice-2" not in seen.body["messages"][0]["content"] else error(400, "no")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_real_model_is_asked_while_the_world_stands_still(tmp_path: Path, backend: Backend):
    """An endpoint answers at the simulated time of the question; the run replays and branches without another call."""
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN)
    with Endpoint(_speak) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url)
        made = sim.run(path, out=tmp_path, backend=backend, access=access)
        assert made.run is not None
        with open_run(Path(made.run)) as stored:
            calls = stored.query("SELECT agent, attempts FROM llm_calls ORDER BY agent")
            rows = stored.query("SELECT time, name, agent, value, error IS NOT NULL FROM surveys ORDER BY id")
            works = stored.query("SELECT count(*) FROM events WHERE topic = 'alice.works'")
            latency = stored.query("SELECT DISTINCT latency, actor FROM effects WHERE actor <> 'survey:alice-2'")
        assert rows == [
            (1800.0, "interventions[0]", "alice-1", 5, 0), (1800.0, "interventions[0]", "alice-2", None, 1),
            (1800.0, "interventions[0]", "alice-3", 5, 0),
        ]  # fmt: skip
        assert works == [(18,)]
        assert latency == [("modelled", "survey:alice-1"), ("modelled", "survey:alice-3")]
        assert calls == [(f"survey:alice-{number}", 1) for number in (1, 2, 3)]
        asked = len(endpoint.seen)
        again = made.models["formats"]["openai:m"]["refused"]
        assert asked == 3 + again  # if alice-2 happens to be first, what is refused may be the format
        assert sim.replay(made.run, access=access).same
        later = sim.branch(made.run, at="40m", access=access)
        assert later.hash == made.hash
        assert later.models["formats"] == made.models["formats"]
        assert len(endpoint.seen) == asked


@pytest.mark.slow
@pytest.mark.parametrize("at", ["30m", "end"])
def test_a_killed_survey_goes_on(tmp_path: Path, at: str):
    """After a kill at any commit, also in the middle of a survey at an endpoint, a run goes on to the same answers, and
    those on record are not asked for again.
    """
    path = tmp_path / "plain.yaml"
    path.write_text(PLAIN.replace("at: 30m", f"at: {at}"))
    copies: list[Path] = []

    def copy(point: str) -> None:
        if point == "writer.committed":
            (folder,) = (tmp_path / "runs").iterdir()
            copies.append(tmp_path / "killed" / str(len(copies)) / folder.name)
            copies[-1].mkdir(parents=True)
            for name in ("run.db", "run.db-wal", "run.head", "run.lock", "scenario.yaml"):
                if (folder / name).exists():
                    shutil.copy(folder / name, copies[-1] / name)

    with Endpoint(_speak) as endpoint:
        access = Access(("openai:m",), base_url=endpoint.url)
        crashpoints.hook = copy
        try:
            made = sim.run(path, out=tmp_path / "runs", access=access)
        finally:
            crashpoints.hook = None
        asked = []
        for folder in copies:
            with open_run(folder) as stored:
                if stored.info.status == "finished":
                    continue
            endpoint.seen.clear()
            assert sim.resume(folder, access=access).status == made.status == "finished"
            asked.append(len(endpoint.seen))
            with open_run(folder) as stored:
                assert stored.query("SELECT agent, value FROM surveys ORDER BY id") == [
                    ("alice-1", 5), ("alice-2", None), ("alice-3", 5),
                ]  # fmt: skip
            assert sim.replay(folder, access=access).same
    assert asked[0] in (3, 4)
    assert sorted(asked, reverse=True) == asked
    assert asked[-1] == 0


def test_the_spending_on_surveys_is_estimated():
    """The estimate of a run has its interviews, at the price of the models that would answer."""
    text = PLAIN.replace("rules: [{say: scripted}]", "prices: {m: {input: 1000, output: 1000}}")
    text = text.replace(", scale: [1, 7]", "")
    expected = estimate(loads(text), access=Access(("openai:m",)))
    assert expected["groups"]["survey"]["calls"] == 3
    assert expected["groups"]["survey"]["cost_micro"] > 1000
