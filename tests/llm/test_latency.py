"""Modelled latency of calls to endpoints: simulated time is fixed when a call starts, whatever the real time."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

import sim
from sim.base.errors import ScenarioError
from sim.llm import Access
from sim.record import open_run
from sim.runner import RunResult, resume, run
from sim.runner.estimate import estimate
from sim.runner.options import Backend
from sim.scenario import loads
from sim.scenario.loading import json_schema
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting
from tests.llm.scenes import Scene
from tests.llm.test_models import OUTSIDE, YES, Edge, answered

TEXT = """
name: talk
seed: 5
until: 1m
models:
  latency: LATENCY
  retry: {timeout: 5s, deadline: 20s}
agents:
  - name: asker
    count: 5
    state: {n: 0, said: ""}
    loop: {min_loop_delay: 1s, max_loop_delay: 2s}
    rules:
      - when: n < 3
        do: {ask: {prompt: "='Question ' + str(n) + ' of ' + me"}}
        set: {n: "=n + 1", said: "=result.data.text"}
      - do: stop
  - name: walker
    loop: {min_loop_delay: 0.3s}
    rules: [{do: {publish: {topic: step, data: "=now"}}}]
metrics: {every: 1s, values: {asked: "total('asker', 'n')"}}
"""
DRAWN = "{lognormal: [1.2, 3]}"


@pytest.fixture
def talk(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the scenario with a latency, and returns its path."""

    def call(latency: str = DRAWN) -> Path:
        path = tmp_path / "talk.yaml"
        path.write_text(TEXT.replace("LATENCY", latency))
        return path

    return call


def at(endpoint: Endpoint) -> Access:
    """Return the access to an endpoint."""
    return Access(("openai:m",), base_url=endpoint.url, api_key="sk-canary-0123456789")


def folder(result: RunResult) -> Path:
    """Return the folder of a recorded run."""
    assert result.run is not None
    return Path(result.run)


def slow(seed: int, most: float = 0.05) -> Callable[[Seen], Reply]:
    """Answer each prompt in its own words, after a random real time."""
    delays = random.Random(seed)

    def answer(seen: Seen) -> Reply:
        prompt = seen.body["messages"][-1]["content"]
        return attrs.evolve(fitting(seen, f"Answer to: {prompt}"), delay=delays.uniform(0, most))

    return answer


# -- the hash


@pytest.mark.parametrize(("latency", "mode"), [("2s", "tick"), (DRAWN, "autonomous"), ("0", "autonomous")])
def test_real_delays_do_not_change_the_hash(talk, latency, mode):
    """Two runs with equal answers and different real delays have equal hashes, on asyncio and on trio."""
    found = []
    backends: tuple[Backend, ...] = ("asyncio", "trio")
    for seed, backend in enumerate(backends):
        with Endpoint(slow(seed)) as endpoint:
            found.append(run(talk(latency), access=at(endpoint), mode=mode, backend=backend))
            assert len(endpoint.seen) == 15
    assert found[0].hash == found[1].hash
    assert found[0].models["total"]["calls"] == 15


def test_other_answers_change_the_hash(talk):
    """The hash depends on the answers."""
    with Endpoint(slow(0)) as endpoint:
        first = run(talk(), access=at(endpoint))
    with Endpoint(fitting) as endpoint:
        assert run(talk(), access=at(endpoint)).hash != first.hash


def test_real_durations_are_in_the_record_only(talk, tmp_path):
    """A failed attempt is an event without its real duration; the outcome of the effect has it. Retries take as long as
    they take, and the simulated time of the answer stays.
    """
    with Endpoint(lambda seen: error(500, retry_after="0.05") if seen.number < 2 else slow(1)(seen)) as endpoint:
        done = run(talk("2s"), access=at(endpoint), out=tmp_path)
    with open_run(folder(done)) as stored:
        (attempts,) = stored.query(
            "SELECT count(*), max(json_extract(data, '$.seconds')), "
            "max(json_extract(data, '$.waited')) FROM events WHERE topic = 'model.attempt'"
        )
        (calls,) = stored.query("SELECT count(*), min(seconds), max(seconds), sum(attempts) FROM llm_calls")
        (effects,) = stored.query("SELECT max(json_extract(result, '$.answer.attempts[0].seconds')) FROM effects")
    assert attempts == (17, None, None)
    assert calls == (15, 2.0, 2.0, 17)
    assert effects[0] > 0


# -- simulated time


class Patient(Edge):
    """A client whose answers come only after another agent has acted."""

    def __init__(self) -> None:
        super().__init__()
        self.acted = False

    async def complete(self, chain: Any, request: Any, *, agent: str, observe: Any = None) -> Any:
        while not self.acted:  # an agent cannot set an event of the host's event loop
            await anyio.lowlevel.checkpoint()
        return answered()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_others_run_on_until_the_answer_is_due(backend):
    """While a call is in flight, other agents act at later simulated times, up to the time of the answer."""
    edge = Patient()

    class Walker(sim.Agent):
        async def decide_action(self) -> None:
            if self.world.now >= 59 * 60:
                edge.acted = True

    agents = """
  - {name: asker, state: {said: ""}, rules: [{when: said == "", do: {ask: {prompt: x}}, set: {said: "=result.data.text"}}, {do: stop}]}
  - {name: walker, kind: walker, loop: {min_loop_delay: 1m}}
"""  # noqa: E501
    scene = Scene("  latency: 1h", agents, "until: 2h", access=OUTSIDE, edge=edge, kinds={"walker": Walker})
    scene.run(backend)
    (call,) = scene.events("model.call")
    assert call["seconds"] == 3600
    assert scene.state()["said"] == "it is"


def test_a_draw_does_not_depend_on_other_calls():
    """The latency of a call belongs to its moment: calls before, for this or another use, change no later one."""
    agents = """
  - name: asker
    state: {n: 0}
    loop: {min_loop_delay: 1ms, max_loop_delay: 2s}
    rules:
      - {when: n >= 3, do: stop}
      - {when: woken_by == "time", do: {ask: {prompt: x}}, set: {n: "=n + 1"}}
      - {do: [FIRST{sleep: {until: "=(n + 1) * 1000"}}]}
"""

    def seconds(first: str) -> list[float]:
        text = agents.replace("FIRST", first)
        scene = Scene(f"{YES}  latency: {DRAWN}", text, "until: 2h", access=OUTSIDE, edge=Edge(*[answered()] * 9))
        return [call["seconds"] for call in scene.run().events("model.call") if call["use"] == "agent"]

    alone = seconds("")
    assert len(set(alone)) == 3
    assert seconds("{ask: {prompt: x, use: judge}}, ") == alone
    assert seconds("{ask: {prompt: x}}, ")[1::2] == alone


def test_a_latency_longer_than_any_deadline_is_no_timeout():
    """An answer that takes a simulated day arrives after a day."""
    scene = Scene("  latency: 1d", rest="until: 2d", access=OUTSIDE, edge=Edge(answered())).run()
    assert scene.state()["said"] == "it is"


def test_a_call_that_is_cancelled_gives_back_what_it_held():
    """At the end of the run a call is under way: its input is billed, and nothing stays reserved."""
    models = f"{YES}  latency: 2h\n  prices: {{m: {{input: 1000, output: 2000}}}}\n"
    scene = Scene(models, rest="until: 1h", access=OUTSIDE, edge=Edge(60.0)).run()
    scene.world.close()
    scene.recorder.flush()
    (call,) = scene.events("model.call")
    assert (call["error"], call["seconds"]) == ("abandoned", 3600)
    assert scene.models.spend.total.cost_micro == 1000 * scene.models.spend.total.input_tokens > 0


# -- from the record


@pytest.mark.slow
def test_a_run_replays_and_branches(talk, tmp_path):
    """A replay is the same without an endpoint. A branch may change the latency at a time above 0."""
    with Endpoint(slow(2)) as endpoint:
        done = run(talk("2s"), access=at(endpoint), out=tmp_path)
        again = sim.replay(folder(done), backend="trio")
        assert (again.same, again.complete) == (True, True), again.difference
        assert len(endpoint.seen) == 15
        assert sim.branch(folder(done), at="4s", access=at(endpoint)).hash == done.hash
        other = sim.branch(folder(done), at="4s", access=at(endpoint), overrides=["models.latency=500ms"])
    with open_run(folder(other)) as stored:
        rows = stored.query("SELECT time_ns / 1000000000, seconds FROM llm_calls ORDER BY time_ns")
    assert {seconds for time, seconds in rows if time >= 6} == {0.5}
    assert {seconds for time, seconds in rows if time < 6} == {2.0}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True], ids=["ended", "lost"])
def test_an_interrupted_run_ends_as_one_that_was_not(talk, tmp_path, monkeypatch, lost):
    """A resumed run has the hash of an uninterrupted one. A request that was lost is made again, and is on record."""
    monkeypatch.setattr("sim.host.host.GRACE", 0.01 if lost else 3.0)
    with Endpoint(slow(3)) as endpoint:
        whole = run(talk(), access=at(endpoint))
        runners: list[Any] = []

        def answer(seen: Seen) -> Reply:
            if seen.number == 15 + 7:
                runners[0].host.suspend()
                return attrs.evolve(slow(4)(seen), delay=1.0 if lost else 0.1)
            return slow(4)(seen)

        endpoint.script = answer
        part = run(talk(), access=at(endpoint), out=tmp_path, begun=runners.append, on_interrupt="return")
        assert part.status == "interrupted"
        endpoint.script = slow(5)
        done = resume(folder(part), access=at(endpoint))
    assert done.hash == whole.hash
    with open_run(folder(done)) as stored:
        ((kept,),) = stored.query("SELECT count(json_extract(result, '$.lost[0].usage.input_tokens')) FROM effects")
    assert (kept > 0) == lost


def test_an_estimate_uses_the_latency(talk):
    """An estimate has the calls that a run with this latency would make: fewer, if answers take longer."""
    assert estimate(talk("2s"), access=OUTSIDE)["total"]["calls"] == 15
    assert estimate(talk("25s"), access=OUTSIDE)["total"]["calls"] == 10


# -- how it is written


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["2s", "0", "0s", "1.5", "{constant: 3}", "{uniform: [1, 2]}", "{exponential: 2}", DRAWN]
)
def test_a_latency_is_a_duration_or_a_distribution(value):
    """The check and the JSON Schema accept every form."""
    jsonschema = pytest.importorskip("jsonschema")
    scenario = loads(f"name: x\nmodels: {{latency: {value}}}\nagents: [{{name: a}}]")
    assert scenario.models is not None
    assert scenario.models.latency is not None
    tree = {"name": "x", "models": {"latency": sim_value(value)}, "agents": [{"name": "a"}]}
    jsonschema.Draft202012Validator(json_schema()).validate(tree)


def sim_value(text: str) -> Any:
    """Return the value that a YAML text has."""
    from ruamel.yaml import YAML

    return YAML(typ="safe").load(text)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("soon", "'soon' is not a duration"),
        ("-1", "models.latency: expected a value of at least 0"),
        ("{lognormal: [3, 1]}", "0 < median <= p95"),
        ("{uniform: [1, 2], constant: 1}", "exactly one of"),
        ("{normal: [1, 2]}", "normal"),
        ("[1, 2]", "models.latency"),
    ],
)
def test_a_wrong_latency_is_refused(value, words):
    """What is wrong is named, with its place."""
    with pytest.raises(ScenarioError) as refused:
        loads(f"name: x\nmodels: {{latency: {value}}}\nagents: [{{name: a}}]")
    assert words in str(refused.value)
