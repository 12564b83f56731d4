"""What calls come to, for observers."""

from sim.llm.counts import BOUNDS, Counts, Durations
from sim.llm.types import Attempt


def test_durations_fall_into_their_buckets():
    """A duration belongs to the first bucket whose bound is not below it; the last bucket has no bound."""
    durations = Durations()
    for seconds in (0.0, BOUNDS[0], 0.11, BOUNDS[-1], 10_000.0):
        durations.add(seconds)
    assert durations.buckets == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1]
    assert durations.seconds == BOUNDS[0] + 0.11 + BOUNDS[-1] + 10_000.0
    assert list(BOUNDS) == sorted(BOUNDS)


def test_requests_count_by_model_and_outcome():
    """Every request counts under its model and outcome, those beyond the first of a call as retries as well."""
    counts = Counts()
    counts.in_flight += 2
    counts.ended(
        "p:n", 3.0, [Attempt("p", "m", "rate_limit", 1), Attempt("p", "m", "ok", 1), Attempt("p", "n", "ok", 1)]
    )
    counts.ended("p:m", 1.0, [Attempt("p", "m", "ok", 1)])
    assert counts.in_flight == 0
    assert counts.requests == {("p:m", "rate_limit"): 1, ("p:m", "ok"): 2, ("p:n", "ok"): 1}
    assert counts.retries == {"p:m": 1, "p:n": 1}
    assert counts.durations["p:n"].seconds == 3.0
