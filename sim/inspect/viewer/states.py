"""What is known of each name at one time of a run, and what each event changes in it."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

import attrs

from sim.actors import AgentState
from sim.events.coerce import mapping
from sim.events.topic import is_own
from sim.inspect.viewer.map import GroundMap
from sim.inspect.viewer.names import NameTable, Topics
from sim.inspect.viewer.starts import Money, Start
from sim.kernel.codec import Json, JsonObject, encode
from sim.resources import MICRO
from sim.runner.events import StateSampled
from sim.scenario.schema import MOST_RECORDED

STATES: Final = tuple(str(state) for state in AgentState)
STATE, PLACE, BALANCE, ACTION, EVENT, DOING = range(6)
"""The fields of a name: the state of its loop, where it is, what it owns, the topics of its last action and event, and
the activity that others see. After these, each state variable on record has a field.
"""

MOST_VALUES: Final = 12
"""The most different values of a variable that each have a colour of their own."""

_NUMBERS: Final = {state: number for number, state in enumerate(STATES)}
_LONGEST: Final = 100  # characters of an activity

Change = tuple[int, int, Any]
"""A name, a field, and its new value."""


@attrs.define
class Variable:
    """A state variable that is recorded over time.

    Attributes:
        field: its field.
        low, high: the least and the greatest number that it had; None if it had another value.
        values: its different values; None if there are more than `MOST_VALUES`.
    """

    field: int
    low: float | None = math.inf
    high: float | None = -math.inf
    values: set[float | str] | None = attrs.field(factory=set)

    def take(self, value: Any) -> float | str | None:
        """Take in a value, and return it as a page shows it: a number, or a text."""
        if value is None:
            return None
        shown: float | str = value
        if isinstance(value, bool) or not isinstance(value, int | float):
            shown = value[:_LONGEST] if isinstance(value, str) else _json(value)
            self.low = self.high = None
        elif self.low is not None and self.high is not None:
            self.low, self.high = min(self.low, value), max(self.high, value)
        if self.values is not None:
            self.values.add(shown)
            if len(self.values) > MOST_VALUES:
                self.values = None
        return shown

    def to_json(self, name: str) -> dict[str, Json]:
        """Return what a page needs to colour by it."""
        values = None if self.values is None else sorted(self.values, key=lambda one: (isinstance(one, str), one))
        low, high = (None, None) if self.low == math.inf else (self.low, self.high)  # no value so far
        return {"name": name, "field": self.field, "low": low, "high": high, "values": values}


def _json(value: Any) -> str:
    return encode(value).decode()[:_LONGEST]


class NameStates:
    """The state of all names after the events so far.

    Args:
        names: the names.
        ground: where places are.
        start: what is known of the start of the run.
        money: finds payments.

    Attributes:
        counts: how many agents are in each state.
        variables: the state variables on record, by name.
        activities: the activities that others see.
    """

    def __init__(self, names: NameTable, ground: GroundMap, start: Start, money: Money) -> None:
        self._names, self._map, self._start, self._money = names, ground, start, money
        self._fields: list[list[Any]] = [[], [], [], [], [], []]
        self.variables: dict[str, Variable] = {}
        self.activities = Topics()
        self._micro: dict[int, int] = {}
        self.counts: Counter[int] = Counter()
        for account in start.balances:
            names.number(account)
        self._grow()

    def keyframe(self) -> list[list[Any]]:
        """Return the value of each field of each name."""
        self._grow()
        return [list(values) for values in self._fields]

    def changes(self, actor: int, time_ns: int, topic: str, data: JsonObject, number: int) -> list[Change]:
        """Take in an event, and return what it changes.

        Args:
            actor: the number of its actor.
            time_ns: when it happened.
            topic, data: what happened.
            number: the number of the topic.
        """
        self._grow()
        changes: list[Change] = []
        if topic == "agent.state":
            self._state(actor, data, changes)
        elif topic.startswith("action."):
            changes.append((actor, ACTION, number))
            if topic == "action.walk" and data.get("success"):
                self._walk(actor, time_ns, mapping(data.get("arguments")), changes)
        elif topic == StateSampled.TOPIC:
            self._sample(data, changes)
        elif topic == "place.entered":
            self._move(self._names.number(str(data.get("agent"))), data.get("to"), changes)
        elif self._names.is_agent(actor) and not is_own(topic):
            changes.append((actor, EVENT, number))
        if (paid := self._money.paid(self._names.labels[actor], topic, data)) is not None:
            self._pay(*paid, changes)
        for name, field, value in changes:
            self._grow()
            self._fields[field][name] = value
        return changes

    def _state(self, actor: int, data: JsonObject, changes: list[Change]) -> None:
        after = _NUMBERS.get(str(data.get("to")))
        if after is None or data.get("reason") == "end":  # at the end all stop
            return
        self._names.make_agent(actor)
        before = self._fields[STATE][actor]
        if before >= 0:
            self.counts[before] -= 1
        self.counts[after] += 1
        changes.append((actor, STATE, after))

    def _sample(self, data: JsonObject, changes: list[Change]) -> None:
        for name, values in data.items():
            variable = self.variables.get(name)
            if variable is None:
                if len(self.variables) >= MOST_RECORDED:  # more than a scenario can name
                    continue
                variable = self.variables[name] = Variable(len(self._fields))
                self._fields.append([None] * len(self._names.labels))
            for agent, value in mapping(values).items():
                changes.append((self._names.number(agent), variable.field, variable.take(value)))

    def _walk(self, actor: int, time_ns: int, arguments: JsonObject, changes: list[Change]) -> None:
        to, doing = arguments.get("to"), arguments.get("doing")
        if doing and isinstance(doing, str):
            changes.append((actor, DOING, self.activities.number(doing[:_LONGEST])))
        if not _is_position(to):
            if isinstance(to, str):
                self._move(actor, to, changes)
            return
        before = self._fields[PLACE][actor]
        x, y = before[:2] if isinstance(before, list) else to
        if not isinstance(before, list) or [x, y] != list(to):
            self._map.stand(*to)
            changes.append((actor, PLACE, [*to, x, y, time_ns / 1e9]))

    def _move(self, name: int, to: Any, changes: list[Change]) -> None:
        after = self._map.place(to)
        if name < len(self._fields[PLACE]) and isinstance(before := self._fields[PLACE][name], int):
            self._map.moved(before, after)
        changes.append((name, PLACE, after))

    def _pay(self, source: str, target: str, micro: int, changes: list[Change]) -> None:
        for account, amount in ((source, -micro), (target, micro)):
            name = self._names.number(account)
            self._grow()
            if name in self._micro:
                self._micro[name] += amount
                changes.append((name, BALANCE, self._micro[name] / MICRO))

    def _grow(self) -> None:
        """Give new names what they have at the start."""
        labels = self._names.labels
        if len(labels) == len(self._fields[STATE]):
            return
        for number in range(len(self._fields[STATE]), len(labels)):
            actor = labels[number] if self._names.actor_number(labels[number]) == number else None
            micro = None if actor is None else self._start.balances.get(actor)
            if micro is not None:
                self._micro[number] = micro
            balance = None if micro is None else micro / MICRO
            values = (-1, self._place(actor), balance, -1, -1, -1, *(None,) * len(self.variables))
            for field, value in zip(self._fields, values, strict=True):
                field.append(value)

    def _place(self, actor: str | None) -> Any:
        if actor is None:
            return -1
        at = self._start.positions.get(actor)
        if _is_position(at):
            return [*at, *at, 0]
        return self._map.place(at if isinstance(at, str) else self._start.places.get(actor))


def _is_position(value: Any) -> TypeGuard[Sequence[float]]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(isinstance(part, int | float) and abs(part) < 1e12 and part.__class__ is not bool for part in value)
