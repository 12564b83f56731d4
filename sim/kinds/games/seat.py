"""A seat: what one player knows of one match, which is all that a strategy sees."""

from typing import Any

import attrs

from sim.kinds.games.settings import GameSettings

Move = str | float | None
"""A move by its name, or a contribution; None: none was made in time."""


@attrs.define(eq=False)
class Seat:
    """What one player knows of one match.

    Attributes:
        me: the player.
        others: the players that it meets; for a pair, one.
        game: what is played.
        side: 0 for the first of a pair, 1 for the second one, if these have different payoffs.
        mine: its own moves so far, as they were made, after noise.
        theirs: for a pair, the moves of the other so far; for a group, the mean contribution of the others.
        payoffs: its payoffs so far.
        rounds: how many rounds the match has; None: the players do not know.
        memory: what a strategy remembers of the match.
        moves: the moves that the player has; empty in a public good.
        c: the move that counts as cooperation.
        d: the first move that does not.
    """

    me: str
    others: tuple[str, ...]
    game: GameSettings
    side: int = 0
    mine: list[Any] = attrs.field(factory=list)
    theirs: list[Any] = attrs.field(factory=list)
    payoffs: list[float | None] = attrs.field(factory=list)
    rounds: int | None = None
    memory: dict[str, Any] = attrs.field(factory=dict)

    moves: tuple[str, ...] = attrs.field(init=False)
    c: str = attrs.field(init=False)
    d: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.moves = self.game.moves(self.side)  # computed once: strategies read them in each round
        self.c = self.game.cooperation or next(iter(self.moves), "")
        self.d = next((move for move in self.moves if move != self.c), "")

    @property
    def left(self) -> int | None:
        """How many rounds are left, with the present one; None: the players do not know."""
        return None if self.rounds is None else self.rounds - len(self.mine)

    def payoff(self, mine: str, theirs: str) -> float:
        """Return what a pair of moves pays to this seat."""
        game = self.game
        assert game.payoffs is not None, "only pairs have a matrix"
        if self.side == 0:
            return game.payoffs[mine][theirs]
        return game.payoffs[mine][theirs] if game.column_payoffs is None else game.column_payoffs[theirs][mine]
