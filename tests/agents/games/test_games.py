"""Games: who meets whom, what is paid, what is recorded, and how strategies pass on."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.base.errors import ScenarioError, UsageError
from sim.kernel.rng import Streams
from sim.kinds.games.matches import Match, draw_matches, inherited, note, pay, with_noise
from sim.kinds.games.player import Player
from sim.kinds.games.seat import Seat
from sim.kinds.games.settings import GameSettings, Inheritance, PublicGood
from sim.kinds.games.strategies import STRATEGIES
from sim.record import open_run
from sim.scenario import loads
from sim.world import World

DILEMMA = {"c": {"c": 3.0, "d": 0.0}, "d": {"c": 5.0, "d": 1.0}}
PAIR = "payoffs: {c: {c: 3, d: 0}, d: {c: 5, d: 1}}"
RULED = "agents: [{name: a, kind: player}, {name: r}]"
COLUMNS = ("match", "round", "player", "other", "move", "other_move", "payoff", "twin")
TWO = "agents: [{name: a, kind: player}, {name: b, kind: player, params: {strategy: defect}}]"


def draws(*key: object) -> Any:
    """Return random draws."""
    return Streams(1).at("test", "games", *key)


def seats(game: GameSettings, names: str = "ab") -> Match:
    """Return a match of pairs."""
    return Match(tuple(Seat(me, tuple(names.replace(me, "")), game, rounds=game.rounds) for me in names))


def known(values: Any) -> list[float]:
    """Return numbers, after a check that none is missing."""
    assert None not in values
    return list(values)


def played(first: str, second: str, rounds: int = 200) -> tuple[float, float]:
    """Return the sums of payoffs of two strategies that meet."""
    match = seats(GameSettings(payoffs=DILEMMA, rounds=rounds))
    for number in range(rounds):
        moves = [STRATEGIES[name](seat, draws(number)) for name, seat in zip((first, second), match.seats, strict=True)]
        note(match, moves, pay(match, moves))
    return sum(known(match.seats[0].payoffs)), sum(known(match.seats[1].payoffs))


def run(text: str, tmp_path: Path, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Run a scenario, and return its result and the rows of `plays`."""
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    result = sim.run(file, out=tmp_path / "runs", **options)
    with open_run(str(result.run)) as stored:
        rows = stored.query("SELECT match, round, player, other, move, other_move, payoff, twin FROM plays ORDER BY id")
        return result, [dict(zip(COLUMNS, row, strict=True)) for row in rows]


# -- payoffs and matches


@given(st.sampled_from("cd"), st.sampled_from("cd"))
def test_a_pair_is_paid_by_the_matrix(mine, theirs):
    """Each gets the cell of its own move and that of the other."""
    match = seats(GameSettings(payoffs=DILEMMA))
    assert pay(match, [mine, theirs]) == [DILEMMA[mine][theirs], DILEMMA[theirs][mine]]
    assert pay(match, [mine, None]) == [None, None]


def test_the_second_of_a_pair_can_have_payoffs_of_its_own():
    """In the battle of the sexes, both get most for different moves, and a seat knows its own side."""
    rows = {"opera": {"opera": 2.0, "boxing": 0.0}, "boxing": {"opera": 0.0, "boxing": 1.0}}
    columns = {"opera": {"opera": 1.0, "boxing": 0.0}, "boxing": {"opera": 0.0, "boxing": 2.0}}
    game = GameSettings(payoffs=rows, column_payoffs=columns, players=("a",), against=("b",))
    (match,) = draw_matches(game, (["a"], ["b"]), World(), draws())
    assert pay(match, ["opera", "opera"]) == [2, 1]
    assert pay(match, ["boxing", "boxing"]) == [1, 2]


@given(st.lists(st.integers(0, 20), min_size=2, max_size=6), st.sampled_from([0, 1, 2, 3]))
def test_a_public_good_pays_what_is_kept_and_a_share(given_, multiplier):
    """All payoffs together are what was kept, and the contributions times the multiplier."""
    game = GameSettings(public_good=PublicGood(20.0, multiplier))
    match = Match(tuple(Seat(str(n), ("x",), game) for n in range(len(given_))))
    paid = known(pay(match, [float(one) for one in given_]))
    kept = 20 * len(given_) - sum(given_)
    assert sum(paid) == pytest.approx(kept + multiplier * sum(given_))
    assert max(paid) - min(paid) == pytest.approx(max(given_) - min(given_))  # who gives less has more, by as much


@given(st.integers(0, 9), st.booleans())
@settings(max_examples=20)
def test_all_meet_each_other_once(number, itself):
    """With `pairing: all`, each pair of players has one match, and with `itself` each has a twin."""
    players = [f"p{n}" for n in range(number)]
    matches = draw_matches(GameSettings(payoffs=DILEMMA, itself=itself), (players, []), World(), draws())
    pairs = [tuple(seat.me for seat in match.seats) for match in matches]
    twins = [(one, one) for one in players] if itself else []
    assert sorted(pairs) == sorted([*combinations(players, 2), *twins])
    assert [match.twin for match in matches].count(True) == len(twins)


@given(st.integers(2, 20), st.integers(2, 5), st.integers())
@settings(max_examples=30)
def test_groups_that_are_drawn_do_not_overlap(number, size, seed):
    """Each player is in one group at most, groups have their size, and fewer players are left over than a group has."""
    players = [f"p{n}" for n in range(number)]
    game = GameSettings(public_good=PublicGood(size=size), pairing="random")
    groups = [[seat.me for seat in match.seats] for match in draw_matches(game, (players, []), World(), draws(seed))]
    together = [one for group in groups for one in group]
    assert len(set(together)) == len(together) > number - size
    assert {len(group) for group in groups} <= {size}


@given(st.integers(2, 20), st.integers())
@settings(max_examples=30)
def test_pairs_that_are_drawn_do_not_overlap(number, seed):
    """Each player has one partner, but for one of an odd number, who sits out."""
    players = [f"p{n}" for n in range(number)]
    game = GameSettings(payoffs=DILEMMA, pairing="random")
    met = [seat.me for match in draw_matches(game, (players, []), World(), draws(seed)) for seat in match.seats]
    assert len(set(met)) == len(met) == number - number % 2


@given(st.floats(0, 1), st.integers())
def test_noise_gives_another_move(noise, seed):
    """A move stays, or becomes another move of the game; without noise it stays, and with certain noise it does not."""
    game = GameSettings(payoffs=DILEMMA, noise=noise)
    found = with_noise(seats(game).seats[0], "c", draws(seed))
    assert found in ({"c", "d"} if 0 < noise < 1 else {"d"} if noise == 1 else {"c"})


# -- generations


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.floats(0, 10)), min_size=1, max_size=9), st.integers())
@settings(max_examples=40)
def test_strategies_come_from_players_with_a_payoff(players, seed):
    """Without mutation, each takes a strategy of a player that got something; if no player did, its own."""
    strategies = {str(n): strategy for n, (strategy, _) in enumerate(players)}
    means = {str(n): mean for n, (_, mean) in enumerate(players)}
    game = GameSettings(payoffs=DILEMMA, inheritance=Inheritance())
    found = inherited(game, strategies, means, {}, "xyz", draws(seed))
    paid = {strategies[one] for one, mean in means.items() if mean > 0}
    assert set(found.values()) <= paid if paid else found == strategies


def test_the_expected_shares_are_those_of_the_replicator_equation():
    """Over many draws, the share of a strategy is its share of all payoffs: x f / mean f, as the equation says."""
    strategies, means = {"a": "x", "b": "y", "c": "y"}, {"a": 3.0, "b": 1.0, "c": 2.0}
    game = GameSettings(payoffs=DILEMMA, inheritance=Inheritance(background=1.0))
    found = [one for n in range(2000) for one in inherited(game, strategies, means, {}, "xy", draws(n)).values()]
    assert found.count("x") / len(found) == pytest.approx(float(Fraction(4, 9)), abs=0.02)


def test_the_best_partner_is_imitated():
    """Each takes the strategy of the best of its partners and itself; of equals, its own."""
    strategies, means = {"a": "x", "b": "y", "c": "z"}, {"a": 1.0, "b": 2.0, "c": 2.0}
    game = GameSettings(payoffs=DILEMMA, inheritance=Inheritance(by="best"))
    partners = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}
    assert inherited(game, strategies, means, partners, "xyz", draws()) == {"a": "y", "b": "y", "c": "z"}


# -- strategies


@pytest.mark.parametrize(
    ("other", "mine", "theirs"),
    [
        ("tit_for_tat", 600, 600), ("tideman_chieruzzi", 595, 600), ("nydegger", 600, 600), ("grofman", 600, 600),
        ("shubik", 600, 600), ("stein_rapoport", 595, 600), ("friedman", 600, 600), ("davis", 600, 600),
        ("graaskamp", 597, 597), ("downing", 597, 597),
    ],
)  # fmt: skip
def test_tit_for_tat_gets_what_it_got_in_1980(other, mine, theirs):
    """Against programs that draw nothing against it, tit for tat has the points of Axelrod (1980), table 2."""
    assert played("tit_for_tat", other) == (mine, theirs)


@given(st.sampled_from(sorted(STRATEGIES)), st.sampled_from(sorted(STRATEGIES)), st.integers(1, 70))
@settings(max_examples=30, deadline=None)
def test_any_two_strategies_can_meet(one, other, rounds):
    """Each strategy makes a move of the game in each round, against each other one."""
    first, second = played(one, other, rounds)
    assert 0 <= min(first, second) <= max(first, second) <= 5 * rounds
    assert 2 * rounds <= first + second <= 6 * rounds


# -- runs


def test_who_played_what_is_a_table(tmp_path):
    """`plays` has a row for each move, and `standings` their sums, without those of twins."""
    text = f"name: x\nuntil: 1m\ngames: {{g: {{{PAIR}, rounds: 2, itself: true}}}}\n{TWO}"
    result, rows = run(text, tmp_path)
    assert [(r["player"], r["other"], r["move"], r["payoff"], r["twin"]) for r in rows if r["round"] == 1] == [
        ("a", "a", "c", 3, 0), ("a", "a", "c", 3, 1), ("b", "b", "d", 1, 0), ("b", "b", "d", 1, 1),
        ("a", "b", "c", 0, 0), ("b", "a", "d", 5, 0),
    ]  # fmt: skip
    with open_run(result.run) as stored:
        scores = list(stored.query("SELECT player, moves, payoff FROM standings"))
    assert scores == [("b", 4, 8.0), ("a", 4, 7.0)]
    assert result.services["games"]["g"]["moves"] == 8


def test_rules_and_classes_play_too(tmp_path):
    """An agent with rules plays by the action `play`, and a class by `choose`; both learn what was played."""

    class Copy(Player):
        """Plays what the other did, and begins with d."""

        def choose(self, seat: Seat) -> Any:
            return seat.theirs[-1] if seat.theirs else "d"

    text = f"""
name: x
until: 1m
games: {{g: {{{PAIR}, rounds: 3, players: [ruled, copy]}}}}
agents:
  - name: ruled
    state: {{next: c, over: false}}
    rules:
      - {{when: over, do: stop}}
      - {{do: {{play: {{move: "=next"}}}}, set: {{next: "=result.data.theirs[0]", over: "=result.data.over"}}}}
  - {{name: copy, kind: copy}}
"""
    result, _ = run(text, tmp_path, kinds={"copy": Copy})
    with open_run(result.run) as stored:
        moves = list(stored.query("SELECT move, other_move FROM plays WHERE player = 'ruled'"))
    assert moves == [("c", "d"), ("d", "c"), ("c", "d")]
    assert result.states["stopped"] == 2


def test_a_horizon_can_be_unknown(tmp_path):
    """With `horizon: unknown`, `left` is null, so a strategy cannot defect in the last round."""
    for horizon, last in (("known", "d"), ("unknown", "c")):
        text = f"""
name: x
until: 1m
games: {{g: {{{PAIR}, rounds: 3, horizon: {horizon}, strategies: {{sly: "'d' if left == 1 else 'c'"}}}}}}
agents: [{{name: a, count: 2, kind: player, params: {{strategy: sly}}}}]
"""
        _, rows = run(text, tmp_path)
        assert {row["move"] for row in rows if row["round"] == 3} == {last}


def test_a_player_that_is_gone_is_not_waited_for(tmp_path):
    """A missing move is null, without payoff, counted and explained; the next round waits for the others alone."""
    text = f"""
name: x
until: 5m
games: {{g: {{{PAIR}, rounds: 2, matches: 2, patience: 10s, players: [a, b, gone]}}}}
agents:
  - {{name: a, kind: player}}
  - {{name: b, kind: player}}
  - {{name: gone, rules: [{{do: stop}}]}}
"""
    result, rows = run(text, tmp_path)
    assert [row["payoff"] for row in rows if "gone" in (row["player"], row["other"])] == [None] * 8
    assert all(row["payoff"] == 3 for row in rows if "gone" not in (row["player"], row["other"]))
    assert result.services["games"]["g"]["missing moves"] == 4
    assert any("4 moves of the game g were missing" in str(one) for one in result.warnings)
    with open_run(result.run) as stored:
        assert list(stored.query("SELECT player, why FROM missed_moves")) == [("gone", "it did not move within 10 s")]


def test_an_agent_that_comes_later_waits_for_the_next_match(tmp_path):
    """It neither plays in the match that has begun, nor ends a round before another has moved."""
    text = f"""
name: x
until: 1m
games: {{g: {{{PAIR}, rounds: 30, matches: 2}}}}
agents:
  - {{name: a, kind: player}}
  - {{name: b, kind: player, template: true}}
  - {{name: c, kind: player, loop: {{min_loop_delay: 0.5s}}}}
  - {{name: maker, start: 1s, rules: [{{when: iteration == 1, do: {{spawn: {{agent: b}}}}}}, {{do: stop}}]}}
"""
    result, rows = run(text, tmp_path)
    first = [row for row in rows if row["match"] == 1]
    assert {row["player"] for row in first} == {"a", "c"}
    assert len({row["player"] for row in rows if row["match"] == 2}) == 3
    assert all(row["payoff"] == 3 for row in rows)
    assert result.services["games"]["g"]["missing moves"] == 0


WORDED = f"""
name: x
until: 1m
games:
  g:
    {PAIR}
    wordings: {{kind: You are kind., grim: You are grim.}}
models:
  rules:
    - {{name: grim, use: game, system: "*grim*", say: "I choose d."}}
    - {{name: kind, use: game, system: "*kind*", say: c}}
    - {{name: lost, use: game, say: "I do not know."}}
agents: [{{name: a, count: 2, kind: player, params: {{strategy: model, wording: WORDING}}}}]
"""


@pytest.mark.parametrize(("wording", "move"), [("kind", "c"), ("grim", "d"), ('""', None)])
def test_a_model_plays_by_its_wording(wording, move, tmp_path):
    """The wording is in the prompt; an answer that is no move is asked for once more, and is then missing."""
    result, rows = run(WORDED.replace("WORDING", wording), tmp_path)
    assert [row["move"] for row in rows] == [move, move]
    assert result.services["games"]["g"]["missing moves"] == (0 if move else 2)
    with open_run(result.run) as stored:
        assert len(list(stored.query("SELECT 1 FROM llm_calls"))) == (2 if move else 4)


def test_refused_moves_change_nothing(tmp_path):
    """A move that there is not is refused with the nearest one, and the round still waits for it."""
    text = f"""
name: x
until: 20s
games: {{g: {{{PAIR}, players: [a, b], patience: 5s}}}}
agents:
  - {{name: a, rules: [{{do: {{play: {{move: cc}}}}}}]}}
  - {{name: b, rules: [{{do: {{play: {{move: d}}}}}}]}}
"""
    result, rows = run(text, tmp_path)
    assert [(row["player"], row["move"]) for row in rows] == [("a", None), ("b", "d")]
    assert result.refused["play"] > 1


# -- bad input


@pytest.mark.parametrize(
    ("game", "line", "said", "hint"),
    [
        ("{rounds: 3}", 3, "a game has either payoffs or a public_good", "for example payoffs"),
        ("{payoffs: {c: {c: 1}, d: {c: 1}}}", 3, "the other has no move 'd': it has c", "column_payoffs"),
        ("{payoffs: {c: {c: 1, d: 2}, d: {d: 1}}}", 3, "it has d, not c, d", "the same moves of the other"),
        (f"{{{PAIR}, cooperation: e}}", 3, "there is no move 'e'", "there are c, d"),
        (f"{{{PAIR}, strategies: {{s: 'minus[0]'}}}}", 3, "minus", "mine"),
        (f"{{{PAIR}, strategies: {{s: 'chanse(1)'}}}}", 3, "chanse", "chance"),
        (f"{{{PAIR}, pairing: ring}}", 3, "ring", ""),
        (f"{{{PAIR}, noise: 2}}", 3, "noise", ""),
        (f"{{{PAIR}, raunds: 2}}", 3, "unknown key 'raunds'", "rounds"),
        (f"{{{PAIR}, players: [c]}}", 3, "'c'", ""),
        (f"{{{PAIR}, itself: true, pairing: random}}", 3, "a twin is met in pairs", ""),
        (f"{{{PAIR}, against: [b]}}", 3, "nothing says whom they meet", "players"),
        ("{public_good: {}, pairing: random}", 3, "groups are drawn only if", "size"),
        ("{public_good: {size: 1}}", 3, "size", ""),
        ("{public_good: {}, cooperation: c}", 3, "a public_good has none", "leave out"),
    ],
)
def test_a_wrong_game_is_refused_where_it_stands(game, line, said, hint):
    """Each fault names its line, what was expected, and what to do."""
    with pytest.raises(ScenarioError) as caught:
        loads(f"name: x\nuntil: 1m\ngames: {{g: {game}}}\n{TWO}")
    (problem,) = caught.value.problems
    assert problem.line == line
    assert said in str(problem)
    assert hint in f"{problem} {problem.hint}"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (TWO, "agents.a plays a game, which needs `games`", "add `games: {dilemma: {payoffs:"),
        (
            f"games: {{g: {{{PAIR}, strategies: {{defect: \"'c'\"}}}}}}\n{TWO}",
            "of this name comes with games", "my_defect",
        ),
        (f"games: {{g: {{{PAIR}}}}}\n{TWO}".replace("defect", "defekt"), "there is no strategy 'defekt'", "defect"),
        (f"games: {{g: {{{PAIR}}}}}\n{TWO}".replace("defect", "model"), "the scenario has none", "models"),
        (f"games: {{g: {{{PAIR}}}}}\nagents: [{{name: a}}]", "it has no players", "kind player"),
        (f"games: {{g: {{{PAIR}, pairing: network}}}}\n{TWO}", "a network has places", "places"),
        (f"games: {{g: {{{PAIR}}}, h: {{{PAIR}}}}}\n{TWO}", "each names its players", "players"),
        (
            f"games: {{g: {{{PAIR}, players: [a]}}, h: {{{PAIR}, players: [a, b]}}}}\n{TWO}",
            "agents.a plays two games", "two entries",
        ),
        (
            f"games: {{g: {{{PAIR}, players: [a, r], inheritance: {{}}}}}}\n{RULED}",
            "agents.r has no strategy that others could take", "player",
        ),
        (
            f"games: {{g: {{{PAIR}}}}}\nagents: [{{name: a, kind: player, params: {{wording: odd}}}}]",
            "there is no wording 'odd'", "wordings",
        ),
    ],
)  # fmt: skip
def test_games_and_players_that_do_not_fit_are_refused(text, said, hint):
    """Before the run, a sentence says which entry does not fit which game, and what to do."""
    with pytest.raises(UsageError, match=r".") as caught:
        sim.run(loads(f"name: x\nuntil: 1m\n{text}"))
    assert said in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.slow
def test_too_many_matches_are_refused_before_they_are_made():
    """Each with each of very many players is an error that says how many matches it would be, and what to do."""
    text = "name: many\nuntil: 5s\ngames: {d: {payoffs: {c: {c: 3, d: 0}, d: {c: 5, d: 1}}}}\n"
    result = sim.run(loads(text + "agents: [{name: a, kind: player, count: 1000}]\n"), out=None)
    assert result.commonest_error is not None
    assert "the game d has 499,500 matches at a time, more than 200,000" in result.commonest_error


def test_a_game_without_a_meeting_is_reported():
    """One player alone meets nobody: the run says so, because no payoff is not a payoff of 0."""
    text = "name: alone\nuntil: 5s\ngames: {d: {payoffs: {c: {c: 3, d: 0}, d: {c: 5, d: 1}}}}\n"
    result = sim.run(loads(text + "agents: [{name: a, kind: player}]\n"), out=None)
    assert ["no two players met" in str(one) for one in result.warnings] == [True]
