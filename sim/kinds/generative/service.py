"""The service of generative agents: their minds, and which of their memories they recall."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from sim.base.errors import LimitError, UsageError
from sim.kernel.codec import encode
from sim.kernel.rng import Stream, derive
from sim.kinds.generative.events import AnswerMissed
from sim.kinds.generative.mind import Mind
from sim.kinds.generative.plans import HOME
from sim.kinds.generative.scores import ranked, recencies
from sim.kinds.generative.settings import GenerativeSettings
from sim.kinds.town.generation import RADIUS, SPEED
from sim.kinds.town.routine import HEIGHT, TOWN, WIDTH, corner_of, path, residents
from sim.kinds.town.trace import DAY_NS, DAY_STEPS, STEP_NS
from sim.llm.service import Models
from sim.llm.types import ModelError
from sim.memory.memory import Memory
from sim.memory.service import Memories
from sim.world import Service, Sighting, Space, Warned, World
from sim.world.space import Reach, chebyshev, manhattan, within

KIND: Final = "generative_agent"
"""The kind of agents of this service."""

ASLEEP: Final = "is asleep"
"""The visible activity of an agent that sleeps: others do not notice it."""

EMBED: Final = "embed"
"""The use case of embeddings, as in `models.uses`."""


class Generative(Service):
    """The town of the generative agents of a world.

    Args:
        world: the world.
        settings: what the scenario says.

    Attributes:
        settings: as given.
        minds: what is kept of each agent, by name.
        missed: how often no model gave a usable answer, by use.
    """

    name: ClassVar[str] = "generative"

    def __init__(self, world: World, settings: GenerativeSettings) -> None:
        self.settings = settings
        self.minds: dict[str, Mind] = {}
        self.missed: Counter[str] = Counter()
        self._counts = dict.fromkeys(("talks", "reflections", "unreadable", "surplus", "unfounded"), 0)
        self._world = world

    def settle(self, names: Sequence[str]) -> None:
        """Make a resident of a town out of each agent, and give the world the space of the towns.

        Args:
            names: the names of all agents, in the order of the file; each 25 of them are a town of their own.
        """
        world, seed = self._world, self._world.kernel.seed
        towns = -(-len(names) // TOWN)
        people = [one for town in range(towns) for one in residents(Stream(derive("town routine", seed, town)))]
        for number, name in enumerate(names):
            xs, ys = path(people[number], 0, DAY_STEPS)
            mind = self.minds[name] = Mind(agent=name, number=number, resident=people[number], xs=xs, ys=ys)
            for place in range(len(xs)) if mind.offset else ():
                xs[place] += mind.offset
        look = self.settings.look
        reach = Reach(chebyshev, RADIUS, SPEED * look // STEP_NS, manhattan)
        world.space = Space(reach, within(WIDTH * towns, HEIGHT), lambda: world.kernel.now // look)

    # -- time and place

    @property
    def clock_ns(self) -> int:
        """The time since the midnight before the run."""
        return self.settings.begins + self._world.kernel.now

    @property
    def minute(self) -> int:
        """The minute of the day."""
        return self.clock_ns % DAY_NS // (6 * STEP_NS)

    @property
    def step(self) -> int:
        """The step of the day."""
        return self.clock_ns % DAY_NS // STEP_NS

    def wakes_ns(self, mind: Mind) -> int | None:
        """Return when a sleeping agent wakes up, in the time of the run; None: it is awake."""
        wakes, sleeps = (step * STEP_NS for step in (mind.resident.wakes, mind.resident.sleeps))
        time = self.clock_ns % DAY_NS
        if wakes <= time < sleeps:
            return None
        until = wakes - time if time < wakes else DAY_NS - time + wakes
        return self.next_look_ns(self._world.kernel.now + until - 1)

    def next_look_ns(self, after_ns: int) -> int:
        """Return the first time to look around after a time of the run."""
        look = self.settings.look
        return after_ns - after_ns % look + look

    def goal(self, mind: Mind) -> tuple[int, int]:
        """Return the cell to which an agent goes next: as far as it comes until it looks around again."""
        here, steps = self._world.space, self.settings.look // STEP_NS
        assert here is not None, "`settle` has made it"
        x, y = here.where(mind.agent)
        planned = HOME if self.wakes_ns(mind) is not None else mind.place(self.minute)
        if planned == HOME != mind.usual_place(self.step) or self.wakes_ns(mind) is not None:
            goal = mind.bed
        elif planned is None or planned == mind.usual_place(self.step):
            goal = mind.spot(min(self.step + steps, DAY_STEPS))
        else:
            corner, seat = corner_of(planned), mind.number % TOWN
            goal = corner[0] + seat % 5 + mind.offset, corner[1] + seat // 5
        return _towards((x, y), goal, steps * SPEED)

    def in_bed(self, mind: Mind) -> bool:
        """Return whether an agent is where it sleeps."""
        space = self._world.space
        return space is not None and bool(space.where(mind.agent) == mind.bed)

    def in_sight(self, mind: Mind) -> list[Sighting]:
        """Return the others in sight who are awake, the nearest first, at most as many as the agent takes in."""
        space = self._world.space
        assert space is not None, "`settle` has made it"
        here = space.where(mind.agent)
        awake = [one for one in space.near(mind.agent) if one.doing not in ("", ASLEEP)]
        return sorted(awake, key=lambda one: chebyshev(here, one.position))[: self.settings.attention]

    # -- memories

    async def recalled(self, agent: Any, query: str, limit: int | None = None) -> list[Memory]:
        """Return the memories of an agent with the highest scores for a query, and note that they were recalled.

        Args:
            agent: the agent.
            query: what it is about.
            limit: the most memories; by default `recalled` of the settings.
        """
        mind, memories = self.minds[agent.agent_id], Memories.of(self._world)
        held = {memory.id: memory for memory in memories.all(mind.agent)}
        if not held:
            return []
        relevance = await self._relevance(agent, query, held)
        now = self._world.kernel.now
        times = {id: mind.recalled_ns.get(id, memory.created_ns) for id, memory in held.items()}
        importance = {id: float(memory.importance) for id, memory in held.items()}
        order = ranked(recencies(times, now, self.settings.variant), relevance, importance, self.settings.variant)
        best = order[: self.settings.recalled if limit is None else limit]
        mind.recalled_ns |= dict.fromkeys(best, now)
        return [held[id] for id in best]

    async def _relevance(self, agent: Any, query: str, held: Mapping[int, Memory]) -> dict[int, float]:
        """Return the relevance of memories: by embeddings if the settings say so and a model answers, else by words."""
        memories, name = Memories.of(self._world), agent.agent_id
        scores: Mapping[int, int] | None = None
        if self.settings.relevance == "embeddings":
            embed = partial(Models.of(self._world).embed, agent, use=EMBED)
            try:
                scores = await memories.relevance_by_meaning(name, query, embed)
            except (ModelError, LimitError, UsageError) as error:
                self.miss(name, EMBED, str(error), "relevance by words")
        scores = memories.relevance(name, query) if scores is None else scores
        return {id: float(scores.get(id, 0)) for id in held}

    def miss(self, agent_id: str, use: str, error: str, instead: str) -> None:
        """Note that no model gave a usable answer, and what was done instead."""
        self.missed[use] += 1
        self._world.event_bus.report(AnswerMissed(agent=agent_id, error=error[:500], instead=instead, use=use))

    def count(self, what: str, number: int = 1) -> None:
        """Count a talk, a reflection, lines of plans that are not used, or conclusions that name no memory."""
        self._counts[what] += number

    # -- the service

    def state(self) -> Any:
        """See `Service.state`: a hash of each mind."""
        return {name: hashlib.sha256(encode(mind.state())).hexdigest() for name, mind in sorted(self.minds.items())}

    def metrics(self) -> Mapping[str, float | None]:
        """See `Service.metrics`."""
        return {**self._counts, "missed": sum(dict(self.missed).values())}

    def summary(self) -> Mapping[str, Any]:
        """See `Service.summary`."""
        return self.metrics()

    def warnings(self) -> Sequence[Warned]:
        """See `Service.warnings`: answers and lines of plans that could not be used."""
        uses = ", ".join(f"{count:,} of {use}" for use, count in sorted(self.missed.items()))
        unreadable, surplus, unfounded = (self._counts[one] for one in ("unreadable", "surplus", "unfounded"))
        events = "the events generative.planned count them"
        why = "`sim show RUN events --topic generative.missed` says why, and what was done instead"
        example = f"{events}; larger models keep to `12:00 has lunch at the cafe`"
        which = "`sim show RUN reflections` has them with an empty list; larger models write (because of 1, 5)"
        kept = (
            (len(self.missed), f"generative agents did without answers of models: {uses}", why),
            (unreadable, f"{unreadable:,} lines of plans had no readable time or no words and were left out", example),
            (surplus, f"{surplus:,} lines came after the 40th item of their plan", events),
            (unfounded, f"{unfounded:,} conclusions named no memory that they follow from", which),
        )
        return [Warned(text, hint) for number, text, hint in kept if number]


def _towards(here: tuple[int, int], goal: tuple[int, int], most: int) -> tuple[int, int]:
    """Return the cell that residents reach from `here` in a number of steps, who walk first along x, then along y."""
    x, y = here
    along = max(-most, min(most, goal[0] - x))
    left = most - abs(along)
    return x + along, y + max(-left, min(left, goal[1] - y))
