"""The origin of a branch, and what the branch changes, as records have it."""

from collections.abc import Mapping
from typing import Any, Self

import attrs

from sim.kernel.codec import Json


@attrs.frozen(kw_only=True)
class BranchChange:
    """What a branch changes at the time at which it begins.

    Attributes:
        overrides: the parameters that change, as `key=value`.
        seed: the seed from then on; None: it stays.
        models: the language models from then on; empty: they stay.
    """

    overrides: tuple[str, ...] = ()
    seed: int | None = None
    models: tuple[str, ...] = ()

    @classmethod
    def from_input(cls, data: Mapping[str, Any], **own: Any) -> Self:
        """Return the change that an input of a record is; `own` has the further fields of a subclass."""
        models = tuple(data.get("model", ()))
        return cls(overrides=tuple(data.get("set", ())), seed=data.get("seed"), models=models, **own)

    def to_input(self) -> dict[str, Json]:
        """Return it as the input that the record of a branch has at that time."""
        models = {"model": list(self.models)} if self.models else {}
        return {"set": list(self.overrides), "seed": self.seed, **models}


@attrs.frozen(kw_only=True)
class Origin(BranchChange):
    """Where a branch comes from, as its record says it.

    Attributes:
        run: the id of its run.
        at_ns: the simulated nanoseconds at which it begins.
    """

    run: str
    at_ns: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the origin that a record has."""
        return cls.from_input(data, run=data["run"], at_ns=int(data["at_ns"]))

    def to_json(self) -> dict[str, Json]:
        """Return it as a JSON-like mapping."""
        return {"run": self.run, "at_ns": self.at_ns, **self.to_input()}
