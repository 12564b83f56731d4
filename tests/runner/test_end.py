"""How a run ends: its last sample is its final state, what is due at the end does not happen, `at: end` does."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.inspect.viewer.series import Series
from sim.kernel import NS, Effect, perform
from sim.record import open_run
from sim.runner import RunResult
from sim.scenario import loads

MODES = ["autonomous", "tick"]

COUNTING = """
name: counting
until: {until}
agents:
  - name: a
    count: 3
    state: {{n: 0}}
    loop: {{min_loop_delay: 1s}}
    rules: [{{when: "n == {last}", do: {ending}, set: {{n: "=n + 1"}}}}, {{set: {{n: "=n + 1"}}}}]
metrics: {{every: {every}, values: {{n: "total('a', 'n')", alive: count('a')}}}}
"""
ENDS = {
    "until": COUNTING.format(until="10s", every="1s", last=-1, ending="noop"),
    "until between samples": COUNTING.format(until="10500ms", every="1s", last=-1, ending="noop"),
    "all stopped": COUNTING.format(until="1h", every="1s", last=4, ending="stop"),
    "all stopped, without a limit": COUNTING.format(until="null", every="1s", last=4, ending="stop"),
    "nothing left": COUNTING.format(until="null", every="1s", last=4, ending="{sleep: {event: never}}"),
    "stop": COUNTING.format(until="1h", every="1s", last=-1, ending="noop")
    + "stop: {when: \"total('a', 'n') >= 12\"}\n",
    "stop at once": COUNTING.format(until="1h", every="1s", last=-1, ending="noop") + "stop: {when: 'true'}\n",
}


def recorded(folder: Path, text: str, **options: Any) -> RunResult:
    """Run a scenario, and record it."""
    path = folder / "test.yaml"
    path.write_text(text, encoding="utf-8")
    return sim.run(path, out=folder / "runs", **options)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ENDS)
def test_the_last_sample_is_the_final_state(tmp_path: Path, end: str, mode: Any) -> None:
    """However a run ends, its last sample is its final state, there is one sample at each time, and all who read the
    record see the same samples.
    """
    result = recorded(tmp_path, ENDS[end], mode=mode)
    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        agents = (stored.info.digest or {})["agents"].values()
        rows = stored.query("SELECT time, value FROM samples WHERE name = 'n' ORDER BY id")
        curve = Series(["n"])
        for event in stored.events():
            if event.topic == "metric.sample":
                curve.add(event.time_ns / 1e9, [event.data["n"]])

    times, values = result.metrics["time"], result.metrics["n"]
    assert values[-1] == sum(agent["state"]["n"] for agent in agents)
    assert result.metrics["alive"][-1] == 3 - result.states["stopped"]
    assert times[-1] == result.sim_seconds
    assert times == sorted(set(times))
    assert rows == list(zip(times, values, strict=True))
    with sim.open(result.run) as run:
        object.__setattr__(run.info, "summary", None)  # as of a run that was killed
        assert (run.metrics["n"], run.metrics["time"]) == (values, times)
    assert curve.to_json()["values"] == [values]
    assert sim.replay(result.run).same


@pytest.mark.parametrize("mode", MODES)
def test_nothing_happens_after_the_stop_condition(tmp_path: Path, mode: Any) -> None:
    """`stop` is checked after all steps of the instant of a sample: the agents that made it true do not act again, and
    neither does what they woke at a later instant.
    """
    result = recorded(tmp_path, ENDS["stop"], mode=mode)
    assert (result.stopped_by, result.sim_seconds) == ("total('a', 'n') >= 12", 3.0)
    assert result.metrics["n"] == [0, 3, 6, 12]
    assert result.iterations == 12


def test_the_stop_condition_is_checked_after_what_the_instant_causes(tmp_path: Path) -> None:
    """A chain of events at one instant runs to its end before `stop` is checked there."""
    text = """
    name: chain
    until: 10s
    agents:
      - {name: a, start: 5s, rules: [{when: iteration == 1, do: {publish: {topic: hop.0}}}]}
      - name: b
        state: {n: 0}
        loop: {min_loop_delay: 0s}
        subscribe: ["hop.*"]
        rules:
          - {when: "event is not None and n < 5", do: {publish: {topic: "='hop.' + str(n + 1)"}}, set: {n: "=n + 1"}}
          - {do: {sleep: {event: "hop.*"}}}
    metrics: {every: 5s, values: {n: "total('b', 'n')"}}
    stop: {when: "total('b', 'n') == 5"}
    """
    result = recorded(tmp_path, text)
    assert (result.sim_seconds, result.metrics["n"]) == (5.0, [0, 5])


# -- what is due at the end


def _by_scenario(folder: Path, mode: Any, **options: Any) -> list[float]:
    text = """
    name: due
    until: 10s
    execution: {tick: {period: 5s}}
    agents: [{name: a, loop: {min_loop_delay: 5s}, rules: [{do: {publish: {topic: seen.now}}}]}]
    events: [{at: 5s, every: 5s, topic: seen.event}]
    interventions: [{at: 5s, every: 5s, publish: {topic: seen.intervention}}]
    metrics: {every: 1s, values: {seen: published('seen.*')}}
    """
    result = recorded(folder, text, mode=mode, **options)
    assert result.run is not None
    assert result.metrics["seen"][-1] == 4
    with open_run(Path(result.run)) as stored:
        return [time for (time,) in stored.query("SELECT DISTINCT time FROM events WHERE topic GLOB 'seen.*'")]


def _by_kernel(folder: Path) -> list[float]:
    kernel, seen = sim.Kernel(), list[float]()
    kernel.spawn("a", _ticking(lambda: seen.append(kernel.seconds)))
    sim.run_until(kernel, 10)
    assert kernel.seconds == 10
    before = list(seen)
    sim.run_until(kernel, "10.1s")
    assert seen == [*before, 10]
    return before


def _by_world(folder: Path) -> list[float]:
    async def main() -> list[float]:
        seen = list[float]()
        async with sim.World(seed=1) as world:
            world.spawn("a", _ticking(lambda: seen.append(world.now)))
            await world.run(until=10)
            assert world.now == 10
            before = list(seen)
            await world.run(until="10.1s")
            assert seen == [*before, 10]
        return before

    return asyncio.run(main())


async def _ticking(note: Any) -> None:
    while True:
        note()
        await sim.sleep(5)


@pytest.mark.parametrize(
    "door",
    [
        pytest.param(lambda folder: _by_scenario(folder, "autonomous"), id="until in the file"),
        pytest.param(lambda folder: _by_scenario(folder, "tick"), id="until in the file, ticks"),
        pytest.param(
            lambda folder: _by_scenario(folder, "autonomous", until="10s", overrides=("until=1h",)), id="--until"
        ),
        pytest.param(_by_kernel, id="run_until"),
        pytest.param(_by_world, id="World.run"),
    ],
)
def test_what_is_due_at_the_end_does_not_happen(tmp_path: Path, door: Any) -> None:
    """All doors agree: what is due before the end happens, what is due at the end does not, as in SimPy. A world or a
    kernel that is run further has it happen then.
    """
    assert door(tmp_path) == [0, 5]


# -- at: end

FINAL = """
name: final
until: {until}
models: {{rules: [{{use: survey, say: "='7' if state.n > 3 else '2'"}}]}}
agents:
  - {{name: a, count: 2, state: {{n: 0, mark: 0}}, loop: {{min_loop_delay: 1s}}, rules: [{{set: {{n: "=n + 1"}}}}]}}
  - name: b
    state: {{got: 0}}
    loop: {{min_loop_delay: 0s}}
    subscribe: ["bell", "news"]
    rules:
      - {{when: event is not None or message is not None, set: {{got: "=got + 1"}}}}
      - {{do: {{sleep: {{any: [{{event: bell}}, {{event: news}}, {{message: true}}]}}}}}}
events: [{{at: end, topic: bell, data: 1}}]
interventions:
  - {{at: end, publish: {{topic: news}}}}
  - {{at: end, agents: a, set: {{agents.a.state.mark: 5}}}}
  - {{at: end, send: {{to: b, topic: bye}}}}
  - {{at: end, name: last, survey: {{agents: a, questions: [{{ask: How was it?, scale: [1, 7]}}]}}}}
metrics:
  every: 5s
  values:
    bells: published('bell')
    news: published('news')
    mark: total('a', 'mark')
    got: total('b', 'got')
    answers: service('interventions', 'answers')
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("until", "more", "end"),
    [("10s", "", 10.0), ("1h", "stop: {when: \"total('a', 'n') >= 12\"}", 5.0), ("7s", "", 7.0)],
    ids=["until", "stop", "between samples"],
)
def test_what_is_at_the_end_happens_once_before_the_last_sample(
    tmp_path: Path, until: str, more: str, end: float, mode: Any
) -> None:
    """Events, interventions and surveys `at: end` happen once when the run has ended, however it ends: agents do not
    act on them, the last sample has them, and a replay repeats them.
    """
    result = recorded(tmp_path, FINAL.format(until=until) + more, mode=mode)
    last = {name: values[-1] for name, values in result.metrics.items()}
    assert last == {"time": end, "bells": 1, "news": 1, "mark": 10, "got": 0, "answers": 2}
    assert result.sim_seconds == end
    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        answers = stored.query("SELECT time, name, agent, value FROM surveys ORDER BY id")
        done = stored.query("SELECT time, does, refused FROM interventions ORDER BY id")
    assert answers == [(end, "last", "a-1", 7), (end, "last", "a-2", 7)]
    assert done == [(end, does, None) for does in ("publish", "set", "send", "survey")]
    assert sim.replay(result.run).same
    assert sim.run(tmp_path / "test.yaml", mode=mode, backend="trio").hash == result.hash


class Caller(sim.Agent):
    """Calls again and again for something that takes 7 s."""

    async def decide_action(self) -> None:
        await perform(Effect("call", {}, _answer, latency_ns=7 * NS))


async def _answer(request: Any, key: str) -> Any:
    return None


def test_effects_in_flight_do_not_delay_the_last_survey(tmp_path: Path) -> None:
    """A call of an agent that is under way at the end is abandoned, and no agent acts while the survey is answered."""
    text = """
    name: busy
    until: 10s
    models: {rules: [{say: "3"}]}
    agents: [{name: a, kind: caller}]
    interventions: [{at: end, survey: {questions: [{ask: How was it?, scale: [1, 7]}]}}]
    metrics: {every: 5s, values: {answers: "service('interventions', 'answers')"}}
    """
    result = recorded(tmp_path, text, kinds={"caller": Caller})
    assert (result.sim_seconds, result.iterations, result.metrics["answers"][-1]) == (10.0, 2, 1)
    assert result.services["interventions"]["answers"] == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("events: [{at: end, every: 5s, topic: x}]", "at: end happens once, so it has no every"),
        ("events: [{at: ending, topic: x}]", "ending"),
        ("interventions: [{at: end, pause: {}}]", "pause would change nothing"),
        ("interventions: [{at: end, times: 2, publish: {topic: x}}]", "times needs every"),
    ],
)
def test_an_end_that_cannot_be_meant_is_refused(entry: str, message: str) -> None:
    """`at: end` happens once, and only what agents need not act on can be done then."""
    with pytest.raises(sim.ScenarioError) as refused:
        loads(f"name: x\nagents: [{{name: a, rules: [{{do: noop}}]}}]\n{entry}\n")
    assert message in str(refused.value)


def test_the_last_sample_of_a_thinned_curve_is_kept() -> None:
    """A curve that shows every n-th sample shows the last one, too: it is the final state."""
    curve = Series(["n"])
    for number in range(9002):
        curve.add(float(number), [float(number)])
    shown: Any = curve.to_json()
    assert shown["stride"] > 1
    assert (shown["times"][-1], shown["values"][0][-1]) == (9001.0, 9001.0)
    assert len(shown["times"]) <= math.ceil(9002 / shown["stride"]) + 1
