"""Agents for the proofs: they perform effects of mixed kinds over `service`, talk, write, sleep and spawn."""

import json
from collections.abc import Awaitable
from typing import Any

import anyio

from sim import Action, Agent, Effect, perform
from sim.kernel import NS

PORT = 0
"""Where the service listens: set by `child`; only the edge part of an effect reads it."""

MS = NS // 1000


class Probe:
    """Counts the turns of the event loop while calls of the service are under way, if it is on."""

    def __init__(self) -> None:
        self.on = False
        self.turns = 0
        self.calling = 0

    async def watch(self, work: Awaitable[Any]) -> Any:
        """Wait for `work`, counting."""
        self.calling += 1
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._count)
                result = await work
                group.cancel_scope.cancel()
                return result
        finally:
            self.calling -= 1

    async def _count(self) -> None:
        while True:
            await anyio.sleep(0.002)
            self.turns += 1


PROBE = Probe()


async def call(request: Any, key: str) -> Any:
    """Ask the service; some answers are errors. Runs at the edge."""
    answer = await (PROBE.watch(_ask(request, key)) if PROBE.on else _ask(request, key))
    if answer["number"] % 11 == 0:
        raise ValueError(f"the service does not like {answer['number']}")
    return answer


async def _ask(request: Any, key: str) -> Any:
    body = json.dumps(request, sort_keys=True).encode()
    head = f"POST / HTTP/1.0\r\nIdempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with await anyio.connect_tcp("127.0.0.1", PORT) as stream:
        await stream.send(head.encode() + body)
        reply = b"".join([chunk async for chunk in stream])
    return json.loads(reply.partition(b"\r\n\r\n")[2])


class Worker(Agent):
    """Performs an effect, draws a conclusion from its outcome, and acts on it.

    State: `measured` and `unsafe` are the shares of its effects that are so; `children` is how many it may still start.
    """

    async def decide_action(self) -> Action | None:
        """Perform an effect, then choose what to do by what came of it."""
        outcome = await perform(self._effect())
        state = self.state
        number = outcome.value["number"] if outcome.kind == "ok" else len(str(outcome.value))
        state["sum"] = (state.get("sum", 0) * 31 + number) % 1_000_003
        state["log"] = [*state.get("log", []), f"{outcome.kind} {number} ".ljust(70, ".")][-4:]
        self.world.event_bus.publish("answer.got", {"by": self.agent_id, "kind": outcome.kind, "number": number})
        return self._next(number)

    def _effect(self) -> Effect:
        state, rng = self.state, self.rng
        n = state["n"] = state.get("n", 0) + 1
        measured = rng.random() < state.get("measured", 0.0)
        unsafe = rng.random() < state.get("unsafe", 0.0)
        safety: Any = "unsafe" if unsafe else rng.choice(["pure", "idempotent"])
        letter = self.mailbox.take()
        request = {
            "run": "proof",
            "agent": self.agent_id,
            "n": n,
            "safety": safety,
            "letter": None if letter is None else letter.data,
            "log": state.get("log", []),
        }
        return Effect(
            f"http.{safety}",
            request,
            call,
            latency_ns=None if measured else rng.randint(20, 120) * MS,
            deadline_ns=rng.choice([60, 5000, 5000, 5000, 5000, 5000]) * MS,
            safety=safety,
        )

    def _next(self, number: int) -> Action | None:
        state = self.state
        if state.get("children", 0) > 0 and state["n"] >= 2:
            state["children"] -= 1
            return Action("spawn", {"agent": "child", "state": {"measured": state.get("measured", 0.0)}})
        match number % 8:
            case 0 | 1:
                return Action("send", {"to": f"worker-{number % 5 + 1}", "data": {"sum": state["sum"]}})
            case 2:
                return Action("write", {"artifact": f"page of {self.agent_id}", "content": state["log"]})
            case 3:
                return Action("sleep", {"condition": {"for": 0.02}})
            case 4:
                return Action("sleep", {"condition": {"any": [{"message": True}, {"for": 0.05}]}})
            case 5:
                return Action("publish", {"topic": "sum.known", "data": state["sum"]})
            case _:
                return None


class Child(Worker):
    """Is started during the run; stops after a few iterations."""

    def _next(self, number: int) -> Action | None:
        return Action("stop") if self.state["n"] >= 4 else super()._next(number)


class Boss(Worker):
    """Now and then stops a child of a worker in the middle of what it does: its effect is abandoned."""

    def _next(self, number: int) -> Action | None:
        children = [id for id in self.world.agents if id.startswith("child-")]
        if number % 3 == 0 and children:
            self.world.agents[self.rng.choice(children)].terminate("dismissed")
        return super()._next(number)


def scenario(
    *, mode: str, measured: float = 0.0, unsafe: float = 0.0, workers: int = 36, until: float = 0.6, seed: int = 1
) -> str:
    """Return a scenario file.

    Args:
        mode: `autonomous` or `tick`.
        measured: the share of effects whose latency is measured.
        unsafe: the share of effects that must not be done twice.
        workers: how many agents begin.
        until: simulated seconds.
        seed: of the run.
    """
    state = {"n": 0, "measured": measured, "unsafe": unsafe, "children": 0, "sum": 0}
    module = "tests.proof.agents"
    agents = [
        {"name": "worker", "kind": f"{module}:Worker", "count": workers, "state": state},
        {"name": "boss", "kind": f"{module}:Boss", "state": state},
        {"name": "parent", "kind": f"{module}:Worker", "count": 4, "state": {**state, "children": 3}},
        {"name": "child", "kind": f"{module}:Child", "template": True, "state": state},
    ]
    return json.dumps(
        {
            "name": f"proof-{mode}",
            "seed": seed,
            "until": until,
            "execution": {
                "use_autonomous_loops": mode == "autonomous",
                "tick": {"period": 0.1, "concurrency": "parallel"},
                "agent_loop": {"min_loop_delay": 0.005, "max_loop_delay": 0.02},
            },
            "agents": agents,
        },
        indent=1,
    )
