"""The configuration of a loop: a class and a scenario file are held to the same ranges."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.actors import AgentLoopConfig, WakeCondition
from sim.base.errors import UsageError
from sim.kernel import to_duration, to_ns
from sim.kernel.duration import MAX_NS
from sim.resources import Limit, Rate
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.scenario.schema import LoopConfig
from sim.world import Action
from tests.actors.helpers import Lab

DELAYS = ("min_loop_delay", "max_loop_delay", "resource_check_interval", "cool_down", "restart_period")

WRONG: list[tuple[str, Any]] = [
    ("min_loop_delay", -1),
    ("max_loop_delay", float("nan")),
    ("resource_check_interval", 0),
    ("resource_check_interval", 1e-12),
    ("restart_period", 0),
    ("heartbeat_timeout", 0),
    ("cool_down", -1),
    ("max_consecutive_errors", 0),
    ("max_consecutive_errors", 1.5),
    ("max_restarts", -1),
    ("mailbox_size", 0),
    ("mailbox_size", 1_000_001),
    ("mailbox_policy", "wait"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_out_of_range_is_refused(name: str, value: Any) -> None:
    """What YAML refuses the class refuses, and the message names the value's key or what was expected."""
    with pytest.raises(UsageError):
        AgentLoopConfig(**{name: value})
    with pytest.raises((ValidationError, UsageError)):
        LoopConfig.model_validate({name: value})


def test_both_have_the_same_defaults() -> None:
    """A loop that is made by a program behaves by default as one from a scenario file."""
    made, read = AgentLoopConfig(), LoopConfig()
    for name in LoopConfig.model_fields:
        mine, theirs = getattr(made, name), getattr(read, name)
        assert (round(mine * 10**9) if isinstance(mine, float) else mine) == theirs, name


@given(st.integers(0, MAX_NS))
def test_a_duration_survives_as_it_is(ns: int) -> None:
    """What the core hands on as a duration is read as the same nanoseconds, also where floats are further apart."""
    assert to_ns(to_duration(ns)) == ns


@pytest.mark.parametrize("text", ["1ns", "0.1s", "86400.000000001s", "10368000.000000001s", "31536000.000000001s"])
def test_the_delays_of_a_file_are_those_of_the_loop(text: str) -> None:
    """A delay of a scenario reaches the loop exactly; none gains or loses a nanosecond on the way."""
    loop = ", ".join(f"{name}: {text}" for name in DELAYS)
    agent = f"{{name: a, loop: {{{loop}}}, rules: [{{do: noop}}]}}"
    (found,) = build(loads(f"name: x\nuntil: 10s\nagents: [{agent}]\n")).manager.loops.values()
    assert {to_ns(getattr(found.config, name)) for name in DELAYS} == {to_ns(text)}
    assert found.config.min_delay_ns == found.config.max_delay_ns == to_ns(text)


def test_a_late_sleep_ends_when_it_is_due() -> None:
    """A sleep until a time that no float is, after 104 days and more, ends then, and is recorded so."""
    due = 2**53 + 1
    condition = WakeCondition.parse({"until": to_duration(due), "timeout": to_duration(due)})
    assert condition.timeout_ns == due
    assert [to_ns(condition.describe()[key]) for key in ("value", "timeout")] == [due, due]


def test_a_skipped_iteration_always_lets_time_pass() -> None:
    """An agent without capacity and without a delay looks again after an interval that is never 0."""
    lab = Lab()
    lab.world.rate_tracker.set_limit("calls", Limit(agent=Rate(1, 10**12), policy="skip"))
    lab.world.rate_tracker.consume("a", "calls", 1)
    config = AgentLoopConfig(min_loop_delay=0, resource_check_interval=1e-9)
    loop = lab.add("a", lambda agent: Action("noop"), config=config, started=True)
    lab.kernel.run(1000)
    assert loop.iteration_count == 0
