"""Statements about several variants of a scenario: what is true of all is said once, the rest with its variant."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from sim.archives.odd.subject import Subject, Variant
from sim.archives.odd.text import code, listed

Kind = TypeVar("Kind", bound=Hashable)

_MOST: Final = 6  # different texts, or names of variants, that are shown of one statement


def by_variant(subject: Subject, of: Callable[[Subject], Iterable[str]], *, start: bool = False) -> Iterator[str]:
    """Yield lines about a subject: once, or, where its variants differ, for each of them.

    Args:
        subject: the subject.
        of: returns the lines about a subject without variants.
        start: whether they are about the start of a run, so that variants which begin later do not matter.
    """
    variants = [one for one in subject.variants if one.from_start or not start]
    if not variants:
        yield from of(subject)
        return
    blocks = ["\n".join(of(one.subject)) for one in variants]
    names = labels(variants, blocks)
    if len(names) == 1:
        yield from blocks[:1] if blocks[0] else ()
        return
    yield ""
    for block in list(names)[:_MOST]:
        yield f"{names[block][:1].upper()}{names[block][1:]}:\n"
        yield f"{block.rstrip() or 'None.'}\n"
    if (left := len(names) - _MOST) > 0:
        yield f"There are {left:,} more such statements, for other variants; they are not shown.\n"


def noted(variants: Sequence[Variant], phrases: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the phrases that are true of any variant, each with the names of those variants, if not of all."""
    notes = []
    for phrase in dict.fromkeys(one for some in phrases for one in some):
        names = labels(variants, [phrase in some for some in phrases])
        notes.append(phrase if len(names) == 1 else f"{phrase} ({names[True]})")
    return tuple(notes)


def labels(variants: Sequence[Variant], kinds: Sequence[Kind]) -> dict[Kind, str]:
    """Return words for the variants of each kind. Varied keys that make no difference to the kind are left out.

    Args:
        variants: the variants.
        kinds: the kind of each of them.
    """
    keys = tuple(variants[0].point)
    for key in keys:
        fewer = tuple(one for one in keys if one != key)
        if len(set(zip(_names(variants, fewer), kinds, strict=True))) == len(set(_names(variants, fewer))):
            keys = fewer
    names_by_kind: dict[Kind, dict[str, None]] = {}
    for kind, name in zip(kinds, _names(variants, keys), strict=True):
        names_by_kind.setdefault(kind, {})[name] = None
    return {kind: _joined(list(names)) for kind, names in names_by_kind.items()}


def _names(variants: Sequence[Variant], keys: tuple[str, ...]) -> list[str]:
    return [_name(one, keys) for one in variants]


def _name(variant: Variant, keys: tuple[str, ...]) -> str:
    values = [code(f"{key}={variant.point[key]}") for key in keys]
    return ", ".join(filter(None, (variant.when, f"with {listed(values)}" if values else "")))


def _joined(names: list[str]) -> str:
    left = len(names) - _MOST
    return "; ".join((*names[:_MOST], *([f"and {left:,} more"] if left > 0 else ())))
