"""Actions: the narrow waist through which agents change the world.

`Action(kind, arguments, reasoning)` → check (schema, permission, costs) → apply, in one step with no await → event →
`ActionResult(success, data | error)`. A refused action changes nothing and says why. The registry is open: higher
layers add kinds; the built-in ones are in `builtin`.
"""

import difflib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import attrs

from sim.errors import UsageError
from sim.kernel.codec import Record
from sim.permissions import Permission

_NO_ARGUMENTS: Mapping[str, Any] = {}


class Refused(Exception):
    """Raised by a handler, before it has changed anything, to say why the action cannot be done.

    Args:
        why: for the agent and the record.
        skip: a limit refuses whose policy is to skip: no fault of the agent.
    """

    def __init__(self, why: str, *, skip: bool = False) -> None:
        super().__init__(why)
        self.skip = skip


class Action(Record, frozen=True):
    """What an agent wants done.

    Args:
        kind: which handler does it, for instance `write`.
        arguments: the handler's arguments, JSON-like.
        reasoning: why, for the record.
    """

    kind: str
    arguments: Mapping[str, Any] = _NO_ARGUMENTS
    reasoning: str = ""


class ActionResult(Record, frozen=True):
    """What came of an action.

    Attributes:
        success: whether it was done.
        data: what it returned.
        error: why it was refused.
        skipped: it was refused by a limit whose policy is to skip: no fault of the agent.
    """

    success: bool
    data: Any = None
    error: str | None = None
    skipped: bool = False


NOOP = Action("noop")
DONE = ActionResult(True)

_ANY = (object,)
_TYPES: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    dict: (dict,),
    list: (list, tuple),
}


Sharing = Literal["own", "space", "shared"]


@attrs.frozen
class ActionHandler:
    """How one kind of action is done.

    Args:
        kind: its name.
        apply: called with (world, agent, **arguments); changes the world and returns JSON-like data, or raises
            `Refused` before it has changed anything. Its signature is the schema of the arguments.
        permission: the least level of agents that may do it.
        wait: for kinds that take time or stand in line: awaited first, with the same arguments; `apply` gets what it
            returns as a third positional argument, `granted`.
        undo: gives back what `wait` granted if the action is refused after all.
        ends: whether the wait ends by itself; one for what others have may last for ever, and a stop ends it.
        scope: what it reads and changes: of its agent alone (`own`), also what is near in space (`space`), or anything
            (`shared`). Only the first two can be done by an agent that runs ahead of others.
    """

    kind: str
    apply: Callable[..., Any]
    permission: Permission = Permission.USER
    wait: Callable[..., Awaitable[Any]] | None = None
    undo: Callable[..., None] | None = None
    ends: bool = False
    scope: Sharing = "shared"
    allowed: Mapping[str, tuple[type, ...]] = attrs.field(init=False)
    required: tuple[str, ...] = attrs.field(init=False)
    topic: str = attrs.field(init=False)
    """Under which it is recorded: made once, for each of the many events would keep a text of its own."""

    @allowed.default
    def _allowed(self) -> Mapping[str, tuple[type, ...]]:
        return {p.name: _TYPES.get(p.annotation, _ANY) for p in self._parameters()}

    @required.default
    def _required(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._parameters() if p.default is inspect.Parameter.empty)

    @topic.default
    def _topic(self) -> str:
        return f"action.{self.kind}"

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.apply).parameters.values())[2 if self.wait is None else 3 :]

    def forbidden(self) -> Refused:
        """Return what to raise if an agent's permission is too low."""
        return Refused(f"{self.kind} needs the permission {self.permission.name.lower()}")

    def check(self, arguments: Mapping[str, Any], /) -> None:
        """Check arguments against the schema.

        Raises:
            Refused: naming the argument that is unknown, missing or of the wrong type.
        """
        allowed = self.allowed
        for name, value in arguments.items():
            types = allowed.get(name)
            if types is None:
                raise Refused(f"{self.kind} has no argument {name!r}{near(name, self.allowed)}")
            if types is _ANY or value.__class__ in types:
                continue
            if not isinstance(value, types) or value.__class__ is bool:
                raise Refused(f"{self.kind}: {name} must be {types[-1].__name__}, not {type(value).__name__}")
        for name in self.required:
            if name not in arguments:
                raise Refused(f"{self.kind} needs the argument {name!r}")


class ActionRegistry:
    """The kinds of action that a world knows."""

    def __init__(self) -> None:
        self._handlers: dict[str, ActionHandler] = {}
        self.find = self._handlers.get  # return the handler of a kind, or None; twice as fast as a method around it

    def register(self, handler: ActionHandler) -> None:
        """Add a kind.

        Raises:
            UsageError: if there is one of this name.
        """
        if handler.kind in self._handlers:
            raise UsageError(f"the action kind {handler.kind!r} is registered already")
        self._handlers[handler.kind] = handler

    def get(self, kind: str) -> ActionHandler:
        """Return the handler of a kind.

        Raises:
            Refused: if there is none, with the nearest name.
        """
        handler = self._handlers.get(kind)
        if handler is None:
            raise Refused(f"there is no action kind {kind!r}{near(kind, self._handlers)}")
        return handler

    def kinds(self) -> Mapping[str, ActionHandler]:
        """Return all kinds by name."""
        return self._handlers


def near(name: str, names: Mapping[str, object]) -> str:
    """Return the end of a message that names the nearest of `names`, or nothing."""
    found = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
