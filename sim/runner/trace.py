"""A trace of a replay: for each step, what caused it, the messages that it took, and whose state it read.

A step is the part of the work that one actor does without waiting; in tick mode, a turn. Its cause is the step that
scheduled its entry: a counter of a source is used in one step alone. Nothing of this is kept during a run: a replay is
stepped one entry at a time, and a class of its own takes the place of the class of each agent, and of its mailbox.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from sim.actors import Agent
from sim.actors.events import StateChanged
from sim.actors.mailbox import Mailbox
from sim.host.time_slicer import TimeSlicer
from sim.kernel import Source
from sim.kernel.actor import identity
from sim.kernel.kernel import Kernel, Pause
from sim.kernel.ports import Clock, Recorder
from sim.kernel.rows import EventRow
from sim.resources import Pool
from sim.runner.runner import RunController
from sim.world import Message
from sim.world.events import MessageSent

START: Final = -1
"""Instead of a step: the start of the run."""

OUTSIDE: Final = -2
"""Instead of a step: an input, or the answer to a call outside the run."""

MOST_SHARED: Final = 500
"""The most sources other than agents that are looked at after each step. Of further ones, causes are not known."""

UNKNOWN: Final = -3
"""Instead of a step: the counter was used in a step in which its source was not seen."""


class Trace:
    """The steps of a replay.

    Args:
        runner: what replays the run; nothing has run yet.

    Attributes:
        times: by step, its simulated time in nanoseconds.
        who: by step, the number of the name of its actor in `names`.
        names: the names of actors, by number.
        causes: by step, the step that caused it, or one of `START`, `OUTSIDE` and `UNKNOWN`.
        woken: by step, the event that woke its actor; 0: none did.
        before: by step, the step of the same actor before it; -1: it is the first.
        first: by step, the number of the first event that it made; 0: it made none.
        took: by step, the step that delivered each message that it took, and the number of the message; 0: not known.
        read: by step, the last steps of the other agents whose state it read.
        used: by step, the steps that used the same pool last, by the name of the pool.
        drew: the steps that drew random numbers.
        step_of: by event, the step that made it; the first one is at 1.
        hidden: how many agents have a class that cannot be traced, so that it is not known who read them.
    """

    def __init__(self, runner: RunController) -> None:
        self.times, self.who, self.causes = array("q"), array("l"), array("q")
        self.woken, self.before, self.first = array("q"), array("q"), array("q")
        self.names: list[str] = []
        self.took: dict[int, list[tuple[int, int]]] = {}
        self.read: dict[int, dict[int, None]] = {}
        self.used: dict[int, dict[str, int]] = {}
        self.drew: dict[int, None] = {}
        self.step_of = array("q", [-1])
        self.hidden = 0
        self._world = runner.simulation.world
        self._kernel: Kernel = self._world.kernel
        self._numbers: dict[str, int] = {}
        self._last: dict[int, int] = {}  # by ordinal: its latest step
        self._agents: dict[str, int] = {}  # by agent: its latest step
        self._ends: dict[int, tuple[Any, Any]] = {}  # by ordinal: its counter after each step in which it was seen
        self._caused: dict[tuple[int, int], tuple[int, int]] = {}  # of entries of this instant
        self._begun: dict[tuple[int, int], None] = {}  # of entries from before the run
        self._of_agents: dict[int, None] = {}  # ordinals of agents, also of those that have ended
        self._shared: dict[int, Source] = {}  # sources that are no agents: they can act in any step
        self._entry: Any = None
        self._own: Source | None = None  # that of the entry
        self._replaced = False  # whether the entry has replaced the one that runs
        self._owned = 0  # how many sources that act for one owner are looked at
        self._open: dict[int, int] = {}  # by ordinal: its step in the entry that runs
        self._rows: dict[tuple[int, int], int] = {}  # by identity: the events of the entry that runs
        self._offered: list[Message] = []
        self._letters: dict[int, tuple[Message, int, int]] = {}  # by id: messages that wait
        self._place, self._seen = (0, 0), 0
        self._classes: dict[type, type] = {}  # by the class of agents: that which notices
        self._traced: dict[type, None] = {}
        self._mailbox = self._mailbox_class()
        self._users: dict[str, int] = {}  # by pool: the step that used it last

    def begin(self) -> None:
        """Note what is scheduled before the first step, and trace the agents that there are."""
        kernel = self._kernel
        for agent in list(self._world.agents.values()):
            self._follow(agent)
        for entry in (*kernel.calendar, *kernel.ready):
            self._begun[identity(entry[2]), entry[3]] = None
            self._share(_source_of(entry[4]))
        for source in (kernel.host, kernel.scenario, kernel.supervisor):
            self._share(source)
        self._seen = len(self._kernel.ready)
        self._world.pools = _TracedPools(self._world.pools, self.uses)
        for name in ("draws", "draws_now", "stream"):
            setattr(self._world, name, self._drawing(getattr(self._world, name)))

    def cut(self, steps: int, events: int) -> None:
        """Forget all but the first steps and events, whose numbers are given."""
        for column in (self.times, self.who, self.causes, self.woken, self.before, self.first):
            del column[steps:]
        del self.step_of[events:]

    # -- what a step does

    def event(self, row: EventRow, number: int) -> None:
        """Note an event, and its number in the record; 0: it is not recorded."""
        step = self._step()
        if number:
            while len(self.step_of) < number:  # events from before the first step
                self.step_of.append(START)
            self.step_of.append(step)
            self._rows[row[3], row[4]] = number
            if step >= 0 and not self.first[step]:
                self.first[step] = number
        if isinstance(data := row[7], MessageSent):
            self._pair(data.to, number, step)
        elif isinstance(data, StateChanged):
            self._follow(self._world.agents.get(row[5]))

    def _pair(self, to: str, number: int, step: int) -> None:
        """Note the event of a message that has just come to the mailbox of its receiver."""
        for message in self._offered:
            if message.to == to:
                self._offered.remove(message)
                self._letters[id(message)] = (message, step, number)
                return

    def offered(self, message: Message) -> None:
        """Note that a message has come to a mailbox."""
        step = self._step()
        self._offered.append(message)
        self._letters[id(message)] = (message, step, 0)

    def taken(self, message: Any) -> None:
        """Note that a message has left a mailbox, in the step of its receiver."""
        letter = self._letters.pop(id(message), None)
        step = self._step()
        if letter is not None and step >= 0:
            self.took.setdefault(step, []).append(letter[1:])

    def looked(self, agent: Agent) -> None:
        """Note that the state of an agent is read, if it is by another one."""
        kernel = self._kernel
        if kernel.current is None or kernel.current is agent.source:
            return
        other, step = self._agents.get(agent.agent_id), self._step()
        if other is not None and step >= 0 and other != step:
            self.read.setdefault(step, {})[other] = None

    def uses(self, pool: str) -> None:
        """Note that a step looks at a pool, or takes or gives back some of it."""
        if (step := self._step()) >= 0:
            last = self._users.get(pool)
            self._users[pool] = step
            if last is not None and last != step:
                self.used.setdefault(step, {})[pool] = last

    def _drawing(self, draw: Any) -> Any:
        def drawn(*args: Any, **keywords: Any) -> Any:
            if (step := self._step()) >= 0:
                self.drew[step] = None
            return draw(*args, **keywords)

        return drawn

    # -- steps

    def _step(self) -> int:
        """Return the number of the step that runs; START before the first one."""
        kernel = self._kernel
        current = kernel.current
        if current is None:
            return START
        if kernel.entry is not self._entry:
            self._turn(kernel.entry)
        step = self._open.get(current.ordinal)
        return self._begin_step(current) if step is None else step

    def _turn(self, entry: Any) -> None:
        """Take note of another entry. One without a target replaces that of the step under way, as in a tick."""
        self._entry = entry
        self._replaced = entry[4] is None
        self._own = self._shared.get(identity(entry[2])) if self._replaced else _source_of(entry[4])

    def _begin_step(self, source: Source) -> int:
        entry, own = self._entry, self._own
        if own is source or own is None:
            if self._replaced:  # its own entry is not known any more: it is that of its latest wait
                cause, woken = self._last.get(source.ordinal, START), 0
            else:
                cause, woken = self._cause(identity(entry[2]), entry[3])
        else:  # another source acts within the step, as an agent in a tick, or a sleeper that an event wakes
            main = self._open.get(own.ordinal)
            cause, woken = (self._begin_step(own) if main is None else main), 0
        number = self._numbers.get(source.name)
        if number is None:
            number = self._numbers[source.name] = len(self.names)
            self.names.append(source.name)
        step = len(self.times)
        self.times.append(self._kernel.now)
        self.who.append(number)
        self.causes.append(cause)
        self.woken.append(woken)
        self.first.append(0)
        self.before.append(self._last.get(source.ordinal, -1))
        self._last[source.ordinal] = self._open[source.ordinal] = step
        if source.name in self._world.agents:
            self._agents[source.name] = step
        return step

    def _cause(self, ordinal: int, counter: int) -> tuple[int, int]:
        cause = self._caused.get((ordinal, counter))
        if cause is not None:
            return cause
        if (ordinal, counter) in self._begun:
            return START, 0
        if len(self._shared) >= MOST_SHARED and ordinal not in self._shared and ordinal not in self._of_agents:
            return UNKNOWN, 0
        ends, steps = self._ends.get(ordinal, ((), ()))
        place = bisect_left(ends, counter)
        return (steps[place], 0) if place < len(ends) else (UNKNOWN, 0)

    def before_step(self) -> None:
        """Note what has come from outside since the last step."""
        self._note_ready(OUTSIDE)
        self._open.clear()
        self._rows.clear()
        self._offered.clear()

    def after_step(self) -> None:
        """Note what the step that has run has scheduled."""
        entry = self._kernel.entry
        if entry is not self._entry:
            self._turn(entry)
        own = self._own
        if own is not None and own.ordinal not in self._open:
            self._begin_step(own)  # it did nothing that was seen
        self._note_ready(START)
        owned = self._kernel.owned
        for one in islice(owned.values(), self._owned, None):
            self._share(one)
        self._owned = len(owned)
        self._share(own)
        for ordinal, step in self._open.items():
            if ordinal not in self._shared and (source := self._agent_source(own, ordinal, step)) is not None:
                self._note_counter(source, step)
        main = UNKNOWN if own is None else self._open.get(own.ordinal, UNKNOWN)
        for ordinal, source in self._shared.items():
            self._note_counter(source, self._open.get(ordinal, main))

    def _note_counter(self, source: Source, step: int) -> None:
        """Note which step has used the counters of a source since it was seen last."""
        ends, steps = self._ends.setdefault(source.ordinal, (array("q"), array("q")))
        if not ends or ends[-1] != source.counter:
            ends.append(source.counter)
            steps.append(step)

    def _share(self, source: Source | None) -> None:
        """Look at a source after each step from now on, unless it is that of an agent."""
        if source is None or source.ordinal in self._shared or len(self._shared) >= MOST_SHARED:
            return
        if source.ordinal not in self._of_agents:
            self._shared[source.ordinal] = source

    def _agent_source(self, own: Source | None, ordinal: int, step: int) -> Source | None:
        """Return the source of a step if it is that of an agent, which acts in its own steps alone."""
        agent = self._world.agents.get(self.names[self.who[step]])
        source = own if agent is None else agent.source
        return source if source is not None and source.ordinal == ordinal else None

    def _note_ready(self, outside: int) -> None:
        kernel = self._kernel
        place = kernel.now, kernel.delta
        if place != self._place:
            if place[0] != self._place[0]:
                self._caused.clear()
            self._place, self._seen = place, 0
        main = self._own
        for entry in kernel.ready[self._seen :]:
            key = identity(entry[2]), entry[3]
            if outside == OUTSIDE:
                self._caused[key] = OUTSIDE, 0
                continue
            step = self._open.get(key[0], self._open.get(main.ordinal, UNKNOWN) if main is not None else UNKNOWN)
            self._caused.setdefault(key, (step, self._rows.get(key, 0)))
        self._seen = len(kernel.ready)

    # -- classes that notice

    def _follow(self, agent: Any) -> None:
        """Give an agent, and its mailbox, a class that notices what is done with them."""
        if not isinstance(agent, Agent) or type(agent) in self._traced:
            return
        if agent.source is not None:
            self._of_agents[agent.source.ordinal] = None
        try:
            agent.__class__ = self._class_for(type(agent))
        except TypeError:  # a class with slots
            self.hidden += 1
            return
        agent.mailbox.__class__ = self._mailbox

    def _class_for(self, kind: type) -> type:
        if kind not in self._classes:
            looked = self.looked
            # What the property hides: a slot, or a property of the class. A plain value of a class hides the slot.
            hidden: Any = next(vars(base)["state"] for base in kind.__mro__ if "state" in vars(base))
            lies_in_dict = not hasattr(type(hidden), "__set__")

            def get(agent: Any) -> Any:
                looked(agent)
                return vars(agent).get("state", hidden) if lies_in_dict else hidden.__get__(agent)

            def put(agent: Any, state: Any) -> None:
                if lies_in_dict:
                    vars(agent)["state"] = state
                else:
                    hidden.__set__(agent, state)

            named = {"state": property(get, put), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
            made = self._classes[kind] = type(kind.__name__, (kind,), named)
            self._traced[made] = None
        return self._classes[kind]

    def _mailbox_class(self) -> type[Mailbox]:
        trace = self

        class Traced(Mailbox):
            __slots__ = ()

            def offer(self, message: Message) -> str | None:
                trace.offered(message)
                return super().offer(message)

            def read(self, number: int) -> Message:
                message = super().read(number)
                trace.taken(message)
                return message

            def take(self) -> Message | None:
                message = super().take()
                trace.taken(message)
                return message

            async def get(self) -> Message:
                message = await super().get()
                trace.taken(message)
                return message

        return Traced


def _source_of(target: Any) -> Source | None:
    """Return the source on whose behalf the target of an entry runs."""
    if isinstance(target, Source):
        return target
    source = getattr(target, "actor", None) or getattr(target, "source", None)
    return source if isinstance(source, Source) else None


class _TracedPools(dict[str, Pool]):
    """The pools of a world, which tell which of them is used."""

    def __init__(self, pools: Mapping[str, Pool], uses: Callable[[str], None]) -> None:
        super().__init__(pools)
        self._uses = uses

    def __getitem__(self, name: str) -> Pool:
        self._uses(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._uses(name)
        return super().get(name, default)


class TracingSlicer(TimeSlicer):
    """Runs a kernel step by step, and reports each to a trace.

    Args:
        kernel: the kernel.
        clock: the clock for real time.
        trace: the trace.
    """

    def __init__(self, kernel: Kernel, clock: Clock, trace: Trace) -> None:
        super().__init__(kernel, clock)
        self._trace = trace
        self.take_steps(1)

    def run(self, limit: int) -> Pause:
        """Run one step."""
        kernel, last = self._kernel, self._kernel.entry
        self._trace.before_step()
        pause = kernel.run(limit, 1)
        if kernel.entry is not last:
            self._trace.after_step()
        return pause


class TracedRecorder:
    """A recorder that passes everything on, and reports each event to a trace.

    Args:
        inner: the recorder.
        trace: the trace.
        count: returns how many events are recorded.
    """

    def __init__(self, inner: Recorder, trace: Trace, count: Any) -> None:
        self.inner = inner
        self._trace = trace
        self._count = count

    def event(self, row: EventRow, /) -> None:
        """Pass on and note an event."""
        before = self._count()
        self.inner.event(row)
        after = self._count()
        self._trace.event(row, after if after != before else 0)

    def unrecorded(self, row: EventRow, /) -> None:
        """Note an event that is not on record."""
        self.inner.unrecorded(row)  # type: ignore[attr-defined]  # a Watch
        self._trace.event(row, 0)

    def __getattr__(self, name: str) -> Any:
        """Return any other method or attribute of the inner recorder."""
        return getattr(self.inner, name)
