"""The check of the section `islands`: everything in a scenario that would pass between islands without a latency."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from sim.base.errors import Problem, UsageError
from sim.base.expressions import did_you_mean
from sim.events.topic import matches
from sim.kernel.duration import to_ns, to_text
from sim.scenario.island_ceiling import check_ceiling
from sim.scenario.island_division import Division, check_division, division_of
from sim.scenario.island_models import check_models
from sim.scenario.island_shares import check_shares, some_of
from sim.scenario.island_travel import check_travel
from sim.scenario.island_uses import (
    Meeting,
    Use,
    Where,
    groups_of,
    homes_of,
    settings_of,
    topics_of,
    travels,
    uses_of,
)
from sim.scenario.never import awaited
from sim.scenario.schema import Scenario
from sim.scenario.symbols import Symbols, items, mapping
from sim.scenario.yaml_tree import Map, Mark
from sim.world.action import DEFINED
from sim.world.islands import ALLOWED, ARGUMENTS, CALLED, IslandSettings, Thing

_SECTIONS: Final = frozenset({"islands", "calendar", "score", "outcomes", "controls"})
"""The sections that a scenario with islands can have: they add nothing that agents share."""

_ABSENT: Final = ("space", "interventions", "testing")
"""The keys that a scenario with islands cannot have."""

_MESSAGES = "let an agent of that island do it, and send it a message"


def check_islands(tree: Map, scenario: Scenario, symbols: Symbols) -> Iterator[Problem]:
    """Yield what cannot be on islands, or would pass between them without a latency.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        symbols: the names that it declares.
    """
    settings = settings_of(scenario)
    if settings is None:
        return
    excluded = [*_excluded(tree, scenario), *check_division(tree, scenario, settings)]
    excluded += _on_no_island(tree, scenario, settings)
    yield from excluded
    if excluded:
        return
    division = division_of(scenario, settings)
    yield from _uses(tree, scenario, settings, division)
    yield from _meetings(tree, scenario, settings, division, symbols)
    yield from check_shares(tree, scenario, division)
    yield from _unheard(tree, scenario, settings, division)
    yield from check_travel(tree, scenario, settings, division)
    yield from check_models(tree, scenario, settings)
    yield from check_ceiling(tree, scenario, division)


def _excluded(tree: Map, scenario: Scenario) -> Iterator[Problem]:
    """Yield the parts of the file that islands exclude."""
    for key in (*_ABSENT, *(key for key in scenario.sections if key not in _SECTIONS)):
        if tree.get(key) is not None:
            yield tree.keys_at[key].problem(
                f"{key} cannot be in a file with islands: all agents would share it", "leave out one of the two"
            )
    execution, section = scenario.execution, mapping(tree, "execution")
    for key, excluded, why in (
        ("sync", execution.sync is not None, "agents would be at different times"),
        ("use_autonomous_loops", not execution.use_autonomous_loops, "in tick mode, all agents act in one round"),
        ("health", execution.health is not None, "one monitor would look at all agents"),
    ):
        if excluded and isinstance(section, Map):
            yield section.values_at[key].problem(f"execution.{key} cannot be in a file with islands: {why}")
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        if entry.kind != "policy":
            message = f"agents[{number}].kind: agents on islands follow rules, so they are of the kind policy"
            yield _mark(raw, "kind").problem(f"{message}, not {entry.kind}")
        for place, rule in enumerate(entry.rules):
            for do in rule.do:
                if do.kind not in ALLOWED:
                    yield _at(tree, Where(number, place, "do")).problem(
                        f"agents[{number}].rules[{place}].do: agents on islands cannot do {do.kind}",
                        f"they can do {', '.join(sorted(ALLOWED))}",
                    )


def _on_no_island(tree: Map, scenario: Scenario, settings: IslandSettings) -> Iterator[Problem]:
    """Yield entries that live on no island, and names by which an agent that is made could be on two."""
    for number, (entry, raw) in enumerate(zip(scenario.agents, items(tree, "agents"), strict=True)):
        island = settings.entries.get(entry.name)
        if island is None and entry.name not in settings.by:
            message = f"agents[{number}]: {entry.name!r} lives on no island"
            yield _mark(raw, "name").problem(message, "name it in `islands.of` or `islands.by`")
            continue
        for other in scenario.agents:
            there = settings.entries.get(other.name, island)  # agents of a divided entry are not made during the run
            if there != island and entry.name.startswith(f"{other.name}-"):
                message = f"{entry.name!r} of {island or 'several islands'} begins like the agents of {other.name!r}"
                yield _mark(raw, "name").problem(f"agents[{number}].name: {message} of {there}", "give it another name")


# -- things with a home


def _uses(tree: Map, scenario: Scenario, settings: IslandSettings, division: Division) -> Iterator[Problem]:
    """Yield uses of a thing by agents of two islands, and things whose home is not known."""
    homes, first = homes_of(scenario, division), dict[Thing, Use]()
    for use in uses_of(scenario, division):
        if not isinstance(use, Use) or _is_agent(scenario, use.thing):
            continue
        kind, name = use.thing
        said = getattr(settings.home, kind).get(name) if kind in ("pools", "artifacts", "accounts") else None
        before = first.setdefault(use.thing, use)
        away = [island for island in use.islands if island != homes[use.thing]]
        if away:
            by = f"{before.islands[0]} uses it in {before.where.path}"
            by = by if said is None else f"`islands.home` says {said}"
            message = f"{use.where.path}: {away[0]} uses {CALLED[kind].format(name)}, but {by}"
            yield _at(tree, use.where).problem(message, _MESSAGES)
    yield from _owners(tree, scenario, division, homes)
    yield from _homes_of_nothing(tree, scenario, settings, division)
    computed = _computed(scenario)
    for kind, declared in (("pools", scenario.pools), ("accounts", scenario.accounts)):
        part = mapping(tree, kind)
        for name in declared:
            if kind in computed and (kind, name) not in homes and isinstance(part, Map):
                yield part.keys_at[name].problem(
                    f"{kind}.{name}: no rule names it, so its home island is not known",
                    f"say it: `islands: {{home: {{{kind}: {{{name}: ...}}}}}}`",
                )


def _homes_of_nothing(tree: Map, scenario: Scenario, settings: IslandSettings, division: Division) -> Iterator[Problem]:
    """Yield homes on no island, and those of pools and accounts that the file does not have. Artifacts can be made
    during a run.
    """
    homes = mapping(mapping(tree, "islands"), "home")
    for kind in ("pools", "artifacts", "accounts"):
        part = mapping(homes, kind)
        for name, island in getattr(settings.home, kind).items():
            if island not in division.names and isinstance(part, Map):
                yield part.values_at[name].problem(
                    f"islands.home.{kind}.{name}: there is no island {island!r}", did_you_mean(island, division.names)
                )
    for kind, declared in (("pools", scenario.pools), ("accounts", scenario.accounts)):
        part = mapping(homes, kind)
        for name in getattr(settings.home, kind):
            if name not in declared and isinstance(part, Map):
                yield part.keys_at[name].problem(
                    f"islands.home.{kind}.{name}: there is no such name in {kind}", did_you_mean(name, declared)
                )


def _is_agent(scenario: Scenario, thing: Thing) -> bool:
    return thing[0] == "accounts" and thing[1] not in scenario.accounts


def _owners(tree: Map, scenario: Scenario, division: Division, homes: dict[Thing, str]) -> Iterator[Problem]:
    """Yield artifacts whose owner, who is paid, lives elsewhere; and payments to agents elsewhere."""
    for number, (artifact, raw) in enumerate(zip(scenario.artifacts, items(tree, "artifacts"), strict=True)):
        home = homes.get(("artifacts", artifact.id))
        account = homes.get(("accounts", artifact.owner))
        owners = division.islands_of(artifact.owner) if account is None else (account,)
        if artifact.price and not _stays(scenario, artifact.owner):
            message = f"artifacts[{number}].owner: {artifact.owner} travels, but is paid for {artifact.id!r} on {home}"
            yield _mark(raw, "owner").problem(message, "give it an owner that stays, or leave out its price")
        away = [island for island in owners if island != home]
        if home is not None and away:
            message = f"artifacts[{number}].owner: {artifact.owner} lives on {away[0]}, but {home} uses {artifact.id!r}"
            yield _mark(raw, "owner").problem(message, "give it an owner of that island")
    for use in uses_of(scenario, division):
        if isinstance(use, Use) and _is_agent(scenario, use.thing):
            pair = _apart(use.islands, division.islands_of(use.thing[1]))
            if pair is not None:
                message = f"{use.where.path}: {pair[0]} pays {use.thing[1]} of the island {pair[1]}"
                yield _at(tree, use.where).problem(message, "islands have no money in common; send a message")


def _stays(scenario: Scenario, agent: str) -> bool:
    """Return whether no agent that can have this name travels."""
    made = {entry.name: entry for entry in scenario.agents}
    entry = made.get(agent) or made.get(agent.rpartition("-")[0])
    own = [entry] if entry is not None else scenario.agents  # a name from a table is one of any entry
    return not any(travels(one) for one in own)


def _apart(some: Sequence[str], others: Collection[str]) -> tuple[str, str] | None:
    """Return two different islands, one of each; None if there are none."""
    return next(((one, other) for other in sorted(others) for one in some if one != other), None)


def _computed(scenario: Scenario) -> set[str]:
    """Return the kinds of things whose names a rule computes, or that agents name who travel."""
    kinds = set()
    for entry in scenario.agents:
        for rule in entry.rules:
            for do in rule.do:
                for argument in DEFINED[do.kind].arguments() if do.sleep is None else ():
                    value = do.arguments.get(argument.name)
                    if value is None or argument.meaning not in ARGUMENTS:
                        continue
                    if not value.constant or travels(entry):
                        kinds.add(ARGUMENTS[argument.meaning])
    return kinds


# -- other agents


def _meetings(
    tree: Map, scenario: Scenario, settings: IslandSettings, division: Division, symbols: Symbols
) -> Iterator[Problem]:
    """Yield rules that name agents of another island, other than messages that take long enough."""
    groups, least = groups_of(scenario, division), to_text(settings.latency)
    moving = {entry.name for entry in scenario.agents if travels(entry)}
    for met in uses_of(scenario, division):
        if not isinstance(met, Meeting) or _is_of(symbols, met.name, moving):
            continue
        mark = _at(tree, met.where)
        if met.what == "spawns" and met.name in settings.by:
            message = f"{met.where.path}: copies of {met.name!r} would live on no island, as its agents live on several"
            yield mark.problem(message, "spawn another entry, which `islands.of` names")
            continue
        pair = _apart(met.islands, groups.get(met.name) or _islands_of(division, symbols, met.name))
        if pair is None:
            continue
        where = f"{met.where.path}: {pair[0]} {met.what} {met.name} of the island {pair[1]}"
        if met.what != "sends to":
            yield mark.problem(where, _MESSAGES)
        elif not symbols.is_agent(met.name):
            hint = "send to one of its agents, or publish an event with a topic of `islands.topics`"
            yield mark.problem(f"{where}, which is a group", hint)
        elif met.after is None:
            yield mark.problem(f"{where} without `after`", f"messages between islands need `after: {least}` or more")
        elif met.after is not ... and _shorter(met.after, settings.latency):
            message = f"{where} with a latency of {met.after}, and messages between islands take at least {least}"
            yield mark.problem(message, f"write `after: {least}` or more")


def _is_of(symbols: Symbols, agent: str, entries: Collection[str]) -> bool:
    """Return whether a name is that of one agent, and not of a group, of one of some entries."""
    try:
        return symbols.is_agent(agent) and symbols.entries_of(agent)[0] in entries
    except UsageError:
        return False  # reported elsewhere


def _shorter(after: Any, least: int) -> bool:
    try:
        return to_ns(after) < least
    except UsageError:
        return False  # reported elsewhere


def _islands_of(division: Division, symbols: Symbols, name: str) -> tuple[str, ...]:
    islands = division.islands_of(name)
    try:
        return islands or division.of.get(symbols.entries_of(name)[0], ())
    except UsageError:
        return ()  # reported elsewhere


# -- events


def _unheard(tree: Map, scenario: Scenario, settings: IslandSettings, division: Division) -> Iterator[Problem]:
    """Yield what agents wait for that only another island publishes, under a topic that does not reach theirs."""
    published = list(topics_of(scenario, division))
    own = [event.topic for event in scenario.events]
    for number, mark, where, pattern in _awaited_by_agents(scenario, tree):
        if any(matches(pattern, topic) for topic in own):
            continue
        matching = [(islands, t) for islands, t in published if t is not None and matches(pattern, t)]
        if any(settings.latency_of(topic) is not None for _, topic in matching):
            continue
        heard = {island for islands, t in published if t is None or matches(pattern, t) for island in islands}
        here = next((island for island in division.of[scenario.agents[number].name] if island not in heard), None)
        if matching and here is not None:
            there = list(dict.fromkeys(island for islands, _ in matching for island in islands))
            by = f"{some_of(there)} {'publishes' if len(there) == 1 else 'publish'}"
            message = f"{where}: {here} waits for {pattern!r}, which only {by}, and {here} never hears it"
            yield mark.problem(message, f"add `islands: {{topics: {{{matching[0][1]}: {{}}}}}}`")


def _awaited_by_agents(scenario: Scenario, tree: Map) -> Iterator[tuple[int, Mark, str, str]]:
    """Yield the patterns of topics for which agents wait: the entry, the position, the place, and the pattern."""
    for mark, where, pattern in awaited(scenario, tree):
        if where.startswith("agents["):
            number = int(where[len("agents[") : where.index("]")])
            if not travels(scenario.agents[number]):  # it can be on the other island when it waits
                yield number, mark, where, pattern


# -- positions


def _mark(part: Any, key: str) -> Mark:
    assert isinstance(part, Map), "it was read from a file"
    mark: Mark = part.values_at.get(key, part.mark)
    return mark


def _at(tree: Map, where: Where) -> Mark:
    """Return the position of a place in the file."""
    entry = items(tree, "agents")[where.entry]
    return _mark(entry if where.rule is None else items(entry, "rules")[where.rule], where.part)
