"""Embeddings: checks of the answers of endpoints, and scripted vectors without a model.

A scripted vector is the sum of one random vector of +1 and -1 for each distinct word, hashed from the word (feature
hashing: Weinberger et al., "Feature hashing for large scale multitask learning", ICML 2009). So texts with common words
have similar vectors, and the same text has the same vector in every run.
"""

import math
import re
from typing import Any, Final

from sim.kernel.codec import JsonObject
from sim.kernel.rng import derive
from sim.llm.tokens import APPROXIMATE, Tokenizer, count_request, sound_usage
from sim.llm.types import Completion, ModelError, ModelRequest, TokenUsage

MOST_TEXTS: Final = 2048
"""The most texts of one call."""

MOST_NUMBERS: Final = 1_000_000
"""The most numbers in the vectors of one call. They are all recorded."""

_DIMENSIONS = 64
_WORD = re.compile(r"\w+")


def embedding(model: str, request: ModelRequest) -> Completion:
    """Return an answer with a scripted vector of norm 1 for each text."""
    size = request.dimensions or _DIMENSIONS
    vectors = tuple(_vector(text, size) for text in request.texts)
    return Completion("", (), "end_turn", TokenUsage(count_request(APPROXIMATE, request), 0), model, vectors)


def _vector(text: str, size: int) -> tuple[float, ...]:
    words = sorted(set(_WORD.findall(text.lower()))) or [text]
    sums = [0] * size
    for word in words:
        for block in range(0, size, 60):
            bits = derive("embedding", word, block)
            for place in range(block, min(block + 60, size)):
                sums[place] += 1 if bits >> (place - block) & 1 else -1
    length = math.sqrt(sum(number * number for number in sums))
    return tuple(number / length for number in sums) if length else (1.0, *[0.0] * (size - 1))


class EmbeddingAssembly:
    """Reads the answer of an endpoint to an embedding request; the counterpart of `Assembly`.

    Args:
        request: the request.
        model: the requested model; an answer can name another.
        tokenizer: estimates the usage that the endpoint does not report.
    """

    over = False

    def __init__(self, request: ModelRequest, model: str, tokenizer: Tokenizer) -> None:
        self.begun = False
        self._request = request
        self._model = model
        self._tokenizer = tokenizer
        self._vectors: tuple[tuple[float, ...], ...] = ()
        self._reported: TokenUsage | None = None

    def feed_whole(self, body: Any) -> None:
        """Read the whole body.

        Raises:
            ModelError: unless the body has one vector per text, all of the same length.
        """
        self.begun = True
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise self._malformed("no list of embeddings")
        usage = body.get("usage")
        if isinstance(usage, dict) and isinstance(usage.get("prompt_tokens"), int):
            self._reported = TokenUsage(usage["prompt_tokens"], 0)
        if isinstance(body.get("model"), str):
            self._model = body["model"]
        data = body["data"]
        by_index = {part.get("index"): part for part in data if isinstance(part, dict)}
        if len(data) != len(self._request.texts) or set(by_index) != set(range(len(data))):
            raise self._malformed(f"{len(data)} embeddings for {len(self._request.texts)} texts")
        vectors = tuple(self._read(by_index[index]) for index in range(len(data)))
        sizes = {len(vector) for vector in vectors}
        wanted = self._request.dimensions
        if len(sizes) != 1 or (wanted is not None and sizes != {wanted}):
            raise self._malformed(f"vectors of {', '.join(map(str, sorted(sizes)))} numbers")
        if len(vectors) * len(vectors[0]) > MOST_NUMBERS:
            raise self._malformed(f"more than {MOST_NUMBERS} numbers")
        self._vectors = vectors

    def usage(self) -> TokenUsage:
        """Return the reported usage, or an estimate."""
        return sound_usage(self._reported, self._tokenizer, self._request)

    def completion(self) -> Completion:
        """Return the answer."""
        return Completion("", (), "end_turn", self.usage(), self._model, self._vectors)

    def _read(self, part: JsonObject) -> tuple[float, ...]:
        vector = part.get("embedding")
        if not isinstance(vector, list) or not vector or not all(type(number) in (int, float) for number in vector):
            raise self._malformed("an embedding that is no list of numbers")
        numbers = tuple(map(float, vector))
        if not all(map(math.isfinite, numbers)):
            raise self._malformed("an embedding with a number that is not finite")
        return numbers

    def _malformed(self, what: str) -> ModelError:
        return ModelError("malformed", f"the endpoint sent {what}", usage=self.usage())
