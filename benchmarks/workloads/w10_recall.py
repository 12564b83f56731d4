"""W10: an agent with 10,000 memories recalls five of them by five words. An operation is one recall.

Words are as frequent as in a language (Zipf): the most frequent one is in most memories. So do the queries draw theirs.
"""

import random
from itertools import accumulate
from typing import Any

from benchmarks.workload import Meter, Workload

W10 = Workload("W10", "recalls from 10,000 memories", (1,), bases=("floor",))

MEMORIES = 10_000
_VOCABULARY = 20_000
_LONGEST = 30  # words of a memory


def _texts(number: int, least: int, most: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    words = [f"w{rank}" for rank in range(_VOCABULARY)]
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(_VOCABULARY)))
    return [" ".join(chance.choices(words, cum_weights=weights, k=chance.randint(least, most))) for _ in range(number)]


@W10.peer("sim", speed=800, most=1)
def recall(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The service, as an action calls it; the index has been made by a recall before."""
    from sim.memory import Memories, MemorySettings

    world = lib.World(0)
    memories = Memories(world, MemorySettings())
    with world.kernel.acting_as(world.kernel.scenario):
        for text in _texts(MEMORIES, 8, _LONGEST, 1):
            memories.add("agent", text)
    memories.recall("agent", "w1")
    queries = _texts(times, 5, 5, 2)
    meter.begin()
    for query in queries:
        memories.recall("agent", query)
    meter.end(times)


@W10.peer("floor, each text read", speed=200, most=1)
def scan(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Without an index: only look for each word in each text, whose words are known."""
    texts = [frozenset(text.split()) for text in _texts(MEMORIES, 8, _LONGEST, 1)]
    queries = [query.split() for query in _texts(times, 5, 5, 2)]
    meter.begin()
    for query in queries:
        scores = [sum(word in text for word in query) for text in texts]
        sorted(range(len(texts)), key=scores.__getitem__, reverse=True)[:5]
    meter.end(times)
