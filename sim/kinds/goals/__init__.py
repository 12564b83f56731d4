"""Goals, tasks and user agents: assistants that work for people.

`docs/seed_rules.md` lists their rules, each with the test that shows it.

Modules: `kinds` (what each kind can do), `settings` (what a scenario says of them), `records` and `service` (all that
is known of them), `agents` and `orchestrator` (one run), `prompts` and `texts`, `tools`, `retry`, `session_archive`
(past sessions), `health` (the monitor), `actions` (what people do), `section` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.goals.agents import OrchestratedAgent, define_agent_kind
    from sim.kinds.goals.health import GoalHealthMonitor
    from sim.kinds.goals.kinds import AgentKind
    from sim.kinds.goals.records import GoalAgent
    from sim.kinds.goals.service import Goals
    from sim.kinds.goals.settings import AgentSettings, GoalsSettings, HealthSettings, RetrySettings

__all__ = [
    "AgentKind",
    "AgentSettings",
    "GoalAgent",
    "GoalHealthMonitor",
    "Goals",
    "GoalsSettings",
    "HealthSettings",
    "OrchestratedAgent",
    "RetrySettings",
    "define_agent_kind",
]  # fmt: skip

_HOMES = {
    "agents": "OrchestratedAgent define_agent_kind",
    "health": "GoalHealthMonitor",
    "kinds": "AgentKind",
    "records": "GoalAgent",
    "service": "Goals",
    "settings": "AgentSettings GoalsSettings HealthSettings RetrySettings",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
