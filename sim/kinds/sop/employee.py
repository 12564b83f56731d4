"""Employees: agents that look after their domain in cycles.

An employee keeps nothing between two cycles. What it knows is in the services of tasks, memories and procedures.
"""

from typing import Any

from sim.actors import Agent
from sim.agents.family import Family, define_family, has_ability
from sim.agents.tool_check import check_tools
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.permissions import Permission
from sim.kernel import to_duration, to_seconds
from sim.kernel.codec import JsonObject
from sim.kinds.sop.cycle import work_cycle
from sim.kinds.sop.events import EmployeeHired
from sim.kinds.sop.service import Sops
from sim.kinds.sop.settings import EmployeeSettings, SopSettings, Step, Watcher
from sim.kinds.sop.worker import run_step
from sim.memory.service import Memories
from sim.memory.settings import KINDS, MemorySettings
from sim.world import Action, World
from sim.world.action import DEFINED

_CYCLE = Action("work_cycle")


class Employee(Agent):
    """An agent that does one cycle of work at a time.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: its role.
    """

    abilities = frozenset({"do cycles"})
    memory_kinds = KINDS

    def __init__(
        self,
        agent_id: str,
        world: World,
        *,
        group: str | None = None,
        permission: Permission = Permission.USER,
        settings: EmployeeSettings,
    ) -> None:
        super().__init__(agent_id, world, group=group, permission=permission)
        self.desk = Sops.of(world).hire(self, settings)

    async def on_start(self) -> None:
        """See `Agent.on_start`: record the role and the watchers."""
        sops, role = Sops.of(self.world), self.desk.settings
        interval = to_seconds(role.interval)
        self.world.event_bus.report(
            EmployeeHired(agent=self.agent_id, channel=self.desk.channel, interval=interval, title=role.title)
        )
        sops.tell_watchers(self.agent_id)

    def about(self) -> JsonObject:
        """See `Agent.about`: its role."""
        role = self.desk.settings
        return {"role": [f"{role.title} ({role.slug or self.agent_id})", *role.capabilities]}

    async def decide_action(self) -> Action:
        """Do a cycle if one is due, by the clock or for a trigger; else sleep until one is."""
        sops = Sops.of(self.world)
        while (message := self.mailbox.take()) is not None:
            if not sops.take_message(self.desk, message) and (memories := sops.memories()) is not None:
                text = f"{message.sender} said: {message.data}"
                return Action("remember", {"content": text[: memories.settings.longest], "kind": "context"})
        if sops.is_due(self.desk):
            return _CYCLE
        mine = f"data.agent == '{self.agent_id}'"
        wake: list[JsonObject] = [{"message": True}]
        if sops.settings.design == "event_driven":
            wake += [{"event": "sop.trigger", "where": mine}, {"event": "sop.ready", "where": mine}]
        else:
            hurry = sops.hurries_ns(self.desk)  # waiting triggers that may not start a cycle yet
            wake.append({"until": to_duration(self.desk.next_ns if hurry is None else min(hurry, self.desk.next_ns))})
            if hurry is None and sops.settings.design != "clock_only":
                wake.append({"event": "sop.trigger", "where": mine})
        return Action("sleep", {"condition": {"any": wake}})


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse procedures and employees that do not fit each other, before the run."""
    employees = [entry for entry in scenario.agents if has_ability(entry, "do cycles")]
    sop: SopSettings | None = scenario.sections.get("sop")
    if sop is None:
        if employees:
            raise UsageError(
                f"agents.{employees[0].name} are employees, but there are no procedures", hint="add `sop:`"
            )
        return
    names = [name for entry in employees for name in entry.agent_names()]
    if not names:
        raise UsageError("procedures need an employee who follows them", hint="add an agent of kind `employee`")
    if not any(has_ability(entry, "do steps") for entry in scenario.agents):
        raise UsageError("employees need a worker who does the steps", hint="add an agent of kind `step_worker`")
    for entry in employees:
        _check_role(scenario, f"agents.{entry.name}", entry.settings)
    for name, watcher in sop.watchers.items():
        _require_employee(f"sop.watchers.{name}", watcher.agent, names)
        _check_watcher(scenario, f"sop.watchers.{name}", watcher, alone=watcher.alone or sop.design == "event_driven")
    for name, procedure in sop.procedures.items():
        where = f"sop.procedures.{name}"
        if procedure.agent is not None:
            _require_employee(where, procedure.agent, names)
        elif procedure.trigger is not None and procedure.trigger.event is not None and len(names) > 1:
            raise UsageError(f"{where} has a trigger, and there are several employees", hint="say whose: `agent: NAME`")
        for step in procedure.steps:
            _check_step(scenario, f"{where}.steps.{step.name}", step)


def _check_role(scenario: Any, where: str, role: EmployeeSettings) -> None:
    if role.assess is not None and scenario.models is None:
        raise UsageError(f"{where} asks a model in each cycle, but there is none", hint="add `models: {}`")
    memory: MemorySettings | None = scenario.sections.get(Memories.section)
    kinds = {} if memory is None else {**KINDS, **memory.kinds}
    for kind in (pattern.kind for pattern in role.patterns):
        if kinds and kind not in kinds:
            hint = did_you_mean(kind, kinds) or "add it to `memory.kinds`"
            raise UsageError(f"{where} has memories of the kind {kind!r}, which `memory.kinds` lacks", hint=hint)


def _require_employee(where: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise UsageError(f"{where}: {name!r} is not an employee", hint=did_you_mean(name, names))


def _check_watcher(scenario: Any, where: str, watcher: Watcher, *, alone: bool) -> None:
    if watcher.pool is not None and watcher.pool not in scenario.pools:
        hint = did_you_mean(watcher.pool, scenario.pools)
        raise UsageError(f"{where}: there is no pool {watcher.pool!r}", hint=hint)
    if alone and watcher.active and not any(has_ability(entry, "run jobs") for entry in scenario.agents):
        raise UsageError(f"{where} looks alone, and no agent runs it", hint="add an agent of kind `recurring_jobs`")


def _check_step(scenario: Any, where: str, step: Step) -> None:
    if step.action is not None:
        _check_action(where, step.action, step.args)
    if step.tool is not None:
        check_tools(scenario, where, [step.tool])
    if step.model is not None and scenario.models is None:
        raise UsageError(f"{where} asks a model, but there is none", hint="add `models: {}`")
    if step.approval is not None and "approvals" not in scenario.sections:
        raise UsageError(f"{where} needs a person who approves", hint="add `approvals:`")


def _check_action(where: str, kind: str, arguments: JsonObject) -> None:
    handler = DEFINED.get(kind)
    if handler is None:
        raise UsageError(f"{where}: there is no action {kind!r:.80}", hint=did_you_mean(kind, DEFINED))
    if handler.last:
        raise UsageError(f"{where}: {kind} would hold up its worker", hint="use `wait` in a step of its own")
    for name in arguments:
        if name not in handler.allowed:
            raise UsageError(f"{where}: {kind} has no argument {name!r}", hint=did_you_mean(name, handler.allowed))
    for name in handler.required:
        if name not in arguments:
            raise UsageError(f"{where}: {kind} needs the argument {name!r}")


define_family(
    Family("employee", Employee, settings=EmployeeSettings, check=_check, actions=(work_cycle, run_step), draws=())
)
