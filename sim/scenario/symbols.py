"""The names that a scenario file declares, collected before it is validated, and the check of a reference.

Malformed parts of the tree are skipped here, because validation reports them.
"""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.kernel.codec import Json, JsonObject
from sim.scenario.population import MOST_DIGITS, Population
from sim.world.action import DEFINED

Kind = Literal[
    "agent", "entry", "group", "recipient", "account", "artifact", "pool", "limit", "budget", "resource",
    "metric", "place", "record", "slots", "stock", "tier", "tool", "variable",
]  # fmt: skip

MAX_CELLS = 100_000
"""The most places of a grid."""

_CALLED: Mapping[str, str] = {
    "entry": "entry in agents", "recipient": "agent or group", "account": "agent or account",
    "resource": "limit, budget or quota", "record": "recorded value", "slots": "pool", "stock": "pool",
    "tier": "tier in models", "tool": "tool in models",
    "variable": "variable of places",
}  # fmt: skip
_POOL_KINDS = {"slots": ("resource", "priority", "preemptive"), "stock": ("container", "store")}


@attrs.frozen
class Symbols:
    """The names that a file declares. A set that is None is unknown before the run: nothing is checked against it.

    Attributes:
        entries: by entry of `agents`, the number of its agents.
        states, groups_of, kinds: by entry, its state variables, the groups of its agents, and its kind.
        named: by entry that has a table, the names of its agents.
    """

    entries: Mapping[str, int]
    states: Mapping[str, frozenset[str]]
    groups_of: Mapping[str, frozenset[str]]
    kinds: Mapping[str, str]
    spawned: bool
    groups: frozenset[str]
    accounts: frozenset[str]
    artifacts: frozenset[str] | None
    pools: Mapping[str, str]
    limits: frozenset[str]
    budgets: frozenset[str]
    quotas: frozenset[str]
    places: frozenset[str] | None
    records: frozenset[str] | None
    metrics: frozenset[str]
    tiers: frozenset[str]
    tools: frozenset[str]
    functions: frozenset[str]
    calendar: bool
    stock: bool
    grid: bool
    named: Mapping[str, frozenset[str]]
    variables: frozenset[str]
    _table: dict[Kind, frozenset[str] | None] = attrs.field(init=False, repr=False)

    def require(self, kind: Kind, name: str) -> None:
        """Check that `name` is declared as a `kind`.

        Raises:
            UsageError: if it is not, with the nearest declared name as hint.
        """
        if kind in ("agent", "recipient", "account") and self.is_agent(name):
            return
        if kind == "tool" and "." in name:
            self._require_tool(name)
            return
        declared = self._table[kind]
        if declared is None or name in declared:
            return
        called = _CALLED.get(kind, kind)
        if kind in _POOL_KINDS and name in self.pools:
            needed = " or ".join(_POOL_KINDS[kind])
            raise UsageError(f"the pool {name!r} is of kind {self.pools[name]}, but this needs {needed}")
        hint = did_you_mean(name, declared | self._numbered(kind))
        if name in ("*", "**") and kind in ("agent", "recipient", "group"):
            hint = "no name stands for all agents: name an agent or a group"
        raise UsageError(f"there is no {called} {name[:80]!r} in this file", hint=hint)

    def is_single(self, name: str) -> bool:
        """Return whether a name is that of one agent, and not that of an entry or a group."""
        return name not in self.entries and name not in self.groups

    def entries_of(self, name: str) -> tuple[str, ...]:
        """Return the entries whose agents a name means: that of an entry, of a group, or of one agent.

        Raises:
            UsageError: if it is none of these, with the nearest name as hint.
        """
        if name in self.entries:
            return (name,)
        grouped = tuple(entry for entry, groups in self.groups_of.items() if name in groups)
        if grouped:
            return grouped
        rows = tuple(entry for entry, names in self.named.items() if name in names)
        if rows:
            return rows
        made = [entry for entry in self.entries if name.startswith(f"{entry}-")]  # also of one that is made later
        if made and name.rpartition("-")[2].isdecimal() and (self.is_agent(name) or name.count("-") > 1):
            return (max(made, key=len),)
        hint = did_you_mean(name, frozenset(self.entries) | self.groups | self._numbered("agent"))
        raise UsageError(f"there is no agent, entry or group {name[:80]!r} in this file", hint=hint)

    def states_of(self, group: str, wanted: frozenset[str]) -> frozenset[str]:
        """Return the state variables that all agents of a group have.

        Of kinds whose state the file does not say, these are all names that are `wanted`.
        """
        members = [entry for entry, groups in self.groups_of.items() if group in groups]
        states = [self.states[entry] if self.kinds[entry] == "policy" else wanted for entry in members]
        return frozenset.intersection(*states) if states else wanted  # no such group: another check reports it

    def require_state(self, name: str, variable: str) -> None:
        """Check that agents have a state variable, if the file says all that they have: those that follow rules.

        Args:
            name: an agent, an entry or a group.
            variable: the name of the variable.

        Raises:
            UsageError: if none of them has it, with the nearest one as hint.
        """
        try:
            entries = self.entries_of(name)
        except UsageError:  # it is not known before the run, or reported elsewhere
            return
        if any(self.kinds.get(entry) != "policy" for entry in entries):
            return
        declared = frozenset[str]().union(*(self.states[entry] for entry in entries))
        if variable not in declared:
            hint = did_you_mean(variable, declared) or "declare it in `state` of the agents"
            raise UsageError(f"agents of {name[:80]!r} have no state variable {variable[:80]!r}", hint=hint)

    def _require_tool(self, name: str) -> None:
        """Check the name of a tool with a module: an action, or a tool that the file or a program adds."""
        module, _, rest = name.partition(".")
        if module == "world" and rest not in DEFINED:
            raise UsageError(f"there is no action {rest[:80]!r} to offer as a tool", hint=did_you_mean(rest, DEFINED))
        of_module = [tool for tool in self.functions if tool.partition(".")[0] == module]
        if of_module and name not in of_module:
            raise UsageError(f"there is no tool {name[:80]!r} in tools", hint=did_you_mean(name, of_module))

    @_table.default
    def _make_table(self) -> dict[Kind, frozenset[str] | None]:
        single = frozenset(name for name, count in self.entries.items() if count == 1 and name not in self.named)
        single |= frozenset[str]().union(*self.named.values())
        return {
            "agent": single,
            "entry": frozenset(self.entries),
            "group": self.groups,
            "recipient": self.groups | single,
            "account": self.accounts | single,
            "artifact": self.artifacts,
            "pool": frozenset(self.pools),
            "slots": self._pools("slots"),
            "stock": self._pools("stock"),
            "limit": self.limits,
            "metric": self.metrics,
            "budget": self.budgets,
            "resource": self.limits | self.budgets | self.quotas,
            "place": self.places,
            "record": self.records,
            "tier": self.tiers,
            "tool": self.tools,
            "variable": self.variables,
        }

    def _pools(self, kind: Kind) -> frozenset[str]:
        return frozenset(name for name, what in self.pools.items() if what in _POOL_KINDS[kind])

    def _numbered(self, kind: Kind) -> frozenset[str]:
        """Return the first agent of each entry that has several, for hints."""
        if kind not in ("agent", "recipient", "account"):
            return frozenset()
        return frozenset(f"{name}-1" for name, count in self.entries.items() if count > 1 and name not in self.named)

    def is_agent(self, name: str) -> bool:
        """Return whether an agent of this name exists, or can be spawned."""
        if any(name in names for names in self.named.values()):
            return True
        if self.entries.get(name) == 1 and name not in self.named:
            return True
        base, _, number = name.rpartition("-")
        count = self.entries.get(base)
        if count is None or not number.isdecimal() or number.startswith("0"):
            return False
        return self.spawned or (
            base not in self.named and count > 1 and len(number) <= MOST_DIGITS and int(number) <= count
        )


def collect(
    tree: Any, places: Collection[str] | None = None, populations: Mapping[str, Population] = MappingProxyType({})
) -> Symbols:
    """Return the names that the tree of a scenario file declares.

    Args:
        tree: the tree.
        places: the names of places of a graph that the file refers to.
        populations: by entry, the agents that its table describes.
    """
    agents = [entry for entry in items(tree, "agents") if isinstance(entry.get("name"), str)]
    actions = list(_actions(agents))
    pools = mapping(tree, "pools")
    foreign = any(entry.get("kind", "policy") != "policy" for entry in agents)
    return Symbols(
        entries={str(entry["name"]): _count(entry, populations) for entry in agents},
        states={str(entry["name"]): _states(entry, populations) for entry in agents},
        groups_of={str(entry["name"]): _groups(entry, populations) for entry in agents},
        kinds={str(entry["name"]): str(entry.get("kind", "policy")) for entry in agents},
        spawned=foreign or any(kind == "spawn" for kind, _ in actions),
        groups=frozenset[str]().union(*(_groups(entry, populations) for entry in agents)),
        accounts=frozenset(mapping(tree, "accounts")),
        artifacts=None if foreign else _artifacts(tree, actions),
        pools={name: str(mapping(pools, name).get("kind")) for name in pools},
        limits=frozenset(mapping(tree, "limits")),
        budgets=frozenset(mapping(tree, "budgets")),
        quotas=frozenset(mapping(tree, "quotas")),
        places=_places(mapping(tree, "places")) if places is None else frozenset(places),
        records=None
        if foreign
        else frozenset(key for entry in agents for rule in items(entry, "rules") for key in mapping(rule, "record")),
        metrics=frozenset(mapping(mapping(tree, "metrics"), "values")),
        tiers=frozenset(mapping(mapping(tree, "models"), "tiers")),
        tools=frozenset(mapping(mapping(tree, "models"), "tools")),
        functions=frozenset(_tools(mapping(tree, "tools"))),
        calendar=bool(mapping(tree, "calendar")),
        stock=bool(mapping(mapping(tree, "places"), "stock")),
        grid="grid" in mapping(tree, "places"),
        variables=frozenset(mapping(mapping(tree, "places"), "variables")),
        named={name: frozenset(population.known_names) for name, population in populations.items()},
    )


def mapping(tree: Any, key: str) -> dict[str, Json]:
    """Return the mapping below a key, empty if there is none."""
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, dict) else {}


def items(tree: Any, key: str) -> list[dict[str, Json]]:
    """Return the mappings in the list below a key, empty if there is none."""
    value = tree.get(key) if isinstance(tree, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _tools(section: dict[str, Json]) -> Iterator[str]:
    """Yield the names of the tools that the section `tools` adds."""
    yield from mapping(section, "functions")
    yield from mapping(section, "commands")
    servers = mapping(section, "servers")
    for server in servers:
        yield from (f"{server}.{name}" for name in mapping(mapping(servers, server), "tools"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(entry: dict[str, Any], populations: Mapping[str, Population]) -> int:
    if entry["name"] in populations:
        return populations[entry["name"]].size
    count = entry.get("count", 1)
    return count if isinstance(count, int) else 1


def _states(entry: dict[str, Any], populations: Mapping[str, Population]) -> frozenset[str]:
    population = populations.get(entry["name"])
    return frozenset((*mapping(entry, "state"), *(population.states if population is not None else ())))


def _groups(entry: dict[str, Any], populations: Mapping[str, Population]) -> frozenset[str]:
    """Return the groups of the agents of an entry: its own, and those of the rows of its table."""
    population = populations.get(entry["name"])
    own = _text(entry.get("group")) or entry["name"]
    if population is None:
        return frozenset((own,))
    return population.groups | {own}


def _actions(agents: list[dict[str, Json]]) -> Iterator[tuple[str, dict[str, Json]]]:
    for entry in agents:
        for rule in items(entry, "rules"):
            for kind, arguments in actions_of(rule):
                yield kind, arguments if isinstance(arguments, dict) else {}


def actions_of(rule: dict[str, Json]) -> Iterator[tuple[str, Any]]:
    """Yield the kind and the arguments of each action of a rule."""
    do = rule.get("do")
    for action in do if isinstance(do, list) else [do]:
        if isinstance(action, dict):
            yield from action.items()
        elif isinstance(action, str):
            yield action, None


def sleep_topics(condition: JsonObject) -> Iterator[Any]:
    """Yield the patterns of topics of a sleep, and of the conditions in it; None for one without."""
    yield condition.get("event")
    for key in ("any", "all"):
        parts = condition.get(key)
        for part in parts if isinstance(parts, list) else []:
            if isinstance(part, dict):
                yield from sleep_topics(part)


def _artifacts(tree: Any, actions: list[tuple[str, dict[str, Json]]]) -> frozenset[str] | None:
    """Return the artifacts that are declared or created; None if a rule evaluates the name of one."""
    names = {str(artifact.get("id")) for artifact in items(tree, "artifacts")}
    for kind, arguments in actions:
        handler = DEFINED.get(kind)
        for argument in () if handler is None else handler.creates:
            name = arguments.get(argument)
            if isinstance(name, str) and name.startswith("="):
                return None
            names.add(str(name))
    return frozenset(names)


def _places(places: dict[str, Json]) -> frozenset[str] | None:
    """Return the names of the places; None for a graph whose nodes are not in the file."""
    if "graph" in places or "file" in places:
        return None
    grid = places.get("grid")
    if isinstance(grid, list) and len(grid) == 2 and all(type(side) is int and 0 < side <= 1000 for side in grid):
        return frozenset(f"{x},{y}" for x in range(grid[0]) for y in range(grid[1]))
    nodes = places.get("nodes")
    return frozenset(str(node) for node in nodes) if isinstance(nodes, list) else frozenset()
