"""Futures of runs that need answers from outside: branches, which say what they cost and share."""

from pathlib import Path

import pytest

import sim
from sim.experiments.attribution.analysis import AttributionOptions, session
from sim.experiments.attribution.task import FutureChange, FuturesTask
from sim.llm import Access
from sim.runner.plain import StepMoment
from tests.helpers import command
from tests.llm.endpoint import Endpoint, fitting

ASKED = """
name: asked
until: 6s
models: {max_tokens: 20}
agents:
  - name: asker
    state: {n: 0, luck: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: n == 1, do: {ask: {prompt: What now?}}, set: {n: 2}}
      - {when: n == 3, set: {luck: "=1 if chance(0.5) else -1", n: 4}}
      - {set: {n: "=n + 1"}}
metrics: {every: 1s, values: {luck: "mean('asker', 'luck')"}}
"""


@pytest.mark.proof
def test_runs_with_a_model_at_an_endpoint_are_branched(tmp_path):
    """Until a moment answers are those on record; after it the endpoint is asked, once for each seed; it is said.

    What a branch cannot do is unknown: it does not count as a change without an effect.
    """
    (tmp_path / "asked.yaml").write_text(ASKED, encoding="utf-8")
    told: list[tuple[str, bool]] = []

    def confirm(text: str, money: bool) -> bool:
        told.append((text, money))
        return True

    with Endpoint(fitting) as endpoint:
        access = Access(("openai:any",), base_url=endpoint.url, api_key="none")
        run = Path(str(sim.run(tmp_path / "asked.yaml", out=tmp_path / "runs", access=access).run))
        asked = len(endpoint.seen)
        options = AttributionOptions(jobs=2, access=access, confirm=confirm)
        with session(run, "last('luck') > 0", options, condition=True) as open_:
            assert open_ is not None
            tasks = [FuturesTask(StepMoment(1), (1, 2)), FuturesTask(StepMoment(2 * 10**9), (1, 2))]
            found = open_.futures.values(tasks)
            impossible = [FutureChange(paused=("asker",)), FutureChange(dropped=(0,))]
            unknown = open_.futures.values([FuturesTask(StepMoment(0), (1,), change) for change in impossible])
        more = len(endpoint.seen) - asked
    ((text, money),) = told
    assert money
    assert "costs money in each future" in text
    assert "share answers to equal requests" in open_.answers
    assert [one.problem for task in found for one in task] == [None] * 4
    assert ["cannot pause" in str(one.problem) for task in unknown for one in task] == [True, True]
    assert more == 2  # one for each seed after the first moment; the second one lies after the request


@pytest.mark.slow
def test_it_is_said_which_answers_are_those_on_record(tmp_path):
    """Before a replay finds a moment or causes, it is said how many answers are those on record; none is asked for.

    A branch says that after its beginning models and tools are called again.
    """
    (tmp_path / "asked.yaml").write_text(ASKED, encoding="utf-8")
    with Endpoint(fitting) as endpoint:
        access = Access(("openai:any",), base_url=endpoint.url, api_key="none")
        run = Path(str(sim.run(tmp_path / "asked.yaml", out=tmp_path / "runs", access=access).run))
        asked = len(endpoint.seen)
        for what in (("state", "--at", "4s"), ("causes", "12"), ("influence", "12")):
            code, _, err = command("show", run, *what)
            assert code == 0, err
            assert "1 answer from outside is the one on record: no model, tool or person is asked" in err
        with sim.open(run) as stored, stored.moments() as moments:
            assert moments.cost().answered == 1
        assert len(endpoint.seen) == asked
        code, _, err = command("branch", run, "--at", "3s", "--base-url", endpoint.url)
        assert code == 0, err
        assert "before the time of the branch, answers of models, tools and people are those on record" in err
        assert len(endpoint.seen) == asked
