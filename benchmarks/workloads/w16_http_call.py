"""W16: calls of a model at an endpoint, over HTTP. An operation is one call; the endpoint is a process of its own.

At most 64 calls are in flight, as `sim` has them if nothing else is said. The request has some 600 tokens, as the
prompt of an agent with a persona and memories has. What is compared is CPU time: the endpoint answers at once, so all
are as fast as a processor lets them.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.endpoint import MODEL, serve
from benchmarks.workload import Meter, Workload

W16 = Workload("W16", "calls of a model over HTTP", (100,), bases=("openai",))

_AT_ONCE = 64
_PROMPT = "You are a person in a small town. " * 70

_SCENARIO = """\
name: model
until: {times}s
models: {{max_tokens: 40, latency: 1ms}}
agents:
  - name: person
    count: {agents}
    state: {{prompt: "{prompt}"}}
    loop: {{min_loop_delay: 1s}}
    rules: [{{do: {{ask: {{prompt: "=prompt"}}}}}}]
"""


@W16.peer("sim, yaml", needs="openai", speed=150)
def rules(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Agents with one rule that asks, recorded whole."""
    _run(meter, agents, times, 0)


@W16.peer("sim, yaml, 1 worker", needs="openai", speed=150)
def one_worker(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with a worker process that makes the calls. Its CPU time is not counted, as it can be another core's."""
    _run(meter, agents, times, 1)


@W16.peer("sim, yaml, 2 workers", needs="openai", speed=150)
def two_workers(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with two."""
    _run(meter, agents, times, 2)


def _run(meter: Meter, agents: int, times: int, workers: int) -> None:
    import sim
    from sim.llm.access import Access

    with serve() as url, tempfile.TemporaryDirectory(prefix="sim-benchmark-") as folder:
        file = Path(folder) / "model.yaml"
        file.write_text(_SCENARIO.format(agents=agents, times=times, prompt=_PROMPT), encoding="utf-8")
        access = Access((f"openai:{MODEL}",), base_url=url)
        sim.run(file, seed=1, out=folder, access=access, edge_workers=workers, begun=lambda _: meter.begin())
        meter.end(agents * times)


@W16.peer("openai", needs="openai", speed=200)
def client(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The client alone, as its documentation shows it; nothing is kept of the answers."""

    async def main(url: str) -> None:
        asking = asyncio.Semaphore(_AT_ONCE)
        async with lib.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as api:

            async def person() -> None:
                for _ in range(times):
                    async with asking:
                        await api.chat.completions.create(
                            model=MODEL, max_tokens=40, messages=[{"role": "user", "content": _PROMPT}]
                        )

            meter.begin()
            await asyncio.gather(*(person() for _ in range(agents)))
            meter.end(agents * times)

    with serve() as url:
        asyncio.run(main(url))
