"""Agents and scenarios for the tests of synchronised rounds, and what runs them and keeps their records."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from sim import Action, Agent
from sim.kernel.codec import encode
from sim.kernel.rows import EventRow
from sim.kernel.waits import sleep_ns
from sim.llm.service import Models
from sim.llm.types import ChatMessage, ModelRequest, Sampling
from sim.record import HashRecorder
from sim.runner.engine import execute
from sim.runner.event_loop import blocking
from sim.runner.options import HostOptions
from sim.runner.result import RunResult
from sim.runner.runner import RunController
from sim.runner.spec import Kept, Spec
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools.rights import Rights
from sim.world import Space

SIZE = 16
EXACT = ("sequential", "barrier", "causal", "causal-radius")
"""The rules that keep causality: their records must be equal."""


async def ask(agent: Agent, calls: int, tokens: int = 20) -> None:
    """Ask a model several times, one after the other."""
    request = ModelRequest((ChatMessage("user", "hello " * 10),), sampling=Sampling(max_tokens=tokens))
    for _ in range(calls):
        await Models.of(agent.world).complete(agent, request)


def space_of(agent: Agent) -> Space:
    """Return the space in which an agent is."""
    assert agent.world.space is not None
    return agent.world.space


class Walker(Agent):
    """Walks towards or away from the first that it sees, and thinks for longer when it sees somebody.

    Its state says how likely it is that it does something else instead: fails, rests, pays, sleeps, naps, stops.
    """

    reach = "space"

    async def decide_action(self) -> Action | None:
        seen = space_of(self).near(self.agent_id)
        if self.rng.random() < (0.5 if seen else self.state.get("busy", 0.1)):
            await ask(self, 1 + int(self.rng.expovariate(0.5)))
        self.state["met"] = self.state.get("met", 0) + len(seen)
        other = await self._something_else()
        if other is not None:
            return other
        for partner in self.state.get("partners", ()):
            found = space_of(self).look(self.agent_id, partner)
            self.state[partner] = None if found is None else [found.position, found.doing]
        to = self.step(space_of(self).where(self.agent_id), seen)
        return Action("walk", {"to": to, "doing": self.rng.choice("ab"), "met": [one.agent for one in seen]})

    async def _something_else(self) -> Action | None:
        state, rng = self.state, self.rng
        if self._draws("fails"):
            raise ValueError("planted")
        if self._draws("naps"):
            await sleep_ns(int(rng.uniform(1, 40) * 1e9))
            await ask(self, rng.randrange(3))
        if self._draws("rests"):
            return Action("rest", {"until": self.world.now + 10 * rng.randrange(1, 8)})
        if self._draws("pays"):
            return Action("transfer", {"to": "treasury", "amount": round(rng.uniform(0.1, 1), 2)})
        if self._draws("sleeps"):
            return Action("sleep", {"condition": {"for": rng.uniform(1, 40)}})
        if self._draws("stops"):
            return Action("stop")
        return None if "partner" not in state else Action("noop")

    def _draws(self, name: str) -> bool:
        chance = self.state.get(name, 0)
        return bool(chance) and self.rng.random() < chance

    def step(self, here: Any, seen: Any) -> Any:
        """Return where to go."""
        x, y = here
        if seen:
            ox, oy = seen[0].position
            way = 1 if seen[0].doing == "a" else -1
            if abs(ox - x) >= abs(oy - y):
                x += way * ((ox > x) - (ox < x))
            else:
                y += way * ((oy > y) - (oy < y))
        else:
            k = self.rng.randrange(4)
            x, y = x + (1, -1, 0, 0)[k], y + (0, 0, 1, -1)[k]
        return [min(max(x, 0), SIZE - 1), min(max(y, 0), SIZE - 1)]


class Greeter(Walker):
    """A walker that does something of its own before its first step."""

    async def on_start(self) -> None:
        await ask(self, self.rng.randrange(3))
        self.state["greeted"] = self.world.now


class Ringer(Walker):
    """A walker on a ring of twelve places."""

    def step(self, here: Any, seen: Any) -> Any:
        way = self.rng.choice((-1, 0, 1)) if not seen else (1 if seen[0].doing == "a" else -1)
        return f"n{(int(here[1:]) + way) % 12}"


class Planner(Agent):
    """Makes as many calls in each step as its plan says, each of 20 tokens."""

    reach = "space"

    async def decide_action(self) -> None:
        plan = self.state["plan"]
        step = round(self.world.now / 10)
        space_of(self).near(self.agent_id)
        await ask(self, plan[step] if step < len(plan) else 0)


class Trader(Agent):
    """Shares: puts and gets, holds slots, publishes and waits for it, at times in the middle of a tick."""

    reach = "shared"

    async def decide_action(self) -> Action | None:
        state = self.state
        state["n"] = state.get("n", 0) + 1
        match state["part"]:
            case "get":
                return Action("get", {"pool": "store"})
            case "listen":
                await ask(self, self.rng.randrange(3))
                return Action("sleep", {"condition": {"event": "go.*"}})
            case _:
                pass
        if self.rng.random() < 0.5:
            await sleep_ns(int(self.rng.uniform(0.5, 25) * 1e9))
        await ask(self, self.rng.randrange(3))
        match state["part"]:
            case "put":
                return Action("put", {"pool": "store", "item": state["n"]})
            case "hold":
                state["holds"] = not state.get("holds", False)
                return Action("acquire" if state["holds"] else "release", {"pool": "slots"})
            case _:
                return Action("publish", {"topic": "go.on", "data": state["n"]})


class Counter(Agent):
    """Shares: writes one more than what stands there; the order of those that do it in one tick shows."""

    reach = "shared"

    async def decide_action(self) -> Action:
        await ask(self, self.rng.randrange(3))
        found = self.world.artifacts.get("count")
        self.state["saw"] = 0 if found is None else found.content
        return Action("write", {"artifact": "count", "content": [self.agent_id, self.world.now], "writers": "all"})


class Undeclared(Agent):
    """Does not say what it shares."""

    async def decide_action(self) -> None:
        return None


KINDS: Mapping[str, type[Agent]] = {
    "walker": Walker, "greeter": Greeter, "ringer": Ringer, "planner": Planner, "trader": Trader, "counter": Counter,
    "undeclared": Undeclared,
}  # fmt: skip

HEAD = f"""
name: rounds
until: UNTIL
execution:
  use_autonomous_loops: false
  sync: barrier
  tick: {{period: 10s, concurrency: parallel}}
  agent_loop: {{min_loop_delay: 0s}}
space: {{size: [{SIZE}, {SIZE}], perception: 3, speed: 1}}
accounts: {{treasury: 100}}
models:
  provider: simulated
  simulated:
    output_tokens: requested
    server: {{replicas: 1, slots: 3}}
"""
ANYWHERE = f"'=[randint(0, {SIZE - 1}), randint(0, {SIZE - 1})]'"


def scene(*agents: str, until: str = "4m", more: str = "") -> str:
    """Return a scenario on a plane with these agents."""
    return HEAD.replace("UNTIL", until) + more + "agents:\n" + "".join(f"  - {agent}\n" for agent in agents)


def walkers(count: int = 7, state: str = "{}", kind: str = "walker", more: str = "") -> str:
    """Return an entry of agents that stand anywhere."""
    extra = f", {more}" if more else ""
    return f"{{name: w, count: {count}, kind: {kind}, position: {ANYWHERE}, state: {state}{extra}}}"


@attrs.frozen
class Trial:
    """A run that has ended, and all that was recorded of it."""

    runner: RunController
    rows: list[EventRow]
    result: RunResult

    @property
    def hash(self) -> str:
        """The hash of the run."""
        return self.result.hash

    @property
    def service(self) -> Any:
        """What was measured on the axis of service time."""
        return self.result.service

    def digest(self) -> bytes:
        """Return the final state of everything."""
        return encode(self.runner.simulation.world.digest())


def trial(
    text: str,
    sync: str = "barrier",
    seed: int = 1,
    *,
    kinds: Mapping[str, type[Agent]] = KINDS,
    backend: Any = "asyncio",
    mode: Any = "tick",
    begun: Callable[[RunController], object] = lambda runner: None,
    overrides: tuple[str, ...] = (),
) -> Trial:
    """Run a scenario under a rule; `null` is the ordinary tick mode."""
    scenario = loads(text, overrides=[f"execution.sync={sync}", *overrides])
    recorder = HashRecorder(keep=True)
    runners: list[RunController] = []

    def note(runner: RunController) -> None:
        runners.append(runner)
        begun(runner)

    simulation = build(scenario, seed=seed, rights=Rights(kinds=kinds))
    spec = Spec(simulation=simulation, text=None, until_ns=scenario.end_ns, mode=mode, speed=None)
    result = blocking(partial(execute, spec, HostOptions(begun=note), Kept(recorder)), backend)
    return Trial(runners[0], recorder.rows, result)


def assert_equal(text: str, seeds: range, rules: tuple[str, ...] = EXACT, **options: Any) -> Trial:
    """Assert that a scenario's record is the same under all rules; return the last run, which happened in some way."""
    for seed in seeds:
        trials = {rule: trial(text, rule, seed, **options) for rule in rules}
        first = next(iter(trials.values()))
        for rule, one in trials.items():
            assert one.hash == first.hash, f"seed {seed}, {rule}: {first_difference(first, one)}"
    return first


def first_difference(one: Trial, other: Trial) -> str:
    """Return where two records differ, for whoever reads a failed test."""
    for mine, theirs in zip(one.rows, other.rows, strict=False):
        if encode(mine) != encode(theirs):
            return f"{encode(mine)!r} != {encode(theirs)!r}"
    return f"{len(one.rows)} and {len(other.rows)} events, or the final state"
