"""Tools: functions that agents, and the models of agents, call by name.

`@tool("orders.lookup")` turns a function into a tool. Its JSON Schema comes from its signature and its docstring. A
tool is named `module.tool`; models see `module__tool`, because some endpoints accept no dots in names.

Where a tool runs is a property of it. A plain function runs in the core, so its result must depend on its arguments and
on the world only. An `async` function runs outside the simulation, and each call is an effect: it is recorded and can
be replayed. A call as a process of its own is an effect as well.
"""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import attrs

from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.events.coerce import mapping
from sim.kernel import Duration, Effect, to_ns
from sim.kernel.codec import Json, JsonObject
from sim.kernel.effects import Safety
from sim.tools.schema import OPEN, signature_of
from sim.world.json_schema import schema_fault

Runs = Literal["core", "effect", "process"]
"""Where a tool runs: inside the simulation, outside as an effect, or outside in a process of its own."""

NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}(\.[A-Za-z][A-Za-z0-9_-]{0,31})?")

MEANINGS: Final[Mapping[str, str]] = MappingProxyType({
    "world": "world", "agent": "agent", "user": "user", "platform": "platform", "channel": "channel",
    "thread": "thread", "conversation": "conversation", "user_id": "user", "platform_channel_id": "channel",
    "platform_thread_id": "thread", "conversation_id": "conversation",
})  # fmt: skip
"""The names under which a tool can be given what the runtime knows of a call, and what each means."""

CONTEXT: Final = tuple(MEANINGS)
"""These names. What the runtime knows replaces what a model sent under them."""

_OF_PLACE: Final = ("platform", "channel", "thread", "platform_channel_id", "platform_thread_id")


def injected(name: str) -> tuple[str, ...]:
    """Return the parameters of a tool of this name that the runtime fills in by itself.

    `user_id` of every tool; where the conversation is, for the modules `scheduler` and `location`; the conversation for
    `scheduler.add_job`.
    """
    place = _OF_PLACE if name.startswith(("scheduler.", "location.")) else ()
    return ("user_id", *place, *(("conversation", "conversation_id") if name == "scheduler.add_job" else ()))


def without_injected(name: str, parameters: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return a JSON Schema without the parameters that the runtime fills in, and the names of these.

    Args:
        name: the name of the tool.
        parameters: the schema of an object.
    """
    properties = mapping(parameters.get("properties"))
    filled_in = tuple(key for key in injected(name) if key in properties)
    return hidden(parameters, filled_in), filled_in


def required_of(parameters: JsonObject) -> Sequence[str]:
    """Return the names of the properties that a JSON Schema of an object requires."""
    required = parameters.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list | tuple) else ()


def hidden(parameters: JsonObject, names: Collection[str]) -> JsonObject:
    """Return a JSON Schema without some of its properties."""
    if not names:
        return parameters
    left = {key: value for key, value in mapping(parameters.get("properties")).items() if key not in names}
    required = [key for key in required_of(parameters) if key not in names]
    return {**parameters, "properties": left, "required": required}


@attrs.frozen
class Tool:
    """A tool.

    Args:
        name: the name, as `module.tool` or one word.
        call: called with the arguments as one mapping; returns JSON-like data. `tool` makes it of a function with named
            parameters. It can be async; then, and with `runs` other than `core`, it is called outside the simulation.
        description: what it does, for the model.
        parameters: the JSON Schema of the arguments, of the type object.
        given: names in `CONTEXT` that `call` gets from the runtime, never from the model. `world` and `agent` are
            objects, so only tools in the core can have them.
        dropped: names in `CONTEXT` that are dropped from what a caller sent, in addition to those in `given`; None: all
            that `parameters` does not declare.
        runs: where it runs; by default in the core, or as an effect if `call` is async.
        permission: the lowest level of trust of everyone on whose behalf it is called.
        safety: whether a call outside can be repeated after a crash or a failure; `unsafe` is never repeated.
        retries: how often a call outside that failed is repeated; only `pure` and `idempotent` ones are.
        latency: the simulated duration of a call outside; None: the measured real duration.
        timeout: real seconds after which a call outside fails.
        deadline: simulated time after which a call outside fails.
        operation: the parameter that says what kind of call it is, such as `op`; rules of access can tell such kinds
            apart.
        action: the kind of action that the tool executes, for tools that offer an action of the world.

    Raises:
        UsageError: if the name, the parameters or a combination is not valid.
    """

    name: str
    call: Callable[[Mapping[str, Any]], Any]
    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(default=OPEN)
    given: tuple[str, ...] = ()
    dropped: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)
    runs: Runs = attrs.field()
    permission: Permission = Permission.USER
    safety: Safety = "unsafe"
    retries: int = 0
    latency: Duration | None = None
    timeout: float = 120.0
    deadline: Duration = "1h"
    operation: str | None = None
    action: str | None = None
    defaults: JsonObject = attrs.field(factory=dict)

    @runs.default
    def _runs(self) -> Runs:
        return "effect" if is_async(self.call) else "core"

    def __attrs_post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise UsageError(f"{self.name[:80]!r} is not the name of a tool", hint="write module.tool or one word")
        if self.runs not in get_args(Runs):
            raise UsageError(f"{self.name}: runs is one of {', '.join(get_args(Runs))}, not {self.runs!r}")
        fault = schema_fault(self.parameters)
        if fault is not None:
            raise UsageError(f"{self.name}: the parameters are no JSON Schema: {fault[1]}")
        unknown = sorted(set(self.given) - set(CONTEXT))
        if unknown:
            raise UsageError(f"{self.name}: the runtime gives {', '.join(CONTEXT)}, not {unknown[0]!r}")
        if self.runs != "core" and {"world", "agent"} & set(self.given):
            raise UsageError(f"{self.name} runs outside the simulation, so it cannot be given the world or the agent")
        if self.operation in self.given:
            raise UsageError(f"{self.name}: the runtime gives {self.operation!r}, so it cannot be the operation")
        if self.retries and self.safety == "unsafe":
            raise UsageError(
                f"{self.name} is unsafe, so a failed call must not be repeated",
                hint="declare safety='pure' or 'idempotent', or retries=0",
            )

    @property
    def module(self) -> str:
        """The part of the name before the dot; the whole name if it has none."""
        return self.name.partition(".")[0]

    @property
    def wire_name(self) -> str:
        """The name that models see."""
        return wire_name(self.name)

    def sent(self, arguments: JsonObject) -> dict[str, Json]:
        """Return what a caller sent, without what only the runtime can say: for whom and where the call is made.

        It is dropped and not refused, because models repeat what they read. It never reaches the tool.
        """
        own = mapping(self.parameters.get("properties"))
        dropped = [name for name in CONTEXT if name not in own] if self.dropped is None else self.dropped
        return {key: value for key, value in arguments.items() if key not in self.given and key not in dropped}

    @property
    def operation_schema(self) -> JsonObject:
        """The JSON Schema of the parameter that names the operation; empty if there is none."""
        return mapping(mapping(self.parameters.get("properties")).get(self.operation or ""))

    def operation_of(self, arguments: JsonObject) -> str | None:
        """Return the operation of a call: the one that will run, so an omitted one is the default of the parameter.

        It is empty if there is none, and None if what was sent is no text, which no rule could be about.
        """
        if self.operation is None:
            return ""
        default = self.operation_schema.get("default")
        sent = arguments.get(self.operation, "" if default is None else default)
        return sent if isinstance(sent, str) else None

    def canonical(self, arguments: JsonObject) -> dict[str, Json]:
        """Return the arguments of a call in one form, so that two calls that are the same call have the same form.

        Defaults are filled in, null is as if it were missing, what the runtime gives is left out, and 1.0 is 1.
        """
        sent = {name: value for name, value in arguments.items() if value is not None and name not in self.given}
        form = canonical({**self.defaults, **sent}, self.parameters, self.parameters)
        return dict(form)

    def effect(self, arguments: JsonObject) -> Effect:
        """Return the effect of a call with these arguments.

        Raises:
            UsageError: if a duration or the safety of this tool is not valid.
        """
        return Effect(
            f"tool.{self.name}",
            arguments,
            lambda request, key: self.call(request),
            latency_ns=None if self.latency is None else to_ns(self.latency),
            deadline_ns=to_ns(self.deadline),
            timeout=self.timeout,
            safety=self.safety,
        )


def wire_name(name: str) -> str:
    """Return the name of a tool as models see it."""
    return name.replace(".", "__")


def canonical(value: Any, schema: Any, whole: JsonObject) -> Any:
    """Return a value in one form: objects with the defaults of their schema and without null, whole numbers as such.

    Args:
        value: the value.
        schema: its JSON Schema; what is no schema says nothing.
        whole: the schema to whose `$defs` it can refer.
    """
    form = _form(schema, whole)
    if isinstance(value, Mapping):
        parts = form.get("properties", {})
        open_ones = {name: part for name, part in parts.items() if isinstance(part, Mapping)}
        members = {name: part["default"] for name, part in open_ones.items() if "default" in part}
        members |= {name: part for name, part in value.items() if part is not None}
        return {name: canonical(part, parts.get(name), whole) for name, part in members.items() if part is not None}
    if isinstance(value, list | tuple):
        return [canonical(part, form.get("items"), whole) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _form(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one form of a schema that describes the parts of a value; empty if there is none, or several."""
    for _ in range(_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            schema = whole.get("$defs", {}).get(str(schema["$ref"]).removeprefix("#/$defs/"))
            continue
        others = [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())]
        described = [one for one in others if isinstance(one, Mapping) and {"$ref", "properties", "items"} & one.keys()]
        if {"properties", "items"} & schema.keys() or len(described) != 1:
            return schema
        schema = described[0]
    return {}


_REFERENCES: Final = 20  # the most references from one schema to the next


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call of a function returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - it can be an object with an async `__call__`
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def tool(name: str, **options: Any) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function with named parameters.

    The types of its parameters and its docstring give the JSON Schema. A parameter whose type is `Given[...]` is filled
    in by the runtime; see `CONTEXT`. So is one that `injected` names, such as `user_id`.

    Args:
        name: the name of the tool.
        options: further attributes of `Tool`.

    Raises:
        UsageError: if the docstring or a type is missing, or an attribute is not valid.
    """

    def make(function: Callable[..., Any]) -> Tool:
        signature = signature_of(function, name, injected(name))
        if is_async(function):

            async def call(arguments: JsonObject) -> Any:
                return await function(**arguments)

            return Tool(name, call, signature.description, signature.parameters, signature.given, **options)
        return Tool(
            name,
            lambda arguments: function(**arguments),
            signature.description,
            signature.parameters,
            signature.given,
            **options,
        )

    return make
