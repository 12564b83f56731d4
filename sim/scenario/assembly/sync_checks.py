"""Checks of a scenario with `execution.sync`: what agents share, and what synchronised rounds exclude."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sim.actors import Agent
from sim.agents import PolicyAgent
from sim.base.errors import UsageError
from sim.base.expressions import functions_at
from sim.scenario import schema
from sim.scenario.scopes import NAMES_OF_RULES
from sim.world import Sharing
from sim.world.action import DEFINED

if TYPE_CHECKING:
    from sim.llm.access import Access
    from sim.scenario.models import Models

_LOCAL_FUNCTIONS = frozenset(
    name for name, function in functions_at("any", "agent").items() if function.senses != "shared"
)
_LOCAL_NAMES = frozenset(name for name, (senses, _) in NAMES_OF_RULES.items() if senses != "shared")


def reach_of(entry: schema.Agent, models: "Models | None") -> Sharing:
    """Return the reach of the rules of an entry: `space` if they use only data of the agent and what it sees in space.

    The same must hold for scripted answers that the agents may get.
    """
    used = {do.kind for rule in entry.rules for do in rule.do}
    local = {kind for kind in used if DEFINED[kind].scope != "shared"}
    if _shared_by_answers(entry, models) is not None:
        local.discard("ask")
    if entry.subscribe or used - local:
        return "shared"
    for rule in entry.rules:
        arguments = (value for do in rule.do for value in do.arguments.values())
        values = (*arguments, *rule.set.values(), *rule.record.values(), *rule.let.values())
        for expression in (rule.when, *(expression for value in values for expression in value.expressions)):
            if not (
                expression.functions <= _LOCAL_FUNCTIONS
                and expression.names <= _LOCAL_NAMES | {*entry.state, *rule.let}
            ):
                return "shared"
    return "space"


def _shared_by_answers(entry: schema.Agent, models: "Models | None") -> tuple[str, str] | None:
    """Return a scripted rule for agents of an entry that depends on shared data, and the function that it calls."""
    for number, rule in enumerate(() if models is None else models.rules):
        # A-2 belongs to the entry a.
        named = {name for asker in rule.agent or () for name in (asker, asker.rpartition("-")[0])}
        if named.isdisjoint((entry.name, entry.group_name)) and rule.agent:
            continue
        for function in sorted(rule.functions - _LOCAL_FUNCTIONS):
            return f"models.rules[{number}]", function
    return None


def check_sync(scenario: schema.Scenario, classes: Mapping[str, type[Agent]], access: "Access | None") -> None:
    """Refuse a scenario whose agents could depend on how fast they are served, or share data without declaring it.

    Args:
        scenario: a checked scenario with `execution.sync`.
        classes: the classes of its agents, by entry.
        access: the models of the operator; None: those of the scenario.

    Raises:
        UsageError: naming the part that is excluded, and why.
    """
    sync = scenario.execution.sync
    for key, why in _against(scenario, access):
        raise UsageError(f"execution.sync: {sync} excludes {key}: {why}")
    if sync == "barrier" or sync == "sequential":
        return
    for entry in scenario.agents:
        kind, answers = classes[entry.name], _shared_by_answers(entry, scenario.models)
        if kind is PolicyAgent or kind.reach == "shared":
            continue
        if kind.reach is None:
            raise UsageError(
                f"execution.sync: {sync} cannot be used with {kind.__name__}, which does not declare its reach",
                hint="give the class an attribute `reach`: 'own', 'space' or 'shared'",
            )
        if answers is not None:
            rule, function = answers
            raise UsageError(
                f"execution.sync: {sync} cannot be used with {kind.__name__}, which declares the reach "
                f"{kind.reach!r}, together with {rule}, whose answers depend on shared data ({function}())",
                hint="give the class reach = 'shared', or let answers depend only on the request and the agent",
            )


def _against(scenario: schema.Scenario, access: "Access | None") -> list[tuple[str, str]]:
    """Return the parts that exclude synchronised rounds, each with the reason."""
    execution = scenario.execution
    shuffled = execution.ties == "shuffled" or execution.tick.order == "shuffled"
    whole = (
        (execution.clock == "wall", "execution.clock: wall", "world time and service time are separate axes"),
        (execution.health is not None, "execution.health", "agents that are served slowly are not silent"),
        (shuffled, "a shuffled order", "one order is drawn for all agents of an instant"),
        (bool(execution.tick.groups), "execution.tick.groups", "agents are at different times, so no group is first"),
        (
            scenario.places is not None and bool(scenario.places.variables),
            "places.variables",
            "agents at different times would see different values",
        ),
        (bool(scenario.interventions), "interventions", "agents are at different times, so they have no single moment"),
    )
    exclusions = [(key, why) for excluded, key, why in whole if excluded]
    for name, limit in scenario.limits.items():
        if limit.group is not None or limit.global_ is not None:
            exclusions.append((f"limits.{name}", "with a shared limit, actions depend on which agent came first"))
        elif limit.agent is not None and limit.agent.window == 0:
            exclusions.append((f"limits.{name}", "a limit per tick is reset for all agents at once"))
    for entry in scenario.agents:
        if entry.template:
            exclusions.append((f"agents.{entry.name}.template", "rounds cannot wait for agents that are created later"))
        if any(len(rule.do) > 1 for rule in entry.rules):
            exclusions.append(
                (f"several actions in a rule of {entry.name}", "only the first one could wait for its turn")
            )
        if any(do.kind == "spawn" for rule in entry.rules for do in rule.do):
            exclusions.append(
                (f"spawn in the rules of {entry.name}", "rounds cannot wait for agents that are created later")
            )
        if any(rate.window == 0 for rate in entry.limits.values()):
            exclusions.append((f"agents.{entry.name}.limits", "a limit per tick is reset for all agents at once"))
    return exclusions + _against_models(scenario, access)


def _against_models(scenario: schema.Scenario, access: "Access | None") -> list[tuple[str, str]]:
    models, exclusions = scenario.models, []
    if models is None:
        return []
    from sim.llm.access import INSIDE  # the import is slow

    chains = {} if access is None else access.chains()
    if any(provider not in INSIDE for chain in chains.values() for provider, _ in chain):
        exclusions.append(("--model", "answers of an endpoint take real time, not service time"))
    if models.ceiling is not None:
        exclusions.append(("models.ceiling", "whether a call can be paid would depend on which agent was served first"))
    scripted = [reply for number, rule in enumerate(models.rules) for reply in rule.made(number).replies]
    if models.faults or models.simulated.failures or any(reply.fail for reply in scripted):
        exclusions.append(("models that fail", "retries and breakers are shared by all agents"))
    server = models.simulated.server
    if server is not None:
        limits = [
            name for name in ("queue", "requests_per_minute", "tokens_per_minute") if getattr(server, name) is not None
        ]
        why = "whether a call is accepted would depend on which agent came first"
        exclusions.extend((f"models.simulated.server.{name}", why) for name in limits)
    return exclusions
