"""Answers of models that the runs of an experiment share: what identifies an answer.

Within a run, a request that is repeated gets another answer. Two runs get the same answer if the same agent makes the
same request for the same time. So runs that differ in one change get different answers only where the change has an
effect, and pay only for these.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from sim.kernel.codec import JsonObject, encode

Ask = Callable[[], Awaitable[JsonObject]]


class Book(Protocol):
    """Where the answers are kept."""

    async def answer(self, key: str, ask: Ask, *, keep: Callable[[Any], bool]) -> tuple[Any, bool]:
        """Return an answer, and whether it was there already."""


class SharedAnswers:
    """The answers of one run.

    Args:
        book: where they are kept.
        scope: the runs that share answers have this in common, such as the seed.
    """

    def __init__(self, book: Book, scope: str) -> None:
        self._book = book
        self._scope = scope
        self._times: dict[str, int] = {}

    def of(self, request: JsonObject) -> Callable[[Ask], Awaitable[JsonObject]]:
        """Return a function that finds or asks for the answer to a request. To be called once for each request.

        Args:
            request: the request as JSON, with its agent and the models that can answer it.
        """
        same = hashlib.sha256(encode(dict(request))).hexdigest()
        time = self._times[same] = self._times.get(same, 0) + 1
        key = hashlib.sha256(encode((self._scope, same, time))).hexdigest()

        async def answer(ask: Ask) -> JsonObject:
            shared, was_there = await self._book.answer(key, ask, keep=lambda value: "answer" in value)
            return {**shared, "reused": True} if was_there else shared

        return answer
