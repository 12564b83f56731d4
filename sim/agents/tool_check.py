"""The check that the tools exist that a scenario names, before the run."""

from collections.abc import Iterable
from typing import Any

from sim.agents.family import family_for
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.tools.registry import NEVER_TOOLS, WORLD
from sim.world.action import DEFINED


def check_tools(scenario: Any, where: str, names: Iterable[str]) -> None:
    """Check names of tools. Kinds of other packages can bring tools that are not known yet; then nothing is checked.

    Args:
        scenario: the checked scenario.
        where: the place of the names, for the error.
        names: the names.

    Raises:
        UsageError: if there is no such tool.
    """
    tools = known_tools(scenario)
    if tools is None:
        return
    for name in names:
        kind = name.removeprefix(WORLD)
        if name not in tools and not (name.startswith(WORLD) and kind in DEFINED and kind not in NEVER_TOOLS):
            offered = sorted({*tools, *(WORLD + kind for kind in DEFINED if kind not in NEVER_TOOLS)})
            raise UsageError(f"{where}: there is no tool {name!r:.80}", hint=did_you_mean(name, offered))


def check_modules(scenario: Any, where: str, modules: Iterable[str]) -> None:
    """Check names of modules of tools, as `check_tools` does.

    Raises:
        UsageError: if no tool is in such a module.
    """
    tools = known_tools(scenario)
    if tools is None:
        return
    there = {name.partition(".")[0] for name in tools} | {WORLD.rstrip(".")}
    for module in modules:
        if module not in there:
            raise UsageError(f"{where}: there is no module {module!r:.80}", hint=did_you_mean(module, sorted(there)))


def known_tools(scenario: Any) -> set[str] | None:
    """Return the tools of a scenario and of the kinds of its agents; None if a kind is from another package."""
    tools = set[str]()
    for entry in scenario.agents:
        family = family_for(entry)
        if family is None or not (family.base or family.agent.__module__.startswith("sim.")):
            return None
        tools.update(tool.name for tool in family.tools)
    settings = scenario.sections.get("tools")
    if settings is not None:
        tools.update(settings.functions, settings.commands)
        tools.update(f"{server}.{name}" for server, one in settings.servers.items() for name in one.tools)
    return tools
