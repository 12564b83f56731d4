"""Checks: whether a feed and the agents of a scenario fit each other."""

from typing import Any

import attrs

from sim.agents.family import is_kind
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.kinds.feed.asking import MODEL
from sim.kinds.feed.service import FEED_USER
from sim.kinds.feed.settings import FeedSettings


def check_feed(scenario: Any, until_ns: int | None = None) -> None:
    """Refuse a feed and users that do not fit each other.

    Args:
        scenario: a checked scenario.
        until_ns: not used.

    Raises:
        UsageError: saying what does not fit.
    """
    feed: FeedSettings | None = scenario.sections.get("feed")
    entries = [entry for entry in scenario.agents if is_kind(entry, FEED_USER)]
    if feed is None:
        if entries:
            raise UsageError(f"agents.{entries[0].name} uses a feed, but the scenario has none", hint="add `feed: {}`")
        return
    if feed.follows.by == "places" and scenario.places is None:
        raise UsageError("feed.follows.by: it needs places, but the scenario has none", hint="add `places:`")
    for entry in entries:
        _check_user(scenario, feed, entry)


def _check_user(scenario: Any, feed: FeedSettings, entry: Any) -> None:
    where = f"agents.{entry.name}"
    by_interest = feed.policy == "interest" or "interest" in feed.mix
    for name, needed, why in (
        ("follows", feed.follows.by == "profile", "feed.follows.by: profile"),
        ("interests", by_interest, "the policy interest"),
    ):
        if needed and name not in entry.state:
            hint = f"give it a state variable or a column `{name}`, with words that are separated by spaces"
            raise UsageError(f"{where}: {why} needs a state variable {name!r}", hint=hint)
    every, reactions = _literal(entry.params, "every"), _literal(entry.params, "reactions")
    if every is not None and not every > 0:
        raise UsageError(f"{where}.params.every: the mean time between visits is above 0 seconds, not {every!r:.60}")
    if reactions == MODEL and scenario.models is None:
        hint = "add `models:`"
        raise UsageError(f"{where}.params.reactions: it asks a language model, but the scenario has none", hint=hint)
    if reactions and reactions not in (*feed.reactions, MODEL):
        known = [*feed.reactions, MODEL]
        hint = did_you_mean(str(reactions), known) or f"there are {', '.join(known)}; add it to feed.reactions"
        raise UsageError(f"{where}.params.reactions: there are no reactions {reactions!r:.60}", hint=hint)


def _literal(params: Any, name: str) -> Any:
    """Return a param if the file gives it as it is; None for an expression, whose value is known only in the run."""
    fields = {} if params is None else attrs.fields_dict(params.declared)
    if name not in fields or name in params.computed:
        return None
    return params.given.get(name, fields[name].default)
