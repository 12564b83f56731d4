"""Checks: whether games and players of a scenario fit each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from sim.agents.family import is_kind
from sim.base.errors import UsageError
from sim.base.expressions import no_such
from sim.kinds.games.prompts import MODEL
from sim.kinds.games.service import PLAYER
from sim.kinds.games.settings import GameSettings
from sim.kinds.games.strategies import known_strategies


def check_games(scenario: Any, until_ns: int | None = None) -> None:
    """Refuse games and players that do not fit each other. See `Family.check`."""
    games: Mapping[str, GameSettings] = scenario.sections.get("games") or {}
    entries = [entry for entry in scenario.agents if is_kind(entry, PLAYER)]
    taken: dict[str, str] = {}
    for name, game in games.items():
        _check_players(scenario, name, game, entries, several=len(games) > 1)
        for entry in _entries_of(scenario, game, entries):
            if taken.setdefault(entry.name, name) != name:
                raise UsageError(
                    f"agents.{entry.name} plays two games, {taken[entry.name]} and {name}", hint="make two entries"
                )


def _entries_of(scenario: Any, game: GameSettings, players: Sequence[Any]) -> Sequence[Any]:
    names = {*game.players, *game.against}
    if not names:
        return players
    return [entry for entry in scenario.agents if names & {entry.name, getattr(entry, "group", None) or entry.name}]


def _check_players(scenario: Any, name: str, game: GameSettings, players: Sequence[Any], *, several: bool) -> None:
    where = f"games.{name}"
    for own in game.strategies:
        if own in (*known_strategies(game), MODEL):
            hint = f"give yours another name, such as my_{own}"
            raise UsageError(f"{where}.strategies.{own}: a strategy of this name comes with games", hint=hint)
    if not game.players and several:
        raise UsageError(f"{where}.players: with several games, each names its players", hint="players: [ENTRY]")
    if not _entries_of(scenario, game, players):
        hint = f"add agents of the kind {PLAYER}, or name other entries in `players`"
        raise UsageError(f"{where}: it has no players", hint=hint)
    if game.pairing == "network" and scenario.places is None:
        raise UsageError(f"{where}.pairing: a network has places, but the scenario has none", hint="add `places:`")
    if game.inheritance is not None:
        for entry in _entries_of(scenario, game, players):
            if not is_kind(entry, PLAYER):
                hint = f"use the kind {PLAYER}, or leave out `inheritance`"
                raise UsageError(
                    f"{where}.inheritance: agents.{entry.name} has no strategy that others could take", hint=hint
                )


def _plays(scenario: Any, game: GameSettings, entry: Any) -> bool:
    return any(one is entry for one in _entries_of(scenario, game, (entry,)))


def check_params(scenario: Any, entry: Any, params: Mapping[str, Any]) -> None:
    """Refuse players whose strategy or wording their game does not have. See `Family.fits`."""
    games: Mapping[str, GameSettings] = scenario.sections["games"]
    named_game = next(((name, one) for name, one in games.items() if _plays(scenario, one, entry)), None)
    if named_game is None:
        return
    (name, game), where = named_game, f"agents.{entry.name}.params"
    strategy, wording = params.get("strategy"), params.get("wording")
    if strategy == MODEL and scenario.models is None:
        raise UsageError(
            f"{where}.strategy: it asks a language model, but the scenario has none", hint="add `models: {}`"
        )
    strategies = [*known_strategies(game), *game.strategies, MODEL]
    if strategy and strategy not in strategies:
        hint = f"add it to games.{name}.strategies; there are {', '.join(strategies)}"
        raise no_such(f"{where}.strategy: there is no strategy", strategy, strategies, hint)
    if wording and wording not in game.wordings:
        hint = f"add it to games.{name}.wordings"
        raise no_such(f"{where}.wording: there is no wording", wording, game.wordings, hint)
