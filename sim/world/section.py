"""Sections: keys of a scenario file that add a part to the world, and the types of their settings.

A class of settings is a frozen attrs class. The types of its attributes, and the entries under `Args:` in its
docstring, define the keys below the section. The check of a file, its JSON Schema and its error messages are derived
from them. So a package that brings a section needs nothing of the package that reads scenario files. The settings of a
kind of agent are defined in the same way.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.base.permissions import Permission
from sim.base.registry import Registry
from sim.base.words import SECTIONS as OF_SIM

if TYPE_CHECKING:
    from sim.world.action import ActionHandler
    from sim.world.service import Service
    from sim.world.world import World

Setting = Literal[
    "call condition", "condition", "duration", "entry", "event filter", "formula", "json", "level", "measurement",
    "name", "pattern", "positive duration", "recipient", "topic", "work condition", "work value",
]  # fmt: skip
"""The meaning of a setting whose type alone does not say how a file writes it."""


@attrs.frozen
class Reads:
    """Gives the meaning of a setting, in an annotation such as `Annotated[int, Reads("duration")]`."""

    setting: Setting


@attrs.frozen
class Range:
    """The bounds of a number, in an annotation such as `Annotated[int, Range(1, 10)]`; None: no bound."""

    least: float | None = None
    most: float | None = None


Duration = Annotated[int, Reads("duration")]
"""Simulated nanoseconds, written as seconds or as text such as `30s`."""

PositiveDuration = Annotated[int, Reads("positive duration")]
"""As `Duration`, above 0."""

CallCondition = Annotated[Expression, Reads("call condition")]
"""An expression over the call of a tool: `tool`, `args`, `agent`, `kind` (of agent) and `now`."""

Condition = Annotated[Expression, Reads("condition")]
"""An expression as in the rules of an agent."""

EventFilter = Annotated[Expression, Reads("event filter")]
"""An expression over an event: `topic`, `data`, `source` and `time`."""

Formula = Annotated[Expression, Reads("formula")]
"""An expression over a call of a tool: `args`, `content`, `now`, `caller`, and where it is made: `user`, `platform`,
`channel`, `thread` and `conversation`."""

Json = Annotated[Any, Reads("json")]
"""Any value."""

Level = Annotated[Permission, Reads("level")]
"""A level of permission, written as its name."""

Name = Annotated[str, Reads("name")]
"""A name: at most 64 small letters, digits, `_` and `-`, beginning with a letter."""

Pattern = Annotated[str, Reads("pattern")]
"""A pattern of topics."""

Recipient = Annotated[str, Reads("recipient")]
"""The name of an agent or group of the file."""

Entry = Annotated[str, Reads("entry")]
"""The name of an entry in `agents`."""

Topic = Annotated[str, Reads("topic")]
"""The topic of an event."""

WorkCondition = Annotated[Expression, Reads("work condition")]
"""An expression over the work of an employee; see `sim.kinds.sop.values`."""

WorkValue = Annotated[Any, Reads("work value")]
"""A value that is literal or has expressions over the work of an employee (texts that start with `=`) at any depth."""


@attrs.frozen
class Section:
    """A key of a scenario file that adds a part to the world.

    Args:
        key: the key.
        settings: the class of its settings.
        make: called with the world and the settings when the world is built: after limits, prices, pools, places,
            artifacts and models, and before agents. A service that it returns is added to the world, so it can be the
            class of one. None: the settings are for agents.
        by_name: whether the section is a mapping of such settings by name. A text stands for settings of which it is
            the first one.
        draws: what the part draws at random; see `Draws`.
        actions: kinds of action that worlds with the section have.
        example: the smallest value with which the section adds something, as a file writes it, for hints. The default
            is enough if all settings have defaults.
    """

    key: str
    settings: type
    make: "Callable[[World, Any], Service | None] | None"
    by_name: bool = False
    draws: "Draws | None" = None
    actions: "tuple[ActionHandler, ...]" = ()
    example: str = attrs.field(
        default=attrs.Factory(lambda self: "{NAME: {}}" if self.by_name else "{}", takes_self=True)
    )

    def add_to(self, world: "World", settings: Any) -> None:
        """Add the part that settings describe to a world."""
        made = None if self.make is None else self.make(world, settings)
        if made is not None:
            world.add_service(made)
        world.actions.add(*self.actions)


Draws = Callable[[Any], Iterable[str]]
"""Returns what is drawn at random with given settings: one phrase each, such as `how long a person needs`, for
descriptions of models. None in its place: it is not known."""


def draws_nothing(settings: Any) -> Iterable[str]:
    """Say that nothing is drawn at random; see `Draws`."""
    return ()


SECTIONS: Final[Registry[Section]] = Registry("sections", OF_SIM)
"""All sections by key, in the order in which their parts are added to a world."""


def define_section(
    key: str,
    settings: type,
    make: "Callable[[World, Any], Service | None] | None" = None,
    *,
    by_name: bool = False,
    draws: Draws | None = None,
    actions: "tuple[ActionHandler, ...]" = (),
    example: str | None = None,
) -> Section:
    """Define a section; see `Section` for the arguments.

    Raises:
        UsageError: if the key is already defined, or the settings are not a frozen attrs class with a docstring.
    """
    if not SECTIONS.is_free(key, settings.__module__):
        raise UsageError(f"the section {key!r} is already defined")
    check_settings(settings)
    options = {} if example is None else {"example": example}
    section = SECTIONS[key] = Section(key, settings, make, by_name, draws, actions, **options)
    return section


def check_settings(settings: type) -> None:
    """Check a class of settings when it is defined.

    Raises:
        UsageError: if it is not a frozen attrs class, the class or an attribute has no description, or an attribute has
            a type that a file cannot give.
    """
    _check_class(settings, ())


def check_params(params: type, owner: str) -> None:
    """Check the class `Params` of a class of agents. It needs no descriptions.

    Args:
        params: the class.
        owner: the name of the class of agents.

    Raises:
        UsageError: if it is not a frozen attrs class, or an attribute has no type, or one that a file cannot give.
    """
    _check_class(params, (), explained=False)
    typed = inspect.get_annotations(params)
    untyped = [name for name, value in vars(params).items() if name not in typed and _is_untyped(name, value)]
    if untyped:
        raise UsageError(
            f"{owner}.Params.{untyped[0]} has no type", hint=f"write `{untyped[0]}: float = ...`, or another type"
        )


def _is_untyped(name: str, value: object) -> bool:
    """Return whether an attribute of a class is a value without a type, which attrs leaves out."""
    slot = inspect.isdatadescriptor(value) or callable(value) or isinstance(value, classmethod | staticmethod)
    return not name.startswith("_") and not slot


def _check_class(settings: type, outside: tuple[type, ...], *, explained: bool = True) -> None:
    """Check a class of settings that is nested in others; `explained`: whether it must be described."""
    if settings in outside:
        raise UsageError(f"the settings {settings.__name__} contain themselves")
    if not attrs.has(settings) or not attrs.inspect(settings).is_frozen:
        raise UsageError(f"{settings.__name__} must be a frozen attrs class", hint="decorate it with @attrs.frozen")
    if explained and not (settings.__doc__ or "").strip():
        raise UsageError(f"{settings.__name__} has no docstring", hint="describe it in the first line of one")
    meanings, hints = described(settings), _hints(settings)
    for attribute in attrs.fields(settings):
        if not attribute.init:
            continue
        if explained and not meanings.get(attribute.alias or attribute.name):
            raise UsageError(
                f"the setting {attribute.name!r} of {settings.__name__} has no description",
                hint="add it under `Args:` in the docstring of the class",
            )
        _check_type(hints.get(attribute.name), f"{settings.__name__}.{attribute.name}", (*outside, settings))


def _hints(settings: type) -> dict[str, Any]:
    try:
        return get_type_hints(settings, include_extras=True)
    except NameError as error:
        raise UsageError(f"a type of {settings.__name__} cannot be found: {error}") from None


def _check_type(annotation: Any, where: str, outside: tuple[type, ...]) -> None:
    """Check that a file can give a value of a type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(note, Reads) for note in parts[1:]):
            return
        parts = parts[:1]
    elif origin is tuple:
        if len(parts) != 2 or parts[1] is not ...:
            raise UsageError(f"{where}: a tuple of settings has any length", hint="write tuple[X, ...]")
        parts = parts[:1]
    elif origin is Literal:
        return
    elif isinstance(annotation, type) and attrs.has(annotation):
        _check_class(annotation, outside)
        return
    elif origin not in (Union, types.UnionType, Mapping):
        if annotation not in _PLAIN:
            raise UsageError(
                f"{where}: a file cannot give a value of the type {annotation!r}",
                hint="use str, int, float, bool, Literal, tuple[X, ...], Mapping[str, X], X | None, a frozen attrs "
                "class, or a type of sim.world.section",
            )
        return
    for part in parts:
        _check_type(part, where, outside)


_PLAIN: Final = (str, int, float, bool, type(None))
"""Types of settings that need no meaning."""


def described(owner: Any) -> dict[str, str]:
    """Return the descriptions of parameters in the docstring of a function or class."""
    section = (inspect.getdoc(owner) or "").partition("Args:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for name, text in entries}
