"""The actions that send messages and publish events."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sim.base.errors import UsageError
from sim.events.topic import check_free
from sim.kernel.codec import Json, Raw, freeze
from sim.kernel.duration import to_ns, to_seconds
from sim.kernel.waits import NOTHING
from sim.world.action import Recipient, Refused, Time, Topic, action
from sim.world.edits import Edits
from sim.world.events import MessageRefused, MessageSent, MessageSuppressed
from sim.world.message import Message

if TYPE_CHECKING:
    from sim.world.world import Inhabitant, World


def _sends_at_once(
    world: "World", agent: "Inhabitant", to: str, topic: str = "", data: Any = None, after: Any = None
) -> Any:
    """Return what `_wait_to_send` returns without waiting, or NOTHING."""
    receivers, agents = _receivers(world, agent, to), world.agents
    for receiver in receivers if after is None else ():
        if (inhabitant := agents[receiver]) is not agent and not inhabitant.has_room():
            return NOTHING
    return receivers


async def _wait_to_send(
    world: "World", agent: "Inhabitant", to: str, topic: str = "", data: Any = None, after: Any = None
) -> list[str]:
    receivers = _receivers(world, agent, to)
    for receiver in receivers if after is None else ():
        inhabitant = world.agents.get(receiver)  # None if it was removed during the wait for another receiver
        if inhabitant is not None and inhabitant is not agent:  # an agent that waits for itself would wait for ever
            await inhabitant.wait_for_room()
    return receivers


@action("send", wait=_wait_to_send, ready=_sends_at_once, draws=False)
def send(
    world: "World",
    agent: "Inhabitant",
    receivers: list[str],
    to: Recipient,
    data: Any = None,
    topic: str = "",
    after: Time = None,
) -> dict[str, Json]:
    """Send a message to an agent, or to every member of a group.

    Args:
        to: the agent or group that receives it.
        data: the data of the message.
        topic: the topic of the message.
        after: the delay until it arrives.
    """
    raw = freeze(data)
    if after is not None:
        return send_later(world, agent.agent_id, receivers, topic, raw, _delay(after))
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


Posted = Callable[[str, int, Raw], bool]
"""Carries a message elsewhere: called with its receiver, its time of arrival and its data; False: it stays here."""

Arrive = Callable[["World", str, str, str, Raw], None]
"""What happens when a message arrives; see `arrive`."""


def send_later(
    world: "World",
    sender: str,
    receivers: list[str],
    topic: str,
    raw: Raw,
    delay_ns: int,
    *,
    post: Posted | None = None,
    arrives: Arrive | None = None,
) -> dict[str, Json]:
    """Send after a delay. The sender does not wait for room: a refusal is recorded as `message.refused`.

    A message takes its counter of the sender, and is on record, when it is sent. What happens when it arrives is caused
    by its receiver: the keys of the sender must not depend on what others did in the meantime.
    """
    kernel = world.kernel
    source, due = kernel.acting(), kernel.now + delay_ns
    for receiver in receivers:
        inhabitant = world.agents.get(receiver)  # None if it was removed during the wait for another receiver
        edited = _edited(world, Message(sender, receiver, topic, raw, kernel.now))
        if edited is None:
            continue
        sent = MessageSent(arrives=to_seconds(due), data=edited.raw, sender=sender, to=receiver, topic=topic)
        kernel.report(sent, sender)
        world.under_way += 1
        if post is not None and post(receiver, due, edited.raw):
            continue
        source.counter -= 1  # the arrival has the counter of this event, which is its cause
        own = None if inhabitant is None else inhabitant.source
        by = kernel.source_for(receiver, "message") if own is None else own
        kernel.call_for(by, due, partial(arrives or arrive, world, sender, receiver, topic, edited.raw), source)
    return {"sent": len(receivers), "refused": {}}


def arrive(world: "World", sender: str, receiver: str, topic: str, raw: Raw) -> None:
    """Put a message that was sent with a delay into the mailbox of its receiver, or record why it is refused."""
    message = Message(sender, receiver, topic, raw, world.kernel.now)
    world.under_way -= 1
    why = _put(world, message)
    if why is None:
        world.messages += 1
    else:
        world.kernel.report(MessageRefused(reason=why, sender=sender, to=receiver, topic=topic), receiver)


def _put(world: "World", message: Message) -> str | None:
    """Put a message into the mailbox of its receiver; return None, or the reason for a refusal."""
    inhabitant = world.agents.get(message.to)
    return f"{message.to} has stopped" if inhabitant is None else inhabitant.receive(message)


def deliver(world: "World", message: Message) -> str | None:
    """Put a message into the mailbox of its receiver and record it; return None, or the reason for a refusal."""
    kernel = world.kernel
    if world.event_bus.editor is not None:
        edited = _edited(world, message)
        if edited is None:
            return None
        message = edited
    source, mark = kernel.acting(), len(kernel.ready)
    source.counter = counter = source.counter + 1
    why = _put(world, message)
    kernel.wake_as_one(mark, source, counter)  # the sender's order keys must not depend on whether the receiver waited
    if why is None:
        if source.counter == counter:
            source.counter -= 1  # the event below takes the counter value of the wake-up that it causes
        world.messages += 1
        sent = MessageSent(data=message.raw, sender=message.sender, to=message.to, topic=message.topic)
        kernel.emit(sent.TOPIC, sent, message.sender)
    return why


def _edited(world: "World", message: Message) -> Message | None:
    """Return the message that is delivered instead, or the same one; None: it is left out, which is on record now."""
    if world.event_bus.editor is None:
        return message
    edited = Edits.on(world).message(world.kernel.acting(), message)
    if edited is None:
        left_out = MessageSuppressed(data=message.raw, sender=message.sender, to=message.to, topic=message.topic)
        world.kernel.report(left_out, message.sender)
    return edited


def _receivers(world: "World", agent: "Inhabitant", to: str) -> list[str]:
    receivers = [to] if to in world.agents else [id for id in world.group(to) if id != agent.agent_id]
    if not receivers:
        raise Refused(f"there is no agent or group {to!r} to send to")
    return receivers


@action("publish", draws=False)
def publish(world: "World", agent: "Inhabitant", topic: Topic, data: Any = None) -> None:
    """Publish an event.

    Args:
        topic: the topic, words separated by dots.
        data: the data of the event.
    """
    try:
        check_free(topic)
        world.event_bus.publish(topic, data)
    except UsageError as error:
        raise Refused(str(error)) from error
