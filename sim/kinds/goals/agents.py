"""The agents: goals, tasks, user agents, and kinds that others define.

One class serves all kinds. An agent keeps nothing between two runs; what it knows is in services.
"""

from types import MappingProxyType
from typing import Any, Final

from sim.actors import Agent
from sim.agents.family import AgentPlan, Family, Make, WorldPlan, define_family, family_for, has_ability
from sim.agents.tool_check import check_tools
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.kernel import to_duration
from sim.kernel.codec import JsonObject
from sim.kinds.goals.actions import take_message
from sim.kinds.goals.kinds import AGENT_TASK, CREATE_TASK, GOAL, USER_AGENT, AgentKind
from sim.kinds.goals.orchestrator import archive_last_session, orchestrate
from sim.kinds.goals.prompts import about
from sim.kinds.goals.service import PLATFORM, WAKE_UP, Goals
from sim.kinds.goals.settings import AgentSettings
from sim.kinds.goals.tools import TOOLS
from sim.world import Action, World

_KINDS: dict[str, AgentKind] = {}
"""All kinds by name."""

_SECTIONS: Final = (
    ("goals", "is one of `goals`", "{}"),
    ("conversations", "has a thread", "{level: user}"),
    ("memory", "keeps notes", "{}"),
)
"""The sections that these kinds need: their keys, what for, and what to begin with."""


class OrchestratedAgent(Agent):
    """An agent that runs when there is a reason: a message, a retry, a check-in, a feed, or the end of a task.

    Args:
        agent_id, world, group, permission: see `Agent`.
        what: what its kind can do.
        settings: what it is for; those of its template, if it is made during the run.
    """

    memory_kinds = MappingProxyType({"context": 6, "note": 6, "learning": 7})

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        what: AgentKind,
        settings: AgentSettings,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.what = what
        self.settings = settings

    async def on_start(self) -> None:
        """Make an agent known that the scenario declares, and make the user agent of its user."""
        goals = Goals.of(self.world)
        if self.agent_id not in goals.records:
            goals.register(self.agent_id, self.what, self.settings, available=self.settings.tools)
            goals.welcome(self.settings.user)

    def about(self) -> JsonObject:
        """See `Agent.about`: its role, what it is for, and what it has learned about its person."""
        goals = Goals.of(self.world)
        record = goals.records.get(self.agent_id)
        return {} if record is None else about(goals, record)

    async def decide_action(self) -> Action:
        """Pick a message from the mailbox, else run if there is a reason, else sleep until there is one."""
        goals = Goals.of(self.world)
        record = goals.records[self.agent_id]
        if record.ended:
            return Action("archive_last_session" if goals.has_last_session(record) else "stop")
        while (message := self.mailbox.take()) is not None:
            if message.topic != WAKE_UP:
                return Action("take_message", {"sender": message.sender, "text": str(message.data)})
        reason = goals.work(record)
        if reason is not None:
            return Action("orchestrate", {"reason": reason})
        wake: list[JsonObject] = [{"message": True}]
        due = goals.next_due_ns(record)
        if due is not None:
            wake.append({"until": to_duration(due)})
        return Action("sleep", {"condition": {"any": wake}})


def define_agent_kind(kind: AgentKind) -> Family:
    """Make a kind of agent known: an entry of a scenario can name it as `kind`.

    Args:
        kind: what such agents can do.

    Raises:
        UsageError: if there is a family of this name.
    """

    def prepare(plan: WorldPlan) -> Make:
        goals = Goals.of(plan.world)
        for entry in plan.scenario.agents:
            if _kind_of(entry) == kind and entry.template:
                goals.templates[entry.name] = kind
                goals.offers[entry.name] = (entry.settings or AgentSettings()).tools

        def make(agent: AgentPlan) -> Agent:
            settings: AgentSettings = agent.settings or AgentSettings()
            made: Agent = plan.agent(
                agent.name, agent.world, group=agent.group, permission=agent.permission, what=kind, settings=settings
            )
            return made

        return make

    def check(scenario: Any, until_ns: int | None) -> None:
        for entry in scenario.agents:
            if _kind_of(entry) == kind:
                _check(scenario, entry, kind)

    family = define_family(
        Family(
            kind.name,
            OrchestratedAgent,
            settings=AgentSettings,
            prepare=prepare,
            check=check,
            actions=(orchestrate, archive_last_session, take_message),
            tools=TOOLS,
            draws=("a part of the wait before a run of an orchestrated agent is repeated after a failure",),
        )
    )
    _KINDS[kind.name] = kind
    return family


def _kind_of(entry: Any) -> AgentKind | None:
    """Return what the agents of an entry can do; None if it is no kind of this family."""
    family = family_for(entry)  # an entry can name it as module:NAME too
    return None if family is None else _KINDS.get(family.base or family.kind)


def _check(scenario: Any, entry: Any, kind: AgentKind) -> None:
    """Refuse an entry that cannot work, before the run."""
    where, settings = f"agents.{entry.name}", entry.settings or AgentSettings()
    for section, why, start in _SECTIONS:
        if section not in scenario.sections:
            raise UsageError(f"{where} {why}, but the scenario has no `{section}`", hint=f"add `{section}: {start}`")
    if scenario.models is None:
        raise UsageError(f"{where} asks language models, but the scenario has none", hint="add `models: {}`")
    people = scenario.sections["conversations"]
    if people.level < Permission.USER and not people.levels.get(PLATFORM):
        hint = "set `conversations: {level: user}`"
        raise UsageError(f"{where} works for people whose level is guest, for whom no tool may be used", hint=hint)
    check_tools(scenario, f"{where}.settings.tools", settings.tools)
    if entry.template and settings.user:
        raise UsageError(f"{where}.settings.user: a template works for no user yet", hint="leave it out")
    if not entry.template and not settings.user:
        raise UsageError(f"{where} works for no user", hint="give `user` in its settings, or make it a `template`")
    tasks = any(one.template and (what := _kind_of(one)) is not None and what.finishes for one in scenario.agents)
    if CREATE_TASK in kind.tools and not tasks:
        hint = f"add {{name: task, kind: {AGENT_TASK.name}, template: true}} to `agents`"
        raise UsageError(f"{where} makes tasks, but no entry says what a task is", hint=hint)
    if kind.finishes and not entry.template:
        raise UsageError(f"{where} is made by other agents", hint="make it a `template`")
    if kind.pauses and not any(has_ability(one, "monitor health") for one in scenario.agents):
        hint = "add {name: monitor, kind: health_monitor} to `agents`"
        raise UsageError(f"{where} is paused after an error, and no agent would resume it", hint=hint)


for _kind in (GOAL, AGENT_TASK, USER_AGENT):
    define_agent_kind(_kind)
