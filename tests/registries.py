"""Tests that define kinds of agents, sections, actions and views, and leave none behind."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from sim.agents import FAMILIES
from sim.record import VIEWS
from sim.world.action import BUILT_IN, DEFINED
from sim.world.section import SECTIONS

_REGISTRIES: tuple[MutableMapping[str, Any], ...] = (FAMILIES, SECTIONS, VIEWS, BUILT_IN, DEFINED)


@contextmanager
def kept_registries() -> Iterator[None]:
    """Restore what is defined for the whole process at the end."""
    before = [dict(registry) for registry in _REGISTRIES]
    try:
        yield
    finally:
        for registry, entries in zip(_REGISTRIES, before, strict=True):
            registry.clear()
            registry.update(entries)
