"""The health monitor: finds agents that have gone silent (seed 000, heartbeats)."""

from typing import Literal

from sim.actors.loop import AgentLoop
from sim.actors.manager import AgentLoopManager
from sim.actors.state import AgentState
from sim.kernel import Actor
from sim.kernel.waits import sleep_ns

Cure = Literal["none", "restart"]
"""What is done about a silent agent besides the alert."""


class HealthMonitor:
    """Looks at all loops at an interval and raises `alert.heartbeat_missed` once for each silence.

    A running agent is silent when it has neither begun nor ended an iteration for its `heartbeat_timeout`. One that
    waits for a model, an effect, a person, others' turns, or stands in line, is slow but not silent: it is never cured,
    and the end of such a wait is a sign of life. In tick mode only an iteration that is under way can be silent.

    Args:
        manager: whose loops are watched.
        every_ns: simulated nanoseconds between two looks.
        cure: `restart` cancels the silent iteration and starts the loop anew.

    Attributes:
        missed: silences that were found.
        restarted: loops that were started anew.
    """

    def __init__(self, manager: AgentLoopManager, every_ns: int, cure: Cure = "none") -> None:
        self.missed = 0
        self.restarted = 0
        self._manager = manager
        self._world = manager.world
        self._every_ns = every_ns
        self._cure = cure
        self._reported: dict[str, int] = {}

    def start(self) -> Actor:
        """Start watching."""
        return self._world.kernel.spawn("health-monitor", self._watch())

    async def _watch(self) -> None:
        while True:
            await sleep_ns(self._every_ns)
            self._reported = {id: n for id, n in self._reported.items() if id in self._manager.loops}
            for loop in list(self._manager.loops.values()):
                if self._silent(loop):
                    await self._alert(loop)

    def _silent(self, loop: AgentLoop) -> bool:
        if loop.state is not AgentState.RUNNING or loop.actor.woken:
            return False
        if self._manager.ticking and loop.through:
            return False
        if self._silence_ns(loop) <= loop.config.silence_ns or self._world.waits.under_way(loop.agent_id):
            return False
        return self._reported.get(loop.agent_id) != loop.iteration_count

    def _silence_ns(self, loop: AgentLoop) -> int:
        """Return how long a loop has shown no sign of life; the end of a known wait is one."""
        return self._world.kernel.now - max(loop.expected_ns, self._world.waits.ended_ns(loop.agent_id))

    async def _alert(self, loop: AgentLoop) -> None:
        self.missed += 1
        self._reported[loop.agent_id] = loop.iteration_count
        data = {"agent": loop.agent_id, "silent_ns": self._silence_ns(loop), "cure": self._cure}
        self._world.event_bus.publish("alert.heartbeat_missed", data)
        if self._cure == "restart":
            await self._restart(loop)

    async def _restart(self, loop: AgentLoop) -> None:
        self.restarted += 1
        forget, loop.on_stopped = loop.on_stopped, None
        await loop.stop(0)
        loop.on_stopped = forget
        if self._manager.ticking:
            loop.start_ticking()
        else:
            loop.start_now()
