"""The functions that expressions can call: each is declared once, where it is defined.

From the declarations follow the functions of each place of a scenario, the checks of what their arguments refer to,
what agents that run ahead of others may use, the table in the documentation, and the words of a description of a model.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import attrs

from sim.base.errors import UsageError

Where = Literal["any", "agent", "start", "world"]
"""Where a function can be called: in every expression, in those of an agent, in values at the start, in metrics."""

Senses = Literal["nothing", "self", "space", "shared"]
"""What a function reads: only its arguments and the time, also data of its agent that no other changes, what it sees in
space, or data that all agents share."""

Needs = Literal["calendar", "stock", "grid"]
"""What a scenario must have for a function."""

Function = TypeVar("Function", bound=Callable[..., Any])


@attrs.frozen
class Refers:
    """Says what a text refers to, as in `Annotated[str, Refers("group")]`.

    Args:
        to: a kind of name that a scenario declares; `state`: a state variable of the agents in the argument before.
    """

    to: str


@attrs.frozen(eq=False)
class RuleFunction:
    """A function of expressions.

    Attributes:
        name: its name in expressions.
        function: the function, or the method without an object.
        places: where it can be called.
        senses: what it reads.
        draws: whether it draws random numbers.
        pure: whether its value depends on its arguments alone.
        needs: what the scenario must have.
        refers: the places and the names of arguments that refer to something, and to what.
        returns: the annotation of its value.
        call: how it is called, for the documentation; `?`: the argument is optional.
        summary: what it returns, as Markdown: the first sentence of the docstring without `Return`.
        signature: its arguments, without `self`.
    """

    name: str
    function: Callable[..., Any]
    places: frozenset[Where]
    senses: Senses
    draws: bool
    pure: bool
    needs: tuple[Needs, ...]
    refers: Mapping[int | str, str]
    returns: Any
    call: str
    summary: str
    signature: inspect.Signature

    def fault(self, arguments: int, keywords: Iterable[str]) -> str | None:
        """Return what is wrong with the arguments of a call; None if nothing is.

        Args:
            arguments: the number of positional arguments.
            keywords: the names of the others.
        """
        try:
            self.signature.bind(*(None,) * arguments, **dict.fromkeys(keywords))
        except TypeError as error:
            return f"wrong arguments for {self.call}: {error}"
        return None


DECLARED: Final[dict[tuple[Where, str], RuleFunction]] = {}
"""All functions, by place and name. A function in rules and one in metrics can have the same name."""


def rule_function(
    *,
    place: Where | tuple[Where, ...],
    senses: Senses = "shared",
    draws: bool = False,
    pure: bool = False,
    needs: tuple[Needs, ...] = (),
) -> Callable[[Function], Function]:
    """Declare a function, or a method, that expressions can call by its name without underscores in front.

    Args:
        place, senses, draws, pure, needs: see `RuleFunction`. A pure function senses nothing.

    Raises:
        UsageError: if it has no docstring, or the name is taken in a place.
    """

    def declare(function: Function) -> Function:
        name = function.__name__.lstrip("_")
        places = frozenset((place,) if isinstance(place, str) else place)
        paragraph = (inspect.getdoc(function) or "").split("\n\n", 1)[0].replace("\n", " ")
        summary = paragraph.removeprefix("Return ").removesuffix(".")
        if not summary:
            raise UsageError(f"the function {name!r} of rules has no docstring", hint="say what it returns")
        signature = inspect.signature(function)
        parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
        declared = RuleFunction(
            name=name,
            function=function,
            places=places,
            senses="nothing" if pure else senses,
            draws=draws,
            pure=pure,
            needs=needs,
            refers=MappingProxyType(
                {
                    key: to
                    for at, one in enumerate(parameters)
                    if (to := _refers(one.annotation))
                    for key in (at, one.name)
                }
            ),
            returns=signature.return_annotation,
            call=f"{name}({', '.join(map(_written, parameters))})",
            summary=summary,
            signature=signature.replace(parameters=parameters),
        )
        for where in sorted(places):  # in one order in every process
            if (where, name) in DECLARED:
                raise UsageError(f"there is a function {name!r} of rules already")
        DECLARED.update({(where, name): declared for where in places})
        return function

    return declare


def _refers(annotation: Any) -> str | None:
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((part.to for part in metadata if isinstance(part, Refers)), None)


def _written(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{parameter.name}, ..."
    return parameter.name + ("" if parameter.default is inspect.Parameter.empty else "?")


def functions_at(*places: Where) -> dict[str, RuleFunction]:
    """Return the functions that are declared for places, by name."""
    return {name: function for (place, name), function in DECLARED.items() if place in places}


def table_of_functions() -> str:
    """Return the table of all functions for the documentation, as Markdown."""
    lines = ["| functions | value |", "| --- | --- |"]
    sections: tuple[tuple[str, Callable[[RuleFunction], bool]], ...] = (
        ("pure", lambda one: one.pure),
        ("chance", lambda one: one.draws and one.senses == "nothing"),
        ("civil time", lambda one: "calendar" in one.needs),
        ("nearby world", lambda one: not one.pure and bool(one.places & {"agent"})),
        ("whole world", lambda one: "world" in one.places),
    )
    left = list(dict.fromkeys(DECLARED.values()))
    for title, belongs in sections:
        for number, one in enumerate([one for one in left if belongs(one)]):
            left.remove(one)
            lines.append(f"| {'' if number else f'**{title}** '}`{one.call}` | {one.summary} |")
    return "\n".join(lines)
