"""Families: the kinds of agents that an entry of a scenario can name.

A package defines a family with `define_family`. A package outside this one is found by its entry point in the group
`sim.agents`, which leads to a family or to a class of agents, and is imported only if the operator allows it by name;
see `sim.agents.packages`. A module that is not installed can be named in the scenario, as `module:NAME` of a family or
of a class of agents, and is allowed by its name as well.
"""

import re
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, Final

import attrs

from sim.actors import Agent
from sim.agents.packages import AGENTS, Offer, is_allowed, is_module_allowed, offers
from sim.agents.toolbox import Toolbox
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.permissions import Permission
from sim.base.registry import Registry
from sim.base.text import of_error
from sim.base.words import KINDS
from sim.kernel.codec import JsonObject
from sim.record.views import add_views
from sim.tools import Tool, Tools
from sim.world import ActionHandler, Sharing, World
from sim.world.section import check_params, check_settings


@attrs.frozen
class WorldPlan:
    """The world that is being built, for a family that adds something to it before the first agent exists.

    Args:
        world: the world, with everything but agents.
        scenario: the checked scenario.
        until_ns: the end of the run in simulated nanoseconds.
        toolbox: the functions of rules.
        agent: the class of the agents to be made: that of the family, or one that inherits from it.
    """

    world: World
    scenario: Any
    until_ns: int
    toolbox: Toolbox
    agent: Any = None


@attrs.frozen
class AgentPlan:
    """An agent that is about to be created.

    Args:
        name: its name.
        world: its world.
        index: zero-based index within the agents of its entry.
        group: its group.
        permission: its level of trust.
        settings: the settings of its entry, an instance of the family's class of settings; None if it has none.
        subscribe: the topic patterns of its entry.
        reach: which data its rules use; see `Agent.reach`.
        rule_set: the rules of its entry.
        params: its params, an instance of the class `Params` of its class; None if there is none.
    """

    name: str
    world: World
    index: int
    group: str
    permission: Permission
    settings: Any
    subscribe: tuple[str, ...]
    reach: Sharing
    rule_set: Any
    params: Any = None


Make = Callable[[AgentPlan], Agent]


@attrs.frozen
class Family:
    """One kind of agents.

    Args:
        kind: the name that an entry of a scenario gives as `kind`.
        agent: the class of its agents.
        settings: the class of the settings that an entry gives as `settings`; None: there are none. See
            `sim.world.section`.
        prepare: called once for each world that has such an entry. It adds what the agents share (services, tools), and
            returns the function that creates one agent. By default, or if it returns None, an agent is created by its
            class, with its name, its world, `group`, `permission` and, if the family has settings, `settings`.
        check: called with each scenario that has been checked, also one without such agents, and the end of the run in
            nanoseconds (None: that of the scenario); raises `UsageError` if the scenario does not fit.
        actions: kinds of action that only worlds with such agents have.
        tools: tools that only worlds with such agents have.
        views: SQL views of a run file by name; see `sim.record.views`. Run files have them from `define_family` on.
        needs: the sections that a scenario with such agents needs, each with what for, as in `{"memory": "remembers"}`;
            `models` and `places` can be among them.
        fits: called with the scenario, an entry of such agents and their params by name: before the run, with those
            that the file gives as they are, and with those of each agent if some are computed. It raises `UsageError`
            if they name what the scenario does not have.
        position: whether its agents bring their own position in space; see `Agent.home`.
        base: the kind that it is like, if it was made for a class that inherits from the class of that kind.
        draws: what its agents draw at random, one phrase each, beside what their rules and models draw; None: not said,
            so it is not known.
    """

    kind: str
    agent: type[Agent]
    settings: type | None = None
    prepare: Callable[[WorldPlan], Make | None] | None = None
    check: Callable[[Any, int | None], object] | None = None
    actions: tuple[ActionHandler, ...] = ()
    tools: tuple[Tool, ...] = ()
    views: Mapping[str, str] = attrs.field(factory=dict)
    needs: Mapping[str, str] = attrs.field(factory=dict)
    fits: Callable[[Any, Any, JsonObject], object] | None = None
    position: bool = False
    base: str | None = None
    draws: tuple[str, ...] | None = None

    def begin(self, plan: WorldPlan) -> Make:
        """Add to a world what the family needs, and return the function that creates one agent."""
        tools = Tools.on(plan.world)
        plan.world.actions.add(*self.actions)
        tools.add(*(tool for tool in self.tools if tools.by_name.get(tool.name) is not tool))
        if "memories" in plan.world.services:
            from sim.memory.service import Memories  # the import is slow

            Memories.of(plan.world).add_kinds(self.agent.memory_kinds)
        made = None if self.prepare is None else self.prepare(attrs.evolve(plan, agent=self.agent))
        return made or self._create

    def _create(self, plan: AgentPlan) -> Agent:
        options = {} if self.settings is None else {"settings": plan.settings}
        options |= {} if plan.params is None else {"params": plan.params}
        try:
            return self.agent(plan.name, plan.world, group=plan.group, permission=plan.permission, **options)
        except TypeError as error:
            raise UsageError(
                f"the class {self.agent.__name__} cannot be instantiated: {error}",
                hint="it needs decide_action, and an __init__ with the arguments of sim.Agent's"
                + "".join(f" and {name}" for name in options),
            ) from error


def has_ability(entry: Any, ability: str) -> bool:
    """Return whether the agents of a scenario entry can do something; see `Agent.abilities`."""
    family = family_for(entry)
    return family is not None and ability in family.agent.abilities


def is_kind(entry: Any, kind: str) -> bool:
    """Return whether the agents of a scenario entry are of a kind of `sim`, or of a class that inherits from it."""
    family = family_for(entry)
    return family is not None and kind in (family.kind, family.base)


def family_for(entry: Any) -> Family | None:
    """Return the family of a scenario entry: that of the class of a host program, or of its kind; None: not known."""
    host: Family | None = entry.host_family
    return host or FAMILIES.get(entry.kind)


FAMILIES: Final[Registry[Family]] = Registry("kinds", KINDS)
"""All families by kind; those that scenarios named as `module:NAME`, by that."""


def define_family(family: Family) -> Family:
    """Add a family.

    Raises:
        UsageError: if the kind exists already or is not a name, the settings lack a description or have a type that a
            file cannot give, or a view is not valid.
    """
    free = FAMILIES.is_free(family.kind, family.agent.__module__)
    if not free and FAMILIES.get(family.kind) != family:
        raise UsageError(f"the kind of agents {family.kind!r} is already defined")
    if not _KIND.fullmatch(family.kind):
        raise UsageError(f"{family.kind[:80]!r} cannot be a kind of agents", hint="use letters, digits, `_` and `.`")
    return _add(family.kind, family)


def _add(kind: str, family: Family) -> Family:
    """Make a family known under a kind."""
    if family.settings is not None:
        check_settings(family.settings)
    if family.agent.Params is not None:
        check_params(family.agent.Params, family.agent.__name__)
    add_views(family.views)
    FAMILIES[kind] = family
    return family


_KIND: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")

_PACKAGES: Final[dict[str, tuple[str, Family]]] = {}
"""By kind that was imported from a package: the package and the family."""


def family_of(kind: str, kinds: Collection[str]) -> Family:
    """Return the family of a kind.

    Args:
        kind: the kind.
        kinds: all kinds that this run has, for the error.

    Raises:
        UsageError: if there is none; the hint names the nearest one, or says how to allow a package.
    """
    family = FAMILIES.get(kind)
    if family is not None:
        return family
    offered = offers(AGENTS)
    for offer in offered:
        if offer.name == kind:
            offer.load(())  # it is not allowed: else the family would be known
    hint = did_you_mean(kind, sorted({*kinds, *(offer.name for offer in offered)})) or (
        "a host program gives classes with sim.run(..., kinds={...}); on the command line write module:NAME"
    )
    raise UsageError(f"there is no kind of agent {kind!r}; known: {', '.join(kinds)}", hint=hint)


def named_family(kind: str, allow: Collection[str]) -> Family:
    """Return the family that a kind such as `module:NAME` names: a `Family`, or one for a class of agents.

    Args:
        kind: the kind.
        allow: the modules and packages that may be imported.

    Raises:
        UsageError: if the module is not allowed or cannot be imported, or has nothing of this name that fits.
    """
    module, _, name = kind.partition(":")
    if not is_module_allowed(module, allow):
        raise UsageError(f"{kind!r} names a module, which is not allowed", hint=f"allow it: --allow {module}")
    try:
        member = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # the imported code may raise anything
        what = str(error) if isinstance(error, ImportError | AttributeError) else of_error(error)
        raise UsageError(f"{kind!r} cannot be imported: {what}") from error
    if isinstance(member, Family):
        return _add(kind, member)
    if isinstance(member, type) and issubclass(member, Agent):
        family = class_family(kind, member)
        return family if member.Params is None and family.settings is None else _add(kind, family)
    raise UsageError(f"{kind!r} is not a subclass of sim.Agent, nor a family")


def class_family(kind: str, agent: type[Agent]) -> Family:
    """Return the family of a class of agents. It has what the family of the nearest class above it has.

    Args:
        kind: the name that an entry gives as `kind`.
        agent: the class.
    """
    for one in agent.__mro__[1:]:  # a class can be imported without what makes it a kind
        FAMILIES.import_beside(one.__module__)
    above = {family.agent: family for family in reversed(FAMILIES.imported().values())}
    inherited = next((above[one] for one in agent.__mro__[1:] if one in above), None)
    if inherited is None:
        return Family(kind, agent)
    return attrs.evolve(inherited, kind=kind, agent=agent, views={}, base=inherited.base or inherited.kind, draws=None)


def allow_families(names: Collection[str]) -> None:
    """Import the kinds of agents that the packages with these names offer.

    Names of modules, for `kind: module:NAME`, are left alone.

    Raises:
        UsageError: if such a package cannot be imported, defines no family of the name, or its kind has the name of
            another one.
    """
    for offer in offers(AGENTS) if names else ():
        if is_allowed(offer.package, names):
            imported = _PACKAGES.get(offer.name)
            if imported is None or imported[0] != offer.package or FAMILIES.get(offer.name) is not imported[1]:
                _PACKAGES[offer.name] = (offer.package, _define_offered(offer, names))


def _define_offered(offer: Offer, allow: Collection[str]) -> Family:
    """Import and define a kind of agents that a package offers."""
    before = FAMILIES.get(offer.name)
    defined = offer.load(allow)
    if isinstance(defined, type) and issubclass(defined, Agent):
        same = before is not None and before.agent is defined
        defined = before if same else class_family(offer.name, defined)
    if not isinstance(defined, Family) or defined.kind != offer.name:
        raise UsageError(
            f"the entry point {offer.name!r} in {AGENTS} of the package {offer.package} leads to no class of agents,"
            " and to no family of this kind"
        )
    try:
        return define_family(defined)
    except UsageError as error:
        raise UsageError(f"the package {offer.package} cannot be used: {error}", hint=error.hint) from None
