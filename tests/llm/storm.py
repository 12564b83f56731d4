"""Many agents against an endpoint that fails in every way at once, over real sockets; and what came of it.

    python -m tests.llm.storm --help

Time passes faster by a scale, for the client (`FastClock`) and for what the endpoint does on purpose.
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import anyio
import attrs

from sim.llm.access import Access
from sim.llm.endpoint import EdgeClient, EdgeClock, LoopPacer
from sim.llm.limits.pacing import SLACK, Pacer
from sim.llm.limits.retry import RetryPolicy
from sim.llm.router import Target
from sim.llm.types import Answer, ChatMessage, ModelError, ModelRequest, ToolSpec
from tests.llm.endpoint import Endpoint, Reply, Seen, error, fitting, streamed, whole

PERIOD = 10.0  # seconds from one burst of refusals to the next
TOOL = ToolSpec("note", "notes", {"type": "object"})


class FastClock(EdgeClock):
    """Real time that passes faster by a scale."""

    def __init__(self, scale: float) -> None:
        super().__init__(seed=1)
        self.scale = scale

    def now(self) -> float:
        return super().now() * self.scale

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / self.scale)

    async def within(self, seconds: float, work: Callable[[], Any]) -> Any:
        return await super().within(seconds / self.scale, work)

    def pacer(self, rate: float) -> Pacer:
        pacer = super().pacer(rate)
        return LoopPacer(rate * self.scale, SLACK / self.scale) if isinstance(pacer, LoopPacer) else pacer


@attrs.frozen
class Weather:
    """How an endpoint fails: shares of requests, and of time for refusals that come in bursts."""

    refused: float = 0.3
    bursts: bool = True
    broken: float = 0.1
    reset: float = 0.05
    truncated: float = 0.03
    hanging: float = 0.02
    cut_arguments: float = 0.05


@attrs.define
class Figures:
    """What came of a storm."""

    calls: int = 0
    answered: int = 0
    given_up: int = 0
    requests: int = 0
    most_requests_of_a_call: int = 0
    wrong_answers: int = 0
    wrong_executions: int = 0
    not_executed: int = 0
    agents_finished: int = 0
    seconds: float = 0.0
    busiest: float = 0.0  # requests in the busiest second over those in the mean second (of scaled time)
    outcomes: Counter[str] = attrs.field(factory=Counter)

    @property
    def amplification(self) -> float:
        """Requests for each call."""
        return self.requests / self.calls


class Storm:
    """One endpoint in bad weather, and the agents that use it."""

    def __init__(self, weather: Weather, scale: float, seed: int) -> None:
        self.weather = weather
        self.scale = scale
        self.figures = Figures()
        self._draw = random.Random(seed)
        self._start = time.monotonic()

    def reply(self, seen: Seen) -> Reply:
        """Be the endpoint's script."""
        draw, weather = self._draw.random, self.weather
        refused = self._refusal(seen)
        if refused is not None:
            return refused
        at = draw()
        if at < weather.broken:
            return error(self._draw.choice([500, 502, 503, 529]))
        if (at := at - weather.broken) < weather.reset:
            return Reply(end="reset")
        text = "the answer to " + seen.body["messages"][-1]["content"]
        calls = [("note", json.dumps({"text": text}))] if "tools" in seen.body else []
        if (at := at - weather.reset) < weather.truncated:
            events = streamed(text, calls=calls)
            return Reply(
                events=events[: self._draw.randrange(1, len(events) - 3)], end=self._draw.choice(["done", "cut"])
            )
        if (at := at - weather.truncated) < weather.hanging:
            return Reply(end="hang")
        if calls and at - weather.hanging < weather.cut_arguments:
            calls = [("note", calls[0][1][:-7])]
            return fitting(seen, text, calls=calls, finish=self._draw.choice(["length", "tool_calls"]))
        return (
            Reply(events=streamed(text, calls=calls))
            if seen.body.get("stream")
            else Reply(body=whole(text, calls=calls))
        )

    def _refusal(self, seen: Seen) -> Reply | None:
        """Return a 429, in one of its three forms, or None."""
        phase = (seen.at - self._start) * self.scale % PERIOD
        if self.weather.bursts:
            if phase >= self.weather.refused * PERIOD:
                return None
            wait = self.weather.refused * PERIOD - phase
        elif self._draw.random() < self.weather.refused:
            wait = self._draw.random()
        else:
            return None
        form: Literal["seconds", "milliseconds", "none"] = self._draw.choice(["seconds", "milliseconds", "none"])
        if form == "none":
            return error(429)
        return error(
            429, **({"retry_after": f"{wait:.3f}"} if form == "seconds" else {"retry_after_ms": f"{wait * 1000:.0f}"})
        )

    async def agent(self, client: EdgeClient, name: str, calls: int) -> None:
        """Ask, and ask again in a next iteration if the client gave up, until all questions are answered."""
        figures = self.figures
        for number in range(calls):
            question = f"{name}/{number}"
            request = ModelRequest(
                (ChatMessage("user", question),), (TOOL,) if number % 2 else (), stream=number % 4 < 2
            )
            while True:
                figures.calls += 1
                try:
                    answer = await client.complete([Target("openai", "m")], request, agent=name)
                except ModelError as failure:
                    self._count(failure)
                    figures.given_up += 1
                    continue
                self._count(answer)
                if self._check(answer, question):
                    break
            figures.answered += 1
        figures.agents_finished += 1

    def _count(self, ended: Answer | ModelError) -> None:
        attempts = ended.attempts
        self.figures.most_requests_of_a_call = max(self.figures.most_requests_of_a_call, len(attempts))
        self.figures.outcomes.update(attempt.outcome for attempt in attempts)

    def _check(self, answer: Answer, question: str) -> bool:
        """Do what an agent does with an answer; return whether it need not ask again."""
        expected = "the answer to " + question
        self.figures.wrong_answers += answer.completion.text != expected
        for call in answer.completion.tool_calls:
            arguments = call.parsed()
            if arguments is None:
                self.figures.not_executed += 1
                return False
            self.figures.wrong_executions += arguments != {"text": expected}
        if answer.completion.stop == "max_tokens":
            self.figures.not_executed += 1
            return False
        return True


def storm(
    weather: Weather,
    *,
    agents: int,
    calls: int,
    per_second: float,
    scale: float,
    backend: str,
    seed: int = 1,
) -> Figures:
    """Return what comes of `agents` that have `calls` questions each.

    Args:
        weather: how the endpoint fails.
        agents: how many ask.
        calls: questions of each.
        per_second: requests that the operator allows in a second (of scaled time).
        scale: how much faster than real time passes.
        backend: asyncio or trio.
        seed: of the weather.
    """
    tempest = Storm(weather, scale, seed)

    async def main() -> None:
        access = Access(base_url=endpoint.url, requests_per_minute=int(60 * per_second))
        client = EdgeClient(access, policy=RetryPolicy(timeout=30), clock=FastClock(scale))
        started = time.monotonic()
        async with anyio.create_task_group() as group:
            for number in range(agents):
                group.start_soon(tempest.agent, client, f"agent-{number}", calls)
        tempest.figures.seconds = (time.monotonic() - started) * scale
        await client.aclose()

    with Endpoint(tempest.reply) as endpoint:
        anyio.run(main, backend=backend)
    figures = tempest.figures
    figures.requests = len(endpoint.seen)
    first, last = endpoint.seen[0].at, endpoint.seen[-1].at
    bins = Counter(int((seen.at - first) * scale) for seen in endpoint.seen)
    figures.busiest = max(bins.values()) / (figures.requests / ((last - first) * scale))
    return figures


def main() -> None:
    """Print the figures of storms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--per-second", type=float, default=6)
    parser.add_argument("--scale", type=float, default=8)
    options = parser.parse_args()
    for bursts in (True, False):
        for backend in ("asyncio", "trio"):
            figures = storm(Weather(bursts=bursts), **vars(options), backend=backend)
            text = f"429 in bursts: {bursts}, {backend}: amplification {figures.amplification:.2f}\n    {figures}"
            print(text)  # noqa: T201 (for a person)


if __name__ == "__main__":
    main()
