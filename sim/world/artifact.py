"""Artifacts: named objects with content that agents read, write, edit, delete and invoke."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from sim.base.expressions import Expression
from sim.kernel.codec import Json, Raw, Record, decode, freeze
from sim.kernel.ports import ANYONE, Guard

ArtifactAccess = Literal["all", "owner"] | tuple[str, ...]
"""Which agents have access: all, the owner only, or the named agents and groups. The owner always has access."""

_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("*", "**", "all", "any", "anyone", "everybody", "everyone"), "all"),
    **dict.fromkeys(("owner", "me", "self"), "owner"),
}
"""What may be written for all agents, or for the owner, where names of agents are expected."""


def access_hint(access: object) -> str | None:
    """Return what to write instead of a wrong access, if it is meant for all agents or for the owner; None if not."""
    words = [access] if isinstance(access, str) else access if isinstance(access, list | tuple) else ()
    meant = [_WORDS[word] for word in words if isinstance(word, str) and word in _WORDS]
    if "all" in meant:
        return "for all agents, write the word `all` alone, without a list"
    if meant and len(meant) < len(words):
        return "leave the owner out of the list: it always has access"
    return "for the owner alone, write the word `owner` alone, without a list" if meant else None


FORMULA_NAMES = ("args", "content", "now", "caller")
"""The names that a formula can use."""


class Artifact(Record, frozen=True):
    """One version of an artifact. A change creates a new record with the next version.

    Attributes:
        raw: the content as canonical JSON.
        price: micro-units that the caller of `invoke` pays to the owner.
        formula: the expression that `invoke` evaluates, over `args`, `content`, `now` and `caller`; None: the artifact
            cannot be invoked.
    """

    id: str
    owner: str
    raw: Raw
    version: int = 1
    readers: ArtifactAccess = "all"
    writers: ArtifactAccess = "owner"
    price: int = 0
    formula: Expression | None = None

    @property
    def content(self) -> Any:
        """The content, decoded at each call: a change of the value does not change the artifact."""
        return decode(self.raw)

    def rewritten(self, raw: Raw) -> "Artifact":
        """Return the next version, with new content."""
        return Artifact(
            self.id,
            self.owner,
            raw,
            self.version + 1,
            readers=self.readers,
            writers=self.writers,
            price=self.price,
            formula=self.formula,
        )

    def allows(self, access: ArtifactAccess, agent_id: str, groups: Iterable[str]) -> bool:
        """Return whether `access` includes an agent, or one of its groups."""
        if access == "all" or agent_id == self.owner:
            return True
        return access != "owner" and (agent_id in access or any(group in access for group in groups))


class Artifacts:
    """The artifacts of a world, by id.

    Args:
        gate: who may change it.
    """

    def __init__(self, gate: Guard = ANYONE) -> None:
        self._gate = gate
        self._held: dict[str, Artifact] = {}
        self.get = self._held.get  # returns an artifact or None; twice as fast as a method

    def __len__(self) -> int:
        return len(self._held)

    def put(self, artifact: Artifact) -> None:
        """Add an artifact, or replace the one with the same id."""
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        self._held[artifact.id] = artifact

    def remove(self, id: str) -> None:
        """Remove an artifact."""
        if self._gate.current is None:
            self._gate.acting()  # it refuses a call from outside before anything changes
        del self._held[id]

    def ids(self) -> list[str]:
        """Return all ids, sorted."""
        return sorted(self._held)

    def state(self) -> Mapping[str, Sequence[Json]]:
        """Return all artifacts for the final digest."""
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
    """Return the first version of an artifact.

    Raises:
        ActorError: if the content is not JSON-like.
    """
    return Artifact(id, owner, freeze(content), **fields)
