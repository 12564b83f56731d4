"""Checks that span several parts of a file: names that collide, and sums that are too large.

They read the tree and not the models, so that they run even if other parts of the file are wrong.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sim.agents.family import FAMILIES
from sim.base.errors import Problem, UsageError
from sim.base.expressions import did_you_mean
from sim.base.words import ACTIONS
from sim.kernel.codec import Json
from sim.kernel.duration import MAX_NS, to_ns
from sim.scenario.population import MAX_AGENTS, MOST_DIGITS, Population
from sim.scenario.symbols import Symbols, actions_of, items, mapping
from sim.scenario.units import HOUR, MINUTE, SECOND
from sim.scenario.yaml_tree import Map, Mark, Seq

MAX_EVENTS = 100_000_000
"""The most rounds, samples or injected events of one run."""


def check_semantics(tree: Map, symbols: Symbols, populations: Mapping[str, Population]) -> Iterator[Problem]:
    """Yield the problems that span several parts of the tree of a scenario file."""
    yield from _unique_names(items(tree, "agents"), "name", "agent")
    yield from _unique_names(items(tree, "artifacts"), "id", "artifact")
    yield from _numbered_names(tree, symbols)
    yield from _names_of_rows(tree, symbols, populations)
    yield from _places_of_rows(tree, symbols, populations)
    yield from _groups(tree, symbols)
    yield from _accounts(tree, symbols)
    yield from _resources(tree)
    yield from _shares(tree)
    yield from _total(tree, symbols)
    yield from _repetitions(tree)
    yield from _delays(tree)
    yield from _models(tree)
    yield from _absent_services(tree)
    yield from _partners(tree, symbols)
    yield from _recorded_states(tree, symbols)


def _unique_names(entries: list[dict[str, Json]], key: str, what: str) -> Iterator[Problem]:
    first: dict[str, Mark] = {}
    for entry in entries:
        name = entry.get(key)
        if not isinstance(name, str):
            continue
        mark = _at(entry, key)
        if name in first:
            message = f"the {what} {name!r} appears twice: in {first[name].where} and in {mark.where}"
            yield mark.problem(message)
        first.setdefault(name, mark)


def _at(entry: dict[str, Json], key: str) -> Mark:
    assert isinstance(entry, Map)
    return entry.values_at[key]


def _numbered_names(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    for entry in items(tree, "agents"):
        base, _, number = str(entry.get("name")).rpartition("-")
        if number.isdecimal() and len(number) <= MOST_DIGITS and 1 <= int(number) <= symbols.entries.get(base, 0) > 1:
            message = f"the agent {entry['name']!r} has the same name as agent number {number} of the entry {base!r}"
            yield _at(entry, "name").problem(message)


def _names_of_rows(tree: Map, symbols: Symbols, populations: Mapping[str, Population]) -> Iterator[Problem]:
    """Yield names of rows of a table that something else has: another entry, a group, or an account."""
    accounts = mapping(tree, "accounts")
    for entry in items(tree, "agents"):
        population = populations.get(str(entry.get("name")))
        if population is None or population.names is None or entry.get("table") is None:
            continue
        others = [names for name, names in symbols.named.items() if name != entry["name"]]
        for row, name in enumerate(population.names, 1):
            taken = name in symbols.entries or name in symbols.groups or name in accounts
            numbered = symbols.is_agent(name) and symbols.entries_of(name) != (entry["name"],)
            if taken or numbered or any(name in names for names in others):
                message = f"the name {name!r} of row {row} of {entry['table']} is taken by something else in this file"
                yield _at(entry, "table").problem(message, "agents, groups and accounts need names of their own")
                break


def _places_of_rows(tree: Map, symbols: Symbols, populations: Mapping[str, Population]) -> Iterator[Problem]:
    """Yield places of rows of a table that do not exist."""
    for entry in items(tree, "agents"):
        population = populations.get(str(entry.get("name")))
        cells = () if population is None else population.others.get("place", ())
        if cells and tree.get("places") is None:
            yield _at(entry, "table").problem(
                f"{entry['table']} has places of agents, but the file has none",
                "add `places:`, or make the column a state variable: `columns: {place: state.home}`",
            )
        for row, place in enumerate(cells if symbols.places is not None else (), 1):
            index = isinstance(place, int) and 0 <= place < len(symbols.places or ())
            if place is not None and not index and str(place) not in (symbols.places or ()):
                hint = did_you_mean(str(place), symbols.places or ())
                message = f"row {row} of {entry['table']}: there is no place {str(place)[:80]!r}"
                yield _at(entry, "table").problem(message, hint)
                break


def _groups(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    """Yield names that are both an agent and a group: a message could not tell which is meant."""
    for entry in items(tree, "agents"):
        group = entry.get("group")
        if isinstance(group, str) and group != entry.get("name") and symbols.entries.get(group) == 1:
            message = f"the group {group!r} of {entry.get('name')!r} has the name of an agent"
            yield _at(entry, "group").problem(message)


def _partners(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    """Yield agents with partners, and partners, that have no position; some kinds bring their own."""
    inside = {
        entry["name"]
        for entry in items(tree, "agents")
        if isinstance(entry.get("name"), str) and (entry.get("position") is not None or _brings_position(entry))
    }
    for entry in items(tree, "agents"):
        partners = entry.get("partners")
        named = (entry.get("name"), *partners) if partners and isinstance(partners, list) else ()
        for name in (name for name in named if isinstance(name, str)):
            base = name if name in symbols.entries else name.rpartition("-")[0]
            if base in symbols.entries and base not in inside:
                message = f"{entry.get('name')!r} has partners, but {name!r} has no position in space"
                yield _at(entry, "partners").problem(message, "give it a position")


def _brings_position(entry: dict[str, Json]) -> bool:
    kind = entry.get("kind")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    return family is not None and family.position


def _accounts(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    accounts = mapping(tree, "accounts")
    for name in accounts:
        if name in symbols.entries and isinstance(accounts, Map):
            yield accounts.keys_at[name].problem(
                f"accounts.{name}: an agent of this name exists and has an account already"
            )


def _resources(tree: Map) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for section in ("limits", "budgets", "quotas"):
        names = mapping(tree, section)
        for name in names:
            if name in seen and isinstance(names, Map):
                yield names.keys_at[name].problem(f"{section}.{name}: this name is used in {seen[name]} already")
            seen.setdefault(name, section)


def _shares(tree: Map) -> Iterator[Problem]:
    if tree.get("islands") is not None:
        return
    limits = mapping(tree, "limits")
    for name in limits:
        limit = mapping(limits, name)
        if limit.get("shares") is not None and isinstance(limit, Map):
            message = f"limits.{name}.shares: the file has no islands among which the limit could be divided"
            yield limit.keys_at["shares"].problem(message, "leave out shares, or add `islands:`")
    ceiling = mapping(mapping(tree, "models"), "ceiling")
    if ceiling.get("shares") is not None and isinstance(ceiling, Map):
        message = "models.ceiling.shares: the file has no islands among which the ceiling could be divided"
        yield ceiling.keys_at["shares"].problem(message, "leave out shares, or add `islands:`")


def _total(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    counts = [entry.get("count", 1) for entry in items(tree, "agents") if str(entry.get("name")) not in symbols.named]
    total = sum(count for count in counts if isinstance(count, int) and 0 < count <= MAX_AGENTS)
    total += sum(symbols.entries[name] for name in symbols.named)
    if total > MAX_AGENTS:
        message = f"agents: the file has {total} agents in total, at most {MAX_AGENTS} are allowed"
        yield tree.keys_at["agents"].problem(message)


def _repetitions(tree: Map) -> Iterator[Problem]:
    if tree.get("until", HOUR) is None:  # the number cannot be known
        return
    until = _ns(tree, "until", HOUR)
    execution = mapping(tree, "execution")
    tick = mapping(execution, "tick")
    if execution.get("use_autonomous_loops") is False:
        yield from _too_many(tree, tick, "period", until, SECOND, "execution.tick.period: rounds")
    yield from _too_many(tree, mapping(tree, "metrics"), "every", until, MINUTE, "metrics.every: samples")
    for key in ("events", "interventions"):
        for number, entry in enumerate(items(tree, key)):
            times = entry.get("times")
            if not isinstance(times, int) or times > MAX_EVENTS:
                yield from _too_many(tree, entry, "every", until, until + 1, f"{key}[{number}].every: {key}")


def _too_many(tree: Map, part: dict[str, Json], key: str, until: int, default: int, what: str) -> Iterator[Problem]:
    step = _ns(part, key, default)
    if step > 0 and until // step > MAX_EVENTS:
        mark = part.values_at[key] if isinstance(part, Map) and key in part else tree.values_at.get("until", tree.mark)
        path, _, noun = what.partition(": ")
        yield mark.problem(f"{path}: the run would have {until // step} {noun}, at most {MAX_EVENTS} are allowed")


def _ns(part: dict[str, Any], key: str, default: int) -> int:
    try:
        return to_ns(part[key]) if key in part else default
    except UsageError:
        return default


def _delays(tree: Map) -> Iterator[Problem]:
    """Yield loops whose min_loop_delay is above their max_loop_delay."""
    loops = [("execution.agent_loop", mapping(mapping(tree, "execution"), "agent_loop"))]
    agents = tree.get("agents")
    for number, entry in enumerate(agents if isinstance(agents, list) else []):
        loops.append((f"agents[{number}].loop", mapping(entry, "loop")))
    for path, loop in loops:
        crossed = _ns(loop, "min_loop_delay", 0) > _ns(loop, "max_loop_delay", MAX_NS)
        if crossed and isinstance(loop, Map):
            yield loop.mark.problem(f"{path}: min_loop_delay is longer than max_loop_delay")


def _recorded_states(tree: Map, symbols: Symbols) -> Iterator[Problem]:
    """Yield variables to record that no agent has, if the file says all that agents have; and those named twice."""
    names = mapping(tree, "recording").get("state")
    if not isinstance(names, Seq):
        return
    declared = frozenset[str]().union(*symbols.states.values())
    known_states = all(kind == "policy" for kind in symbols.kinds.values())
    for number, (name, mark) in enumerate(zip(names, names.values_at, strict=True)):
        if name in names[:number]:
            yield mark.problem(f"recording.state[{number}]: {name!r} is named twice")
        elif known_states and isinstance(name, str) and name not in declared:
            hint = did_you_mean(name, declared) or "declare it in `state` of the agents"
            yield mark.problem(f"recording.state[{number}]: no agent has a state variable {name[:80]!r}", hint)


def _models(tree: Map) -> Iterator[Problem]:
    """Yield rules and surveys that ask without models, and prices of `ask` that every model call charges already."""
    agents = tree.get("agents")
    for number, entry in enumerate(agents if isinstance(agents, list) else []):
        for rule, content in enumerate(items(entry, "rules")):
            if "models" not in tree and any(kind == "ask" for kind, _ in actions_of(content)):
                message = f"agents[{number}].rules[{rule}].do: ask needs language models, but the file has none"
                yield _at(content, "do").problem(message, "add `models: {}` with `rules:`")
    for number, intervention in enumerate(items(tree, "interventions")):
        if "models" not in tree and "survey" in intervention:
            message = f"interventions[{number}].survey: a survey needs language models, but the file has none"
            yield _at(intervention, "survey").problem(message, "add `models: {}` with `rules:`")
    prices = mapping(mapping(tree, "costs"), "ask")
    for name in prices:
        if name in _TAKEN and isinstance(prices, Map):
            message = f"costs.ask.{name}: every model call uses {name} already, so this price would count twice"
            yield prices.keys_at[name].problem(message)


def _absent_services(tree: Map) -> Iterator[Problem]:
    """Yield rules that use memories, conversations or islands in a file that has none."""
    agents = tree.get("agents")
    needs = {kind: need for kind, need in _NEEDS.items() if tree.get(need[0]) is None}
    for number, entry in enumerate(agents if isinstance(agents, list) else []):
        for rule, content in enumerate(items(entry, "rules")):
            for kind in dict.fromkeys(kind for kind, _ in actions_of(content) if kind in needs):
                _, what, hint = needs[kind]
                message = f"agents[{number}].rules[{rule}].do: {kind} needs {what}, but the file has none"
                yield _at(content, "do").problem(message, hint)


_GIVES = {
    "sim.memory.actions": ("memory", "memories", "add `memory: {}`"),
    "sim.agents.conversation.actions": ("conversations", "conversations", "add `conversations: {}`"),
}
_NEEDS = {kind: _GIVES[home] for kind, home in ACTIONS.items() if home in _GIVES}
"""Kinds of action → the section that they need, what it gives to the world, and how to have it."""
assert {*_NEEDS.values()} == {*_GIVES.values()}, "each module of `_GIVES` defines actions"
_NEEDS["travel"] = ("islands", "islands", "divide the world with `islands`, see docs/islands.md")

_TAKEN = ("llm_calls", "llm_tokens", "llm_cost")
