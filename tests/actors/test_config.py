"""The configuration of a loop: a class and a scenario file are held to the same ranges."""

from typing import Any

import pytest
from pydantic import ValidationError

from sim.actors import AgentLoopConfig
from sim.errors import UsageError
from sim.resources import Limit, Rate
from sim.scenario.schema import LoopConfig
from sim.world import Action
from tests.actors.helpers import Lab

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


def test_a_skipped_iteration_always_lets_time_pass() -> None:
    """An agent without capacity and without a delay looks again after an interval that is never 0."""
    lab = Lab()
    lab.world.rate_tracker.set_limit("calls", Limit(agent=Rate(1, 10**12), policy="skip"))
    lab.world.rate_tracker.consume("a", "calls", 1)
    config = AgentLoopConfig(min_loop_delay=0, resource_check_interval=1e-9)
    loop = lab.add("a", lambda agent: Action("noop"), config=config, started=True)
    lab.kernel.run(1000)
    assert loop.iteration_count == 0
