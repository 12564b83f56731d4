"""How a field of a record of options is written on the command line, declared at the field itself.

The command line makes its options from this, so an option of runs is declared once: its name, its type for Python, its
check, and its help.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

KEY: Final = "shown"
"""Where the metadata of a field has it."""

Keywords = dict[str, Any]
"""Arguments of a function by name, such as the options of a command; each has the type of the option."""


@attrs.frozen(kw_only=True)
class Shown:
    """An option of the command line.

    Attributes:
        help: what it does, in one line.
        written: the option, if it is not named as the field is.
        metavar: what stands for its value in the help.
        words: the words that can be given; empty: any text, or a number.
        number: whether the value is a number; a whole one, unless `above` is set.
        least: the lower bound; a `float` makes the option a decimal number, an `int` a whole one.
        most: the upper bound of a whole number.
        above: what a number must be above.
        many: whether it can be given several times.
        flag: whether it has no value.
        show_default: whether the help shows the default.
    """

    help: str
    written: str | None = None
    metavar: str | None = None
    words: tuple[str, ...] = ()
    number: bool = False
    least: float | None = None
    most: int | None = None
    above: float | None = None
    many: bool = False
    flag: bool = False
    show_default: bool = False


def shown(
    text: str, *, written: str | None = None, metavar: str | None = None, words: tuple[str, ...] = (),
    least: float | None = None, most: int | None = None, above: float | None = None, many: bool = False,
    flag: bool = False, show_default: bool = False,
) -> Mapping[str, Shown]:  # fmt: skip
    """Return the metadata of a field that is an option of the command line; see `Shown`."""
    number = least is not None or above is not None
    return {
        KEY: Shown(
            help=text,
            written=written,
            metavar=metavar,
            words=words,
            number=number,
            least=least,
            most=most,
            above=above,
            many=many,
            flag=flag,
            show_default=show_default,
        )
    }


def shown_fields(record: type) -> dict[str, Shown]:
    """Return the fields of a record that are options of the command line, by name."""
    return {field.name: field.metadata[KEY] for field in attrs.fields(record) if KEY in field.metadata}
