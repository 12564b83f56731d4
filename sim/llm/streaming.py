"""Answers in parts: the parts that an observer sees, and the rest of an answer that is cut off."""

from collections.abc import Iterator
from typing import Literal

import attrs

from sim.llm.types import Completion, Delta, ToolCall


def parts_of(answer: Completion, count: int) -> Iterator[tuple[Delta, ...]]:
    """Yield `count` parts of an answer for an observer: text first, then tool calls."""
    deltas = list(_pieces("text", answer.text, max(1, count - len(answer.tool_calls))))
    for index, call in enumerate(answer.tool_calls):
        deltas.append(Delta("tool_start", tool=call.name, index=index))
        deltas.extend(_pieces("tool_arguments", call.arguments, 1, call.name, index))
        deltas.append(Delta("tool_complete", call.arguments, call.name, index))
    for part in range(count):
        yield tuple(deltas[part * len(deltas) // count : (part + 1) * len(deltas) // count])


def _pieces(
    kind: Literal["text", "tool_arguments"], text: str, count: int, tool: str = "", index: int = 0
) -> Iterator[Delta]:
    for part in range(count):
        piece = text[part * len(text) // count : (part + 1) * len(text) // count]
        if piece:
            yield Delta(kind, piece, tool, index)


def cut(answer: Completion, share: float) -> Completion:
    """Return the first `share` of an answer, counted in characters of text and then of arguments."""
    total = len(answer.text) + sum(len(call.arguments) for call in answer.tool_calls)
    left = int(total * share)
    text = answer.text[:left]
    left -= len(text)
    calls = []
    for call in answer.tool_calls:
        if left <= 0:
            break
        calls.append(ToolCall(call.id, call.name, call.arguments[:left]))
        left -= len(call.arguments)
    return attrs.evolve(answer, text=text, tool_calls=tuple(calls))
