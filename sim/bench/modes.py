"""The modes that a bench compares, and how a scenario is run in each.

There are two kinds of scenario. An ordinary one has one axis of time. One whose `execution.sync` is set has two, world
time and service time; it always runs in ticks, and its mode says how far an agent may run ahead of the others.
"""

from typing import Final

import attrs

from sim.errors import UsageError
from sim.runner import Mode as RunMode
from sim.sync.policies import Sync


@attrs.frozen
class Mode:
    """One way to run a scenario.

    Attributes:
        name: by which it is chosen.
        says: what it means, for people.
        run_mode: of an ordinary scenario.
        overrides: what is changed in an ordinary scenario.
        sync: the value of `execution.sync` where that is set.
    """

    name: str
    says: str
    run_mode: RunMode
    overrides: tuple[str, ...]
    sync: Sync

    @property
    def may_refuse(self) -> bool:
        """Whether the mode has no meaning for some scenarios, which is no failure."""
        return any(change.startswith("execution.sync=") for change in self.overrides)

    def settings(self, *, synchronised: bool) -> tuple[RunMode, tuple[str, ...]]:
        """Return the mode of the run and the changes to the scenario.

        Args:
            synchronised: whether `execution.sync` is set in the scenario.
        """
        return ("tick", (f"execution.sync={self.sync}",)) if synchronised else (self.run_mode, self.overrides)


def _synchronised(name: str, says: str, sync: Sync) -> Mode:
    return Mode(name, says, "tick", (f"execution.sync={sync}",), sync)


PARALLEL: Final = "tick-parallel"
"""What the others are compared with."""
ORACLE: Final = "oracle"
"""It is run as causal, but it knows from a run before who will see whom."""

MODES: Final = {
    mode.name: mode
    for mode in (
        Mode(
            "tick-sequential", "One agent after the other, each on what its predecessors left; all wait for the last.",
            "tick", ("execution.tick.concurrency=sequential",), "sequential",
        ),
        Mode(
            PARALLEL, "All agents at once on the state at the start of the tick; a barrier waits for the slowest.",
            "tick", ("execution.tick.concurrency=parallel",), "barrier",
        ),
        Mode(
            "autonomous", "No barrier: each agent in its own rhythm, whoever else is late; outcomes may differ.",
            "autonomous", (), "free",
        ),
        _synchronised(
            "causal", "As tick-parallel, but an agent runs ahead once nothing in its sight can change any more.",
            "causal",
        ),
        _synchronised(
            "causal-radius", "As causal, with the published rule: who is near in space and behind in time holds it.",
            "causal-radius",
        ),
        _synchronised(
            ORACLE, "The bound with equal events: an agent waits only for whom it will see, which nobody can know.",
            "causal",
        ),
    )
}  # fmt: skip
DEFAULT: Final = ("tick-sequential", PARALLEL, "autonomous", "causal")


def modes_of(names: tuple[str, ...]) -> tuple[Mode, ...]:
    """Return the modes of these names in the order of `MODES`; the usual four if there are none.

    Raises:
        UsageError: if there is no such mode.
    """
    for name in names:
        if name not in MODES:
            raise UsageError(f"there is no mode {name!r}", hint=f"the modes are {', '.join(MODES)}")
    wanted = set(names or DEFAULT)
    return tuple(mode for mode in MODES.values() if mode.name in wanted)
