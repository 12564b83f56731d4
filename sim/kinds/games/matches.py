"""Matches: who meets whom, what a round of one pays, and what each player takes over from its parents."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from sim.kernel.rng import Draws
from sim.kinds.games.seat import Move, Seat
from sim.kinds.games.settings import GameSettings
from sim.world import World

MOST_MATCHES: Final = 200_000
"""The most matches at the same time."""


@attrs.frozen(eq=False)
class Match:
    """Players that meet. A twin has the second seat of its own player, and its payoffs do not count.

    Attributes:
        seats: the seats of the players.
        twin: whether the second seat is that of a twin.
    """

    seats: tuple[Seat, ...]
    twin: bool = False


def number_of_matches(game: GameSettings, sides: tuple[Sequence[str], Sequence[str]]) -> int:
    """Return how many matches each with each is, before they are made; 0 for other pairings and for groups."""
    first, second = map(len, sides)
    if game.pairing != "all" or game.public_good is not None:
        return 0
    return first * second if game.against else first * (first - 1) // 2 + (first if game.itself else 0)


def draw_matches(
    game: GameSettings, sides: tuple[Sequence[str], Sequence[str]], world: World, draws: Draws
) -> list[Match]:
    """Return the matches that are played at the same time.

    Args:
        game: the game.
        sides: the players, and those that they meet; the second is empty if they meet each other.
        world: the world, for places.
        draws: the random draws of this match.
    """
    rounds = game.rounds if game.horizon == "known" else None

    def match(*players: str) -> Match:
        seats = []
        for number, player in enumerate(players):
            others = (*players[:number], *players[number + 1 :])
            seats.append(Seat(player, others, game, number if game.against else 0, rounds=rounds))
        return Match(tuple(seats), twin=len(players) == 2 and players[0] == players[1])

    if game.public_good is not None:
        return [match(*group) for group in _groups(game, sides[0], world, draws)]
    return [match(*pair) for pair in _pairs(game, sides, world, draws)]


def _pairs(
    game: GameSettings, sides: tuple[Sequence[str], Sequence[str]], world: World, draws: Draws
) -> list[tuple[str, str]]:
    first, second = sides
    if game.pairing == "random":
        one = list(first)
        draws.shuffle(one)
        other = list(second)
        draws.shuffle(other)
        return list(zip(one, other, strict=False)) if second else list(zip(one[::2], one[1::2], strict=False))
    if second:
        return [(one, other) for one in first for other in second]
    pairs = [(one, one) for one in first] if game.itself else []
    if game.pairing == "all":
        return pairs + [(one, other) for number, one in enumerate(first) for other in first[number + 1 :]]
    order = {one: number for number, one in enumerate(first)}
    return pairs + [
        (one, other) for one in first for other in _partners(world, one) if order.get(other, -1) > order[one]
    ]


def _groups(game: GameSettings, players: Sequence[str], world: World, draws: Draws) -> list[tuple[str, ...]]:
    assert game.public_good is not None, "pairs have no groups"
    if game.pairing == "network":
        order = set(players)
        groups = [(one, *(other for other in _partners(world, one) if other in order)) for one in players]
        return [group for group in groups if len(group) > 1]
    size, players = game.public_good.size or len(players), list(players)
    if game.pairing == "random":
        draws.shuffle(players)
    return [tuple(players[start : start + size]) for start in range(0, len(players) - size + 1, size)]


def _partners(world: World, player: str) -> list[str]:
    return [] if world.places is None else world.places.neighbours(player)


def pay(match: Match, moves: Sequence[Move]) -> list[float | None]:
    """Return what each seat of a match gets; None for all if a move is missing."""
    if any(move is None for move in moves):
        return [None] * len(moves)
    good = match.seats[0].game.public_good
    if good is None:
        return [seat.payoff(str(moves[n]), str(moves[1 - n])) for n, seat in enumerate(match.seats)]
    contributions = [float(move or 0) for move in moves]
    share = good.multiplier * sum(contributions) / len(contributions)
    return [good.endowment - own + share for own in contributions]


def note(match: Match, moves: Sequence[Move], payoffs: Sequence[float | None]) -> None:
    """Let the seats of a match know what was played."""
    for number, seat in enumerate(match.seats):
        rest = [*moves[:number], *moves[number + 1 :]]
        seat.mine.append(moves[number])
        seat.theirs.append(rest[0] if seat.game.public_good is None else _mean(rest))
        seat.payoffs.append(payoffs[number])


def _mean(moves: Sequence[Move]) -> float | None:
    numbers = [float(move) for move in moves if move is not None]
    return sum(numbers) / len(numbers) if numbers else None


def with_noise(seat: Seat, move: Move, draws: Draws) -> Move:
    """Return a move, or by chance another one."""
    if move is None or not draws.chance(seat.game.noise):
        return move
    good = seat.game.public_good
    return (
        draws.uniform(0, good.endowment) if good else draws.choice([one for one in seat.moves if one != move] or [move])
    )


def inherited(
    game: GameSettings,
    strategies: Mapping[str, str],
    means: Mapping[str, float | None],
    partners: Mapping[str, Sequence[str]],
    first: Sequence[str],
    draws: Draws,
) -> dict[str, str]:
    """Return the strategy of each player in the next generation.

    Args:
        game: the game.
        strategies: the strategy of each player.
        means: the mean payoff of a round of each player; None: it had none.
        partners: whom each player met.
        first: the strategies of the first generation, each once.
        draws: the random draws of this generation.
    """
    rule = game.inheritance
    assert rule is not None, "there are generations only with inheritance"
    players = list(strategies)
    weights = [max(0.0, rule.background + mean) if (mean := means[one]) is not None else 0.0 for one in players]
    total, result = sum(weights), {}
    for player in players:
        parent = player
        if rule.by == "proportional":
            parent = draws.choices(players, weights)[0] if total > 0 else player
        else:
            for other in partners[player]:  # of equally good ones, itself, then the one that was added first
                theirs, best = means[other], means[parent]
                parent = other if theirs is not None and (best is None or theirs > best) else parent
        mutates = rule.mutation > 0 and draws.chance(rule.mutation)
        result[player] = draws.choice(first) if mutates else strategies[parent]
    return result
