"""The section `generative` of a scenario: it gives a world the service of generative agents, and the action `live`."""

from sim.kinds.generative.actions import live
from sim.kinds.generative.service import Generative
from sim.kinds.generative.settings import GenerativeSettings
from sim.world.section import define_section, draws_nothing

define_section("generative", GenerativeSettings, Generative, actions=(live,), draws=draws_nothing)
