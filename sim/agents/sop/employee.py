"""Employees: agents that look after their domain in cycles, as seed 000 describes them.

An employee keeps nothing between two cycles. What it knows is in the services of tasks, memories and procedures.
"""

from collections.abc import Mapping
from typing import Any

from sim.actors import Agent
from sim.agents.family import Family, define_family
from sim.agents.sop.cycle import work_cycle
from sim.agents.sop.service import Sops
from sim.agents.sop.settings import EmployeeSettings, Procedure, SopSettings, Watcher
from sim.agents.sop.worker import run_step
from sim.errors import UsageError
from sim.expressions import did_you_mean
from sim.kernel import to_seconds
from sim.permissions import Permission
from sim.world import Action, World

_CYCLE = Action("work_cycle")


class Employee(Agent):
    """An agent that does one cycle of work at a time.

    Args:
        agent_id, world, group, permission: see `Agent`.
        settings: its role.
    """

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

    async def decide_action(self) -> Action:
        """Do a cycle if one is due, by the clock or for a trigger; else sleep until one is."""
        sops = Sops.of(self.world)
        while (message := self.mailbox.take()) is not None:
            if not sops.take_message(self.desk, message):
                return Action("remember", {"content": f"{message.sender} said: {message.data}", "kind": "context"})
        if sops.is_due(self.desk):
            return _CYCLE
        mine = f"data.agent == '{self.agent_id}'"
        wake: list[Mapping[str, Any]] = [{"event": "sop.trigger", "where": mine}, {"message": True}]
        if sops.settings.design == "event_driven":
            wake.append({"event": "sop.ready", "where": mine})
        else:
            wake.append({"until": to_seconds(self.desk.next_ns)})
        return Action("sleep", {"condition": {"any": wake}})


def _check(scenario: Any, until_ns: int | None) -> None:
    """Refuse procedures and employees that do not fit each other, before the run."""
    employees = [entry for entry in scenario.agents if entry.kind == "employee"]
    sop: SopSettings | None = scenario.sections.get("sop")
    if sop is None:
        if employees:
            raise UsageError(
                f"agents.{employees[0].name} are employees, but there are no procedures", hint="add `sop:`"
            )
        return
    names = [name for entry in employees for name in _names(entry)]
    if not names:
        raise UsageError("procedures need somebody who follows them", hint="add an agent of kind `employee`")
    if not any(entry.kind == "step_worker" for entry in scenario.agents):
        raise UsageError("employees need somebody who does the steps", hint="add an agent of kind `step_worker`")
    asking = next((entry for entry in employees if entry.settings.assess is not None), None)
    if asking is not None and scenario.models is None:
        raise UsageError(f"agents.{asking.name} asks a model in each cycle, but there is none", hint="add `models:`")
    for name, watcher in sop.watchers.items():
        _check_watcher(scenario, f"sop.watchers.{name}", watcher, names)
    for name, procedure in sop.procedures.items():
        _check_procedure(scenario, f"sop.procedures.{name}", procedure, names)


def _check_watcher(scenario: Any, where: str, watcher: Watcher, names: list[str]) -> None:
    _require_employee(where, watcher.agent, names)
    if watcher.pool is not None and watcher.pool not in scenario.pools:
        raise UsageError(f"{where}: there is no pool {watcher.pool!r}", hint=did_you_mean(watcher.pool, scenario.pools))
    alone = watcher.alone or scenario.sections["sop"].design == "event_driven"
    if alone and watcher.active and not any(entry.kind == "recurring_jobs" for entry in scenario.agents):
        raise UsageError(f"{where} looks alone, and nobody runs it", hint="add an agent of kind `recurring_jobs`")


def _check_procedure(scenario: Any, where: str, procedure: Procedure, names: list[str]) -> None:
    if procedure.agent is not None:
        _require_employee(where, procedure.agent, names)
    elif procedure.trigger is not None and procedure.trigger.event is not None and len(names) > 1:
        raise UsageError(f"{where} has a trigger, and there are several employees", hint="say whose: `agent: NAME`")
    for step in procedure.steps:
        if step.model is not None and scenario.models is None:
            raise UsageError(f"{where}.steps.{step.name} asks a model, but there is none", hint="add `models:`")
        if step.approval is not None and "approvals" not in scenario.sections:
            raise UsageError(f"{where}.steps.{step.name} needs a person who approves", hint="add `approvals:`")


def _names(entry: Any) -> list[str]:
    return [entry.name] if entry.count == 1 else [f"{entry.name}-{number}" for number in range(1, entry.count + 1)]


def _require_employee(where: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise UsageError(f"{where}: {name!r} is not an employee", hint=did_you_mean(name, names))


define_family(Family("employee", Employee, settings=EmployeeSettings, check=_check, actions=(work_cycle, run_step)))
