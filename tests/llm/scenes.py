"""Small scenarios with language models, and what came of them."""

from collections.abc import Mapping
from typing import Any, Self

import anyio

from sim.kernel.codec import decode
from sim.llm import Access, Models
from sim.llm.service import OutsideClient
from sim.record import HashRecorder
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools.rights import Kinds, Rights
from tests.helpers import named

ASKER = """
  - name: asker
    state: {said: "", calls: [], talk: [], n: 0}
    loop: {min_loop_delay: 1s, max_loop_delay: 2s}
    rules:
      - when: n < 1
        do: {ask: {prompt: "Is it raining, or not?"}}
        set: {n: "=n + 1", said: "=result.data.text", calls: "=result.data.calls"}
      - do: stop
"""


class Scene:
    """One run of a scenario.

    Args:
        models: the part `models`, YAML indented by two.
        agents: the part `agents`, the same; by default one agent that asks once.
        rest: other parts.
        access: what the operator gives.
        edge: the client of endpoints, in place of the real one.
        kinds: classes of agents, by name.
    """

    def __init__(
        self,
        models: str,
        agents: str = ASKER,
        rest: str = "until: 10m",
        *,
        access: Access | None = None,
        edge: OutsideClient | None = None,
        seed: int = 0,
        kinds: Kinds | None = None,
    ) -> None:
        text = f"name: scene\n{rest}\nmodels:\n{models}\nagents:{agents}"
        self.recorder = HashRecorder(keep=True)
        self.simulation = build(
            loads(text), seed=seed, recorder=self.recorder, access=access, rights=Rights(kinds=kinds)
        )
        self.world = self.simulation.world
        self.models = Models.of(self.world)
        self.has_edge = edge is not None
        if edge is not None:
            self.models._make_edge = lambda: edge

    def run(self, backend: str = "asyncio", mode: Any = "autonomous") -> Self:
        """Run it to its end."""
        runner = RunController(self.simulation, until_ns=self.simulation.scenario.end_ns, mode=mode)

        async def main() -> None:
            try:
                await runner.run()
            finally:
                if not self.has_edge:  # who gave a client closes it
                    await self.models.aclose()

        anyio.run(main, backend=backend)
        self.recorder.flush()
        return self

    def state(self, agent: str = "asker") -> dict[str, Any]:
        """Return the variables of an agent."""
        return self.world.agents[agent].state

    def events(self, topic: str) -> list[Mapping[str, Any]]:
        """Return the data of all events of a topic."""
        return [data(row.data) for row in named(self.recorder.rows) if row.topic == topic]

    def refusals(self) -> list[str]:
        """Return why `ask` was refused, each time."""
        return [event["error"] for event in self.events("action.ask") if not event["success"]]


def data(value: Any) -> Any:
    """Return the data of an event as plain values."""
    return value if isinstance(value, dict) else decode(value)
