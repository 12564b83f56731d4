"""Scenarios that installed packages offer, by names such as `walkers:walk`."""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path

from sim.agents.packages import SCENARIOS, find_offer, is_offered_name


def find_scenario(scenario: str | PathLike[str], allow: Sequence[str] = ()) -> tuple[Path, tuple[str, ...]]:
    """Return the file of a scenario, and what the scenario may import.

    To name the scenario of a package is to name the package, so that its own kinds of agents and its own graphs are
    allowed with it. Those of other packages are not.

    Args:
        scenario: the path of a scenario file, or PACKAGE:NAME of one that an installed package offers in the group
            `sim.scenarios` of entry points. A file of this name comes first.
        allow: the packages and modules that the operator allows.

    Raises:
        UsageError: if there is no such package or scenario.
    """
    text = fspath(scenario)
    if not is_offered_name(text) or Path(text).exists():
        return Path(scenario), tuple(allow)
    offer = find_offer(SCENARIOS, text)
    return offer.file(), tuple(dict.fromkeys((*allow, offer.package)))
