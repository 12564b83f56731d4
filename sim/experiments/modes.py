"""The modes that a bench compares, and the settings of a scenario in each mode.

There are two kinds of scenarios. An ordinary scenario has one time axis. A scenario with `execution.sync` has two:
world time and service time. It always runs in ticks, and the bench mode sets how far an agent can run ahead of others.
"""

from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.record.files import Mode
from sim.runner.sync.policies import Sync


@attrs.frozen
class BenchMode:
    """One way to run a scenario.

    Attributes:
        name: the name of the mode.
        says: a description for the page.
        run_mode: the mode of the run of an ordinary scenario.
        overrides: the overrides of an ordinary scenario.
        sync: the value of `execution.sync` for scenarios that set it.
    """

    name: str
    says: str
    run_mode: Mode
    overrides: tuple[str, ...]
    sync: Sync

    @property
    def may_refuse(self) -> bool:
        """Whether some scenarios cannot run in this mode. Such a refusal is not a failure."""
        return any(change.startswith("execution.sync=") for change in self.overrides)

    def settings(self, *, synchronised: bool) -> tuple[Mode, tuple[str, ...]]:
        """Return the mode of the run and the overrides of the scenario.

        Args:
            synchronised: whether the scenario sets `execution.sync`.
        """
        return ("tick", (f"execution.sync={self.sync}",)) if synchronised else (self.run_mode, self.overrides)


def _synchronised(name: str, says: str, sync: Sync) -> BenchMode:
    return BenchMode(name, says, "tick", (f"execution.sync={sync}",), sync)


PARALLEL: Final = "tick-parallel"
"""The baseline of comparisons."""
ORACLE: Final = "oracle"
"""Runs as causal, but knows from an earlier run which agents will see each other."""

MODES: Final = {
    mode.name: mode
    for mode in (
        BenchMode(
            "tick-sequential",
            "Agents act one after another, each on the state that the last one left.",
            "tick",
            ("execution.tick.concurrency=sequential",),
            "sequential",
        ),
        BenchMode(
            PARALLEL,
            "All agents act at once on the state at the start of the tick; a barrier waits for the slowest.",
            "tick",
            ("execution.tick.concurrency=parallel",),
            "barrier",
        ),
        BenchMode(
            "autonomous",
            "No barrier: each agent acts at its own pace; outcomes can differ.",
            "autonomous",
            (),
            "free",
        ),
        _synchronised(
            "causal",
            "As tick-parallel, but an agent runs ahead when nothing that it can see can still change.",
            "causal",
        ),
        _synchronised(
            "causal-radius",
            "As causal, with the published rule: wait for agents near in space and behind in time.",
            "causal-radius",
        ),
        _synchronised(
            ORACLE,
            "The bound with equal events: wait only for agents to be seen, known from an earlier run.",
            "causal",
        ),
    )
}
DEFAULT: Final = ("tick-sequential", PARALLEL, "autonomous", "causal")


def modes_of(names: tuple[str, ...]) -> tuple[BenchMode, ...]:
    """Return the modes with these names, in the order of `MODES`. Without names, return the default modes.

    Raises:
        UsageError: if a name is unknown.
    """
    for name in names:
        if name not in MODES:
            raise UsageError(f"unknown mode {name!r}", hint=f"known modes: {', '.join(MODES)}")
    wanted = set(names or DEFAULT)
    return tuple(mode for mode in MODES.values() if mode.name in wanted)
