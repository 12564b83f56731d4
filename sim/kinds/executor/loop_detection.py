"""Loop detection, on both sides: errors that repeat, as the executor sees them, and what only shows from outside."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sim.kernel.codec import encode
from sim.kinds.executor.records import Step, TaskState
from sim.kinds.executor.settings import Monitoring

_WORD: Final = re.compile(r"\w+")


class LoopDetector:
    """Judges by its state whether a task is in a loop, or has stalled. Inherit from it to judge otherwise.

    Args:
        monitoring: how many errors, actions and steps it takes; None: the defaults.
    """

    def __init__(self, monitoring: Monitoring | None = None) -> None:
        self.monitoring = monitoring or Monitoring()

    def is_looping(self, state: TaskState) -> bool:
        """Return whether the last failed steps in a row had the same error: three by default, compared exactly."""
        return self._same_error(state) is not None

    def _same_error(self, state: TaskState) -> str | None:
        recent = state.last_errors[-self.monitoring.same_errors :]
        return recent[-1] if len(recent) == self.monitoring.same_errors and len(set(recent)) == 1 else None

    def is_repeating(self, state: TaskState) -> bool:
        """Return whether the last actions are alike, without progress and without a new result of a tool."""
        count = self.monitoring.similar_actions
        last = _watched(state)[-count:]
        if len(last) < count or _got_on(state, count):
            return False
        least = min(overlap(one, other) for one, other in pairwise(map(_words, last)))
        return least >= self.monitoring.similarity

    def is_stalled(self, state: TaskState) -> bool:
        """Return whether the last steps brought neither progress nor a new result of a tool.

        This is no loop, because it may be thinking: the confidence is checked, and decides.
        """
        count = self.monitoring.stalled_steps
        return len(_watched(state)) >= count and not _got_on(state, count)

    def loop_in(self, state: TaskState) -> str | None:
        """Return what kind of loop a task is in, in words; None if it is in none."""
        if self.is_looping(state):
            if (error := self._same_error(state)) is None:
                return f"by {type(self).__name__}"
            return f"{self.monitoring.same_errors} identical errors in a row: {error}"
        if self.is_repeating(state):
            return f"the last {self.monitoring.similar_actions} actions are alike"
        return None


def _watched(state: TaskState) -> Sequence[Step]:
    """Return the steps since a person, or a check of the confidence, has let the task continue."""
    since = state.metadata.get("monitored_from", 0)
    return [step for step in state.steps_history if step.step_number > since]


def _got_on(state: TaskState, last: int) -> bool:
    """Return whether the last steps had a new result, or their best progress is above that of the steps before."""
    steps, earlier = state.steps_history[-last:], state.steps_history[:-last]
    best = max((step.acceptance_progress for step in earlier), default=0.0)
    return any(step.new_result or step.acceptance_progress > best for step in steps)


def _words(step: Step) -> frozenset[str]:
    action = step.planned_action
    return frozenset(_WORD.findall(f"{action.tool_name} {encode(dict(action.parameters)).decode()}"))


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of words that two actions have in common, from 0 to 1."""
    return len(one & other) / len(one | other) if one | other else 1.0
