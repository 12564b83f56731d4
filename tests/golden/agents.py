"""The agents of the golden runs, which are replayed with these classes: change what they do, and renew the runs."""

from typing import Any

import anyio
import anyio.lowlevel

from sim.actors import Agent
from sim.agents.conversation import Conversations
from sim.base.errors import Interrupt
from sim.base.permissions import Permission
from sim.kernel import NS, Effect, Outcome, perform, sleep
from sim.tools.approvals import DECISION, Approvals
from sim.world import NOOP, Action
from sim.world.action import Refused


class Caller(Agent):
    """Performs effects of all kinds, with a request that grows, and writes down what came of them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.history: list[dict[str, str]] = []

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        outcome = await getattr(self, ("ask", "look", "fail", "late", "hurry", "measure")[turn % 6])(turn)
        self.state.setdefault("outcomes", []).append([outcome.kind, outcome.value])
        return Action("publish", {"topic": "news.here", "data": {"turn": turn, "luck": self.rng.random()}})

    async def ask(self, turn: int) -> Outcome:
        """Ask with the whole conversation so far; what is asked is stored once."""
        self.history.append({"role": "user", "content": f"Question {turn} of {self.agent_id}: " + "and so on " * 12})
        request = {"system": f"It is turn {turn}. " + "Be brief. " * 30, "messages": [*self.history]}
        outcome = await perform(Effect("model", request, _answer, latency_ns=NS // 4, safety="pure"))
        self.history.append({"role": "assistant", "content": str(outcome.value)})
        return outcome

    async def look(self, turn: int) -> Outcome:
        """Something that is idempotent, and takes a time drawn from the agent's own stream."""
        latency = self.rng.randint(NS // 10, NS)
        return await perform(Effect("look", {"turn": turn}, _echo, latency_ns=latency, safety="idempotent"))

    async def fail(self, turn: int) -> Outcome:
        """Something that fails."""
        return await perform(Effect("fail", {"turn": turn}, _fail, latency_ns=0))

    async def late(self, turn: int) -> Outcome:
        """Something that takes longer than its deadline."""
        return await perform(Effect("late", {"turn": turn}, _echo, latency_ns=NS, deadline_ns=NS // 2))

    async def hurry(self, turn: int) -> Outcome:
        """Something measured that never comes."""
        return await perform(Effect("hurry", {"turn": turn}, _hang, deadline_ns=NS // 100))

    async def measure(self, turn: int) -> Outcome:
        """Something measured, in whatever time it takes."""
        return await perform(Effect("measure", {"turn": turn}, _echo))


class Host(Agent):
    """An agent whose work outside calls the run, as a host program does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.world.on_input("note", self._noted)

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        await perform(Effect("host", turn, self._call))
        return NOOP

    async def _call(self, turn: int, key: str) -> int:
        world = self.world
        world.submit("note", {"turn": turn, "text": "from the host"})
        world.submit("publish", {"topic": "host.news", "data": turn})
        what = ("wake", "wake", "pause", "wake", "resume", "wake", "stop" if turn > 12 else "wake")[turn % 7]
        world.submit(what, {"agent": f"caller-{turn // 7 % 3 + 1}"})
        await anyio.sleep(0.002)
        world.submit("wake", {"agent": "listener"})
        return turn

    def _noted(self, data: Any) -> None:
        self.state.setdefault("notes", []).append(data)


class Listener(Agent):
    """Sleeps until there is news, or until it is woken."""

    async def decide_action(self) -> Action | None:
        self.state["woken"] = [*self.state.get("woken", []), [self.loop.woken_by, self.world.now]]
        return Action("sleep", {"condition": {"event": "host.news", "timeout": 3}})


class Waiter(Agent):
    """Waits for something that takes longer than the run."""

    async def decide_action(self) -> Action | None:
        await perform(Effect("slow", {"patience": "much"}, _echo, latency_ns=1000 * NS, safety="pure"))
        return NOOP


class Lagger(Agent):
    """Performs an effect that takes longer than its deadline, and sleeps."""

    async def decide_action(self) -> Action | None:
        await perform(Effect("late", {}, _echo, latency_ns=20 * NS, deadline_ns=5 * NS))
        return Action("stop")


class Busy(Agent):
    """Never ends its iteration, and shows that it lives."""

    async def decide_action(self) -> Action | None:
        while True:
            self.loop.beat()
            await sleep(5)


class Napper(Agent):
    """Sleeps in its iteration, and ends it when it is interrupted."""

    async def decide_action(self) -> Action | None:
        try:
            await sleep(60)
        except Interrupt:
            return NOOP
        return NOOP


class Faulty(Agent):
    """Fails whenever it acts."""

    async def decide_action(self) -> Action | None:
        raise ValueError("it never works")


class Buyer(Agent):
    """Asks for approvals of what nobody decides in time."""

    async def decide_action(self) -> Action | None:
        try:
            await Approvals.of(self.world).require(self, "shop.order", {"amount": 900}, "it is much")
        except Refused:
            return Action("stop")
        return NOOP


class Meddler(Agent):
    """Does to others what rules cannot do, and asks for what is refused, as a host program does."""

    async def decide_action(self) -> Action | None:
        await sleep(30)
        napper = self.world.agents["napper"]
        assert isinstance(napper, Agent)
        for number in range(2):
            napper.loop.interrupt(number)
        await perform(Effect("host", 0, self._call))
        await sleep(60)
        await perform(Effect("host", 1, self._call))
        await sleep(30)
        Conversations.of(self.world).set_level("user:1", Permission.GUEST)
        self.world.tasks.remove_ended("", self.world.kernel.now)
        return Action("stop")

    async def _call(self, request: Any, key: str) -> None:
        if request:
            self.world.submit(DECISION, {"gate": "gate-2", "decision": "approve", "by": "eve", "note": "too late"})
        else:
            self.world.submit("create_loop", {"agent": "napper", "kind": "napper"})
            self.world.submit("stop", {"agent": "hasty"})


async def _answer(request: Any, key: str) -> str:
    await anyio.lowlevel.checkpoint()
    return f"An answer to {len(request['messages'])} messages, " + "at some length " * 10


async def _echo(request: Any, key: str) -> Any:
    await anyio.lowlevel.checkpoint()
    return request


async def _fail(request: Any, key: str) -> Any:
    raise ValueError(f"nobody knows {request['turn']}")


async def _hang(request: Any, key: str) -> None:
    await anyio.sleep(100)


KINDS: dict[str, type[Agent]] = {
    "caller": Caller, "host": Host, "listener": Listener, "waiter": Waiter, "lagger": Lagger, "busy": Busy,
    "napper": Napper, "faulty": Faulty, "buyer": Buyer, "meddler": Meddler,
}  # fmt: skip
