"""Villagers play their parts: they look around, make the calls of the trace and walk where it says."""

from typing import Any

import anyio
import pytest

from sim.base.errors import UsageError
from sim.kernel.codec import decode
from sim.kinds.town import TownTrace, generate, villagers
from sim.kinds.town.routine import HEIGHT, HOUR, WIDTH
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools.rights import Rights
from sim.world import World
from tests.helpers import named

NOON = 12 * HOUR
TOWN = f"""
name: town
until: UNTIL
execution:
  use_autonomous_loops: false
  sync: SYNC
  tick: {{period: 10s, concurrency: parallel}}
space: {{size: [{WIDTH}, {HEIGHT}], metric: chebyshev, perception: 4, speed: 1}}
models:
  provider: simulated
  simulated:
    output_tokens: requested
    server: {{prefill_rate: 6500, decode_rate: 18, decode_total: 300}}
agents: [{{name: villager, count: COUNT, kind: native}}]
"""


class Town:
    """One run of a town.

    Args:
        trace: what is played.
        until: when the run ends, as a duration.
        sync: how the agents wait for each other.
    """

    def __init__(self, trace: TownTrace, until: str, sync: str = "barrier") -> None:
        text = TOWN.replace("UNTIL", until).replace("COUNT", str(len(trace.agents))).replace("SYNC", sync)
        self.recorder = HashRecorder(keep=True)
        simulation = build(
            loads(text), seed=1, recorder=self.recorder, rights=Rights(kinds={"native": villagers(trace)})
        )
        agents = list(simulation.world.agents.values())
        runner = RunController(simulation, until_ns=simulation.scenario.end_ns, mode="tick")
        anyio.run(runner.run)
        self.recorder.flush()
        self.states = {agent.agent_id: agent.state for agent in agents}

    def events(self, topic: str) -> list[tuple[int, str, Any]]:
        """Return time, actor and data of all events of a topic."""
        return [(row.time_ns, row.actor, value(row.data)) for row in named(self.recorder.rows) if row.topic == topic]


def value(data: Any) -> Any:
    """Return the data of an event as plain values."""
    return data if isinstance(data, dict) else decode(data)


@pytest.fixture(scope="module")
def played() -> tuple[TownTrace, Town]:
    """Play five minutes at noon, to their end."""
    trace = generate(1, first_step=NOON, steps=30)
    return trace, Town(trace, "6m")


@pytest.mark.slow
def test_each_call_is_made_with_its_tokens(played):
    """Per agent and step, the models are called in the order of the chain, with its input and its output tokens."""
    trace, town = played
    made: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for time, actor, call in town.events("model.call"):
        tokens = call["input_tokens"], call["output_tokens"]
        made.setdefault((actor, NOON + time // 10**10), []).append(tokens)
    wanted = {
        (name, step): list(chain)
        for name, chains in zip(trace.agents, trace.calls, strict=True)
        for step, chain in chains.items()
    }
    assert made == wanted


def test_everybody_walks_as_the_trace_says(played):
    """The action of a step leads to where the trace has the agent when the next one begins."""
    trace, town = played
    walks = town.events("action.walk")
    assert len(walks) == len(trace.agents) * trace.steps
    for time, actor, walk in walks:
        assert walk["success"]
        assert walk["arguments"]["to"] == list(trace.at(trace.numbers[actor], NOON + time // 10**10 + 1))


def test_everybody_sees_who_is_near(played):
    """Those in sight at the start of the step, and no others, are met; the state counts calls and meetings."""
    trace, town = played
    met = {(actor, NOON + time // 10**10): walk["arguments"]["met"] for time, actor, walk in town.events("action.walk")}
    wanted: dict[tuple[str, int], list[str]] = {key: [] for key in met}
    for step in range(NOON, trace.last_step):
        for one, other in sorted(trace.pairs(step, 4)):
            wanted[trace.agents[one], step].append(trace.agents[other])
            wanted[trace.agents[other], step].append(trace.agents[one])
    assert {key: sorted(names) for key, names in met.items()} == {k: sorted(names) for k, names in wanted.items()}
    assert sum(map(len, met.values())) > 0
    for number, name in enumerate(trace.agents):
        calls = sum(map(len, trace.calls[number].values()))
        assert town.states[name] == {"calls": calls, "met": sum(len(met[name, NOON + k]) for k in range(30))}


def test_the_day_ends_with_the_trace(played):
    """Who has played its part stops."""
    trace, town = played
    assert [time for time, _, _ in town.events("action.stop")] == [300 * 10**9] * len(trace.agents)


@pytest.mark.slow
def test_running_ahead_changes_nothing_of_what_happens():
    """With `causal` the town has the same history as behind a barrier: everybody has seen the same."""
    trace = generate(2, first_step=NOON, steps=12)
    behind, ahead = (Town(trace, "2m", sync).recorder.rows for sync in ("barrier", "causal"))
    assert [(*row[:7], value(row[7])) for row in behind] == [(*row[:7], value(row[7])) for row in ahead]


def test_a_name_without_a_part_is_refused():
    """A trace has parts for its own names only."""
    kind = villagers(generate(1, first_step=NOON, steps=1))
    with pytest.raises(UsageError, match="no part for 'stranger'"):
        kind("stranger", World(1))
