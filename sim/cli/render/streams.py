"""What models are saying at the moment, for the live display: thoughts, texts, and calls of tools as they arrive."""

from typing import Final

from sim.llm.types import Delta
from sim.runner import RunController
from sim.text import plain

_LINES: Final = 4  # agents that are shown, the latest
_LONGEST: Final = 100  # characters of a line

_VERBS: Final = {"think": "thinks", "text": "says", "tool_arguments": "calls"}


class Streams:
    """Follows the answers of the models of a run in this process. It changes nothing in the run."""

    def __init__(self) -> None:
        self._runner: RunController | None = None
        self._latest: dict[str, tuple[str, str]] = {}  # agent → the kind of its latest part, and the text so far

    def follow(self, runner: RunController) -> None:
        """Begin to observe a run, unless it is observed."""
        if runner is self._runner:
            return
        self._runner, models = runner, runner.simulation.models
        if models is not None:
            models.observers.append(self.add)

    def add(self, agent_id: str, part: Delta) -> None:
        """Note a part of an answer to an agent."""
        kind, text = self._latest.pop(agent_id, ("", ""))
        if part.kind == "discard":
            return
        if part.kind in ("tool_start", "tool_complete"):
            text = part.tool + (f" {part.text}" if part.text else "")
        else:
            text = (text if kind == part.kind else "") + part.text
        self._latest[agent_id] = (part.kind, text[-10 * _LONGEST :])
        while len(self._latest) > _LINES:
            del self._latest[next(iter(self._latest))]

    def lines(self) -> tuple[str, ...]:
        """Return a line for each of the latest agents: its end, if it is too long."""
        return tuple(_line(agent_id, kind, text) for agent_id, (kind, text) in self._latest.items())


def _line(agent_id: str, kind: str, text: str) -> str:
    verb = {"tool_start": "calls", "tool_complete": "has called"}.get(kind) or _VERBS[kind]
    shown = plain(" ".join(text.split()))
    return f"{plain(agent_id)} {verb} {shown if len(shown) <= _LONGEST else '...' + shown[-_LONGEST:]}"
