"""Loop detection, on both sides: errors that repeat, as the executor sees them, and what only shows from outside."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sim.agents.executor.records import Step, TaskState
from sim.agents.executor.settings import Monitoring
from sim.kernel.codec import encode

_WORD: Final = re.compile(r"\w+")


def is_looping(state: TaskState, monitoring: Monitoring) -> bool:
    """Return whether the last failed steps in a row had the same error: three by default, compared exactly.

    Args:
        state: the task.
        monitoring: how many.
    """
    recent = state.last_errors[-monitoring.same_errors :]
    return len(recent) == monitoring.same_errors and len(set(recent)) == 1


def seen_from_outside(state: TaskState, monitoring: Monitoring) -> str | None:
    """Return why a task seems to get nowhere, seen from outside; None if it does not.

    Args:
        state: the task.
        monitoring: after how many actions that are alike, and after how many steps without progress.
    """
    since = int(state.metadata.get("monitored_from", 0))  # a person has seen the steps before
    steps = [step for step in state.steps_history if step.step_number > since]
    before = max((step.acceptance_progress for step in state.steps_history if step.step_number <= since), default=0.0)
    last = steps[-monitoring.similar_actions :]
    if len(last) == monitoring.similar_actions and not _grew(steps, len(last), before):
        words = [_words(step) for step in last]
        least = min(overlap(one, other) for one, other in pairwise(words))
        if least >= monitoring.similarity:
            return f"the last {len(last)} actions are alike"
    if len(steps) >= monitoring.stalled_steps and not _grew(steps, monitoring.stalled_steps, before):
        return f"no progress in {monitoring.stalled_steps} steps"
    return None


def _grew(steps: Sequence[Step], last: int, before: float) -> bool:
    """Return whether the best progress of the last steps is above that of the steps before."""
    earlier = max((step.acceptance_progress for step in steps[:-last]), default=before)
    return max(step.acceptance_progress for step in steps[-last:]) > earlier


def _words(step: Step) -> frozenset[str]:
    action = step.planned_action
    return frozenset(_WORD.findall(f"{action.tool_name} {encode(dict(action.parameters)).decode()}"))


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two actions have in common, from 0 to 1."""
    return len(one & other) / len(one | other) if one | other else 1.0
