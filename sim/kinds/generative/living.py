"""Living: what an agent does each time it looks around. It perceives, reacts, talks, plans and reflects."""

from collections.abc import Sequence
from typing import Any, Final

from sim.agents.conversation import Conversations
from sim.agents.engine.core_loop import cut
from sim.kernel.codec import ABSENT
from sim.kinds.generative import prompts
from sim.kinds.generative.events import ActivityBegun, Planned, Reacted, Reflected, Talked
from sim.kinds.generative.mind import Mind
from sim.kinds.generative.plans import item_at, lines
from sim.kinds.generative.service import ASLEEP, Generative
from sim.kinds.town.routine import place_at
from sim.kinds.town.trace import DAY_NS
from sim.memory.memory import Memory
from sim.memory.service import Memories
from sim.world import Inhabitant, World

LATEST: Final = 100
"""How many of its latest memories an agent reflects on (Park and others 2023, section 4.2)."""

PLATFORM: Final = "town"
"""The platform of talks, as conversations have it."""


async def lived(world: World, agent: Inhabitant) -> dict[str, Any]:
    """Have an agent look around and do what follows. Returns what it did and where it goes."""
    town = Generative.of(world)
    mind = town.minds[agent.agent_id]
    mind.next_ns = town.next_look_ns(world.kernel.now)
    if town.wakes_ns(mind) is not None:
        mind.doing = ASLEEP
        return _result(town, mind, 0)
    await _plan(world, agent, mind)
    await _act(world, agent, mind)
    new = await _perceive(world, agent, mind)
    if mind.importance > town.settings.reflects:
        await reflect(world, agent, mind)
    mind.next_ns = max(mind.next_ns, town.next_look_ns(world.kernel.now))  # models can take longer than a look
    return _result(town, mind, new)


def _result(town: Generative, mind: Mind, new: int) -> dict[str, Any]:
    x, y = town.goal(mind)
    at = place_at((x - mind.offset, y))
    return {"to": [x, y], "place": at, "doing": mind.doing, "new": new}


async def remember(world: World, agent: Any, text: str, kind: str) -> Memory:
    """Add a memory, with the importance that a model gives it."""
    town, memories = Generative.of(world), Memories.of(world)
    importance = await prompts.importance_of(world, agent, text, memories.settings.kinds[kind])
    memory = memories.add(agent.agent_id, cut(text, memories.settings.longest), kind=kind, importance=importance)
    town.minds[agent.agent_id].importance += importance
    return memory


# -- plans


async def _plan(world: World, agent: Any, mind: Mind) -> None:
    """Plan the day, the hour and its minutes, as far as they have just begun."""
    town = Generative.of(world)
    day, hour = town.clock_ns // DAY_NS, town.minute // 60
    if mind.day != day:
        mind.day, mind.hour, mind.plans = day, -1, {}
        memories = await town.recalled(agent, f"what {mind.agent} plans, wants and has promised for today")
        await _make(world, agent, mind, "day", memories, mind.usual_day())
        if mind.plans.get("day"):
            memory = f"{mind.agent} plans for today: {'; '.join(lines(mind.plans['day']))}"
            await remember(world, agent, memory, "plan")
    if mind.hour != hour:
        await _plan_hour(world, agent, mind)


async def _plan_hour(world: World, agent: Any, mind: Mind, because: str = "") -> None:
    town = Generative.of(world)
    mind.hour = town.minute // 60
    mind.plans |= {"hour": [], "minutes": []}
    first, last = mind.hour * 60, mind.hour * 60 + 59
    items = (item_at(mind.plans.get("day", ()), minute) for minute in range(first, last + 1))
    above = list(dict.fromkeys(lines(item for item in items if item is not None)))
    await _make(world, agent, mind, "hour", (), above, because=because)
    await _make(world, agent, mind, "minutes", (), lines(mind.plans["hour"]) or above, because=because)


async def _make(
    world: World, agent: Any, mind: Mind, level: str, memories: Sequence[Memory], above: list[str], because: str = ""
) -> None:
    plan = await prompts.planned(world, agent, level, memories, above, because)
    Generative.of(world).count("unreadable", plan.unreadable)
    Generative.of(world).count("surplus", plan.surplus)
    mind.plans[level] = plan.items
    world.event_bus.report(
        Planned(
            agent=mind.agent,
            because=because,
            items=lines(plan.items),
            level=level,
            surplus=plan.surplus or ABSENT,
            unreadable=plan.unreadable,
        )
    )


async def _act(world: World, agent: Any, mind: Mind) -> None:
    """Begin what the plans say for now, and remember it if it is something else than before."""
    town = Generative.of(world)
    item = next(mind.items(town.minute), None)
    place = mind.place(town.minute) or mind.usual_place(town.step)
    doing = item.what if item is not None else "is at home" if place == "home" else f"is at the {place}"
    if doing != mind.doing:
        mind.doing = doing
        world.event_bus.report(ActivityBegun(agent=mind.agent, doing=doing, place=place))
        await _notice(world, agent, mind, f"{mind.agent} {doing}")


# -- perception and reactions


async def _notice(world: World, agent: Any, mind: Mind, text: str) -> bool:
    """Remember an observation, unless it is one of the latest. Returns whether it was new."""
    if text in mind.seen:
        return False
    retention = Generative.of(world).settings.retention
    mind.seen = [*mind.seen, text][-retention:] if retention else []
    await remember(world, agent, text, "observation")
    return True


async def _perceive(world: World, agent: Any, mind: Mind) -> int:
    """Take in who is in sight, and react to the first one who does something new. Returns how much was new."""
    town, new, reacts = Generative.of(world), 0, True
    for sighting in town.in_sight(mind):
        text = f"{sighting.agent} {sighting.doing}"
        if not await _notice(world, agent, mind, text):
            continue
        new += 1
        if reacts and not mind.talking:
            reacts = False
            await _react(world, agent, mind, sighting.agent, text)
    return new


async def _react(world: World, agent: Any, mind: Mind, other: str, seen: str) -> None:
    town, now = Generative.of(world), world.kernel.now
    latest = mind.talked_ns.get(other)
    may_talk = other in town.minds and (latest is None or now - latest >= town.settings.again)
    memories = await town.recalled(agent, seen)
    choices = (prompts.TALK, prompts.CHANGE, prompts.CONTINUE) if may_talk else (prompts.CHANGE, prompts.CONTINUE)
    choice = await prompts.reaction(world, agent, seen, memories, choices)
    world.event_bus.report(Reacted(agent=mind.agent, choice=choice, to=other))
    if choice == prompts.CHANGE:
        await _plan_hour(world, agent, mind, seen)
    elif choice == prompts.TALK and not mind.talking and not town.minds[other].talking:
        await talk(world, agent, world.agents[other])


# -- talks


async def talk(world: World, agent: Any, other: Any) -> None:
    """Have two agents talk, and both remember what was said."""
    town = Generative.of(world)
    minds = [town.minds[one.agent_id] for one in (agent, other)]
    for mind in minds:
        mind.talking = True
    try:
        said, ending, conversation = await _speak(world, (agent, other))
    finally:
        for mind in minds:
            mind.talking = False
    now = world.kernel.now
    for mind, partner in zip(minds, reversed(minds), strict=True):
        mind.talked_ns[partner.agent] = now
    world.event_bus.report(
        Talked(agent=agent.agent_id, conversation=conversation, ending=ending, to=other.agent_id, turns=len(said))
    )
    town.count("talks")
    if said:
        for one, partner in ((agent, other), (other, agent)):
            await remember(world, one, "\n".join([f"{one.agent_id} talked with {partner.agent_id}.", *said]), "talk")


async def _speak(world: World, pair: tuple[Any, Any]) -> tuple[list[str], str, str]:
    """Return what two agents say in turn, why they end, and their conversation."""
    town, conversations = Generative.of(world), Conversations.of(world)
    first, second = pair
    person = conversations.resolve_user(PLATFORM, first.agent_id, first.agent_id)
    channel = f"{first.agent_id} with {second.agent_id}"
    conversation = conversations.resolve(person, PLATFORM, channel).id
    said: list[str] = []
    ending = "turns"
    for turn in range(town.settings.turns):
        speaker, listener = pair[turn % 2], pair[(turn + 1) % 2]
        query = f"{listener.agent_id} {said[-1] if said else town.minds[listener.agent_id].doing}"
        memories = await town.recalled(speaker, query)
        text = await prompts.utterance(world, speaker, listener.agent_id, memories, said, turn + 1)
        if not text:
            ending = "error" if text is None else "end"
            break
        said.append(f"{speaker.agent_id}: {text}")
        if speaker is first:
            conversations.append(conversation, "user", person.id, text)
        else:
            conversations.append(conversation, "assistant", speaker.agent_id, text)
    conversations.settle(conversation)
    return said, ending, conversation


# -- reflection


async def reflect(world: World, agent: Any, mind: Mind) -> None:
    """Ask what the latest memories are about, and remember what follows from the memories that answer it."""
    town, memories = Generative.of(world), Memories.of(world)
    importance, mind.importance = mind.importance, 0
    questions = await prompts.questions_of(world, agent, memories.all(mind.agent)[-LATEST:])
    evidence: dict[str, list[int]] = {}
    for question in questions:
        recalled = await town.recalled(agent, question)
        for text, ids in await prompts.insights_of(world, agent, question, recalled):
            memory = await remember(world, agent, text, "reflection")
            evidence[str(memory.id)] = ids
            town.count("unfounded", not ids)
    town.count("reflections")
    world.event_bus.report(Reflected(agent=mind.agent, evidence=evidence, importance=importance, questions=questions))
