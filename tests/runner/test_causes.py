"""What led to an event, and what it may have influenced, as a replay with a trace finds it."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import pytest

import sim
from sim.base.errors import RunError, UsageError
from sim.kernel import Source
from sim.kernel.actor import identity
from sim.record import open_run
from sim.runner.causes import Causes, causes_of, influence_of
from sim.runner.moments import ReplayCost, RunPosition, moment_of
from sim.runner.options import ReplayOptions
from sim.runner.trace import START, UNKNOWN, TracingSlicer
from sim.runner.walk import Walk
from tests.helpers import command
from tests.sync.sync_agents import KINDS, scene, walkers

ROOT = Path(__file__).parents[2]

CHAIN = """
name: chain
until: 30s
pools: {desk: {kind: resource, slots: 1}}
agents:
  - name: first
    rules:
      - {when: iteration == 1, do: {sleep: {for: 5s}}}
      - {when: iteration == 2, do: {send: {to: second, topic: news, data: 1}}}
      - do: {sleep: {for: 1h}}
  - name: second
    state: {heard: 0}
    rules:
      - {when: message is not None, set: {heard: 1}, do: {publish: {topic: told, data: 1}}}
      - do: {sleep: {message: true}}
  - name: third
    rules:
      - {when: event is not None, record: {seen: "=state_of('second', 'heard')"}, do: noop}
      - do: {sleep: {event: told}}
  - name: lonely
    loop: {min_loop_delay: 3s}
    rules: [{when: chance(0.5), do: {publish: {topic: alone, data: 1}}}, {do: noop}]
"""


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A recorded run of the scenario."""
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN, encoding="utf-8")
    return str(sim.run(file, out=tmp_path / "runs").run)


def number(run: str, topic: str, actor: str) -> int:
    """Return the number of the first event of a topic of an actor."""
    with open_run(Path(run)) as stored:
        sql = "SELECT min(id) FROM events WHERE topic = ? AND actor = ?"
        return int(stored.query(sql, (topic, actor))[0][0])


def causes(run: str, event: int, most: int | None = 20) -> Causes:
    """Return what led to an event of a run."""
    with open_run(Path(run)) as stored:
        return causes_of(stored, event, ReplayOptions(), most=most)


def test_the_chain_of_an_event_is_followed_to_the_start(run):
    """Woken by an event, whose step took a message, whose step a timer of its own caused, from the start of the run."""
    found = causes(run, number(run, "observation", "third"))
    names = {step.step: step for step in found.steps}
    first = found.steps[0]
    assert (first.agent, first.time, first.folded, first.drew) == ("third", 5, 0, False)
    assert first.woken == number(run, "told", "second")
    assert [names[one].agent for one in first.read] == ["second"]
    second = names[first.cause or 0]
    assert second.agent == "second"
    assert [event for _, event in second.took] == [number(run, "message.sent", "first")]
    sender = names[second.took[0][0]]
    assert (sender.agent, sender.by, sender.folded >= 1, sender.since) == ("first", "start", True, 0)
    assert "lonely" not in {step.agent for step in found.steps}
    assert found.ancestors[1] == 3


def test_draws_are_an_end_of_the_chain(run):
    """An event that only its own agent led to comes from the start and its draws."""
    found = causes(run, number(run, "alone", "lonely"))
    (only,) = found.steps
    assert (only.agent, only.by, only.drew) == ("lonely", "start", True)


def test_limits_say_what_is_left_out(run):
    """Of a chain that is cut, the number of the steps that are left out directly is known."""
    event = number(run, "observation", "third")
    cut = causes(run, event, most=1)
    assert len(cut.steps) == 1
    assert cut.cut >= 1
    assert causes(run, event, most=None).cut == 0
    assert cut.ancestors == causes(run, event).ancestors


def test_what_an_event_may_have_influenced(run):
    """A message reaches its receiver and whom that one wakes, and no one else."""
    with open_run(Path(run)) as stored:
        found = influence_of(stored, number(run, "message.sent", "first"), ReplayOptions())
        alone = influence_of(stored, number(run, "alone", "lonely"), ReplayOptions())
    assert set(found.agents) == {"first", "second", "third"}
    assert found.events[0] < found.events[1]
    assert set(alone.agents) == {"lonely"}


@pytest.mark.slow
def test_the_command_shows_both(run):
    """`sim show RUN causes`, and `influence` with what differs first in a branch without the event."""
    event = number(run, "message.sent", "first")
    code, out, err = command("show", run, "causes", number(run, "observation", "third"))
    assert (code, "#1 third at 5s" in out, f"took event {event}" in out, "the start of the run" in out) == (0,) + (
        True,
    ) * 3
    assert err.startswith("sim: a replay of about ")
    code, out, _ = command("show", run, "influence", event)
    assert (code, "it may have influenced" in out, "this differs first" in out) == (0, True, True)
    found = json.loads(command("show", run, "influence", event, "--json")[1])
    assert found["without"]["first"][0].startswith("5s ")
    assert command("show", run, "causes")[0] == 2
    with pytest.raises(UsageError, match="belongs to the end of the run"):
        causes(run, _last(run))


def test_events_of_the_start_have_no_causes(run):
    """The start of a run makes its agents: no step led to that, and it is not said to be the end."""
    with open_run(Path(run)) as stored:
        (early,) = stored.query("SELECT id FROM events ORDER BY id LIMIT 1 OFFSET 1")[0]
        for find in (causes_of, influence_of):
            with pytest.raises(UsageError, match=f"event {early} belongs to the start of the run, which makes all"):
                find(stored, early, ReplayOptions())
        with pytest.raises(UsageError, match="belongs to the end of the run"):
            influence_of(stored, _last(run), ReplayOptions())


def test_no_cost_is_named_of_what_is_refused(tmp_path):
    """A run whose agents are at different times is refused before anything is said about the cost of a replay."""
    file = tmp_path / "rounds.yaml"
    file.write_text(scene(walkers(2), "{name: p}"), encoding="utf-8")
    run = sim.run(file, out=tmp_path / "runs", kinds=KINDS, overrides=["execution.sync=causal"])
    options, costs = ReplayOptions(kinds=KINDS), list[ReplayCost]()
    with open_run(Path(str(run.run))) as stored:
        for find in (causes_of, influence_of):
            with pytest.raises(UsageError, match=r"was run with execution\.sync"):
                find(stored, 5, options, on_cost=costs.append)
        for place in (RunPosition(10**9), RunPosition(10**9, 5)):
            with pytest.raises(UsageError, match=r"was run with execution\.sync"):
                moment_of(stored, place, options, costs.append)
        object.__setattr__(stored, "info", attrs.evolve(stored.info, status="running"))
        for find in (causes_of, influence_of):
            with pytest.raises(RunError, match="is being written by another process"):
                find(stored, 5, options, on_cost=costs.append)
        with pytest.raises(RunError, match="is being written by another process"):
            moment_of(stored, RunPosition(10**9), options, costs.append)
    assert costs == []


def _last(run: str) -> int:
    with open_run(Path(run)) as stored:
        return int(stored.query("SELECT max(id) FROM events")[0][0])


class Counted(TracingSlicer):
    """Looks at the counters of all sources after each step, which takes too long for a trace."""

    def __init__(self, trace: Any, kernel: Any, clock: Any) -> None:
        super().__init__(kernel, clock, trace)
        self.steps: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self.keys: dict[int, tuple[int, int]] = {}
        self._known: dict[int, int] = {}
        self._sources: dict[int, Source] = {}
        self._look(0)

    def _look(self, first: int) -> None:
        kernel, trace = self._kernel, self._trace
        sources = self._sources
        sources |= {one.ordinal: one for one in (kernel.host, kernel.scenario, kernel.supervisor)}
        for entry in (*kernel.calendar, *kernel.ready):
            source = getattr(entry[4], "actor", None) or getattr(entry[4], "source", None) or entry[4]
            if isinstance(source, Source):
                sources[source.ordinal] = source
        sources |= {one.source.ordinal: one.source for one in trace._world.agents.values() if one.source is not None}
        sources |= {one.ordinal: one for one in (*kernel._owned.values(), *kernel.actors.values())}
        for ordinal, source in sources.items():
            for counter in range(self._known.get(ordinal, 0) + 1, source.counter + 1):
                self.steps[ordinal, counter] |= set(range(first, len(trace.times)))
            self._known[ordinal] = source.counter

    def run(self, limit: int) -> Any:
        """Run one step, and note which counters it has used."""
        first = len(self._trace.times)
        pause = super().run(limit)
        self._look(first)
        entry = self._kernel.entry
        if len(self._trace.times) > first and entry[4] is not None:  # else a tick has replaced its own entry
            self.keys[first] = identity(entry[2]), entry[3]
        return pause


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode", "until"),
    [("debate", "autonomous", "35s"), ("debate", "tick", "20s"), ("helpdesk", "autonomous", "6h"),
     ("ecology", "autonomous", "1h"), ("queue", "autonomous", "20m"), ("software_team", "autonomous", "10m")],
)  # fmt: skip
def test_each_cause_is_the_step_that_has_used_the_counter(name, mode, until, tmp_path):
    """The cause of a step is that of its entry, whose counter one step has used; and a trace changes nothing."""
    run = sim.run(ROOT / "scenarios" / f"{name}.yaml", out=tmp_path, mode=mode, until=until)
    with open_run(Path(str(run.run))) as stored, Walk(stored, ReplayOptions()) as walk:
        trace = walk.trace()
        replayer = walk.runner.host.replayer
        assert replayer is not None
        counted = Counted(trace, replayer.slicer._kernel, replayer.slicer._clock)
        replayer.slicer = counted
        walk.to(walk.end_ns - 1)
        checked, unknown = 0, 0
        for step, key in counted.keys.items():
            if trace.causes[step] >= 0:
                assert trace.causes[step] in counted.steps[key], (step, key)
                checked += 1
            unknown += trace.causes[step] == UNKNOWN
        assert unknown <= 1  # the first step of a limit, which is woken for those that wait for it
        assert checked > len(counted.keys) / 2
        assert START in trace.causes
        walk.to_end()
        walk.verify()


class Shared(sim.Agent):
    """Has a state of its own in the body of its class."""

    state: Any = {}  # noqa: RUF012

    async def decide_action(self) -> sim.Action:
        self.state["n"] = self.state.get("n", 0) + 1
        return sim.Action("publish", {"topic": "x.y", "data": self.state["n"]})


def test_a_class_can_have_a_state_in_its_body(tmp_path):
    """A replay with a trace reads and writes the state where the class leaves it."""
    scenario = {"name": "shared", "until": "3s", "agents": [{"name": "a", "kind": "shared", "count": 2}]}
    run = sim.run(scenario, out=tmp_path, kinds={"shared": Shared})
    with open_run(str(run.run)) as stored:
        assert causes_of(stored, 8, ReplayOptions(kinds={"shared": Shared})).steps
