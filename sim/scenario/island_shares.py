"""Limits that agents of several islands share: which part of each rate an island has, and the check of `shares`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

import attrs

from sim.base.errors import Problem
from sim.base.expressions import Expression, did_you_mean
from sim.scenario.island_division import Division
from sim.scenario.island_models import LIMITED
from sim.scenario.island_uses import charged_groups_of, expressions_of
from sim.scenario.schema import Agent, RateLimit, Scenario
from sim.scenario.scopes import REFERS
from sim.scenario.sleep import SleepSpec
from sim.scenario.symbols import mapping
from sim.scenario.units import Rate
from sim.scenario.yaml_tree import Map, Mark


@attrs.frozen
class Parts:
    """The rates of a limit on islands.

    Attributes:
        totals: by island, its part of `global`.
        groups: by group and island, its part of the rate of this group.
    """

    totals: Mapping[str, Rate]
    groups: Mapping[tuple[str, str], Rate]


def parts_of(scenario: Scenario, division: Division, name: str) -> Parts:
    """Return what each island has of a limit in which `check_shares` finds no fault.

    A rate that one island uses is whole there. One that several use is divided by their shares; that of a group among
    the islands on which agents of the group use it. An island that does not use a limit has no part in it.

    Args:
        scenario: the scenario.
        division: its islands.
        name: the name of the limit.
    """
    limit, users = scenario.limits[name], _users(scenario, name)
    totals, groups = dict[str, Rate](), dict[tuple[str, str], Rate]()
    if limit.global_ is not None:
        islands = _islands(users, division) if limit.shares is None else list(limit.shares)
        totals = _divided(limit.global_, islands, limit)
    for group, there in _groups(users, division).items() if limit.group is not None else ():
        assert limit.group is not None, "otherwise there is no group"
        groups.update({(group, island): rate for island, rate in _divided(limit.group, there, limit).items()})
    return Parts(totals, groups)


def _divided(rate: Rate, islands: Sequence[str], limit: RateLimit) -> dict[str, Rate]:
    if len(islands) == 1 or limit.shares is None:
        return dict.fromkeys(islands, rate)
    amounts = divided(rate.amount, {island: limit.shares.get(island, 0) for island in islands})
    return {island: attrs.evolve(rate, amount=amount) for island, amount in amounts.items()}


def divided(amount: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide a whole number by shares of any sum, as seats are divided by votes: by largest remainders.

    Each gets the whole part of its exact share. What is left goes, one by one, to the largest remainders; of equal
    ones, to that of the first name.

    Args:
        amount: the whole number.
        shares: by name, a share.
    """
    exact = {name: Fraction(str(share)) for name, share in shares.items()}  # 0.1 is a tenth, as it is written
    whole = sum(exact.values())
    parts = {name: amount * share / whole if whole else Fraction(0) for name, share in exact.items()}
    units = {name: int(part) for name, part in parts.items()}
    by_remainder = sorted(parts, key=lambda name: units[name] - parts[name])  # stable, so equal ones keep their order
    for name in by_remainder[: amount - sum(units.values())]:
        units[name] += 1
    return units


# -- checks


def check_shares(tree: Map, scenario: Scenario, division: Division) -> Iterator[Problem]:
    """Yield limits that several islands use without shares, and shares of no island or of no unit.

    Args:
        tree: the tree of the file.
        scenario: the scenario that was read from it.
        division: its islands.
    """
    written = mapping(tree, "limits")
    for name, limit in scenario.limits.items():
        users, where = _users(scenario, name), f"limits.{name}"
        mark = written.keys_at[name] if isinstance(written, Map) else tree.mark
        shares = mapping(written.get(name), "shares")
        marks = shares.values_at if isinstance(shares, Map) else {}
        unknown = [island for island in limit.shares or () if island not in division.names]
        for island in unknown:
            hint = did_you_mean(island, division.names)
            yield marks.get(island, mark).problem(f"{where}.shares.{island}: there is no island {island!r:.80}", hint)
        used = list(_used_by_several(users, division, limit))
        if not unknown:
            yield from _parts(where, mark, marks, limit, used)


_Used = tuple[str, str, Rate, Sequence[str]]
"""A rate: its key, whose it is in words, the rate, and the islands that use it."""


def _used_by_several(users: Sequence[Agent], division: Division, limit: RateLimit) -> Iterator[_Used]:
    islands = _islands(users, division)
    if limit.global_ is not None and (limit.shares is not None or len(islands) > 1):
        yield "global", "agents of", limit.global_, islands
    for group, there in sorted(_groups(users, division).items()) if limit.group is not None else ():
        if limit.group is not None and len(there) > 1:
            yield "group", f"agents of the group {group!r} on", limit.group, there


def _parts(
    where: str, mark: Mark, marks: Mapping[str, Mark], limit: RateLimit, used: Iterable[_Used]
) -> Iterator[Problem]:
    reported = set[str]()
    for key, whose, rate, islands in used:
        if limit.shares is None:
            hint = f"say what each has of it: {share_each(islands)}"
            yield mark.problem(f"{where}.{key}: {whose} {some_of(islands)} use it", hint)
            continue
        missing = [island for island in islands if island not in limit.shares]
        if missing:
            message = f"{where}.shares: {whose} {some_of(missing)} use the limit, without a share"
            yield mark.problem(message, "give each island that uses it a share")
            continue
        named = list(limit.shares) if key == "global" else islands
        for island, part in _divided(rate, named, limit).items():
            if part.amount == 0 and island not in reported:
                reported.add(island)
                message = f"{where}.shares.{island}: of {rate.amount} units of `{key}`, this share is none"
                yield marks.get(island, mark).problem(message, "give it a larger share, or raise the rate")


_SHOWN: Final = 3  # names of islands in a message


def some_of(islands: Sequence[str]) -> str:
    """Return names of islands in words, at most three."""
    more = f" and {len(islands) - _SHOWN} others" if len(islands) > _SHOWN else ""
    return " and ".join(islands[:_SHOWN]) + more


def share_each(islands: Sequence[str]) -> str:
    """Return how shares of islands are written, of at most three."""
    more = ", ..." if len(islands) > _SHOWN else ""
    return f"`shares: {{{', '.join(f'{island}: 1' for island in islands[:_SHOWN])}{more}}}`"


# -- users


def _users(scenario: Scenario, name: str) -> list[Agent]:
    """Return the entries whose agents use a limit, or read what is left of it."""
    charged = {kind for kind, prices in scenario.costs.items() if name in prices}
    charged |= {"ask"} if name in LIMITED else set()
    return [entry for entry in scenario.agents if _uses(entry, charged, name) or _reads(entry, name)]


def _uses(entry: Agent, charged: set[str], name: str) -> bool:
    dos = [do for rule in entry.rules for do in rule.do]
    return any(do.kind in charged or (do.sleep is not None and _waits(do.sleep, name)) for do in dos)


def _waits(sleep: SleepSpec, name: str) -> bool:
    parts = [part for value in sleep.values.values() if isinstance(value, tuple) for part in value]
    return sleep.values.get("resource") == name or any(isinstance(p, SleepSpec) and _waits(p, name) for p in parts)


def _reads(entry: Agent, name: str) -> bool:
    expressions: Iterator[Expression] = (one for rule in entry.rules for one in expressions_of(rule))
    return any(
        literal.text == name and REFERS.get((literal.function, literal.position)) == "resource"
        for expression in expressions
        for literal in expression.literals
    )


def _islands(users: Iterable[Agent], division: Division) -> list[str]:
    """Return the islands of the agents of some entries, in the order of the file."""
    there = {island for entry in users for island in division.of[entry.name]}
    return [island for island in division.names if island in there]


def _groups(users: Iterable[Agent], division: Division) -> dict[str, list[str]]:
    """Return the groups of the agents of some entries, with their islands in the order of the file."""
    groups: dict[str, set[str]] = {}
    for entry in users:
        for group, there in charged_groups_of(entry, division).items():
            groups.setdefault(group, set()).update(there)
    return {group: [island for island in division.names if island in there] for group, there in groups.items()}
