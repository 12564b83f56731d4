"""`simulated`: a provider whose answers take simulated time, cost tokens and fail, all drawn from distributions.

The content of an answer comes from another provider (`scripted`) or is filler text. Its duration is drawn, or comes
from a modelled server (`server`). All draws are from random streams of the calling agent, so the calls of one agent do
not affect those of another. Use it to plan time, tokens and money, and to test a population before paying for it.
"""

from collections.abc import Callable

import attrs

from sim.kernel import NS, Kernel
from sim.kernel.codec import encode
from sim.kernel.rng import Draws
from sim.kernel.waits import sleep_ns
from sim.llm.answers import example
from sim.llm.behaviour import Draw, Profile
from sim.llm.embeddings import embedding
from sim.llm.providers.server import ModelServer
from sim.llm.service_time import ServiceTime, Work
from sim.llm.streaming import cut, parts_of
from sim.llm.tokens import APPROXIMATE, Tokenizer, count_answer, count_request
from sim.llm.types import (
    Completion,
    ModelError,
    ModelRequest,
    Observer,
    Provider,
    TokenUsage,
)

PARTS = 8
"""The number of parts of a streamed answer."""


_LENGTH = Draw.lognormal(80, 300)


class Filler:
    """A provider of meaningless answers, for load tests.

    An answer has a random number of tokens, or is a small value that fits the `response_format` of the request.
    """

    name = "filler"

    def __init__(self, kernel: Kernel, length: Draw = _LENGTH) -> None:
        self._kernel = kernel
        self._length = length

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer without delay."""
        if request.texts:
            return embedding(model, request)
        stream = self._kernel.streams.get(self._kernel.acting().name, "llm.filler")
        text = "and " * max(1, round(self._length.sample(stream)))
        form = request.response_format or request.preferred_format
        if form is not None:
            text = encode(example(form)).decode()
        return Completion(text, (), "end_turn", TokenUsage(0, 0, estimated=True), model)


class Simulated:
    """A provider in simulated time.

    Args:
        kernel: the kernel that gives time and random streams.
        profile: the durations and failures of calls.
        inner: the provider of the content; `Filler` by default.
        server: the modelled server that processes calls. It then sets their duration, and can refuse them.
        priority: returns the priority of an agent's calls at the server; the lowest number goes first.
        tokenizer: counts tokens.
        time: the service time that calls take and that `server` uses; None: the simulated time of the agent.
    """

    name = "simulated"

    def __init__(
        self,
        kernel: Kernel,
        profile: Profile,
        inner: Provider | None = None,
        *,
        server: ModelServer | None = None,
        priority: Callable[[str], float] | None = None,
        tokenizer: Tokenizer = APPROXIMATE,
        time: ServiceTime | None = None,
    ) -> None:
        self._time = time
        self._kernel = kernel
        self._profile = profile
        self._inner = inner or Filler(kernel)
        self._server = server
        self._priority = priority
        self._tokenizer = tokenizer

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer after the time that the model would take.

        A request with `stream` is answered in parts, with or without an observer, so observers change nothing.

        Raises:
            ModelError: a random failure, or an error of the server or of the inner provider.
        """
        agent = self._kernel.acting().name
        stream = self._kernel.streams.draws(agent, "llm.simulated").moment(self._kernel.now).split()
        await self._perhaps_fail(stream)
        try:
            answer = await self._inner.complete(model, request)
        except ModelError:
            await self._pause(self._profile.first_token.sample(stream))
            raise
        answer = self._measured(model, request, answer, stream)
        pieces = list(parts_of(answer, PARTS)) if request.stream else [()]

        def show(part: int) -> None:
            if observe is not None:
                for delta in pieces[part]:
                    observe(delta)

        await self._take_time(agent, stream, answer.usage, len(pieces), show)
        if observe is not None and not request.stream:  # at once, so that an observer changes no time
            for delta in next(parts_of(answer, 1)):
                observe(delta)
        return answer

    async def _perhaps_fail(self, stream: Draws) -> None:
        failures = self._profile.failures
        draw = stream.random() if failures else 1.0
        for failure in failures:
            if draw < failure.share:
                await self._pause(failure.after.sample(stream))
                text = f"a simulated failure ({failure.kind})"
                raise ModelError(failure.kind, text, retry_after=failure.retry_after)
            draw -= failure.share

    def _measured(self, model: str, request: ModelRequest, answer: Completion, stream: Draws) -> Completion:
        """Return the answer with its usage, cut off at the token limit of the request."""
        if request.texts:
            return attrs.evolve(answer, usage=TokenUsage(count_request(self._tokenizer, request), 0))
        drawn = self._profile.output_tokens
        limit = request.sampling.max_tokens
        if drawn == "requested" and limit is not None:
            tokens = limit
        elif not isinstance(drawn, Draw):
            tokens = count_answer(self._tokenizer, answer.text, answer.tool_calls)
        else:
            tokens = max(1, round(drawn.sample(stream)))
        if limit is not None and tokens > limit:
            answer = attrs.evolve(cut(answer, limit / tokens), stop="max_tokens")
            tokens = limit
        usage = TokenUsage(count_request(self._tokenizer, request), tokens)
        return attrs.evolve(answer, usage=usage, model=model)

    async def _take_time(
        self, agent: str, stream: Draws, usage: TokenUsage, parts: int, show: Callable[[int], None]
    ) -> None:
        server = self._server
        if server is not None:
            priority = self._priority(agent) if self._priority is not None else 0.0
            tokens = usage.input_tokens, usage.output_tokens
            await self._spend(
                lambda: server.serve(*tokens, priority=priority, parts=parts, on_part=show), server.spec.alone(*tokens)
            )
            return
        reading = self._profile.first_token.sample(stream)
        writing = self._profile.per_token.sample(stream) * usage.output_tokens

        async def write() -> None:
            await _sleep(reading)
            for part in range(parts):
                await _sleep(writing / parts)
                show(part)

        await self._spend(write, reading + writing)

    async def _pause(self, seconds: float) -> None:
        await self._spend(lambda: _sleep(seconds), seconds)

    async def _spend(self, work: Work, alone: float) -> None:
        """Run the work in simulated time, or in service time if there is one."""
        if self._time is None:
            await work()
        else:
            await self._time.spend(work, alone)


async def _sleep(seconds: float) -> None:
    if seconds > 0:
        await sleep_ns(round(seconds * NS))
