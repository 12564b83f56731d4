"""The section `executor` of a scenario: it gives a world the service of executors, and the actions of people."""

from sim.kinds.executor.agents import ACTIONS
from sim.kinds.executor.service import Executors
from sim.kinds.executor.settings import ExecutorsSettings
from sim.world.section import define_section, draws_nothing

define_section("executor", ExecutorsSettings, Executors, actions=ACTIONS, draws=draws_nothing)
