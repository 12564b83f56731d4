"""The mind of an agent: what the service keeps of it beside its memories."""

from array import array
from collections.abc import Iterator
from typing import Any

import attrs

from sim.kinds.generative.plans import HOME, Item, item_at, lines, shown
from sim.kinds.town.routine import HOUR, TOWN, WIDTH, Resident, Spot, place_at

_STEPS_A_MINUTE = HOUR // 60


@attrs.define
class Mind:
    """What is kept of one agent.

    Attributes:
        agent: its name.
        number: its number in the town, from 0.
        resident: the resident of the town whose days it has.
        xs, ys: where the resident is, by step of the day.
        day: the number of the day that is planned, from 0; -1: none.
        hour: the hour of that day that is planned; -1: none.
        plans: the items of the plan by level.
        recalled_ns: when each memory was recalled last, by its number.
        importance: the sum of the importance of memories since the latest reflection.
        seen: its latest observations, the newest last.
        talked_ns: when it talked last, by the name of the other.
        talking: whether it talks now.
        next_ns: when it looks around next.
        doing: what it does.
        begun: whether it has its first memories.
    """

    agent: str
    number: int
    resident: Resident
    xs: "array[int]"
    ys: "array[int]"
    day: int = -1
    hour: int = -1
    plans: dict[str, list[Item]] = attrs.field(factory=dict)
    recalled_ns: dict[int, int] = attrs.field(factory=dict)
    importance: int = 0
    seen: list[str] = attrs.field(factory=list)
    talked_ns: dict[str, int] = attrs.field(factory=dict)
    talking: bool = False
    next_ns: int = 0
    doing: str = ""
    begun: bool = False

    def items(self, minute: int) -> Iterator[Item]:
        """Yield what its plans say for a minute of the day: that of minutes, that of the hour, that of the day."""
        current = (item_at(self.plans.get(level, ()), minute) for level in ("minutes", "hour", "day"))
        return (item for item in current if item is not None)

    def place(self, minute: int) -> str | None:
        """Return where its plans have it at a minute of the day; None: where the resident is."""
        return next((item.place for item in self.items(minute) if item.place is not None), None)

    def spot(self, step: int) -> Spot:
        """Return where the resident is at a step of the day."""
        return self.xs[step], self.ys[step]

    @property
    def offset(self) -> int:
        """Where its town begins along x: several towns are side by side."""
        return self.number // TOWN * WIDTH

    @property
    def bed(self) -> Spot:
        """Where it sleeps."""
        return self.xs[0], self.ys[0]

    def usual_place(self, step: int) -> str:
        """Return where the resident is at a step of the day, or is going to."""
        walks = reversed(self.resident.walks)
        return place_at(next((goal for start, goal in walks if start <= step), self.resident.bed))

    def usual_day(self) -> list[str]:
        """Return the day of the resident as a plan."""
        lines = [f"{shown(self.resident.wakes // _STEPS_A_MINUTE)} is at home"]
        before = HOME
        for step, goal in self.resident.walks[:-1]:
            place = place_at(goal)
            if place != before and step > self.resident.wakes:
                where = "at home" if place == HOME else f"at the {place}"
                lines.append(f"{shown(-(-step // _STEPS_A_MINUTE))} is {where}")
            before = place
        return lines

    def state(self) -> list[Any]:
        """Return all of it, JSON-like, for the digest."""
        plans = {level: lines(items) for level, items in self.plans.items()}
        recalled = {str(id): time for id, time in sorted(self.recalled_ns.items())}
        talked = dict(sorted(self.talked_ns.items()))
        past = [self.day, self.hour, plans, recalled, self.importance, self.seen, talked]
        return [*past, self.talking, self.next_ns, self.doing]
