"""The events of games."""

from collections.abc import Mapping
from typing import Any

from sim.events.event_type import Published, event_type
from sim.kernel.codec import ABSENT, Absent


@event_type("games.round")
class RoundPlayed(Published, frozen=True, gc=False, kw_only=True):
    """A round of a game is over.

    Attributes:
        game: the game.
        generation: the generation, from 1.
        match: the match of this generation, from 1.
        missed: why moves are missing, by player; left out if none is.
        played: for each match at the time, lists of the players, of their moves after noise, and of their payoffs; null
            is a missing move, and no payoff.
        round: the round of this match, from 1.
    """

    game: str
    generation: int
    match: int
    missed: Mapping[str, str] | Absent = ABSENT
    played: list[Any]
    round: int

    def describe(self, topic: str, agent: str | None) -> tuple[str, ...] | None:
        """See `EventData.describe`."""
        return "game", self.game, f"generation {self.generation}, match {self.match}, round {self.round}"


@event_type("games.generation")
class GenerationEnded(Published, frozen=True, gc=False, kw_only=True):
    """The players of a game have taken the strategies of the next generation.

    Attributes:
        game: the game.
        next: how many players have each strategy in the next generation.
        of: the generation that is over, from 1.
    """

    game: str
    next: Mapping[str, int]
    of: int
