"""Functions of expressions are declared once: what follows from a declaration."""

from typing import Annotated

import pytest

from sim.agents.metric_functions import MetricFunctions
from sim.agents.toolbox import DRAWS, Toolbox
from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Refers, functions_at, rule_function
from sim.base.expressions.declared import DECLARED, table_of_functions
from sim.scenario import scopes
from sim.scenario.assembly.sync_checks import _LOCAL_FUNCTIONS
from tests.actors.helpers import Lab


def test_lists_follow_from_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name, the call, what arguments refer to, and the row of the table come from the function itself."""
    for key in list(DECLARED):
        monkeypatch.setitem(DECLARED, key, DECLARED[key])  # restored at the end

    @rule_function(place="agent", senses="shared", draws=True, needs=("stock",))
    def _tallest(group: Annotated[str, Refers("group")], least: float = 0) -> str:
        """Return the tallest of a group.

        More.
        """
        return group

    found = functions_at("agent")["tallest"]
    assert (found.call, found.summary, found.refers) == (
        "tallest(group, least?)",
        "the tallest of a group",
        {0: "group", "group": "group"},
    )
    assert "| `tallest(group, least?)` | the tallest of a group |" in table_of_functions()
    assert "tallest" not in functions_at("world", "start", "any")
    with pytest.raises(UsageError, match="a function 'tallest' of rules already"):
        rule_function(place="agent")(_tallest)
    del DECLARED["agent", "tallest"]


def test_a_function_without_a_docstring_is_refused() -> None:
    """The table in the documentation says what each function returns."""
    with pytest.raises(UsageError, match="no docstring"):
        rule_function(place="agent")(lambda: 1)


def test_each_place_has_what_is_declared_for_it() -> None:
    """The toolbox, the metrics, the scopes of the file, and the functions of agents that run ahead agree."""
    lab = Lab()
    civil = {"hour", "weekday", "date"}
    assert set(Toolbox(lab.world).functions) == set(functions_at("any", "agent")) == scopes.functions_of("agent")
    assert set(MetricFunctions(lab.world, lab.manager).functions) == scopes.functions_of("world")
    assert scopes.functions_of("start") == DRAWS - {"richest"} | civil | set(PURE_FUNCTIONS)
    assert set(PURE_FUNCTIONS) | {"in_sight", "position", "chance"} <= _LOCAL_FUNCTIONS
    assert not _LOCAL_FUNCTIONS & {"neighbours", "state_of", "richest", "agents"}
