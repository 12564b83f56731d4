"""The strategies that come with games: simple ones, and those of Axelrod's first tournament.

R. Axelrod, *Effective choice in the Prisoner's Dilemma*, Journal of Conflict Resolution 24 (1980), 3-25, describes the
fourteen programs in one paragraph each; their code is lost. docs/games.md says what is read how. A strategy is called
with its seat and the random draws of its agent, and returns a move.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import pairwise, product
from typing import Final

from sim.kernel.rng import Draws
from sim.kinds.games.seat import Move, Seat
from sim.kinds.games.settings import GameSettings

Strategy = Callable[[Seat, Draws], Move]
"""Returns the move of a seat."""

STRATEGIES: Final[dict[str, Strategy]] = {}
"""The strategies by name."""

_CHI_SQUARED: Final = 7.815  # the 5 % point at three degrees of freedom
_NYDEGGER: Final = frozenset({1, 6, 7, 17, 22, 23, 26, 29, 30, 31, 33, 38, 39, 45, 49, 54, 55, 58, 61})


def _pair(cooperates: Callable[[Seat, Draws], bool]) -> Strategy:
    """Make a strategy for two moves known: the function says whether it cooperates."""

    @wraps(cooperates)
    def move(seat: Seat, draws: Draws) -> Move:
        return seat.c if cooperates(seat, draws) else seat.d

    STRATEGIES[cooperates.__name__] = move
    return move


def _defected(seat: Seat, ago: int = 1) -> bool:
    """Return whether the other defected a number of rounds ago; before the first round it had not."""
    return len(seat.theirs) >= ago and seat.theirs[-ago] == seat.d


# -- simple ones


@_pair
def cooperate(seat: Seat, draws: Draws) -> bool:
    """Always cooperate."""
    return True


@_pair
def defect(seat: Seat, draws: Draws) -> bool:
    """Always defect."""
    return False


@_pair
def random(seat: Seat, draws: Draws) -> bool:
    """Cooperate with probability 1/2."""
    return draws.chance(0.5)


@_pair
def tit_for_tat(seat: Seat, draws: Draws) -> bool:
    """Cooperate first, then do what the other did (Rapoport)."""
    return not _defected(seat)


@_pair
def win_stay_lose_shift(seat: Seat, draws: Draws) -> bool:
    """Cooperate first, then if both have made the same move (Nowak and Sigmund 1993)."""
    return not seat.mine or seat.mine[-1] == seat.theirs[-1]


@_pair
def generous_tit_for_tat(seat: Seat, draws: Draws) -> bool:
    """As tit for tat, but forgive one defection in three (Nowak and Sigmund 1992)."""
    return not _defected(seat) or draws.chance(1 / 3)


def free_ride(seat: Seat, draws: Draws) -> Move:
    """Contribute nothing."""
    return 0.0


def contribute(seat: Seat, draws: Draws) -> Move:
    """Contribute everything."""
    return _endowment(seat)


def conditional(seat: Seat, draws: Draws) -> Move:
    """Contribute half at first, then what the others did on average (Fischbacher, Gächter and Fehr 2001)."""
    if not seat.theirs or seat.theirs[-1] is None:
        return _endowment(seat) / 2
    return float(seat.theirs[-1])


def _endowment(seat: Seat) -> float:
    assert seat.game.public_good is not None, "the name is one of strategies for public goods"
    return seat.game.public_good.endowment


FOR_GROUPS: Final[dict[str, Strategy]] = {one.__name__: one for one in (free_ride, contribute, conditional)}
"""The strategies for public goods by name."""


def known_strategies(game: GameSettings) -> Mapping[str, Strategy]:
    """Return the strategies that come with games and suit one: of pairs, or of public goods."""
    return STRATEGIES if game.public_good is None else FOR_GROUPS


# -- the first tournament, in the order of its ranking after tit for tat


@_pair
def tideman_chieruzzi(seat: Seat, draws: Draws) -> bool:
    """Tit for tat with punishments that grow with each run of defections, and fresh starts."""
    kept = seat.memory
    if not seat.mine:
        kept.update(owed=0, punishment=0, runs=0, fresh=0, forgiving=0, lead=0.0)
    elif seat.payoffs[-1] is not None:
        kept["lead"] += seat.payoffs[-1] - seat.payoff(seat.theirs[-1], seat.mine[-1])
    if seat.left is not None and seat.left <= 2:
        return False
    if _deserves_fresh_start(seat):
        kept.update(owed=0, punishment=0, runs=0, fresh=len(seat.mine), forgiving=2)
    if kept["forgiving"]:
        kept["forgiving"] -= 1
        return True
    if _defected(seat, 2) and not _defected(seat):  # the other has finished a run of defections
        kept["runs"] += 1
        if kept["runs"] >= 2:
            kept["punishment"] += 1
            kept["owed"] = kept["punishment"]
    if kept["owed"]:
        kept["owed"] -= 1
        return False
    return not _defected(seat)


def _deserves_fresh_start(seat: Seat) -> bool:
    played, since = len(seat.mine), len(seat.mine) - seat.memory["fresh"]
    if since < 20 or (seat.left is not None and seat.left < 10) or seat.memory["lead"] < 10:
        return False
    if _defected(seat) and not _defected(seat, 2):
        return False
    off = seat.theirs.count(seat.d) - played / 2
    return bool(abs(off) >= 3 * (played**0.5) / 2)


@_pair
def nydegger(seat: Seat, draws: Draws) -> bool:
    """Tit for tat for three moves, then by a table of the last three outcomes."""
    played = len(seat.mine)
    if played == 2 and _defected(seat, 2) and not _defected(seat) and seat.mine == [seat.c, seat.d]:
        return False
    if played < 3:
        return not _defected(seat)
    outcomes = [2 * _defected(seat, ago) + (seat.mine[-ago] == seat.d) for ago in (1, 2, 3)]
    return 16 * outcomes[0] + 4 * outcomes[1] + outcomes[2] not in _NYDEGGER


@_pair
def grofman(seat: Seat, draws: Draws) -> bool:
    """Cooperate, but after different moves with probability 2/7 only."""
    return not seat.mine or seat.mine[-1] == seat.theirs[-1] or draws.chance(2 / 7)


@_pair
def shubik(seat: Seat, draws: Draws) -> bool:
    """Punish each departure from cooperation for one move longer than the one before."""
    kept = seat.memory
    kept.setdefault("length", 0)
    if kept.get("owed", 0):
        kept["owed"] -= 1
        return False
    if _defected(seat) and seat.mine[-1] == seat.c:
        kept["length"] += 1
        kept["owed"] = kept["length"] - 1
        return False
    return True


@_pair
def stein_rapoport(seat: Seat, draws: Draws) -> bool:
    """Tit for tat that begins with four cooperations, ends with two defections, and detects random players."""
    played = len(seat.mine)
    if seat.left is not None and seat.left <= 2:
        return False
    if played < 4:
        return True
    if played % 15 == 0:
        seat.memory["random"] = _seems_random(seat)
    return not _defected(seat) and not seat.memory.get("random", False)


def _seems_random(seat: Seat) -> bool:
    """Return whether the transitions of the other's moves look like those of a fair coin, by chi-squared."""
    moves = [move == seat.d for move in seat.theirs]
    counts, expected = Counter(pairwise(moves)), (len(moves) - 1) / 4
    pairs = product((False, True), (False, True))
    return sum(((counts[one] - expected) ** 2 / expected for one in pairs), 0.0) < _CHI_SQUARED


@_pair
def friedman(seat: Seat, draws: Draws) -> bool:
    """Cooperate until the other defects once."""
    return seat.d not in seat.theirs


@_pair
def davis(seat: Seat, draws: Draws) -> bool:
    """Cooperate for ten moves, then until the other has defected once."""
    return len(seat.mine) < 10 or seat.d not in seat.theirs


@_pair
def graaskamp(seat: Seat, draws: Draws) -> bool:
    """Tit for tat for 50 moves and after a test by one defection; against others, rare defections."""
    played, kept = len(seat.mine), seat.memory
    if played == 50:
        return False
    if played < 56:
        return not _defected(seat)
    if played == 56:
        kept["random"], kept["alike"], kept["next"] = _seems_random(seat), _plays_tit_for_tat(seat), played
        kept["next"] += draws.randint(5, 15)
        if kept["alike"]:
            return (
                True  # tit for tat from its beginning, which ends the echo of the test: 597 points against tit for tat
            )
    if kept["random"]:
        return False
    if not kept["alike"] and played >= kept["next"]:
        kept["next"] = played + draws.randint(5, 15)
        return False
    return not _defected(seat)


def _plays_tit_for_tat(seat: Seat) -> bool:
    """Return whether the other has played tit for tat, or, as a twin would, but for the test by one defection."""
    follows = [seat.c, *seat.mine[:-1]]
    return all(follows[n] == theirs or n == 50 for n, theirs in enumerate(seat.theirs))


@_pair
def downing(seat: Seat, draws: Draws) -> bool:
    """Estimate how the other responds to cooperation and to defection, and choose what then pays best for long."""
    if len(seat.mine) < 2:
        return False
    after = {True: [0, 0], False: [0, 0]}  # after own cooperation, defection: how often the other cooperated, of all
    for mine, theirs in zip(seat.mine, seat.theirs[1:], strict=False):
        seen = after[mine == seat.c]
        seen[0] += theirs != seat.d
        seen[1] += 1
    kind, unkind = (seen[0] / seen[1] if seen[1] else 0.5 for seen in (after[True], after[False]))
    both, sucker, tempted, none = (seat.payoff(*pair) for pair in product((seat.c, seat.d), repeat=2))
    always = kind * both + (1 - kind) * sucker
    never = unkind * tempted + (1 - unkind) * none
    in_turn = (kind * tempted + (1 - kind) * none + unkind * both + (1 - unkind) * sucker) / 2
    if always >= max(in_turn, never):
        return True
    return in_turn > never and seat.mine[-1] == seat.d


@_pair
def feld(seat: Seat, draws: Draws) -> bool:
    """Tit for tat that cooperates less and less: with probability 1/2 at the 200th move."""
    return not _defected(seat) and draws.chance(max(0.5, 1 - len(seat.mine) / 400))


@_pair
def joss(seat: Seat, draws: Draws) -> bool:
    """Tit for tat that cooperates in nine of ten cases only."""
    return not _defected(seat) and draws.chance(0.9)


@_pair
def tullock(seat: Seat, draws: Draws) -> bool:
    """Cooperate for eleven moves, then a tenth less often than the other did in the last ten."""
    if len(seat.mine) < 11:
        return True
    return draws.chance(max(0.0, seat.theirs[-10:].count(seat.c) / 10 - 0.1))


@_pair
def name_withheld(seat: Seat, draws: Draws) -> bool:
    """Cooperate with a probability of 0.3 at first, and from 0.3 to 0.7 later, drawn every ten moves."""
    if len(seat.mine) % 10 == 0:
        seat.memory["p"] = draws.uniform(0.3, 0.7) if seat.mine else 0.3
    return draws.chance(seat.memory["p"])
