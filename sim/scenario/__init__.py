"""Scenario files: read strictly, checked as a whole, and handed on as immutable models.

`yaml_tree` reads YAML into a plain tree with positions, `overrides` changes it for `--set`, `schema` (with
`actions`, `fields`, `units`, `values`) says what may stand where, `known` what names a file declares,
`scopes` what an expression may use, `load` puts them together and reports every problem at once.
"""

from sim.scenario.load import json_schema, load, loads
from sim.scenario.schema import Scenario

__all__ = ["Scenario", "json_schema", "load", "loads"]
