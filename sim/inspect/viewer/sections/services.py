"""What agents share, in numbers: tools, tasks, memories and the like, at the end of a run."""

from sim.inspect.viewer.section import Json, Section
from sim.world.service import rows_of


class Services(Section):
    """Takes the numbers of services from the summary of the run."""

    title = "Services"
    place = 130
    topics = ()

    def to_json(self) -> Json:
        """Return the numbers; None if there are none, or the run has not ended."""
        rows = rows_of((self.folds.stored.info.summary or {}).get("services"))
        return [{"service": service, "name": name, "value": value} for service, name, value in rows] or None
