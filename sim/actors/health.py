"""The health monitor: raises an alert for agents that show no sign of life."""

from collections.abc import Callable
from typing import Any, Final, Literal

from sim.actors.events import EffectOverdue, HeartbeatMissed, LockHeld
from sim.actors.lifecycle import Phase
from sim.actors.loop import AgentLoop
from sim.actors.manager import AgentLoopManager
from sim.actors.state import AgentState
from sim.kernel import Actor
from sim.kernel.actor import MONITOR
from sim.kernel.effects import EffectHandle
from sim.kernel.waits import sleep_ns

Cure = Literal["none", "restart"]
"""What the monitor does about an agent in addition to the alert."""

LOCK_NS: Final = 600 * 10**9
ASLEEP_NS: Final = 3600 * 10**9

_S = AgentState
_WANTED = ("", "shutdown", "end", "removed")  # stop reasons that are intended, so no alert; empty: never started


class HealthMonitor:
    """Checks all loops at a fixed interval, and raises each alert once per silent period.

    `alert.heartbeat_missed`: an agent has shown no sign of life for its `heartbeat_timeout`. Signs of life are the
    begin and the end of an iteration, the end of a known wait, and `AgentLoop.beat`. The alert covers agents that:

    - run or stop, during an iteration or between two. In tick mode only an ongoing iteration counts.
    - sleep for longer than `asleep_ns` with no time at which they wake.
    - have crashed or were stopped, but not agents that shut themselves down.

    `alert.lock_held`: an iteration has lasted longer than `lock_ns` since its begin or its last known wait.
    `alert.effect_overdue`: an effect had no outcome at its deadline; the kernel has already timed it out.

    A known wait is a wait for a model, an effect, a person, the turns of others, capacity, or a place in a line. An
    agent in a known wait is slow but not silent: it raises no alert and is not restarted.

    Args:
        manager: the manager of the loops to watch.
        every_ns: simulated nanoseconds between two checks.
        cure: `none` only raises alerts. `restart` also cancels a silent iteration and starts the loop again, wakes an
            agent that sleeps too long, and starts a crashed agent if its restart limit allows it.
        lock_ns: how long an iteration can last without a known wait, in simulated nanoseconds.
        asleep_ns: how long an agent can sleep with no time at which it wakes, in simulated nanoseconds; None: no limit.

    Attributes:
        missed: number of missed heartbeats.
        locks: number of iterations that lasted too long.
        overdue: number of effects that had no outcome at their deadline.
        restarted: number of loops that the monitor started again.
    """

    def __init__(
        self,
        manager: AgentLoopManager,
        every_ns: int,
        cure: Cure = "none",
        *,
        lock_ns: int = LOCK_NS,
        asleep_ns: int | None = ASLEEP_NS,
    ) -> None:
        self.missed = 0
        self.locks = 0
        self.overdue = 0
        self.restarted = 0
        self._manager = manager
        self._world = manager.world
        self._kernel = manager.world.kernel
        self._every_ns = every_ns
        self._cure = cure
        self._lock_ns = lock_ns
        self._asleep_ns = asleep_ns
        self._reported: dict[str, dict[str, int]] = {}  # agent → alert → last sign of life when it was raised
        self._lost: list[tuple[str, int]] = []  # removed agents that crashed, with their last sign of life

    def start(self) -> Actor:
        """Start the actor that checks the loops, and return it."""
        actor = Actor("health-monitor", MONITOR)
        self._kernel.begin(actor, self._watch())
        self._manager.on_forgotten = self._forgotten

        def late(handle: EffectHandle) -> None:  # a later step, so that the monitor is the source of the alert
            self._kernel.call_at(self._kernel.now, lambda: self._effect_overdue(handle), actor)

        self._kernel.effects.on_timeout = late
        return actor

    async def _watch(self) -> None:
        while True:
            await sleep_ns(self._every_ns)
            loops = self._manager.loops
            self._reported = {id: reported for id, reported in self._reported.items() if id in loops}
            for loop in list(loops.values()):
                if not self._world.waits.under_way(loop.agent_id):
                    await self._look_at(loop)
            lost, self._lost = self._lost, []
            for agent_id, sign in lost:
                self._miss(agent_id, sign, _S.STOPPED, "none")

    async def _look_at(self, loop: AgentLoop) -> None:
        sign = self._last_sign(loop)
        limit = self._limit(loop)
        if limit is not None and self._kernel.now - sign > limit and self._is_new("heartbeat", loop, sign):
            act, cure = self._cure_for(loop)
            self._miss(loop.agent_id, sign, loop.state, cure)
            await act(loop)
        since = max(loop.began_ns, self._world.waits.ended_ns(loop.agent_id))
        held = loop.phase is Phase.INSIDE and loop.state is not _S.PAUSED and self._kernel.now - since > self._lock_ns
        if held and not self._world.waits.under_way(loop.agent_id) and self._is_new("lock", loop, since):
            await self._lock_held(loop, since)

    def _last_sign(self, loop: AgentLoop) -> int:
        """Return when a loop last showed a sign of life, or was last due to show one."""
        return max(loop.expected_ns, self._world.waits.ended_ns(loop.agent_id))

    def _limit(self, loop: AgentLoop) -> int | None:
        """Return how long a loop can be silent in its present state, in nanoseconds; None: no limit."""
        state, timeout = loop.state, loop.config.silence_ns
        if state is _S.STOPPED:
            return None if loop.stop_reason in _WANTED else timeout
        if state is _S.PAUSED or loop.actor.woken:
            return None  # it waits for capacity, a person or the end of a cool-down, or has a step scheduled now
        if loop.phase is Phase.INSIDE:
            return timeout
        if state is _S.SLEEPING:
            return None if loop.wakes_in_time or self._asleep_ns is None else max(self._asleep_ns, timeout)
        return None if self._manager.ticking and loop.through else timeout

    def _is_new(self, alert: str, loop: AgentLoop, sign: int) -> bool:
        reported = self._reported.setdefault(loop.agent_id, {})
        before, reported[alert] = reported.get(alert), sign
        return before != sign

    # -- alerts

    def _miss(self, agent_id: str, sign: int, state: AgentState, cure: str) -> None:
        self.missed += 1
        silent_ns = self._kernel.now - sign
        self._world.event_bus.report(HeartbeatMissed(agent=agent_id, cure=cure, silent_ns=silent_ns, state=state))

    async def _lock_held(self, loop: AgentLoop, since: int) -> None:
        self.locks += 1
        act, cure = self._cure_for(loop)
        held_ns = self._kernel.now - since
        self._world.event_bus.report(LockHeld(agent=loop.agent_id, cure=cure, held_ns=held_ns, state=loop.state))
        await act(loop)

    def _effect_overdue(self, handle: EffectHandle) -> None:
        self.overdue += 1
        effect = handle.effect
        self._world.event_bus.report(
            EffectOverdue(agent=handle.actor.name, cure="timeout", deadline_ns=effect.deadline_ns, effect=effect.kind)
        )

    def _forgotten(self, loop: AgentLoop) -> None:
        if loop.stop_reason == "crashed":
            self._lost.append((loop.agent_id, self._last_sign(loop)))

    # -- cures

    def _cure_for(self, loop: AgentLoop) -> tuple[Callable[[AgentLoop], Any], str]:
        """Return what to do about a loop, and its name in the alert."""
        if self._cure == "none":
            return _nothing, "none"
        if loop.state is _S.STOPPED:
            crashed = loop.stop_reason == "crashed" and loop.agent.alive
            return (self._start, "restart") if crashed and loop.may_restart() else (_nothing, "none")
        if loop.state is _S.STOPPING:
            return _cancel, "cancel"
        if loop.state is _S.SLEEPING and loop.phase is Phase.OUTSIDE:
            return _wake, "wake"
        return self._restart, "restart"

    async def _restart(self, loop: AgentLoop) -> None:
        forget, loop.on_stopped = loop.on_stopped, None
        await loop.stop(0)
        loop.on_stopped = forget
        await self._start(loop)

    async def _start(self, loop: AgentLoop) -> None:
        self.restarted += 1
        self._manager.start(loop)


async def _nothing(loop: AgentLoop) -> None:
    pass


async def _cancel(loop: AgentLoop) -> None:
    loop.cancel()


async def _wake(loop: AgentLoop) -> None:
    loop.wake()
