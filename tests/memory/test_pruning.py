"""Pruning deletes what has expired, summarises what fades, applies the cap, and reports all of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import OutOfMemoryError
from sim.kernel import NS, sleep
from sim.memory import PruneReport
from sim.memory.settings import DAY_NS, HOUR_NS
from tests.memory.conftest import Book


async def in_short(agent, memories):
    """A summariser that joins the texts."""
    return "in short: " + ", ".join(memory.content for memory in memories)


async def fails(agent, memories):
    """A summariser whose model does not answer."""
    raise RuntimeError("no answer")


def prune(book, summarise=None):
    """Prune as the daily process does."""
    return book.main(book.memories.prune(summarise))


def test_the_expired_is_deleted(book):
    """A memory past its time is deleted, one at its time is not; the event says which and why."""
    book.add("gone", expires_ns=HOUR_NS - 1)
    book.add("at its time", expires_ns=HOUR_NS)
    book.add("stays")
    book.at(1)
    report = prune(book)
    assert (report.expired, report.pruned, report.summaries) == (1, 1, 0)
    assert book.contents() == ["at its time", "stays"]
    assert book.events("memory.pruned") == [{"agent": "a", "ids": [1], "reason": "expired"}]


def test_old_memories_of_little_importance_become_one_summary(book):
    """Older than 7 days and below 5: one `context` memory from `summary` stands for them, for each agent apart."""
    for agent in ("b", "a"):
        book.add("one", agent, importance=4)
        book.add("two", agent, importance=1)
        book.add("matters", agent, importance=5)
    book.at(24)
    book.add("young", importance=1)
    book.at(7 * 24 + 0.5)
    report = prune(book, in_short)
    assert report == PruneReport(summarised=4, summaries=2)
    assert report.sentence == "Memory maintenance: pruned 4 memories, created 2 summaries"
    assert book.contents() == ["matters", "young", "in short: one, two"]
    summary = book.memories.get("a", 5)
    assert (summary.kind, summary.source, summary.importance, summary.created_ns) == (
        "context",
        "summary",
        6,
        book.lab.kernel.now,
    )
    assert book.events("memory.summarised") == [
        {"agent": "a", "ids": [1, 2], "originals": "delete", "summary": 5},
        {"agent": "b", "ids": [1, 2], "originals": "delete", "summary": 4},
    ]


def test_a_batch_waits_until_there_are_enough(make_book):
    """With `batch`, fewer memories than that are left as they are until more have become old."""
    book = make_book(batch=2)
    book.add("one", importance=1)
    book.at(24)
    book.add("two", importance=1)
    book.at(7 * 24 + 1)
    assert prune(book, in_short) == PruneReport()
    book.at(8 * 24 + 1)
    assert prune(book, in_short) == PruneReport(summarised=2, summaries=1)


def test_exactly_seven_days_is_not_older(book):
    """A memory fades from the nanosecond after seven days on."""
    book.add("x", importance=1)
    book.at(7 * 24)
    assert prune(book, in_short) == PruneReport()
    book.lab.kernel.advance_to(7 * DAY_NS + 1)
    assert prune(book, in_short).summarised == 1


def test_summaries_are_not_summarised_again(book):
    """A summary has the importance of a context memory, so it does not fade: details are lost once, not each week."""
    book.add("x", importance=1)
    book.at(8 * 24)
    prune(book, in_short)
    book.at(60 * 24)
    assert prune(book, in_short) == PruneReport()


def test_archived_originals_are_found_and_not_loaded(make_book):
    """With `originals: archive`, a summarised memory is found by recall, is in no prompt, and fades no more."""
    book = make_book(originals="archive")
    book.add("needle", importance=1)
    book.at(8 * 24)
    assert prune(book, in_short).summarised == 1
    assert [hit.memory.archived for hit in book.memories.recall("a", "needle")] == [True, False]
    assert "in short" in book.memories.load("a", len).text
    assert len(book.memories.load("a", len).memories) == 1
    assert prune(book, in_short) == PruneReport()


def test_if_the_summary_fails_the_originals_stay(book):
    """A failed summary loses nothing: the report names the agent and the reason, and the other agents are served."""
    book.add("x", importance=1)
    book.add("y", "b", importance=1)
    book.at(8 * 24)

    async def fails_for_a(agent, memories):
        return await (fails if agent == "a" else in_short)(agent, memories)

    report = prune(book, fails_for_a)
    assert report == PruneReport(summarised=1, summaries=1, failures={"a": "RuntimeError: no answer"})
    assert report.sentence == (
        "Memory maintenance: pruned 1 memory, created 1 summary; no summary for a, whose memories stay as they are"
    )
    assert book.contents() == ["x"]
    assert prune(book, in_short).summarised == 1, "the next day tries again"


@pytest.mark.parametrize(
    ("text", "why"),
    [(" ", "the summary is empty"), (None, "the summary is not text"), ("\ud800", "half a surrogate pair")],
)
def test_a_summary_that_is_no_text_is_a_failure(book, text, why):
    """What a model returns is checked before anything is deleted."""
    book.add("x", importance=1)
    book.at(8 * 24)

    async def summarise(agent, memories):
        return text

    assert why in prune(book, summarise).failures["a"]
    assert book.contents() == ["x"]


def test_a_long_summary_is_cut(make_book):
    """A summary longer than a memory can be is cut, with a mark."""
    book = make_book(longest=10)
    book.add("x", importance=1)
    book.at(8 * 24)

    async def summarise(agent, memories):
        return "0123456789abc"

    assert prune(book, summarise).summaries == 1
    assert book.contents() == ["012345678…"]


def test_an_error_of_the_process_is_no_failed_summary(book):
    """When memory runs out, the run ends; pruning does not hide it."""
    book.add("x", importance=1)
    book.at(8 * 24)

    async def summarise(agent, memories):
        raise MemoryError

    with pytest.raises((MemoryError, OutOfMemoryError)):
        prune(book, summarise)


def test_what_is_forgotten_meanwhile_does_not_return_in_the_summary(book):
    """A summary takes time. If one of its memories is forgotten meanwhile, the summary is dropped."""
    book.add("secret", importance=1)
    book.add("harmless", importance=1)
    book.at(8 * 24)

    async def slow(agent, memories):
        await sleep(5)
        return await in_short(agent, memories)

    book.lab.kernel.call_at(book.lab.kernel.now + NS, lambda: book.memories.forget("a", 1), book.lab.kernel.scenario)
    report = prune(book, slow)
    assert report.failures == {"a": "a memory was changed while its summary was made"}
    assert book.contents() == ["harmless"]


def test_two_prunings_at_once_make_one_summary(book):
    """The second of two that overlap finds its memories gone, and adds nothing."""
    book.add("x", importance=1)
    book.at(8 * 24)

    async def slow(agent, memories):
        await sleep(5)
        return "short"

    async def both():
        other = book.lab.kernel.spawn("other", book.memories.prune(slow))
        await book.memories.prune(slow)
        await sleep(10)
        return other

    book.main(both())
    assert book.contents() == ["short"]


def test_the_cap_removes_the_least_important_then_the_oldest(make_book):
    """Above the cap the least important go first, of these the oldest; it also takes important ones, and says so."""
    book = make_book(cap=2)
    for importance in (9, 8, 8, 3):
        book.add(f"{importance}", importance=importance)
    report = prune(book)
    assert (report.capped, report.important) == (2, 1)
    assert book.events("memory.pruned") == [{"agent": "a", "ids": [2, 4], "reason": "cap"}]
    assert report.sentence == (
        "Memory maintenance: pruned 2 memories, created 0 summaries; 1 of the deleted ones were important"
    )


def test_the_cap_takes_archived_ones_first(make_book):
    """An archived memory goes before any other, because a summary stands for it."""
    book = make_book(cap=2, originals="archive")
    book.add("archived", importance=4)
    book.at(8 * 24)
    book.add("young", importance=1)
    assert prune(book, in_short).capped == 1
    assert book.contents() == ["young", "in short: archived"]


def test_the_cap_is_100(book):
    """Of 147 memories 100 stay."""
    for _ in range(147):
        book.add()
    report = prune(book)
    assert report.sentence == "Memory maintenance: pruned 47 memories, created 0 summaries"
    assert len(book.contents()) == 100


ADDED = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 10), st.none() | st.integers(0, 20), st.integers(0, 3)),
    max_size=25,
)


@pytest.mark.slow
@given(ADDED, st.integers(1, 6), st.booleans(), st.sampled_from(["delete", "archive"]))
def test_pruning_keeps_its_rules(rows, cap, works, originals):
    """For any memories: the cap holds, nothing expired is left, no important one was summarised, again is a no-op."""
    book = Book(cap=cap, originals=originals)
    told = []
    day = 0
    for agent, importance, expires, days in rows:
        day += days
        book.at(24 * day)
        book.add("x", agent, importance=importance, expires_ns=None if expires is None else (day + expires) * DAY_NS)
    before = {(m.agent, m.id): m for agent in "ab" for m in book.memories.all(agent)}

    async def summarise(agent, memories):
        told.extend(memories)
        return await (in_short if works else fails)(agent, memories)

    report = prune(book, summarise)
    now = book.lab.kernel.now
    assert all(m.importance < 5 and m.created_ns < now - 7 * DAY_NS for m in told)
    after = {(m.agent, m.id): m for agent in "ab" for m in book.memories.all(agent)}
    for agent in "ab":
        kept = [m for m in after.values() if m.agent == agent]
        assert len(kept) <= cap
        assert len(kept) == sum(row[0] == agent for row in rows) if not report.pruned else True
        lost = [
            m for key, m in before.items()
            if m.agent == agent and key not in after and not m.expired(now) and (m not in told or not works)
        ]  # fmt: skip
        rank = lambda m: (not m.archived, m.importance, m.created_ns, m.id)  # noqa: E731 - short
        assert all(rank(m) < rank(other) for m in lost for other in kept)
    assert not any(m.expired(now) for m in after.values())
    assert report.failures.keys() <= set("ab")
    assert bool(report.failures) == (bool(told) and not works)
    assert book.memories.metrics()["held"] == len(after)
    state = book.memories.state()
    again = prune(book, summarise)
    assert (again.pruned, again.summaries) == (0, 0)
    assert book.memories.state() == state
    if works:
        assert again == PruneReport()


def test_reports_add_up():
    """Reports of several agents are added, number by number."""
    one = PruneReport(1, 2, 3, 4, 5, {"a": "x"})
    assert one + PruneReport(1, 1, 1, 1, 1, {"b": "y"}) == PruneReport(2, 3, 4, 5, 6, {"a": "x", "b": "y"})
    assert one.pruned == 6
