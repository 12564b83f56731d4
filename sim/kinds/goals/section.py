"""The section `goals` of a scenario: it gives a world the service of goals, and the actions of people."""

from sim.kinds.goals.actions import ACTIONS
from sim.kinds.goals.service import Goals
from sim.kinds.goals.settings import GoalsSettings
from sim.world.section import define_section, draws_nothing

define_section("goals", GoalsSettings, Goals, actions=ACTIONS, draws=draws_nothing)
