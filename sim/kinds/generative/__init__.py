"""Generative agents: residents of the town that remember, reflect, plan their days and talk (Park and others 2023).

J. S. Park, J. C. O'Brien, C. J. Cai, M. R. Morris, P. Liang and M. S. Bernstein, "Generative Agents: Interactive
Simulacra of Human Behavior", UIST 2023. Modules: `settings` (what a scenario says), `scores` (which memories are
recalled), `plans` (what a model writes as a plan), `mind` (what the service keeps of an agent), `service`, `prompts`
(what models are asked), `living` (one look around and what follows from it), `agent`, `actions`, `section`, `events`
and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.generative.agent import GenerativeAgent

__all__ = ["GenerativeAgent"]

_HOMES = {"agent": "GenerativeAgent"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
