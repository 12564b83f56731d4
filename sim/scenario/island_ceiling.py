"""The ceiling of models on islands: which part of it each island has, and the check of its `shares`."""

from collections.abc import Iterator, Mapping

from sim.base.errors import Problem
from sim.base.expressions import did_you_mean
from sim.resources import MICRO, to_micro
from sim.scenario.island_division import Division
from sim.scenario.island_shares import divided, share_each, some_of
from sim.scenario.models import Ceiling
from sim.scenario.schema import Scenario
from sim.scenario.symbols import mapping
from sim.scenario.yaml_tree import Map


def ceilings_of(ceiling: Ceiling) -> Mapping[str, tuple[int | None, int | None]]:
    """Return what each island has of a ceiling in which `check_ceiling` finds no fault: its micro-units and its tokens.

    It is empty for a ceiling without shares: the agents of one island alone spend it.
    """
    if ceiling.shares is None:
        return {}
    money, tokens = ({} if most is None else divided(most, ceiling.shares) for most in _amounts(ceiling).values())
    return {island: (money.get(island), tokens.get(island)) for island in ceiling.shares}


def _amounts(ceiling: Ceiling) -> Mapping[str, int | None]:
    """Return the money in micro-units and the tokens, by key."""
    return {"money": None if ceiling.money is None else to_micro(ceiling.money), "tokens": ceiling.tokens}


def check_ceiling(tree: Map, scenario: Scenario, division: Division) -> Iterator[Problem]:
    """Yield what is wrong with a ceiling of models from which agents of several islands spend.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        division: its islands.
    """
    ceiling, models = None if scenario.models is None else scenario.models.ceiling, mapping(tree, "models")
    if ceiling is None or not isinstance(models, Map):
        return
    mark, where = models.keys_at["ceiling"], "models.ceiling"
    asked = {entry.name for entry in scenario.agents for rule in entry.rules for do in rule.do if do.kind == "ask"}
    users = {island for name in asked for island in division.of[name]}
    islands = [island for island in division.names if island in users]
    if ceiling.shares is None:
        if len(islands) > 1:
            message = f"{where}: agents of {some_of(islands)} spend from it"
            yield mark.problem(message, f"say what each has of it: {share_each(islands)}")
        return
    shares = mapping(models["ceiling"], "shares")
    marks = shares.values_at if isinstance(shares, Map) else {}
    unknown = [island for island in ceiling.shares if island not in division.names]
    for island in unknown:
        hint = did_you_mean(island, division.names)
        yield marks.get(island, mark).problem(f"{where}.shares.{island}: there is no island {island!r:.80}", hint)
    missing = [island for island in islands if island not in ceiling.shares]
    if missing and not unknown:
        message = f"{where}.shares: agents of {some_of(missing)} ask models, without a share"
        yield mark.problem(message, "give each island whose agents ask a share")
    for key, most in _amounts(ceiling).items():
        if not most:  # no call is made anywhere
            continue
        whole = f"of {most:,} tokens" if key == "tokens" else f"of {most / MICRO:g} of money"
        for island, part in divided(most, ceiling.shares).items():
            if part == 0:
                message = f"{where}.shares.{island}: {whole}, this share is none"
                yield marks.get(island, mark).problem(message, "give it a larger share, or raise the ceiling")
