"""Which events of a run are recorded at which level, see `sim.kernel.levels`."""

from typing import Any, Final, cast

from sim.agents.events import SurveyAnswered
from sim.kernel import Kernel, Recorder
from sim.kernel.levels import Level
from sim.kernel.rows import EventRow
from sim.record.audit_chain import AuditRecord
from sim.runner.events import InterventionApplied, InterventionRefused, MetricSampled, StateSampled
from sim.world import World
from sim.world.events import Observed

SAMPLES: Final = frozenset(
    kind.TOPIC
    for kind in (
        MetricSampled,
        StateSampled,
        Observed,
        SurveyAnswered,
        InterventionApplied,
        InterventionRefused,
        AuditRecord,
    )
)
"""The topics that are recorded at the level `samples`. The chain of audit records is always whole."""


class Sieve:
    """A recorder that passes on the events of some topics, and everything else.

    Args:
        inner: the recorder.
        kept: the topics.

    Attributes:
        inner: the recorder.
    """

    def __init__(self, inner: Recorder, kept: frozenset[str]) -> None:
        self.inner = inner
        self._kept = kept

    def event(self, row: EventRow, /) -> None:
        """Pass on an event if its topic is recorded."""
        if row[6] in self._kept:
            self.inner.event(row)

    def __getattr__(self, name: str) -> Any:
        """Return any other method or attribute of the inner recorder."""
        return getattr(self.inner, name)


def at_level(world: World, recorder: Recorder, level: Level) -> Recorder:
    """Return the recorder that a world gets if this much is recorded. What wraps it gets all events."""
    world.dispatcher.only_seen = level == "changes"
    return cast(Recorder, Sieve(recorder, SAMPLES)) if level == "samples" else recorder


def skip_early(kernel: Kernel) -> None:
    """Leave out events before their rows are made, if nothing but the record gets them."""
    recorder = kernel.recorder
    if isinstance(recorder, Sieve):
        kernel.recorder, kernel.kept = recorder.inner, SAMPLES
