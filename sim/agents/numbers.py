"""Reads the one number that the text of a model gives as its answer."""

import math
import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(
    r"(?<![\w.])(?<!\d,)[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|[.,]\d)"
)
_UNCLEAR: Final = re.compile(r"\d,\d")
_WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORD: Final = re.compile(rf"\b((?:minus|negative)\s+)?({'|'.join(_WORDS)})\b", re.IGNORECASE)
_LARGER: Final = re.compile(
    r"\b(?:eleven|twelve|\w+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|dozen|and a half|"
    rf"point\s+(?:{'|'.join(_WORDS)}))\b",
    re.IGNORECASE,
)
"""Words of numbers that are not read: a part of one, such as `five` of `seventy-five`, is another number."""
_OF: Final = re.compile(r"(?<=\d)\s*(?:/|out of|of)\s*(\d+)\b(?!\s*/)", re.IGNORECASE)
_STATED: Final = re.compile(
    r"\b(?:answer|rating|score|choice|response|number|value)\b(?:\s+(?:is|would be)\b|\s*[:=])+\s*(.*)", re.IGNORECASE
)
_SHAPE: Final = re.compile(r"\\boxed\{([^{}]*)\}|<answer>(.*?)</answer>", re.DOTALL)
_NOT: Final = re.compile(
    r"(?:\b(?:not|never)|n['\N{RIGHT SINGLE QUOTATION MARK}]t)\s+(?:an?\s+|exactly\s+|really\s+)?\Z"
)
_LONGEST: Final = 20_000  # characters


def number_in(answer: str, scale: Sequence[int] = ()) -> int | float | None:
    """Return the number that an answer gives; None if there is none, or not just one.

    `4`, `**4**`, `4/7`, `4 out of 7`, `Four`, `The answer is 4.` and `4, on a scale of 1 to 7` are all 4. A number that
    is negated (`not 4`) is none.

    Args:
        answer: the text.
        scale: the lowest and the highest number that the answer can be; empty: any number.
    """
    text = answer[:_LONGEST].replace("\N{MINUS SIGN}", "-").replace("*", " ").replace("\ufe0f\u20e3", " ")
    shapes = [match[1] or match[2] or "" for match in _SHAPE.finditer(text)]
    text = shapes[-1] if shapes else text
    if scale:
        text = _without_scale(text, scale)
    numbers = _numbers(text)
    if len(numbers) != 1:
        stated = {number for part in _STATED.findall(text) for number in _numbers(part)[:1]}
        numbers = sorted(stated) if numbers else []
    if len(numbers) != 1:
        return None
    value = numbers[0]
    if scale:
        return value if isinstance(value, int) and scale[0] <= value <= scale[1] else None
    return value


def _without_scale(text: str, scale: Sequence[int]) -> str:
    """Return a text without what only says how long the scale is: `/7`, `out of 7`, `from 1 to 7`, `(1-7)`."""
    low, high = scale
    text = _OF.sub(lambda match: "" if int(match[1]) == high else match[0], text)
    ends = rf"{low}\s*(?:to|-|\N{{EN DASH}}|through|and|\.\.)\s*{high}\b"
    text = re.sub(
        rf"\b(?:scale\s+(?:of|from)|from|between)\s+{ends}|\(\s*{ends}\s*\)|\b{ends}", " ", text, flags=re.IGNORECASE
    )
    return re.sub(rf"\b(?:{low}|{high})\s+(?:being|means|meaning|is the)\b", " ", text, flags=re.IGNORECASE)


def _numbers(text: str) -> list[int | float]:
    """Return the different numbers in a text, in order; a comma between groups of three digits separates thousands.

    Any other comma between digits may be a decimal one or separate two numbers, so the text has no numbers then.
    Numbers in words count only if there are none in digits.
    """
    if _UNCLEAR.search(_NUMBER.sub(" ", text)):
        return []
    numbers: dict[int | float, None] = {}
    for match in _NUMBER.finditer(text):
        value = float(match[0].replace(",", ""))
        if math.isfinite(value) and not _NOT.search(text[: match.start()]):
            numbers[int(value) if value.is_integer() and abs(value) < 2**53 else value] = None
    if not numbers and not _LARGER.search(text):
        words = [match for match in _WORD.finditer(text) if not _NOT.search(text[: match.start()])]
        numbers = dict.fromkeys(_WORDS.index(match[2].lower()) * (-1 if match[1] else 1) for match in words)
    return list(numbers)
