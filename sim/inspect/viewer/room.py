"""How much text a page has room for.

No text is cut in the middle: it is in the page whole, or a sentence says where it is.
"""

from typing import Final

MOST: Final = 20_000_000
"""The most characters of the texts of one part of the page."""


class Room:
    """The room for the texts of one part of the page.

    Args:
        where: the view of `sim show` that prints the whole texts.
        most: the most characters.
    """

    def __init__(self, where: str, most: int = MOST) -> None:
        self._where = where
        self._left = most

    def take(self, text: str) -> str:
        """Return a text whole, or a sentence about where it is if there is no room for it."""
        if len(text) > self._left:
            return f"(left out, because the page would be too large: sim show RUN {self._where} has the whole text)"
        self._left -= len(text)
        return text
