"""What the orchestrator writes to models, and what people read when a run fails."""

from typing import Final

from sim.agents.engine import Ending
from sim.agents.engine.core_loop import cut
from sim.agents.engine.prompt import section
from sim.kinds.goals.records import GoalAgent, Reason

CHECK_IN: Final = "Look at your goal. If there is something to do or to ask, do it; otherwise answer without tools."
FEED: Final = "What happened across all goals since the last feed? Send the person what matters, in a few sentences."

ENDINGS: Final[dict[Ending, str]] = {
    "max_iterations": "the most model calls of a run were made",
    "same_tool": "the same tool was called too often in a row",
    "max_time": "the run took too long",
    "history_length": "the history of the task is full",
    "max_tokens": "the most tokens of a run were used",
    "max_cost": "the most money of a run was spent",
    "invalid_answer": "the answers of the model could not be used",
}
"""Why a run was stopped, in words for the thread."""


def context_message(reason: Reason) -> str | None:
    """Return the message to the model with which a run of this type begins; None: it begins with what is pending."""
    texts = {"agent_check_in": section("check_in", CHECK_IN), "feed_generation": section("feed_request", FEED)}
    return texts.get(reason)


def task_instructions(record: GoalAgent) -> str:
    """Return the first message to the model of a task."""
    return section("task", [record.title, record.instructions])


def task_result(record: GoalAgent, result: str) -> str:
    """Return the message to the model of a goal when a task of it has ended."""
    return section(
        "task_result", cut(result, 4000), task=record.agent_id, title=record.title, status=record.status or record.stage
    )


def stopped(ending: Ending, error: str | None) -> str:
    """Return what a person reads when a run was stopped at a limit."""
    return f"Stopped: {ENDINGS[ending]} ({ending})" + (f": {error}" if error else "")


def retry_in(error: str, attempt: int, attempts: int, seconds: float) -> str:
    """Return what a person reads when no model answered, and another attempt follows."""
    return f"No model answered ({error}). Retry {attempt} of {attempts} in {seconds:.0f} s."


def failed_permanently(error: str) -> str:
    """Return what a person reads after the last attempt."""
    return f"Failed permanently: {error}"


def retry_cancelled(error: str, why: str) -> str:
    """Return what a person reads in the place of an announced retry that does not happen."""
    return f"No model answered ({error}). No retry follows: {why}"


def stuck_for(minutes: float, *, again: bool) -> str:
    """Return what a person reads when the health monitor has cancelled a run."""
    follows = "It is done again." if again else "It is not done again; write to have another try."
    return f"Cancelled: the run was stuck for more than {minutes:g} minutes. {follows}"


def recovered_after(error: str, attempt: int) -> str:
    """Return what a person reads in the place of a failure after a retry succeeded."""
    return f"No model answered at first ({error}). Retry {attempt} succeeded."
