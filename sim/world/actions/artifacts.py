"""The actions on artifacts: read, write, edit, delete and invoke."""

from typing import TYPE_CHECKING, Any

from sim.base.errors import LimitError, UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.base.permissions import Permission
from sim.kernel.codec import Fact, Raw, encode, freeze
from sim.resources import to_micro
from sim.world.action import ArtifactId, Audience, Formula, NewArtifactId, Refused, Values, action
from sim.world.artifact import FORMULA_NAMES, Artifact, ArtifactAccess, access_hint
from sim.world.events import ArtifactDeleted, ArtifactInvoked, ArtifactWritten

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

_MAX_CONTENT = 1_000_000  # maximum size of the content of an artifact, in bytes as JSON


class _Version(Fact, frozen=True, gc=False):
    """The result of writing an artifact."""

    version: int


def _artifact(world: "World", agent: "Inhabitant", id: str, change: bool = False) -> Artifact:
    artifact = world.artifacts.get(id)
    if artifact is None:
        raise Refused(f"there is no artifact {id!r}")
    _check_access(world, artifact, agent, change=change)
    return artifact


def _check_access(world: "World", artifact: Artifact, agent: "Inhabitant", *, change: bool) -> None:
    if not artifact.allows(artifact.writers if change else artifact.readers, agent.agent_id, world.groups_of(agent)):
        raise Refused(f"{agent.agent_id} may not {'change' if change else 'read'} the artifact {artifact.id!r}")


@action("read", permission=Permission.GUEST, draws=False)
def read(world: "World", agent: "Inhabitant", artifact: ArtifactId) -> Any:
    """Read an artifact.

    Args:
        artifact: the name of the artifact.
    """
    return _artifact(world, agent, artifact).raw


@action("write", draws=False)
def write(
    world: "World",
    agent: "Inhabitant",
    artifact: NewArtifactId,
    content: Any,
    readers: Audience = None,
    writers: Audience = None,
    price: float = 0.0,
    formula: Formula = "",
) -> _Version:
    """Create an artifact or replace its content.

    Args:
        artifact: the name of the artifact.
        content: the content.
        readers: for a new artifact, which agents can read it; by default all.
        writers: for a new artifact, which agents can change it; by default its owner.
        price: for a new artifact, the price of invoking it.
        formula: for a new artifact, the expression that invoking it computes.
    """
    raw = freeze(content)
    if len(raw) > _MAX_CONTENT:
        raise _too_large(raw)
    old = world.artifacts.get(artifact)
    if old is None:
        access = _access(world, readers, "all"), _access(world, writers, "owner")
        new = _new_artifact(artifact, agent.agent_id, raw, access, price, formula)
    else:
        if old.owner != agent.agent_id:  # fast path: most writers are owners, who always have access
            _check_access(world, old, agent, change=True)
        new = old.rewritten(raw)
    world.artifacts.put(new)
    world.event_bus.report(ArtifactWritten(artifact=artifact, by=agent.agent_id, version=new.version))
    return _Version(new.version)


def _new_artifact(
    id: str, owner: str, raw: Raw, access: tuple[ArtifactAccess, ArtifactAccess], price: float, formula: str
) -> Artifact:
    try:
        computed = Expression.parse(formula, FORMULA_NAMES, PURE_FUNCTIONS) if formula else None
        micro = to_micro(price) if price else 0
    except UsageError as error:
        raise Refused(str(error)) from error
    if micro < 0:
        raise Refused(f"a price cannot be below 0, as {price:g} is")
    readers, writers = access
    return Artifact(id, owner, raw, readers=readers, writers=writers, price=micro, formula=computed)


@action("edit", draws=False)
def edit(world: "World", agent: "Inhabitant", artifact: ArtifactId, old: str, new: str) -> _Version:
    """Replace one piece of text in an artifact.

    Args:
        artifact: the name of the artifact.
        old: text that occurs exactly once in it.
        new: the text that replaces it.
    """
    before = _artifact(world, agent, artifact, change=True)
    text = before.content
    if not isinstance(text, str) or not old or text.count(old) != 1:
        raise Refused(f"edit needs text that occurs once in {artifact!r}, and {old[:40]!r} does not")
    raw = freeze(text.replace(old, new))
    if len(raw) > _MAX_CONTENT:
        raise _too_large(raw)
    after = before.rewritten(raw)
    world.artifacts.put(after)
    world.event_bus.report(ArtifactWritten(artifact=artifact, by=agent.agent_id, version=after.version))
    return _Version(after.version)


@action("delete", draws=False)
def delete(world: "World", agent: "Inhabitant", artifact: ArtifactId) -> None:
    """Delete an artifact.

    Args:
        artifact: the name of the artifact.
    """
    _artifact(world, agent, artifact, change=True)
    world.artifacts.remove(artifact)
    world.costs.give_back(artifact)
    world.event_bus.report(ArtifactDeleted(artifact=artifact, by=agent.agent_id))


@action("invoke", draws=False)
def invoke(world: "World", agent: "Inhabitant", artifact: ArtifactId, args: Values = None) -> Any:
    """Compute the formula of an artifact and pay its price.

    Args:
        artifact: the name of the artifact.
        args: the value of `args` in the formula.
    """
    thing = _artifact(world, agent, artifact)
    if thing.formula is None:
        raise Refused(f"the artifact {artifact!r} has no formula to invoke")
    names = {"args": args, "content": thing.content, "now": world.now, "caller": agent.agent_id}
    try:
        value = thing.formula.evaluate(names, PURE_FUNCTIONS)
        encode(value)
        if thing.price and thing.owner != agent.agent_id:
            world.ledger.transfer(agent.agent_id, thing.owner, thing.price)
    except (ExpressionError, LimitError, UsageError) as error:
        raise Refused(str(error)) from error
    world.event_bus.report(ArtifactInvoked(artifact=artifact, by=agent.agent_id))
    return value


def _too_large(raw: Raw) -> Refused:
    return Refused(f"the content has {len(raw)} bytes, and an artifact holds at most {_MAX_CONTENT}")


def _access(world: "World", access: Any, default: ArtifactAccess) -> ArtifactAccess:
    if access is None:
        return default
    if access in ("all", "owner"):
        return "all" if access == "all" else "owner"
    if isinstance(access, list | tuple) and all(isinstance(name, str) for name in access):
        if (hint := access_hint([name for name in access if not _is_known(world, name)])) is None:
            return tuple(access)
    else:
        hint = access_hint(access)
    more = f"; {hint}" if hint else ""
    raise Refused(f"access is all, owner or a list of agents and groups, not {access!r:.80}{more}")


def _is_known(world: "World", name: str) -> bool:
    return name in world.agents or bool(world.group(name))
