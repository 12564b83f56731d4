"""Fault injection: wraps a provider and makes some of its calls fail, on a schedule.

It uses the clock of the client, so it works in simulated time (in front of `simulated` or `scripted`) and in real time
(in front of an endpoint). The faults imitate networks and models, within the rules for providers: a truncated stream is
an error (`incomplete`). Truncated arguments are part of the answer; the caller must not execute them.
"""

import math
from collections.abc import Sequence

import attrs

from sim.llm.behaviour import Fault, FaultKind
from sim.llm.types import (
    ClientClock,
    Completion,
    Delta,
    ErrorClass,
    ModelError,
    ModelRequest,
    Observer,
    Provider,
    ToolCall,
)

_FAILURES: dict[FaultKind, tuple[ErrorClass, str]] = {
    "rate_limit": ("rate_limit", "429: too many requests (injected)"),
    "server": ("server", "500: internal error (injected)"),
    "overload": ("overload", "503: overloaded (injected)"),
    "network": ("network", "the connection was reset (injected)"),
}
_DROPS = 10  # number of parts of a slow answer
_SLOW = 30.0  # seconds
_PROSE = "Sure, I will call the tool."


class Faulty:
    """A provider that fails on a schedule.

    Args:
        inner: the provider that answers.
        faults: the faults; the first that affects a call counts.
        clock: time and random draws. The times of faults count from the creation of this object.
    """

    def __init__(self, inner: Provider, faults: Sequence[Fault], clock: ClientClock) -> None:
        self.name = inner.name
        self._inner = inner
        self._faults = tuple(faults)
        self._clock = clock
        self._start = clock.now()

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None) -> Completion:
        """Answer a request, or fail.

        Raises:
            ModelError: an injected error, or an error of the inner provider.
        """
        fault = self._hit(model)
        if fault is None:
            return await self._inner.complete(model, request, observe)
        if fault.kind in _FAILURES:
            await self._clock.sleep(fault.seconds or 0.0)
            kind, text = _FAILURES[fault.kind]
            raise ModelError(kind, text, retry_after=fault.retry_after)
        if fault.kind == "hang":
            return await self._hang(fault)
        if fault.kind == "refusal":
            answer = await self._inner.complete(model, request)
            return attrs.evolve(answer, text="I can't help with that.", tool_calls=(), stop="refusal")
        held: list[Delta] = []
        answer = await self._inner.complete(model, request, held.append)
        if fault.kind == "slow":
            await self._drip(held, fault.seconds if fault.seconds is not None else _SLOW, observe)
            return answer
        if fault.kind == "truncate":
            raise self._cut_off(answer, held, observe)
        return self._garbled(answer)

    def _hit(self, model: str) -> Fault | None:
        seconds = self._clock.now() - self._start
        for fault in self._faults:
            if fault.active(seconds, model) and (fault.share == 1 or self._clock.random() < fault.share):
                return fault
        return None

    async def _hang(self, fault: Fault) -> Completion:
        if fault.seconds is None:
            await self._clock.wake().wait()  # forever: the deadline of the client ends it
        else:
            await self._clock.sleep(fault.seconds)
        raise ModelError("network", "the connection was closed after no byte had come (injected)")

    async def _drip(self, held: list[Delta], seconds: float, observe: Observer | None) -> None:
        for drop in range(_DROPS):
            await self._clock.sleep(seconds / _DROPS)
            _show(held[drop * len(held) // _DROPS : (drop + 1) * len(held) // _DROPS], observe)

    def _cut_off(self, answer: Completion, held: list[Delta], observe: Observer | None) -> ModelError:
        share = self._clock.random()
        _show(held[: int(len(held) * share)], observe)
        written = math.ceil(answer.usage.output_tokens * share)
        usage = attrs.evolve(answer.usage, output_tokens=written, estimated=True)
        return ModelError("incomplete", "the stream ended without a finish reason (injected)", usage=usage)

    def _garbled(self, answer: Completion) -> Completion:
        """Replace the arguments of the last call by a truncated text, prose or a list. Keep an answer without calls."""
        if not answer.tool_calls:
            return answer
        draw = self._clock.random()
        if draw < 1 / 3:
            return attrs.evolve(_cut_arguments(answer, draw * 3), stop="max_tokens")
        text = _PROSE if draw < 2 / 3 else f"[{answer.tool_calls[-1].arguments}]"
        return _with_arguments(answer, text)


def _cut_arguments(answer: Completion, share: float) -> Completion:
    arguments = answer.tool_calls[-1].arguments.rstrip()
    return _with_arguments(answer, arguments[: max(1, int(len(arguments) * share))])  # nothing would be no arguments


def _with_arguments(answer: Completion, arguments: str) -> Completion:
    """Return the answer with `arguments` in its last call."""
    last = answer.tool_calls[-1]
    return attrs.evolve(answer, tool_calls=(*answer.tool_calls[:-1], ToolCall(last.id, last.name, arguments)))


def _show(deltas: Sequence[Delta], observe: Observer | None) -> None:
    if observe is not None:
        for delta in deltas:
            observe(delta)
