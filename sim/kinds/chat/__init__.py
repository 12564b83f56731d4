"""Chat agents: one for each conversation, with users, personas, permissions, budgets and tools.

`docs/seed_rules.md` lists their rules, each with the test that shows it.

Modules: `settings` (what a scenario says of them), `records` (messages, answers, files, jobs), `service` (all that is
known, and who answers where), `budget`, `agents` (who answers, and what people do), `steps` (the nine steps from a
message to its answer), `context` (the prompt), `summary`, `tools` (the modules), `section` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.chat.agents import ChatAgent
    from sim.kinds.chat.records import AgentResponse, FileRecord, IncomingMessage, Job
    from sim.kinds.chat.service import Chats
    from sim.kinds.chat.settings import BudgetSettings, ChatAgentSettings, ChatSettings, CorpusPage, Persona

__all__ = [
    "AgentResponse",
    "BudgetSettings",
    "ChatAgent",
    "ChatAgentSettings",
    "ChatSettings",
    "Chats",
    "CorpusPage",
    "FileRecord",
    "IncomingMessage",
    "Job",
    "Persona",
]  # fmt: skip

_HOMES = {
    "agents": "ChatAgent",
    "records": "AgentResponse FileRecord IncomingMessage Job",
    "service": "Chats",
    "settings": "BudgetSettings ChatAgentSettings ChatSettings CorpusPage Persona",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
