"""The section `chat` of a scenario: it gives a world the service of chats, and the actions of people."""

from sim.kinds.chat.agents import ACTIONS
from sim.kinds.chat.service import Chats
from sim.kinds.chat.settings import ChatSettings
from sim.world.section import define_section, draws_nothing

define_section("chat", ChatSettings, Chats, actions=ACTIONS, draws=draws_nothing)
