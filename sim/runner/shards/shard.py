"""A shard: one process that runs some of the islands of a world, window by window (edge)."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

import attrs

from sim.base.errors import RunError, SimError
from sim.base.source import package_hash
from sim.base.text import of_error
from sim.kernel import Source
from sim.kernel.actor import FIRST_ACTOR, entry_source
from sim.kernel.codec import Json, as_sent, freeze
from sim.kernel.kernel import Kernel
from sim.kernel.rows import EventRow
from sim.llm.access import Access
from sim.record.files import SCENARIO
from sim.runner.figures import figures_of
from sim.runner.runner import RunController
from sim.runner.shards.model_figures import first_fault_of
from sim.runner.shards.protocol import (
    Columns,
    Order,
    Report,
    Row,
    RowKey,
    Setup,
    carried,
    read_order,
    read_setup,
    receive,
    send,
)
from sim.runner.shards.shard_calls import CallRecorder, ShardCalls
from sim.scenario import Scenario, loads
from sim.scenario.assembly.build import Simulation, build
from sim.scenario.schema import Metrics
from sim.world.islands import Islands, Letter


class RowRecorder(CallRecorder):
    """A recorder that keeps events with the keys by which those of all shards are put in order.

    Args:
        kernel: the kernel that records.
        islands: its islands.
        keeps_agents: whether it keeps what agents do (a shard), or what the scenario does (the coordinator).
    """

    def __init__(self, kernel: Kernel, islands: Islands, *, keeps_agents: bool) -> None:
        self.rows: list[Row] = []
        self._kernel = kernel
        self._islands = islands
        self._places = {name: place for place, name in enumerate(islands.names)}
        self._keeps_agents = keeps_agents
        self.stopped_by: dict[int, int] = {}  # what stops an agent from outside → the ordinal of the agent

    def event(self, row: EventRow, /) -> None:
        """Keep the event."""
        time_ns, delta, priority, source, counter, actor, topic, data, cause = row
        if (_FIRST_ENTRY <= source < FIRST_ACTOR) is self._keeps_agents:
            return  # each process publishes the events of the scenario, and the coordinator records them
        key = self._key(time_ns, delta, priority)
        self.rows.append((key, source, counter, actor, topic, freeze(data), cause or (0, 0)))

    def key(self) -> RowKey:
        """Return the place of the present step in the order of all shards."""
        return self._key(self._kernel.now, self._kernel.delta, self._kernel._entry[1])

    def _key(self, time_ns: int, delta: int, priority: int) -> RowKey:
        entry, current = self._kernel._entry, self._kernel.current
        if not isinstance(entry[2], int):
            who = "an agent" if current is None else current.name
            raise RunError(f"{who} is caused by what was made during the run, which shards cannot put in order")
        return time_ns, delta, priority, entry[2], entry[3], self._place(entry[4], current)

    def _place(self, target: Any, current: Source | None) -> int:
        """Return the place of an event among those of all shards in one step.

        A step of an agent happens on one shard. A step that reaches several islands, such as an event from outside,
        reaches them in their order, after the scenario itself. A stop of all, and the end of a run, reach agents in
        their own order.
        """
        if current is None or not self._keeps_agents:
            return -1
        if target is None:
            return current.ordinal
        if current.ordinal in self.stopped_by:
            return self.stopped_by[current.ordinal]
        rank = getattr(getattr(target, "actor", target), "rank", None)
        if isinstance(rank, int):
            return rank
        return self._places.get(self._islands.island_of_source(current, "") or "", -1)

    def take(self) -> tuple[Row, ...]:
        """Remove and return the events so far."""
        rows, self.rows = tuple(self.rows), []
        return rows


_FIRST_ENTRY: Final = entry_source("", 0, 0).ordinal
"""The ordinals of the entries of lists of a scenario begin here, and those of the scenario itself follow."""


class Shard:
    """The islands of one process.

    Args:
        setup: what the shard is made of.
        whole: the world, if it is built already.
    """

    def __init__(self, setup: Setup, whole: Simulation | None = None) -> None:
        if whole is None:
            access = Access(models=setup.models) if setup.models else None
            whole = build(_loaded(setup), seed=setup.seed, access=access, until_ns=setup.until_ns)
        self._world = whole.world
        self._islands = Islands.of(self._world)
        self._local = frozenset(setup.islands)
        self._letters: list[Letter] = []
        self._orders = 0
        self._islands.split(self._local, self._letters.append)
        kernel = self._world.kernel
        self._rows = kernel.recorder = RowRecorder(kernel, self._islands, keeps_agents=True)
        own = [(loop, delay) for loop, delay in whole.starts if self._is_local(loop.agent_id)]
        quiet = whole.scenario.model_copy(update={"metrics": Metrics(), "stop": None})
        self._simulation: Simulation = attrs.evolve(whole, scenario=quiet, starts=tuple(own))
        self._runner = RunController(self._simulation, until_ns=setup.until_ns, mode="autonomous")
        self._calls = kernel.effects.performer = self._rows.calls = ShardCalls(kernel, self._rows.key)
        self._runner.begin()
        self._world.on_all_stopped = None  # the others may run on
        self._reported_ns = time.process_time_ns()

    def _is_local(self, agent_id: str) -> bool:
        return self._islands.island_of(agent_id) in self._local

    def obey(self, order: Order) -> Report:
        """Do what the coordinator asks, and report it.

        Raises:
            RunError: if an order before it was not carried out, or it was carried out before.
        """
        self._orders += 1
        if order.number != self._orders:
            raise RunError(
                f"a shard got order {order.number} where order {self._orders} was due:"
                " one was lost, doubled or overtaken",
                hint="what carries the orders is at fault: the record is kept, and sim resume continues it",
            )
        kernel = self._world.kernel
        columns, more = None, dict[str, Any]()
        if order.what == "run":
            for letter in order.letters:
                self._islands.receive(letter)
            self._calls.answer(order.answers)
            kernel.run(order.end)
            self._check_refusal()
        elif order.what == "gather":
            columns = {group: self._columns(group, keys) for group, keys in (order.wanted or {}).items()}
        elif order.what == "stop":
            self._stop(order)
        else:
            more = self._end(order)
        if order.figures or order.what == "end":
            began = time.process_time_ns()
            more["figures"] = figures_of(self._simulation, self._is_local)
            more["reading_ns"] = time.process_time_ns() - began
        letters, self._letters[:] = tuple(self._letters), []
        calls, closed = self._calls.take()
        before, self._reported_ns = self._reported_ns, time.process_time_ns()
        return Report(
            next=kernel.next_time(), now=kernel.now, delta=kernel.delta, rows=self._rows.take(), letters=letters,
            calls=calls, closed=closed, running=self._world.running, cpu_ns=self._reported_ns - before, columns=columns,
            number=order.number, **more,
        )  # fmt: skip

    def _stop(self, order: Order) -> None:
        """Begin to stop all agents, at the end of an instant at which no shard has anything left to do."""
        kernel = self._world.kernel
        if kernel.now < order.end:
            kernel.advance_to(order.end)
        kernel.delta = order.delta
        loops = self._simulation.manager.loops.values()
        elsewhere = [loop for loop in loops if loop.stopped]
        for loop in loops:
            self._rows.stopped_by[kernel.source_for(loop.agent_id, "host").ordinal] = loop.actor.ordinal
        for kind, data in order.inputs:
            kernel.apply(kind, data)
        kernel.run(order.end + 1)
        for loop in elsewhere:
            loop.stops_on_arrival = True  # it may be on its way here

    def _check_refusal(self) -> None:
        """Fail if an endpoint has refused a call for good. One process ends such a run at that instant, at which the
        other shards are not.
        """
        models = self._simulation.models
        if models is not None and models.refusal is not None:
            raise RunError(models.refusal, hint="check the key, the address and the names of the models")

    def _columns(self, group: str, keys: list[str]) -> Columns:
        local = [agent for agent in self._world.members(group) if self._is_local(agent.agent_id)]
        values = {key: tuple([carried(agent.state.get(key)) for agent in local]) for key in keys}
        return Columns(
            dead=tuple([agent.agent_id for agent in local if not agent.alive]),
            values=values,
            lacking={
                key: tuple(agent.agent_id for agent in local if key not in agent.state)
                for key, column in values.items()
                if None in column
            },
        )

    def _end(self, order: Order) -> dict[str, Json]:
        world, kernel, manager = self._world, self._world.kernel, self._simulation.manager
        if kernel.now < order.end:
            kernel.advance_to(order.end)
        kernel.delta = order.delta
        manager.check_states()
        states, digest = manager.states(), world.digest()
        others = [agent_id for agent_id in world.agents if not self._is_local(agent_id)]
        states["stopped"] -= len(others)
        digest = {**digest, "agents": {name: state for name, state in digest["agents"].items() if self._is_local(name)}}
        for agent_id in others:
            del world.agents[agent_id]  # they stop elsewhere
        world.close()
        summary = self._runner._summary("finished", states)
        summary["errors_by_text"] = world.errors
        summary["first_rule_fault"] = first_fault_of(self._simulation.models)
        summary["observations"] = {name: list(values) for name, values in world.observations.items()}
        return {"digest": digest, "summary": summary}


def _loaded(setup: Setup) -> Scenario:
    """Return the scenario of a shard; the data to which it refers come with the setup."""
    if not setup.files:
        return loads(setup.text, setup.file, setup.overrides, setup.allow)
    with TemporaryDirectory(prefix="sim-") as folder:
        for name, data in setup.files.items():
            Path(folder, name).write_bytes(data)
        return loads(setup.text, str(Path(folder, SCENARIO)), setup.overrides, setup.allow)


class ShardActor:
    """A shard whose methods take and return bytes, and raise nothing: Ray would pickle an error.

    Args:
        whole: its world, if it is built already.
    """

    def __init__(self, whole: Simulation | None = None) -> None:
        self._whole = whole
        self._shard: Shard | None = None

    def hello(self) -> bytes:
        """Return the hash of the code of this machine."""
        return package_hash().encode()

    def begin(self, setup: bytes) -> bytes:
        """Make the shard, and return its first report."""
        return _answer(lambda: self._begun(setup))

    def obey(self, order: bytes) -> bytes:
        """Do what the coordinator asks, and return the report."""
        shard = self._shard
        assert shard is not None, "the coordinator asks nothing of a shard that has reported an error"
        return _answer(lambda: shard.obey(read_order(order)))

    def _begun(self, setup: bytes) -> Report:
        self._shard = Shard(read_setup(setup), self._whole)
        return Report()


def _answer(work: Callable[[], Report]) -> bytes:
    """Return a report as bytes; it has the error if the work fails."""
    try:
        return as_sent(work())
    except SimError as error:
        return as_sent(Report(error=str(error), hint=error.hint or ""))
    except Exception as error:  # any failure of this process: the coordinator reports it
        return as_sent(Report(error=of_error(error)))


def serve(requests: IO[bytes], reports: IO[bytes], whole: Simulation | None = None) -> None:
    """Do what the coordinator asks until it closes the pipe; the world may be built already."""
    shard, setup = ShardActor(whole), receive(requests)
    if not setup:
        return
    send(reports, shard.begin(setup))
    while body := receive(requests):
        send(reports, shard.obey(body))


def main() -> None:
    """Serve the process that has started this one."""
    requests, reports = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what code prints is no report
    serve(requests, reports)
