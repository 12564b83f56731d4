"""The scenario of a recorded run, for pages about it. One that was edited since is not told as the one that was run."""

from sim.base.errors import SimError
from sim.record import StoredRun
from sim.record.files import GIVEN, SCENARIO
from sim.scenario import Scenario
from sim.scenario.loading import loads_branch


def recorded_scenario(stored: StoredRun) -> Scenario | None:
    """Return the scenario as run, with the changes of a branch; None if it is missing, changed or no longer valid."""
    if stored.scenario_problem() is not None or any(map(stored.given_problem, GIVEN)):
        return None
    changes = (stored.info.origin or {}).get("set", ())
    try:
        return loads_branch(
            recorded_text(stored), str(stored.path / SCENARIO), stored.info.options.get("set", ()), changes
        )
    except SimError:
        return None


def recorded_text(stored: StoredRun) -> str:
    """Return the text of the scenario as run; empty if it cannot be read, or was changed."""
    if stored.scenario_problem() is not None:
        return ""
    try:
        return (stored.path / SCENARIO).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
