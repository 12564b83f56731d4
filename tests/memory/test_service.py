"""Memories are added, found, loaded, and forgotten, each agent's apart from the others'."""

import pytest

from sim.base.errors import ActorError, LimitError, UsageError
from sim.memory import Memories
from sim.memory.settings import DAY_NS, HOUR_NS
from sim.standalone import World


def test_a_memory_has_the_defaults_of_its_kind(book):
    """Kind, importance and source have defaults: importance 5, 6, 4 and 7 for the four kinds."""
    book.at(2)
    memory = book.add(" A lead answered late. ", related_task_id=4)
    assert (memory.id, memory.agent, memory.kind, memory.importance) == (1, "a", "observation", 5)
    assert (memory.content, memory.created_ns, memory.source) == ("A lead answered late.", 2 * HOUR_NS, "agent")
    assert (memory.expires_ns, memory.related_task_id, memory.archived) == (None, 4, False)
    kinds = {"context": 6, "working_note": 4, "decision_log": 7}
    assert {kind: book.add(kind=kind).importance for kind in kinds} == kinds
    assert book.add(importance=9, source="tool").source == "tool"


def test_adding_is_published_with_the_whole_record(book):
    """`memory.added` carries the record, so that the run file can show every memory."""
    book.add("x", expires_ns=7)
    assert book.events("memory.added") == [
        {
            "agent": "a", "archived": False, "content": "x", "created_ns": 0, "expires_ns": 7, "id": 1,
            "importance": 5, "kind": "observation", "related_task_id": None, "source": "agent",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"content": " \n"}, "needs a text"),
        ({"kind": "observatoin"}, "no kind of memory 'observatoin'; did you mean 'observation'"),
        ({"importance": 0}, "from 1 to 10, not 0"),
        ({"importance": 11}, "from 1 to 10, not 11"),
        ({"importance": True}, "from 1 to 10, not True"),
        ({"importance": 5.0}, "from 1 to 10, not 5.0"),
        ({"source": "admin"}, "the source of a memory is one of agent, tool"),
    ],
)
def test_what_is_not_a_memory_is_refused(book, fields, why):
    """A wrong argument is refused, and nothing is added or published."""
    with pytest.raises(UsageError, match=why):
        book.add(**{"content": "x", **fields})
    assert (book.contents(), book.events("memory.added"), book.memories.state()) == ([], [], None)


def test_text_that_is_not_unicode_is_refused(book):
    """Half a surrogate pair cannot be recorded: nothing is added."""
    with pytest.raises(ActorError, match="half a surrogate pair"):
        book.add("\ud800")
    assert book.memories.state() is None


def test_length_and_number_are_limited(make_book):
    """A text that is too long is refused, and so is one memory more than an agent can have."""
    book = make_book(longest=5, most=2, cap=2)
    with pytest.raises(LimitError, match="6 is over the limit of 5"):
        book.add("123456")
    book.add("12345")
    book.add("2")
    with pytest.raises(LimitError, match="a: memories 3 is over the limit of 2"):
        book.add("3")
    assert book.add("3", agent="b").id == 1, "the limit is for each agent"
    book.do(lambda: book.memories.forget("a", 1))
    assert book.add("3").id == 3, "a number is never used again"


def test_nobody_finds_the_memories_of_another(book):
    """Recall, loading and forgetting see the memories of one agent only, and its statistics count for it only."""
    book.add("the price of the lawn", agent="b")
    book.add("nothing")
    assert book.memories.recall("a", "lawn") == []
    assert book.memories.load("a", len).text.count("\n") == 0
    assert book.memories.recall("nobody", "lawn") == []
    with pytest.raises(UsageError, match="a has no memory 2"):
        book.do(lambda: book.memories.forget("a", 2))


def test_recall_ranks_by_words_then_newest(book):
    """The best match is first; of equal ones the newest; at most as many as asked for."""
    for text in ["the lawn of Jane", "a price", "the lawn of Joe", "lawn lawn"]:
        book.add(text)
    hits = book.memories.recall("a", "Lawn?")
    assert [hit.memory.id for hit in hits] == [4, 3, 1]
    assert hits[0].score > hits[1].score == hits[2].score > 0
    assert [hit.memory.id for hit in book.memories.recall("a", "lawn", limit=1)] == [4]
    assert [hit.memory.id for hit in book.memories.recall("a", "")] == [4, 3, 2, 1]


def test_recall_returns_five_by_default(book):
    """Without a limit, recall returns the five best."""
    for _ in range(7):
        book.add("same")
    assert [hit.memory.id for hit in book.memories.recall("a", "same")] == [7, 6, 5, 4, 3]


@pytest.mark.parametrize("limit", [0, 101, True, 2.0])
def test_a_limit_is_a_number_of_results(book, limit):
    """A limit is a whole number from 1 to 100."""
    with pytest.raises(UsageError, match="1 to 100 results"):
        book.memories.recall("a", "x", limit=limit)


def test_recall_filters_by_kind_task_and_time(book):
    """Filters are applied before the limit."""
    book.add("x", kind="context", related_task_id=1)
    book.at(1)
    book.add("x", related_task_id=2)
    book.add("x", kind="context", related_task_id=2)

    def found(**filters):
        return [hit.memory.id for hit in book.memories.recall("a", "x", **filters)]

    assert found(kind="context") == [3, 1]
    assert found(task=2) == [3, 2]
    assert found(since_ns=HOUR_NS) == [3, 2]
    assert found(kind="context", task=1, limit=1) == [1]
    with pytest.raises(UsageError, match="no kind of memory"):
        found(kind="contxt")


def test_the_expired_is_not_found_before_it_is_pruned(book):
    """A memory is found up to its last nanosecond, and no later, although it is still held."""
    book.add("x", expires_ns=HOUR_NS)
    book.at(1)
    assert book.memories.recall("a", "x")
    book.lab.kernel.advance_to(HOUR_NS + 1)
    assert book.memories.recall("a", "x") == []
    assert book.contents() == []
    assert book.memories.metrics()["held"] == 1


def test_the_index_follows_adding_and_forgetting(book):
    """What is added after the first recall is found, and what is forgotten is not; it is published."""
    book.add("lawn one")
    assert len(book.memories.recall("a", "lawn")) == 1
    book.add("lawn two")
    assert len(book.memories.recall("a", "lawn")) == 2
    assert book.do(lambda: book.memories.forget("a", 1)).content == "lawn one"
    assert [hit.memory.id for hit in book.memories.recall("a", "lawn")] == [2]
    assert book.events("memory.forgotten") == [{"agent": "a", "ids": [1]}]


def test_loading_uses_the_settings_and_the_active_tasks(make_book):
    """The tokens of the settings apply unless others are given; the text has a line for each memory, oldest first."""
    book = make_book(tokens=80)
    book.add("old of a task", related_task_id=7)
    book.at(48)
    book.add("new", importance=2)
    loaded = book.memories.load("a", len, active_tasks={7})
    assert loaded.text == "- [observation, importance 5, from agent] old of a task"
    assert (loaded.tokens, loaded.cut) == (56, 1)
    wide = book.memories.load("a", len, tokens=200, active_tasks={7})
    assert wide.text.endswith("\n- [observation, importance 2, from agent] new")
    assert book.memories.load("a", len).memories[0].content == "new"


def test_the_state_changes_with_every_part(book):
    """The digest sees a content, a task, a session and a deletion; without any memory there is nothing to see."""
    assert book.memories.state() is None
    states = []
    for step in (
        lambda: book.memories.add("a", "x"),
        lambda: book.memories.add("a", "x"),
        lambda: book.memories.forget("a", 2),
        lambda: book.memories.archive("a", "s", [{"a": 1}], "", "r", started_ns=0, completed_ns=0, token_count=1),
        lambda: book.memories.archive("b", "s", [{"a": 2}], "", "r", started_ns=0, completed_ns=0, token_count=1),
    ):
        book.do(step)
        states.append(str(book.memories.state()))
    assert len(set(states)) == 5
    recalled = str(book.memories.state())
    book.memories.recall("a", "x")
    assert str(book.memories.state()) == recalled, "recall changes nothing"


def test_numbers_are_counted(book):
    """Metrics and summary have the numbers of what happened; before anything happens the summary is empty."""
    assert book.memories.summary() == {}
    book.add("x")
    book.add("y")
    book.do(lambda: book.memories.forget("a", 1))
    book.memories.recall("a", "y")
    assert book.memories.summary() == {
        "held": 1, "added": 2, "forgotten": 1, "pruned": 0, "summaries": 0, "recalls": 1, "sessions": 0,
    }  # fmt: skip
    assert book.memories.metrics()["held"] == 1


def test_a_world_without_memories_says_so():
    """Asking a world for memories that it does not have names the section that adds them."""
    with pytest.raises(UsageError) as caught:
        Memories.of(World(0))
    assert str(caught.value) == "this world has no memories"
    assert caught.value.hint == "add `memory:` to the scenario"


def test_default_settings_are_the_stated_ones():
    """Daily pruning leaves 100; prompts have 2,000 tokens; important is 8; a day is recent; a week and below 5 fade."""
    settings = Memories(World(0)).settings
    assert (settings.cap, settings.tokens, settings.important, settings.minor, settings.hits) == (100, 2000, 8, 5, 5)
    assert (settings.recent, settings.old) == (DAY_NS, 7 * DAY_NS)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"important": 4}, "below importance 5 are summarised, but those from 4 on never are"),
        ({"cap": 50, "most": 40}, "pruning leaves 50 memories, but an agent has 40 at most"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(make_book, settings, why):
    """A setting that another one makes meaningless is an error when the scenario is read."""
    with pytest.raises(UsageError, match=why):
        make_book(**settings)
