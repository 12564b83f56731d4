"""Employees that follow standard operating procedures.

`docs/seed_rules.md` lists their rules, each with the test that shows it.

Modules: `settings` (what a scenario says of them), `service` (all that they know), `employee` and `cycle` (survey,
assess, prioritize, execute, report), `watchers`, `worker` (does steps), `jobs` (recurring jobs), `channels` and `texts`
(what they post), `values` (their expressions), `section` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.sop.channels import Channels
    from sim.kinds.sop.employee import Employee
    from sim.kinds.sop.jobs import RecurringJobs
    from sim.kinds.sop.service import Sops
    from sim.kinds.sop.settings import EmployeeSettings, JobsSettings, Procedure, SopSettings, Step, Watcher
    from sim.kinds.sop.worker import StepWorker

__all__ = [
    "Channels", "Employee", "EmployeeSettings", "JobsSettings", "Procedure", "RecurringJobs", "SopSettings",
    "Sops", "Step", "StepWorker", "Watcher",
]  # fmt: skip

_HOMES = {
    "channels": "Channels",
    "employee": "Employee",
    "jobs": "RecurringJobs",
    "service": "Sops",
    "settings": "EmployeeSettings JobsSettings Procedure SopSettings Step Watcher",
    "worker": "StepWorker",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
