"""The settings of games: the section `games` of a scenario, a game for each name."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

import attrs

from sim.agents.toolbox import agent_expression
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean, no_such
from sim.kernel import NS
from sim.world.section import PositiveDuration, Range, Recipient

MOVE_NAMES: Final = ("mine", "theirs", "played", "left", "payoffs", "other", "me", "now", "pi")
"""The names that the expression of a strategy can use."""

Share = Annotated[float, Range(0, 1)]
Payoff = Annotated[float, Range(-1e9, 1e9)]


@attrs.frozen
class PublicGood:
    """A game in which each player keeps what it does not contribute, and all of its group share the contributions.

    Args:
        endowment: what each player gets in each round.
        multiplier: by how much contributions are multiplied before the group shares them equally.
        size: how many players a group has; null: all players are one group.
    """

    endowment: Annotated[float, Range(0.000001, 1e9)] = 20.0
    multiplier: Annotated[float, Range(0, 1e6)] = 1.6
    size: Annotated[int, Range(2, 100_000)] | None = None


@attrs.frozen
class Inheritance:
    """How strategies pass from one generation to the next one. A generation plays all matches.

    Args:
        generations: how many generations play.
        by: `proportional`: each player takes the strategy of a player that is drawn in proportion to payoffs; `best`:
            each takes that of the best of itself and its partners in the last match.
        background: what is added to the mean payoff of a round before players are drawn in proportion to it.
        mutation: the probability that a player takes one of the strategies of the first generation instead, at random.
    """

    generations: Annotated[int, Range(1, 100_000)] = 100
    by: Literal["proportional", "best"] = "proportional"
    background: Annotated[float, Range(0, 1e9)] = 0.0
    mutation: Share = 0.0


@attrs.frozen
class GameSettings:
    """A game: who plays it, what moves pay, and who meets whom how often.

    Args:
        about: what it is, for readers.
        players: the entries or groups whose agents play; empty: all agents of the kind `player`.
        against: the entries or groups that `players` meet, as the second of each pair; empty: each other.
        payoffs: what a player gets, by its own move, then by the move of the other.
        column_payoffs: what the second of a pair gets, by the move of the first, then by its own; null: as `payoffs`,
            seen from its side.
        public_good: the game is a public good, and moves are contributions; null: it has `payoffs`.
        cooperation: the move that counts as cooperation; null: the first one of `payoffs`.
        pairing: who meets whom: `all`, each with each; `random`, pairs or groups that are drawn for each match;
            `network`, those whose places are the same or have an edge.
        itself: whether each player also meets a twin of itself; with `pairing` `all` or `network`.
        rounds: the rounds of a match, at most.
        matches: how many matches follow one another.
        ends: the probability that a match ends after a round.
        horizon: whether players know how many rounds are `left`: `known` or `unknown`.
        noise: the probability that a move is replaced by another one, drawn at random.
        patience: how long a round waits for the last move after the first one; what is missing then has no payoff.
        strategies: further strategies, an expression for each name, for agents of the kind `player`.
        wordings: the instructions for models that play as `player`, a text for each name.
        inheritance: how strategies pass to further generations; null: there is one generation.

    Raises:
        UsageError: if they contradict each other, or a strategy is no expression over the names of `MOVE_NAMES`.
    """

    about: str = ""
    players: tuple[Recipient, ...] = ()
    against: tuple[Recipient, ...] = ()
    payoffs: Mapping[str, Mapping[str, Payoff]] | None = None
    column_payoffs: Mapping[str, Mapping[str, Payoff]] | None = None
    public_good: PublicGood | None = None
    cooperation: str | None = None
    pairing: Literal["all", "random", "network"] = "all"
    itself: bool = False
    rounds: Annotated[int, Range(1, 1_000_000)] = 1
    matches: Annotated[int, Range(1, 1_000_000)] = 1
    ends: Share = 0.0
    horizon: Literal["known", "unknown"] = "known"
    noise: Share = 0.0
    patience: PositiveDuration = 3600 * NS
    strategies: Mapping[str, str] = attrs.field(factory=dict)
    wordings: Mapping[str, str] = attrs.field(factory=dict)
    inheritance: Inheritance | None = None

    def __attrs_post_init__(self) -> None:
        if (self.payoffs is None) == (self.public_good is None):
            raise UsageError("a game has either payoffs or a public_good", hint=_EXAMPLE)
        for problem in (*self._of_payoffs(), *self._of_pairing()):
            raise problem
        for name, text in self.strategies.items():
            agent_expression(text, MOVE_NAMES, f"strategies.{name}")

    def _of_payoffs(self) -> Iterator[UsageError]:
        """Yield what is wrong with the payoffs."""
        if self.public_good is not None:
            for key in ("column_payoffs", "cooperation"):
                if getattr(self, key) is not None:
                    yield UsageError(f"{key}: a public_good has none", hint=f"leave out `{key}`")
            return
        rows, columns = self.moves(0), self.moves(1)
        if not columns:
            yield UsageError("payoffs: there are no moves", hint=_EXAMPLE)
            return
        if self.column_payoffs is None and set(rows) != set(columns):
            yield self._different(rows)
        for key in ("payoffs", "column_payoffs"):
            for row, payoffs in (getattr(self, key) or {}).items():
                if tuple(payoffs) != columns:
                    hint = "each move has the same moves of the other, in the same order"
                    yield UsageError(f"{key}.{row}: it has {', '.join(payoffs)}, not {', '.join(columns)}", hint=hint)
        if self.column_payoffs is not None and tuple(self.column_payoffs) != rows:
            hint = f"both have the moves {', '.join(rows)} of the first player"
            yield UsageError("column_payoffs: its moves are not those of payoffs", hint=hint)
        if self.column_payoffs is not None and not self.against:
            hint = "name in `against` who is the second of each pair"
            yield UsageError("column_payoffs: nothing says who is the second of a pair", hint=hint)
        if self.cooperation is not None and self.cooperation not in rows:
            yield no_such("cooperation: there is no move", self.cooperation, rows)

    def _different(self, rows: tuple[str, ...]) -> UsageError:
        """Return the error for a matrix in which the two players have different moves."""
        columns = self.moves(1)
        odd = next((one for one in columns if one not in rows), None)
        hint = "or give column_payoffs, by the move of the first, then by that of the second"
        if odd is not None:
            near = did_you_mean(odd, rows) or f"the moves are {', '.join(rows)}"
            return UsageError(f"payoffs.{rows[0]}.{odd}: there is no move {odd!r:.60}", hint=f"{near}; {hint}")
        odd = next(one for one in rows if one not in columns)
        what = f"the other has no move {odd!r:.60}: it has {', '.join(columns)}"
        return UsageError(f"payoffs.{odd}: {what}", hint=hint.removeprefix("or "))

    def _of_pairing(self) -> Iterator[UsageError]:
        """Yield what is wrong with who meets whom."""
        if self.itself and (self.pairing == "random" or self.against or self.public_good is not None):
            yield UsageError("itself: a twin is met in pairs of one kind of players, with pairing all or network")
        if self.against and self.public_good is not None:
            yield UsageError("against: a public_good has groups, not pairs", hint="leave out `against`")
        if self.against and not self.players:
            hint = "name in `players` who is the first of each pair"
            yield UsageError("against: nothing says whom they meet", hint=hint)
        if self.against and self.pairing == "network":
            hint = "use pairing: all or random"
            yield UsageError("against: in a network, no player is the second of a pair", hint=hint)
        if self.public_good is not None and self.public_good.size is None and self.pairing == "random":
            hint = "give public_good a `size`, or use pairing: all"
            yield UsageError("pairing: groups are drawn only if they are smaller than all players", hint=hint)
        if self.inheritance is not None and self.against:
            hint = "leave out `against`"
            yield UsageError("inheritance: the two sides of pairs would inherit from each other", hint=hint)

    def moves(self, side: int = 0) -> tuple[str, ...]:
        """Return the moves of the first (0) or second (1) of a pair; empty for a public good."""
        rows = self.payoffs or {}
        return tuple(rows) if side == 0 else tuple(next(iter(rows.values()), ()))


EXAMPLE: Final = "payoffs: {c: {c: 3, d: 0}, d: {c: 5, d: 1}}"
"""The settings of a game, as a file writes them."""

_EXAMPLE: Final = f"for example {EXAMPLE}, or public_good: {{}}"
