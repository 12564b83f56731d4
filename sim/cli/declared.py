"""Options of commands, made from the fields of records of options."""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import attrs
import click

from sim.base.shown import Keywords, Shown, shown_fields

Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(record: type, *names: str, **own: str) -> Callable[[Command], Command]:
    """Return what adds the options of a record to a command, which gets each under the name of its field.

    Args:
        record: the record.
        names: the fields whose options to add, in order; none: all that are options.
        own: the help of options that mean more for this command, by field.
    """
    fields = shown_fields(record)
    fields |= {name: attrs.evolve(fields[name], help=text) for name, text in own.items()}
    made = [_option(record, name, fields[name]) for name in names or fields]
    return lambda command: reduce(lambda under, option: option(under), reversed(made), command)


def _option(record: type, name: str, shown: Shown) -> Callable[[Command], Command]:
    written = shown.written or f"--{name.replace('_', '-')}"
    more: Keywords = {"help": shown.help}
    if shown.flag:
        more["is_flag"] = True
    elif shown.words:
        more["type"] = click.Choice(shown.words)
    elif shown.above is not None:
        more["type"] = click.FloatRange(shown.above, min_open=True)
    elif isinstance(shown.least, float):
        more["type"] = click.FloatRange(shown.least)
    elif shown.number:
        more["type"] = click.IntRange(shown.least, shown.most)
    elif shown.show_default:
        more["type"] = str  # not that of the default
    if shown.metavar is not None:
        more["metavar"] = shown.metavar
    if shown.many:
        more["multiple"] = True
    if shown.show_default:
        more |= {"default": getattr(attrs.fields_dict(record)[name], "default", None), "show_default": True}
    return click.option(written, name, **more)
