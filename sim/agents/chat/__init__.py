"""Chat agents: one for each conversation, with users, personas, permissions, budgets and tools (seed 002).

Modules: `settings` (what a scenario says of them), `records` (messages, answers, files, jobs), `service` (all that is
known, and who answers where), `budget`, `agents` (who answers, and what people do), `steps` (the nine steps from a
message to its answer), `context` (the prompt), `summary`, `tools` (the modules), `section` and `views`.
"""

from sim.agents.chat import views  # noqa: F401 - registers the views
from sim.agents.chat.agents import ChatAgent
from sim.agents.chat.records import AgentResponse, FileRecord, IncomingMessage, Job
from sim.agents.chat.section import CHAT
from sim.agents.chat.service import Chats
from sim.agents.chat.settings import BudgetSettings, ChatAgentSettings, ChatSettings, Page, Persona

__all__ = [
    "CHAT", "AgentResponse", "BudgetSettings", "ChatAgent", "ChatAgentSettings", "ChatSettings", "Chats", "FileRecord",
    "IncomingMessage", "Job", "Page", "Persona",
]  # fmt: skip
