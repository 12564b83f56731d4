"""Folds and sections: what a class of them has to define, and that one file is enough."""

from pathlib import Path
from typing import Any

import pytest

from sim.actors.events import StateChanged
from sim.base.errors import UsageError
from sim.events.event_type import Malformed
from sim.inspect.viewer import sections as folder
from sim.inspect.viewer.folds import Fold, Folds
from sim.inspect.viewer.section import Data, Event, Section
from sim.inspect.viewer.sections import sections
from tests.viewer.conftest import states


class Steps(Fold):
    """Keeps the topics that it gets."""

    topics = ("step.*", "walk")

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.got: list[tuple[str, Any]] = []
        self.finished = 0

    def add(self, event: Event, data: Data) -> None:
        """Keep an event."""
        self.got.append((event.topic, event.data))

    def finish(self) -> None:
        """Count the ends."""
        self.finished += 1


class Later(Fold):
    """Counts how many steps the other fold has got before it gets the same event."""

    topics = ("step.*",)

    def __init__(self, folds: Folds) -> None:
        super().__init__(folds)
        self.steps, self.seen = folds.of(Steps), list[int]()

    def add(self, event: Event, data: Data) -> None:
        """Look at the other fold."""
        self.seen.append(len(self.steps.got))


def test_a_fold_gets_the_events_of_its_topics(stored):
    """One pass gives each fold the events of its topics, in order, after the folds that it needs."""
    run = stored(
        [(1, "a", "step.left", {"n": 1}), (2, "a", "stop", {}), (3, "a", "walk", 5), (4, "a", "step.right", [])]
    )
    folds = Folds(run)
    later = folds.of(Later)
    assert folds.read().of(Later) is later
    assert folds.of(Steps).got == [("step.left", {"n": 1}), ("walk", 5), ("step.right", [])]
    assert (later.seen, folds.of(Steps).finished) == ([1, 3], 1)


def test_a_fold_gets_data_as_their_event_types(stored):
    """Data are those of the event type of the topic. Malformed ones are told apart, and counted; those of agents are
    None.
    """
    state, error = {"from": "stopped", "to": "running", "reason": ""}, {"error": 5}

    class Kinds(Fold):
        """Keeps the types of the data."""

        topics = ("**",)

        def __init__(self, folds: Folds) -> None:
            super().__init__(folds)
            self.got: list[type] = []

        def add(self, event: Event, data: Data) -> None:
            """Keep the type."""
            self.got.append(type(data))

    folds = Folds(stored([(1, "a", "agent.state", state), (2, "a", "agent.error", error), (3, "a", "walk", 5)]))
    assert folds.of(Kinds).got is folds.read().of(Kinds).got
    assert folds.of(Kinds).got == [StateChanged, Malformed, type(None)]
    assert (folds.malformed.total, folds.malformed.read, [*folds.malformed.topics]) == (1, 3, ["agent.error"])


def add(self: Any, event: Event, data: Data) -> None:
    """Take in nothing."""


WHOLE = {
    "topics": ("step.*",), "add": add, "title": "Steps", "place": 5, "to_json": lambda self: {},
    "script": 'section("mine", () => [null]);',
}  # fmt: skip


@pytest.mark.parametrize(
    ("base", "name", "value", "said"),
    [
        (Fold, "topics", None, "does not say which topics it reads"),
        (Fold, "topics", ("a b",), "'a b' is not a topic pattern"),
        (Fold, "add", None, "does not define add"),
        (Section, "title", None, "the section Mine has no title"),
        (Section, "place", None, "the section Mine has no place"),
        (Section, "script", None, "the section Mine has no script"),
        (Section, "script", 'section("other", () => [null]);', 'does not call section("mine"'),
    ],
)
def test_a_forgotten_part_fails_at_the_definition(base, name, value, said):
    """Whoever forgets a part of a fold or a section learns it when the class is defined, in one sentence."""
    given = {**WHOLE, name: value, "__module__": __name__}
    if value is None:
        del given[name]
    with pytest.raises(UsageError) as refused:
        type("Mine", (base,), given)
    assert said in str(refused.value)


def test_a_section_without_data_cannot_be_made(stored):
    """A section that does not say what is drawn fails in types, and when it is made."""
    without = type("Mine", (Section,), {key: value for key, value in WHOLE.items() if key != "to_json"})
    with pytest.raises(TypeError, match="to_json"):
        Folds(stored(states("a", (0, "running")))).of(without)


def test_each_section_is_a_module_and_a_script():
    """The folder has nothing but sections, each a module and a script of its name, and no list of them."""
    place = Path(folder.__path__[0])
    modules = {file.stem for file in place.glob("*.py")} - {"__init__"}
    assert {one.name() for one in sections()} == modules == {file.stem for file in place.glob("*.js")}
    assert [one.place for one in sections()] == sorted({one.place for one in sections()})
