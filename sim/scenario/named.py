"""Names in a scenario that have no effect: accounts of no agent, platforms on which no agent writes, tools with which
no executor plans, models of no tier. Each is valid, so `sim check` and each run warn of it.

What a file does not say, such as the account that an expression names, is not guessed: then nothing is said.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import attrs

from sim.agents.family import family_for, has_ability
from sim.base.expressions import did_you_mean, nearest
from sim.kernel.codec import Json
from sim.scenario.schema import Scenario
from sim.scenario.symbols import Symbols, actions_of, collect, items, mapping
from sim.scenario.values import is_expression
from sim.scenario.yaml_tree import Map, Mark

Finding = tuple[Mark, str, str | None]

_WRITES = ("send_chat_message", "post_message", "share_location")
"""The actions with which an agent writes as a person, under its own name as the account."""

_APP = "app"
"""The platform of goals, whose users need not be agents."""


@attrs.define
class _Written:
    """Who writes where, as far as a file says it.

    Attributes:
        accounts: the accounts beside the names of agents; None: unknown.
        platforms: the platforms; None: unknown.
        servers: the servers by platform; None: unknown.
        symbols: the agents of the file; None: nothing is known.
    """

    accounts: set[str] | None = attrs.field(factory=set)
    platforms: set[str] | None = attrs.field(factory=set)
    servers: set[tuple[str, str]] | None = attrs.field(factory=set)
    symbols: Symbols | None = None


def names_without_effect(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield names in the settings of conversations, chats, executors and models that mean nothing in a file."""
    yield from _accounts(scenario, tree)
    yield from _tools_of_chats(scenario, tree)
    yield from _executors(scenario, tree)
    yield from _prices(scenario, tree)


# -- accounts, platforms and servers


def _accounts(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    written = _written(scenario, tree)
    if not written.platforms and not written.accounts and written.platforms is not None:
        return  # if anything writes, it is a host program
    people, chat = mapping(tree, "conversations"), mapping(tree, "chat")
    by_platform = [("conversations.levels", mapping(people, "levels"))]
    by_platform.append(("chat.budget.users", mapping(mapping(chat, "budget"), "users")))
    for where, platforms in by_platform:
        for platform, accounts in platforms.items():
            mark = _mark(platforms, platform, tree)
            yield from _platform(written, mark, f"{where}.{platform}", platform)
            for account in accounts if isinstance(accounts, dict) else ():
                at = f"{where}.{platform}.{account}"
                yield from _account(scenario, written, _mark(accounts, account, tree), at, (platform, account))
    for person, links in mapping(people, "people").items():
        for platform, account in links.items() if isinstance(links, dict) else ():
            mark, at = _mark(links, platform, tree), f"conversations.people.{person}.{platform}"
            yield from _platform(written, mark, at, platform)
            yield from _account(scenario, written, mark, at, (platform, str(account)))
    yield from _personas(mapping(chat, "personas"), written, tree)


def _personas(personas: dict[str, Any], written: _Written, tree: Map) -> Iterator[Finding]:
    """Yield platforms and servers of personas on which no agent writes."""
    for name, persona in personas.items():
        place: dict[str, Any] = persona if isinstance(persona, dict) else {}
        platform, server, at = place.get("platform"), place.get("server"), f"chat.personas.{name}"
        if platform is None:
            continue
        yield from _platform(written, _mark(place, "platform", tree), f"{at}.platform", platform)
        if server is not None and written.servers is not None and (platform, server) not in written.servers:
            others = [one for on, one in sorted(written.servers) if on == platform]
            message = f"{at}.server: no agent of this file writes on the server {server!r:.80} of {platform}"
            yield _mark(place, "server", tree), message, did_you_mean(str(server), others)


def _platform(written: _Written, mark: Mark, where: str, platform: str) -> Iterator[Finding]:
    if written.platforms is not None and platform not in written.platforms:
        message = f"{where}: no agent of this file writes on the platform {platform!r:.80}"
        yield mark, message, did_you_mean(platform, sorted(written.platforms))


def _account(
    scenario: Scenario, written: _Written, mark: Mark, where: str, account: tuple[str, str]
) -> Iterator[Finding]:
    platform, name = account
    known_here = written.platforms is None or platform in written.platforms
    if written.accounts is None or platform == _APP or not known_here or _is_account(scenario, written, name):
        return
    agents = [one for entry in scenario.agents if not entry.template for one in islice(entry.agent_names(), 1000)]
    message = f"{where}: no agent of this file has the account {name!r:.80}, so it has no effect"
    yield mark, message, did_you_mean(name, [*agents, *sorted(written.accounts)])


def _is_account(scenario: Scenario, written: _Written, name: str) -> bool:
    """Return whether an account is that of an agent, of one that can be spawned, or one that an agent writes as."""
    if written.accounts is not None and name in written.accounts:
        return True
    templates = [entry.name for entry in scenario.agents if entry.template]
    if name in templates or any(name.startswith(f"{one}-") for one in templates):
        return name not in templates
    assert written.symbols is not None, "the accounts are known, so the file was read"
    return written.symbols.is_agent(name)


def _written(scenario: Scenario, tree: Map) -> _Written:
    """Return who writes where. It is unknown if agents of other packages, or expressions, determine it."""
    if not _is_of_sim(scenario) or _others_write(tree):
        return _Written(None, None, None)
    spawns = any(kind == "spawn" for entry in items(tree, "agents") for kind, _ in _actions(entry))
    populations = {entry.name: entry.population for entry in scenario.agents if entry.population is not None}
    written = _Written(symbols=attrs.evolve(collect(tree, None, populations), spawned=spawns))
    if "goals" in tree and written.platforms is not None:
        written.platforms.add(_APP)
    for entry in items(tree, "agents"):
        for kind, arguments in _actions(entry):
            if kind in _WRITES:
                _note(written, arguments if isinstance(arguments, dict) else {})
            elif kind in ("use_tool", "ask"):  # as a tool of the world
                return _Written(None, None, None)
    return written


def _actions(entry: Any) -> Iterator[tuple[str, Any]]:
    return (action for rule in items(entry, "rules") for action in actions_of(rule))


def _others_write(tree: Map) -> bool:
    """Return whether steps of procedures, or models with an action as a tool, can write at any place."""
    procedures = mapping(mapping(tree, "sop"), "procedures").values()
    steps = [step for one in procedures if isinstance(one, dict) for step in items(one, "steps")]
    if any(step.get("action") in _WRITES or "tool" in step for step in steps):
        return True
    settings = [mapping(tree, "chat"), *(mapping(entry, "settings") for entry in items(tree, "agents"))]
    offered = [one.get("tools") for one in settings]
    return any(f"world.{one}" in tools for tools in offered if isinstance(tools, list) for one in _WRITES)


def _is_of_sim(scenario: Scenario) -> bool:
    """Return whether the code of all agents is that of sim."""
    families = [family_for(entry) for entry in scenario.agents]
    return all(one is not None and one.agent.__module__.startswith("sim.") for one in families)


def _note(written: _Written, arguments: dict[str, Json]) -> None:
    """Note where one action writes, and as whom."""
    platform, server, user = arguments.get("platform", "chat"), arguments.get("server"), arguments.get("user")
    if is_expression(user):
        written.accounts = None
    elif user is not None and written.accounts is not None:
        written.accounts.add(str(user))
    if is_expression(platform):
        written.platforms = written.servers = None
    elif written.platforms is not None:
        written.platforms.add(str(platform))
    if is_expression(server):
        written.servers = None
    elif server is not None and written.servers is not None:
        written.servers.add((str(platform), str(server)))


# -- tools


def _tools_of_chats(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield tools of `chat.tools` whose module is open nowhere."""
    chat = scenario.sections.get("chat")
    if chat is None:
        return
    opened = {*chat.guest_modules, *(module for one in chat.personas.values() for module in one.modules)}
    for name in chat.tools:
        if (module := name.partition(".")[0]) not in opened:
            message = f"chat.tools: no persona opens the module {module!r:.80}, so {name!r:.80} is never offered"
            hint = f"add {module} to the `modules` of a persona, or to `chat.guest_modules`"
            yield _mark(mapping(tree, "chat"), "tools", tree), message, hint


def _executors(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield tools with which no executor plans, and names that are nearly those of a project or of a file."""
    section = scenario.sections.get("executor")
    if section is None:
        return
    raw = mapping(tree, "executor")
    tools = dict[str, set[str]]()
    for entry in scenario.agents:
        if has_ability(entry, "do tasks") and entry.settings is not None:
            own = set(entry.settings.tools)
            own.update(other for tool in entry.settings.tools for other in section.alternatives.get(tool, ()))
            tools.setdefault(entry.settings.type, set()).update(own)
    own_code = not _is_of_sim(scenario)  # a planner of a user can plan with any tool
    every = set[str]().union(*tools.values())
    for tool in () if own_code else section.alternatives:
        if tool not in every:
            message = f"executor.alternatives.{tool}: no executor plans with {tool!r:.80}, so it is never replaced"
            yield _mark(mapping(raw, "alternatives"), tool, tree), message, did_you_mean(tool, sorted(every))
    made = {path for task in section.tasks.values() for one in task.criteria for path in (one.tests, one.file) if path}
    for name, task in section.tasks.items():
        raw_task, where = mapping(mapping(raw, "tasks"), name), f"executor.tasks.{name}"
        for message, key, hint in _of_task(
            task, section.projects, None if own_code else tools.get(task.type, set()), made
        ):
            yield _mark(raw_task, key, tree), f"{where}.{key}: {message}", hint


def _of_task(
    task: Any, projects: Mapping[str, Any], tools: set[str] | None, made: set[str]
) -> Iterator[tuple[str, str, str | None]]:
    """Yield the names of a task that have no effect: a message, the key, and a hint.

    Args:
        task: the task.
        projects: the projects by name.
        tools: the tools with which executors of its type plan; None: any.
        made: the files that criteria are about.
    """
    for one in task.criteria:
        if (
            tools is not None
            and one.tool is not None
            and one.tool not in tools
            and not one.tool.startswith("executor.")
        ):
            message = f"no executor of the type {task.type!r} plans with {one.tool!r:.80}"
            yield message, "criteria", did_you_mean(one.tool, sorted(tools))
    if task.project not in projects and (near := nearest(task.project, projects)) is not None:
        message = f"{task.project!r:.80} is not listed in `projects`, so it begins without files"
        yield message, "project", f"did you mean {near!r}?"
    files = projects[task.project].files if task.project in projects else {}
    for path in task.protected or ():
        there = path in made or any(file == path or file.startswith(f"{path.rstrip('/')}/") for file in files)
        if not there and (near := nearest(path, files)) is not None:
            yield f"the project has no file {path!r:.80} at the beginning", "protected", f"did you mean {near!r}?"


# -- models


def _prices(scenario: Scenario, tree: Map) -> Iterator[Finding]:
    """Yield prices of models that nearly have the name of one without a price."""
    models = scenario.models
    if models is None:
        return
    free = [name for name in models.named if name not in models.priced]
    for name in models.prices:
        if name not in models.named and name in models.priced and (near := nearest(name, free)) is not None:
            message = (
                f"models.prices.{name}: no tier of this file has the model {name!r:.80}, and {near!r} has no price"
            )
            yield _mark(mapping(mapping(tree, "models"), "prices"), name, tree), message, f"did you mean {near!r}?"


def _mark(part: Any, key: str, tree: Map) -> Mark:
    return part.values_at.get(key, part.mark) if isinstance(part, Map) else tree.mark
