"""A long conversation is recorded in a file that grows with what is new in it, not with its history."""

import random
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import anyio.lowlevel
import pytest

from sim.actors import Agent
from sim.kernel import NS, Effect, perform
from sim.kernel.codec import encode
from sim.record import open_run
from sim.runner import replay, run
from sim.world import NOOP, Action

QUESTION, ANSWER, SUMMARY, SYSTEM = 2_000, 6_000, 4_000, 1_000
"""Letters of each kind of text on average: in 100 calls a history of 800 KB, some 200,000 tokens, comes together."""

MB = 1024 * 1024


@cache
def text(name: str, letters: int) -> str:
    """Return words that occur together nowhere else."""
    draw = random.Random(name)
    letters = round(letters * draw.uniform(0.5, 1.5))
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 10))) for _ in range(letters // 6)]
    return " ".join(words)[:letters]


class Talker(Agent):
    """Talks to a model, and has its history summarised half-way."""

    calls: ClassVar[int] = 0
    requests: ClassVar[list[Any]] = []

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.history: list[dict[str, str]] = []
        self.requests.clear()

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        if turn > self.calls:
            return Action("stop")
        if turn == self.calls // 2 + 1:
            self.history = [{"role": "user", "content": "What was said so far: " + text("summary", SUMMARY)}]
        self.history.append({"role": "user", "content": text(f"question {turn}", QUESTION)})
        system = {"role": "system", "content": f"It is call {turn}. " + text("system", SYSTEM)}
        request = {"model": "m", "temperature": 0.7, "messages": [system, *self.history]}
        self.requests.append(request)
        outcome = await perform(Effect("model", request, _answer, latency_ns=NS // 10, safety="pure"))
        self.history.append({"role": "assistant", "content": outcome.value["content"]})
        return NOOP


async def _answer(request: Any, key: str) -> Any:
    await anyio.lowlevel.checkpoint()
    return {
        "content": text(f"answer {request['messages'][0]['content'][:20]}", ANSWER),
        "usage": len(request["messages"]),
    }


def talk(folder: Path, calls: int) -> Path:
    """Record a conversation of so many calls."""
    scenario = folder / f"talk-{calls}.yaml"
    scenario.write_text(
        "name: talk\nuntil: 1h\nexecution: {agent_loop: {min_loop_delay: 1s}}\nagents: [{name: a, kind: talker}]\n"
    )
    Talker.calls = calls
    found = run(scenario, out=folder / "runs", kinds={"talker": Talker})
    assert found.errors == 0
    assert found.run is not None
    return Path(found.run)


@pytest.mark.proof
def test_a_conversation_grows_with_what_is_new(tmp_path: Path):
    """200 calls with prompts of up to 800 KB, a system prompt that changes each time, a history that is summarised:
    less than 5 MB, twice as much as 100 calls, each part stored once, and every request comes back as it was.
    """
    short = talk(tmp_path, 100)
    sizes = [(short / "run.db").stat().st_size]
    folder = talk(tmp_path, 200)
    sizes.append((folder / "run.db").stat().st_size)

    requests = [*Talker.requests]
    prompts = [len(encode(request)) for request in requests]
    assert len(requests) == 200
    assert min(prompts[99], prompts[199]) > 750_000
    assert prompts[100] < 15_000
    assert sum(prompts) > 70 * MB

    assert sizes[1] < 5 * MB
    assert sizes[1] < 2.1 * sizes[0]
    with open_run(folder) as stored:
        for ordinal, request in enumerate(requests, 1):
            assert stored.request("a", ordinal) == request
        ((parts, different, total),) = stored.query(
            "SELECT count(*), count(DISTINCT data), sum(length(CAST(data AS BLOB))) FROM contents"
        )
        ((skeletons, answers),) = stored.query(
            "SELECT sum(length(request) + length(parts)), sum(length(result)) FROM effects"
        )
    messages = {encode(message) for request in requests for message in request["messages"]}
    assert parts == different == len(messages)
    assert total == sum(map(len, messages))
    assert skeletons < 0.1 * MB
    assert sizes[1] < 1.5 * (total + answers)  # the model's words are a result, and then a part of requests


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_conversation_is_replayed(tmp_path: Path, backend: Any):
    """What was taken apart is compared as it was asked: the conversation replays, and a changed word in it is found."""
    folder = talk(tmp_path, 20)
    assert replay(folder, kinds={"talker": Talker}, backend=backend).same

    class Other(Talker):
        async def decide_action(self) -> Action | None:
            if self.state.get("turn") == 6:
                self.history[3] = {**self.history[3], "content": self.history[3]["content"][:-1] + "!"}
            return await super().decide_action()

    found = replay(folder, kinds={"talker": Other}, backend=backend)
    assert found.difference is not None
    assert found.difference.startswith(
        "effect 7 of a (model) at 6.6s has a different request than on record: it differs in messages[4].content, "
    )
    assert "!" in found.difference
    assert len(found.difference) < 400
