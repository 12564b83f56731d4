"""What is known of each name at one time of a run, and what each event changes in it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from sim.actors import AgentState
from sim.events.coerce import mapping
from sim.events.topic import is_own
from sim.inspect.viewer.map import Map
from sim.inspect.viewer.names import Names, Topics
from sim.inspect.viewer.starts import Money, Start
from sim.resources import MICRO

STATES: Final = tuple(str(state) for state in AgentState)
STATE, PLACE, BALANCE, ACTION, EVENT, DOING = range(6)
"""The fields of a name: the state of its loop, where it is, what it owns, the topics of its last action and event, and
the activity that others see.
"""

_NUMBERS: Final = {state: number for number, state in enumerate(STATES)}
_LONGEST: Final = 100  # characters of an activity

Change = tuple[int, int, Any]
"""A name, a field, and its new value."""


class States:
    """The state of all names after the events so far.

    Args:
        names: the names.
        ground: where places are.
        start: what is known of the start of the run.
        money: finds payments.

    Attributes:
        counts: how many agents are in each state.
        activities: the activities that others see.
    """

    def __init__(self, names: Names, ground: Map, start: Start, money: Money) -> None:
        self._names, self._map, self._start, self._money = names, ground, start, money
        self._fields: tuple[list[Any], ...] = ([], [], [], [], [], [])
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

    def changes(self, actor: int, time_ns: int, topic: str, data: Mapping[str, Any], number: int) -> list[Change]:
        """Take in an event, and return what it changes.

        Args:
            actor: the number of its actor.
            time_ns: when it happened.
            topic, data: what happened.
            number: the number of the topic.
        """
        self._grow()
        found: list[Change] = []
        if topic == "agent.state":
            self._state(actor, data, found)
        elif topic.startswith("action."):
            found.append((actor, ACTION, number))
            if topic == "action.walk" and data.get("success"):
                self._walk(actor, time_ns, mapping(data.get("arguments")), found)
        elif topic == "place.entered":
            self._move(self._names.number(str(data.get("agent"))), data.get("to"), found)
        elif self._names.is_agent(actor) and not is_own(topic):
            found.append((actor, EVENT, number))
        if (paid := self._money.paid(self._names.labels[actor], topic, data)) is not None:
            self._pay(*paid, found)
        for name, field, value in found:
            self._grow()
            self._fields[field][name] = value
        return found

    def _state(self, actor: int, data: Mapping[str, Any], found: list[Change]) -> None:
        after = _NUMBERS.get(str(data.get("to")))
        if after is None or data.get("reason") == "end":  # at the end all stop
            return
        self._names.make_agent(actor)
        before = self._fields[STATE][actor]
        if before >= 0:
            self.counts[before] -= 1
        self.counts[after] += 1
        found.append((actor, STATE, after))

    def _walk(self, actor: int, time_ns: int, arguments: Mapping[str, Any], found: list[Change]) -> None:
        to, doing = arguments.get("to"), arguments.get("doing")
        if doing and isinstance(doing, str):
            found.append((actor, DOING, self.activities.number(doing[:_LONGEST])))
        if not _is_position(to):
            if isinstance(to, str):
                self._move(actor, to, found)
            return
        before = self._fields[PLACE][actor]
        x, y = before[:2] if isinstance(before, list) else to
        if not isinstance(before, list) or [x, y] != list(to):
            self._map.stand(*to)
            found.append((actor, PLACE, [*to, x, y, time_ns / 1e9]))

    def _move(self, name: int, to: Any, found: list[Change]) -> None:
        after = self._map.place(to)
        if name < len(self._fields[PLACE]) and isinstance(before := self._fields[PLACE][name], int):
            self._map.moved(before, after)
        found.append((name, PLACE, after))

    def _pay(self, source: str, target: str, micro: int, found: list[Change]) -> None:
        for account, amount in ((source, -micro), (target, micro)):
            name = self._names.number(account)
            self._grow()
            if name in self._micro:
                self._micro[name] += amount
                found.append((name, BALANCE, self._micro[name] / MICRO))

    def _grow(self) -> None:
        """Give new names what they have at the start."""
        labels = self._names.labels
        for number in range(len(self._fields[STATE]), len(labels)):
            actor = labels[number] if self._names.known(labels[number]) == number else None
            micro = None if actor is None else self._start.balances.get(actor)
            if micro is not None:
                self._micro[number] = micro
            values = (-1, self._place(actor), None if micro is None else micro / MICRO, -1, -1, -1)
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
