"""The kinds of agents that work for people, as capabilities.

No code asks for the kind of an agent, only for what it can do.
`define_agent_kind` makes a kind known, with its family. A package outside this one can bring kinds of its own.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean

Stage = Literal["idle", "running", "delegating", "paused", "finished", "ended"]
"""Where an agent stands, whatever its kind: it waits for work; a run is under way; it waits for its tasks; it waits for
a retry; it has done what it was made for; somebody has ended it. The last two are ends."""

Made = Literal["goal", "task", "user agent"]
"""What an agent of a kind is made as: by a person, by another agent, or once for each person."""

SEND_MESSAGE: Final = "goals.send_message"
CREATE_TASK: Final = "goals.create_task"
CREATE_NOTE: Final = "goals.create_note"
SEARCH_NOTES: Final = "goals.search_notes"
MANAGE_LEARNING: Final = "goals.manage_learning"
SEARCH_HISTORY: Final = "goals.search_agent_history"

SYSTEM_TOOLS: Final = (SEND_MESSAGE, CREATE_TASK, CREATE_NOTE, SEARCH_NOTES, MANAGE_LEARNING, SEARCH_HISTORY)
"""The tools that this family has. Tools of the scenario and of MCP servers are enabled for each goal."""


@attrs.frozen
class AgentKind:
    """What agents of one kind can do.

    Args:
        name: the name that an entry of a scenario gives as `kind`.
        role: who such an agent is, for its prompt.
        tools: its system tools; see `SYSTEM_TOOLS`.
        statuses: the words for its stages; a stage without a word shows none. Without any, it has no status.
        conversational: whether it stops after `send_message`.
        finishes: whether it is finished when it has nothing more to do. It has then a limit of its history.
        pauses: whether it is paused until a retry, and the health monitor resumes it; others schedule their retries.
            A paused agent that the monitor cannot resume in time is cancelled, so this is for short-lived ones.
        informed: whether notes and learnings are in its prompts.
        archives: whether its sessions are archived.
        checks_in: whether it looks at its goal by itself, after `check_in` of the settings.
        overview: whether its prompts name all goals of its user, and it generates the feed.

    Raises:
        UsageError: if a tool does not exist.
    """

    name: str
    role: str
    tools: tuple[str, ...] = ()
    statuses: Mapping[Stage, str] = attrs.field(factory=dict)
    conversational: bool = False
    finishes: bool = False
    pauses: bool = False
    informed: bool = False
    archives: bool = False
    checks_in: bool = False
    overview: bool = False

    def __attrs_post_init__(self) -> None:
        for tool in self.tools:
            if tool not in SYSTEM_TOOLS:
                raise UsageError(f"{self.name}: there is no tool {tool!r}", hint=did_you_mean(tool, SYSTEM_TOOLS))

    @property
    def made_as(self) -> Made:
        """What such an agent is made as."""
        if self.finishes:
            return "task"
        return "user agent" if self.overview else "goal"


GOAL: Final = AgentKind(
    "goal",
    "You are the assistant of one person for one goal. Answer with send_message. Keep what matters as notes, keep what "
    "you learn about the person as learnings, and give research to tasks.",
    tools=SYSTEM_TOOLS,
    statuses={"idle": "waiting", "running": "working", "delegating": "working", "ended": "archived"},
    conversational=True,
    informed=True,
    archives=True,
    checks_in=True,
)
"""A conversational assistant for one goal; long-lived."""

AGENT_TASK: Final = AgentKind(
    "agent_task",
    "You do one task in the background, for a goal. Nobody answers you. Follow the instructions, keep the result as a "
    "note, and end with a short report.",
    tools=(CREATE_NOTE,),
    statuses={
        "idle": "active",
        "running": "active",
        "delegating": "active",
        "paused": "paused",
        "finished": "completed",
        "ended": "cancelled",
    },
    finishes=True,
    pauses=True,
)
"""Background work with instructions and little context; short-lived. It does not chat."""

USER_AGENT: Final = AgentKind(
    "user_agent",
    "You are the personal assistant of one person, across all goals of this person. Answer with send_message.",
    tools=SYSTEM_TOOLS,
    conversational=True,
    informed=True,
    archives=True,
    overview=True,
)
"""A personal assistant across all goals of a user; permanent, without a status."""
