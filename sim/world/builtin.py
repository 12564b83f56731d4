"""The built-in kinds of action (design: the narrow waist). A handler changes the world only after all its checks."""

from typing import TYPE_CHECKING, Any

from sim.errors import LimitError, UsageError
from sim.events.topic import check_free
from sim.expressions import PURE_FUNCTIONS, Expression, ExpressionError
from sim.kernel.codec import Fact, Raw, encode, freeze
from sim.kernel.duration import to_ns
from sim.kernel.waits import sleep_ns
from sim.permissions import Permission
from sim.resources import MICRO, to_micro
from sim.world.action import ActionHandler, Refused
from sim.world.artifact import FORMULA_NAMES, Access, Artifact
from sim.world.message import Message
from sim.world.pool_actions import POOL_ACTIONS
from sim.world.tool import use_tool, wait_for_tool

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World

_MAX_CONTENT = 1_000_000  # bytes of an artifact's content


class _Written(Fact, frozen=True, gc=False):
    """The data of `artifact.written`. The fields are in order of name, so that it is canonical JSON."""

    artifact: str
    by: str
    version: int


class _Version(Fact, frozen=True, gc=False):
    """What writing an artifact returns."""

    version: int


def _walk(world: "World", agent: "Inhabitant", to: Any = None, doing: str = "", met: Any = None) -> None:
    """Be at `to` (by default where it is), doing something, from the next step on. `met` is kept in the record only."""
    space = world.space
    if space is None:
        raise Refused("there is no space to walk in")
    try:
        space.show(agent.agent_id, space.where(agent.agent_id) if to is None else to, doing)
    except UsageError as error:
        raise Refused(str(error)) from error


def _noop(world: "World", agent: "Inhabitant") -> None:
    return None


# -- messages and events


async def _wait_to_send(
    world: "World", agent: "Inhabitant", to: str, topic: str = "", data: Any = None, after: Any = None
) -> list[str]:
    receivers = _receivers(world, agent, to)
    for receiver in receivers if after is None else ():
        known = world.agents.get(receiver)  # it may have left while another one was waited for
        if known is not None and known is not agent:  # nobody can wait for itself
            await known.wait_for_room()
    return receivers


def _send(
    world: "World", agent: "Inhabitant", receivers: list[str], to: str, topic: str = "", data: Any = None,
    after: Any = None,
) -> dict[str, Any]:  # fmt: skip
    raw = freeze(data)
    if after is not None:
        return _send_later(world, agent.agent_id, receivers, topic, raw, _delay(after))
    refused: dict[str, str] = {}
    for receiver in receivers:
        why = deliver(world, Message(agent.agent_id, receiver, topic, raw, world.kernel.now))
        if why is not None:
            refused[receiver] = why
    if len(refused) == len(receivers):
        raise Refused(f"no message was taken: {next(iter(refused.values()))}")
    return {"sent": len(receivers) - len(refused), "refused": refused}


def _delay(after: Any) -> int:
    try:
        return to_ns(after)
    except UsageError as error:
        raise Refused(f"after is no duration: {error}") from error


def _send_later(
    world: "World", sender: str, receivers: list[str], topic: str, raw: Raw, delay_ns: int
) -> dict[str, Any]:
    """Send in so much time. Nobody waits for room then: a message that a full mailbox does not take is reported."""
    kernel = world.kernel

    def arrive() -> None:
        for receiver in receivers:
            why = deliver(world, Message(sender, receiver, topic, raw, kernel.now))
            if why is not None:
                kernel.emit("message.refused", {"to": receiver, "topic": topic, "reason": why}, sender)

    kernel.call_at(kernel.now + delay_ns, arrive)
    return {"sent": len(receivers), "refused": {}}


def deliver(world: "World", message: Message) -> str | None:
    """Put a message into its mailbox and record that; or return why it was refused."""
    kernel, known = world.kernel, world.agents.get(message.to)
    source, mark = kernel.acting(), len(kernel.ready)
    source.counter = counter = source.counter + 1
    why = f"{message.to} has stopped" if known is None else known.receive(message)
    kernel.wake_as_one(mark, source, counter)  # so that the sender's keys do not tell whether the receiver waited
    if why is None:
        if source.counter == counter:
            source.counter -= 1  # the event below gets the place of the wake-up that it causes
        world.messages += 1
        note = {"sender": message.sender, "to": message.to, "topic": message.topic, "data": message.raw}
        world.kernel.emit("message.sent", note, message.sender)
    return why


def _receivers(world: "World", agent: "Inhabitant", to: str) -> list[str]:
    receivers = [to] if to in world.agents else [id for id in world.group(to) if id != agent.agent_id]
    if not receivers:
        raise Refused(f"there is nobody called {to!r} to send to")
    return receivers


def _publish(world: "World", agent: "Inhabitant", topic: str, data: Any = None) -> int:
    try:
        check_free(topic)
        return world.event_bus.publish(topic, data).sequence
    except UsageError as error:
        raise Refused(str(error)) from error


def _create_task(
    world: "World", agent: "Inhabitant", title: str, to: str | None = None, data: Any = None
) -> dict[str, Any]:
    if to is not None and to not in world.agents:
        raise Refused(f"there is no agent {to!r} to give the task to")
    from sim.world.world import Task  # the record belongs to the world, which imports these handlers

    id, raw = len(world.tasks) + 1, freeze(data)
    note = {"id": id, "title": title, "creator": agent.agent_id, "assignee": to, "data": raw}
    if to is not None:
        why = deliver(world, Message(agent.agent_id, to, "task", freeze(note), world.kernel.now))
        if why is not None:
            raise Refused(why)
    world.tasks[id] = Task(title, agent.agent_id, to, raw)
    world.event_bus.tell("task.created", note)
    return {"id": id}


# -- money and things


def _transfer(world: "World", agent: "Inhabitant", to: str, amount: float) -> dict[str, float]:
    try:
        world.ledger.transfer(agent.agent_id, to, to_micro(amount))
    except (LimitError, UsageError) as error:
        raise Refused(str(error)) from error
    world.event_bus.tell("ledger.transferred", {"from": agent.agent_id, "to": to, "amount": amount})
    return {"balance": world.ledger.balance(agent.agent_id) / MICRO}


def _artifact(world: "World", agent: "Inhabitant", id: str, change: bool = False) -> Artifact:
    artifact = world.artifacts.get(id)
    if artifact is None:
        raise Refused(f"there is no artifact {id!r}")
    _check_access(artifact, agent, change)
    return artifact


def _check_access(artifact: Artifact, agent: "Inhabitant", change: bool) -> None:
    if not artifact.allows(artifact.writers if change else artifact.readers, agent.agent_id, agent.group):
        raise Refused(f"{agent.agent_id} may not {'change' if change else 'read'} the artifact {artifact.id!r}")


def _read(world: "World", agent: "Inhabitant", artifact: str) -> Any:
    return _artifact(world, agent, artifact).raw


def _write(
    world: "World",
    agent: "Inhabitant",
    artifact: str,
    content: Any,
    readers: Any = None,
    writers: Any = None,
    price: float = 0.0,
    formula: str = "",
) -> _Version:
    raw = _content(content)
    old = world.artifacts.get(artifact)
    if old is None:
        new = _new_artifact(artifact, agent.agent_id, raw, readers, writers, price, formula)
    else:
        if old.owner != agent.agent_id:  # the owner always may, and writes most often
            _check_access(old, agent, change=True)
        new = old.rewritten(raw)
    world.artifacts.put(new)
    world.event_bus.tell("artifact.written", _Written(artifact, agent.agent_id, new.version))
    return _Version(new.version)


def _new_artifact(id: str, owner: str, raw: Raw, readers: Any, writers: Any, price: float, formula: str) -> Artifact:
    try:
        computed = Expression.parse(formula, FORMULA_NAMES, PURE_FUNCTIONS) if formula else None
        micro = to_micro(price) if price else 0
    except UsageError as error:
        raise Refused(str(error)) from error
    if micro < 0:
        raise Refused(f"a price cannot be below 0, as {price:g} is")
    return Artifact(id, owner, raw, 1, _access(readers, "all"), _access(writers, "owner"), micro, computed)


def _edit(world: "World", agent: "Inhabitant", artifact: str, old: str, new: str) -> _Version:
    before = _artifact(world, agent, artifact, change=True)
    text = before.content
    if not isinstance(text, str) or not old or text.count(old) != 1:
        raise Refused(f"edit needs text that occurs once in {artifact!r}, and {old[:40]!r} does not")
    after = before.rewritten(_content(text.replace(old, new)))
    world.artifacts.put(after)
    world.event_bus.tell("artifact.written", _Written(artifact, agent.agent_id, after.version))
    return _Version(after.version)


def _delete(world: "World", agent: "Inhabitant", artifact: str) -> None:
    _artifact(world, agent, artifact, change=True)
    world.artifacts.remove(artifact)
    world.costs.give_back(artifact)
    world.event_bus.tell("artifact.deleted", {"artifact": artifact, "by": agent.agent_id})


def _invoke(world: "World", agent: "Inhabitant", artifact: str, args: Any = None) -> Any:
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
    world.event_bus.tell("artifact.invoked", {"artifact": artifact, "by": agent.agent_id})
    return value


def _content(content: Any) -> Raw:
    raw = freeze(content)
    if len(raw) > _MAX_CONTENT:
        raise Refused(f"the content has {len(raw)} bytes, and an artifact holds at most {_MAX_CONTENT}")
    return raw


def _access(given: Any, default: Access) -> Access:
    if given is None:
        return default
    if given in ("all", "owner"):
        return "all" if given == "all" else "owner"
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise Refused(f"access is 'all', 'owner' or a list of names, not {given!r}")


# -- places


async def _travel(world: "World", agent: "Inhabitant", to: Any) -> str:
    if world.places is None:
        raise Refused("this world has no places")
    place = world.places.named(to)
    start = world.places.where(agent.agent_id)
    time = None if place is None else 0 if start is None else world.places.travel_ns(start, place)
    if time is None or place is None:
        raise Refused(f"no way leads from {start!r} to {to!r}")
    if time:
        await sleep_ns(time)
    return start or ""


def _move(world: "World", agent: "Inhabitant", start: str, to: Any) -> dict[str, str]:
    assert world.places is not None, "travelling comes first and needs places"
    to = world.places.named(to) or ""
    world.places.place(agent.agent_id, to)
    world.event_bus.tell("place.entered", {"agent": agent.agent_id, "from": start, "to": to})
    return {"from": start, "to": to}


BUILT_IN = (
    ActionHandler("noop", _noop, Permission.GUEST, scope="own"),
    ActionHandler("walk", _walk, scope="space"),
    ActionHandler("send", _send, wait=_wait_to_send),
    ActionHandler("publish", _publish),
    ActionHandler("transfer", _transfer),
    ActionHandler("read", _read, Permission.GUEST),
    ActionHandler("write", _write),
    ActionHandler("edit", _edit),
    ActionHandler("delete", _delete),
    ActionHandler("invoke", _invoke),
    ActionHandler("move", _move, wait=_travel, ends=True),
    ActionHandler("use_tool", use_tool, wait=wait_for_tool, ends=True),
    ActionHandler("create_task", _create_task),
    *POOL_ACTIONS,
)
"""`sleep` and `stop` belong to the loops, `spawn` to whoever has templates: they register them."""
