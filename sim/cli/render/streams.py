"""What models are saying at the moment, as lines: thoughts, texts, and calls of tools as they arrive."""

from collections.abc import Iterable
from typing import Final

from sim.base.text import plain
from sim.llm.types import Delta
from sim.llm.unfinished import UnfinishedAnswers
from sim.record.unfinished import UnfinishedAnswer
from sim.runner import RunController

_LINES: Final = 4  # agents that are shown, the latest
_LONGEST: Final = 100  # characters of a line


class Streams:
    """Follows the answers of the models of a run in this process. It changes nothing in the run."""

    def __init__(self) -> None:
        self._runner: RunController | None = None
        self._answers = UnfinishedAnswers(_LINES)

    def follow(self, runner: RunController) -> None:
        """Begin to observe a run, unless it is observed."""
        if runner is self._runner:
            return
        self._runner, models = runner, runner.simulation.models
        if models is not None:
            models.observers.append(self.add)

    def add(self, agent_id: str, part: Delta) -> None:
        """Note a part of an answer to an agent."""
        self._answers.add(agent_id, part)

    def lines(self) -> tuple[str, ...]:
        """Return a line for each of the latest agents: its end, if it is too long."""
        return lines_of(self._answers.answers())


def lines_of(answers: Iterable[UnfinishedAnswer]) -> tuple[str, ...]:
    """Return a line for each of the latest unfinished answers: its end, if it is too long."""
    return tuple(map(_line, tuple(answers)[-_LINES:]))


def _line(answer: UnfinishedAnswer) -> str:
    shown = plain(" ".join(answer.text.split()))
    text = shown if len(shown) <= _LONGEST else "..." + shown[-_LONGEST:]
    return f"{plain(answer.agent)} {answer.verb} {text}"
