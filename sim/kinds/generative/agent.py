"""Generative agents: they look around, remember, reflect, plan their days and talk."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from sim.actors import Agent
from sim.agents.family import Family, WorldPlan, define_family, is_kind
from sim.base.errors import UsageError
from sim.base.expressions import no_such
from sim.kernel.duration import to_duration
from sim.kinds.generative.actions import live
from sim.kinds.generative.events import FactPlanted
from sim.kinds.generative.mind import Mind
from sim.kinds.generative.plans import lines
from sim.kinds.generative.service import ASLEEP, KIND, Generative
from sim.kinds.generative.settings import GenerativeSettings
from sim.kinds.town.generation import MAX_AGENTS
from sim.kinds.town.routine import HOUR, PLACES, TOWN, lot_at
from sim.memory.service import Memories
from sim.world import Action, World


class GenerativeAgent(Agent):
    """A resident of the town that remembers, reflects, plans and talks, by asking models.

    Args:
        agent_id, world, group, permission, params: see `Agent`.

    Attributes:
        home: its bed, where it is at midnight, or where its resident is when the run begins.
    """

    class Params:
        """Who it is.

        Args:
            about: who it is, for prompts, if a table of the scenario gives it no persona.
        """

        about: str = ""

    memory_kinds: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"observation": 3, "acquaintance": 3, "talk": 5, "plan": 4, "reflection": 6, "fact": 8}
    )

    def __init__(self, agent_id: str, world: World, **options: Any) -> None:
        super().__init__(agent_id, world, **options)
        self.home = self._mind.spot(Generative.of(world).step)
        self.state = {"doing": "", "talks": 0}

    @property
    def _mind(self) -> Mind:
        return Generative.of(self.world).minds[self.agent_id]

    def about(self) -> Mapping[str, Any]:
        """See `Agent.about`: what it does, and its plan of the day."""
        about = getattr(self.params, "about", "")
        return {"about": about, "doing": self._mind.doing, "plan": lines(self._mind.plans.get("day", ()))}

    async def on_start(self) -> None:
        """Give it its first memories: what it knows, and whom it lives or works with."""
        mind, memories = self._mind, Memories.of(self.world)
        if mind.begun:
            return
        mind.begun = True
        town = Generative.of(self.world)
        for other in town.minds.values():
            if (where := shared(mind, other)) is not None:
                memories.add(self.agent_id, f"{self.agent_id} knows {other.agent} from {where}.", kind="acquaintance")
        for name, fact in town.settings.facts.items():
            if fact.agent == self.agent_id:
                memory = memories.add(self.agent_id, fact.text, kind="fact", importance=fact.importance)
                self.world.event_bus.report(
                    FactPlanted(agent=self.agent_id, ask=fact.ask, fact=name, memory=memory.id, words=list(fact.words))
                )

    async def decide_action(self) -> Action:
        """Look around if it is time to; sleep until then, or until the morning."""
        return self.decide_now()

    def decide_now(self) -> Action:
        """See `decide_action`."""
        town, mind = Generative.of(self.world), self._mind
        wakes = town.wakes_ns(mind) if town.in_bed(mind) and mind.doing == ASLEEP else None
        due = mind.next_ns if wakes is None else wakes
        if due > self.world.kernel.now:
            return Action("sleep", {"condition": {"until": to_duration(due)}})
        return Action("live")

    def after_action(self, result: Any) -> None:
        """Show in its state variables what it does, and how many it has talked with."""
        self.state["doing"], self.state["talks"] = self._mind.doing, len(self._mind.talked_ns)


def shared(one: Mind, other: Mind) -> str | None:
    """Return from where two residents know each other at the start: their house, or their place of work."""
    if one is other or one.number // TOWN != other.number // TOWN:
        return None
    if lot_at(one.resident.bed) == lot_at(other.resident.bed):
        return "home"
    works = [mind.usual_place(10 * HOUR) for mind in (one, other)]
    return f"the {works[0]}" if works[0] == works[1] and works[0] in PLACES else None


def check(scenario: Any, until_ns: int | None = None) -> None:
    """Refuse a town without residents, with a space of its own, or with names that are none of its residents.

    See `Family.check`.
    """
    settings: GenerativeSettings | None = scenario.sections.get("generative")
    entries = [entry for entry in scenario.agents if is_kind(entry, KIND)]
    if settings is None:
        return
    if not entries:
        raise UsageError("generative: there are no generative agents", hint=f"add agents of the kind {KIND}")
    if scenario.space is not None:
        raise UsageError("space and generative exclude each other: the town has its own space", hint="remove `space`")
    template = next((entry for entry in entries if entry.template), None)
    if template is not None:
        hint = "list all residents; a town has its people from the start"
        raise UsageError(f"agents.{template.name}: generative agents cannot be spawned", hint=hint)
    names = _names(entries)
    if len(names) > MAX_AGENTS:
        where = f"agents.{entries[0].name}"
        raise UsageError(
            f"{where}: there are at most {MAX_AGENTS} residents, not {len(names)}", hint="use a lower count"
        )
    for name, fact in settings.facts.items():
        if fact.agent not in names:
            hint = f"there are {', '.join(names[:10])}"
            raise no_such(f"generative.facts.{name}.agent: there is no generative agent", fact.agent, names, hint)


def _names(entries: Iterable[Any]) -> list[str]:
    return [name for entry in entries if is_kind(entry, KIND) for name in entry.agent_names()]


def _prepare(plan: WorldPlan) -> None:
    """Give each agent a resident of the town."""
    town = Generative.of(plan.world)
    if not town.minds:
        town.settle(_names(plan.scenario.agents))


NEEDS: Final = {
    "generative": "lives in a town", "models": "asks language models", "memory": "remembers", "conversations": "talks",
}  # fmt: skip
"""What generative agents need in a scenario, and what for."""

define_family(
    Family(
        KIND,
        GenerativeAgent,
        prepare=_prepare,
        check=check,
        needs=NEEDS,
        actions=(live,),
        position=True,
        draws=("the home, the work and the usual day of each resident of the town",),
    )
)
