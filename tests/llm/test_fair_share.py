"""Five hundred agents on a small endpoint, on modelled time: how much is used, how much refused, who gets what."""

import random
from collections import Counter, deque

import attrs
import pytest
import trio

from sim.llm.client import Client, Endpoint, make_endpoint
from sim.llm.endpoint import EdgeClock
from sim.llm.limits.governor import Limits, ReportedLimits
from sim.llm.router import Target
from sim.llm.types import ChatMessage, Completion, ModelError, ModelRequest, Observer, Sampling, TokenUsage
from tests.llm.timing import jump

LIMIT = 30_000
MINUTES = 30


class LimitedProvider:
    """Allows so many tokens in any minute, and refuses what exceeds them until there is room.

    Args:
        charge: `actual`: what a request will have used counts when it comes; `most`: what it may use at most.
        headers: whether it tells its limits.
    """

    name = "endpoint"

    def __init__(self, charge: str, *, headers: bool, seed: int = 1) -> None:
        self.charged = self.requests = self.refused = 0
        self.at: Endpoint | None = None
        self._charge = charge
        self._headers = headers
        self._draw = random.Random(seed)
        self._window: deque[tuple[float, int]] = deque()
        self._used = 0

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer, after a while, or refuse."""
        now = trio.current_time()
        while self._window and self._window[0][0] <= now - 60:
            self._used -= self._window.popleft()[1]
        usage = TokenUsage(100, min(400, max(1, round(self._draw.lognormvariate(4.8, 0.6)))))
        cost = 100 + (usage.output_tokens if self._charge == "actual" else request.sampling.max_tokens or 0)
        self.requests += 1
        refused = self._used + cost > LIMIT
        if not refused:
            self._window.append((now, cost))
            self._used += cost
            self.charged += cost
        if self._headers and self.at is not None:
            left = LIMIT - self._used
            self.at.governor.learn(ReportedLimits(limit_tokens=LIMIT, remaining_tokens=left, reset_tokens=1))
        if refused:
            self.refused += 1
            raise ModelError("rate_limit", "later", retry_after=self._window[0][0] + 60 - now)
        await trio.sleep(0.3 + usage.output_tokens / 50)
        return Completion("x", (), "end_turn", usage, model)


@attrs.frozen
class Share:
    """What came of it: shares of the allowed tokens and of the requests, and calls of each agent."""

    used: float
    refused: float
    given_up: int
    calls: Counter[str]

    @property
    def fairness(self) -> float:
        """Jain's index: 1 if all agents got equally many calls."""
        counts = list(self.calls.values())
        return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))


def share(endpoint: LimitedProvider, limits: Limits, agents: int = 500) -> Share:
    """Return what comes of agents that ask all the time."""
    calls = Counter({f"agent-{number}": 0 for number in range(agents)})
    given_up = 0
    request = ModelRequest((ChatMessage("user", "x" * 372),), sampling=Sampling(max_tokens=400))

    async def main() -> None:
        nonlocal given_up
        clock = EdgeClock(1)
        endpoint.at = make_endpoint(clock, endpoint, limits)
        client = Client(clock, {"endpoint": endpoint.at})

        async def one(agent: str) -> None:
            nonlocal given_up
            while True:
                try:
                    await client.complete([Target("endpoint", "m")], request, agent=agent)
                    calls[agent] += 1
                except ModelError:
                    given_up += 1

        with trio.move_on_after(60 * MINUTES):
            async with trio.open_nursery() as nursery:
                for agent in calls:
                    nursery.start_soon(one, agent)

    jump(main)
    used = endpoint.charged / (LIMIT * MINUTES)
    return Share(used, endpoint.refused / endpoint.requests, given_up, calls)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("headers", "known"),
    [(False, True), (True, True), (True, False)],
    ids=["limit given", "limit given and told", "limit told"],
)
def test_500_agents(headers: bool, known: bool):
    """500 agents use nine tenths of the tokens, under 1 % of requests are refused, and all get nearly the same.

    Whether the operator says the limit or the endpoint does.
    """
    endpoint = LimitedProvider("actual", headers=headers)
    result = share(endpoint, Limits(tokens_per_minute=LIMIT if known else None, concurrency=64))
    assert result.used >= 0.9
    assert result.refused < 0.01
    assert result.given_up == 0
    assert result.fairness > 0.99
    assert max(result.calls.values()) <= 2 * min(result.calls.values())


@pytest.mark.slow
def test_an_endpoint_that_counts_otherwise():
    """One that charges what an answer may have at most, twice of what it has, is found out: all of it is used.

    One request in thirty may be refused, each is tried again, and nobody is left out.
    """
    result = share(LimitedProvider("most", headers=True), Limits(tokens_per_minute=LIMIT, concurrency=64))
    assert result.used >= 0.9
    assert result.refused < 1 / 30
    assert result.given_up == 0
    assert min(result.calls.values()) > 0
    assert result.fairness > 0.95
