"""Games: players meet in pairs or groups, make moves, and are paid: by a matrix or by a public good.

Modules: `settings` (what a scenario says of a game), `seat` (what a player knows of a match), `matches` (who meets
whom, payoffs, inheritance), `service` (rounds), `strategies`, `player`, `actions`, `prompts` (the text for models),
`checks`, `section`, `events` and `views`.
"""

from typing import TYPE_CHECKING

from sim.base.late import late_names

if TYPE_CHECKING:
    from sim.kinds.games.player import Player

__all__ = ["Player"]

_HOMES = {"player": "Player"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _HOMES)
