"""The check that the rules of access and of approvals are about tools that exist: a misspelt one protects nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.events.topic import matches
from sim.tools.access import AccessSettings
from sim.tools.approvals import ApprovalSettings
from sim.tools.registry import NEVER_TOOLS, WORLD


def check_patterns(sections: Mapping[str, Any], tools: Iterable[str], actions: Iterable[str]) -> None:
    """Check that each pattern of the rules fits a tool.

    Args:
        sections: the sections of the scenario.
        tools: the names of all tools.
        actions: the kinds of all actions of the world.

    Raises:
        UsageError: if one fits none.
    """
    names = sorted({*tools, *(WORLD + kind for kind in actions if kind not in NEVER_TOOLS)})
    for where, pattern, fits in _patterns(sections):
        if not any(fits(pattern, name) for name in names):
            raise UsageError(
                f"{where}: no tool of this scenario fits {pattern!r:.80}, so the rule would never count",
                hint=did_you_mean(pattern, names),
            )


def _patterns(sections: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[[str, str], bool]]]:
    """Yield the place and the pattern of all rules, and what decides whether a pattern fits a name."""
    access, approvals = sections.get("access"), sections.get("approvals")
    if isinstance(access, AccessSettings):
        for at, rule in enumerate(access.rules):
            yield from ((f"access.rules[{at}]", pattern, _like_a_file) for pattern in rule.tools)
    if isinstance(approvals, ApprovalSettings):
        yield from ((f"approvals.rules[{at}]", gate.tool, matches) for at, gate in enumerate(approvals.rules))


def _like_a_file(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern)
