"""The base class of agents. The loop that runs an agent is in `loop`."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from sim.actors.mailbox import Mailbox
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.events import Event
from sim.kernel import Source
from sim.kernel.codec import recordable
from sim.kernel.ports import DONE, Call
from sim.kernel.rng import Draws
from sim.world import Action, ActionResult, Message, Sharing, World

if TYPE_CHECKING:
    from sim.actors.loop import AgentLoop


class Agent(ABC):
    """Base class of all agents: override `decide_action`.

    Args:
        agent_id: the name of the agent, unique in the world.
        world: the world of the agent. The agent changes it through actions only.
        group: the group of the agent; by default the name of the agent.
        permission: the level of trust of the agent.
        params: what the agent is set up with; by default the defaults of `Params`.

    Raises:
        UsageError: if the name is no text or empty; if `on_error` or `on_stop` is async, because they are called
            without `await`; if another method is not, because it is awaited; or if `Params` are not complete.

    Attributes:
        Params: the class of the params; None: there are none. A subclass declares them as a class `Params` with types
            and defaults, which becomes a frozen attrs class; a scenario gives them as `params`.
        params: the params of this agent, an instance of `Params`.
        reach: which data `decide_action` reads: data of this agent (`own`), also data near it in space (`space`, see
            `World.space`), or any data (`shared`). None: not declared. With `own` or `space`, the agent can run ahead
            of others (`execution.sync: causal`); such an agent receives no messages.
        has_more: whether `next_action` has another action for this iteration after the present one succeeds.
        home: the position in space with which the agent enters it; None: that of its scenario entry.
        abilities: what agents of this class can do for others, in words of their family. Checks and services ask for
            an ability, never for a kind, so a subclass has the abilities of its class.
        memory_kinds: the kinds of memories that its agents have, with the importance of each unless the section
            `memory` says otherwise.
        parts: the further agents that one scenario entry stands for, each with work of its own: an entry `jobs` with
            the part `summary` is the agents `jobs` and `jobs-summary`.
        part: which part of its entry this agent is; empty: the first.
        alive: set it to False, or call `shutdown`, to end the loop. This also ends a sleep or a pause.
        state: the variables of the agent: JSON-like, part of the final digest of the run. An iteration fails if it
            leaves a value that is not JSON. At the top level this is found at once, in nested values perhaps later.
        kind: the kind that its scenario entry names; empty if a program created it.
        entry: the scenario entry from which the agent was created; None if a program created it.
        persona: who it is, as a table of the scenario says; empty: nothing is said.
        woken_event: the latest event that woke the agent, or None.
    """

    # The slots take half of what entries of a dictionary take, of which each agent has one for what its class adds.
    __slots__ = (
        "__dict__", "__weakref__", "_alive", "_alive_asked", "_loop", "agent_id", "entry", "group", "kind", "params",
        "part", "permission", "persona", "state", "woken_event", "world",
    )  # fmt: skip

    reach: Sharing | None = None
    has_more = False
    home: Any = None
    Params: type | None = None
    abilities: ClassVar[frozenset[str]] = frozenset()
    memory_kinds: ClassVar[Mapping[str, int]] = MappingProxyType({})
    parts: ClassVar[tuple[str, ...]] = ()
    _own_alive: ClassVar[bool] = False  # whether a subclass says itself whether it is alive

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__.get("Params")
        if isinstance(own, type) and not {"__attrs_attrs__", "__dataclass_fields__"} & own.__dict__.keys():
            cls.Params = attrs.frozen(own)
        cls._own_alive = cls.alive is not Agent.alive

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        params: Any = None,
    ) -> None:
        kind = type(self)
        _check_hooks(kind)
        _check_name(agent_id)
        self.params = _default_params(kind) if params is None and kind.Params is not None else params
        self.agent_id = agent_id
        self.world = world
        self.group = group or agent_id
        self.permission = permission
        self.entry: str | None = None
        self.kind = ""
        self.part = ""
        self.persona = ""
        self._alive = True
        self._alive_asked: tuple[bool, Call] | None = None  # what a host program has set, and the call that does it
        self.state: dict[str, Any] = {}
        self.woken_event: Event | None = None
        self._loop: AgentLoop | None = None

    # -- methods that subclasses override

    @abstractmethod
    async def decide_action(self) -> Action | None:
        """Return the next action; None skips this iteration. Called once per iteration."""

    def decide_now(self) -> Action | None:
        """Return what `decide_action` returns, without waiting: a class whose decisions never wait can define it.

        It is then called in place of `decide_action`, which saves a coroutine in each iteration.
        """
        raise NotImplementedError

    def after_action(self, result: ActionResult) -> None:
        """Called after each action that was executed, within the same step, with its result."""

    def next_action(self) -> Action | None:
        """Return the next action of this iteration. Called only if `has_more` is true."""
        return None

    def execute_action(self, action: Action) -> Coroutine[Any, Any, ActionResult]:
        """Execute an action. Override it (`async def`) to observe or change how actions are executed."""
        return self.world.execute(self, action)

    async def on_start(self) -> None:
        """Called after each start, before the first iteration."""

    def on_error(self, error: str) -> None:
        """Called after an iteration failed: after the event `agent.error`, before the delay or pause that follows.

        An error that is raised here is recorded as another `agent.error`, but does not count as a failure.

        Args:
            error: the type and text of the exception, or the reason for which the action was refused.
        """

    def on_stop(self) -> None:
        """Called once when the loop has ended, whatever the reason."""

    def about(self) -> Mapping[str, Any]:
        """Return what this agent is and knows beyond what the world holds, for interviews.

        It must not change anything: the agent does not notice an interview. See `sim.agents.interview`.

        Returns:
            The sections of the prompt by name: a text, a list of lines, or another JSON-like value each.
        """
        return {}

    # -- methods and properties that subclasses use

    @cached_property
    def mailbox(self) -> Mailbox:
        """The messages to the agent. It gets the one of its loop, in most cases before it is asked for any."""
        return Mailbox(self.world.kernel, 100, "block")

    @property
    def rng(self) -> Draws:
        """The random draws of this agent at the present moment: the time, and the iteration if it drew before.

        The number of draws at one moment does not affect the draws at others.
        """
        return self.world.draws_now(self.agent_id, turn=0 if self._loop is None else self._loop.iteration_count)

    @property
    def loop(self) -> "AgentLoop":
        """The loop that runs this agent."""
        if self._loop is None:
            raise RuntimeError(f"{self.agent_id} has no loop yet: AgentLoopManager.create_loop makes it")
        return self._loop

    @property
    def source(self) -> Source | None:
        """The source of what this agent causes: the actor of its loop; None if it has no loop."""
        return None if self._loop is None else self._loop.actor

    @property
    def alive(self) -> bool:
        """Whether the agent has not been shut down. A host program reads at once what it has set."""
        asked = self._alive_asked
        if asked is None or asked[1].done or not self.loop.world.outside():
            return self._alive
        return asked[0]

    @alive.setter
    def alive(self, alive: bool) -> None:
        self._set_alive(bool(alive))

    def shutdown(self) -> Call:
        """Stop the agent after the current iteration; between two iterations, stop at once.

        Returns:
            A call that need not be awaited. For a host program, whose call is an input, awaiting it waits until the
            request has reached the agent; `loop.join` waits until it has stopped.
        """
        return self._set_alive(False)

    def _set_alive(self, alive: bool) -> Call:
        loop = self._loop
        world = self.world if loop is None else loop.world  # not that of an agent that runs ahead, which has less
        if loop is not None and world.outside() and (alive or not world.ended):
            data = {"agent": self.agent_id, "alive": alive}
            call = world.call("alive", data, f"{'start of life' if alive else 'shutdown'} of {self.agent_id}")
            self._alive_asked = (alive, call)
            return call
        if not world.ended:
            world.kernel.acting()  # raises if the call comes from outside the run; nothing has changed yet
        self._alive = alive
        world.life_changed(self)
        if not alive and loop is not None:
            loop.request_stop("shutdown")
        return DONE

    def luggage(self) -> dict[str, Any]:
        """Return what the agent takes along to another island beside its `state`, as JSON values."""
        return {}

    def unpack(self, luggage: Mapping[str, Any]) -> None:
        """Take back what `luggage` has returned where the agent left."""

    # -- methods that the world calls

    def terminate(self, reason: str) -> None:
        """Stop at once; the current iteration is cancelled where it waits."""
        if self._loop is not None:
            self._loop.request_stop(reason)
            self._loop.cancel()

    def receive(self, message: Message) -> str | None:
        """Accept a message and return None, or return the reason for refusing it."""
        return self.mailbox.offer(message)

    def has_room(self) -> bool:
        """Return whether `wait_for_room` would return at once."""
        return type(self).wait_for_room is Agent.wait_for_room and self.mailbox.has_room()

    async def wait_for_room(self) -> None:
        """Wait until the mailbox has room, if its policy is `block`."""
        await self.mailbox.wait_for_room()

    def attach(self, loop: "AgentLoop", mailbox: Mailbox) -> None:
        """Bind the agent to its loop."""
        self._loop = loop
        self.mailbox = mailbox

    def starts_at_once(self) -> bool:
        """Return whether `on_start` has nothing to do, so that it need not be called."""
        return getattr(self.on_start, "__func__", None) is _ON_START

    def state_for_digest(self) -> Any:
        """Return the part of the final digest that describes this agent."""
        loop = self._loop
        progress = None if loop is None else [loop.state, loop.iteration_count, loop.consecutive_errors]
        return {"loop": progress, "mail": len(self.mailbox), "state": recordable(self.state, "state")}


def _default_params(kind: type[Agent]) -> Any:
    """Return the params of an agent that is given none.

    Raises:
        UsageError: if one has no default.
    """
    if kind.Params is None:
        return None
    try:
        return kind.Params()
    except TypeError as error:
        hint = f"give params={kind.__name__}.Params(...)"
        raise UsageError(f"{kind.__name__} needs params: {error}", hint=hint) from error


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise UsageError(f"the name of an agent is a text, not {name!r:.60}")


@lru_cache(maxsize=1024)
def _check_hooks(kind: type[Agent]) -> None:
    for name in ("on_error", "on_stop"):
        if inspect.iscoroutinefunction(getattr(kind, name)):
            raise UsageError(
                f"{kind.__name__}.{name} is async, but nothing can wait for it", hint=f"define it with `def {name}`"
            )
    for name in ("decide_action", "on_start"):
        method = getattr(kind, name)
        if inspect.isfunction(method) and not (inspect.iscoroutinefunction(method) or hasattr(method, "__wrapped__")):
            place = f"{method.__code__.co_filename}:{method.__code__.co_firstlineno}"
            raise UsageError(
                f"{kind.__name__}.{name} is awaited, but it is not async ({place})", hint=f"write `async def {name}`"
            )


_ON_START: Final = Agent.on_start  # the original, to detect that it was overridden or patched
