"""What models are saying at the moment, as lines: thoughts, texts, and calls of tools as they arrive."""

from collections.abc import Iterable
from typing import Final

from sim.llm.types import Delta
from sim.llm.unfinished import Speech
from sim.runner import RunController
from sim.store.unfinished import Partial
from sim.text import plain

_LINES: Final = 4  # agents that are shown, the latest
_LONGEST: Final = 100  # characters of a line

_VERBS: Final = {
    "think": "thinks", "text": "says", "tool_start": "calls", "tool_arguments": "calls", "tool_complete": "has called",
}  # fmt: skip


class Streams:
    """Follows the answers of the models of a run in this process. It changes nothing in the run."""

    def __init__(self) -> None:
        self._runner: RunController | None = None
        self._speech = Speech(_LINES)

    def follow(self, runner: RunController) -> None:
        """Begin to observe a run, unless it is observed."""
        if runner is self._runner:
            return
        self._runner, models = runner, runner.simulation.models
        if models is not None:
            models.observers.append(self.add)

    def add(self, agent_id: str, part: Delta) -> None:
        """Note a part of an answer to an agent."""
        self._speech.add(agent_id, part)

    def lines(self) -> tuple[str, ...]:
        """Return a line for each of the latest agents: its end, if it is too long."""
        return lines_of(self._speech.partials())


def lines_of(partials: Iterable[Partial]) -> tuple[str, ...]:
    """Return a line for each of the latest unfinished answers: its end, if it is too long."""
    return tuple(map(_line, tuple(partials)[-_LINES:]))


def _line(partial: Partial) -> str:
    shown = plain(" ".join(partial.text.split()))
    told = shown if len(shown) <= _LONGEST else "..." + shown[-_LONGEST:]
    return f"{plain(partial.agent)} {_VERBS[partial.kind]} {told}"
