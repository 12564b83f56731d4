"""W16: calls of a model at an endpoint, over HTTP. An operation is one call; the endpoint is a process of its own.

At most 64 calls are in flight, as `sim` has them if nothing else is said. The request has some 600 tokens, as the
prompt of an agent with a persona and memories has. What is compared is CPU time: the endpoint answers at once, so all
are as fast as a processor lets them. `python -m benchmarks --only W16` measures `sim` and the client; AutoGen and
AgentScope need environments of their own:

    uv venv autogen
    uv pip install --python autogen/bin/python -c constraints.txt '.[models]' openai==3.54.0 \\
        autogen-agentchat==0.7.5 'autogen-ext[openai]==0.7.5'
    autogen/bin/python -m benchmarks.worker W16 autogen 100 10
    uv venv agentscope
    uv pip install --python agentscope/bin/python -c constraints.txt '.[models]' openai==3.54.0 agentscope==2.0.11
    agentscope/bin/python -m benchmarks.worker W16 agentscope 100 10
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.endpoint import MODEL, serve
from benchmarks.workload import Meter, Workload

W16 = Workload("W16", "calls of a model over HTTP", (100,), bases=("openai", "autogen", "agentscope"))

_AT_ONCE = 64
_PROMPT = "You are a person in a small town. " * 70

_REAL = "{max_tokens: 40, latency: 1ms}"
_SCRIPTED = f"{{provider: scripted, max_tokens: 40, rules: [{{say: {'yes ' * 20!r}}}]}}"

_SCENARIO = """\
name: model
until: {times}s
models: {models}
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
    run(meter, agents, times, 0)


@W16.peer("sim, yaml, 1 worker", needs="openai", speed=150)
def one_worker(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with a worker process that makes the calls. Its CPU time is not counted, as it can be another core's."""
    run(meter, agents, times, 1)


@W16.peer("sim, yaml, 2 workers", needs="openai", speed=150)
def two_workers(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The same with two."""
    run(meter, agents, times, 2)


def run(meter: Meter, agents: int, times: int, workers: int) -> None:
    """Run agents that ask, with so many worker processes."""
    import sim
    from sim.llm.access import Access

    with serve() as url, tempfile.TemporaryDirectory(prefix="sim-benchmark-") as folder:
        file = Path(folder) / "model.yaml"
        file.write_text(_SCENARIO.format(agents=agents, times=times, prompt=_PROMPT, models=_REAL), encoding="utf-8")
        access = Access((f"openai:{MODEL}",), base_url=url)
        sim.run(file, seed=1, out=folder, access=access, edge_workers=workers, begun=lambda _: meter.begin())
        meter.end(agents * times)


def in_core(meter: Meter, agents: int, times: int) -> None:
    """Run the same agents with a scripted model, which answers in the run itself: a call without an effect."""
    import sim

    with tempfile.TemporaryDirectory(prefix="sim-benchmark-") as folder:
        file = Path(folder) / "model.yaml"
        text = _SCENARIO.format(agents=agents, times=times, prompt=_PROMPT, models=_SCRIPTED)
        file.write_text(text, encoding="utf-8")
        sim.run(file, seed=1, out=folder, begun=lambda _: meter.begin())
        meter.end(agents * times)


@W16.peer("openai", needs="openai", speed=200)
def client(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """The client alone, as its documentation shows it; nothing is kept of the answers."""

    async def main(url: str) -> None:
        async with lib.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as api:

            async def ask() -> None:
                await api.chat.completions.create(
                    model=MODEL, max_tokens=40, messages=[{"role": "user", "content": _PROMPT}]
                )

            await _all(meter, [ask] * agents, times)

    with serve() as url:
        asyncio.run(main(url))


@W16.peer("autogen", needs="autogen_agentchat.agents", speed=150)
def autogen(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Assistant agents that keep the latest message only, so that each call sends the same prompt."""
    core, contexts = import_module("autogen_core"), import_module("autogen_core.model_context")
    messages, models = import_module("autogen_agentchat.messages"), import_module("autogen_ext.models.openai")
    can = dict.fromkeys(("vision", "function_calling", "json_output", "structured_output"), False)

    async def main(url: str) -> None:
        api = models.OpenAIChatCompletionClient(
            model=MODEL, base_url=url, api_key="none", max_retries=0, max_tokens=40,
            model_info={**can, "family": "unknown"},
        )  # fmt: skip

        def asking(number: int) -> Ask:
            kept = contexts.BufferedChatCompletionContext(buffer_size=1)
            agent = lib.AssistantAgent(f"person_{number}", api, system_message=None, model_context=kept)

            async def ask() -> None:
                said = messages.TextMessage(content=_PROMPT, source="user")
                await agent.on_messages([said], core.CancellationToken())

            return ask

        await _all(meter, [asking(number) for number in range(agents)], times)
        await api.close()

    with serve() as url:
        asyncio.run(main(url))


@W16.peer("agentscope", needs="agentscope.agent", speed=100)
def agentscope(meter: Meter, lib: Any, agents: int, times: int) -> None:
    """Agents without a system prompt, whose state is new for each call, so that each call sends the same prompt."""
    message, states = import_module("agentscope.message"), import_module("agentscope.state")
    models, credentials = import_module("agentscope.model"), import_module("agentscope.credential")

    async def main(url: str) -> None:
        key = credentials.OpenAICredential(api_key="none", base_url=url)
        limits = models.OpenAIChatModel.Parameters(max_tokens=40)
        api = models.OpenAIChatModel(key, MODEL, limits, stream=False, max_retries=0)

        def asking(number: int) -> Ask:
            agent = lib.Agent(f"person_{number}", "", api)

            async def ask() -> None:
                agent.state = states.AgentState()
                said = message.TextBlock(text=_PROMPT)
                await agent.reply(message.Msg(name="user", content=[said], role="user"))

            return ask

        await _all(meter, [asking(number) for number in range(agents)], times)
        await api.client.close()

    with serve() as url:
        asyncio.run(main(url))


Ask = Callable[[], Awaitable[None]]


async def _all(meter: Meter, people: list[Ask], times: int) -> None:
    """Have all people ask so many times, with as many calls in flight as `sim` has, and measure it."""
    asking = asyncio.Semaphore(_AT_ONCE)

    async def person(ask: Ask) -> None:
        for _ in range(times):
            async with asking:
                await ask()

    meter.begin()
    await asyncio.gather(*map(person, people))
    meter.end(len(people) * times)
