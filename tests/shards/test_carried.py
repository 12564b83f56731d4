"""What metrics on shards read of values that JSON does not have."""

from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.base.errors import CausalityError, RunError
from sim.kernel.codec import as_sent, reader
from sim.runner.shards.protocol import carried, restored
from sim.runner.shards.sharded import on_shards
from sim.scenario import loads
from tests.shards.test_shards import Inside

SCENARIO = """name: values
until: 30s
islands: {latency: 10s, of: {north: [setter], south: [other]}}
limits: {ship: {global: 9 per 1m}}
costs: {publish: {ship: 1}}
agents:
  - name: setter
    start: 1s
    state: {x: 0, ship: ship}
    rules: [{do: noop, set: {x: "=%s"}}]
    loop: {min_loop_delay: 5s}
  - {name: other, rules: [{do: {publish: {topic: own}}}], loop: {min_loop_delay: 5s}}
metrics: {every: 5s, values: {x: "%s"}}
"""


def _both(text: str) -> list[Any]:
    """Return what a run has in one process and on two shards, or why it failed."""
    outcomes: list[Any] = []
    for run in (sim.run, on_shards(2, nullcontext(Inside))):
        try:
            result = run(loads(text), out=None)
            outcomes.append((result.hash, result.metrics))
        except RunError as error:
            outcomes.append((type(error), str(error)))
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("value", ["remaining('no' + 'ne')", "(1, 2)", "{'a': (1, [2])}", "[remaining('no' + 'ne')]"])
def test_metrics_of_values_that_are_no_json_are_those_of_one_process(value: str) -> None:
    """What a rule can set and JSON does not have, numbers that are not finite and tuples, is read by metrics on shards
    as in one process."""
    for metric in (
        "1 if state_of('setter', 'x') == {'a': (1, [2])} else 0",
        "count('setter', 'x', [1, 2])",
        "distinct_values('setter', 'x')",
        "total('setter', 'x')",
    ):
        one, two = _both(SCENARIO % (value, metric))
        assert one == two


def test_a_limit_without_a_part_stops_runs_on_shards_with_the_same_sentence() -> None:
    """A computed name of a limit in which the island has no part ends a run on shards as in one process."""
    one, two = _both(SCENARIO % ("remaining(ship)", "total('setter', 'x')"))
    assert one == two
    assert one[0] is CausalityError
    assert "setter of the island north reads what is left of the limit 'ship', in which this island has no" in one[1]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=3),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), parts, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(VALUES)
def test_each_value_is_restored_from_what_is_carried(value: Any) -> None:
    """What a shard reports of a state variable is read as the same value, in all its parts and their types."""
    assert repr(restored(reader(Any)(as_sent(carried(value))))) == repr(value)
