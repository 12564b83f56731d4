"""The governor: one for each endpoint, shared by all agents. It decides who may send a request, and when.

A request needs four things: its turn, a slot, tokens, and a place in the pace of requests.

- Turns are start-time fair queueing (Goyal, Vin, Cheng 1996), counted in tokens: each agent's next request starts, in
  virtual time, where its last one ended, and the earliest start goes first. An agent that asks a hundred times waits
  behind one that asks once, and nobody starves. Nothing is remembered once nobody waits.
- Tokens are reserved by estimate when a request starts and settled when it ends.
- A refusal (429, 503, 529) closes the endpoint for all for as long as it asks, and cuts the pace, once per burst and by
  the share of requests that is refused; the pace grows back slowly (AIMD). If no limit is known, it is estimated from
  what was answered, over the time until the endpoint wants to be asked again; and it is raised slowly in turn.

There is no task of its own: of those who wait, one at a time (the driver) keeps the time for all. So the same code runs
on simulated time, where it costs no step, if there is nothing to wait for.
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
"""The share of a limit that is used: with the burst below, the sum over any minute stays within the limit."""

BURST: Final = 0.05
"""The share of a minute's tokens that may go at once."""

CUT: Final = 0.5
"""How much of the share of requests that are refused is taken off the pace by a burst of refusals: one among many
hardly counts, and a flood halves the pace (as in DCTCP: Alizadeh et al. 2010).
"""

GROWTH: Final = 0.1
"""What is added to the pace, as a share of the limit, after each `CALM` in which the endpoint is open."""

RAISE: Final = 0.01
"""What is added to an estimated limit, as a share of it, after each `CALM` at full pace."""

CALM: Final = 5.0
"""Seconds after which a refusal belongs to a new burst, and after each of which the pace grows."""

LEAST: Final = 0.2
"""The least share of the limit that the pace falls to."""

_MEMORY = 1 / 16  # the weight of the latest request in the share of refusals
_MINUTE = 60.0
_REMEMBERED = 10_000  # answers, for the estimate of a limit
_ENOUGH = 20  # answers, for an estimate: fewer say more about the demand than about the limit

_INSTANT: Final = 1e-6  # seconds; a shorter wait may be lost in the rounding of the clock

LONGEST_CLOSED: Final = 120.0
"""Seconds that an endpoint is closed for all at most, whatever it asks: who must wait longer gives up by himself."""


@attrs.frozen
class Limits:
    """What an endpoint allows; None stands for no limit that is known."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None


@attrs.frozen
class ReportedLimits:
    """What an endpoint says about its limits in a response (`x-ratelimit-*`); None for what it does not say.

    Args:
        limit_requests, limit_tokens: what is allowed.
        remaining_requests, remaining_tokens: what is left of it.
        reset_requests, reset_tokens: seconds until there is more.
    """

    limit_requests: float | None = None
    limit_tokens: float | None = None
    remaining_requests: float | None = None
    remaining_tokens: float | None = None
    reset_requests: float | None = None
    reset_tokens: float | None = None


@attrs.frozen
class GovernorStatistics:
    """What a governor does at this moment: counts since it was made, and the limits that it works with now."""

    granted: int
    refused: int
    in_flight: int
    waiting: int
    pace: float
    requests_per_minute: float
    tokens_per_minute: float


def _believed(limit: float | None) -> float:
    """Return a limit as the endpoint says it; one below 1 a minute would stop everything, and says nothing."""
    return math.inf if limit is None or limit < 1 else limit


class _QueuedRequest:
    """One request that waits for its turn."""

    __slots__ = ("state", "tokens", "virtual", "wake")

    def __init__(self, tokens: float, virtual: float) -> None:
        self.tokens = tokens
        self.virtual = virtual  # where it starts in virtual time
        self.state: Literal["waiting", "granted", "gone"] = "waiting"
        self.wake: Wake | None = None


class Permit:
    """The right to make one request; `close` it in every case."""

    __slots__ = ("_governor", "_open", "_reserved")

    def __init__(self, governor: "Governor", reserved: float) -> None:
        self._governor = governor
        self._reserved = reserved
        self._open = True

    def close(self, tokens: float | None = None, error: ModelError | None = None, *, answered: bool = True) -> None:
        """Give the slot back, settle the tokens, and learn from a refusal. Closing again does nothing.

        Args:
            tokens: what the request cost, or None if that is not known: then what was reserved counts.
            error: how it failed, or None.
            answered: whether the endpoint said anything; nothing is learnt of a request that was cancelled or not made.
        """
        if self._open:
            self._open = False
            self._governor.settle(0.0 if tokens is None else self._reserved - tokens, error, answered=answered)


class Governor:
    """Shares one endpoint among all agents.

    Args:
        clock: what tells the time.
        limits: what the operator says is allowed; the endpoint's headers may lower it, and fill in what is missing.
        pacer: makes what paces requests, from a rate per second; by default a `ClockPacer`.
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
        self._estimate = math.inf  # requests a minute, from refusals
        self._pace = 1.0  # share of the limits in use
        self._refused_share = 0.0  # of the latest requests
        self._grown_at = clock.now()
        self._cut_at = -math.inf
        self._closed_until = -math.inf
        self._answered: deque[float] = deque(maxlen=_REMEMBERED)  # when, in the last minute
        self._pacer: Pacer | None = None
        self._pacer_rate = math.inf
        self._paced = False  # the driver holds a place that no request has used yet
        self._tokens = Tokens()
        self._queue: list[tuple[float, int, _QueuedRequest]] = []
        self._waiting = 0
        self._virtual = 0.0
        self._ends: dict[str, float] = {}  # agent → where its latest request ends in virtual time
        self._driver: _QueuedRequest | None = None
        self._news: Wake | None = None
        self._granted = self._refused = self._in_flight = self._sequence = 0
        self._apply()

    # -- asking

    async def admit(self, agent: str, tokens: float) -> Permit:
        """Wait until `agent` may make a request that is expected to cost `tokens`."""
        request = self._enqueue(agent, max(1.0, tokens))
        try:
            while request.state == "waiting":
                if self._driver is None:
                    self._driver = request
                    await self._drive(request)
                else:
                    request.wake = self._clock.wake()
                    await request.wake.wait()
        except BaseException:
            if request.state == "granted":  # at the very instant of the cancellation
                self.settle(request.tokens, None, answered=False)
            else:
                request.state = "gone"
                self._waiting -= 1
            raise
        finally:
            self._hand_over(request)
        return Permit(self, request.tokens)

    def _enqueue(self, agent: str, tokens: float) -> _QueuedRequest:
        if not self._waiting:  # nobody to be fair to
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
            self._tell()  # what the driver waits for may have changed
        return request

    async def _drive(self, mine: _QueuedRequest) -> None:
        """Grant requests in turn, until `mine` is among them."""
        while mine.state == "waiting":
            if self._pacer is not None and not self._paced:
                await self._pacer.acquire()
                self._paced = True
            head = self._head()
            delay = self._delay(head.tokens)
            if delay < _INSTANT:
                self._grant(head)
            else:
                await self._wait_for_news(delay)

    def _head(self) -> _QueuedRequest:
        """Return the request whose turn it is; there is one, because a driver waits itself."""
        while self._queue[0][2].state != "waiting":
            heappop(self._queue)
        return self._queue[0][2]

    def _delay(self, tokens: float) -> float:
        """Return the seconds until a request for `tokens` may start: 0 now, infinite when a slot comes free."""
        now = self._clock.now()
        self._grow(now)
        if self._closed_until > now:
            return self._closed_until - now
        if self._in_flight >= max(1.0, self._concurrency * self._pace):
            return math.inf
        self._tokens.refill(now)
        return self._tokens.delay(tokens)

    def _grant(self, request: _QueuedRequest) -> None:
        heappop(self._queue)
        request.state = "granted"
        self._waiting -= 1
        self._virtual = request.virtual
        self._tokens.add(-request.tokens)
        self._paced = False
        self._in_flight += 1
        self._granted += 1
        if request.wake is not None:
            request.wake.set()

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
        """If nobody drives now, wake the next in turn to do it.

        Also if `request` was not the driver: it may have been woken to become it, and cancelled at the same instant.
        """
        if self._driver is request:
            self._driver = None
        if self._driver is None and self._waiting:
            heir = self._head()
            if heir.wake is not None:
                heir.wake.set()

    # -- learning

    def settle(self, give_back: float, error: ModelError | None, *, answered: bool) -> None:
        """Take a slot back, and the tokens that were not used; `Permit.close` calls this."""
        self._in_flight -= 1
        now = self._clock.now()
        self._tokens.refill(now)
        self._tokens.add(give_back)
        if answered:
            self._judge(error, now)
        self._tell()

    def _judge(self, error: ModelError | None, now: float) -> None:
        """Learn from how a request ended."""
        refused = error is not None and error.kind in ("rate_limit", "overload")
        self._refused_share += _MEMORY * (refused - self._refused_share)
        if error is None:
            self._answered.append(now)
        elif refused:
            self._back_off(error.retry_after or 0.0, now)

    def learn(self, rates: ReportedLimits) -> None:
        """Take over what the endpoint says about its limits: the lower of it and of what is known counts."""
        now = self._clock.now()
        known = (self._requests, self._tokens_limit)
        self._requests = min(self._requests, _believed(rates.limit_requests))
        self._tokens_limit = min(self._tokens_limit, _believed(rates.limit_tokens))
        if known != (self._requests, self._tokens_limit):
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
        """Return the seconds until an endpoint without tokens has enough of them for a burst.

        They come in at the rate of their limit, if it is known, long before the reset, when all are there again.
        """
        if reset is None or math.isinf(self._tokens_limit):
            return reset
        return min(reset, self._tokens_limit * BURST / self._tokens.rate)

    def _close(self, seconds: float, now: float) -> None:
        self._closed_until = max(self._closed_until, now + min(seconds, LONGEST_CLOSED))
        self._tokens.refill(now)
        self._tokens.hold(self._closed_until)  # else all that had come in meanwhile would go at once, and be refused

    def _back_off(self, advised: float, now: float) -> None:
        """Close for as long as asked, and slow down, once per burst of refusals."""
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
        """Return the requests a minute that the endpoint seems to allow: what it answered until it had enough."""
        while self._answered and self._answered[0] <= now - _MINUTE:
            self._answered.popleft()
        if len(self._answered) < _ENOUGH:
            return self._estimate
        return len(self._answered) * _MINUTE / (advised + max(1.0, now - self._answered[0]))

    def _grow(self, now: float) -> None:
        """Raise the pace for the time that has passed, and an estimated limit once the pace is back to all of it."""
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
        """Put the limits and the pace into force."""
        share = HEADROOM * self._pace
        rate = min(self._requests, self._estimate) * share / _MINUTE
        if rate != self._pacer_rate:
            self._pacer_rate, self._pacer = rate, self._make_pacer(rate)
        if not math.isinf(self._tokens_limit):
            self._tokens.set_rate(self._tokens_limit * share, self._tokens_limit * BURST, self._clock.now())

    def statistics(self) -> GovernorStatistics:
        """Return what happens at this moment."""
        return GovernorStatistics(
            granted=self._granted,
            refused=self._refused,
            in_flight=self._in_flight,
            waiting=self._waiting,
            pace=self._pace,
            requests_per_minute=self._pacer_rate * _MINUTE,
            tokens_per_minute=self._tokens.rate * _MINUTE,
        )
