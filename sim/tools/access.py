"""Access: who may call which tool.

A call is allowed if everyone on whose behalf it is made may make it: the agent, and the chain of those for whom it
works, and of those in turn. So an agent of a low level gains nothing by asking one of a high level. Levels and modules
come from records of the runtime, never from text. What is not known is denied.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Self

import attrs

from sim.base.permissions import Permission
from sim.kernel.codec import Json, JsonObject
from sim.tools.tool import Tool, required_of
from sim.world import Inhabitant, Service, World
from sim.world.section import Level, define_section, draws_nothing


@attrs.frozen
class Grants:
    """What the agents of one entry, group or kind may use.

    Args:
        modules: the modules whose tools they may call; null: all.
    """

    modules: tuple[str, ...] | None = None


@attrs.frozen
class AccessRule:
    """One row of the access matrix: agents × tools × operations. An omitted list matches everything.

    Args:
        allow: whether matching calls are allowed.
        agents: names of agents, entries, groups, kinds or users.
        tools: names of tools; `*` stands for any text.
        operations: operations of the tool.
        level: the lowest level that the rule is for; calls of lower levels do not match.
    """

    allow: bool
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    level: Level = Permission.GUEST

    def matches(self, names: tuple[str, ...], level: Permission, tool: str, operation: str) -> bool:
        """Return whether the rule is about a call."""
        return (
            level >= self.level
            and (not self.agents or any(name in self.agents for name in names))
            and (not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools))
            and (not self.operations or operation in self.operations)
        )


@attrs.frozen
class AccessSettings:
    """Who may call which tool. The first rule that matches a call decides.

    Args:
        modules: what agents may use, by agent, entry, group or kind.
        rules: the access matrix.
        otherwise: whether calls that no rule matches are allowed; their level must suffice in any case.
    """

    modules: Mapping[str, Grants] = attrs.field(factory=dict)
    rules: tuple[AccessRule, ...] = ()
    otherwise: bool = False


@attrs.frozen
class AccessUser:
    """A person for whom agents work, without an agent of their own.

    Args:
        permission: the level of trust.
        modules: the modules whose tools may be called for them; None: all.
    """

    permission: Permission
    modules: tuple[str, ...] | None = None


_OPEN: Final = AccessSettings(otherwise=True)


class ToolAccess(Service):
    """The rules of access of one world.

    Args:
        world: the world.
        settings: the rules; by default only levels count.

    Attributes:
        users: people for whom agents work, by name. Only the runtime adds them.
        chains: for an agent that was created for others: their names, the nearest first.
        denied: how many calls were denied.
    """

    name = "access"

    def __init__(self, world: World, settings: AccessSettings = _OPEN) -> None:
        self.settings = settings
        self.users: dict[str, AccessUser] = {}
        self.chains: dict[str, tuple[str, ...]] = {}
        self.denied = 0
        self._world = world
        self._spawners: dict[str, Inhabitant] = {}  # who spawned agents; some may have left the world since

    @classmethod
    def on(cls, world: World) -> Self:
        """Return the access rules of a world; without a section, only levels count."""
        if cls.name not in world.services:
            world.add_service(cls(world))
        return cls.of(world)

    def state(self) -> Any:
        """Return the users, for the final digest; None if there are none. Chains follow from who spawned whom."""
        users = {name: [user.permission.name.lower(), user.modules] for name, user in sorted(self.users.items())}
        return users or None

    def metrics(self) -> Mapping[str, float]:
        """Return how many calls were denied."""
        return {"denied": self.denied}

    def spawned(self, agent_id: str, parent: str) -> None:
        """Note that an agent spawned another one, which from now on works for it, even after it has left the world."""
        self._spawners[parent] = self._world.agents[parent]
        self.chains[agent_id] = (parent, *self.chains.get(agent_id, ()))

    def refusal(self, agent: Inhabitant, tool: Tool, arguments: JsonObject, behalf: tuple[str, ...] = ()) -> str | None:
        """Return why a call is not allowed, or None if it is.

        Args:
            agent: the agent that calls.
            tool: the tool.
            arguments: the arguments of the call.
            behalf: further names of agents and users on whose behalf the agent calls. They can only lower its rights.
        """
        operation = tool.operation_of(arguments)
        if operation is None:
            return f"{tool.name}: {tool.operation} must be a text"
        denials = (self._denial(name, tool, operation) for name in self._chain(agent, behalf))
        return next((why for why in denials if why is not None), None)

    def may_see(self, agent: Inhabitant, tool: Tool, behalf: tuple[str, ...] = ()) -> bool:
        """Return whether a tool is offered: at least one of its operations may be allowed. See `refusal`."""
        return self.unseen(agent, tool, behalf) is None

    def unseen(self, agent: Inhabitant, tool: Tool, behalf: tuple[str, ...] = ()) -> str | None:
        """Return why a tool is not offered, or None if it may be. See `may_see`."""
        if tool.operation is None:
            return self.refusal(agent, tool, {}, behalf)
        stated = tool.operation_schema.get("enum")
        # without stated operations, those that rules name, and any other one
        words: Sequence[Json] = ("", *(word for rule in self.settings.rules for word in rule.operations))
        words = stated if isinstance(stated, list | tuple) and stated else words
        calls: list[JsonObject] = [{tool.operation: word} for word in words]
        if tool.operation not in required_of(tool.parameters):
            calls.append({})
        refusals = [self.refusal(agent, tool, call, behalf) for call in calls]
        return refusals[0] if all(refusals) else None

    def level(self, agent: Inhabitant, behalf: tuple[str, ...] = ()) -> Permission:
        """Return the lowest level along the chain of an agent; that of a guest if someone is not known."""
        return min(self._permission(name) or Permission.GUEST for name in self._chain(agent, behalf))

    def _chain(self, agent: Inhabitant, behalf: tuple[str, ...]) -> Iterator[str]:
        """Yield the agent and all on whose behalf it calls, those for whom these work included; each once."""
        waiting, seen = [agent.agent_id, *behalf], set[str]()
        for name in waiting:
            if name not in seen:
                seen.add(name)
                yield name
                waiting += self.chains.get(name, ())

    def _denial(self, name: str, tool: Tool, operation: str) -> str | None:
        """Return why one member of a chain may not make a call."""
        level = self._permission(name)
        if level is None:
            return f"{tool.name} cannot be called for {name!r:.60}, which is no known agent or user"
        if level < tool.permission:
            return f"{tool.name} needs the permission {tool.permission.name.lower()}, which {name} does not have"
        names = self._names(name)
        if not self._may_use(name, names, tool.module):
            return f"{name} may not use the module {tool.module}"
        rule = next((rule for rule in self.settings.rules if rule.matches(names, level, tool.name, operation)), None)
        if rule.allow if rule is not None else self.settings.otherwise:
            return None
        return f"{name} may not call {tool.name}{f' with the operation {operation!r:.40}' if operation else ''}"

    def _permission(self, name: str) -> Permission | None:
        """Return the level of an agent or user, the lower one if both have the name; None if neither exists."""
        identities = (self._agent(name), self.users.get(name))
        return min((one.permission for one in identities if one is not None), default=None)

    def _agent(self, name: str) -> Inhabitant | None:
        return self._world.agents.get(name) or self._spawners.get(name)

    def _names(self, name: str) -> tuple[str, ...]:
        """Return the names under which rules know an agent: its own, its entry, its group and its kind."""
        agent: Any = self._agent(name)
        if agent is None:
            return (name,)
        return tuple(n for n in (name, getattr(agent, "entry", None), agent.group, getattr(agent, "kind", None)) if n)

    def _may_use(self, name: str, names: tuple[str, ...], module: str) -> bool:
        """Return whether someone may use a module: as a user, and by the first entry of the settings about it."""
        user, modules = self.users.get(name), self.settings.modules
        grants = next((modules[key] for key in names if key in modules), None)
        return all(one is None or one.modules is None or module in one.modules for one in (user, grants))


def _make(world: World, settings: AccessSettings) -> None:
    world.add_service(ToolAccess(world, settings))


define_section("access", AccessSettings, _make, draws=draws_nothing)
