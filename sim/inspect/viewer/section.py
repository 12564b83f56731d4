"""Sections of the overview: each is a fold whose result a script of its own draws."""

import abc
import inspect
from pathlib import Path
from typing import Any, ClassVar

from sim.base.errors import UsageError
from sim.inspect.viewer.folds import Data, Event, Fold, Folds
from sim.kernel.codec import Json

__all__ = ["Data", "Event", "Folds", "Json", "Section"]


class Section(Fold, abc.ABC, abstract=True):
    """A section of the overview: what it reads, what it shows, and how.

    A subclass defines `topics` and `add`, as a fold does, and these:

    Attributes:
        title: its heading.
        place: a number. Sections are in the order of these.
        tab: whether it is a tab of its own instead.
        script: JavaScript that calls `section("NAME", (data) => [note, ...parts])` once; NAME is the name of the class
            in small letters. `data` is what `to_json` returned, `note` a phrase beside the heading (or null), and
            `parts` are elements. Empty: the file beside the module that has its name, with `.js` for `.py`.

    Raises:
        UsageError: at the definition of a subclass, if one of them is missing.
    """

    title: ClassVar[str] = ""
    place: ClassVar[int] = 0
    script: ClassVar[str] = ""
    tab: ClassVar[bool] = False

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        for name in ("title", "place"):
            if not getattr(cls, name):
                raise UsageError(f"the section {cls.__name__} has no {name}", hint=f"write {name} = ... in the class")
        if not cls.script:
            cls.script = _beside(cls)
        call = f'section("{cls.name()}"'
        if call not in cls.script:
            raise UsageError(f"the script of the section {cls.__name__} does not call {call}, ...)")

    @classmethod
    def name(cls) -> str:
        """Return the name by which its script and addresses know it."""
        return cls.__name__.lower()

    @abc.abstractmethod
    def to_json(self) -> Json:
        """Return what its script draws, JSON-like; None: the run has nothing of the kind, and it is left out."""


def _beside(cls: type[Section]) -> str:
    file = Path(inspect.getfile(cls)).with_suffix(".js")
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        raise UsageError(
            f"the section {cls.__name__} has no script", hint=f"write script = ... in the class, or make {file.name}"
        ) from None
