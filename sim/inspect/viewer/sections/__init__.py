"""The sections of the overview. Each is one module, and a script of the same name that draws it.

    outcome     the metrics of the scenario, and the distributions of what agents observed
    surveys     the answers to surveys, by time and group
    states      how many agents are in each state, and a swimlane for each agent
    events      counts of events by topic, and of actions
    limits      the use of limits, budgets and quotas
    models      calls of language models, with tokens, costs and durations
    effects     work outside the simulation, by kind and outcome
    executions  the tasks of executors as a tree
    tasks       what agents had to do
    gates       the calls that a person had to approve
    channels    what employees posted
    conversations  what people and agents wrote to each other
    services    what agents share, in numbers
    graph       who wrote to whom, and who paid whom
    errors      errors, refusals and alerts
    agents      a row for each agent

A new module in this folder is found by itself.
"""

import inspect
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from sim.inspect.viewer.section import Section


@cache
def sections() -> tuple[type[Section], ...]:
    """Return the sections of this folder, in the order in which they are shown."""
    classes = []
    for module in iter_modules(__path__, f"{__name__}."):
        for _, member in inspect.getmembers(import_module(module.name), inspect.isclass):
            if issubclass(member, Section) and member.__module__ == module.name:
                classes.append(member)
    return tuple(sorted(classes, key=lambda one: (one.place, one.name())))
