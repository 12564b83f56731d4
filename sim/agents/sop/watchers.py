"""Watchers: what each has looked at so far, and what it finds new."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.agents.sop.settings import Watcher
from sim.agents.sop.values import Evaluator
from sim.errors import LimitError
from sim.events import Event
from sim.world import World

MOST_EVENTS: Final = 10_000
"""How many events wait for the next look of a watcher. Of more, the oldest are lost, and counted."""

MOST_KEYS: Final = 1_000_000
"""How many keys a watcher knows at most. A finding beyond is an error: it could be an old one."""


@attrs.frozen
class Look:
    """What a watcher finds.

    Attributes:
        time_ns: when it looked, in simulated nanoseconds.
        holding: the keys of all that fits its condition.
        new: the new findings by key, in order.
    """

    time_ns: int
    holding: Mapping[str, None]
    new: Mapping[str, Any]


@attrs.define
class WatcherState:
    """What a watcher knows.

    Attributes:
        name: its name.
        settings: what it does.
        last_checked_ns: when it looked last, in simulated nanoseconds; None: never.
        found: the number of its findings.
        missed: the number of events that were lost because too many waited.
        fault: why it could not look last; empty: it could.
    """

    name: str
    settings: Watcher
    last_checked_ns: int | None = None
    found: int = 0
    missed: int = 0
    fault: str = ""
    _keys: dict[str, None] = attrs.field(factory=dict)
    _events: deque[tuple[int, Any]] = attrs.field(factory=deque)

    def listen(self, world: World) -> None:
        """Keep the events of the watcher until it looks."""
        if self.settings.event is not None:
            world.event_bus.subscribe(self.settings.event, callback=self._keep)

    def _keep(self, event: Event) -> None:
        if len(self._events) >= MOST_EVENTS:
            self._events.popleft()
            self.missed += 1
        self._events.append((event.sequence, event.data))

    def due_ns(self, now_ns: int) -> int:
        """Return when it looks next, in simulated nanoseconds; now, if it never looked."""
        return now_ns if self.last_checked_ns is None else self.last_checked_ns + self.settings.interval

    def look(self, world: World, agent: Agent, evaluator: Evaluator) -> "Look":
        """Return what the watcher finds. `take` makes it known; until then, nothing has changed.

        Args:
            world: the world.
            agent: the employee for whom it looks, with whose rights it reads.
            evaluator: evaluates its expressions.

        Raises:
            ExpressionError: if an expression cannot be evaluated.
            LimitError: if there are too many keys.
        """
        holding, new = dict[str, None](), dict[str, Any]()
        for key, item in self._items(world, agent):
            if self.settings.where is not None and not evaluator.value(self.settings.where, agent, item=item):
                continue
            name = key if self.settings.key is None else evaluator.text(self.settings.key, agent, item=item)
            holding[name] = None
            if name not in self._keys and name not in new:
                new[name] = item
        if len(self._keys) + len(new) > MOST_KEYS:
            many = len(self._keys) + len(new)
            raise LimitError(f"known findings of the watcher {self.name}", many, MOST_KEYS, agent.agent_id)
        return Look(world.kernel.now, holding, new)

    def take(self, look: "Look") -> None:
        """Make the findings of a look known, so that none is found again."""
        self._events.clear()
        self.fault = ""
        if self.settings.pool is not None:
            self._keys = {key: None for key in self._keys if key in look.holding}  # so that it can be found again
        if self.settings.event is None or self.settings.key is not None:  # an event itself comes once
            self._keys.update(dict.fromkeys(look.new))
        self.last_checked_ns = look.time_ns
        self.found += len(look.new)

    def _items(self, world: World, agent: Agent) -> Iterator[tuple[str, Any]]:
        """Yield what it looks at now, with the usual key of each."""
        settings = self.settings
        if settings.event is not None:
            yield from ((str(number), data) for number, data in self._events)
        elif settings.pool is not None:
            pool = world.pools[settings.pool]
            yield settings.pool, {"pool": settings.pool, "level": pool.level, "queue": pool.queue}
        elif settings.artifact is not None:
            yield from _entries(world.readable(agent.agent_id, settings.artifact))
        else:
            late = _LATE[settings.tasks or "overdue"]
            for task in world.tasks.open(agent.agent_id):
                if late(task, world.kernel.now):
                    yield str(task.id), task.to_json()

    def state(self) -> Any:
        """Return what it knows, for the digest."""
        return [self.last_checked_ns, self.found, self.missed, list(self._keys), list(map(list, self._events))]


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list or mapping, with their keys."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            item = {"key": key, **value} if isinstance(value, Mapping) else {"key": key, "value": value}
            yield str(key), item
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            named = value.get("id", index) if isinstance(value, Mapping) else index
            yield str(named), value


def is_overdue(task: Any, now_ns: int) -> bool:
    """Return whether a task is overdue."""
    return task.due_ns is not None and task.due_ns <= now_ns


def is_stalled(task: Any, now_ns: int) -> bool:
    """Return whether nobody has changed a task for too long."""
    return task.stalled_after_ns is not None and task.updated_ns + task.stalled_after_ns <= now_ns


_LATE: Final[Mapping[str, Callable[[Any, int], bool]]] = {"overdue": is_overdue, "stalled": is_stalled}
