"""Writes the reference in docs/cli.md, made from the commands themselves: `uv run python docs/commands.py`."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from sim.cli import VERBS, verbs

PAGE = Path(__file__).with_name("cli.md")
_BEGIN = "<!-- From here on, docs/commands.py writes this page. -->\n"
_MARKUP = re.compile(r"(`[^`]*`)|([\\`*_{}\[\]<>|#$])")  # code stays as it is
_EVERYWHERE = ("--debug", "-h, --help", "--help")


def reference() -> str:
    """Return a table of the commands, and a chapter for each: what it does, its usage, options and examples."""
    parent = click.Context(verbs, info_name="sim")
    rows = (f"| [`{name}`](#sim-{name}) | {_text(summary)} |" for name, summary in VERBS.items())
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    return "\n\n".join([table, *(chapter for name in VERBS for chapter in _chapters(name, parent))])


def page(text: str) -> str:
    """Return the text of the page with its reference of the commands as they are now.

    Raises:
        ValueError: the page has no mark after which the reference begins.
    """
    return f"{text[: text.index(_BEGIN)]}{_BEGIN}\n{reference()}\n"


def _chapters(name: str, parent: click.Context) -> Iterator[str]:
    """Yield the chapter of a command, and those of the commands in it."""
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    yield _chapter(command, context)
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            yield from _chapters(part, context)


def _chapter(command: click.Command, context: click.Context) -> str:
    called = context.command_path
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {called}", *map(_text, _paragraphs(command.help)), f"```text\n{called} {usage}\n```"]
    records = [option.get_help_record(context) for option in command.get_params(context)]
    rows = [record for record in records if record and record[1] and record[0] not in _EVERYWHERE]
    parts.append("\n".join(["| option | meaning |", "| --- | --- |", *(_row(*row) for row in rows)]))
    title, *examples = _paragraphs(command.epilog)
    return "\n\n".join([*parts, _text(title), *(f"```text\n{_unindented(text)}\n```" for text in examples)])


def _paragraphs(text: str | None) -> list[str]:
    return [part.replace("\b\n", "") for part in re.split(r"\n\s*\n", (text or "").strip("\n")) if part.strip()]


def _text(text: str) -> str:
    return _MARKUP.sub(lambda found: found[1] or f"\\{found[2]}", " ".join(text.split()))


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def _row(option: str, meaning: str) -> str:
    return f"| `{option.replace('|', chr(92) + '|')}` | {_text(meaning)} |"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
