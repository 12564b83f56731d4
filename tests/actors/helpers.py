"""Shared by the tests of the actor layer: a world with scripted agents, driven in simulated time only."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import anyio

from sim.actors import Agent, AgentLoop, AgentLoopConfig, AgentLoopManager
from sim.host.host import Host
from sim.kernel import NS
from sim.kernel.rows import RecordedEvent
from sim.kernel.waits import sleep_ns
from sim.record import HashRecorder
from sim.resources import Limit, Rate
from sim.runner.tick import TickDriver
from sim.standalone import World
from sim.world import Action, ActionResult
from tests.helpers import named

Step = Callable[["Script"], Action | Awaitable[Action | None] | None]


class Script(Agent):
    """An agent whose decisions are a function given to the test; it notes when it decided."""

    def __init__(self, agent_id: str, world: World, step: Step | None = None, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        self.step = step
        self.times: list[float] = []
        self.results: list[ActionResult] = []
        self.greeted = 0
        self.ended = 0

    async def decide_action(self) -> Action | None:
        self.times.append(self.world.now)
        decision = None if self.step is None else self.step(self)
        return await decision if inspect.isawaitable(decision) else decision

    async def execute_action(self, action: Action) -> ActionResult:
        result = await super().execute_action(action)
        self.results.append(result)
        return result

    async def on_start(self) -> None:
        self.greeted += 1

    def on_stop(self) -> None:
        self.ended += 1


class Lab:
    """A world, its loops, and all rows that were recorded."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.recorder = HashRecorder(keep=True)
        self.world = World(seed, recorder=self.recorder, **options)
        self.kernel = self.world.kernel
        self.bus = self.world.event_bus
        self.manager = AgentLoopManager(self.world)

    def add(
        self,
        name: str,
        step: Step | None = None,
        kind: type[Script] = Script,
        *,
        config: AgentLoopConfig | None = None,
        started: bool = False,
        **options: Any,
    ) -> AgentLoop:
        """Make an agent and its loop; config keys go to `AgentLoopConfig`, the rest to the agent."""
        keys = [key for key in options if hasattr(AgentLoopConfig(), key)]
        made = config or AgentLoopConfig(**{key: options.pop(key) for key in keys})
        loop = self.manager.create_loop(kind(name, self.world, step, **options), made)
        if started:
            loop.start_now()
        return loop

    def script(self, name: str) -> Script:
        """Return the agent of a loop."""
        agent = self.manager.loops[name].agent
        assert isinstance(agent, Script)
        return agent

    def limit(self, resource: str, amount: int, seconds: float, policy: Any = "block", scope: str = "agent") -> None:
        """Limit a resource for each agent, or in total."""
        rates: dict[str, Any] = {scope: Rate(amount, round(seconds * NS))}
        self.world.rate_tracker.set_limit(resource, Limit(**rates, policy=policy))

    def run(self, until: float) -> "Lab":
        """Run all that is due before `until` (simulated seconds), without a host."""
        self.kernel.run(round(until * NS))
        self.kernel.advance_to(round(until * NS))
        return self

    def main(self, scenario: Coroutine[Any, Any, Any], backend: str = "asyncio") -> Any:
        """Run `scenario` as an actor to its end, with a host that carries out effects, for an hour at most."""
        with self.kernel.acting_as(self.kernel.scenario):
            actor = self.kernel.spawn("main", scenario, on_exit=lambda *_: self.kernel.halt())
        anyio.run(Host(self.kernel).run, self.kernel.now + 3600 * NS, backend=backend)
        assert actor.exit is not None, "the scenario waits for something that never happens"
        if actor.exit.error is not None:
            raise actor.exit.error
        return actor.exit.value

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Call something at a simulated time, as the scenario."""
        self.kernel.call_at(round(seconds * NS), call, self.kernel.scenario)

    def tick(self, period: float = 1.0, concurrency: Any = "sequential", shuffled: bool = False) -> TickDriver:
        """Start all loops in tick mode."""
        for loop in self.manager.loops.values():
            loop.start_ticking()
        driver = TickDriver(self.manager, round(period * NS), concurrency, shuffled)
        driver.start()
        return driver

    def rows(self, actor: str | None = None, topic: str | None = None) -> list[RecordedEvent]:
        """Return what was recorded, of one actor or topic."""
        self.recorder.flush()
        return [row for row in named(self.recorder.rows) if actor in (None, row.actor) and topic in (None, row.topic)]

    def states(self, actor: str) -> list[tuple[float, str]]:
        """Return (seconds, state) of each change of state of an agent."""
        return [(row.time_ns / NS, str(row.data["to"])) for row in self.rows(actor, "agent.state")]

    def pause_for(self, seconds: float) -> Any:
        """Wait inside a scenario."""
        return sleep_ns(round(seconds * NS))
