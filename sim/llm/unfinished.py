"""What models are saying at the moment: the unfinished answers of calls under way, from their parts."""

from sim.base.text import dotted_name
from sim.llm.types import Delta
from sim.record.unfinished import LONGEST, UnfinishedAnswer


class UnfinishedAnswers:
    """Adds up the parts of answers. It changes nothing in the run.

    Args:
        most: how many agents are kept, those that were heard last.

    Attributes:
        version: how often something has changed.
    """

    def __init__(self, most: int) -> None:
        self.version = 0
        self._most = most
        self._latest: dict[str, UnfinishedAnswer] = {}

    def add(self, agent_id: str, part: Delta) -> None:
        """Note a part of an answer to an agent. A call of a tool is shown as its name and its arguments."""
        self.version += 1
        before = self._latest.pop(agent_id, None)
        if part.kind == "discard":
            return
        text = part.text
        if part.kind in ("tool_start", "tool_complete"):
            text = f"{dotted_name(part.tool)} {text}".rstrip()
        elif before is not None and before.kind == part.kind:
            text = before.text + text
        elif before is not None and (before.kind, part.kind) == ("tool_start", "tool_arguments"):
            text = f"{before.text} {text}"
        self._latest[agent_id] = UnfinishedAnswer(agent_id, part.kind, text[-LONGEST:])
        while len(self._latest) > self._most:
            del self._latest[next(iter(self._latest))]

    def end(self, agent_id: str) -> None:
        """Forget the answer to an agent: its call has ended, and the whole answer is on record."""
        if self._latest.pop(agent_id, None) is not None:
            self.version += 1

    def answers(self) -> tuple[UnfinishedAnswer, ...]:
        """Return the unfinished answers, the latest last. It can be called from another thread."""
        return tuple(self._latest.copy().values())
