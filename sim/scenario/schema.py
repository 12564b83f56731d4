"""The models of a scenario file. Field names are the keys of the file; durations are whole nanoseconds."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue

from sim.actors.config import LEAST, MOST_MESSAGES, TICK_PERIOD, AgentLoopConfig
from sim.actors.health import ASLEEP_NS, LOCK_NS
from sim.actors.mailbox import MailboxPolicy, Unmatched
from sim.agents import FAMILIES, Family
from sim.base.errors import ScenarioError, UsageError
from sim.base.expressions import Expression
from sim.base.permissions import Permission
from sim.events.bus import MAX_DATA_BYTES
from sim.kernel.duration import MAX_NS, to_ns, to_text
from sim.kernel.levels import Level
from sim.kernel.order import MAX_DELTAS
from sim.record.files import PLACES, POPULATIONS, Mode
from sim.scenario import fields as f
from sim.scenario.actions import Do, DoField, action_kind
from sim.scenario.params import default_params, params_model, read_params
from sim.scenario.place_schema import Places
from sim.scenario.population import MAX_AGENTS, Population
from sim.scenario.populations import Column, read_column, record_of
from sim.scenario.schedule import Scheduled
from sim.scenario.scopes import Context
from sim.scenario.settings import late_model, model_schema, read_sections, read_settings, section_schema
from sim.scenario.units import (
    HOUR,
    MINUTE,
    FieldError,
    Nanoseconds,
    PositiveNanoseconds,
    RateField,
    wrong_as,
)
from sim.scenario.values import ValueTemplate
from sim.scenario.yaml_tree import Map, Mark, find_place
from sim.world.section import SECTIONS, check_params

if TYPE_CHECKING:
    from sim.scenario.interventions import Intervention
    from sim.scenario.models import Models
    from sim.scenario.properties import Property, Testing
else:
    Intervention = late_model("sim.scenario.interventions", "Intervention")
    Models = late_model("sim.scenario.models", "Models")
    Property = late_model("sim.scenario.properties", "Property")
    Testing = late_model("sim.scenario.properties", "Testing")

_TRUE = Expression.parse("true")
_NO_VALUE = ValueTemplate(None, True)

_SECTIONS_KEY = "\x00sections"  # a key that no file can have

ActionKind = Annotated[str, f.AfterValidator(action_kind)]


class Tick(f.Part):
    """Tick mode: all agents act in rounds."""

    period: Annotated[PositiveNanoseconds, Field(description="simulated time between rounds")] = to_ns(TICK_PERIOD)
    concurrency: Annotated[
        Literal["sequential", "parallel"],
        Field(description="whether agents act one after another, or all decide first and then all act"),
    ] = "sequential"
    order: Annotated[
        Literal["fixed", "shuffled"],
        Field(description="fixed: agents act as declared; shuffled: in a new random order in each round"),
    ] = "fixed"
    groups: Annotated[
        tuple[Annotated[str, f.AfterValidator(f.DeclaredName("group"))], ...],
        Field(strict=False, description="groups in the order in which they act; agents of other groups act after them"),
    ] = ()


_LOOP = AgentLoopConfig()


class LoopConfig(f.Part):
    """Settings of the loop of an agent."""

    min_loop_delay: Annotated[Nanoseconds, Field(description="delay between iterations")] = to_ns(_LOOP.min_loop_delay)
    max_loop_delay: Annotated[Nanoseconds, Field(description="longest delay after failures")] = to_ns(
        _LOOP.max_loop_delay
    )
    resource_check_interval: Annotated[
        PositiveNanoseconds,
        Field(description="delay until an agent tries again after a limit with the policy skip refused it"),
    ] = to_ns(_LOOP.resource_check_interval)
    max_consecutive_errors: Annotated[
        int,
        Field(ge=LEAST["max_consecutive_errors"], description="the agent is paused after this many failures in a row"),
    ] = _LOOP.max_consecutive_errors
    cool_down: Annotated[Nanoseconds, Field(description="length of the pause after the error limit")] = to_ns(
        _LOOP.cool_down
    )
    max_restarts: Annotated[
        int,
        Field(
            ge=LEAST["max_restarts"],
            description="more pauses after failures than this within restart_period stop an agent as crashed",
        ),
    ] = _LOOP.max_restarts
    restart_period: Annotated[
        PositiveNanoseconds, Field(description="the time within which the pauses after failures are counted")
    ] = to_ns(_LOOP.restart_period)
    mailbox_size: Annotated[
        int,
        Field(
            ge=LEAST["mailbox_size"], le=MOST_MESSAGES, description="how many messages the mailbox of an agent holds"
        ),
    ] = _LOOP.mailbox_size
    mailbox_policy: Annotated[
        MailboxPolicy,
        Field(
            description="full mailbox: block: the sender waits; drop_oldest: the oldest message goes; fail: the new one"
        ),
    ] = _LOOP.mailbox_policy
    unmatched: Annotated[Unmatched, Field(description="what happens to a message that no rule would use")] = (
        _LOOP.unmatched
    )
    heartbeat_timeout: Annotated[
        PositiveNanoseconds | None, Field(description="null: twice the agent's own interval")
    ] = None

    def over(self, base: "LoopConfig") -> "LoopConfig":
        """Return `base` with the keys that are set here.

        If only one of the two delays is set and they would cross, the other one is adjusted.
        """
        written = self.model_fields_set
        merged = base.model_copy(update={name: getattr(self, name) for name in written})
        if merged.min_loop_delay <= merged.max_loop_delay:
            return merged
        if "max_loop_delay" in written:
            return merged.model_copy(update={"min_loop_delay": merged.max_loop_delay})
        return merged.model_copy(update={"max_loop_delay": merged.min_loop_delay})


class Health(f.Part):
    """Alerts for agents that show no sign of life, and the action to take."""

    every: Annotated[PositiveNanoseconds, Field(description="interval of the checks")] = MINUTE
    cure: Annotated[
        Literal["none", "restart"], Field(description="restart: cancel and restart the agent, or wake it")
    ] = "none"
    lock: Annotated[
        PositiveNanoseconds,
        Field(description="how long an iteration may last without a known wait"),
    ] = LOCK_NS
    asleep: Annotated[
        PositiveNanoseconds | None,
        Field(description="how long an agent may sleep if no time ends its sleep; null: without limit"),
    ] = ASLEEP_NS


class Execution(f.Part):
    """Mode, clock and order of the run."""

    use_autonomous_loops: Annotated[bool, Field(description="false: tick mode")] = True
    sync: Annotated[
        Literal["sequential", "barrier", "causal", "causal-radius", "free"] | None,
        Field(description="synchronised rounds: the policy that decides which agent may begin its next tick"),
    ] = None
    clock: Annotated[
        Literal["virtual", "wall"],
        Field(description="virtual: time jumps from event to event; wall: it follows real time"),
    ] = "virtual"
    speed: Annotated[f.Positive, Field(description="simulated seconds per real second with clock: wall")] = 1.0
    ties: Annotated[
        Literal["fixed", "shuffled"],
        Field(description="the order of events at one instant: as declared, or by a hash of the seed"),
    ] = "fixed"
    order: Annotated[
        int, Field(ge=0, description="with a shuffled order: which one; another number gives another order")
    ] = 0
    max_deltas: Annotated[int, Field(ge=1, le=1_000_000, description="livelock limit")] = MAX_DELTAS
    max_data_bytes: Annotated[
        int,
        Field(
            ge=1000,
            le=100_000_000,
            description="most bytes of an event's data or an action's arguments",
        ),
    ] = MAX_DATA_BYTES
    tick: Tick = Tick()
    agent_loop: Annotated[
        LoopConfig, Field(description="settings for the loop of every agent; 'loop' of an agent overrides single keys")
    ] = LoopConfig()
    health: Annotated[Health | None, Field(description="null: no checks")] = None

    @property
    def mode(self) -> Mode:
        """The mode in which the scenario runs if the operator chooses none."""
        return "autonomous" if self.use_autonomous_loops else "tick"

    @model_validator(mode="after")
    def _order_matters(self) -> "Execution":
        if self.order and self.ties == "fixed":
            raise FieldError("order has no effect, because ties are fixed", "add `ties: shuffled`", ("order",))
        return self


class RateLimit(f.Part):
    """Rate limits of one resource over a rolling window; at least one scope."""

    agent: Annotated[RateField | None, Field(description="for each agent")] = None
    group: Annotated[RateField | None, Field(description="for each group")] = None
    global_: Annotated[RateField | None, Field(alias="global", description="for all together")] = None
    policy: Annotated[
        Literal["block", "skip"],
        Field(description="block: the agent waits for capacity; skip: the action is refused, which is no failure"),
    ] = "block"
    shares: Annotated[
        dict[str, f.Positive] | None,
        Field(min_length=1, description="with islands: by island, its share of `group` and `global`"),
    ] = None

    @model_validator(mode="after")
    def _scope(self) -> "RateLimit":
        if self.agent is None and self.group is None and self.global_ is None:
            raise FieldError("expected at least one of agent, group, global")
        if self.shares is not None and self.group is None and self.global_ is None:
            raise FieldError(
                "shares divide the rates `group` and `global` among islands, and this limit has neither",
                "leave out shares: the rate `agent` counts for each agent, wherever it lives",
                ("shares",),
            )
        return self


class Budget(f.Part):
    """An amount that each agent can use up."""

    amount: Annotated[f.NotNegative, Field(description="how much each agent can use up in one period")]
    reset: Annotated[PositiveNanoseconds | None, Field(description="length of a period; null: never renewed")] = None


class Space(f.Part):
    """The space in which agents see each other and walk, one step per tick: a plane, or the graph of `places`."""

    size: Annotated[
        tuple[f.Positive, f.Positive] | None, Field(strict=False, description="width, height; null: `places`, in hops")
    ] = None
    metric: Annotated[Literal["euclid", "chebyshev"], Field(description="how to measure distances")] = "euclid"
    walk: Annotated[
        Literal["manhattan"] | None, Field(description="how walking distances are measured; null: as `metric`")
    ] = None
    perception: Annotated[f.NotNegative, Field(description="how far agents see")] = 4.0
    speed: Annotated[f.NotNegative, Field(description="how far they can walk in one step")] = 1.0


class Artifact(f.Part):
    """Something that agents read, write and invoke."""

    id: Annotated[f.Name, Field(description="the name that actions use")]
    owner: Annotated[
        str,
        f.AfterValidator(f.DeclaredName("account")),
        Field(description="the agent or account that may always read and write it, and receives the price"),
    ]
    content: Annotated[f.Json, Field(description="what it holds; used literally: expressions are not evaluated")] = ""
    readers: Annotated[
        f.Readers, Field(description="who may read and invoke it: all, owner, or a list of agents and groups")
    ] = "all"
    writers: Annotated[
        f.Readers, Field(description="who may write, edit and delete it: all, owner, or a list of agents and groups")
    ] = "owner"
    price: Annotated[f.NotNegative, Field(description="what others pay the owner for invoking it")] = 0.0
    formula: Annotated[f.Formula | None, Field(description="what invoke returns")] = None


class Pool(f.Part):
    """A shared resource of the simulation."""

    kind: Annotated[
        Literal["resource", "priority", "preemptive", "container", "store"],
        Field(
            description="slots: resource, priority, preemptive (can be taken away); an amount: container; items: store"
        ),
    ]
    slots: Annotated[int | None, Field(ge=1, description="resource, priority, preemptive; default 1")] = None
    level: Annotated[f.NotNegative | None, Field(description="container; default 0")] = None
    capacity: Annotated[f.Positive | None, Field(description="container, store; default: unlimited")] = None
    items: Annotated[tuple[f.Json, ...] | None, Field(strict=False, description="store; default empty")] = None

    @model_validator(mode="after")
    def _consistent(self) -> "Pool":
        for name in ("slots", "level", "capacity", "items"):
            if getattr(self, name) is not None and name not in _POOL_KEYS[self.kind]:
                raise FieldError(f"a pool of kind {self.kind} has no {name}, only {', '.join(_POOL_KEYS[self.kind])}")
        held = len(self.items or ()) if self.kind == "store" else self.level or 0
        if self.capacity is not None and held > self.capacity:
            raise FieldError(f"the pool holds {held:g}, which is more than its capacity of {self.capacity:g}")
        return self


_POOL_KEYS = {
    "resource": ("slots",),
    "priority": ("slots",),
    "preemptive": ("slots",),
    "container": ("level", "capacity"),
    "store": ("items", "capacity"),
}


class Rule(f.Part):
    """A condition, and the actions to take if it is true."""

    name: Annotated[str | None, Field(max_length=100, description="a name for readers")] = None
    let: Annotated[
        dict[f.LetKey, f.Value],
        Field(description="values with a name within this rule, computed in order each time before `when` is"),
    ] = Field(default_factory=dict)
    when: Annotated[f.Condition, Field(description="a condition; default true")] = _TRUE
    set: Annotated[dict[f.SetKey, f.Value], Field(description="new values, after all actions succeeded")] = Field(
        default_factory=dict
    )
    do: Annotated[DoField, Field(description="an action (kind and arguments), or a list of actions")] = (Do("noop"),)
    record: Annotated[dict[f.Label, f.NumberValue], Field(description="observations for the summary")] = Field(
        default_factory=dict
    )
    reason: Annotated[str | None, Field(max_length=1000, description="text that is recorded with the action")] = None

    @model_validator(mode="before")
    @classmethod
    def _note_let(cls, data: Any, info: ValidationInfo) -> Any:
        """Tell the validators of the rule which values it has named."""
        context = f.context_of(info)
        if context is not None and isinstance(data, Map):
            let = data.get("let")
            context.let = frozenset(let) if isinstance(let, dict) else frozenset()
        return data

    @model_validator(mode="after")
    def _check_let(self) -> "Rule":
        """Refuse a named value that uses itself or one after it."""
        later = dict.fromkeys(self.let)
        for name, value in self.let.items():
            if early := [other for other in later if other in value.names]:
                raise FieldError(f"`let`: {name} uses {early[0]}, which is computed after it", "change their order")
            del later[name]
        return self


def _family(kind: str, context: Context | None) -> Family | None:
    """Return the family of a kind: that of a class of the host program, or the one with this name; None: not known."""
    return (None if context is None else context.families.get(kind)) or FAMILIES.get(kind)


def _entry_settings(raw: Any, info: ValidationInfo) -> Any:
    """Read the settings of an entry by its kind; those of a kind that is not known here stay as written."""
    kind, context = str(info.data.get("kind")), f.context_of(info)
    family = _family(kind, context)
    if family is not None and family.settings is not None:
        return read_settings(family.settings, {} if raw is None else raw, info)
    if family is not None and raw is not None:
        raise FieldError(f"agents of the kind {family.kind} have no settings")
    return raw


def _entry_params(raw: Any, info: ValidationInfo) -> Any:
    """Read the params of an entry by its kind; those of a kind that is not known here stay as written."""
    kind, context = str(info.data.get("kind")), f.context_of(info)
    family = _family(kind, context)
    agent = None if family is None else family.agent
    if agent is not None and agent.Params is not None:
        check_params(agent.Params, agent.__name__)
        try:
            return default_params(agent.Params) if raw is None else read_params(agent.Params, raw, info)
        except UsageError as error:
            raise wrong_as(error) from None
    if agent is not None and raw is not None:
        raise FieldError(f"agents of the kind {kind} have no params", "their class declares them as a class Params")
    return raw


_COLUMN_SCHEMA = {
    "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "object"}],
    "description": "state.NAME, name, place, group, persona, balance, start; null; or {to: ..., type: ...}",
}
ColumnField = Annotated[Column, PlainValidator(read_column), WithJsonSchema(_COLUMN_SCHEMA)]


class Agent(f.Part):
    """One agent, `count` equal agents, or one for each row of a table."""

    name: Annotated[
        f.Name,
        Field(description="the name of the agent; with a count above 1 the agents are called name-1, name-2, ..."),
    ]
    count: Annotated[int, Field(ge=0, le=MAX_AGENTS, description="number of copies; 0: none")] = 1
    table: Annotated[
        str | None,
        Field(description="a file beside the scenario with a row for each agent: .csv, .tsv, .jsonl, .parquet"),
    ] = None
    columns: Annotated[
        dict[str, ColumnField],
        Field(description="of the table: what its columns become, if it is not a state variable of the same name"),
    ] = Field(default_factory=dict)
    sample: Annotated[
        int | None, Field(ge=0, le=MAX_AGENTS, description="of the table: how many rows are drawn; null: all are taken")
    ] = None
    weights: Annotated[str | None, Field(description="of the table: the column with the weights of the sample")] = None
    replace: Annotated[
        bool | None,
        Field(description="of the sample: whether a row can be drawn several times; null: only if there are weights"),
    ] = None
    kind: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$",
            description="policy follows rules; others: a family, a kind of a package, module:NAME, a class",
        ),
    ] = "policy"
    settings: Annotated[
        Any, PlainValidator(_entry_settings), Field(description="the settings of its kind", validate_default=True)
    ] = None
    params: Annotated[
        Any,
        PlainValidator(_entry_params),
        Field(description="what each agent is set up with, if its class has Params", validate_default=True),
    ] = None
    group: Annotated[f.Name | None, Field(description="default: name")] = None
    permission: Annotated[
        f.Level, Field(description="the level of trust; a guest can only read, sleep, rest, stop and do noop")
    ] = Permission.USER
    state: Annotated[dict[f.StateKey, f.StartValue], Field(description="the agent's variables")] = Field(
        default_factory=dict
    )
    place: Annotated[
        f.StartPlace | None,
        Field(description="its first place: the name of a place, its number from 0, or an expression"),
    ] = None
    position: Annotated[f.StartValue | None, Field(description="in `space`: [x, y], or the name of a place")] = None
    partners: Annotated[
        tuple[Annotated[str, f.AfterValidator(f.DeclaredName("agent"))], ...],
        Field(strict=False, description="agents that it can see at any distance"),
    ] = ()
    balance: Annotated[
        f.StartNumber, Field(description="its initial money: a number, or an expression (text that starts with =)")
    ] = ValueTemplate(0.0, True)
    start: Annotated[
        f.StartTime, Field(description="delay before its first iteration: seconds, text such as 5m, or an expression")
    ] = ValueTemplate(0, True)
    template: Annotated[bool, Field(description="not started; `spawn` makes copies")] = False
    loop: Annotated[LoopConfig, Field(description="keys of 'execution.agent_loop' that differ for these agents")] = (
        LoopConfig()
    )
    limits: Annotated[dict[f.Limit, RateField], Field(description="rates instead of a limit's `agent`")] = Field(
        default_factory=dict
    )
    subscribe: Annotated[
        tuple[f.Pattern, ...],
        Field(
            strict=False,
            description="patterns of topics: such events are queued, and each iteration gets one as `event`",
        ),
    ] = ()
    rules: Annotated[
        tuple[Rule, ...],
        Field(
            strict=False,
            description="what the agent does: in each iteration the first rule whose condition is true is chosen",
        ),
    ] = ()

    _marks: Mapping[str, Mark] = PrivateAttr(default_factory=dict)
    _host_family: Family | None = PrivateAttr(default=None)
    _population: Population | None = PrivateAttr(default=None)
    _state_order: tuple[Mapping[str, Any], tuple[str, ...]] | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _note_marks(cls, data: Any, handler: ModelWrapValidatorHandler["Agent"]) -> "Agent":
        """Keep the positions of values that are evaluated at the start, for error messages."""
        agent = handler(data)
        if isinstance(data, Map):
            inner = {
                f"{part}.{key}": mark
                for part in ("state", "params")
                if isinstance(data.get(part), Map)
                for key, mark in data[part].values_at.items()
            }
            agent._marks = {**data.values_at, **inner}
        return agent

    @model_validator(mode="after")
    def _note_class(self, info: ValidationInfo) -> "Agent":
        """Keep the family of its kind, if that is a class of the host program."""
        context = f.context_of(info)
        if context is not None:
            self._host_family = context.families.get(self.kind)
        return self

    @model_validator(mode="after")
    def _take_table(self, info: ValidationInfo) -> "Agent":
        """Take the agents of the table, whose columns are state variables as well."""
        if (fault := self._table_fault()) is not None:
            raise FieldError(str(fault), parts=(fault,))
        if self.table is None:
            return self
        context = f.context_of(info)
        self._population = None if context is None else context.populations.get(self.name)
        if self._population is not None:
            self.state.update({key: _NO_VALUE for key in self._population.states if key not in self.state})
        return self

    def _table_fault(self) -> FieldError | None:
        """Return which key does not fit a table, or its absence; None if none."""
        keys = self.model_fields_set
        if self.table is None:
            alone = next((key for key in ("columns", "sample", "weights", "replace") if key in keys), None)
            return None if alone is None else FieldError(f"{alone} needs a table", "add `table: FILE`", (alone,))
        if "count" in keys:
            hint = f"leave it out; for {self.count} of the rows: `sample: {self.count}`"
            return FieldError("a table gives the number of agents", hint, ("count",))
        if self.template:
            return FieldError("a template has no table: its agents are copies, and not rows", None, ("table",))
        for key in ("weights", "replace"):
            if self.sample is None and key in keys:
                return FieldError(f"{key} needs a sample", "such as `sample: 1000`", (key,))
        return None

    @property
    def population(self) -> Population | None:
        """The agents of its table; None if it has none."""
        return self._population

    @property
    def size(self) -> int:
        """The number of its agents."""
        return self.count if self._population is None else self._population.size

    def agent_names(self) -> Sequence[str]:
        """Return the names of its agents; of a sample of rows with names, those that they can have."""
        if self._population is not None:
            return self._population.known_names
        return [self.name] if self.count == 1 else [f"{self.name}-{number}" for number in range(1, self.count + 1)]

    @property
    def host_family(self) -> Family | None:
        """The family of its kind, if that is a class of the host program; None otherwise."""
        return self._host_family

    def problem(self, key: str, message: str, hint: str | None) -> UsageError:
        """Return the error, with its position, for a value of this entry that cannot be evaluated at the start."""
        mark = self._marks.get(key) or self._marks.get("name")
        text = f"agents.{self.name}.{key}: {message}"
        return UsageError(text, hint=hint) if mark is None else ScenarioError([mark.problem(text, hint)])

    @model_validator(mode="before")
    @classmethod
    def _note_state(cls, data: Any, info: ValidationInfo) -> Any:
        """Tell the validators of rules which state variables this agent has."""
        context = f.context_of(info)
        if context is not None and isinstance(data, Map):
            state = data.get("state")
            population = context.populations.get(data["name"]) if isinstance(data.get("name"), str) else None
            context.state = frozenset(state) if isinstance(state, dict) else frozenset()
            context.state |= frozenset(() if population is None else population.states)
        return data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> JsonSchemaValue:
        entry_schema: JsonSchemaValue = handler(schema)
        handler.resolve_ref_schema(entry_schema)["allOf"] = [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"properties": properties},
            }
            for kind, family in FAMILIES.items()
            if (properties := _properties(family, handler))
        ]
        return entry_schema

    @model_validator(mode="after")
    def _check_state_order(self) -> "Agent":
        self.state_order()
        return self

    def state_order(self) -> tuple[str, ...]:
        """Return the state variables, each after those that its start value uses, otherwise as in the file.

        Raises:
            FieldError: if some need each other.
        """
        if self._state_order is None or self._state_order[0] is not self.state:
            order: dict[str, None] = {}
            for key in self.state:
                self._place_in(order, key, ())
            self._state_order = (self.state, tuple(order))
        return self._state_order[1]

    def _place_in(self, order: dict[str, None], key: str, users: tuple[str, ...]) -> None:
        if key in users:
            circle = " needs ".join((*users[users.index(key) :], key))
            raise FieldError(f"the start values of `state` need each other: {circle}", "give one of them a value")
        if key not in order:
            for name in self.state:
                if name in self.state[key].names:
                    self._place_in(order, name, (*users, key))
            order[key] = None

    @property
    def group_name(self) -> str:
        """The group of the agents; by default the name of the entry."""
        return self.group or self.name


def _properties(family: Family, handler: Any) -> dict[str, JsonSchemaValue]:
    """Return the JSON Schema of what an entry of a kind is set up with, by key."""
    properties = {} if family.settings is None else {"settings": section_schema(family.settings, handler)}
    if family.agent.Params is not None:
        properties["params"] = model_schema(params_model(family.agent.Params), handler)
    return properties


class Event(Scheduled):
    """An event that the scenario publishes."""

    topic: Annotated[f.Topic, Field(description="its topic: words joined by dots")]
    data: Annotated[f.Json, Field(description="any value that the event carries")] = None


MOST_RECORDED: Final = 20
"""The most state variables that are recorded over time."""


class Recording(f.Part):
    """How much of the run is recorded. It changes nothing in the run itself."""

    level: Annotated[
        Level,
        Field(
            description="all: every event; changes: without actions that succeeded and that nothing else saw; samples:"
            " samples, observations, answers to surveys, interventions and the final state"
        ),
    ] = "all"
    state: Annotated[
        tuple[f.StateKey, ...],
        Field(
            strict=False,
            max_length=MOST_RECORDED,
            description="state variables whose values are recorded with each sample, if they have changed",
        ),
    ] = ()


class Metrics(f.Part):
    """Values sampled during the run."""

    every: Annotated[PositiveNanoseconds, Field(description="simulated time between two samples")] = MINUTE
    modules: Annotated[
        tuple[str, ...],
        Field(strict=False, description="modules with functions that have @sim.metric, which the operator must allow"),
    ] = ()
    values: Annotated[
        dict[f.Label, f.WorldExpression], Field(description="expressions by name, such as count('person')")
    ] = Field(default_factory=dict)


class Stop(f.Part):
    """The condition that ends the run early."""

    when: Annotated[
        f.WorldExpression, Field(description="an expression over the whole world; the run ends when it is true")
    ]


_UNTIL = f"when the run ends, exclusive; default {to_text(HOUR)}; null: when nothing is left to do"
"""Not beside its key: Sphinx cannot read an f-string in an annotation."""


class Scenario(f.Part):
    """A scenario file."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[a-z][a-z0-9_-]{0,63}$",
            description="the name of the scenario: small letters, digits, hyphens and underscores",
        ),
    ]
    description: Annotated[str, Field(description="a description for readers")] = ""
    seed: Annotated[int, Field(ge=0, description="the seed of all random draws; --seed overrides it")] = 0
    until: Annotated[
        PositiveNanoseconds | None,
        Field(description=_UNTIL),
    ] = HOUR
    execution: Execution = Execution()
    limits: Annotated[
        dict[f.Name, RateLimit], Field(description="rate limits by name: how many units agents may use within a time")
    ] = Field(default_factory=dict)
    budgets: Annotated[dict[f.Name, Budget], Field(description="by name: amounts that each agent can use up")] = Field(
        default_factory=dict
    )
    quotas: Annotated[dict[f.Name, f.NotNegative], Field(description="amounts that an agent can hold at once")] = Field(
        default_factory=dict
    )
    costs: Annotated[
        dict[ActionKind, dict[f.Resource, f.CostValue]], Field(description="what one action of each kind costs")
    ] = Field(default_factory=dict)
    accounts: Annotated[
        dict[f.Name, f.NotNegative], Field(description="accounts that belong to no agent, with their initial balance")
    ] = Field(default_factory=dict)
    places: Places | None = None
    space: Annotated[Space | None, Field(description="the space in which agents see each other; null: none")] = None
    artifacts: Annotated[
        tuple[Artifact, ...], Field(strict=False, description="what agents read, write and invoke")
    ] = ()
    pools: Annotated[dict[f.Name, Pool], Field(description="by name: what agents share and queue for")] = Field(
        default_factory=dict
    )
    models: Annotated[Models | None, Field(description="language models; null: none")] = None
    agents: Annotated[
        tuple[Agent, ...], Field(strict=False, min_length=1, description="the agents, or groups of equal agents")
    ]
    events: Annotated[
        tuple[Event, ...], Field(strict=False, description="events that are published from outside at given times")
    ] = ()
    interventions: Annotated[
        tuple[Intervention, ...], Field(strict=False, description="what is done to the run from outside")
    ] = ()
    metrics: Metrics = Metrics()
    recording: Recording = Recording()
    stop: Stop | None = None
    properties: Annotated[
        dict[f.Label, Property], Field(description="by name: what must hold in every run; `sim test` checks them")
    ] = Field(default_factory=dict)
    testing: Annotated[Testing | None, Field(description="what `sim test --faults` may vary; null: nothing")] = None
    sections: Annotated[Mapping[str, Any], PlainValidator(read_sections)] = Field(
        default_factory=dict, alias="\x00sections"
    )
    """The settings of the sections of the file, by key; see `sim.world.section`."""

    _tree: Map | None = PrivateAttr(None)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_tree(cls, data: Any, handler: ModelWrapValidatorHandler["Scenario"]) -> "Scenario":
        """Keep the positions of the file, for errors that are found later."""
        scenario = handler(data)
        if isinstance(data, Map):
            scenario._tree = data
        return scenario

    def located(self, error: UsageError) -> UsageError:
        """Return an error with the position of the place that its text begins with, such as `agents.ana.settings`."""
        if self._tree is None or isinstance(error, ScenarioError):
            return error
        path, _, mark = find_place(self._tree, str(error))
        return ScenarioError([mark.problem(str(error), error.hint)]) if path else error

    _source: Any = PrivateAttr(default=None)
    _division: Any = PrivateAttr(default=None)  # its islands once they are computed; see `sim.scenario.island_division`

    @property
    def source(self) -> Any:
        """The text from which it was loaded, a `sim.scenario.loading.ScenarioSource`; None if it was made otherwise."""
        return self._source

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        overrides: Sequence[str] = (),
        allow: Sequence[str] = (),
        kinds: Mapping[str, Any] | None = None,
    ) -> "Scenario":
        """Return the scenario that a mapping describes, with the keys and values of a scenario file.

        Files that it refers to, such as those of `places` and tables, are looked for in the current folder. The `table`
        of an entry of `agents` can be a DataFrame.

        Args:
            data: the scenario.
            overrides: values to change, such as `seed=3` or `agents.grazer.count=10`.
            allow: installed packages, and modules, whose code it may use.
            kinds: classes that it may name as `kind`.

        Raises:
            ScenarioError: with all problems; each names the path of its key, as in `agents[0].count`.
            UsageError: if an override is malformed, or an allowed package cannot be imported.
        """
        made: Scenario = import_module("sim.scenario.loading").from_dict(data, overrides, allow, kinds)
        return made

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the keys that a file can have at its top level."""
        return (*(field.alias or name for name, field in cls.model_fields.items() if name != "sections"), *SECTIONS)

    @model_validator(mode="before")
    @classmethod
    def _take_sections(cls, data: Any) -> Any:
        """Move the sections below one key, because each package defines its own ones."""
        if not isinstance(data, dict) or _SECTIONS_KEY in data:
            return data
        taken = [key for key in SECTIONS if key in cls.model_fields]
        if taken:  # it would hide the key from every scenario
            raise UsageError(f"the section {taken[0]!r} has the name of another key of scenarios")
        rest = data.without(SECTIONS) if isinstance(data, Map) else {k: v for k, v in data.items() if k not in SECTIONS}
        rest[_SECTIONS_KEY] = {key: value for key, value in data.items() if key in SECTIONS and value is not None}
        if isinstance(data, Map):
            data.allowed = cls.known_keys()
        return rest

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> JsonSchemaValue:
        scenario_schema: JsonSchemaValue = handler(schema)
        properties = handler.resolve_ref_schema(scenario_schema)["properties"]
        properties.pop(_SECTIONS_KEY)
        for key, section in SECTIONS.items():
            properties[key] = section_schema(section.settings, handler, by_name=section.by_name)
        return scenario_schema

    def recorded_at(self, level: Level) -> "Scenario":
        """Return the same scenario of which so much is recorded."""
        return self.model_copy(update={"recording": self.recording.model_copy(update={"level": level})})

    def recorded_files(self) -> dict[str, bytes]:
        """Return what the scenario refers to, as it is recorded with a run, by the name of the file."""
        loaded = None if self.places is None else self.places.loaded
        tables = None if self.source is None else record_of(self.source.tables)
        files = {PLACES: None if loaded is None else loaded.record(), POPULATIONS: tables}
        return {name: data for name, data in files.items() if data is not None}

    @property
    def end_ns(self) -> int:
        """The time limit of the run in simulated nanoseconds; `MAX_NS` if there is none."""
        return MAX_NS if self.until is None else self.until
