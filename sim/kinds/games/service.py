"""The games of a world: who plays, the present round of each, and what was played."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from sim.agents.toolbox import Toolbox
from sim.base.errors import ActorError
from sim.base.expressions import did_you_mean
from sim.kernel import NS
from sim.kernel.codec import ABSENT
from sim.kernel.groups import first_of_ns
from sim.kernel.waits import Signal
from sim.kinds.games.events import GenerationEnded, RoundPlayed
from sim.kinds.games.matches import (
    MOST_MATCHES,
    Match,
    draw_matches,
    inherited,
    note,
    number_of_matches,
    pay,
    with_noise,
)
from sim.kinds.games.seat import Move, Seat
from sim.kinds.games.settings import GameSettings
from sim.world import Refused, Service, Warned, World

PLAYER: Final = "player"
"""The kind of agents that play by strategies."""


@attrs.define
class Tally:
    """The sums of one player or game.

    Attributes:
        payoff: the sum of payoffs.
        rounds: how many rounds of matches were paid.
        cooperation: how many moves were cooperative; in a public good, the sum of the shares of the endowment.
    """

    payoff: float = 0.0
    rounds: int = 0
    cooperation: float = 0.0

    def add(self, payoff: float, cooperation: float) -> None:
        """Add a round of a match."""
        self.payoff += payoff
        self.rounds += 1
        self.cooperation += cooperation

    @property
    def mean(self) -> float | None:
        """The mean payoff of a round; None: there was none."""
        return self.payoff / self.rounds if self.rounds else None

    @property
    def share(self) -> float | None:
        """The share of cooperation; None: there was no round."""
        return self.cooperation / self.rounds if self.rounds else None


class Game:
    """One game while it is played.

    Args:
        name: its name.
        settings: what is played.
        world: the world.

    Attributes:
        generation, match, round: the present ones, from 1.
        over: whether all is played.
        latest, total: the sums of the latest round and of the whole game.
        tallies: those of each player in this generation.
        standing: those of each player in the latest generation of which a round was played.
        missed: how many moves were missing.
    """

    def __init__(self, name: str, settings: GameSettings, world: World) -> None:
        self.name, self.settings, self._world = name, settings, world
        self.generation, self.match, self.round = 1, 1, 1
        self.over = False
        self.missed = 0
        self.latest, self.total = Tally(), Tally()
        self.tallies: dict[str, Tally] = {}
        self.standing = self.tallies
        self._matches: list[Match] | None = None
        self._seats: dict[str, list[Seat]] = {}
        self._first: list[str] = []  # strategies of the first generation
        self._awaited: dict[str, None] = {}
        self._moves: dict[str, list[Move]] = {}
        self._missing: dict[str, str] = {}
        self._outcomes: dict[str, dict[str, Any]] = {}
        self._done = Signal(world.kernel)

    # -- who plays

    def has(self, agent: Any) -> bool:
        """Return whether an agent plays this game."""
        names = (*self.settings.players, *self.settings.against)
        if not names:
            return bool(agent.kind == PLAYER or hasattr(agent, "choose"))
        return any(self._world.in_group(agent, name) for name in names)

    def _side(self, names: Sequence[str]) -> list[str]:
        agents = self._world.agents.values()
        if names:
            return [one.agent_id for one in agents if one.alive and any(self._world.in_group(one, n) for n in names)]
        return [one.agent_id for one in agents if one.alive and self.has(one)]

    def seats(self, agent_id: str) -> list[Seat]:
        """Return the seats of a player in the present matches; none if it sits out."""
        if self._matches is None:
            self._begin_match()
        return self._seats.get(agent_id, [])

    def _begin_match(self) -> None:
        players, against = self._side(self.settings.players), self.settings.against
        sides = players, (self._side(against) if against else [])
        self._check_number(number_of_matches(self.settings, sides))  # before they are made
        matches = draw_matches(self.settings, sides, self._world, self._draws("pairs", self.generation, self.match))
        self._check_number(len(matches))
        self._matches, self._seats = matches, {}
        for match in matches:
            for seat in match.seats:
                self._seats.setdefault(seat.me, []).append(seat)
        self._await(list(dict.fromkeys((*players, *sides[1]))))

    def _check_number(self, matches: int) -> None:
        if matches > MOST_MATCHES:
            raise ActorError(
                f"the game {self.name} has {matches:,} matches at a time, more than {MOST_MATCHES:,}",
                hint="use pairing: random or network, or fewer players",
            )

    def _await(self, players: Sequence[str]) -> None:
        """Begin a round that ends when all these players have moved."""
        self._awaited = {one: None for one in players if self._world.agents[one].alive}
        for one in self._awaited:
            self.tallies.setdefault(one, Tally())

    def _draws(self, purpose: str, *key: int) -> Any:
        return self._world.kernel.streams.at(f"game {self.name}", purpose, *key)

    # -- a round

    def checked(self, agent_id: str, move: Any) -> list[Move]:
        """Return the moves of an agent, one for each of its seats.

        Args:
            agent_id: the agent.
            move: one move for all seats, or a list with one for each.

        Raises:
            Refused: if they are no moves of the game, or not as many as seats.
        """
        if self.over:
            raise Refused(f"the game {self.name} is over")
        seats = self.seats(agent_id)
        if agent_id not in self._awaited:
            raise Refused(f"{agent_id} came after the match began, and takes part in the next one", skip=True)
        if agent_id in self._moves:
            raise Refused(f"{agent_id} has moved already", skip=True)
        moves = list(move) if isinstance(move, list | tuple) else [move] * len(seats)
        if len(moves) != len(seats):
            raise Refused(f"{agent_id} has {len(seats)} matches in {self.name}, but gives {len(moves)} moves")
        return [_checked(seat, one) for seat, one in zip(seats, moves, strict=True)]

    async def play(self, agent_id: str, moves: list[Move]) -> dict[str, Any]:
        """Make the moves of a player, wait until all have moved, and return what the round was for the player."""
        self._moves[agent_id] = moves
        number = self.generation, self.match, self.round
        if len(self._moves) >= len(self._awaited):
            self._end_round()
        else:
            self._world.waits.begin(agent_id)
            try:
                fired = await first_of_ns(self._done, timeout_ns=self.settings.patience)
            except BaseException:
                if number == (self.generation, self.match, self.round):
                    self._moves.pop(agent_id, None)  # the round is still open: it did not move
                raise
            finally:
                self._world.waits.end(agent_id)
            if fired.index is None and number == (self.generation, self.match, self.round) and not self.over:
                self._end_round()
        return self._outcomes.pop(agent_id)

    def _end_round(self) -> None:
        """Pay the round, record it, and begin the next one."""
        assert self._matches is not None, "a round has matches"
        where = {"generation": self.generation, "match": self.match, "round": self.round}
        draws = self._draws("noise", *where.values()) if self.settings.noise else None
        turn = {one: iter(moves) for one, moves in self._moves.items()}
        self.latest, played = Tally(), []
        for match in self._matches:
            moves = [next(turn[seat.me]) if seat.me in turn else None for seat in match.seats]
            if draws is not None:
                moves = [with_noise(seat, move, draws) for seat, move in zip(match.seats, moves, strict=True)]
            payoffs = pay(match, moves)
            note(match, moves, payoffs)
            self.missed += moves.count(None)
            played.append([[seat.me for seat in match.seats], moves, payoffs])
            self._count(match, moves, payoffs)
        for one in self._awaited:
            if one not in self._moves:
                self.miss(one, f"it did not move within {self.settings.patience / NS:g} s")
        missed = self._missing or ABSENT
        self._world.event_bus.report(RoundPlayed(game=self.name, **where, missed=missed, played=played))
        self._missing = {}
        players, moved = list(dict.fromkeys((*self._awaited, *self._moves))), list(self._moves)
        results = {one: self._outcome(one, where) for one in moved}
        self._moves, self.standing = {}, self.tallies
        self._advance(players)
        self._outcomes |= {one: {**result, "over": self.over} for one, result in results.items()}
        self._done.fire()

    def miss(self, player: str, why: str) -> None:
        """Note why a move of the present round is missing."""
        self._missing[player] = why

    def _count(self, match: Match, moves: Sequence[Move], payoffs: Sequence[float | None]) -> None:
        for number, seat in enumerate(match.seats[: 1 if match.twin else None]):
            payoff, move = payoffs[number], moves[number]
            if payoff is None:
                continue
            good = self.settings.public_good
            cooperation = float(move == seat.c) if good is None else float(move or 0) / good.endowment
            for tally in (self.latest, self.total, self.tallies[seat.me]):
                tally.add(payoff, cooperation)

    def _outcome(self, player: str, where: Mapping[str, int]) -> dict[str, Any]:
        """Return what the latest round was for a player: one entry of each list for each of its seats."""
        seats = self._seats.get(player, [])
        paid = [seat.payoffs[-1] for seat in seats if seat.payoffs[-1] is not None]
        return {
            **where,
            "others": [list(seat.others) for seat in seats],
            "mine": [seat.mine[-1] for seat in seats],
            "theirs": [seat.theirs[-1] for seat in seats],
            "payoff": sum(paid) if paid else None,
        }

    def _advance(self, players: Sequence[str]) -> None:
        """Go to the next round, match or generation."""
        settings = self.settings
        ended = self.round >= settings.rounds
        if not ended and settings.ends:
            ended = self._draws("ends", self.generation, self.match, self.round).chance(settings.ends)
        if not ended:
            self.round += 1
            self._await(players)
            return
        if self.match < settings.matches:
            self.match, self.round, self._matches = self.match + 1, 1, None
            return
        if settings.inheritance is None or self.generation >= settings.inheritance.generations:
            self.over = True
            return
        self._inherit()
        self.generation, self.match, self.round, self._matches = self.generation + 1, 1, 1, None
        self.tallies = {}

    def _inherit(self) -> None:
        """Give each player the strategy of its parent."""
        agents = self._world.agents
        strategies = {one: str(agents[one].state["strategy"]) for one in self.tallies}
        self._first = self._first or list(dict.fromkeys(strategies.values()))
        partners = {one: [other for seat in self._seats.get(one, []) for other in seat.others] for one in strategies}
        means = {one: tally.mean for one, tally in self.tallies.items()}
        draws = self._draws("parents", self.generation)
        new = inherited(self.settings, strategies, means, partners, self._first, draws)
        counts = {name: list(new.values()).count(name) for name in dict.fromkeys((*self._first, *new.values()))}
        self._world.event_bus.report(GenerationEnded(game=self.name, next=counts, of=self.generation))
        for player, strategy in new.items():
            agents[player].state["strategy"] = strategy


def _checked(seat: Seat, move: Any) -> Move:
    good = seat.game.public_good
    if move is None:
        return None
    if good is not None:
        if isinstance(move, bool) or not isinstance(move, int | float) or not 0 <= move <= good.endowment:
            raise Refused(f"a contribution is a number from 0 to {good.endowment:g}, not {move!r:.60}")
        return float(move)
    if move not in seat.moves:
        hint = did_you_mean(str(move), seat.moves)
        raise Refused(f"there is no move {move!r:.60}" + (f"; {hint}" if hint else f": {', '.join(seat.moves)}"))
    return str(move)


class Games(Service):
    """The games of a world.

    Args:
        world: the world.
        settings: the games by name.

    Attributes:
        toolbox: the functions of rules, for strategies that are expressions.
    """

    name: ClassVar[str] = "games"

    def __init__(self, world: World, settings: Mapping[str, GameSettings]) -> None:
        self.games = {name: Game(name, one, world) for name, one in settings.items()}
        self.toolbox = Toolbox(world)

    def of_agent(self, agent: Any) -> Game:
        """Return the game that an agent plays.

        Raises:
            Refused: if it plays none.
        """
        for game in self.games.values():
            if game.has(agent):
                return game
        raise Refused(f"{agent.agent_id} is no player of a game: name its entry in `players`")

    def state(self) -> Any:
        """See `Service.state`."""
        return {
            one.name: [one.generation, one.match, one.round, one.over, one.missed, *attrs.astuple(one.total)]
            for one in self.games.values()
        }

    def metrics(self) -> Mapping[str, float | None]:
        """See `Service.metrics`: of each game, cooperation and welfare in its latest round."""
        return dict(self._numbers())

    def _numbers(self) -> Iterator[tuple[str, float | None]]:
        for one in self.games.values():
            yield f"{one.name}_cooperation", one.latest.share
            yield f"{one.name}_welfare", one.latest.mean
            yield f"{one.name}_generation", one.generation
            yield f"{one.name}_missed", one.missed

    def summary(self) -> Mapping[str, Any]:
        """See `Service.summary`: the means of the whole game."""
        return {
            one.name: {
                "generations": one.generation,
                "moves": one.total.rounds,
                "cooperation": one.total.share,
                "mean payoff": one.total.mean,
                "missing moves": one.missed,
            }
            for one in self.games.values()
        }

    def warnings(self) -> Sequence[Warned]:
        """See `Service.warnings`: games that did not end, and missing moves."""
        return [one for game in self.games.values() for one in _warnings(game)]


def _warnings(game: Game) -> Iterator[Warned]:
    if game.missed:
        hint = "`sim show RUN missed_moves` says whose and why; a longer `patience` waits longer"
        yield Warned(
            f"{game.missed:,} moves of the game {game.name} were missing, so their rounds have no payoff", hint
        )
    if game.over and not game.total.rounds:
        hint = "are there enough players? pairs need two, groups their `size`, and networks neighbours"
        yield Warned(f"no two players met in the game {game.name}, so that it has no payoffs", hint)
    if not game.over:
        left = "it had not begun" if not game.total.rounds else f"it had come to match {game.match}, round {game.round}"
        hint = "use a later `until`; if players failed, mend what their errors say"
        yield Warned(f"the game {game.name} was not over at the end of the run: {left}", hint)
