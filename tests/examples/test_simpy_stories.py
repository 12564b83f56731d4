"""What SimPy's documented examples tell, ours tell as well: the same things at the same times, in the same order."""

import pytest

from tests.examples.simpy_stories import STORIES

MENTIONED = {
    "Bank Renege": ("reneges", "is served", "leaves"),
    "Carwash": ("enters", "washed", "leaves"),
    "Machine Shop": ("broke down", "preempted", "works again", "made a part", "other job is done"),
    "Movie Renege": ("sold out", "argues", "buys", "leaves"),
    "Gas Station Refueling": ("truck is called", "truck fills in", "has"),
    "Process Communication": ("reads late", "reads in time"),
    "Event Latency": ("is here",),
}
"""What has to happen in the stories of an example, in some of them at least, for the comparison to say something."""


@pytest.mark.parametrize("example", STORIES)
def test_we_tell_what_simpy_tells(example):
    """Twenty stories of each example, each with other random draws, agree in every line: what happened, and when.

    Lines of one and the same instant are compared as a set: which of several independent processes runs first at one
    instant is given by their keys with us, and by the order of calls with SimPy.
    """
    by_simpy, by_sim = STORIES[example]
    told = set[str]()
    for seed in range(20):
        expected = by_simpy(seed)
        assert len(expected) > 10
        told_by_us = by_sim(seed)
        assert [time for time, _ in told_by_us] == sorted(time for time, _ in told_by_us)
        assert sorted(told_by_us) == sorted(expected), f"seed {seed}"
        told.update(text for _, text in expected)
    for words in MENTIONED[example]:
        assert any(words in text for text in told), words
