"""The calls of models of all shards, which the coordinator makes: they pass one governor, as in one process (edge).

A call begins when its request is on disk, and its answer is on disk before a shard sees it. So none is made twice when
the process of a shard ends: the new one gets the same answers. When the coordinator ends, `sim resume` finds the calls
that were under way, as after the end of a run in one process.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Self

import anyio
import anyio.abc
import anyio.from_thread
import attrs

from sim.base.crashpoints import reach
from sim.base.errors import RunError
from sim.host.effect_tasks import failure, outcome_of
from sim.kernel.codec import JsonObject, Raw, decode, encode
from sim.kernel.effects import Outcome, effect_key
from sim.kernel.rows import ClosedRow, IntentRow, ResultRow
from sim.llm.service import Models
from sim.runner.event_loop import running_on
from sim.runner.runner import RunSink
from sim.runner.shards.protocol import Answered, Call, Closed
from sim.runner.spec import Kept

Name = tuple[str, int]
"""The agent of a call, and the number of the call among those of the agent."""


@attrs.frozen
class _UnderWay:
    """A call under way.

    Attributes:
        place: the shard of its agent, from 0.
        due: when its answer is delivered, in simulated nanoseconds.
        outcome: what it ends with.
    """

    place: int
    due: int
    outcome: "Future[Outcome]"


class Calls:
    """Makes the calls of all shards in an event loop of its own thread.

    Args:
        models: the models of the coordinator, which alone has the keys.
        portal: the event loop.
    """

    def __init__(self, models: Models, portal: anyio.from_thread.BlockingPortal) -> None:
        self._models = models
        self._portal = portal
        self._kept: Kept
        self._under_way: dict[Name, _UnderWay] = {}
        self._gone: set[Name] = set()  # abandoned before they began
        self._group: anyio.abc.TaskGroup
        self._failure: Exception | None = None

    @classmethod
    @contextmanager
    def of(cls, models: Models | None) -> Iterator[Self | None]:
        """Make calls while the context is entered; None if no model is at an endpoint.

        Raises:
            UsageError, RunError: if an endpoint cannot be reached, as for a run in one process.
        """
        if models is None or not models.outside:
            yield None
            return
        with anyio.from_thread.start_blocking_portal(running_on()) as portal:
            calls = cls(models, portal)
            served, _ = portal.start_task(calls._serve)
            prepared = portal.start_task_soon(models.prepare)
            try:
                prepared.result()
                yield calls
            finally:
                prepared.cancel()  # if Ctrl-C has ended the wait for it
                under_way, calls._under_way = calls._under_way, {}
                for call in under_way.values():
                    call.outcome.cancel()
                served.cancel()
                portal.call(models.aclose)

    async def _serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Keep a group for what runs beside the calls."""
        async with anyio.create_task_group() as self._group:
            task_status.started()
            await anyio.sleep_forever()

    def begin(self, kept: Kept) -> None:
        """Say where the run is recorded. To be called before the first call."""
        self._kept = kept
        self._models.begin(kept.uid, self, kept.folder)

    # -- work beside the calls: see `Background`

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start work that ends, at the latest, with the run. Its error ends the run."""
        self._group.start_soon(self._beside, work)

    async def _beside(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._failure = error

    async def idle(self) -> int:
        """Only batches wait for this, and a run on shards has none."""
        raise RunError("a run on shards has no batches")

    # -- calls

    def note(self, row: Call | Closed) -> None:
        """Record that a call begins, or how it has ended for its agent. An abandoned one is cancelled."""
        keeper, name = self._kept.keeper, (row.actor, row.ordinal)
        if isinstance(row, Call):
            keeper.intent(
                IntentRow(
                    actor=row.actor, ordinal=row.ordinal, kind="llm", request_hash=row.request_hash,
                    request=decode(row.request), latency="modelled", safety=row.safety, time_ns=row.key[0],
                )
            )  # fmt: skip
            return
        keeper.closed(ClosedRow(row.actor, row.ordinal, row.ending, row.time_ns, row.delta))
        if row.ending == "abandoned":
            call = self._under_way.pop(name, None)
            if call is None:
                self._gone.add(name)
            else:
                call.outcome.cancel()

    def start(self, begun: Sequence[tuple[int, Call]]) -> None:
        """Make calls, once their requests are on disk.

        Args:
            begun: the calls, each with the number of its shard from 0. They are recorded.
        """
        wait_for_disk(self._kept.keeper)
        for place, call in begun:
            name = (call.actor, call.ordinal)
            if name in self._gone:
                self._gone.discard(name)
                continue
            self._under_way[name] = _UnderWay(place, call.due, self._portal.start_task_soon(self._carry_out, call))

    def due(self, end: int, shards: int) -> list[tuple[Answered, ...]]:
        """Wait for the answers that are due before a time, and return them for each shard.

        Args:
            end: the time in simulated nanoseconds.
            shards: the number of shards.

        Raises:
            RunError: if work beside the calls has failed, or the record cannot be written.
        """
        answers: list[list[Answered]] = [[] for _ in range(shards)]
        names = sorted((call.due, name) for name, call in self._under_way.items() if call.due < end)
        for _, name in names:
            call = self._under_way[name]  # it is under way until its end: only then is a cancellation this program's
            try:
                outcome = call.outcome.result()
            except CancelledError:
                raise self._failure or RunError("a call of a model was cancelled by what carried it out") from None
            del self._under_way[name]
            answers[call.place].append(Answered(*name, outcome.kind, Raw(encode(outcome.value))))
        if self._failure is not None:
            raise self._failure
        if names:
            wait_for_disk(self._kept.keeper)
        return [tuple(each) for each in answers]

    async def _carry_out(self, call: Call) -> Outcome:
        """Make one call, and record its outcome."""
        name, outcome = (call.actor, call.ordinal), Outcome("timeout")
        with anyio.CancelScope(deadline=anyio.current_time() + call.timeout) as scope:
            reach("effect.started")
            try:
                outcome = await outcome_of(lambda: self._ask(call))
            except anyio.get_cancelled_exc_class() as error:
                if scope.cancel_called or name not in self._under_way:
                    raise
                outcome = failure(error)  # what carried it out was cancelled, but not by this program
        reach("effect.done")
        self._kept.keeper.result(ResultRow(*name, outcome.kind, outcome.value, outcome.attempts, None))
        # Others of its window can take much longer: what is paid is to be on disk. If it cannot be written, the next
        # wait for the disk says so. The events of the recorder belong to the thread of the coordinator.
        self._kept.keeper.durable(lambda error: None)
        reach("effect.recorded")
        return outcome

    def _ask(self, call: Call) -> Awaitable[JsonObject]:
        request = decode(call.request)
        observe = (lambda part: None) if request.get("stream") else None
        key = effect_key(self._kept.uid, call.actor, call.ordinal)
        return self._models.at_edge(request, observe, key, modelled=True)

    def times(self) -> list[int]:
        """Return when the answers of the calls under way are due, in simulated nanoseconds."""
        return [call.due for call in self._under_way.values()]


def wait_for_disk(keeper: RunSink) -> None:
    """Wait until all requests, answers and inputs so far are on disk.

    Raises:
        RunError: if they cannot be written.
    """
    written: Future[None] = Future()

    def done(error: BaseException | None) -> None:
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)

    keeper.durable(done)
    written.result()
