"""Agents: what decides and acts. The loop that drives one is in `loop`."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sim.actors.mailbox import Mailbox
from sim.errors import UsageError
from sim.events import Event
from sim.kernel import Stream
from sim.kernel.codec import recordable
from sim.permissions import Permission
from sim.world import Action, ActionResult, Message, Sharing, World

if TYPE_CHECKING:
    from sim.actors.loop import AgentLoop


class Agent(ABC):
    """Base of all agents: override `decide_action`.

    Args:
        agent_id: its name, unique in the world.
        world: where it lives. It changes the world through actions only.
        group: its group; by default its own name.
        permission: what it may do.

    Raises:
        UsageError: if `on_error` or `on_stop` is async: nothing could await it.

    Attributes:
        reach: what `decide_action` reads: what is this agent's own, also what is near it in space (`World.space`), or
            anything. None: the class does not say. Who reaches no farther than space can run ahead of others
            (`execution.sync: causal`); such an agent gets no messages.
        has_more: whether `next_action` has another action for this iteration, once the one before has succeeded.
        alive: set it to False, or call `shutdown`, and the loop ends, also if it sleeps or is paused (seed 004).
        state: its variables: JSON-like, part of the run's final digest. An iteration that leaves something else in it
            has failed: what is not JSON at its top is found then, deeper down it may be found later.
        entry: the entry of the scenario that it was made from; None if it was made by a program.
        mailbox: what is addressed to it.
        woken_event: the event that woke it last, or None.
    """

    reach: Sharing | None = None
    has_more = False

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
    ) -> None:
        _check_hooks(type(self))
        self.agent_id = agent_id
        self.world = world
        self.group = group or agent_id
        self.permission = permission
        self.entry: str | None = None
        self._alive = True
        self.state: dict[str, Any] = {}
        self.mailbox = Mailbox(world.kernel, 100, "block")
        self.woken_event: Event | None = None
        self._loop: AgentLoop | None = None

    # -- what a researcher writes

    @abstractmethod
    async def decide_action(self) -> Action | None:
        """Decide what to do next; None skips this iteration. Called once an iteration."""

    def next_action(self) -> Action | None:
        """Return the next action of this iteration, if `has_more` says that there is one."""
        return None

    def execute_action(self, action: Action) -> Coroutine[Any, Any, ActionResult]:
        """Do what was decided. Override (`async def`) to watch or change how actions are done."""
        return self.world.execute(self, action)

    async def on_start(self) -> None:
        """Called once before the first iteration of each start."""

    def on_error(self, error: str) -> None:
        """Called when an iteration has failed, after the event `agent.error`, before the delay or pause that follows.

        An error raised here is recorded as another `agent.error`; the first one stays the one that counts.

        Args:
            error: what failed: the type and text of the exception, or why the action was refused.
        """

    def on_stop(self) -> None:
        """Called once when the loop has ended, however it ended."""

    # -- what an agent uses

    @property
    def rng(self) -> Stream:
        """The agent's own random stream."""
        return self.world.stream(self.agent_id)

    @property
    def loop(self) -> "AgentLoop":
        """The loop that drives this agent."""
        if self._loop is None:
            raise RuntimeError(f"{self.agent_id} has no loop yet: AgentLoopManager.create_loop makes it")
        return self._loop

    @property
    def alive(self) -> bool:
        """Whether it has not been shut down."""
        return self._alive

    @alive.setter
    def alive(self, alive: bool) -> None:
        self.world.kernel.acting()  # refuse a call from outside before anything has changed
        self._alive = alive
        if not alive and self._loop is not None:
            self._loop.request_stop("shutdown")

    def shutdown(self) -> None:
        """Stop for good when the iteration under way has ended, or at once between two (seed 004)."""
        self.alive = False

    # -- what the world uses

    def terminate(self, reason: str) -> None:
        """Stop now; an iteration under way is cancelled between two steps."""
        if self._loop is not None:
            self._loop.request_stop(reason)
            self._loop.cancel()

    def receive(self, message: Message) -> str | None:
        """Take a message; return why it was refused, or None."""
        return self.mailbox.offer(message)

    async def wait_for_room(self) -> None:
        """Wait until a message would be taken, if the mailbox blocks."""
        await self.mailbox.wait_for_room()

    def attach(self, loop: "AgentLoop", mailbox: Mailbox) -> None:
        """Bind the agent to its loop."""
        self._loop = loop
        self.mailbox = mailbox

    def state_for_digest(self) -> Any:
        """Return what the final digest holds of this agent."""
        loop = self._loop
        progress = None if loop is None else [loop.state, loop.iteration_count, loop.consecutive_errors]
        return {"loop": progress, "mail": len(self.mailbox), "state": recordable(self.state, "state")}


@lru_cache(maxsize=1024)
def _check_hooks(kind: type[Agent]) -> None:
    for name in ("on_error", "on_stop"):
        if inspect.iscoroutinefunction(getattr(kind, name)):
            raise UsageError(
                f"{kind.__name__}.{name} is async, but nothing can wait for it", hint=f"define it with `def {name}`"
            )
