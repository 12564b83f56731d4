"""The kinds of the agents of a scenario: which classes they are, and whether the scenario fits them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sim.agents import FAMILIES, Family
from sim.agents.family import class_family, family_for, family_of, named_family
from sim.agents.tool_check import known_tools
from sim.base.errors import UsageError
from sim.scenario import schema
from sim.scenario.params import ParamsTemplate, default_params
from sim.tools.rights import Kinds
from sim.world.action import DEFINED
from sim.world.section import SECTIONS


def check_kinds(scenario: schema.Scenario, allow: tuple[str, ...], kinds: Kinds | None = None) -> None:
    """Check before a run that all kinds of agents exist and are allowed.

    Args:
        scenario: the scenario.
        allow: installed packages, and modules, whose code it may use.
        kinds: classes that the host program gives.

    Raises:
        UsageError: if one is not, as `build` raises it.
    """
    families_of(scenario, kinds or {}, allow)


def families_of(scenario: schema.Scenario, kinds: Kinds, allow: tuple[str, ...]) -> dict[str, Family]:
    """Return the families of all entries by their names; entries of one kind have the same.

    Raises:
        UsageError: if a kind is not known, or its code is not allowed, or if settings or params do not fit.
    """
    by_kind: dict[str, Family] = {}
    families: dict[str, Family] = {}
    for entry in scenario.agents:
        if entry.kind not in by_kind:
            by_kind[entry.kind] = family_named_by(entry, kinds, allow)
        families[entry.name] = by_kind[entry.kind]
        _check_entry(entry, families[entry.name])
    return families


def family_named_by(entry: schema.Agent, kinds: Kinds, allow: tuple[str, ...]) -> Family:
    """Return the family of an entry; one is made for a class that the host program gives, or that `kind` names.

    Raises:
        UsageError: if the kind is not known, or its code is not allowed.
    """
    kind = entry.kind
    try:
        if kind in kinds:
            return class_family(kind, kinds[kind])
        return named_family(kind, allow) if ":" in kind else family_of(kind, (*FAMILIES, *kinds))
    except UsageError as error:
        raise UsageError(f"agents.{entry.name}.kind: {error}", hint=error.hint) from None


def _check_entry(entry: schema.Agent, family: Family) -> None:
    """Refuse settings and params that do not fit the family of an entry."""
    kind = entry.kind
    if family.settings is None and entry.settings is not None:
        raise entry.problem("settings", f"agents of the kind {kind} have no settings", None)
    if family.settings is not None and not isinstance(entry.settings, family.settings):
        raise entry.problem(
            "settings",
            f"the kind {kind} was not known when the scenario was loaded",
            "give `allow` to sim.load, or the path of the file to sim.run",
        )
    declared, params = family.agent.Params, entry.params
    if declared is None and params is not None:
        raise entry.problem("params", f"agents of the kind {kind} have no params", None)
    if params is not None and not (isinstance(params, ParamsTemplate) and params.declared is declared):
        raise entry.problem(
            "params",
            f"the kind {kind} was not known when the scenario was loaded",
            "give `kinds` or `allow` to sim.load, or the path of the file to sim.run",
        )


def check_families(scenario: schema.Scenario, until_ns: int | None = None) -> None:
    """Check that a scenario fits the kinds of its agents.

    Args:
        scenario: a checked scenario.
        until_ns: the end of the run in simulated nanoseconds, if it is not the scenario's `until`.

    Raises:
        UsageError: as the check of a family raises it, if agents need a section that there is not, or if a rule of
            access or of approvals fits no tool.
    """
    for entry in scenario.agents:
        _check_needs(scenario, entry)
    for family in _to_check(scenario):
        if family.check is not None:
            try:
                family.check(scenario, until_ns)
            except UsageError as error:
                raise scenario.located(error) from None
    tools = known_tools(scenario)
    if tools is not None:
        check_patterns_of(scenario, tools, DEFINED)


_EXAMPLES: Final = {"models": "{}", "places": "{nodes: [home]}"}
"""What is enough of the parts of a scenario that a kind can need and that are no `SECTIONS`; see `Section.example`."""


def _check_needs(scenario: schema.Scenario, entry: schema.Agent) -> None:
    """Refuse an entry whose agents need a section that there is not, or whose params name what there is not."""
    family = family_for(entry)
    if family is None:
        return
    for key, why in family.needs.items():
        section = SECTIONS.get(key)
        named = section is not None and section.by_name  # one without an entry adds nothing
        there = bool(scenario.sections.get(key)) if named else key in scenario.sections
        if not there and getattr(scenario, key, None) is None:
            example = _EXAMPLES.get(key, "...") if section is None else section.example
            hint = f"add `{key}: {example}`"
            raise scenario.located(UsageError(f"agents.{entry.name} {why}, which needs `{key}`", hint=hint))
    if family.fits is not None and family.agent.Params is not None:
        params = default_params(family.agent.Params) if entry.params is None else entry.params
        check_fit(scenario, entry, family, params.shared_values)


def check_fit(scenario: schema.Scenario, entry: schema.Agent, family: Family, params: Mapping[str, Any]) -> None:
    """Check the params of agents against the scenario, as their family does.

    Raises:
        UsageError: if they do not fit, with the position in the file.
    """
    try:
        if family.fits is not None:
            family.fits(scenario, entry, params)
    except UsageError as error:
        raise scenario.located(error) from None


def _to_check(scenario: schema.Scenario) -> Iterable[Family]:
    """Return the families that can have something to say: those whose words the scenario uses, which are imported.

    A class of another package may claim an ability without inheriting from the class that has it; then all are asked.
    """
    named = [family for entry in scenario.agents if (family := family_for(entry)) is not None]
    if any(family.agent.abilities and not family.agent.__module__.startswith("sim.") for family in named):
        return FAMILIES.values()
    return FAMILIES.imported().values()


def check_patterns_of(scenario: schema.Scenario, tools: Iterable[str], actions: Iterable[str]) -> None:
    """Check the rules of access and of approvals against the names of all tools and actions.

    Raises:
        UsageError: if a rule fits none of them, with its position in the file.
    """
    if scenario.sections.keys().isdisjoint(("access", "approvals")):
        return
    from sim.tools.patterns import check_patterns  # the import is slow

    try:
        check_patterns(scenario.sections, tools, actions)
    except UsageError as error:
        raise scenario.located(error) from None
