"""Text for people: numbers, and untrusted text of scenarios, agents and runs, made safe to display and to record."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}")


def number(value: float) -> str:
    """Return a number in a readable form: 12,345 or 0.0123."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def counted(count: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words: `1 run`, `2 runs`.

    Args:
        count: how many there are.
        what: what one is called.
        several: what several are called; None: the same with an s.
    """
    return f"{count:,} {what if count == 1 else several or f'{what}s'}"


def dotted_name(name: str) -> str:
    """Return the name of a tool as people write it, `module.tool`, from the one that models call, `module__tool`."""
    return name.replace("__", ".", 1)


def of_error(error: BaseException) -> str:
    """Return the type and message of an error as recordable text, even if its `__str__` fails."""
    try:
        text = str(error)
    except Exception as fault:  # the `__str__` of an error of an agent can raise anything
        text = f"(its text cannot be made: {type(fault).__name__})"
    return recordable_text(f"{type(error).__name__}: {text}")


def recordable_text(text: str) -> str:
    """Return text that can be encoded, without addresses of objects, which differ in each process.

    `<Desk object at 0x7f05d1c843c0>` becomes `<Desk object>`. Otherwise two runs of one scenario would differ.
    """
    return _ADDRESS.sub("", text).encode(errors="replace").decode()


def plain(text: object) -> str:
    """Return text that is safe to display in a terminal.

    Control characters and bidirectional formatting characters are replaced by escapes such as `\\x1b` and `\\u202e`.
    HTML needs further escaping.
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
