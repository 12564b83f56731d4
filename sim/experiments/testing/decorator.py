"""The decorator `@sim.property`: a function of a program as a property of runs."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Literal, overload

from sim.agents.packages import is_module_allowed
from sim.base.errors import UsageError
from sim.world import World

Form = Literal["always", "never", "eventually"]
Judge = Callable[[World], Any]
_FORMS: Final = ("always", "never", "eventually")


class PropertyFunction:
    """A function that says of a world whether a property holds. Call it as the function itself.

    Attributes:
        name: its name in reports.
        form: whether it is true at the end of every instant, of no instant, or of some instant.
    """

    def __init__(self, function: Judge, name: str, form: Form) -> None:
        self._function = function
        self.name = name
        self.form: Form = form
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__name__ = self.__qualname__ = getattr(function, "__name__", name)

    def __call__(self, world: World) -> Any:
        """Return whether the property holds; None: that cannot be said now."""
        return self._function(world)


@overload
def make_property(function: Judge, /) -> PropertyFunction: ...
@overload
def make_property(*, name: str | None = None, form: Form = "always") -> Callable[[Judge], PropertyFunction]: ...
def make_property(
    function: Judge | None = None, /, *, name: str | None = None, form: Form = "always"
) -> PropertyFunction | Callable[[Judge], PropertyFunction]:
    """Make a property (`sim.property`) of a function that takes a `sim.World` and returns whether the property holds.

    It may return None: that cannot be said now. An `assert` that fails is a violation, with its message. The function
    must not change the world. `sim.test` gets it in `properties`, and a scenario file names it as
    `check: module:NAME`.

    Args:
        function: the function, if the decorator is used without brackets.
        name: its name in reports; default: that of the function.
        form: `always`: true at the end of every instant; `never`: of none; `eventually`: of at least one.

    Raises:
        UsageError: if the form is none of these, or the function does not take one argument.
    """
    if form not in _FORMS:
        raise UsageError(f"the form of a property is {', '.join(_FORMS[:2])} or {_FORMS[2]}, not {form!r:.60}")

    def make(judge: Judge) -> PropertyFunction:
        try:
            inspect.signature(judge).bind(None)
        except TypeError:
            raise UsageError(
                f"the property {getattr(judge, '__name__', judge)!s:.60} must take the world alone"
            ) from None
        return PropertyFunction(judge, name or str(getattr(judge, "__name__", "property")), form)

    return make if function is None else make(function)


def named_property(path: str, allow: tuple[str, ...]) -> PropertyFunction:
    """Return the function with `@sim.property` that a scenario names as module:NAME.

    Raises:
        UsageError: if its module is not allowed or cannot be imported, or has no such property.
    """
    module, _, name = path.partition(":")
    if not is_module_allowed(module, allow):
        raise UsageError(f"the code of {module} is not allowed", hint=f"add --allow {module}")
    try:
        function = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever the module raises when it is imported
        raise UsageError(f"the property {path} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(function, PropertyFunction):
        raise UsageError(f"{path} is no property", hint="decorate the function with @sim.property")
    return function
