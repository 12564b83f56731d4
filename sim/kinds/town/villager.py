"""An agent that replays its part of a trace: in each step it looks around, makes its calls in sequence, and walks."""

from typing import Any, ClassVar

from sim.actors import Agent
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kinds.town.trace import TownTrace, TraceCall
from sim.llm import ChatMessage, ModelRequest, Models, Sampling
from sim.llm.tokens import APPROXIMATE, count_request
from sim.world import Action, Sharing, Sighting, World

_FILLER = "What is known of the day so far goes here. " * 60
_FRAME = count_request(APPROXIMATE, ModelRequest((ChatMessage("user", ""),)))  # tokens of a prompt with an empty text
_BYTES = 4  # bytes per token, as in `APPROXIMATE`


class Villager(Agent):
    """An agent that replays the part of a trace that has its name.

    The trace determines its calls and its path, but not which agents it sees. Its prompts and its actions contain the
    agents that it sees. So two runs of a town have equal hashes only if every agent has seen the same agents. Use
    `villagers` to bind this class to a trace.

    Args:
        agent_id: the name of the agent, which must be in the trace.
        world: the world of the agent; it must have space and language models.
        group: the group of the agent.
        permission: the level of trust of the agent.

    Attributes:
        trace: the trace of the whole town.
        home: its position at the beginning of the trace.

    Raises:
        UsageError: if the trace has no part with this name.
    """

    trace: ClassVar[TownTrace]
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
        """Replay the present step; stop at the end of the trace."""
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


def villagers(trace: TownTrace, agent: type[Villager] = Villager) -> type[Villager]:
    """Return a class of agents that replay a trace; each agent has the part with its name.

    Args:
        trace: the trace.
        agent: the class that it inherits from.
    """
    return type(agent.__name__, (agent,), {"trace": trace, "__doc__": agent.__doc__})


def _request(call: TraceCall, step: int, seen: tuple[Sighting, ...]) -> ModelRequest:
    """Return a request with the token counts of the call and the seen agents in its text."""
    near = "; ".join(f"{who.agent} at {_words(who.position)}, {who.doing}" for who in seen)
    text = f"It is step {step}. Near you: {near or 'nobody'}.\n"
    size = max(0, call.input_tokens - _FRAME) * _BYTES
    data = text.encode(errors="replace")
    if len(data) < size:
        filler = _FILLER * (1 + (size - len(data)) // len(_FILLER))
        text += filler[: size - len(data)]
    else:
        text = data[:size].decode(errors="ignore")
        text += " " * (size - len(text.encode()))  # `ignore` dropped a character that was cut in two
    return ModelRequest((ChatMessage("user", text),), sampling=Sampling(max_tokens=call.output_tokens))


def _words(position: Any) -> str:
    return ", ".join(map(str, position)) if isinstance(position, tuple) else str(position)
