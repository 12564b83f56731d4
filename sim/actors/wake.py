"""Wake conditions: what a sleeping agent waits for. Nothing is polled.

`WakeCondition` is the seed's record (`condition_type`, `value`) with messages, any-of, all-of, timeouts and filters
added.
Arming one registers with the clock, the bus, the rate tracker or the mailbox, which call back when it is met; so the
same condition serves an autonomous loop and the tick mode.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, Protocol

import attrs

from sim.errors import UsageError
from sim.events import Event
from sim.events.topic import check_pattern
from sim.expressions import PURE_FUNCTIONS, Expression, did_you_mean
from sim.kernel import Duration, to_ns, to_seconds
from sim.kernel.codec import decode, encode
from sim.world import World

ConditionType = Literal["time", "event", "resource", "message", "any", "all", "never"]

Met = Callable[[str], None]
"""Called once, with what met the condition: a condition type, or `timeout`."""

_WHERE_NAMES = ("topic", "data", "source", "time")


class Registration(Protocol):
    """What can be taken back."""

    def cancel(self) -> None:
        """Take it back; once it is over, this does nothing."""


class Sleeper(Protocol):
    """Who sleeps: what conditions need to know of an agent."""

    agent_id: str
    mailbox: Any
    woken_event: Event | None

    @property
    def loop(self) -> Any:
        """Its loop, which has an actor."""


@attrs.frozen
class WakeCondition:
    """Condition that wakes a sleeping agent (seed 004).

    Args:
        condition_type: what it waits for.
        value: simulated seconds since the start, or text such as `10m` (time), a topic pattern (event),
            (resource, threshold) (resource), a tuple of conditions (any, all).
        where: a filter on the event, over `topic`, `data`, `source` and `time`.
        timeout_ns: nanoseconds after which the agent wakes in any case.
        after: for time: `value` counts from when it is armed, not from the start.
        given: values of further names in `where`, as they were when the agent fell asleep.

    Attributes:
        time_ns: for time: `value` in nanoseconds.

    Raises:
        UsageError: if there is no such type of condition, or the value does not fit it.
    """

    condition_type: ConditionType
    value: Any = None
    where: Expression | None = None
    timeout_ns: int | None = None
    after: bool = False
    given: Mapping[str, Any] = attrs.field(factory=dict)
    time_ns: int = attrs.field(init=False, repr=False)

    @time_ns.default
    def _time_ns(self) -> int:
        return to_ns(self.value) if self.condition_type == "time" else 0

    def __attrs_post_init__(self) -> None:
        valid = _VALID.get(self.condition_type)
        if valid is None:
            raise UsageError(
                f"there is no wake condition {self.condition_type!r:.100}", hint=_hint(str(self.condition_type), _VALID)
            )
        if not valid(self.value):
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
        """Wake at a simulated time since the start."""
        return cls("time", time)

    @classmethod
    def after_delay(cls, delay: Duration) -> "WakeCondition":
        """Wake when a span of simulated time has passed."""
        return cls("time", delay, after=True)

    @classmethod
    def event(
        cls,
        pattern: str,
        *,
        where: str | None = None,
        given: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
    ) -> "WakeCondition":
        """Wake when an event matches a pattern, and a filter if one is given; `given` are further names in it."""
        return cls("event", pattern, _filter(where, given or {}), _timeout(timeout), given=given or {})

    @classmethod
    def resource(cls, name: str, threshold: float, *, timeout: Duration | None = None) -> "WakeCondition":
        """Wake when at least `threshold` of a rate-limited resource is left."""
        return cls("resource", (name, threshold), timeout_ns=_timeout(timeout))

    @classmethod
    def message(cls, *, timeout: Duration | None = None) -> "WakeCondition":
        """Wake when a message is in the mailbox."""
        return cls("message", timeout_ns=_timeout(timeout))

    @classmethod
    def any_of(cls, *parts: "WakeCondition", timeout: Duration | None = None) -> "WakeCondition":
        """Wake when one of several conditions is met."""
        return cls("any", parts, timeout_ns=_timeout(timeout))

    @classmethod
    def all_of(cls, *parts: "WakeCondition", timeout: Duration | None = None) -> "WakeCondition":
        """Wake when all of several conditions have been met, in any order."""
        return cls("all", parts, timeout_ns=_timeout(timeout))

    @classmethod
    def never(cls) -> "WakeCondition":
        """Sleep until somebody calls `wake`."""
        return cls("never")

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "WakeCondition":
        """Return the condition that a JSON-like mapping describes, for instance `{"event": "rain.*", "timeout": 60}`.

        Raises:
            UsageError: if it describes none.
        """
        kinds = [key for key in given if key in _PARSERS]
        allowed = {
            *kinds,
            "timeout",
            *(("where", "given") if kinds == ["event"] else ()),
            *(("at_least",) if kinds == ["resource"] else ()),
        }
        if len(kinds) != 1 or not allowed >= given.keys():
            raise UsageError(
                f"a wake condition has one of {', '.join(_PARSERS)}, not {', '.join(map(str, given)) or 'nothing'}"
            )
        condition = _PARSERS[kinds[0]](given[kinds[0]], given)
        if given.get("timeout") is not None:
            condition = attrs.evolve(condition, timeout_ns=to_ns(given["timeout"]))
        return condition

    @property
    def ends_in_time(self) -> bool:
        """Whether it is met by time alone at the latest: it has a timeout, or waits for a time."""
        if self.timeout_ns is not None or self.condition_type == "time":
            return True
        if self.condition_type == "any":
            return any(part.ends_in_time for part in self.value)
        return self.condition_type == "all" and all(part.ends_in_time for part in self.value)

    def describe(self) -> Any:
        """Return the condition as a JSON-like value, for the record.

        Raises:
            ActorError: if what is given to its filter is not JSON-like.
        """
        value = self.value
        if self.condition_type in ("any", "all"):
            value = [part.describe() for part in self.value]
        elif self.condition_type == "time":
            value = to_seconds(self.time_ns)
        return {
            "type": self.condition_type,
            "value": value,
            **({"where": self.where.text} if self.where else {}),
            **({"given": decode(encode(self.given))} if self.given else {}),
            **({"timeout": to_seconds(self.timeout_ns)} if self.timeout_ns is not None else {}),
        }


def check(condition: WakeCondition, world: World) -> None:
    """Find out before an agent sleeps whether `condition` can be armed in `world`.

    Raises:
        UsageError: if it names a resource without a limit: such a condition would be met at once, for ever.
    """
    if condition.condition_type in ("any", "all"):
        for part in condition.value:
            check(part, world)
    elif condition.condition_type == "resource":
        name = condition.value[0]
        tracker = world.rate_tracker
        if not tracker.limits(name):
            raise UsageError(
                f"a wake condition names the resource {name!r}, which has no limit", hint=_hint(name, tracker.resources)
            )


def arm(condition: WakeCondition, world: World, sleeper: Sleeper, met: Met) -> Registration:
    """Register `condition` for `sleeper`; `met` is called once when it is met, maybe at once."""
    armed = _Armed(world, sleeper, met)
    armed.add(condition)
    return armed


class _Armed:
    """One armed condition: whatever fires first ends it. There is one for each sleeper, so it is small."""

    __slots__ = ("done", "met", "registrations", "sleeper", "world")

    def __init__(self, world: World, sleeper: Sleeper, met: Met) -> None:
        self.world = world
        self.sleeper = sleeper
        self.met = met
        self.done = False
        self.registrations: tuple[Registration, ...] = ()

    def add(self, condition: WakeCondition) -> None:
        if condition.timeout_ns is not None:
            self._after(condition.timeout_ns, self._timed_out)
        if not self.done:
            getattr(self, f"_{condition.condition_type}")(condition)

    def fire(self, cause: str) -> None:
        if not self.done:
            actor = self.sleeper.loop.actor
            with self.world.kernel.acting_as(actor):  # what wakes it must not count for who woke it
                self.cancel()
                self.met(cause)

    def cancel(self) -> None:
        self.done = True
        registrations, self.registrations = self.registrations, ()
        for registration in registrations:
            registration.cancel()

    def _keep(self, registration: Registration) -> None:
        self.registrations += (registration,)

    def _after(self, delay: int, ring: Callable[[], None]) -> None:
        kernel = self.world.kernel
        self._keep(kernel.call_at(kernel.now + delay, ring))

    def _timed_out(self) -> None:
        self.fire("timeout")

    def _time_came(self) -> None:
        self.fire("time")

    def _time(self, condition: WakeCondition) -> None:
        due = condition.time_ns
        self._after(due if condition.after else max(0, due - self.world.kernel.now), self._time_came)

    def _event(self, condition: WakeCondition) -> None:
        bus, where = self.world.event_bus, condition.where
        test = None if where is None else (lambda event: _passes(where, condition.given, event))
        missed = bus.missed_event(self.sleeper.agent_id, condition.value, test)
        if missed is not None:
            self(missed)
        elif bus.overtaken(self.sleeper.agent_id):
            self.fire("event")  # perhaps for nothing, but never too late
        else:
            self._keep(bus.subscribe(condition.value, filter=test, callback=self))

    def __call__(self, event: Event) -> None:
        """An event has happened: the condition is the subscriber, which spares a bound method for each sleeper.

        What the sleeper publishes itself, in the rest of its iteration, does not wake it: what it published in the
        part before does not either.
        """
        if not self.done and event.source != self.sleeper.agent_id:
            self.sleeper.woken_event = event
            self.fire("event")

    def _resource(self, condition: WakeCondition) -> None:
        name, threshold = condition.value
        id, source = self.sleeper.agent_id, self.sleeper.loop.actor  # its own: what others watch leaves no trace here
        self._keep(self.world.rate_tracker.on_level(id, name, threshold, lambda: self.fire("resource"), source))

    def _message(self, condition: WakeCondition) -> None:
        mailbox = self.sleeper.mailbox
        if len(mailbox):
            self.fire("message")
        else:
            self._keep(mailbox.watch(lambda: self.fire("message")))

    def _never(self, condition: WakeCondition) -> None:
        pass

    def _any(self, condition: WakeCondition) -> None:
        for part in condition.value:
            if self.done:
                return
            self._part(part, self.fire)

    def _all(self, condition: WakeCondition) -> None:
        missing = len(condition.value)

        def one_met(cause: str) -> None:
            nonlocal missing
            missing -= 1
            if missing == 0:
                self.fire(cause)

        for part in condition.value:
            if self.done:
                return
            self._part(part, one_met)

    def _part(self, part: WakeCondition, met: Met) -> None:
        armed = _Armed(self.world, self.sleeper, met)
        self._keep(armed)
        armed.add(part)


@lru_cache(maxsize=4096)
def _where(text: str, given: tuple[str, ...]) -> Expression:
    return Expression.parse(text, (*_WHERE_NAMES, *given), PURE_FUNCTIONS)


def _filter(text: str | None, given: Mapping[str, Any]) -> Expression | None:
    if text is not None and not isinstance(text, str):
        raise UsageError(f"a filter is an expression as text, not {text!r:.100}")
    return None if text is None else _where(text, tuple(given))


def _passes(where: Expression, given: Mapping[str, Any], event: Event) -> bool:
    names = {**given, "topic": event.topic, "data": event.data, "source": event.source, "time": event.time / 1e9}
    return bool(where.evaluate(names, PURE_FUNCTIONS))


def _timeout(value: Duration | None) -> int | None:
    return None if value is None else to_ns(value)


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and bool(check_pattern(value))


def _is_level(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    name, threshold = value
    number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    return isinstance(name, str) and number and math.isfinite(threshold)


def _are_conditions(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(isinstance(part, WakeCondition) for part in value)


_VALID: dict[str, Callable[[Any], bool]] = {
    "time": lambda value: True,  # checked by to_ns
    "event": _is_pattern,
    "resource": _is_level,
    "any": _are_conditions,
    "all": _are_conditions,
    "message": lambda value: value is None,
    "never": lambda value: value is None,
}


def _hint(word: str, known: Iterable[str]) -> str:
    return did_you_mean(word, known) or f"known are: {', '.join(list(known)[:20]) or 'none'}"


def _parts(given: Any) -> tuple[WakeCondition, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(part, Mapping) for part in given):
        raise UsageError("any and all take a list of wake conditions")
    return tuple(WakeCondition.parse(part) for part in given)


_PARSERS: dict[str, Callable[[Any, Mapping[str, Any]], WakeCondition]] = {
    "for": lambda value, given: WakeCondition.after_delay(value),
    "until": lambda value, given: WakeCondition.at(value),
    "event": lambda value, given: WakeCondition.event(value, where=given.get("where"), given=given.get("given")),
    "resource": lambda value, given: WakeCondition.resource(value, given.get("at_least", 1)),
    "message": lambda value, given: WakeCondition.message(),
    "any": lambda value, given: WakeCondition("any", _parts(value)),
    "all": lambda value, given: WakeCondition("all", _parts(value)),
}
