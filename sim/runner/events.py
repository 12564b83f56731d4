"""The events of interventions and samples."""

from collections.abc import Mapping

from sim.events.event_type import EventData, OpenData, event_type
from sim.kernel.codec import ABSENT, Absent, JsonObject


@event_type("intervention.applied")
class InterventionApplied(EventData, frozen=True, gc=False, kw_only=True):
    """An intervention was carried out. What does not apply to it is left out.

    Attributes:
        agents: the number of agents that it concerned.
        does: what it does: `set`, `publish`, `send`, ...
        name: its name.
        questions: the number of questions of a survey.
        set: the values that were set.
        topic: the topic of what was published or sent, or is edited from now on.
    """

    agents: int | Absent = ABSENT
    does: str
    name: str
    questions: int | Absent = ABSENT
    set: JsonObject | Absent = ABSENT
    topic: str | Absent = ABSENT


@event_type("intervention.refused")
class InterventionRefused(EventData, frozen=True, gc=False, kw_only=True):
    """An intervention was not possible.

    Attributes:
        does: what it was to do.
        name: its name.
        reason: why it was not possible.
    """

    does: str
    name: str
    reason: str


@event_type("metric.sample")
class MetricSampled(OpenData, frozen=True, gc=False, kw_only=True):
    """Metrics were sampled; of two samples at one time, the later one counts.

    Attributes:
        values: each value by the name of its metric.
    """

    values: Mapping[str, bool | int | float | None]


@event_type("state.sample")
class StateSampled(OpenData, frozen=True, gc=False, kw_only=True):
    """State variables were sampled.

    Attributes:
        values: by variable, for each agent whose value has changed, its value.
    """

    values: Mapping[str, JsonObject]
