"""Clocks that jump."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sim.runner import run
from sim.runner.options import Backend
from sim.scenario import loads
from tests.faults.test_effects import both_hosts

SCENARIO = """
name: jumps
seed: 5
until: 2s
limits: {steps: {agent: 4 per 1s}}
costs: {publish: {steps: 1}}
agents:
  - name: walker
    count: 3
    loop: {min_loop_delay: 200ms}
    rules:
      - {when: chance(0.5), do: {publish: {topic: step.made}}}
"""


def jumping(*, nanoseconds: bool) -> Iterator[float]:
    """Give wall times that jump an hour forward or back at each look."""
    start = time.time()
    for number in itertools.count():
        seconds = start + (3600 if number % 2 else -3600)
        yield int(seconds * 1e9) if nanoseconds else seconds


@both_hosts
@pytest.mark.parametrize("options", [{}, {"clock": "wall", "speed": 20}], ids=["virtual", "wall"])
def test_a_wall_clock_that_jumps_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, options: dict[str, Any]
):
    """The wall clock is a label only. Durations, windows and pacing use the monotonic clock: the hash is the same."""
    expected = run(loads(SCENARIO), backend=backend).hash
    looks, whole_looks = jumping(nanoseconds=False), jumping(nanoseconds=True)
    monkeypatch.setattr(time, "time", lambda: next(looks))
    monkeypatch.setattr(time, "time_ns", lambda: next(whole_looks))
    assert run(loads(SCENARIO), backend=backend, **options).hash == expected
