"""Actions: the only interface through which agents change the world.

`Action(kind, arguments, reasoning)` → check (schema, permission, costs) → apply, in one step with no await → event →
`ActionResult(success, data | error)`. A refused action changes nothing, and its result has the reason.

A function with `@action` defines a kind of action. The function applies the action. The types and the docstring of its
parameters define the arguments that a rule of a scenario can give. The model of a rule, its JSON Schema and its error
messages are derived from this function. The built-in kinds are in the package `actions`.
"""

import difflib
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import attrs

from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.base.registry import Registry
from sim.base.words import ACTIONS
from sim.kernel.codec import JsonObject, Record
from sim.world.section import described

_NO_ARGUMENTS: JsonObject = {}


class Refused(Exception):
    """Raised by a handler, before it has changed anything, to refuse an action.

    Args:
        why: the reason, for the agent and the record.
        skip: whether the refusal does not count as a failure of the agent, for example because a limit has the policy
            `skip`.
    """

    def __init__(self, why: str, *, skip: bool = False) -> None:
        super().__init__(why)
        self.skip = skip


class Action(Record, frozen=True):
    """An action that an agent wants to do.

    Args:
        kind: the kind of action, for example `write`.
        arguments: the arguments of the handler, JSON-like.
        reasoning: the reason of the agent, for the record.
    """

    kind: str
    arguments: Mapping[str, Any] = _NO_ARGUMENTS
    reasoning: str = ""


class ActionResult(Record, frozen=True):
    """The result of an action.

    Attributes:
        success: whether the action was applied.
        data: the data that the handler returned.
        error: the reason for a refusal, or None.
        skipped: whether the refusal does not count as a failure of the agent; see `Refused`.
    """

    success: bool
    data: Any = None
    error: str | None = None
    skipped: bool = False


NOOP = Action("noop")
DONE = ActionResult(True)

ANY = (object,)
"""The types of an argument that can be anything."""
_TYPES: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    dict: (dict,),
    list: (list, tuple),
}


Sharing = Literal["own", "space", "shared"]

Meaning = Literal[
    "account", "answer schema", "artifact", "audience", "conditions", "entry", "event filter", "extra body", "formula",
    "flag", "history", "item filter", "limit", "mapping", "new artifact", "number", "pattern", "place", "recipient",
    "slots", "stock", "text", "tier", "time", "tools", "topic", "true", "value", "whole number",
]  # fmt: skip
"""The meaning of an argument in a scenario file: it decides which values and which references are valid."""


@attrs.frozen
class Means:
    """Gives the meaning of an argument, in an annotation such as `Annotated[str, Means("artifact")]`."""

    meaning: Meaning


Account = Annotated[str, Means("account")]
ArtifactId = Annotated[str, Means("artifact")]
Audience = Annotated[Any, Means("audience")]
Formula = Annotated[str, Means("formula")]
NewArtifactId = Annotated[str, Means("new artifact")]
ItemFilter = Annotated[Any, Means("item filter")]
Pattern = Annotated[Any, Means("pattern")]
PlaceName = Annotated[Any, Means("place")]
Recipient = Annotated[str, Means("recipient")]
SlotPool = Annotated[str, Means("slots")]
StockPool = Annotated[str, Means("stock")]
Time = Annotated[Any, Means("time")]
Topic = Annotated[str, Means("topic")]
Values = Annotated[Any, Means("mapping")]

_MEANS: Final[dict[Any, Meaning]] = {
    Any: "value",
    bool: "flag",
    dict: "mapping",
    float: "number",
    int: "whole number",
    str: "text",
    str | None: "text",
}


@attrs.frozen
class Argument:
    """An argument of an action or of a wake condition.

    Attributes:
        name: its name.
        meaning: its meaning in a scenario file.
        description: one sentence, from the docstring.
        required: whether it must be given.
        types: the Python types of its values.
    """

    name: str
    meaning: Meaning
    description: str
    required: bool
    types: tuple[type, ...] = ANY


@attrs.frozen
class ActionHandler:
    """The definition of one kind of action. `@action` creates it.

    Args:
        kind: the name of the kind.
        apply: called with (world, agent, **arguments); changes the world and returns JSON-like data, or raises
            `Refused` before it has changed anything. Its signature is the schema of the arguments.
        permission: the minimum permission of an agent for this action.
        wait: for kinds that take time or wait in a line: awaited first, with the same arguments. `apply` gets its
            result as a third positional argument, `granted`.
        ready: called before `wait`, with the same arguments, which saves a coroutine: it returns what `wait` would
            return if there is nothing to wait for, and `NOTHING` if there is. It raises `Refused` as `wait` does.
        undo: reverses `wait` if the action is refused afterwards.
        ends: whether the wait is certain to end. A wait for something that other agents hold can last for ever; a stop
            of the agent cancels such a wait.
        scope: the data that it reads and changes: data of its agent (`own`), also data near it in space (`space`), or
            any data (`shared`). An agent that runs ahead of others can only use `own` and `space`.
        either: arguments of which a rule gives exactly one; argument → when to use it.
        last: whether it must be the last action of an iteration.
        idle: whether it only lets time pass, so that its success does not end a series of failures.
        awaits_work: whether it waits for work that may never come, so an endless wait does not count as a deadlock.
        draws: whether its code draws random numbers, beside what language models and parts of the scenario draw for it,
            which say it themselves; None: not said, so it is not known. Each action of `sim` says it.
    """

    kind: str
    apply: Callable[..., Any]
    permission: Permission = Permission.USER
    wait: Callable[..., Awaitable[Any]] | None = None
    ready: Callable[..., Any] | None = None
    undo: Callable[..., None] | None = None
    ends: bool = False
    scope: Sharing = "shared"
    either: Mapping[str, str] = attrs.field(factory=dict)
    last: bool = False
    idle: bool = False
    awaits_work: bool = False
    draws: bool | None = None
    creates: tuple[str, ...] = attrs.field(init=False)
    """The arguments that name an artifact which the action can create."""
    allowed: Mapping[str, tuple[type, ...]] = attrs.field(init=False)
    required: tuple[str, ...] = attrs.field(init=False)
    topic: str = attrs.field(init=False)
    """The topic of its events, computed once so that the many events share one string."""

    @creates.default
    def _creates(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._parameters() if _meaning(p.annotation) == "new artifact")

    @allowed.default
    def _allowed(self) -> Mapping[str, tuple[type, ...]]:
        return {p.name: _TYPES.get(_bare(p.annotation), ANY) for p in self._parameters()}

    @required.default
    def _required(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._parameters() if p.default is inspect.Parameter.empty)

    @topic.default
    def _topic(self) -> str:
        return f"action.{self.kind}"

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.apply).parameters.values())[2 if self.wait is None else 3 :]

    @property
    def defaults(self) -> JsonObject:
        """The values of the arguments that can be left out."""
        return {p.name: p.default for p in self._parameters() if p.default is not inspect.Parameter.empty}

    @property
    def summary(self) -> str:
        """The summary of the action, in one sentence, from the docstring."""
        return (inspect.getdoc(self.apply) or "").split("\n\n", 1)[0].replace("\n", " ")

    def arguments(self) -> tuple[Argument, ...]:
        """Return the arguments that rules can give.

        Raises:
            UsageError: if an argument has no description, or its annotation has no meaning in a scenario.
        """
        descriptions = described(self.apply)
        arguments = []
        for parameter in self._parameters():
            name, meaning = parameter.name, _meaning(parameter.annotation)
            if meaning is None:
                raise UsageError(
                    f"the argument {name!r} of the action {self.kind!r} is annotated with {parameter.annotation!r:.80},"
                    " which has no meaning in a scenario",
                    hint="use a plain type, or Annotated[..., Means(...)] as in sim.world.action",
                )
            if not descriptions.get(name):
                raise UsageError(
                    f"the argument {name!r} of the action {self.kind!r} has no description",
                    hint="add it under `Args:` in the docstring of the function",
                )
            required = parameter.default is inspect.Parameter.empty
            arguments.append(Argument(name, meaning, descriptions[name], required, self.allowed[name]))
        return tuple(arguments)

    def forbidden(self) -> Refused:
        """Return the error for an agent whose permission is too low."""
        return Refused(f"{self.kind} needs the permission {self.permission.name.lower()}")

    def check(self, arguments: JsonObject, /) -> None:
        """Check arguments against the schema.

        Raises:
            Refused: if an argument is unknown, missing or of the wrong type; the message names it.
        """
        allowed = self.allowed
        for name, value in arguments.items():
            types = allowed.get(name)
            if types is None:
                raise Refused(f"{self.kind} has no argument {name!r}{near(name, self.allowed)}")
            if types is ANY or value.__class__ in types:
                continue
            if not isinstance(value, types) or value.__class__ is bool:
                raise Refused(f"{self.kind}: {name} must be {types[-1].__name__}, not {type(value).__name__}")
        for name in self.required:
            if name not in arguments:
                raise Refused(f"{self.kind} needs the argument {name!r}")


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _meaning(annotation: Any) -> Meaning | None:
    for part in get_args(annotation) if get_origin(annotation) is Annotated else ():
        if isinstance(part, Means):
            return part.meaning if part.meaning in get_args(Meaning) else None
    return _MEANS.get(_bare(annotation))


DEFINED: Final[Registry[ActionHandler]] = Registry("actions", ACTIONS)
"""All kinds of action that are defined with `@action`, by name. Rules of a scenario can use them."""

BUILT_IN: Final[Registry[ActionHandler]] = Registry("actions of all worlds", {}, ACTIONS)
"""The kinds of action that every world has, by name."""


def action(
    kind: str,
    *,
    permission: Permission = Permission.USER,
    wait: Callable[..., Awaitable[Any]] | None = None,
    ready: Callable[..., Any] | None = None,
    undo: Callable[..., None] | None = None,
    ends: bool = False,
    scope: Sharing = "shared",
    either: Mapping[str, str] | None = None,
    last: bool = False,
    idle: bool = False,
    awaits_work: bool = False,
    draws: bool | None = None,
    everywhere: bool = True,
) -> Callable[[Callable[..., Any]], ActionHandler]:
    """Define a kind of action by the function that applies it.

    Args:
        kind, permission, wait, ready, undo, ends, scope, either, last, idle, awaits_work, draws: see
            `ActionHandler`.
        everywhere: whether every world has this kind; if not, register it with `World.actions.register`.

    Returns:
        A decorator that turns the function into an `ActionHandler`.

    Raises:
        UsageError: if the kind is already defined, the docstring is missing or does not match the arguments, an
            annotation has no meaning in a scenario, or the signature, `scope`, `either` or `wait` is invalid.
    """

    def define(function: Callable[..., Any]) -> ActionHandler:
        handler = ActionHandler(
            kind=kind,
            apply=function,
            permission=permission,
            wait=wait,
            ready=ready,
            undo=undo,
            ends=ends,
            scope=scope,
            either=either or {},
            last=last,
            idle=idle,
            awaits_work=awaits_work,
            draws=draws,
        )
        if not DEFINED.is_free(kind, function.__module__):
            raise UsageError(f"the action {kind!r} is already defined")
        if not handler.summary:
            raise UsageError(f"the action {kind!r} has no docstring", hint="describe it in the first line of one")
        _check_definition(handler)
        DEFINED[kind] = handler
        if everywhere:
            BUILT_IN[kind] = handler
        return handler

    return define


def _check_definition(handler: ActionHandler) -> None:
    """Check a definition when it is made, so that errors do not appear later in a scenario.

    Raises:
        UsageError: if a part is missing or invalid; the message names it.
    """
    kind, function = handler.kind, handler.apply
    parameters = list(inspect.signature(function).parameters.values())
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"the function of the action {kind!r} must not be async: it is applied in one step",
            hint="move the part that awaits to a function that is passed as `wait`",
        )
    leading = 2 if handler.wait is None else 3
    if len(parameters) < leading:
        first = "(world, agent)" if leading == 2 else "(world, agent, granted)"
        raise UsageError(f"the function of the action {kind!r} must begin with the parameters {first}")
    for parameter in parameters[leading:]:
        if parameter.kind not in _BY_NAME or parameter.name.startswith("_"):
            raise UsageError(
                f"the parameter {str(parameter)!r} of the action {kind!r} cannot be a named argument",
                hint="use a plain parameter whose name does not begin with an underscore",
            )
    if handler.scope not in get_args(Sharing):
        raise UsageError(
            f"the scope of the action {kind!r} must be one of {', '.join(get_args(Sharing))}, not {handler.scope!r}"
        )
    names = [argument.name for argument in handler.arguments()]
    for where, mentioned in (("docstring", described(function)), ("`either`", handler.either)):
        for name in mentioned:
            if name not in names:
                raise UsageError(
                    f"the {where} of the action {kind!r} names {name!r}, which is not one of its arguments"
                )
    for what, before in (("wait", handler.wait), ("ready", handler.ready)):
        if before is not None and not _takes(before, names):
            raise UsageError(f"the {what} of the action {kind!r} must take the same arguments: {', '.join(names)}")
    if handler.wait is None and handler.ready is not None:
        raise UsageError(f"the action {kind!r} has `ready`, which goes before `wait`, but no `wait`")


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _takes(wait: Callable[..., Any], names: list[str]) -> bool:
    parameters = inspect.signature(wait).parameters.values()
    free = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    taken = {parameter.name for parameter in parameters}
    return free or taken.issuperset(names)


class ActionRegistry:
    """The kinds of action that agents of one world can use."""

    def __init__(self) -> None:
        self._handlers: dict[str, ActionHandler] = {}
        self.find = self._handlers.get  # returns the handler of a kind or None; twice as fast as a method

    def register(self, handler: ActionHandler) -> None:
        """Add a kind of action.

        Raises:
            UsageError: if a kind of this name is already registered.
        """
        if handler.kind in self._handlers:
            raise UsageError(f"the action kind {handler.kind!r} is already registered")
        self._handlers[handler.kind] = handler

    def add(self, *handlers: ActionHandler) -> None:
        """Add kinds of action, but for those that it has already: a section and a kind of agents can share some.

        Raises:
            UsageError: if another kind of one of these names is registered.
        """
        for handler in handlers:
            if self._handlers.get(handler.kind) is not handler:
                self.register(handler)

    def replace(self, handler: ActionHandler) -> None:
        """Use another handler for a kind that is registered, from now on.

        Raises:
            KeyError: if the kind is not registered.
        """
        self._handlers[handler.kind]
        self._handlers[handler.kind] = handler

    def get(self, kind: str) -> ActionHandler:
        """Return the handler of a kind.

        Raises:
            Refused: if the kind is not registered; the message suggests the nearest name.
        """
        handler = self._handlers.get(kind)
        if handler is None:
            raise Refused(f"there is no action kind {kind!r}{near(kind, self._handlers)}")
        return handler

    def kinds(self) -> Mapping[str, ActionHandler]:
        """Return all kinds by name."""
        return self._handlers


def near(name: str, names: Iterable[str]) -> str:
    """Return a suggestion with the nearest of `names`, to append to an error message; empty if none is near."""
    matches = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
