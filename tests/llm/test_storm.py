"""The client against an endpoint that fails in every way at once: see `storm`."""

import pytest

from sim.llm.limits.retry import MOST_REQUESTS
from tests.llm.storm import Figures, Weather, storm

# The library leaves generators to the collector (see `OpenAIProvider._stream`), and trio warns of each.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")


both_backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def proven(figures: Figures, agents: int) -> None:
    """Check what holds in any weather."""
    assert figures.agents_finished == agents
    assert figures.wrong_answers == figures.wrong_executions == 0
    assert figures.most_requests_of_a_call <= MOST_REQUESTS
    tries, unsent = figures.outcomes.total(), figures.outcomes["network"] + figures.outcomes["timeout"]
    assert tries - unsent <= figures.requests <= tries  # the endpoint saw no request that is no attempt


@pytest.mark.proof
@both_backends
def test_storm(backend: str):
    """With 30 % 429, 10 % 5xx, resets, truncated streams and hangs all agents finish, within the requests of a call.

    No truncated answer is accepted, and no tool is called with arguments that were cut off. How evenly the requests are
    spread is a matter of the machine here: `test_a_refusal_closes_for_all` shows that there is no herd.
    """
    proven(storm(Weather(), agents=40, calls=2, per_second=6, scale=20, backend=backend), 40)


@pytest.mark.proof
@both_backends
def test_long_storm(backend: str):
    """Over many calls, there are at most one and a half requests for each."""
    figures = storm(Weather(), agents=100, calls=6, per_second=6, scale=10, backend=backend)
    proven(figures, 100)
    assert figures.amplification <= 1.5


@pytest.mark.proof
def test_unrelated_refusals():
    """Refusals by chance, one request in three, whatever is done: all agents finish, within the requests of a call.

    Here no client can do with fewer than 1 / (1 - 0.45) = 1.8 requests for an answer: so the number is not checked.
    """
    proven(storm(Weather(bursts=False), agents=20, calls=2, per_second=6, scale=20, backend="asyncio"), 20)
