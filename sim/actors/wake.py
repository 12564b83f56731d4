"""Wake conditions: what ends the sleep of an agent. Nothing is polled.

A `WakeCondition` has a type and a value, and can have a filter and a timeout. A class with `@wake_condition` defines a
type of condition: its keys in a scenario file, its values, and how it is armed. The `sleep` action of a rule, its JSON
Schema and its error messages are derived from this class.

To arm a condition is to register a callback with the kernel, the event bus, the rate tracker or the mailbox. So a
condition works in the same way in autonomous mode and in tick mode.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol, TypeVar

from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression, Names, did_you_mean
from sim.events import Event
from sim.events.topic import check_pattern
from sim.kernel import Duration, to_duration, to_ns
from sim.kernel.calendar import Cron, Daily, Schedule
from sim.kernel.codec import Json, JsonObject, Record, changed, decode, encode
from sim.world import World
from sim.world.action import Argument

Met = Callable[[str], None]
"""Called once when a condition is met, with the cause: a condition type, or `timeout`."""

_WHERE_NAMES = ("topic", "data", "source", "time")


class Registration(Protocol):
    """A registered callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it; has no effect after the callback or a cancellation."""


class Sleeper(Protocol):
    """The part of an agent that conditions use."""

    agent_id: str
    woken_event: Event | None

    @property
    def mailbox(self) -> Any:
        """The mailbox of the agent."""

    @property
    def loop(self) -> Any:
        """The loop of the agent, which has an actor."""


class Written(dict[str, Json]):
    """A mapping that describes a condition, and is never changed, so that it is parsed once.

    Attributes:
        condition: what it describes, from the first time that it was parsed.
    """

    __slots__ = ("condition",)

    condition: "WakeCondition | None"

    def __init__(self, mapping: JsonObject) -> None:
        super().__init__(mapping)
        self.condition = None


class WakeCondition(Record, frozen=True):
    """A condition that wakes a sleeping agent.

    Args:
        condition_type: the name of its type, for example `event`.
        value: depends on the type. `time`: simulated seconds since the start of the run, or text such as `10m`.
            `event`: a topic pattern. `resource`: a tuple (resource, threshold). `any` and `all`: a tuple of conditions.
            `message` and `never`: None.
        where: for `event`: a filter expression over `topic`, `data`, `source` and `time`.
        timeout_ns: simulated nanoseconds after which the agent wakes in any case.
        after: for `time`: whether `value` counts from the moment of arming, not from the start of the run.
        given: values of further names in `where`, fixed when the agent falls asleep.

    Raises:
        UsageError: if the type does not exist, or the value does not fit it.
    """

    condition_type: str
    value: Any = None
    where: Expression | None = None
    timeout_ns: int | None = None
    after: bool = False
    given: Mapping[str, Any] = {}  # each condition gets its own

    def __post_init__(self) -> None:
        kind = CONDITIONS.get(self.condition_type)
        if kind is None:
            raise UsageError(
                f"there is no wake condition {self.condition_type!r:.100}",
                hint=_hint(str(self.condition_type), CONDITIONS),
            )
        if not kind.valid(self.value):
            raise UsageError(f"a wake condition on {self.condition_type} cannot have the value {self.value!r:.100}")
        if self.where is not None and not isinstance(self.where, Expression):
            raise UsageError(
                f"the filter of a wake condition is an expression, not {self.where!r:.100}",
                hint="write WakeCondition.event(pattern, where=text)",
            )
        if self.timeout_ns is not None and (self.timeout_ns.__class__ is not int or self.timeout_ns < 0):
            raise UsageError(f"timeout_ns is a whole number of nanoseconds from 0, not {self.timeout_ns!r}")

    @classmethod
    def at(cls, time: Duration) -> "WakeCondition":
        """Wake at a simulated time, counted from the start of the run."""
        return cls("time", time)

    @classmethod
    def after_delay(cls, delay: Duration) -> "WakeCondition":
        """Wake after a duration of simulated time."""
        return cls("time", delay, after=True)

    @classmethod
    def event(
        cls,
        pattern: str,
        *,
        where: str | None = None,
        given: Names | None = None,
        timeout: Duration | None = None,
    ) -> "WakeCondition":
        """Wake at an event that matches a topic pattern and the filter `where`; `given` has further names for it."""
        return cls("event", pattern, _filter(where, given or {}), _timeout(timeout), given=given or {})

    @classmethod
    def resource(cls, name: str, threshold: float, *, timeout: Duration | None = None) -> "WakeCondition":
        """Wake when at least `threshold` units of a rate-limited resource are left."""
        return cls("resource", (name, threshold), timeout_ns=_timeout(timeout))

    @classmethod
    def message(cls, *, timeout: Duration | None = None) -> "WakeCondition":
        """Wake when a message is in the mailbox that the agent has not left unread before."""
        return cls("message", timeout_ns=_timeout(timeout))

    @classmethod
    def any_of(cls, *parts: "WakeCondition", timeout: Duration | None = None) -> "WakeCondition":
        """Wake when at least one of several conditions is met."""
        return cls("any", parts, timeout_ns=_timeout(timeout))

    @classmethod
    def all_of(cls, *parts: "WakeCondition", timeout: Duration | None = None) -> "WakeCondition":
        """Wake when all of several conditions have been met, in any order."""
        return cls("all", parts, timeout_ns=_timeout(timeout))

    @classmethod
    def never(cls) -> "WakeCondition":
        """Sleep until `wake` is called."""
        return cls("never")

    @classmethod
    def parse(cls, mapping: Mapping[str, Any]) -> "WakeCondition":
        """Return the condition that a JSON-like mapping describes, for example `{"event": "rain.*", "timeout": 60}`.

        Raises:
            UsageError: if the mapping is not a valid condition.
        """
        if mapping.__class__ is not Written:
            return cls._parsed(mapping)
        written: Any = mapping
        if written.condition is None:
            written.condition = cls._parsed(mapping)
        condition: WakeCondition = written.condition
        return condition

    @classmethod
    def _parsed(cls, mapping: JsonObject) -> "WakeCondition":
        if len(mapping) == 1:  # most conditions
            (head,) = mapping
            if head in _HEADS:
                return _HEADS[head][0].parse(head, mapping)
        heads = [key for key in mapping if key in _HEADS]
        kind, keys = _HEADS[heads[0]] if len(heads) == 1 else (None, _NO_KEYS)
        if kind is None or not keys >= mapping.keys():
            raise UsageError(
                f"a wake condition has one of {', '.join(_HEADS)}, not {', '.join(map(str, mapping)) or 'nothing'}"
            )
        condition = kind.parse(heads[0], mapping)
        timeout: Any = mapping.get("timeout")
        if timeout is not None:
            condition = changed(condition, timeout_ns=to_ns(timeout))
        return condition

    def recorded(self) -> Any:
        """Return the condition as a JSON-like value, from which `from_record` makes it again.

        Raises:
            ActorError: if a value in it is not JSON-like.
        """
        parts = self.value if isinstance(self.value, tuple) else ()
        compound = bool(parts) and all(isinstance(part, WakeCondition) for part in parts)
        return {
            "type": self.condition_type,
            **({"parts": [part.recorded() for part in parts]} if compound else {"value": decode(encode(self.value))}),
            **({"where": self.where.text} if self.where else {}),
            **({"given": decode(encode(self.given))} if self.given else {}),
            **({"timeout_ns": self.timeout_ns} if self.timeout_ns is not None else {}),
            **({"after": True} if self.after else {}),
        }

    @classmethod
    def from_record(cls, data: Mapping[str, Any]) -> "WakeCondition":
        """Return the condition of which `recorded` has returned `data`."""
        value = data.get("value")
        if "parts" in data:
            value = tuple(cls.from_record(part) for part in data["parts"])
        elif isinstance(value, list):
            value = tuple(value)
        further = data.get("given", {})
        return cls(
            data["type"], value, _filter(data.get("where"), further), data.get("timeout_ns"), data.get("after", False),
            further,
        )  # fmt: skip

    @property
    def ends_in_time(self) -> bool:
        """Whether there is a time at which it is met at the latest: it has a timeout, or waits for a time."""
        return self.timeout_ns is not None or CONDITIONS[self.condition_type].ends_in_time(self)

    def describe(self) -> Any:
        """Return the condition as a JSON-like value, for the record.

        Raises:
            ActorError: if a value in `given` is not JSON-like.
        """
        said = {"type": self.condition_type, "value": CONDITIONS[self.condition_type].describe(self)}
        if self.where is not None:
            said["where"] = self.where.text
        if self.given:
            said["given"] = decode(encode(self.given))
        if self.timeout_ns is not None:
            said["timeout"] = to_duration(self.timeout_ns)
        return said


def check(condition: WakeCondition, world: World) -> None:
    """Check that `condition` can be armed in `world`, before an agent falls asleep.

    Raises:
        UsageError: if it is no wake condition, or names a resource without a limit, because such a condition would
            always be met at once.
    """
    if condition.__class__ is not WakeCondition:
        raise UsageError(
            f"an agent sleeps until a WakeCondition, not until {condition!r:.60}",
            hint="write loop.sleep(sim.WakeCondition.after_delay(5))",
        )
    CONDITIONS[condition.condition_type].check(condition, world)


def arm(condition: WakeCondition, world: World, sleeper: Sleeper, met: Met | None = None) -> Registration:
    """Register `condition` for `sleeper`; `met` is called once when it is met, perhaps before this returns.

    Without `met`, it ends the sleep of the loop of `sleeper`, for which no bound method has to be kept.
    """
    armed = Armed(world, sleeper, met)
    armed.add(condition)
    return armed


class Armed:
    """One armed condition. The first registration that fires ends it. Each sleeping agent has one, so it is small.

    Attributes:
        world, sleeper: the world, and the agent that sleeps.
        done: whether the condition was met or cancelled.
    """

    __slots__ = ("done", "met", "registrations", "sleeper", "world")

    def __init__(self, world: World, sleeper: Sleeper, met: Met | None) -> None:
        self.world = world
        self.sleeper = sleeper
        self.met = met
        self.done = False
        self.registrations: tuple[Registration, ...] = ()

    def add(self, condition: WakeCondition) -> None:
        """Arm a condition and its timeout."""
        if condition.timeout_ns is not None:
            self.after(condition.timeout_ns, self._timed_out)
        if not self.done:
            CONDITIONS[condition.condition_type].arm(self, condition)

    def fire(self, cause: str) -> None:
        """Report that the condition is met; `cause` is its type. Only the first call has an effect."""
        if not self.done:
            kernel, loop = self.world.kernel, self.sleeper.loop
            before = kernel.current
            kernel.current = loop.actor  # the wake-up must not use counters of who caused it
            try:
                self.cancel()
                if self.met is None:
                    loop.end_sleep(cause)
                else:
                    self.met(cause)
            finally:
                kernel.current = before

    def cancel(self) -> None:
        """Cancel all registrations."""
        self.done = True
        if not self.registrations:
            return
        registrations, self.registrations = self.registrations, ()
        for registration in registrations:
            registration.cancel()

    def keep(self, registration: Registration) -> None:
        """Cancel `registration` when the condition is met or cancelled."""
        self.registrations += (registration,)

    def after(self, delay: int, ring: Callable[[], None]) -> None:
        """Call `ring` after `delay` simulated nanoseconds."""
        kernel = self.world.kernel
        self.keep(kernel.call_at(kernel.now + delay, ring))

    def part(self, part: WakeCondition, met: Met) -> None:
        """Arm a part of the condition; call `met` when the part is met."""
        armed = Armed(self.world, self.sleeper, met)
        self.keep(armed)
        armed.add(part)

    def _timed_out(self) -> None:
        self.fire("timeout")

    def time_came(self) -> None:
        """Report that the time of a `time` condition is reached."""
        self.fire("time")

    def message_came(self) -> None:
        """Report that there is a message to read."""
        self.fire("message")

    def __call__(self, event: Event) -> None:
        """Handle an event. This object is the subscriber, which saves a bound method for each sleeping agent.

        Events that the sleeping agent publishes itself, earlier or later in its iteration, do not wake it.
        """
        if not self.done and event.source != self.sleeper.agent_id:
            self.sleeper.woken_event = event
            self.fire("event")


class ConditionType(ABC):
    """A type of wake condition.

    Attributes:
        name: the `condition_type` of its conditions.
        heads: the keys of a mapping that can hold its value; a mapping has one of them. Empty if scenario files cannot
            contain this type.
        more: further keys. If one of them is required, it and the head must be given together.
        reads: what an agent that waits for it reads, in words for descriptions of models; `{}` stands for the value.
            Empty: nothing but the time. None: not said, so it is not known.
    """

    name: ClassVar[str]
    heads: ClassVar[tuple[Argument, ...]] = ()
    more: ClassVar[tuple[Argument, ...]] = ()
    reads: ClassVar[str | None] = None
    inner: ClassVar[tuple[str, ...]] = ()
    """Further keys for `parse` that rules of a scenario cannot give."""

    def besides(self) -> tuple[str, ...]:
        """Return the keys that can be given together with the head."""
        return (*(argument.name for argument in self.more), *self.inner)

    @abstractmethod
    def valid(self, value: Any) -> bool:
        """Return whether a condition of this type can have this value, or raise `UsageError` with details."""

    @abstractmethod
    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """Return the condition that a mapping describes; `head` is its head key."""

    @abstractmethod
    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Register a callback that calls `armed.fire`, and pass it to `armed.keep`; if met already, fire at once."""

    def describe(self, condition: WakeCondition) -> Any:
        """Return the value of the condition as JSON-like data."""
        return condition.value

    def ends_in_time(self, condition: WakeCondition) -> bool:
        """Return whether the passing of time alone meets the condition."""
        return False

    def check(self, condition: WakeCondition, world: World) -> None:
        """Raise `UsageError` if the condition cannot be armed in `world`."""


CONDITIONS: Final[dict[str, ConditionType]] = {}
"""All types of wake conditions, by name."""

_HEADS: Final[dict[str, tuple[ConditionType, frozenset[str]]]] = {}
"""The type that a key of a mapping names, and all keys that may be given with it."""

_NO_KEYS: Final[frozenset[str]] = frozenset()

_Type = TypeVar("_Type", bound=type[ConditionType])


def wake_condition(cls: _Type) -> _Type:
    """Register the decorated class as a type of wake condition.

    Raises:
        UsageError: if its name or a key is already in use, it has no docstring, or a method is missing.
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not name:
        raise UsageError(f"the wake condition {cls.__name__} has no name", hint='write name = "..." in the class')
    if missing := sorted(cls.__abstractmethods__):
        raise UsageError(f"the wake condition {name!r} lacks the methods {', '.join(missing)}")
    if not (cls.__doc__ or "").strip():
        raise UsageError(f"the wake condition {name!r} has no docstring", hint="describe what the condition waits for")
    taken = {"timeout", *(key.name for kind in CONDITIONS.values() for key in (*kind.heads, *kind.more))}
    twice = sorted(taken.intersection(key.name for key in (*cls.heads, *cls.more)))
    if name in CONDITIONS or twice:
        raise UsageError(f"a wake condition named {(twice or [name])[0]!r} already exists")
    kind = CONDITIONS[name] = cls()
    for head in kind.heads:
        _HEADS[head.name] = (kind, frozenset({head.name, "timeout", *kind.besides()}))
    return cls


@wake_condition
class TimeCondition(ConditionType):
    """A point in time, or a duration."""

    name = "time"
    reads = ""
    heads = (
        Argument("for", "time", "how long", False),
        Argument("until", "time", "a point in time, counted from the start of the run", False),
    )

    def valid(self, value: Any) -> bool:
        """Accept a duration; `to_ns` raises an error for anything else."""
        to_ns(value)
        return True

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """See `ConditionType`."""
        return WakeCondition("time", mapping[head], after=head == "for")

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Set a timer."""
        due, kernel = to_ns(condition.value), armed.world.kernel
        due = kernel.now + due if condition.after else max(kernel.now, due)
        armed.keep(kernel.call_at(due, armed.time_came))

    def describe(self, condition: WakeCondition) -> Any:
        """Return the time in seconds."""
        return to_duration(to_ns(condition.value))

    def ends_in_time(self, condition: WakeCondition) -> bool:
        """Return True: only time passes."""
        return True


class CivilCondition(ConditionType):
    """The next time of a schedule of civil time."""

    reads = ""

    @abstractmethod
    def schedule(self, value: Any) -> Schedule:
        """Return the schedule of a value."""

    def valid(self, value: Any) -> bool:
        """Accept what is a schedule."""
        return isinstance(value, str) and self.schedule(value) is not None

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """See `ConditionType`."""
        return WakeCondition(self.name, mapping[head])

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Set a timer; there is none if the schedule has no further time."""
        world = armed.world
        assert world.calendar is not None, "check has found it"
        due = self.schedule(condition.value).after(world.kernel.now, world.calendar)
        if due is not None:
            armed.after(due - world.kernel.now, armed.time_came)

    def ends_in_time(self, condition: WakeCondition) -> bool:
        """Return True: only time passes."""
        return True

    def check(self, condition: WakeCondition, world: World) -> None:
        """Refuse it in a world without civil time."""
        if world.calendar is None:
            raise UsageError(f"a sleep until {self.name} needs civil time", hint="add `calendar:` to the scenario")


@wake_condition
class DailyCondition(CivilCondition):
    """A time of day."""

    name = "daily"
    heads = (Argument("daily", "text", "a time of day such as 08:00", False),)

    def schedule(self, value: Any) -> Schedule:
        """See `CivilCondition`."""
        return Daily.parse(value)


@wake_condition
class CronCondition(CivilCondition):
    """A cron expression."""

    name = "cron"
    heads = (Argument("cron", "text", "a cron expression such as 0 8 * * MON-FRI", False),)

    def schedule(self, value: Any) -> Schedule:
        """See `CivilCondition`."""
        return Cron(value)


@wake_condition
class EventCondition(ConditionType):
    """An event whose topic matches a pattern."""

    name = "event"
    reads = "events with the topics {}"
    heads = (Argument("event", "pattern", "topics, for instance rain.*", False),)
    more = (Argument("where", "event filter", "which of these events", False),)
    inner = ("given",)

    def valid(self, value: Any) -> bool:
        """Accept a valid topic pattern."""
        return isinstance(value, str) and bool(check_pattern(value))

    def parse(self, head: str, mapping: Mapping[str, Any]) -> WakeCondition:
        """See `ConditionType`."""
        return WakeCondition.event(mapping["event"], where=mapping.get("where"), given=mapping.get("given"))

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Look for a matching event since the begin of the iteration; if there is none, subscribe."""
        bus, where, id = armed.world.event_bus, condition.where, armed.sleeper.agent_id
        test = None if where is None else (lambda event: _passes(where, condition.given, event))
        missed = bus.missed_event(id, condition.value, test)
        if missed is not None:
            armed(missed)
        elif bus.overtaken(id, condition.value):
            armed.fire("event")  # the bus no longer has all events since then: wake rather than miss one
        else:
            armed.keep(bus.subscribe(condition.value, filter=test, callback=armed))


@wake_condition
class ResourceCondition(ConditionType):
    """A remaining amount of a rate-limited resource."""

    name = "resource"
    reads = "when enough of the limit {} is left"
    heads = (Argument("resource", "limit", "a rate limit", False),)
    more = (Argument("at_least", "number", "how much of it must be left", True),)

    def valid(self, value: Any) -> bool:
        """Accept a name and a finite number."""
        if not isinstance(value, tuple) or len(value) != 2:
            return False
        name, threshold = value
        number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
        return isinstance(name, str) and number and math.isfinite(threshold)

    def parse(self, head: str, mapping: Mapping[str, Any]) -> WakeCondition:
        """See `ConditionType`."""
        return WakeCondition.resource(mapping["resource"], mapping.get("at_least", 1))

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Register with the rate tracker, with the sleeping agent as source so that other agents' order keys stay."""
        name, threshold = condition.value
        id, source = armed.sleeper.agent_id, armed.sleeper.loop.actor
        armed.keep(armed.world.rate_tracker.on_level(id, name, threshold, lambda: armed.fire("resource"), source))

    def check(self, condition: WakeCondition, world: World) -> None:
        """Refuse a resource without a limit, because the condition would always be met at once."""
        name, tracker = condition.value[0], world.rate_tracker
        if not tracker.limits(name):
            raise UsageError(
                f"a wake condition names the resource {name!r}, which has no limit", hint=_hint(name, tracker.resources)
            )


@wake_condition
class MessageCondition(ConditionType):
    """A message in the mailbox."""

    name = "message"
    reads = "whether a message waits for it"
    heads = (Argument("message", "true", "a message", False),)

    def valid(self, value: Any) -> bool:
        """Accept no value."""
        return value is None

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """See `ConditionType`."""
        return _any_message()

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Fire if the mailbox has a message that was not offered to rules before; otherwise watch the mailbox."""
        mailbox = armed.sleeper.mailbox
        if len(mailbox.queue):
            armed.fire("message")
        else:
            armed.keep(mailbox.watch(armed.message_came))


class _Several(ConditionType):
    """Several conditions."""

    reads = ""  # its parts say what they read

    def valid(self, value: Any) -> bool:
        """Accept a tuple of at least one condition."""
        if value.__class__ is not tuple or not value:
            return False
        return not [part for part in value if not isinstance(part, WakeCondition)]  # faster than `all`

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """See `ConditionType`."""
        parts, parse = mapping[head], WakeCondition.parse
        if not isinstance(parts, list | tuple):
            raise UsageError("any and all take a list of wake conditions")
        parsed = []
        for part in parts:
            if part.__class__ is not dict and not isinstance(part, Mapping):
                raise UsageError("any and all take a list of wake conditions")
            parsed.append(parse(part))
        return WakeCondition(self.name, tuple(parsed))

    def describe(self, condition: WakeCondition) -> Any:
        """Return the descriptions of the parts."""
        return [part.describe() for part in condition.value]

    def check(self, condition: WakeCondition, world: World) -> None:
        """Check the parts."""
        for part in condition.value:
            CONDITIONS[part.condition_type].check(part, world)


@wake_condition
class AnyCondition(_Several):
    """One of several conditions."""

    name = "any"
    heads = (Argument("any", "conditions", "one of these conditions", False),)

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Arm the parts in order, until one is met."""
        for part in condition.value:
            if armed.done:
                return
            if part.timeout_ns is None:
                CONDITIONS[part.condition_type].arm(armed, part)
            else:
                armed.part(part, armed.fire)

    def ends_in_time(self, condition: WakeCondition) -> bool:
        """Return whether at least one part ends in time."""
        for part in condition.value:  # not `any`, as agents fall asleep often
            if part.timeout_ns is not None or CONDITIONS[part.condition_type].ends_in_time(part):
                return True
        return False


@wake_condition
class AllCondition(_Several):
    """All of several conditions, in any order."""

    name = "all"
    heads = (Argument("all", "conditions", "all of these conditions, in any order", False),)

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """Arm all parts, and fire when the last one is met."""
        missing = len(condition.value)

        def one_met(cause: str) -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                armed.fire(cause)

        for part in condition.value:
            if armed.done:
                return
            armed.part(part, one_met)

    def ends_in_time(self, condition: WakeCondition) -> bool:
        """Return whether all parts end in time."""
        return all(part.ends_in_time for part in condition.value)


@wake_condition
class NeverCondition(ConditionType):
    """A sleep that only `wake` ends. Rules of a scenario cannot use it."""

    name = "never"
    reads = ""

    def valid(self, value: Any) -> bool:
        """Accept no value."""
        return value is None

    def parse(self, head: str, mapping: JsonObject) -> WakeCondition:
        """See `ConditionType`."""
        return WakeCondition.never()

    def arm(self, armed: Armed, condition: WakeCondition) -> None:
        """No-op: there is nothing to register."""


@lru_cache(maxsize=1)
def _any_message() -> WakeCondition:
    return WakeCondition.message()


@lru_cache(maxsize=4096)
def _where(text: str, further: tuple[str, ...]) -> Expression:
    return Expression.parse(text, (*_WHERE_NAMES, *further), PURE_FUNCTIONS)


def _filter(text: str | None, further: Names) -> Expression | None:
    if text is not None and not isinstance(text, str):
        raise UsageError(f"a filter is an expression as text, not {text!r:.100}")
    return None if text is None else _where(text, tuple(further))


def _passes(where: Expression, further: Names, event: Event) -> bool:
    names = {**further, "topic": event.topic, "data": event.data, "source": event.source, "time": event.time / 1e9}
    return bool(where.evaluate(names, PURE_FUNCTIONS))


def _timeout(value: Duration | None) -> int | None:
    return None if value is None else to_ns(value)


def _hint(word: str, names: Iterable[str]) -> str:
    return did_you_mean(word, names) or f"known are: {', '.join(list(names)[:20]) or 'none'}"
