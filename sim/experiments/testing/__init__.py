"""Tests of scenarios: runs with many seeds, orders and failures of models, in which properties are checked.

May import: `runner` and below, and the pool of experiments. Read first: `checks.py` (what is watched in a run),
`trial.py` (one run), `campaign.py` (all of them).
"""

from sim.experiments.testing.campaign import run_tests as test
from sim.experiments.testing.decorator import make_property as property  # noqa: A004 - as `sim.property`
from sim.experiments.testing.report import TestReport

__all__ = ["TestReport", "property", "test"]

test.__name__, property.__name__ = "test", "property"  # as the public names; in their modules these would hide others
