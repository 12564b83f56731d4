"""Scenario files: read strictly, checked as a whole, and turned into immutable models.

`yaml_tree` reads YAML into a tree with positions; `overrides` changes the tree for `--set`; `schema`, with `actions`,
`sleep`, `schedule`, `interventions`, `models`, `model_rules`, `model_behaviour`, `fields`, `meanings`, `units` and
`values`, defines the models, and `params` those of the params of a class of agents; `packaged` finds scenarios of
installed packages; `graph_files` and `place_graphs` read the graph that places refer to; `live_changes` says what may
change during a run, and checks such changes; `error_text` words the errors of the models; `symbols` collects the
names that a file declares; `scopes` defines what an expression may use; `semantic_checks` and `town` check several
parts together; `load` combines them and reports every problem at once.
"""

from sim.scenario.loading import json_schema, load, loads
from sim.scenario.schema import Scenario

__all__ = ["Scenario", "json_schema", "load", "loads"]
