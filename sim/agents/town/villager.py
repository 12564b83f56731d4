"""Who plays a part of a trace: looks around, makes the calls of the step one after the other, and walks on."""

from typing import Any, ClassVar

from sim.actors import Agent
from sim.agents.town.trace import Trace, TraceCall
from sim.errors import UsageError
from sim.llm import ChatMessage, ModelRequest, Models, Sampling
from sim.llm.tokens import APPROXIMATE, count_request
from sim.permissions import Permission
from sim.world import Action, Sharing, Sighting, World

_FILLER = "What is known of the day so far goes here. " * 60
_FRAME = count_request(APPROXIMATE, ModelRequest((ChatMessage("user", ""),)))  # tokens of a prompt without a text
_BYTES = 4  # of a token


class Villager(Agent):
    """An agent that plays the part of a trace that has its name.

    What it calls and where it walks is given; whom it sees is not, and stands in its prompts and its actions. So two
    ways of running a town agree only if everybody has seen the same. Use `villagers` to bind the class to a trace.

    Args:
        agent_id: its name, one of the trace's.
        world: where it lives; it has space and language models.
        group: its group.
        permission: what it may do.

    Attributes:
        trace: what the whole town does.
        home: where it is when the trace begins.

    Raises:
        UsageError: if the trace has no part for it.
    """

    trace: ClassVar[Trace]
    reach: Sharing | None = "space"

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        number = self.trace.numbers.get(agent_id)
        if number is None:
            raise UsageError(f"the town's trace has no part for {agent_id!r}, only for {len(self.trace.agents)} others")
        self._number = number
        self.home = self.trace.at(number, self.trace.first_step)
        self.state = {"calls": 0, "met": 0}

    async def decide_action(self) -> Action | None:
        """Play the step that it is now; stop when the trace has ended."""
        trace, number = self.trace, self._number
        step = trace.first_step + round(self.world.now / trace.step_s)
        if step >= trace.last_step:
            return Action("stop")
        seen = self._look_around()
        met = [sighting.agent for sighting in seen]
        for call in trace.calls[number].get(step, ()):
            await Models.of(self.world).complete(self, _request(call, step, seen))
            self.state["calls"] += 1
        self.state["met"] += len(met)
        if step in trace.calls[number]:
            self.world.observe(self.agent_id, "in_sight", len(met))
        here, there = trace.at(number, step), trace.at(number, step + 1)
        doing = "walking" if here != there else "busy" if step in trace.calls[number] else "idle"
        return Action("walk", {"to": list(there), "doing": doing, "met": met})

    def _look_around(self) -> tuple[Sighting, ...]:
        if self.world.space is None:
            raise UsageError(f"{self.agent_id} needs space to look around", hint="add `town:` to the scenario")
        return self.world.space.near(self.agent_id)


def villagers(trace: Trace) -> type[Villager]:
    """Return the class of agents that play this trace; each takes the part of its name."""
    return type("Villager", (Villager,), {"trace": trace, "__doc__": Villager.__doc__})


def _request(call: TraceCall, step: int, seen: tuple[Sighting, ...]) -> ModelRequest:
    """Return a request of as many tokens as the call has, with who was seen in it."""
    near = "; ".join(f"{who.agent} at {_words(who.position)}, {who.doing}" for who in seen)
    text = f"It is step {step}. Near you: {near or 'nobody'}.\n"
    size = max(0, call.input_tokens - _FRAME) * _BYTES
    data = text.encode(errors="replace")
    if len(data) < size:
        filler = _FILLER * (1 + (size - len(data)) // len(_FILLER))
        text += filler[: size - len(data)]
    else:
        text = data[:size].decode(errors="ignore")
        text += " " * (size - len(text.encode()))  # where a letter of several bytes was cut
    return ModelRequest((ChatMessage("user", text),), sampling=Sampling(max_tokens=call.output_tokens))


def _words(position: Any) -> str:
    return ", ".join(map(str, position)) if isinstance(position, tuple) else str(position)
