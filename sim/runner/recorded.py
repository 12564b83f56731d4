"""The scenario of a recorded run, and what changed during it. One that was edited since is not the one that was run."""

from collections.abc import Iterator
from typing import Any

import attrs

from sim.base.errors import RunError, SimError
from sim.kernel.codec import decode
from sim.record import StoredRun
from sim.record.files import REFERRED, SCENARIO
from sim.record.reader import COPY
from sim.runner.origin import BranchChange
from sim.scenario import Scenario
from sim.scenario.loading import loads, with_changes
from sim.scenario.overrides import value_text


@attrs.frozen
class RecordedChange:
    """A change during a run, by a branch or by somebody outside.

    Attributes:
        at_ns: the simulated nanoseconds from which it holds.
        change: what changes.
        by_branch: whether a branch began with it, which is refused as a whole if the change is not possible. If not,
            somebody outside asked for it, and the record does not have whether it was refused.
    """

    at_ns: int
    change: BranchChange
    by_branch: bool


def changes_of(stored: StoredRun) -> Iterator[RecordedChange]:
    """Yield what branches, and people outside, changed during a run, in order.

    Raises:
        RunError: if an input of the record is no such change.
    """
    rows = stored.query("SELECT id, time_ns, kind, data FROM inputs WHERE kind IN ('branch', 'parameters') ORDER BY id")
    for number, at_ns, kind, data in rows:
        try:
            yield _change(at_ns, kind, decode(data.encode()))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{stored.path}: the input {number} is no change of parameters", hint=COPY) from error


def _change(at_ns: int, kind: str, data: Any) -> RecordedChange:
    if kind == "branch":
        # it is the last input before the time of the branch, one nanosecond earlier
        return RecordedChange(at_ns + 1, BranchChange.from_input(data), by_branch=True)
    overrides = tuple(f"{key}={value_text(value)}" for key, value in data["set"].items())
    return RecordedChange(at_ns, BranchChange(overrides=overrides), by_branch=False)


def recorded_scenario(stored: StoredRun) -> Scenario | None:
    """Return the scenario as run, with the changes of all branches; None if it is missing, changed or not valid now."""
    if stored.scenario_problem() is not None or any(map(stored.referred_problem, REFERRED)):
        return None
    try:
        scenario = loads(recorded_text(stored), str(stored.path / SCENARIO), stored.info.options.get("set", ()))
        return with_changes(scenario, [one for by in changes_of(stored) if by.by_branch for one in by.change.overrides])
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
