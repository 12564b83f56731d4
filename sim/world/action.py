"""Actions: the narrow waist through which agents change the world.

`Action(kind, arguments, reasoning)` → check (schema, permission, costs) → apply, in one step with no await → event →
`ActionResult(success, data | error)`. A refused action changes nothing and says why.

A kind of action is said once, by a function with `@action`: what it does, who may do it, and, by the types and the
docstring of its parameters, what a rule of a scenario may give it. The model of a rule, its JSON Schema and its errors
are derived from that. The built-in kinds are in the package `actions`.
"""

import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin

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

Meaning = Literal[
    "account", "answer schema", "artifact", "audience", "conditions", "entry", "event filter", "extra body", "formula",
    "flag", "history", "item filter", "limit", "mapping", "new artifact", "number", "pattern", "place", "recipient",
    "slots", "stock", "text", "tier", "time", "tools", "topic", "true", "value", "whole number",
]  # fmt: skip
"""What an argument is in a scenario file: which literal values it takes, and to what in the file it may refer."""


@attrs.frozen
class Means:
    """Says in an annotation, `Annotated[str, Means("artifact")]`, what an argument is in a scenario file."""

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
    Any: "value", bool: "flag", dict: "mapping", float: "number", int: "whole number", str: "text",
    str | None: "text",
}  # fmt: skip


@attrs.frozen
class Argument:
    """An argument of an action, or of a wake condition.

    Attributes:
        name: its name.
        meaning: what it is in a scenario file.
        description: one sentence, from the docstring.
        required: whether it must be given.
        types: the types of its values in Python.
    """

    name: str
    meaning: Meaning
    description: str
    required: bool
    types: tuple[type, ...] = _ANY


@attrs.frozen
class ActionHandler:
    """How one kind of action is done. `@action` makes it.

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
        either: arguments of which a rule gives exactly one, and for what it is given.
        last: nothing may follow it in an iteration.
        idle: it only lets time pass, so that its success does not end a series of failures.
        awaits_work: it waits for work that may never come, so that waiting forever is no deadlock.
    """

    kind: str
    apply: Callable[..., Any]
    permission: Permission = Permission.USER
    wait: Callable[..., Awaitable[Any]] | None = None
    undo: Callable[..., None] | None = None
    ends: bool = False
    scope: Sharing = "shared"
    either: Mapping[str, str] = attrs.field(factory=dict)
    last: bool = False
    idle: bool = False
    awaits_work: bool = False
    creates: tuple[str, ...] = attrs.field(init=False)
    """The arguments that name an artifact which it may create."""
    allowed: Mapping[str, tuple[type, ...]] = attrs.field(init=False)
    required: tuple[str, ...] = attrs.field(init=False)
    topic: str = attrs.field(init=False)
    """Under which it is recorded: made once, for each of the many events would keep a text of its own."""

    @creates.default
    def _creates(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._parameters() if _meaning(p.annotation) == "new artifact")

    @allowed.default
    def _allowed(self) -> Mapping[str, tuple[type, ...]]:
        return {p.name: _TYPES.get(_bare(p.annotation), _ANY) for p in self._parameters()}

    @required.default
    def _required(self) -> tuple[str, ...]:
        return tuple(p.name for p in self._parameters() if p.default is inspect.Parameter.empty)

    @topic.default
    def _topic(self) -> str:
        return f"action.{self.kind}"

    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.apply).parameters.values())[2 if self.wait is None else 3 :]

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return (inspect.getdoc(self.apply) or "").split("\n\n", 1)[0].replace("\n", " ")

    def arguments(self) -> tuple[Argument, ...]:
        """Return its arguments, as rules may give them.

        Raises:
            UsageError: if one has no description, or an annotation that means nothing in a scenario.
        """
        described = _described(self.apply)
        found = []
        for parameter in self._parameters():
            name, meaning = parameter.name, _meaning(parameter.annotation)
            if meaning is None:
                raise UsageError(
                    f"the argument {name!r} of the action {self.kind!r} is annotated with {parameter.annotation!r:.80},"
                    " which has no meaning in a scenario",
                    hint="use a plain type, or Annotated[..., Means(...)] as in sim.world.action",
                )
            if not described.get(name):
                raise UsageError(
                    f"the argument {name!r} of the action {self.kind!r} has no description",
                    hint="add it under `Args:` in the docstring of the function",
                )
            required = parameter.default is inspect.Parameter.empty
            found.append(Argument(name, meaning, described[name], required, self.allowed[name]))
        return tuple(found)

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


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _meaning(annotation: Any) -> Meaning | None:
    for part in get_args(annotation) if get_origin(annotation) is Annotated else ():
        if isinstance(part, Means):
            return part.meaning if part.meaning in get_args(Meaning) else None
    return _MEANS.get(_bare(annotation))


def _described(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of parameters in a docstring."""
    section = (inspect.getdoc(function) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for name, text in entries}


DEFINED: Final[dict[str, ActionHandler]] = {}
"""All kinds of action that have been defined with `@action`, by name: rules of a scenario may use them."""

BUILT_IN: Final[dict[str, ActionHandler]] = {}
"""Those of them that every world has."""


def action(
    kind: str,
    *,
    permission: Permission = Permission.USER,
    wait: Callable[..., Awaitable[Any]] | None = None,
    undo: Callable[..., None] | None = None,
    ends: bool = False,
    scope: Sharing = "shared",
    either: Mapping[str, str] | None = None,
    last: bool = False,
    idle: bool = False,
    awaits_work: bool = False,
    everywhere: bool = True,
) -> Callable[[Callable[..., Any]], ActionHandler]:
    """Define a kind of action by the function that does it.

    Args:
        kind, permission, wait, undo, ends, scope, either, last, idle, awaits_work: see `ActionHandler`.
        everywhere: whether every world has it; else whoever makes it possible registers it.

    Returns:
        A decorator that turns the function into its `ActionHandler`.

    Raises:
        UsageError: if the kind is defined already, its docstring is missing, lacks an argument or names another one, an
            annotation means nothing in a scenario, or the signature, `scope`, `either` or `wait` does not fit.
    """

    def define(function: Callable[..., Any]) -> ActionHandler:
        handler = ActionHandler(
            kind, function, permission, wait, undo, ends, scope, either or {}, last, idle, awaits_work
        )
        if kind in DEFINED:
            raise UsageError(f"the action {kind!r} is defined already")
        if not handler.summary:
            raise UsageError(f"the action {kind!r} has no docstring", hint="say in its first line what it does")
        _check_definition(handler)
        DEFINED[kind] = handler
        if everywhere:
            BUILT_IN[kind] = handler
        return handler

    return define


def _check_definition(handler: ActionHandler) -> None:
    """Refuse a definition of which a part is missing or wrong, so that no scenario meets it later.

    Raises:
        UsageError: naming the part.
    """
    kind, function = handler.kind, handler.apply
    parameters = list(inspect.signature(function).parameters.values())
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"the action {kind!r} must not be async: it is applied in one step", hint="await in its `wait`"
        )
    leading = 2 if handler.wait is None else 3
    if len(parameters) < leading:
        first = "(world, agent)" if leading == 2 else "(world, agent, granted)"
        raise UsageError(f"the function of the action {kind!r} must begin with the parameters {first}")
    for parameter in parameters[leading:]:
        if parameter.kind not in _BY_NAME or parameter.name.startswith("_"):
            raise UsageError(f"the parameter {str(parameter)!r} of the action {kind!r} cannot be given by its name")
    if handler.scope not in get_args(Sharing):
        raise UsageError(f"the scope of the action {kind!r} is one of {', '.join(get_args(Sharing))}")
    names = [argument.name for argument in handler.arguments()]
    for where, given in (("docstring", _described(function)), ("`either`", handler.either)):
        for name in given:
            if name not in names:
                raise UsageError(f"the {where} of the action {kind!r} names {name!r}, which is no argument of it")
    if handler.wait is not None and not _takes(handler.wait, names):
        raise UsageError(f"the wait of the action {kind!r} must take the same arguments: {', '.join(names)}")


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _takes(wait: Callable[..., Any], names: list[str]) -> bool:
    parameters = inspect.signature(wait).parameters.values()
    free = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
    taken = {parameter.name for parameter in parameters}
    return free or taken.issuperset(names)


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
