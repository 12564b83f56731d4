"""Scores: what those of one measure by one judge say together."""

from sim.experiments.estimate import Estimate
from sim.experiments.scores import Score, summaries


def test_a_run_without_values_does_not_count() -> None:
    """If one of two runs has values, the interval is over its agents, and the summary says one run."""
    scores = [
        Score("r1", 1, "m", "j", "a", value=1.0),
        Score("r1", 1, "m", "j", "b", value=5.0),
        *(Score("r2", 2, "m", "j", agent, error="no model answered") for agent in ("a", "c")),
    ]
    (found,) = summaries(scores, {"m": ()})
    assert (found.runs, found.agents, found.missing) == (1, 2, 2)
    assert found.mean == Estimate.of([1.0, 5.0])


def test_runs_with_options_count() -> None:
    """A run whose scores are options counts, one without any does not; nothing at all is no run."""
    scores = [Score("r1", 1, "m", "j", "a", option="yes"), Score("r2", 2, "m", "j", "a", error="no model answered")]
    (found,) = summaries(scores, {"m": ("yes", "no")})
    assert (found.runs, found.agents, found.missing, found.options) == (1, 1, 1, {"yes": 1, "no": 0})
    (found,) = summaries(scores[1:], {"m": ("yes", "no")})
    assert (found.runs, found.agents, found.missing, found.mean) == (0, 0, 1, None)
