"""The governor: decides which request may be sent to an endpoint, and when. All agents share one per endpoint.

A request needs four things: its turn, a free slot, tokens, and a place in the paced sequence of requests.

- Turns follow start-time fair queueing (Goyal, Vin, Cheng 1996), counted in tokens. In virtual time, the next request
  of an agent starts where its last one ended, and the earliest start goes first. A call of an agent with few calls
  passes the queued calls of an agent with many, and no agent starves. When the queue is empty, this state is reset.
- Tokens are reserved by estimate when a request starts, and settled when it ends.
- A refusal (429, 503, 529) closes the endpoint for all agents for as long as the endpoint asks. It also lowers the
  pace, once per burst of refusals and in proportion to the share of refused requests. The pace grows back slowly
  (additive increase, multiplicative decrease). If the request limit is unknown, it is estimated: the recent answers,
  divided by the time until the endpoint accepts requests again. The estimate then rises slowly.

- The concurrency is a window as in TCP (Jacobson 1988): it begins small, grows with each answer, and is halved if a
  request times out or is refused as too many, once for all requests that were sent before. After that, it grows by one
  for each window of answers, and slower near the size that failed, up to the limit of the operator. A rate limit that
  says when to come again is about requests or tokens a minute, not about requests at once: the window stays as it is.

The governor has no task of its own. One waiting request at a time (the driver) keeps the time for all. So the same code
runs in simulated time, and it costs no step there if there is nothing to wait for.
"""

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, Literal

import attrs

from sim.llm.limits.pacing import ClockPacer, Pacer, Tokens
from sim.llm.types import ClientClock, ModelError, Wake

HEADROOM: Final = 0.95
"""The share of a limit that is used. Together with `BURST`, the sum over any minute stays within the limit."""

BURST: Final = 0.05
"""The size of the token bucket, as a share of the tokens per minute."""

CUT: Final = 0.5
"""After a burst of refusals the pace is multiplied by 1 - `CUT` * (share of refused requests), as in DCTCP (Alizadeh et
al. 2010). A single refusal has little effect; if all requests are refused, the pace is halved.
"""

GROWTH: Final = 0.1
"""Increase of the pace, as a share of the limit, after each `CALM` seconds in which the endpoint is open."""

RAISE: Final = 0.01
"""Relative increase of an estimated limit after each `CALM` seconds at full pace."""

CALM: Final = 5.0
"""Seconds between two increases of the pace. A refusal after this time starts a new burst."""

LEAST: Final = 0.2
"""The lowest pace, as a share of the limit."""

FIRST_WINDOW: Final = 8.0
"""The requests that are in flight at first. A small server needs minutes for 64, and all of them would time out."""

SHRINK: Final = 0.5
"""The share of the requests in flight that remains after a timeout, or a refusal of too many at once."""

CAUTION: Final = 0.1
"""How much slower the window grows near the size at which requests have timed out."""

_MEMORY = 1 / 16  # weight of the latest request in the moving share of refusals
_MINUTE = 60.0
_REMEMBERED = 10_000  # answers kept for the estimate of a limit
_FEWEST_ANSWERS = 20  # answers for an estimate: fewer measure the demand, not the limit

_INSTANT: Final = 1e-6  # seconds; the clock can round a shorter wait to zero

LONGEST_CLOSED: Final = 120.0
"""The longest time in seconds that an endpoint is closed for all. A call that must wait longer gives up by itself."""


@attrs.frozen
class Limits:
    """The limits of an endpoint; None: not known."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None


@attrs.frozen
class ReportedLimits:
    """The limits that an endpoint reports in a response (`x-ratelimit-*`); None: not reported.

    Args:
        limit_requests, limit_tokens: the limits.
        remaining_requests, remaining_tokens: the rest of each limit.
        reset_requests, reset_tokens: seconds until the limit is reset.
    """

    limit_requests: float | None = None
    limit_tokens: float | None = None
    remaining_requests: float | None = None
    remaining_tokens: float | None = None
    reset_requests: float | None = None
    reset_tokens: float | None = None


def _too_many_at_once(error: ModelError) -> bool:
    """Whether a failure can mean that fewer requests should be in flight."""
    return error.kind in ("timeout", "overload") or (error.kind == "rate_limit" and error.retry_after is None)


@attrs.frozen
class GovernorStatistics:
    """The state of a governor: counts since its creation, and the limits in use now.

    `concurrency` is the number of requests that may be in flight, and `most_concurrent` the limit of the operator.
    """

    granted: int
    refused: int
    in_flight: int
    waiting: int
    pace: float
    requests_per_minute: float
    tokens_per_minute: float
    concurrency: float
    most_concurrent: float


def _believed(limit: float | None) -> float:
    """Return a reported limit. One below 1 per minute would stop all requests, so it counts as unknown."""
    return math.inf if limit is None or limit < 1 else limit


class _QueuedRequest:
    """A request that waits for its turn."""

    __slots__ = ("granted_at", "state", "tokens", "virtual", "wake")

    def __init__(self, tokens: float, virtual: float) -> None:
        self.granted_at = 0.0
        self.tokens = tokens
        self.virtual = virtual  # start in virtual time
        self.state: Literal["waiting", "granted", "gone"] = "waiting"
        self.wake: Wake | None = None


class Permit:
    """The permission to make one request. It must be closed in every case."""

    __slots__ = ("_governor", "_open", "_reserved", "_since")

    def __init__(self, governor: "Governor", reserved: float, since: float) -> None:
        self._governor = governor
        self._reserved = reserved
        self._since = since
        self._open = True

    def close(self, tokens: float | None = None, error: ModelError | None = None, *, answered: bool = True) -> None:
        """Return the slot, settle the tokens, and react to a refusal. A second call does nothing.

        Args:
            tokens: the tokens of the request; None: not known, so the reserved tokens count.
            error: the failure, or None.
            answered: whether the endpoint responded. A request that was cancelled or not sent changes no limit.
        """
        if self._open:
            self._open = False
            give_back = 0.0 if tokens is None else self._reserved - tokens
            self._governor.settle(give_back, error, answered=answered, since=self._since)


class Governor:
    """Shares one endpoint among all agents.

    Args:
        clock: the source of time.
        limits: the limits that the operator sets. Headers of the endpoint can lower them, and add missing ones.
        pacer: makes a pacer for a rate per second; by default a `ClockPacer`.
    """

    def __init__(
        self, clock: ClientClock, limits: Limits | None = None, *, pacer: Callable[[float], Pacer] | None = None
    ) -> None:
        limits = limits or Limits()
        self._clock = clock
        self._make_pacer = pacer or (lambda rate: ClockPacer(clock, rate))
        self._requests = limits.requests_per_minute or math.inf
        self._tokens_limit = limits.tokens_per_minute or math.inf
        self._concurrency = limits.concurrency or math.inf
        self._window = self._concurrency if math.isinf(self._concurrency) else min(FIRST_WINDOW, self._concurrency)
        self._grown_fast = True  # until the first timeout or refusal
        self._shrunk_at = -math.inf
        self._failed_at = 0.0  # the requests in flight when the window was halved
        self._estimate = math.inf  # requests per minute, estimated from refusals
        self._pace = 1.0  # share of the limits in use
        self._refused_share = 0.0  # of the latest requests
        self._grown_at = clock.now()
        self._cut_at = -math.inf
        self._closed_until = -math.inf
        self._answered: deque[float] = deque(maxlen=_REMEMBERED)  # times of the answers in the last minute
        self._pacer: Pacer | None = None
        self._pacer_rate = math.inf
        self._paced = False  # whether the driver holds an unused place of the pacer
        self._tokens = Tokens()
        self._queue: list[tuple[float, int, _QueuedRequest]] = []
        self._waiting = 0
        self._virtual = 0.0
        self._ends: dict[str, float] = {}  # by agent: end of its latest request in virtual time
        self._driver: _QueuedRequest | None = None
        self._news: Wake | None = None
        self._granted = self._refused = self._in_flight = self._sequence = 0
        self._apply()

    # -- admission

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit of tokens is known. Without one, a rough number of tokens is enough for the fair order."""
        return not math.isinf(self._tokens_limit)

    async def admit(self, agent: str, tokens: float) -> Permit:
        """Wait until `agent` may send a request of about `tokens` tokens, and return the permit."""
        tokens = max(1.0, tokens)
        if not self._waiting and self._driver is None and (self._pacer is None or self._paced):
            now = self._clock.now()
            if self._delay(tokens, now) < _INSTANT:  # as of most calls: alone in the queue, and at once at its head
                self._start(tokens)
                return Permit(self, tokens, now)
        request = self._enqueue(agent, tokens)
        try:
            while request.state == "waiting":
                if self._driver is None:
                    self._driver = request
                    await self._drive(request)
                else:
                    request.wake = self._clock.wake()
                    await request.wake.wait()
        except BaseException:
            if request.state == "granted":  # at the instant of the cancellation
                self.settle(request.tokens, None, answered=False)
            else:
                request.state = "gone"
                self._waiting -= 1
            raise
        finally:
            self._hand_over(request)
        return Permit(self, request.tokens, request.granted_at)

    def _enqueue(self, agent: str, tokens: float) -> _QueuedRequest:
        if not self._waiting:  # the queue is empty, so fairness needs no history
            self._queue.clear()
            self._ends.clear()
            self._virtual = 0.0
        virtual = max(self._virtual, self._ends.get(agent, 0.0))
        self._ends[agent] = virtual + tokens
        request = _QueuedRequest(tokens, virtual)
        self._sequence += 1
        heappush(self._queue, (virtual, self._sequence, request))
        self._waiting += 1
        if self._queue[0][2] is request:
            self._tell()  # the driver can be waiting for a different request
        return request

    async def _drive(self, mine: _QueuedRequest) -> None:
        """Grant requests in turn until `mine` is granted."""
        while mine.state == "waiting":
            if self._pacer is not None and not self._paced:
                await self._pacer.acquire()
                self._paced = True
            head = self._head()
            delay = self._delay(head.tokens, self._clock.now())
            if delay < _INSTANT:
                self._grant(head)
            else:
                await self._wait_for_news(delay)

    def _head(self) -> _QueuedRequest:
        """Return the next request in the queue. There is one, because the driver itself waits."""
        while self._queue[0][2].state != "waiting":
            heappop(self._queue)
        return self._queue[0][2]

    def _delay(self, tokens: float, now: float) -> float:
        """Return the seconds until a request for `tokens` can start; infinite: not before a slot is free."""
        self._grow(now)
        if self._closed_until > now:
            return self._closed_until - now
        if self._in_flight + 1 > max(1.0, min(self._concurrency * self._pace, self._window)):
            return math.inf
        self._tokens.refill(now)
        return self._tokens.delay(tokens)

    def _grant(self, request: _QueuedRequest) -> None:
        heappop(self._queue)
        request.state = "granted"
        request.granted_at = self._clock.now()
        self._waiting -= 1
        self._virtual = request.virtual
        self._start(request.tokens)
        if request.wake is not None:
            request.wake.set()

    def _start(self, tokens: float) -> None:
        """Take a slot, tokens and a place for a request."""
        self._tokens.add(-tokens)
        self._paced = False
        self._in_flight += 1
        self._granted += 1

    async def _wait_for_news(self, delay: float) -> None:
        self._news = self._clock.wake()
        try:
            if math.isinf(delay):
                await self._news.wait()
            else:
                await self._clock.within(delay, self._news.wait)
        except TimeoutError:
            pass
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()

    def _hand_over(self, request: _QueuedRequest) -> None:
        """If there is no driver now, wake the next request in the queue to become the driver.

        This is also needed if `request` was not the driver: it can have been woken to become the driver, and then
        cancelled at the same instant.
        """
        if self._driver is request:
            self._driver = None
        if self._driver is None and self._waiting:
            heir = self._head()
            if heir.wake is not None:
                heir.wake.set()

    # -- adaptation

    def settle(self, give_back: float, error: ModelError | None, *, answered: bool, since: float = 0.0) -> None:
        """Take back a slot and the unused tokens. `Permit.close` calls this.

        Args:
            give_back: the unused tokens.
            error: the failure, or None.
            answered: whether the endpoint responded.
            since: when the request was sent.
        """
        now = self._clock.now()
        if answered:
            self._resize(error, since, now)
        self._in_flight -= 1
        self._tokens.refill(now)
        self._tokens.add(give_back)
        if answered:
            self._judge(error, now)
        self._tell()

    def _resize(self, error: ModelError | None, since: float, now: float) -> None:
        """Adapt the window to the end of a request; requests in flight include it.

        Requests that were sent before the window was last halved say nothing about its present size.
        """
        if math.isinf(self._window):
            return
        if error is None:
            limiting = self._in_flight + 1 >= self._window or (self._waiting and 2 * self._in_flight >= self._window)
            if limiting:
                self._window = min(self._concurrency, self._window + self._growth())
        elif _too_many_at_once(error) and since >= self._shrunk_at:
            self._grown_fast = False
            self._shrunk_at = now
            self._failed_at = self._in_flight
            self._window = max(1.0, min(self._window, self._in_flight) * SHRINK)

    def _growth(self) -> float:
        """Return by how much an answer enlarges the window: little near the size that failed last (as in CUBIC)."""
        if self._grown_fast:
            return 1.0
        return (1.0 if self._window + 1 < self._failed_at else CAUTION) / self._window

    def _judge(self, error: ModelError | None, now: float) -> None:
        """Update the limits from the end of a request."""
        refused = error is not None and error.kind in ("rate_limit", "overload")
        self._refused_share += _MEMORY * (refused - self._refused_share)
        if error is None:
            self._answered.append(now)
        elif refused:
            self._back_off(error.retry_after or 0.0, now)

    def learn(self, rates: ReportedLimits) -> None:
        """Apply the limits that the endpoint reports: the lower of the reported and the known limit counts."""
        now = self._clock.now()
        before = (self._requests, self._tokens_limit)
        self._requests = min(self._requests, _believed(rates.limit_requests))
        self._tokens_limit = min(self._tokens_limit, _believed(rates.limit_tokens))
        if before != (self._requests, self._tokens_limit):
            self._apply()
        for remaining, reset in (
            (rates.remaining_requests, rates.reset_requests),
            (rates.remaining_tokens, self._refilled(rates.reset_tokens)),
        ):
            if remaining is not None and remaining <= 0 and reset is not None:
                self._close(reset, now)
        if rates.remaining_tokens is not None:
            self._tokens.refill(now)
            self._tokens.level = min(self._tokens.level, rates.remaining_tokens)

    def _refilled(self, reset: float | None) -> float | None:
        """Return the seconds until an endpoint without tokens has enough tokens for a burst.

        If the limit is known, tokens arrive at its rate. That is long before the reset, at which all are available.
        """
        if reset is None or math.isinf(self._tokens_limit):
            return reset
        return min(reset, self._tokens_limit * BURST / self._tokens.rate)

    def _close(self, seconds: float, now: float) -> None:
        self._closed_until = max(self._closed_until, now + min(seconds, LONGEST_CLOSED))
        self._tokens.refill(now)
        self._tokens.hold(self._closed_until)  # otherwise a full bucket would be sent at once, and refused

    def _back_off(self, advised: float, now: float) -> None:
        """Close for as long as the endpoint asks, and lower the pace once per burst of refusals."""
        self._refused += 1
        self._close(advised, now)
        self._grown_at = max(self._grown_at, self._closed_until)
        if now < self._cut_at + CALM:
            return
        self._cut_at = max(now, self._closed_until)
        if math.isinf(self._requests) and (self._pace == 1 or math.isinf(self._estimate)):
            self._estimate = self._estimated(advised, now)
        self._pace = max(LEAST, self._pace * (1 - CUT * self._refused_share))
        self._apply()

    def _estimated(self, advised: float, now: float) -> float:
        """Return the estimated limit in requests per minute, from the recent answers."""
        while self._answered and self._answered[0] <= now - _MINUTE:
            self._answered.popleft()
        if len(self._answered) < _FEWEST_ANSWERS:
            return self._estimate
        return len(self._answered) * _MINUTE / (advised + max(1.0, now - self._answered[0]))

    def _grow(self, now: float) -> None:
        """Raise the pace for the time that has passed, or an estimated limit if the pace is full."""
        steps = math.floor((now - self._grown_at) / CALM)
        if steps < 1:
            return
        self._grown_at += steps * CALM
        if self._pace < 1:
            self._pace = min(1.0, self._pace + steps * GROWTH)
            self._apply()
        elif not math.isinf(self._estimate):
            self._estimate *= 1 + RAISE * steps
            self._apply()

    def _apply(self) -> None:
        """Apply the limits and the pace to the pacer and the token bucket."""
        share = HEADROOM * self._pace
        rate = min(self._requests, self._estimate) * share / _MINUTE
        if rate != self._pacer_rate:
            self._pacer_rate, self._pacer = rate, self._make_pacer(rate)
        if not math.isinf(self._tokens_limit):
            self._tokens.set_rate(self._tokens_limit * share, self._tokens_limit * BURST, self._clock.now())

    def statistics(self) -> GovernorStatistics:
        """Return the current statistics."""
        return GovernorStatistics(
            granted=self._granted,
            refused=self._refused,
            in_flight=self._in_flight,
            waiting=self._waiting,
            pace=self._pace,
            requests_per_minute=self._pacer_rate * _MINUTE,
            tokens_per_minute=self._tokens.rate * _MINUTE,
            concurrency=math.floor(min(self._concurrency * self._pace, self._window))
            if math.isfinite(self._window)
            else math.inf,
            most_concurrent=self._concurrency,
        )
