"""From a checked scenario to a world with its agents and models, ready to run.

Read first: `build.py` (the order of all parts), `agent_factory.py` (agents and their start values), `kind_checks.py`
(which classes agents have, and what these require of the scenario).
"""
