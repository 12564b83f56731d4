"""Travel: the loop of an agent stops on one island, and starts on another one with its state and its mailbox.

What it takes along is bytes, also in one process: so it is the same as where each island has a process of its own.
"""

from collections.abc import Callable
from typing import Any

from sim.actors.lifecycle import TRAVEL
from sim.actors.loop import AgentLoop
from sim.actors.mailbox import MailboxCounts
from sim.base.errors import RunError
from sim.kernel.codec import Json, Raw, Record, as_sent, reader
from sim.world import Message


class Luggage(Record, frozen=True):
    """What an agent takes along.

    Attributes:
        state: its state variables.
        own: what agents of its class take along beside these; see `Agent.luggage`.
        counter: the counter of its source.
        iterations, failures, wakeups, held_ns: the counts of its loop.
        fault: the latest fault of its state.
        mail: the messages that it has not read.
        mailbox: the counts of its mailbox.
    """

    state: dict[str, Json]
    own: dict[str, Json]
    counter: int
    iterations: int
    failures: int
    wakeups: int
    held_ns: int
    fault: str | None
    mail: tuple[Message, ...]
    mailbox: MailboxCounts


_read = reader(Luggage)


def leave(loop: AgentLoop, left: Callable[[Callable[[int], Raw]], object]) -> None:
    """Stop a loop after its iteration.

    Args:
        loop: the loop of the agent that travels.
        left: called once it has stopped, with what returns the luggage for a counter of its source.
    """
    mail: list[Message] = []

    def pack(stopped: Any) -> None:
        stopped.on_leaving = stopped.on_stopped = None
        stopped.under_way = True
        stopped.world.under_way += len(mail)
        left(lambda counter: Raw(_packed(loop, tuple(mail), counter)))

    loop.on_leaving = lambda: mail.extend(loop.agent.mailbox.empty())
    loop.on_stopped = pack
    loop.request_stop(TRAVEL)


def _packed(loop: AgentLoop, mail: tuple[Message, ...], counter: int) -> bytes:
    agent = loop.agent
    luggage = Luggage(
        state=agent.state, own=agent.luggage(), counter=counter, iterations=loop.iteration_count,
        failures=loop.failures, wakeups=loop.wakeups, held_ns=loop.held_ns, fault=loop.state_fault, mail=mail,
        mailbox=agent.mailbox.counts(),
    )  # fmt: skip
    try:
        return as_sent(luggage)
    except ValueError as error:
        raise RunError(f"{agent.agent_id} travels with a state that is not JSON: {error}") from error


def clear(loop: AgentLoop) -> None:
    """Forget the counts of an agent that has travelled: it has them where it arrives."""
    loop.iteration_count = loop.failures = loop.wakeups = loop.held_ns = 0
    loop.state_fault = None
    loop.agent.mailbox.recount(MailboxCounts())


def arrive(loop: AgentLoop, luggage: Raw) -> None:
    """Start a loop with what its agent has taken along, unless it was stopped on its way."""
    packed: Luggage = _read(bytes(luggage))
    agent = loop.agent
    agent.state.clear()
    agent.state.update(packed.state)
    agent.unpack(packed.own)
    loop.actor.counter = packed.counter
    loop.iteration_count, loop.failures, loop.wakeups = packed.iterations, packed.failures, packed.wakeups
    loop.held_ns, loop.state_fault = packed.held_ns, packed.fault
    loop.begin_elsewhere()
    agent.mailbox.recount(packed.mailbox)
    loop.under_way = False
    loop.world.under_way -= len(packed.mail)
    if loop.stops_on_arrival:
        loop.stops_on_arrival = False
        agent.mailbox.close()  # where it was before, this was done when it left
        agent.mailbox.dead += len(packed.mail)
        return
    loop.start_now()
    for message in packed.mail:
        agent.mailbox.queue.put_nowait(message)
