"""The effects of a run: work outside the simulation, by kind and outcome, and the latest that failed."""

from sim.inspect.viewer.section import Json, Section

MOST_KINDS = 200
"""The most rows of the table by kind and outcome; the page says how many more there are."""

_LATEST = 100
"""The most failed effects that are listed."""


class Effects(Section):
    """Asks the record for the effects; they are no events."""

    title = "Effects"
    place = 70
    topics = ()

    def to_json(self) -> Json:
        """Return the effects by kind, latency, safety and outcome, and the latest failed ones; None if there were none.

        `left_out` is the number of rows after the most frequent ones that are listed.
        """
        stored = self.folds.stored
        kinds = stored.query(
            "SELECT kind, latency, safety, outcome, count(*), sum(attempts), avg(seconds), max(seconds),"
            " count(*) OVER () FROM calls GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC LIMIT ?",
            (MOST_KINDS,),
        )
        if not kinds:
            return None
        columns = ("kind", "latency", "safety", "outcome", "count", "attempts", "mean", "longest")
        wrong = stored.query(
            "SELECT id, time, agent, kind, outcome, substr(result, 1, 300) FROM calls WHERE outcome <> 'ok'"
            " ORDER BY id DESC LIMIT ?",
            (_LATEST,),
        )
        return {
            "kinds": [dict(zip(columns, row[:-1], strict=True)) for row in kinds],
            "left_out": kinds[0][-1] - len(kinds),
            "wrong": [
                dict(zip(("id", "time", "agent", "kind", "outcome", "result"), row, strict=True)) for row in wrong
            ],
        }
