"""Watchers: what each has looked at so far, and what it finds new."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.base.errors import LimitError, UsageError
from sim.base.expressions import ExpressionError
from sim.events import Event
from sim.kernel.codec import Json, JsonObject, Raw, freeze
from sim.kinds.sop.settings import Watcher
from sim.kinds.sop.values import Evaluator
from sim.world import World

MOST_EVENTS: Final = 10_000
"""How many events wait for the next look of a watcher. Of more, the oldest are lost, and counted."""

MOST_KEYS: Final = 1_000_000
"""How many keys a watcher knows at most. A finding beyond is an error: it could be an old one."""


@attrs.frozen
class Unfit:
    """A finding that a watcher cannot judge.

    Args:
        key: its usual key.
        item: what was found.
        why: the reason.
    """

    key: str
    item: Any
    why: str


@attrs.frozen
class Look:
    """What a watcher finds.

    Attributes:
        time_ns: when it looked, in simulated nanoseconds.
        holding: the keys of all that fits its condition.
        new: the new findings by key, in order.
        unfit: what it cannot judge, and has not reported before.
        waiting: the number of events that it left for its next look, because no more tasks can be made.
    """

    time_ns: int
    holding: Mapping[str, None]
    new: JsonObject
    unfit: tuple[Unfit, ...]
    waiting: int = 0


@attrs.define
class WatcherState:
    """What a watcher knows.

    Attributes:
        name: its name.
        settings: what it does.
        last_checked_ns: when it looked last, in simulated nanoseconds; None: never.
        findings: the number of its findings.
        missed: the number of events that were lost because too many waited.
    """

    name: str
    settings: Watcher
    last_checked_ns: int | None = None
    findings: int = 0
    missed: int = 0
    _heard: int = 0  # the number of its events so far, by which they are distinguished
    _keys: dict[str, None] = attrs.field(factory=dict)
    _unfit: dict[str, Raw] = attrs.field(factory=dict)  # what it has reported, by usual key
    _events: deque[tuple[int, Any]] = attrs.field(factory=deque)

    def listen(self, world: World) -> None:
        """Keep the events of the watcher until it looks. One that is not active keeps none."""
        if self.settings.event is not None and self.settings.active:
            world.event_bus.subscribe(self.settings.event, callback=self._keep)

    def _keep(self, event: Event) -> None:
        if len(self._events) >= MOST_EVENTS:
            self._events.popleft()
            self.missed += 1
        self._heard += 1
        self._events.append((self._heard, event.data))

    def due_ns(self, now_ns: int) -> int:
        """Return when it looks next, in simulated nanoseconds; now, if it never looked."""
        return now_ns if self.last_checked_ns is None else self.last_checked_ns + self.settings.interval

    def look(self, world: World, agent: Agent, evaluator: Evaluator, most: int) -> "Look":
        """Return what the watcher finds. `take` makes it known; until then, nothing has changed.

        Each item is judged by itself: one that fails is unfit, and the others are found all the same.

        Args:
            world: the world.
            agent: the employee for whom it looks, with whose rights it reads.
            evaluator: evaluates its expressions.
            most: the most new findings; what is beyond waits for the next look.

        Raises:
            LimitError: if there are too many keys.
            Refused: if what it looks at cannot be read.
            UsageError: if what it looks at has no items.
        """
        holding, new, unfit, waiting = dict[str, None](), dict[str, Json](), list[Unfit](), 0
        for key, item in self._items(world, agent):
            if len(new) >= most:
                waiting += 1
                continue
            try:
                if self.settings.where is not None and not evaluator.value(self.settings.where, agent, item=item):
                    continue
                name = key if self.settings.key is None else evaluator.text(self.settings.key, agent, item=item)
            except ExpressionError as error:
                if self._unfit.get(key) != freeze(item):
                    unfit.append(Unfit(key, item, str(error)))
                continue
            holding[name] = None
            if name not in self._keys and name not in new and self._unfit.get(name) != freeze(item):
                new[name] = item
        if len(self._keys) + len(self._unfit) + len(new) + len(unfit) > MOST_KEYS:
            many = len(self._keys) + len(self._unfit) + len(new) + len(unfit)
            raise LimitError(f"known findings of the watcher {self.name}", many, MOST_KEYS, agent.agent_id)
        return Look(world.kernel.now, holding, new, tuple(unfit), waiting)

    def take(self, look: "Look", unfit: Iterable[Unfit]) -> None:
        """Make the findings of a look known, so that none is found or reported again.

        Args:
            look: the look.
            unfit: what no task can be made of. It is looked at again when it has changed.
        """
        for _ in range(len(self._events) - look.waiting):
            self._events.popleft()
        if self.settings.pool is not None:
            self._keys = {key: None for key in self._keys if key in look.holding}  # so that it can be found again
        gone = {one.key for one in unfit}
        if self.settings.event is None or self.settings.key is not None:  # an event itself comes once
            self._keys.update(dict.fromkeys(key for key in look.new if key not in gone))
        if self.settings.event is None:
            self._unfit.update((one.key, freeze(one.item)) for one in unfit)
        self.last_checked_ns = look.time_ns
        self.findings += len(look.new)

    def _items(self, world: World, agent: Agent) -> Iterator[tuple[str, Any]]:
        """Yield what it looks at now, with the usual key of each."""
        settings = self.settings
        if settings.event is not None:
            yield from ((str(number), data) for number, data in self._events)
        elif settings.pool is not None:
            pool = world.pools[settings.pool]
            yield settings.pool, {"pool": settings.pool, "level": pool.level, "queue": pool.queue}
        elif settings.artifact is not None:
            yield from _entries(settings.artifact, world.readable(agent.agent_id, settings.artifact))
        else:
            late = _LATE[settings.tasks or "overdue"]
            for task in world.tasks.open(agent.agent_id):
                if late(task, world.kernel.now):
                    yield str(task.id), task.to_json()

    def state(self) -> Any:
        """Return what it knows, for the digest."""
        seen = [list(self._keys), dict(self._unfit)]
        return [self.last_checked_ns, self.findings, self.missed, *seen, list(map(list, self._events))]


def _entries(artifact: str, content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list or mapping, with their keys.

    Raises:
        UsageError: if the content is neither.
    """
    if isinstance(content, Mapping):
        for key, value in content.items():
            item = {"key": key, **value} if isinstance(value, Mapping) else {"key": key, "value": value}
            yield str(key), item
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            named = value.get("id", index) if isinstance(value, Mapping) else index
            yield str(named), value
    else:
        hint = "its items would be the findings"
        raise UsageError(f"the artifact {artifact} is neither a list nor a mapping", hint=hint)


def is_overdue(task: Any, now_ns: int) -> bool:
    """Return whether a task is overdue."""
    return task.due_ns is not None and task.due_ns <= now_ns


def is_stalled(task: Any, now_ns: int) -> bool:
    """Return whether a task is unchanged for too long."""
    return task.stalled_after_ns is not None and task.updated_ns + task.stalled_after_ns <= now_ns


_LATE: Final[Mapping[str, Callable[[Any, int], bool]]] = {"overdue": is_overdue, "stalled": is_stalled}
