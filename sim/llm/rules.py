"""The rules of the `scripted` provider: records that say which requests are answered, and how."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from sim.expressions import Expression
from sim.llm.pattern import Pattern
from sim.llm.types import ErrorClass, StopReason

Functions = Mapping[str, Callable[..., object]]


NAMES = frozenset(
    {"me", "group", "now", "use", "tier", "model", "role", "text", "system", "tools", "calls", "messages", "result",
     "state", "pi"}
)  # fmt: skip
"""What the expressions of a rule can see, beside what its patterns keep."""


class Value(Protocol):
    """A value of a rule: a literal, or computed anew at each answer."""

    def evaluate(self, names: Mapping[str, object], functions: Functions, /) -> Any:
        """Return the value."""


@attrs.frozen
class Reply:
    """One way to answer.

    Args:
        say: the text.
        call: tools to call, a mapping from their names to arguments: a mapping, or text that is sent as it is.
        fail: fail in this way instead.
        retry_after: seconds that a failure asks to wait.
        stop: why the answer ended, in place of what follows from it.
        weight: how often it is chosen, against the other replies of its rule.
    """

    say: Value | None = None
    call: Value | None = None
    fail: ErrorClass | None = None
    retry_after: float | None = None
    stop: StopReason | None = None
    weight: Value | None = None


@attrs.frozen
class ScriptedRule:
    """Which requests are answered, and how. What is None or empty fits every request.

    Args:
        replies: at least one; with several, one is drawn.
        agents: agents or groups that ask.
        uses: what the call is for.
        role: who said the last message.
        text: a pattern for the last message.
        system: a pattern for the system message.
        result: a pattern for the last tool result after the last answer.
        tool: a tool that is offered.
        when: a condition over `NAMES` and what the patterns keep.
        name: for people.
    """

    replies: tuple[Reply, ...]
    agents: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    role: str | None = None
    text: Pattern | None = None
    system: Pattern | None = None
    result: Pattern | None = None
    tool: str | None = None
    when: Expression | None = None
    name: str = ""
