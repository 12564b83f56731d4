"""Embeddings: scripted ones, those of an endpoint, and what a run records of them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.llm import Access, Models
from sim.llm.embeddings import EmbeddingAssembly, embedding
from sim.llm.tokens import APPROXIMATE
from sim.llm.types import ModelError, ModelRequest
from sim.record import open_run
from tests.llm.endpoint import Endpoint, Reply, Seen

SCENARIO = """
name: memory
until: 1m
models:
  tiers: {chat: talker, vectors: embedder}
  uses: {embed: vectors}
  prices: {embedder: {input: 1000000, output: 0}}
LIMITS
agents:
  - {name: reader, kind: reader}
"""


class Reader(sim.Agent):
    """Embeds three texts once."""

    async def decide_action(self) -> sim.Action:
        try:
            vectors = await Models.of(self.world).embed(self, ["the red fox", "a red fox", "tax law"])
            self.state["vectors"] = [list(vector) for vector in vectors]
        except ModelError as error:
            self.state["error"] = f"{error.kind}: {error}"
        self.world.event_bus.publish("read", dict(self.state))
        return sim.Action("stop")


def replied(seen: Seen, **changes: Any) -> Reply:
    """Return an embedding of two numbers for each text, last text first, as an endpoint may."""
    data = [{"index": n, "embedding": [float(n), 1.0]} for n, _ in enumerate(seen.body["input"])]
    return Reply(body={"data": data[::-1], "model": "embedder", "usage": {"prompt_tokens": 7}} | changes)


def _run(tmp_path: Path, *, limits: str = "", **options: Any) -> tuple[sim.RunResult, dict[str, Any]]:
    path = tmp_path / "memory.yaml"
    path.write_text(SCENARIO.replace("LIMITS", limits))
    result = sim.run(path, kinds={"reader": Reader}, out=tmp_path / "runs", **options)
    assert result.run is not None
    with open_run(Path(result.run)) as stored:
        events: list[Any] = list(stored.events())
    return result, next(row[7] for row in events if row[6] == "read")


def _cosine(one: Any, other: Any) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_scripted_vectors(tmp_path, backend):
    """Without an endpoint each text has a vector of length 1; texts that share words are closer than others."""
    result, read = _run(tmp_path, backend=backend)
    fox, other_fox, law = read["vectors"]

    assert all(math.isclose(_cosine(vector, vector), 1) for vector in read["vectors"])
    assert _cosine(fox, other_fox) > 0.5 > _cosine(fox, law) + 0.2
    assert result.models["models"]["scripted:embedder"]["calls"] == 1


def test_a_scripted_vector_is_the_same_in_every_run():
    """A vector depends on the words of its text alone, and has as many numbers as were asked for."""
    one, other, long = (
        embedding(model, ModelRequest((), texts=(text,), dimensions=size)).vectors[0]
        for model, text, size in [("a", "Red fox", 8), ("b", "fox red red", 8), ("a", "Red fox", 200)]
    )

    assert one == other
    assert (len(one), len(long)) == (8, 200)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_vectors_of_an_endpoint(tmp_path, backend):
    """The texts go to `/embeddings` in one request; the vectors come back in the order of the texts, are paid for by
    the input, counted, recorded, and not asked for again in a replay.
    """
    with Endpoint(replied) as endpoint:
        access = Access(("vectors=openai:embedder",), base_url=endpoint.url)
        result, read = _run(tmp_path, backend=backend, access=access)
        (seen,) = endpoint.seen

    assert seen.path == "/v1/embeddings"
    assert seen.body["input"] == ["the red fox", "a red fox", "tax law"]
    assert read["vectors"] == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    tally = result.models["models"]["openai:embedder"]
    assert (tally["calls"], tally["input_tokens"], tally["output_tokens"], tally["cost_micro"]) == (1, 7, 0, 7_000_000)
    assert result.run is not None
    again = sim.replay(result.run, kinds={"reader": Reader}, backend="trio" if backend == "asyncio" else "asyncio")
    assert (again.same, again.complete) == (True, True), again.difference
    assert len(endpoint.seen) == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"data": []}, "0 embeddings for 3 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 3}, "3 embeddings for 3 texts"),
        ({"data": "none"}, "no list of embeddings"),
        ({"data": [{"index": n, "embedding": [1.0] * (n + 1)} for n in range(3)]}, "vectors of 1, 2, 3 numbers"),
        ({"data": [{"index": n, "embedding": ["1"]} for n in range(3)]}, "no list of numbers"),
    ],
)
def test_a_malformed_answer_is_refused(changes, what):
    """An answer that does not have one vector of one length for each text is an error that names what is wrong."""
    body = {"data": [{"index": n, "embedding": [float(n)]} for n in range(3)]} | changes
    assembly = EmbeddingAssembly(ModelRequest((), texts=("a", "b", "c")), "embedder", APPROXIMATE)

    with pytest.raises(ModelError, match=what) as refused:
        assembly.feed_whole(body)
    assert refused.value.kind == "malformed"


def test_a_number_that_is_not_finite_is_refused(tmp_path):
    """NaN, which some servers send for an empty text, does not get into the record: the call fails, and says why."""
    body = json.dumps({"data": [{"index": n, "embedding": [math.nan]} for n in range(3)]}).encode()
    with Endpoint(lambda seen: Reply(body=body)) as endpoint:
        access = Access(("vectors=openai:embedder",), base_url=endpoint.url)
        _, read = _run(tmp_path, access=access, overrides=["models.retry.requests=1"])

    assert read["error"].startswith("malformed: ")


def test_a_failed_request_is_tried_again(tmp_path):
    """Retries, limits and errors are those of every call."""
    with Endpoint(lambda seen: Reply(status=503, body={}) if seen.number == 0 else replied(seen)) as endpoint:
        result, read = _run(tmp_path, access=Access(("vectors=openai:embedder",), base_url=endpoint.url))

    assert len(read["vectors"]) == 3
    assert result.models["models"]["openai:embedder"]["attempts"] == 2


def test_embeddings_take_limits_and_budgets(tmp_path):
    """A budget of calls that is used up holds an embedding up as it does every call."""
    result, read = _run(tmp_path, limits="limits: {llm_calls: {agent: 1 per 60s, policy: block}}")

    assert "vectors" in read
    assert result.errors == 0


def test_the_model_makes_embeddings_where_a_person_answers(tmp_path):
    """A person who answers as an agent is not asked for vectors."""

    def begun(runner: Any) -> None:
        sim.Control(runner.simulation.manager).answer_for("reader", 3600)

    result, read = _run(tmp_path, begun=begun)
    assert len(read["vectors"]) == 3
    assert "people" not in result.models


@pytest.mark.parametrize(
    ("texts", "options"), [([], {}), (["a", ""], {}), (["a"] * 2049, {}), (["a"], {"dimensions": 0})]
)
def test_what_cannot_be_embedded_is_refused(texts, options):
    """No texts, too many, an empty one, or a size below 1 is an error of usage before anything is called."""
    import anyio

    async def main() -> None:
        await Models.embed(None, None, texts, **options)  # type: ignore[arg-type]  # refused before they are used

    with pytest.raises(sim.UsageError):
        anyio.run(main)
