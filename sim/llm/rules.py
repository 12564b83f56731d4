"""The rules of the `scripted` provider: records that say which requests are answered, and how."""

from typing import Any, Protocol

import attrs

from sim.base.expressions import Expression, Functions, Names
from sim.llm.pattern import Pattern
from sim.llm.types import ErrorClass, StopReason


class Value(Protocol):
    """A value of a rule: a literal, or an expression that each answer evaluates."""

    def evaluate(self, names: Names, functions: Functions, /) -> Any:
        """Return the value."""


@attrs.frozen
class Reply:
    """One possible answer of a rule.

    Args:
        say: the text of the answer.
        call: the tool calls: a mapping from tool names to arguments (a mapping, or text that is sent unchanged), or a
            list of such mappings, for several calls of one tool.
        fail: the class of error with which the call fails instead.
        retry_after: seconds that the failure asks to wait.
        stop: the stop reason; None: derived from the answer.
        weight: the weight in the random choice among the replies of the rule.
    """

    say: Value | None = None
    call: Value | None = None
    fail: ErrorClass | None = None
    retry_after: float | None = None
    stop: StopReason | None = None
    weight: Value | None = None


@attrs.frozen
class ScriptedRule:
    """Conditions for requests, and replies. A condition that is None or empty matches every request.

    Args:
        replies: at least one reply; one of several is drawn at random.
        agents: the calling agents or groups.
        uses: the use cases of the call.
        role: the role of the last message.
        text: a pattern for the last message.
        system: a pattern for the system message.
        result: a pattern for the last tool result after the last answer.
        tool: the name of an offered tool.
        when: an expression over `NAMES` and the captures of the patterns.
        name: the name of the rule in error messages.
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
