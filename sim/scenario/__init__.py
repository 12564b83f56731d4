"""Scenario files: read strictly, and checked as a whole with every problem at once.

In `assembly`, a checked scenario becomes a world. May import: `kinds` and below. Read first: `loading.py` (combines all
steps), `schema.py` (the keys), `assembly/build.py` (from a checked scenario to a world).
"""

from sim.scenario.loading import json_schema, load, loads
from sim.scenario.schema import Scenario

__all__ = ["Scenario", "json_schema", "load", "loads"]
