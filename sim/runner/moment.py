"""A moment of a run: the state of its world and of its agents at one time, read while a replay stands there.

Reading changes nothing. What an agent waits for is known from its change of state, its iteration, its timers and the
calls that it has made, so nothing is kept for it during a run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Self, TypedDict

import attrs

from sim.actors import Agent, AgentLoop
from sim.actors.events import StateChanged
from sim.actors.lifecycle import Phase
from sim.actors.mailbox import message_names
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.pages import Table
from sim.base.text import plain
from sim.kernel import to_seconds
from sim.kernel.codec import Json, JsonObject, decode, encode
from sim.kernel.duration import seconds_text
from sim.kernel.effects import EffectHandle
from sim.kernel.kernel import Kernel, Timer
from sim.kernel.order import WakeBatch
from sim.kernel.ports import Recorder
from sim.kernel.rows import EventRow, IntentRow
from sim.resources import MICRO
from sim.runner.runner import RunController
from sim.world import World

MOST_LETTERS: Final = 100
"""The most messages of a mailbox that a moment has; `mail` counts all."""

_ROWS: Final = 60  # how many agents a moment is shown with in a notebook


class MomentWatch:
    """A recorder that passes everything on, and keeps what the state of a world does not say.

    Args:
        inner: the recorder.

    Attributes:
        changes: by agent, the time of its latest change of state (nanoseconds), the state, and why.
        begun: by actor and number, when its effect started, in nanoseconds.
    """

    def __init__(self, inner: Recorder) -> None:
        self.inner = inner
        self.changes: dict[str, tuple[int, str, Any]] = {}
        self.begun: dict[tuple[str, int], int] = {}
        self._event = inner.event

    def event(self, row: EventRow, /) -> None:
        """Pass on an event, and keep it if it is a change of state."""
        self._event(row)
        self.unrecorded(row)

    def unrecorded(self, row: EventRow, /) -> None:
        """Keep an event that is not on record, if it is a change of state."""
        if isinstance(data := row[7], StateChanged):
            self.changes[row[5]] = (row[0], str(data.after), data.reason)

    def intent(self, row: IntentRow, /) -> None:
        """Pass on the start of an effect, and keep its time."""
        self.begun[row.actor, row.ordinal] = row.time_ns
        self.inner.intent(row)

    def __getattr__(self, name: str) -> Any:
        """Return any other method or attribute of the inner recorder."""
        return getattr(self.inner, name)


class AgentTimer(TypedDict):
    """What is due for an agent, and when, in seconds."""

    at: float
    what: str


class WorldTimer(AgentTimer):
    """What is due that belongs to no agent: `whose` is a source of the kernel."""

    whose: str


Letter = TypedDict("Letter", {"sender": str, "topic": str, "data": Json, "time": float, "is": str})
"""A message in a mailbox, its time in seconds. `is`: `new`, `left` or `set aside`."""


class OpenCall(TypedDict):
    """A call of an agent outside the run that has no answer; `held`: it is not sent yet. `since` is in seconds."""

    number: int
    kind: str
    since: float
    held: bool
    request: Json


class AgentThen(TypedDict):
    """What an agent is and does at a moment; times are in seconds, the balance in units of money."""

    state: str
    since: float
    why: Json
    entry: str | None
    kind: str
    iterations: int
    began: float | None
    doing: str | None
    arguments: JsonObject | None
    errors: int
    woken_by: str | None
    variables: JsonObject
    mail: int
    letters: list[Letter]
    timers: list[AgentTimer]
    calls: list[OpenCall]
    tasks: list[JsonObject]
    place: str | None
    space: Json
    holds: Mapping[str, int]
    quotas: Mapping[str, int]
    balance: float | None
    more: Json


@attrs.frozen(repr=False)
class Moment:
    """The state of a run at one time.

    Attributes:
        run: the folder of the run.
        time: the simulated time, in seconds.
        events: how many events are on record until then.
        ended: whether it is the end of the run, or of its record.
        agents: by name, in the order in which they came: what each is and does; see `docs/moment.md` for the keys.
        world: the state of everything that agents share, with the keys of the final state on record.
        metrics: the latest sample of each metric, and its `time` in seconds; empty: there is none yet.
        ahead: what is due that belongs to no agent: mappings with `at` in seconds, `whose` and `what`.
    """

    run: str
    time: float
    events: int
    ended: bool
    agents: Mapping[str, AgentThen]
    world: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    ahead: Sequence[WorldTimer]

    def agent(self, name: str) -> AgentThen:
        """Return what one agent is and does.

        Raises:
            UsageError: if there is no agent of this name at that time.
        """
        if name not in self.agents:
            raise UsageError(
                f"there is no agent {name!r:.80} at {seconds_text(self.time)}",
                hint=did_you_mean(name, self.agents) or "without a name, all agents of that time are shown",
            )
        return self.agents[name]

    def to_json(self) -> JsonObject:
        """Return the moment as a JSON-like mapping."""
        return attrs.asdict(self, recurse=False)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return a row for each agent: name, state, since when (seconds), what it waits for, messages, variables."""
        return [
            (name, one["state"], one["since"], "; ".join(waits_of(one)), one["mail"], variables_of(one))
            for name, one in self.agents.items()
        ]

    def _table(self) -> Table:
        return Table(HEADINGS, self.rows()[:_ROWS])

    def __repr__(self) -> str:
        more = len(self.agents) - _ROWS
        head = f"<Moment {seconds_text(self.time)} of {plain(self.run)}: {len(self.agents)} agents>"
        return head + "\n" + self._table().text() + (f"\n... {more} more" if more > 0 else "")

    def _repr_html_(self) -> str:
        return self._table().html()


HEADINGS: Final = ("agent", "state", "since", "waits for", "messages", "variables")
"""What `Moment.rows` has."""


def variables_of(agent: AgentThen) -> str:
    """Return the variables of an agent in one line."""
    return ", ".join(f"{name}={encode(value).decode()}" for name, value in agent["variables"].items())


def waits_of(agent: AgentThen) -> list[str]:
    """Return what an agent waits for, in words."""
    waits = []
    match agent["why"]:
        case {"type": kind, **rest}:
            value = None if kind == "time" else rest.get("value")  # a timer says when
            wanted = "" if value is None else f" {value if isinstance(value, str) else encode(value).decode()}"
            where = f" where {rest['where']}" if "where" in rest else ""
            waits += [f"{kind}{wanted}{where}"] if kind != "time" else []
        case str(text) if text and agent["state"] in ("sleeping", "paused", "stopping", "stopped"):
            waits.append(text)
    if agent["doing"] is not None:
        waits.append(f"the end of {agent['doing']}")
    waits += [f"the answer to call {one['number']} ({one['kind']})" for one in agent["calls"]]
    waits += [f"{seconds_text(one['at'])}: {one['what']}" for one in agent["timers"][:2]]
    return waits


def take_moment(runner: RunController, watch: MomentWatch, run: str, events: int, *, ended: bool) -> Moment:
    """Return the present moment of a replay. The kernel must be paused.

    Args:
        runner: what replays the run.
        watch: what has watched it from its beginning.
        run: the folder of the run.
        events: how many events are on record until now.
        ended: whether it is the end of the run, or of its record.
    """
    world = runner.simulation.world
    feed = runner.feed
    timers, ahead = _timers(world)
    with world.kernel.acting_as(None):  # reading alone, so that anything else is refused
        shared_of = _Shared.of(world)
        agents = {
            name: _agent(agent, world, watch, timers.get(name, []), shared_of)
            for name, agent in world.agents.items()
            if isinstance(agent, Agent)
        }
        shared = _plain({name: part for name, part in world.digest().items() if name != "agents"})
    metrics = {"time": feed.times[-1], **{name: v[-1] for name, v in feed.samples.items() if v}} if feed.times else {}
    return Moment(run, world.now, events, ended, agents=agents, world=shared, metrics=metrics, ahead=ahead)


def _plain(value: Any) -> Any:
    """Return a value as it is read from a record."""
    return decode(encode(value))


@attrs.frozen
class _Shared:
    """What all agents share and each has a part of, read once a moment: it is as long as there are agents."""

    quotas: Mapping[str, Mapping[str, int]]
    places: JsonObject
    balances: Mapping[str, int]

    @classmethod
    def of(cls, world: World) -> Self:
        """Return what the agents of a world share."""
        places = {} if world.space is None else world.space.state()
        return cls(world.quotas.state(), places, world.ledger.state()["balances"])


def _agent(agent: Agent, world: World, watch: MomentWatch, timers: list[AgentTimer], shared: _Shared) -> AgentThen:
    name, loop = agent.agent_id, agent.loop
    since, state, why = watch.changes.get(name, (loop.since_ns, str(loop.state), ""))
    if since != loop.since_ns:
        why = "another condition than the one with which it fell asleep" if state == "sleeping" else ""
    pending = world.pending.get(name)
    digest, money = agent.state_for_digest(), shared.balances.get(name)
    return {
        "state": str(loop.state),
        "since": to_seconds(loop.since_ns),
        "why": _plain(why),
        "entry": agent.entry,
        "kind": agent.kind,
        "iterations": loop.iteration_count,
        "began": to_seconds(loop.began_ns) if loop.phase is Phase.INSIDE else None,
        "doing": None if pending is None else pending.action.kind,
        "arguments": None if pending is None else _plain(pending.action.arguments),
        "errors": loop.consecutive_errors,
        "woken_by": loop.woken_by,
        "variables": _plain(agent.state),
        "mail": len(agent.mailbox),
        "letters": _letters(agent),
        "timers": timers,
        "calls": _calls(world, name, watch),
        "tasks": [_plain(task.to_json()) for task in world.tasks.open(name)],
        "place": None if world.places is None else world.places.where(name),
        "space": _plain(shared.places.get(name)),
        "holds": dict(world.held.get(name, {})),
        "quotas": {quota: held[name] for quota, held in shared.quotas.items() if name in held},
        "balance": None if money is None else money / MICRO,
        "more": _plain(_more(digest)),
    }


def _more(digest: Any) -> Any:
    """Return what the final state has of an agent beyond its loop, its messages and its variables."""
    shown = ("loop", "mail", "state")
    return {key: part for key, part in digest.items() if key not in shown} if isinstance(digest, Mapping) else digest


def _letters(agent: Agent) -> list[Letter]:
    """Return the messages that wait, the oldest first; `offered`: whether its rules were offered one and left it."""
    offered = agent.mailbox.offered
    waiting = () if offered is None else [pending.message for pending in offered.waiting.values()]
    aside = () if offered is None else [pending.message for _, pending in offered.aside]
    boxes = [("set aside", aside), ("left", waiting), ("new", tuple(agent.mailbox.queue.items or ()))]
    rows = [{**message_names(one), "is": how} for how, letters in boxes for one in letters]
    return [_plain(one) for one in rows[:MOST_LETTERS]]


def _calls(world: World, name: str, watch: MomentWatch) -> list[OpenCall]:
    """Return the calls of an agent outside the run that have no answer yet."""
    return [
        {
            "number": number,
            "kind": handle.effect.kind,
            "since": to_seconds(watch.begun.get((actor, number), 0)),
            "held": handle.held,
            "request": decode(handle.request),
        }
        for (actor, number), handle in world.kernel.effects.in_flight.items()
        if actor == name
    ]


Timers = dict[str, list[AgentTimer]]


def _timers(world: World) -> tuple[Timers, list[WorldTimer]]:
    """Return what is due, in the order of time: by agent, and of all others."""
    kernel = world.kernel
    entries: list[tuple[int, str, str]] = []
    for time, target, token in _entries(kernel):
        if target.token != token:
            continue  # it was cancelled, or woken otherwise
        if isinstance(target, EffectHandle):
            due = "answers, as modelled" if target.modelled else "times out"
            entries.append((time, target.actor.name, f"call {target.ordinal} ({target.effect.kind}) {due}"))
        elif isinstance(target, Timer):
            entries.append((time, target.source.name, _callback(target.callback)))
        elif getattr(target, "name", None) is not None:
            entries.append((time, target.name, _continues(world, target.name)))
    agents: Timers = {}
    ahead: list[WorldTimer] = []
    for time, whose, what in sorted(entries):
        if whose in world.agents:
            agents.setdefault(whose, []).append({"at": to_seconds(time), "what": what})
        else:
            ahead.append({"at": to_seconds(time), "whose": whose, "what": what})
    return agents, ahead


def _entries(kernel: Kernel) -> Iterator[tuple[int, Any, int]]:
    """Yield the time, the target and the token of all that is due."""
    for time, *_, target, token in chain(kernel.ready, kernel.calendar):
        if isinstance(target, WakeBatch):
            yield from ((time, actor, its) for actor, its in target)
        else:
            yield time, target, token


def _continues(world: World, name: str) -> str:
    agent = world.agents.get(name)
    loop = agent.loop if isinstance(agent, Agent) else None
    return "next iteration" if isinstance(loop, AgentLoop) and loop.phase is Phase.OUTSIDE else "continues"


_CALLBACKS: Final = {
    "ScenarioTimers._at.<locals>.happen": "an event or a sample",
    "Timetable._set_after.<locals>.happen": "an event or an intervention",
    "RunController._look_for_standstill.<locals>.look": "looks whether anything is left to happen",
    "PlaceVariables._change": "variables of places change",
    "TickDriver._tick": "a tick",
    "Armed.time_came": "wakes",
    "Armed._timed_out": "wakes, as its sleep lasts no longer",
    "AgentLoop._retry": "tries again after errors",
}


def _callback(callback: Callable[[], object]) -> str:
    """Return what a timer does; one that is not known has the name of its function."""
    name = getattr(callback, "__qualname__", type(callback).__qualname__)
    return _CALLBACKS.get(name, name.replace(".<locals>", ""))
