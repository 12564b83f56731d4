"""HTML and SVG elements as text. All text that is not `Markup` is escaped."""

import html
from collections.abc import Iterable

from sim.base.text import plain


class Markup(str):
    """Text that is markup. Only this module creates it."""

    __slots__ = ()


Child = str | Iterable["Child"] | None
"""An element, text to escape, several of these, or None."""

_VOID = {"br", "col", "hr", "meta"}


def tag(name: str, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element.

    Args:
        name: the name of the element.
        children: its content.
        attributes: its attributes. `_` stands for `-`; names that Python reserves end with `_` (`class_`). Attributes
            with the value None are omitted.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{_inside(children)}</{name}>")


def svg(width: float, height: float, label: str, *children: Child) -> Markup:
    """Return an SVG element that scales to the width of its container.

    Args:
        width: the width of its coordinate system.
        height: the height of its coordinate system.
        label: a description, for screen readers.
        children: its content.
    """
    return Markup(
        f'<svg viewBox="0 0 {_short(width)} {_short(height)}" role="img" aria-label="{_escaped(label)}">'
        f"{_inside(children)}</svg>"
    )


def _inside(children: Iterable[Child]) -> str:
    return "".join(
        ""
        if child is None
        else child
        if isinstance(child, Markup)
        else _escaped(child)
        if isinstance(child, str)
        else _inside(child)
        for child in children
    )


def _escaped(text: str) -> str:
    return html.escape(plain(text))


def _short(value: str | float) -> str:
    """Return text as it is, and a number with at most two decimals, which is enough for a chart."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
