"""A modelled server of language models: the duration of calls when many agents share a few machines.

A call queues for a slot, by priority and then by arrival. It is assigned to the replica with the fewest calls. The
replica reads its input (prefill: one call at a time per replica) and writes its output (decode: all calls of a replica
concurrently). A single call gets `decode_rate` tokens per second. All calls of a replica together get at most
`decode_total`, shared equally. Continuous batching on real machines behaves like this: the rate per call is constant
until the memory bandwidth is used up, and then the total rate is constant. Not modelled: prefill that slows decoding,
slower decoding of long contexts, and prefix caches.

Sharing is computed exactly, as processor sharing in virtual time (Parekh and Gallager, "A generalized processor sharing
approach to flow control", 1993). All calls of a replica advance at the same rate. So a replica keeps one count of
tokens written per call, and a call is done when this count has grown by the length of the call. A replica needs one
timer.

Priorities are for worlds whose agents are at different simulated times: the agent that is furthest behind goes first
(AI Metropolis, Xie et al., 2024).
"""

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush

import attrs

from sim.base.errors import Cancelled
from sim.kernel import NS, Kernel, Signal, Source, Timer, to_seconds
from sim.kernel.actor import FIRST_DERIVED
from sim.kernel.rng import derive
from sim.kernel.waits import sleep_ns
from sim.llm.behaviour import ServerSpec
from sim.llm.types import ModelError
from sim.resources import PriorityResource, Resource

_FIRST_ORDINAL = 2**32  # between the ordinals of declared actors and those of derived actors
_MINUTE_NS = 60 * NS
_ALMOST = 1e-6  # tokens: tolerance for rounding errors at the end of a call
_BUSY_RETRY = 1.0  # seconds that a full queue asks to wait


@attrs.frozen
class Served:
    """The phases of one call, in seconds."""

    queued: float
    prefill: float
    decode: float
    replica: int


@attrs.define
class ServerStatistics:
    """The statistics of a server so far.

    Attributes:
        served: answered calls.
        limited: calls refused by a limit per minute.
        refused: calls refused for another reason.
        queue: calls that wait now.
        longest_queue: the longest queue so far.
        queued_seconds: the sum of the waits of answered calls.
        longest_wait: the longest wait of an answered call, in seconds.
        busy_seconds: the sum of the slot times of answered calls.
        input_tokens: input tokens of answered calls.
        output_tokens: output tokens of answered calls.
    """

    served: int = 0
    limited: int = 0
    refused: int = 0
    queue: int = 0
    longest_queue: int = 0
    queued_seconds: float = 0.0
    longest_wait: float = 0.0
    busy_seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class ModelServer:
    """Serves calls in simulated time.

    Args:
        kernel: the kernel that gives the time.
        spec: the parameters.
        name: the name, unique in the kernel; the order of timers depends on it.
    """

    def __init__(self, kernel: Kernel, spec: ServerSpec, name: str = "server") -> None:
        ordinal = _FIRST_ORDINAL + derive("model server", name) % (FIRST_DERIVED - _FIRST_ORDINAL)
        source = Source(name, ordinal)
        self.spec = spec
        self._kernel = kernel
        self._slots = PriorityResource(kernel, spec.replicas * spec.slots)
        self._replicas = [_Replica(kernel, source, spec, number) for number in range(spec.replicas)]
        self._requests = _Bucket(kernel, spec.requests_per_minute)
        self._tokens = _Bucket(kernel, spec.tokens_per_minute)
        self._done = ServerStatistics()

    async def serve(
        self,
        input_tokens: int,
        output_tokens: int,
        *,
        priority: float = 0.0,
        parts: int = 1,
        on_part: Callable[[int], None] | None = None,
    ) -> Served:
        """Process one call, in simulated time.

        Args:
            input_tokens: the tokens to read.
            output_tokens: the tokens to write.
            priority: the lowest number goes first; calls with equal numbers go in order of arrival.
            parts: the number of parts of the output, for observers.
            on_part: called with the index of each part, from 0, as soon as it is written.

        Raises:
            ModelError: immediately, if the call is refused.
        """
        self._admit(input_tokens + output_tokens)
        kernel, arrived = self._kernel, self._kernel.now
        await self._stand_in_line(priority)
        begun = kernel.now
        replica = min(self._replicas, key=lambda replica: replica.busy)
        async with _Working(self._slots, replica):
            await replica.prefill(input_tokens)
            first = kernel.now
            written = 0
            for part in range(parts):
                upto = (part + 1) * output_tokens // parts
                await replica.decode(upto - written)
                written = upto
                if on_part is not None:
                    on_part(part)
        result = Served(
            to_seconds(begun - arrived), to_seconds(first - begun), to_seconds(kernel.now - first), replica.number
        )
        self._count(result, input_tokens, output_tokens)
        return result

    def statistics(self) -> ServerStatistics:
        """Return the statistics so far, which do not change any more."""
        return attrs.evolve(self._done)

    def _admit(self, tokens: int) -> None:
        """Admit a call, or refuse it with an error. A refused call uses nothing of the limits."""
        spec = self.spec
        if spec.context is not None and tokens > spec.context:
            self._done.refused += 1
            raise ModelError("context_length", f"{tokens} tokens are more than the window of {spec.context}")
        wait = max(self._requests.wait(1), self._tokens.wait(tokens))
        if wait == math.inf:
            self._done.refused += 1
            raise ModelError("bad_request", f"a call of {tokens} tokens is above what is let in a minute")
        if wait > 0:
            self._done.limited += 1
            raise ModelError("rate_limit", "the limit per minute is reached", retry_after=wait)
        if spec.queue is not None and not self._slots.level and self._done.queue >= spec.queue:
            self._done.refused += 1
            raise ModelError("overload", f"{self._done.queue} calls wait already", retry_after=_BUSY_RETRY)
        self._requests.take(1)
        self._tokens.take(tokens)

    async def _stand_in_line(self, priority: float) -> None:
        if self._slots.acquire_nowait(priority=priority):
            return
        self._done.queue += 1
        self._done.longest_queue = max(self._done.longest_queue, self._done.queue)
        try:
            await self._slots.acquire(priority=priority)
        finally:
            self._done.queue -= 1

    def _count(self, served: Served, input_tokens: int, output_tokens: int) -> None:
        done = self._done
        done.served += 1
        done.queued_seconds += served.queued
        done.longest_wait = max(done.longest_wait, served.queued)
        done.busy_seconds += served.prefill + served.decode
        done.input_tokens += input_tokens
        done.output_tokens += output_tokens


class _Working:
    """Holds a slot and a place on a replica while a call is processed."""

    __slots__ = ("_replica", "_slots")

    def __init__(self, slots: PriorityResource, replica: "_Replica") -> None:
        self._slots = slots
        self._replica = replica

    async def __aenter__(self) -> None:
        self._replica.busy += 1

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not GeneratorExit:  # otherwise the run is over and its coroutines are being discarded
            self._replica.busy -= 1
            self._slots.release()


class _Replica:
    """One machine. It reads the input of one call at a time, and writes the output of all its calls concurrently.

    Attributes:
        busy: the number of its calls.
    """

    def __init__(self, kernel: Kernel, source: Source, spec: ServerSpec, number: int) -> None:
        self.number = number
        self.busy = 0
        self._kernel = kernel
        self._source = source
        self._spec = spec
        self._reader = Resource(kernel, 1)
        self._written = 0.0  # tokens written per call since the replica was last idle
        self._since = 0  # time of the last update of `_written`
        self._ends: list[tuple[float, int, Signal]] = []  # (`_written` at the end of a call, number, signal)
        self._calls = 0
        self._timer: Timer | None = None
        self._aim = (0.0, 0.0)  # the end and the rate for which the timer is set

    async def prefill(self, tokens: int) -> None:
        """Read the input of a call, in order of arrival."""
        if tokens > 0:
            async with self._reader.slot():
                await sleep_ns(math.ceil(tokens / self._spec.prefill_rate * NS))

    async def decode(self, tokens: int) -> None:
        """Write `tokens` of a call, sharing the rate with the other calls."""
        if tokens <= 0:
            return
        self._advance()
        self._calls += 1
        end = (self._written + tokens, self._calls, Signal(self._kernel))
        heappush(self._ends, end)
        self._set_timer()
        try:
            await end[2].wait()
        except (Exception, Cancelled):
            self._advance()
            if end in self._ends:  # otherwise it ended at the instant of the cancellation
                self._ends.remove(end)
                heapify(self._ends)
                self._set_timer()
            raise

    def _rate(self) -> float:
        """Return the current rate per call, in tokens per second."""
        rate, total = self._spec.decode_rate, self._spec.decode_total
        return rate if total is None else min(rate, total / len(self._ends))

    def _advance(self) -> None:
        """Advance the calls to the present, at the rate since the last change."""
        now = self._kernel.now
        if self._ends:
            self._written += (now - self._since) / NS * self._rate()
        else:
            self._written = 0.0
        self._since = now

    def _set_timer(self) -> None:
        """Set the timer for the next call that ends. Called after each change."""
        aim = (self._ends[0][0], self._rate()) if self._ends else (0.0, 0.0)
        if self._timer is not None:
            if aim == self._aim:
                return
            self._timer.cancel()
            self._timer = None
        if self._ends:
            self._aim = aim
            delay = max(0, math.ceil((aim[0] - self._written) / aim[1] * NS))
            self._timer = self._kernel.call_at(self._kernel.now + delay, self._finish, self._source)

    def _finish(self) -> None:
        """Wake the call for which the timer was set, and all calls that end at the same instant."""
        self._timer = None
        self._advance()
        done = max(self._written, self._aim[0]) + _ALMOST
        while self._ends and self._ends[0][0] <= done:
            heappop(self._ends)[2].fire()
        if not self._ends:
            self._written = 0.0
        self._set_timer()


class _Bucket:
    """A limit per minute, as a token bucket that holds one minute's capacity and fills at a constant rate."""

    def __init__(self, kernel: Kernel, limit: float | None) -> None:
        self._kernel = kernel
        self._limit = math.inf if limit is None else limit
        self._level = self._limit
        self._since = 0

    def wait(self, amount: float) -> float:
        """Return the seconds until `amount` is available; infinite if never."""
        if self._limit == math.inf:
            return 0.0
        if amount > self._limit:
            return math.inf
        now = self._kernel.now
        self._level = min(self._limit, self._level + (now - self._since) * self._limit / _MINUTE_NS)
        self._since = now
        return max(0.0, (amount - self._level - _ALMOST) * 60 / self._limit)

    def take(self, amount: float) -> None:
        """Take `amount`. `wait` must have returned 0 at this instant."""
        self._level -= amount
