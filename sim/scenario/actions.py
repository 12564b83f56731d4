"""What a rule may do: one model per kind of action, and the records that they become."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo, model_validator

from sim.expressions import Expression, did_you_mean
from sim.scenario import fields as f
from sim.scenario.units import FieldError, shown
from sim.scenario.values import Filter, ValueTemplate
from sim.scenario.yaml_tree import Map

SleepKind = Literal["time", "until", "event", "resource", "message", "any", "all"]


@attrs.frozen
class SleepSpec:
    """What an agent sleeps for.

    Attributes:
        kind: what ends the sleep.
        time: `time`: how long; `until`: the moment. Seconds or duration text when evaluated, else None.
        pattern: `event`: the topics, as text when evaluated.
        where: `event`: which events of these topics, or None for all.
        resource: `resource`: its name.
        at_least: `resource`: how much of it must be left.
        parts: `any` and `all`: the conditions.
        timeout: after how long the sleep ends anyway (seconds or duration text), or None.
    """

    kind: SleepKind
    time: ValueTemplate | None = None
    pattern: ValueTemplate | None = None
    where: Expression | None = None
    resource: str | None = None
    at_least: ValueTemplate | None = None
    parts: "tuple[SleepSpec, ...]" = ()
    timeout: ValueTemplate | None = None


@attrs.frozen
class Do:
    """One action of a rule.

    Attributes:
        kind: which action.
        arguments: its arguments as given; absent ones are not in it. Empty for `sleep`.
        sleep: what to sleep for, only for `sleep`.
    """

    kind: str
    arguments: Mapping[str, ValueTemplate] = attrs.field(factory=dict)
    sleep: SleepSpec | None = None


class _Noop(f.Part):
    """Do nothing."""


class _Stop(f.Part):
    """Stop this agent."""


class _Send(f.Part):
    """Send a message to an agent, or to every member of a group."""

    to: f.RecipientValue
    data: f.Value | None = None
    topic: f.TextValue | None = None
    after: Annotated[f.TimeValue | None, Field(description="how long until it arrives")] = None


class _Publish(f.Part):
    """Publish an event."""

    topic: f.TopicValue
    data: f.Value | None = None


class _Transfer(f.Part):
    """Pay from the own account to another."""

    to: f.AccountValue
    amount: f.NumberValue


class _Read(f.Part):
    """Read an artifact."""

    artifact: f.ArtifactValue


class _Write(f.Part):
    """Create an artifact or replace its content."""

    artifact: f.TextValue
    content: f.Value
    readers: f.AudienceValue | None = None
    writers: f.AudienceValue | None = None
    price: f.NumberValue | None = None
    formula: f.FormulaValue | None = None


class _Edit(f.Part):
    """Replace one piece of text in an artifact."""

    artifact: f.ArtifactValue
    old: f.TextValue
    new: f.TextValue


class _Delete(f.Part):
    """Delete an artifact."""

    artifact: f.ArtifactValue


class _Invoke(f.Part):
    """Compute the formula of an artifact and pay its price."""

    artifact: f.ArtifactValue
    args: f.MappingValue | None = None


class _Move(f.Part):
    """Go to another place."""

    to: f.PlaceValue


class _Walk(f.Part):
    """Be somewhere in space, and show something, from the next step on."""

    to: Annotated[f.Value | None, Field(description="[x, y], or the name of a place; default: stay")] = None
    doing: f.TextValue | None = None
    met: Annotated[f.Value | None, Field(description="kept in the record")] = None


class _Rest(f.Part):
    """Do nothing before a moment, whatever happens; others can rely on it."""

    until: Annotated[f.TimeValue, Field(description="counted from the start of the run")]


class _UseTool(f.Part):
    """Call a tool."""

    tool: f.TextValue
    args: f.MappingValue | None = None


class _CreateTask(f.Part):
    """Create a task, for an agent or for whoever takes it."""

    title: f.TextValue
    to: f.RecipientValue | None = None
    data: f.Value | None = None


class _Spawn(f.Part):
    """Start copies of an entry in `agents`."""

    agent: f.EntryValue
    count: f.NumberValue | None = None
    state: f.MappingValue | None = None


class _Wait(f.Part):
    """When an action that waits gives up."""

    timeout: Annotated[f.TimeValue | None, Field(description="after how long to give up")] = None
    or_event: Annotated[f.PatternValue | None, Field(description="topics of events at which to give up")] = None


class _Acquire(_Wait):
    """Take slots of a pool, waiting for them if need be."""

    pool: f.SlotsValue
    amount: f.NumberValue | None = None
    priority: f.NumberValue | None = None
    preempt: Annotated[f.Value | None, Field(description="preemptive pools: whether it may take a slot away")] = None


class _Release(f.Part):
    """Give slots of a pool back."""

    pool: f.SlotsValue
    amount: f.NumberValue | None = None


class _Put(_Wait):
    """Put an item into a store, or an amount into a container."""

    pool: f.StockValue
    item: f.Value | None = None
    amount: f.NumberValue | None = None

    @model_validator(mode="after")
    def _one(self) -> "_Put":
        if (self.item is None) == (self.amount is None):
            raise FieldError("expected either item (for a store) or amount (for a container)")
        return self


class _Get(_Wait):
    """Take an item out of a store, or an amount out of a container."""

    pool: f.StockValue
    amount: f.NumberValue | None = None
    where: Annotated[f.ItemFilter | None, Field(description="which item of a store; it is called `item`")] = None


class _Ask(f.Part):
    """Ask a language model."""

    prompt: f.TextValue
    system: f.TextValue | None = None
    use: f.TextValue | None = None
    tier: f.TierValue | None = None
    tools: f.ToolsValue | None = None
    history: f.HistoryValue | None = None
    max_tokens: f.NumberValue | None = None
    temperature: f.NumberValue | None = None
    top_p: f.NumberValue | None = None
    seed: f.NumberValue | None = None
    stop: Annotated[f.Value | None, Field(description="texts before which the answer ends")] = None
    response_format: Annotated[f.SchemaValue | None, Field(description="a JSON Schema that the text must fit")] = None
    tool_choice: Annotated[f.TextValue | None, Field(description="auto, none, required or the name of a tool")] = None
    extra_body: Annotated[f.ExtraBodyValue | None, Field(description="further fields for the endpoint")] = None
    stream: Annotated[f.Value | None, Field(description="whether the endpoint sends the answer in parts")] = None


class _Sleep(f.Part):
    """Sleep until something happens; exactly one of for, until, event, resource, message, any, all."""

    for_: Annotated[f.TimeValue | None, Field(alias="for", description="how long")] = None
    until: Annotated[f.TimeValue | None, Field(description="a moment, counted from the start of the run")] = None
    event: Annotated[f.PatternValue | None, Field(description="topics, for instance rain.*")] = None
    where: Annotated[f.Where | None, Field(description="which of these events")] = None
    resource: Annotated[f.Limit | None, Field(description="a rate limit")] = None
    at_least: Annotated[f.NumberValue | None, Field(description="how much of it must be left")] = None
    message: Annotated[Literal[True] | None, Field(description="a message")] = None
    any: "Annotated[tuple[_Sleep, ...] | None, Field(strict=False, min_length=1)]" = None
    all: "Annotated[tuple[_Sleep, ...] | None, Field(strict=False, min_length=1)]" = None
    timeout: Annotated[f.TimeValue | None, Field(description="after how long to wake anyway")] = None

    @model_validator(mode="after")
    def _one(self) -> "_Sleep":
        heads = [name for name in _HEADS if getattr(self, name) is not None]
        if len(heads) != 1:
            found = " and ".join(name.rstrip("_") for name in heads) or "none"
            raise FieldError(f"expected exactly one of {', '.join(_HEADS.values())}, found {found}")
        if self.where is not None and self.event is None:
            raise FieldError("where goes together with event")
        if (self.at_least is None) != (self.resource is None):
            raise FieldError("resource and at_least go together")
        return self

    def spec(self) -> SleepSpec:
        """Return the condition as a record."""
        head = next(name for name in _HEADS if getattr(self, name) is not None)
        return SleepSpec(
            kind="time" if head == "for_" else head,  # type: ignore[arg-type]  # the other names are the kinds
            time=self.for_ or self.until,
            pattern=self.event,
            where=self.where,
            resource=self.resource,
            at_least=self.at_least,
            parts=tuple(part.spec() for part in self.any or self.all or ()),
            timeout=self.timeout,
        )


_HEADS = {name: name.rstrip("_") for name in ("for_", "until", "event", "resource", "message", "any", "all")}


class _Actions(f.Part):
    """One action: its kind and its arguments."""

    noop: _Noop | None = None
    send: _Send | None = None
    publish: _Publish | None = None
    transfer: _Transfer | None = None
    read: _Read | None = None
    write: _Write | None = None
    edit: _Edit | None = None
    delete: _Delete | None = None
    invoke: _Invoke | None = None
    move: _Move | None = None
    walk: _Walk | None = None
    use_tool: _UseTool | None = None
    create_task: _CreateTask | None = None
    spawn: _Spawn | None = None
    acquire: _Acquire | None = None
    release: _Release | None = None
    put: _Put | None = None
    get: _Get | None = None
    ask: _Ask | None = None
    stop: _Stop | None = None
    sleep: _Sleep | None = None
    rest: _Rest | None = None


KINDS = tuple(_Actions.model_fields)
"""Every kind of action, in the order of the documentation."""


def _spread(raw: Any) -> Any:
    """Return `noop` and `{stop: }` in the full form, with the position kept."""
    if isinstance(raw, str):
        return {action_kind(raw): {}}
    if not isinstance(raw, dict):
        raise FieldError(f"expected an action such as noop or {{send: ...}}, found {shown(raw)}")
    if len(raw) != 1:
        raise FieldError(f"expected one action, found {', '.join(map(str, raw)) or 'none'}")
    kind, arguments = next(iter(raw.items()))
    if arguments is None:
        return {kind: {}}
    if isinstance(raw, Map):
        raw.allowed = KINDS
    return raw


def _do(raw: Any, info: ValidationInfo) -> Do:
    actions = _Actions.model_validate(_spread(raw), context=info.context)
    kind = next(name for name in KINDS if getattr(actions, name) is not None)
    chosen = getattr(actions, kind)
    if isinstance(chosen, _Sleep):
        return Do(kind, {}, chosen.spec())
    given = ((name, getattr(chosen, name)) for name in type(chosen).model_fields)
    return Do(kind, {name: _value(value) for name, value in given if value is not None})


def _value(value: Any) -> Any:
    return Filter(value, frozenset({"item"})) if isinstance(value, Expression) else value


def action_kind(value: str) -> str:
    """Check the name of a kind of action; for validators."""
    if value not in KINDS:
        raise FieldError(f"there is no action {value[:80]!r}", did_you_mean(value, KINDS))
    return value


_One = Annotated[Do, PlainValidator(_do, json_schema_input_type=_Actions | Literal[KINDS])]


def _listed(raw: Any) -> Any:
    return raw if isinstance(raw, list | tuple) else [raw]


def _in_order(actions: tuple[Do, ...]) -> tuple[Do, ...]:
    for number, action in enumerate(actions[:-1]):
        if action.kind in _LAST:
            raise FieldError(f"{action.kind} must be the last action, and it is number {number + 1} of {len(actions)}")
    return actions


_LAST = ("sleep", "rest", "stop")
_MOST = 20

DoField = Annotated[
    tuple[_One, ...],
    Field(strict=False, min_length=1, max_length=_MOST),
    AfterValidator(_in_order),
    BeforeValidator(
        _listed, json_schema_input_type=_One | Annotated[list[_One], Field(min_length=1, max_length=_MOST)]
    ),
]
"""Actions in order, or one: `{kind: arguments}` or a bare kind in the file, `Do` in the model."""
