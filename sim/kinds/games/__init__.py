"""Games: players meet in pairs or groups, make moves, and are paid by a matrix or by a public good.

Modules: `settings` (what a scenario says of a game), `seat` (what a player knows of a match), `matches` (who meets
whom, payoffs, inheritance), `service` (rounds), `strategies`, `player`, `actions`,
`prompts` (what models are told), `checks`, `section` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.games.player import Player
    from sim.kinds.games.seat import Seat
    from sim.kinds.games.section import GAMES
    from sim.kinds.games.service import Games
    from sim.kinds.games.settings import GameSettings, Inheritance, PublicGood
    from sim.kinds.games.strategies import STRATEGIES

__all__ = ["GAMES", "STRATEGIES", "GameSettings", "Games", "Inheritance", "Player", "PublicGood", "Seat"]

_HOMES = {
    "player": "Player",
    "seat": "Seat",
    "section": "GAMES",
    "service": "Games",
    "settings": "GameSettings Inheritance PublicGood",
    "strategies": "STRATEGIES",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
