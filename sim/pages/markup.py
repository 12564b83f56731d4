"""Elements of HTML and SVG as text, in which all that is not markup already is escaped."""

import html
from collections.abc import Iterable

from sim.text import plain


class Markup(str):
    """Text that is markup; only what this module makes is."""

    __slots__ = ()


Child = str | Iterable["Child"] | None
"""An element, text that is to be escaped, several of them, or nothing."""

_VOID = {"br", "col", "hr", "meta"}


def tag(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element.

    Args:
        name: of the element.
        children: what it holds.
        attributes: by name, with `_` for `-` and at the end of what Python reserves (`class_`); None leaves one out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{_inside(children)}</{name}>")


def svg(width: float, height: float, label: str, *children: Child) -> Markup:
    """Return a picture that is as wide as its place.

    Args:
        width: of its coordinates.
        height: the same.
        label: what it shows, for who cannot see it.
        children: what it holds.
    """
    return Markup(
        f'<svg viewBox="0 0 {_short(width)} {_short(height)}" role="img" aria-label="{_escaped(label)}">'
        f"{_inside(children)}</svg>"
    )


def _inside(children: Iterable[Child]) -> str:
    return "".join(
        "" if child is None else child if isinstance(child, Markup)
        else _escaped(child) if isinstance(child, str) else _inside(child)
        for child in children
    )  # fmt: skip


def _escaped(text: str) -> str:
    return html.escape(plain(text))


def _short(value: str | float) -> str:
    """Return a number with as many digits as a picture needs."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
