"""The reference of the command line, in Markdown, made from the commands themselves; conf.py puts it into cli.md."""

import re

import click

from sim.cli import VERBS, verbs

_MARKUP = re.compile(r"(`[^`]*`)|([\\`*_{}\[\]<>|#$])")  # code stays as it is
_EVERYWHERE = ("--debug", "-h, --help", "--help")


def reference() -> str:
    """Return a chapter for each command: what it does, its usage, arguments, options and examples."""
    parent = click.Context(verbs, info_name="sim")
    return "\n\n".join(_chapter(name, parent) for name in VERBS)


def _chapter(name: str, parent: click.Context) -> str:
    command = verbs.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## sim {name}", *map(_text, _paragraphs(command.help)), f"```text\nsim {name} {usage}\n```"]
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
