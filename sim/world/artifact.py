"""Artifacts: named things with content that agents read, write, edit, delete and invoke."""

from collections.abc import Mapping
from typing import Any, Literal

from sim.expressions import Expression
from sim.kernel.codec import Raw, Record, decode, freeze

Access = Literal["all", "owner"] | tuple[str, ...]
"""Who may: everybody, the owner, or the agents and groups named. The owner always may."""

FORMULA_NAMES = ("args", "content", "now", "caller")
"""What a formula can see."""


class Artifact(Record, frozen=True):
    """One artifact; a change makes a new record with the next version.

    Attributes:
        raw: the content as canonical JSON.
        price: micro-units that whoever invokes it pays to the owner.
        formula: what `invoke` computes, over `args`, `content`, `now` and `caller`; None cannot be invoked.
    """

    id: str
    owner: str
    raw: Raw
    version: int = 1
    readers: Access = "all"
    writers: Access = "owner"
    price: int = 0
    formula: Expression | None = None

    @property
    def content(self) -> Any:
        """The content, made anew at each call."""
        return decode(self.raw)

    def rewritten(self, raw: Raw) -> "Artifact":
        """Return the next version, with other content."""
        return Artifact(
            self.id, self.owner, raw, self.version + 1, self.readers, self.writers, self.price, self.formula
        )

    def allows(self, access: Access, agent_id: str, group: str) -> bool:
        """Whether an agent is among those that `access` names."""
        if access == "all" or agent_id == self.owner:
            return True
        return access != "owner" and (agent_id in access or group in access)


class Artifacts:
    """The artifacts of a world, by id."""

    def __init__(self) -> None:
        self._held: dict[str, Artifact] = {}
        self.get = self._held.get  # return an artifact, or None; twice as fast as a method around it

    def __len__(self) -> int:
        return len(self._held)

    def put(self, artifact: Artifact) -> None:
        """Add an artifact or replace the one of the same id."""
        self._held[artifact.id] = artifact

    def remove(self, id: str) -> None:
        """Remove an artifact."""
        del self._held[id]

    def ids(self) -> list[str]:
        """Return all ids, sorted."""
        return sorted(self._held)

    def state(self) -> Mapping[str, Any]:
        """Return all of it for the final digest."""
        return {
            id: [
                a.owner,
                a.raw,
                a.version,
                a.readers,
                a.writers,
                a.price,
                a.formula.text if a.formula else None,
            ]
            for id, a in sorted(self._held.items())
        }


def make(id: str, owner: str, content: Any, **fields: Any) -> Artifact:
    """Return a first version of an artifact.

    Raises:
        ActorError: if the content is not JSON-like.
    """
    return Artifact(id, owner, freeze(content), **fields)
