"""What packages define under a name: kinds of agents, sections, actions, views.

A name of `sim` itself is known from the beginning (`sim.base.words`), and the module that defines it is imported when
the name is looked up. So what a file may say never depends on what happens to be imported, and a run imports what it
uses.

What others define belongs to the process, or to the `Definitions` in whose `with` block it is defined. A registry asks
for them at each look-up, through a context variable, as `decimal` does for its context: so what looks a name up needs
no argument for it.
"""

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar

T = TypeVar("T")

Part = Literal["kinds", "sections", "actions", "views", "events", "actions of all worlds"]
"""What a registry holds."""

_CURRENT: Final[ContextVar["Definitions | None"]] = ContextVar("definitions", default=None)
_ENTERED: Final[ContextVar[tuple[Token["Definitions | None"], ...]]] = ContextVar("entered", default=())
"""What the `with` blocks that are open put back, the innermost last: of each thread and task its own."""


class Definitions:
    """What scenarios may name beside the words of `sim`: kinds of agents, sections, actions, views.

    Everything that is defined in its `with` block belongs to it. A scenario that is loaded with it, and a run that gets
    it, know the words of `sim` and its own, and nothing that is defined elsewhere in the process.
    """

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Any]] = {}

    @property
    def kinds(self) -> Mapping[str, Any]:
        """Its kinds of agents by name, each a `Family`."""
        return MappingProxyType(self._part("kinds"))

    @property
    def sections(self) -> Mapping[str, Any]:
        """Its sections by key, each a `Section`."""
        return MappingProxyType(self._part("sections"))

    @property
    def actions(self) -> Mapping[str, Any]:
        """Its actions by name, each an `ActionHandler`."""
        return MappingProxyType(self._part("actions"))

    @property
    def views(self) -> Mapping[str, str]:
        """The SELECT of each of its views by name."""
        return MappingProxyType(self._part("views"))

    def __enter__(self) -> Self:
        _ENTERED.set((*_ENTERED.get(), _CURRENT.set(self)))
        return self

    def __exit__(self, *_: object) -> None:
        *outer, token = _ENTERED.get()
        _ENTERED.set(tuple(outer))
        _CURRENT.reset(token)

    def __repr__(self) -> str:
        named = (f"{name} {', '.join(part)}" for name, part in self._parts.items() if part)
        return f"<Definitions: {'; '.join(named) or 'none'}>"

    def _part(self, name: Part) -> dict[str, Any]:
        return self._parts.setdefault(name, {})


def current_definitions() -> Definitions | None:
    """Return the definitions in whose `with` block this is called; None: those of the process."""
    return _CURRENT.get()


def using(definitions: Definitions | None) -> AbstractContextManager[object]:
    """Return a block in which names are looked up in some definitions; None: in those that are in use."""
    if definitions is None or definitions is _CURRENT.get():
        return nullcontext()
    return _Use(definitions)


class _Use:
    """A block as that of `Definitions`, of which several can be open at a time, in different tasks."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._definitions)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


class Registry(MutableMapping[str, T]):
    """Definitions by name, in the order in which the names were announced or defined.

    Iterating over the names imports nothing; values do, those of all names.

    Args:
        part: what it holds.
        announced: for each name that `sim` defines, the module that does.
        words: the names of `sim`, if they are not announced.
    """

    def __init__(self, part: Part, announced: Mapping[str, str], words: Collection[str] = ()) -> None:
        self._part: Final = part
        self._made: dict[str, T | None] = dict.fromkeys(announced)  # None: announced only
        self._modules = dict(announced)
        self._words = frozenset(announced) | frozenset(words)

    def _own(self) -> dict[str, T] | None:
        """Return the names of the definitions in use; None: all are of the process."""
        current = _CURRENT.get()
        return None if current is None else current._part(self._part)

    def __getitem__(self, name: str) -> T:
        own = self._own()
        if own is not None and name not in self._words:
            return own[name]
        if name in self._modules:
            import_module(self._modules[name])
        value = self._made.get(name)
        if value is None:
            raise KeyError(name)
        self._modules.pop(name, None)
        return value

    def __setitem__(self, name: str, value: T) -> None:
        own = self._own()
        if own is not None and name not in self._words:
            own[name] = value
        else:
            self._made[name] = value

    def __delitem__(self, name: str) -> None:
        own = self._own()
        if own is not None and name not in self._words:
            del own[name]
            return
        del self._made[name]
        self._modules.pop(name, None)

    def _names(self) -> Collection[str]:
        own = self._own()
        return self._made if own is None else [*(name for name in self._made if name in self._words), *own]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        own = self._own()
        return name in self._made if own is None or name in self._words else name in own

    def import_beside(self, module: str) -> None:
        """Import what is announced for the package of a module: a class of the module may be part of it."""
        for name, home in list(self._modules.items()):
            if _beside(home, module):
                self.get(name)

    def imported(self) -> dict[str, T]:
        """Return the definitions whose modules have been imported, by name."""
        made = {name: value for name, value in self._made.items() if value is not None}
        own = self._own()
        return made if own is None else {**{name: made[name] for name in made if name in self._words}, **own}

    def is_free(self, name: str, module: str) -> bool:
        """Return whether code in a module may define a name: it is new, or announced for a module of that package."""
        own = self._own()
        if own is not None and name not in self._words:
            return name not in own
        if self._made.get(name) is not None:
            return False
        home = self._modules.get(name)
        return home is None or _beside(home, module)


def _beside(home: str, module: str) -> bool:
    """Return whether a module is the home of a name, or in the package whose definitions or section the home has."""
    package, _, last = home.rpartition(".")
    return module == home or (last in ("definitions", "section") and module.startswith(f"{package}."))
