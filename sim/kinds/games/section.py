"""The section `games` of a scenario: it gives a world its games, and the action `play`."""

from collections.abc import Iterator, Mapping

from sim.kinds.games.actions import play
from sim.kinds.games.service import Games
from sim.kinds.games.settings import EXAMPLE, GameSettings
from sim.world.section import define_section


def _draws(settings: Mapping[str, GameSettings]) -> Iterator[str]:
    for name, game in settings.items():
        if game.pairing == "random":
            yield f"who meets whom in the game {name}"
        if game.noise:
            yield f"which moves of the game {name} are replaced, and by which"
        if game.ends:
            yield f"when a match of the game {name} ends"
        if game.inheritance is not None and game.inheritance.by == "proportional":
            yield f"from whom players of the game {name} take their strategies"
        if game.inheritance is not None and game.inheritance.mutation:
            yield f"which players of the game {name} take a strategy of the first generation at random, and which"


define_section(
    "games", GameSettings, Games, by_name=True, actions=(play,), draws=_draws, example=f"{{dilemma: {{{EXAMPLE}}}}}"
)
