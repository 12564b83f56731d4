"""Approvals: calls of tools that a person must approve first.

A *gate* is the question whether one call may be made. It is bound to its agent, its tool and the hash of its arguments,
and it belongs to one run. Only a decision or the passing of time moves it, never the agent that asked:

    pending → approved → used
    pending → denied | expired | cancelled
    approved → denied (revoked before its use) | expired | cancelled (the agent gave up)

`require` marks an approved gate as used in the step in which the call continues. There is no await between the two, and
the record holds what led to this step (the decision) and not the step itself. So after a crash at any point, the step
either has not happened or happens again as a whole: an approval is neither lost nor used without the call.

A *simulated* person decides after a modelled latency, within office hours. A *real* one decides from outside the run.
The decision is an input, `approval.decision`, because an input has all that is needed: it is durable before any agent
sees it, it has its place in the order, so a replay applies it there, and a decision that comes too late is on record
with its refusal. An input alone, however, would not hold the run: simulated time would jump to the end. So a helper
actor performs an effect of the kind `approval` meanwhile. Its latency is measured, which lets simulated time follow
real time, and it is in flight, so the run neither ends nor counts as deadlocked. It carries no decision, only the
question; it is idempotent, so a resumed run simply asks again. The agent itself waits on the gate and not on the
effect, so a tick does not wait for the person.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

import attrs

from sim.actors import Agent
from sim.base.errors import Cancelled, UsageError
from sim.base.expressions import PURE_FUNCTIONS, ExpressionError, Names
from sim.events.event_type import Published
from sim.events.topic import matches
from sim.host.person import await_person
from sim.kernel import Actor, Effect, Latch, Timer, perform
from sim.kernel.codec import ABSENT, JsonObject, decode, encode, hash_of
from sim.kernel.duration import MAX_NS, NS, to_text
from sim.kernel.rng import Draws
from sim.tools.audit import Audit
from sim.tools.events import (
    GateApproved,
    GateArguments,
    GateCancelled,
    GateDenied,
    GateExpired,
    GatePending,
    GateRefused,
    GateUsed,
)
from sim.tools.office_hours import OfficeHours
from sim.world.action import Refused
from sim.world.section import CallCondition, Duration, Pattern, PositiveDuration, Range, define_section
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.actors import AgentLoop
    from sim.world.world import Inhabitant, World

GateStatus = Literal["pending", "approved", "denied", "expired", "used", "cancelled"]
Decision = Literal["approve", "deny"]

DECISION: Final = "approval.decision"
"""The kind of input that brings the decision of a person: `{gate, decision, by, note}`."""

_MINUTE, _DAY = 60 * NS, 86_400 * NS
_NO_TIMEOUT = 1e8  # real seconds, three years: a person may take any time, and the gate has its own limit
_Z95 = 1.6448536269514722  # the 95th percentile of the standard normal distribution
_LONGEST_NOTE = 2_000  # characters of a person's note that are kept

_MOVES: Final[Mapping[GateStatus, tuple[GateStatus, ...]]] = {
    "pending": ("approved", "denied", "expired", "cancelled"),
    "approved": ("used", "denied", "expired", "cancelled"),
    "denied": (),
    "expired": (),
    "used": (),
    "cancelled": (),
}


@attrs.frozen
class Gate:
    """The question whether one call of a tool may be made.

    Args:
        id: its name, such as `gate-1`, unique in its run.
        agent: the agent that asks.
        tool: the tool that it wants to call.
        arguments_hash: see `hash_arguments`.
        arguments: the arguments of the call, as they were when the gate was made. The call is made with these.
        reason: why the call needs approval.
        created_ns: when it was made, in simulated nanoseconds.
        expires_ns: from when on it cannot be approved or used any more.
        status: where it stands.
        decided_by: the name of the person who decided; empty before.
        decided_ns: when, in simulated nanoseconds; None before.
        note: what the person said.
    """

    id: str
    agent: str
    tool: str
    arguments_hash: str
    arguments: JsonObject
    reason: str
    created_ns: int
    expires_ns: int
    status: GateStatus = "pending"
    decided_by: str = ""
    decided_ns: int | None = None
    note: str = ""


def hash_arguments(arguments: JsonObject) -> str:
    """Return the hash (64 hex digits) of the arguments of a call, over their canonical JSON.

    The order of keys does not matter, nor anything about the call that is not an argument, such as its id.
    """
    return hash_of(arguments)


# -- settings


@attrs.frozen
class ApprovalRule:
    """Says which calls need approval: those of a tool, under a condition or above a total.

    The first rule whose pattern fits a tool is the one that counts. A rule whose expressions cannot be evaluated for a
    call demands approval.

    Args:
        tool: a pattern of tools, such as `shop.refund` or `shop.*`.
        when: the calls that need approval; without it, and without `total`, all calls.
        total: an amount in a call. Calls also need approval if the amounts that an agent has let through without
            approval within a time, and the present one, are above `above` together, so that splitting an amount does
            not help.
        above: the largest sum that needs no approval.
        within: the time for which amounts are added up.
        reason: the reason shown to the person; by default the rule itself.
    """

    tool: Pattern
    when: CallCondition | None = None
    total: CallCondition | None = None
    above: Annotated[float, Range(0)] = 0.0
    within: PositiveDuration = _DAY
    reason: str = ""


@attrs.frozen
class SimulatedPerson:
    """A person who is part of the simulation and decides about gates.

    Args:
        name: the name of the person on record.
        policy: how the person decides: `approve` or `deny` all calls, approve with a `chance`, or by a `condition`.
        chance: the probability of an approval, for the policy `chance`.
        condition: the calls that are approved, for the policy `condition`.
        latency: the median time from the question to the decision.
        latency_p95: the 95th percentile of this time, which is lognormal; 0: it is always the median.
        hours: when the person works; only this time counts for the latency. By default always.
    """

    name: str = "person"
    policy: Literal["approve", "deny", "chance", "condition"] = "approve"
    chance: Annotated[float, Range(0, 1)] = 0.5
    condition: CallCondition | None = None
    latency: Duration = 10 * _MINUTE
    latency_p95: Duration = 0
    hours: OfficeHours | None = None

    def __attrs_post_init__(self) -> None:
        if (self.policy == "condition") != (self.condition is not None):
            raise UsageError("the policy `condition`, and no other one, needs a `condition`")
        if self.latency_p95 and not 0 < self.latency <= self.latency_p95:
            raise UsageError(
                f"the 95th percentile of a latency must be at least its median {to_text(self.latency)}, which must be"
                f" above 0, not {to_text(self.latency_p95)}"
            )

    def draw_latency(self, draws: Draws) -> int:
        """Return the time that a decision takes, in nanoseconds."""
        if not self.latency_p95:
            return self.latency
        spread = math.log(self.latency_p95 / self.latency) / _Z95
        return min(MAX_NS, round(self.latency * math.exp(spread * draws.gauss(0.0, 1.0))))


@attrs.frozen
class ApprovalSettings:
    """Calls of tools that a person must approve first.

    Args:
        person: who decides: a `simulated` person, or a `real` one with `sim approve`.
        simulated: how a simulated person decides.
        rules: which calls need approval.
        expires: the time after which a gate that is not used is closed.
        most_open: the number of gates that can be open; further calls that need approval are refused.
        most_open_of_agent: the same for one agent.
    """

    person: Literal["simulated", "real"] = "simulated"
    simulated: SimulatedPerson = attrs.field(factory=SimulatedPerson)
    rules: tuple[ApprovalRule, ...] = ()
    expires: PositiveDuration = 7 * _DAY
    most_open: Annotated[int, Range(1, 100_000)] = 1_000
    most_open_of_agent: Annotated[int, Range(1, 100_000)] = 100


# -- the service


@attrs.define(eq=False)
class _Open:
    """What an open gate needs: the latch that its call waits for, its timers, and the actor that asks a real person."""

    decided: Latch
    names: Names  # for the condition of a simulated person
    draws: Draws
    expiry: Timer | None = None
    decision: Timer | None = None
    question: Actor | None = None  # the helper actor that performs the effect, for a real person


_BECAME: Final[Mapping[GateStatus, type[GateApproved | GateDenied | GateExpired | GateUsed | GateCancelled]]] = {
    "approved": GateApproved, "denied": GateDenied, "expired": GateExpired, "used": GateUsed,
    "cancelled": GateCancelled,
}  # fmt: skip


class Approvals(Service):
    """The gates of a world.

    Args:
        world: the world.
        settings: which calls need approval, and who decides.

    Attributes:
        gates: all gates by id, in the order in which they were made.
    """

    name: ClassVar[str] = "approvals"

    def __init__(self, world: "World", settings: ApprovalSettings) -> None:
        self.gates: dict[str, Gate] = {}
        self._world = world
        self._kernel = world.kernel
        self._settings = settings
        self._open: dict[str, _Open] = {}
        self._passed: dict[tuple[str, int], list[tuple[int, float]]] = {}  # (agent, rule) → (time, amount) let through
        self._counts: Counter[str] = Counter()
        self._refused = 0
        self._waited_ns = 0  # from the question to the decision, over all decided gates
        world.on_input(DECISION, self._take)

    # -- for the code that calls tools

    def needed(self, agent: "Inhabitant", tool: str, arguments: JsonObject) -> str | None:
        """Return why a call needs approval, or None. A call that needs none counts towards the totals of its rule.

        Args:
            agent: the agent that calls.
            tool: the tool.
            arguments: the arguments of the call, after all checks.
        """
        for index, rule in enumerate(self._settings.rules):
            if matches(rule.tool, tool):
                return self._demand(index, rule, _names(self._kernel.now, agent, tool, arguments))
        return None

    def _demand(self, index: int, rule: ApprovalRule, names: Names) -> str | None:
        why = rule.reason or f"calls of {rule.tool} need approval"
        if rule.when is None and rule.total is None:
            return why
        try:
            if rule.when is not None and rule.when.evaluate(names, PURE_FUNCTIONS):
                return rule.reason or f"{why} when {rule.when.text}"
            if rule.total is None:
                return None
            amount = _amount(rule.total.evaluate(names, PURE_FUNCTIONS))
        except ExpressionError as error:  # a call that the rule cannot judge must not pass it
            return f"{why}: its rule cannot judge this call: {error}"
        now, key = self._kernel.now, (names["agent"], index)
        recent = [entry for entry in self._passed.get(key, ()) if entry[0] > now - rule.within]
        if math.fsum([amount, *(earlier for _, earlier in recent)]) > rule.above:
            return rule.reason or f"{why} above {rule.above:g} within {to_text(rule.within)}"
        self._passed[key] = [*recent, (now, amount)]
        return None

    async def check(self, agent: "Inhabitant", tool: str, arguments: JsonObject) -> Gate | None:
        """Wait for the approval of a call if a rule demands it.

        Returns:
            The used gate, with whose `arguments` the call must be made; None if the call needs no approval.

        Raises:
            Refused: as `require` does.
        """
        reason = self.needed(agent, tool, arguments)
        return None if reason is None else await self.require(agent, tool, arguments, reason)

    async def require(self, agent: "Inhabitant", tool: str, arguments: JsonObject, reason: str) -> Gate:
        """Ask for approval of a call, wait for the decision, and use it up.

        The caller must make the call, with the `arguments` of the gate, before its next await.

        Args:
            agent: the agent that calls. Its loop, if it has one, is PAUSED with the reason approval meanwhile.
            tool: the tool.
            arguments: the arguments of the call, JSON-like.
            reason: why it needs approval, for the person.

        Raises:
            Refused: if the call was denied, no person decided in time, or too many gates are open.
        """
        gate = await self.decided(agent, self.ask(agent, tool, arguments, reason))
        if (why := ending_of(gate)) is not None:
            raise Refused(why)
        try:
            return self.use(gate.id, agent.agent_id, tool, arguments)
        finally:
            self._give_up(gate.id)  # unless it is used: the arguments have changed, and no other call may use it

    async def decided(self, agent: "Inhabitant", gate: Gate) -> Gate:
        """Wait until a pending gate is decided or expires, and return it as it is then.

        Args:
            agent: the agent that asked. Its loop, if it has one, is PAUSED with the reason approval meanwhile.
            gate: the gate that `ask` returned in this step.
        """
        loop = _loop_of(agent)
        self._world.waits.begin(agent.agent_id)
        if loop is not None:
            loop.await_approval(gate.id)
        try:
            await self._open[gate.id].decided.wait()
        except (Cancelled, Exception):  # stopped or interrupted; not GeneratorExit, which must not record anything
            self._give_up(gate.id)
            _end_pause(loop)
            raise
        finally:
            self._world.waits.end(agent.agent_id)
        _end_pause(loop)
        return self.gates[gate.id]

    def ask(self, agent: "Inhabitant", tool: str, arguments: JsonObject, reason: str) -> Gate:
        """Make a gate, for code that does not wait for it here: `gate.approved` and other events say how it ended.

        Args:
            agent, tool, arguments, reason: as for `require`.

        Raises:
            Refused: if too many gates are open.
            UsageError: if the arguments or the reason are too long for an event, or there are office hours and the
                world has no calendar.
            ActorError: if the arguments are not JSON-like.
        """
        settings, kernel, id = self._settings, self._kernel, f"gate-{len(self.gates) + 1}"
        if settings.simulated.hours is not None and getattr(self._world, "calendar", None) is None:
            raise UsageError(f"the office hours of {settings.simulated.name} need a calendar", hint="add `calendar:`")
        own = sum(self.gates[other].agent == agent.agent_id for other in self._open)
        if len(self._open) >= settings.most_open or own >= settings.most_open_of_agent:
            raise Refused(f"{tool} needs approval, but {len(self._open)} gates are open, {own} of {agent.agent_id}")
        kept = decode(encode(arguments))  # a copy, because the agent may change its arguments later
        expires_ns = min(MAX_NS, kernel.now + settings.expires)
        gate = Gate(
            id=id,
            agent=agent.agent_id,
            tool=tool,
            arguments_hash=hash_arguments(kept),
            arguments=kept,
            reason=reason,
            created_ns=kernel.now,
            expires_ns=expires_ns,
        )
        pending = GatePending(
            agent=gate.agent,
            arguments_hash=gate.arguments_hash,
            expires_ns=expires_ns,
            gate=id,
            reason=reason,
            tool=tool,
        )
        self._tell(gate, pending)
        kernel.report(GateArguments(arguments=kept, gate=id), gate.agent)  # on record only: not for all to see
        self.gates[id] = gate
        draws = self._world.draws_now(gate.agent, "approvals").split()
        names = _names(kernel.now, agent, tool, kept)
        going = self._open[id] = _Open(Latch(kernel), names, draws)
        going.expiry = kernel.call_at(expires_ns, lambda: self._move(id, "expired"))
        if settings.person == "real":
            self._put_question(gate, going)
        else:
            self._await_simulated(gate, going, settings.simulated)
        return gate

    def use(self, gate_id: str, agent_id: str, tool: str, arguments: JsonObject) -> Gate:
        """Use up an approved gate, and return it. The caller must make the call before its next await.

        Args:
            gate_id: the gate.
            agent_id: the agent that calls.
            tool: the tool that it is about to call.
            arguments: the arguments of the call.

        Raises:
            Refused: if the gate is not approved, is used, or is for another call.
        """
        why = self._hindrance(gate_id, agent_id, tool, arguments)
        if why is not None:
            self._refuse(gate_id, agent_id, why)
            raise Refused(why)
        return self._move(gate_id, "used")

    def _hindrance(self, id: str, agent_id: str, tool: str, arguments: JsonObject) -> str | None:
        gate = self.gates.get(id)
        if gate is None:
            return f"there is no gate {id!r} in this run"
        if gate.agent != agent_id:
            return f"{id} is a gate of {gate.agent}, not of {agent_id}"
        if gate.tool != tool:
            return f"{id} is for {gate.tool}, not for {tool}"
        if gate.arguments_hash != hash_arguments(arguments):
            return f"{id} is for other arguments of {tool}"
        if gate.status == "approved":
            return None if self._kernel.now < gate.expires_ns else f"{id} has expired"
        return ending_of(gate) or f"{id} is {gate.status}"

    # -- for the person

    def decide(self, gate_id: str, decision: Decision, by: str, note: str = "") -> Gate:
        """Decide about a gate. A denial also revokes an approval that is not used yet.

        Args:
            gate_id: the gate.
            decision: `approve` or `deny`.
            by: the name of the person, who is not an agent that asks.
            note: what the person says.

        Raises:
            Refused: if there is no such gate, it cannot be decided any more, or the agent itself would decide.
        """
        gate = self.gates.get(gate_id)
        if gate is None:
            raise Refused(f"there is no gate {gate_id!r:.80} in this run")
        if by == gate.agent or not by:
            who = f"{gate_id} cannot be decided by {by}" if by else f"{gate_id}: no name is given"
            raise Refused(f"{who}: a person must decide")
        after: GateStatus = "approved" if decision == "approve" else "denied"
        if after not in _MOVES[gate.status] or self._kernel.now >= gate.expires_ns:
            raise Refused(f"{gate_id} cannot be {after} any more: it is {gate.status}")
        return self._move(gate_id, after, by=by, note=note[:_LONGEST_NOTE])

    def _take(self, data: Any) -> str | None:
        """Apply the input that brings a decision. What is wrong with it is recorded and returned."""
        match data:
            case {"gate": str(gate), "decision": "approve" | "deny" as decision, "by": str(by), **rest}:
                try:
                    self.decide(gate, decision, by, str(rest.get("note") or ""))
                except Refused as refusal:
                    return self._refuse(gate, by, str(refusal))
                return None
            case _:
                return self._refuse("", "", "a decision needs a gate, `approve` or `deny`, and the name of the person")

    def _put_question(self, gate: Gate, going: _Open) -> None:
        """Start the effect that holds the run while a real person is awaited."""
        effect = Effect(
            "approval",
            {
                "gate": gate.id,
                "agent": gate.agent,
                "tool": gate.tool,
                "arguments": gate.arguments,
                "reason": gate.reason,
            },
            await_person,
            deadline_ns=min(MAX_NS, gate.expires_ns - gate.created_ns + 1),  # the gate expires first
            timeout=_NO_TIMEOUT,
            safety="idempotent",
        )
        going.question = self._kernel.spawn(gate.id, _perform(effect))
        self._kernel.recorder.flush()  # so that the person can read what it is about

    def _await_simulated(self, gate: Gate, going: _Open, person: SimulatedPerson) -> None:
        latency, due = person.draw_latency(going.draws), MAX_NS
        if person.hours is None:
            due = gate.created_ns + latency
        elif (calendar := getattr(self._world, "calendar", None)) is not None:
            due = person.hours.after_work(calendar, gate.created_ns, latency, gate.expires_ns)
        if due < gate.expires_ns:
            going.decision = self._kernel.call_at(due, lambda: self._simulate(gate, person))

    def _simulate(self, gate: Gate, person: SimulatedPerson) -> None:
        """Let the simulated person decide."""
        going, note = self._open[gate.id], ""
        if person.policy == "chance":
            agrees = going.draws.random() < person.chance
        elif person.condition is not None:
            try:
                agrees = bool(person.condition.evaluate(going.names, PURE_FUNCTIONS))
            except ExpressionError as error:
                agrees, note = False, str(error)
        else:
            agrees = person.policy == "approve"
        self._move(gate.id, "approved" if agrees else "denied", by=person.name, note=note[:_LONGEST_NOTE])

    # -- the states of a gate

    def _move(self, id: str, after: GateStatus, *, by: str = "", note: str = "") -> Gate:
        """Change the status of a gate; this is the only place that does."""
        self._kernel.acting()  # first: it refuses a call from outside before anything changes
        gate, now = self.gates[id], self._kernel.now
        assert after in _MOVES[gate.status], f"{id} is {gate.status}"
        if by:
            gate = attrs.evolve(gate, status=after, decided_by=by, decided_ns=now, note=note)
        else:
            gate = attrs.evolve(gate, status=after)
        first = self.gates[id].status == "pending"
        self.gates[id] = gate
        self._counts[after] += 1
        self._waited_ns += now - gate.created_ns if first else 0
        going = self._open[id]
        self._stop_waiting(going, closed=after != "approved")
        if after != "approved":
            del self._open[id]
        became = _BECAME[after](agent=gate.agent, by=by or ABSENT, gate=id, note=note if by else ABSENT, tool=gate.tool)
        self._tell(gate, became)
        if not going.decided.is_set:
            going.decided.set()
        return gate

    def _stop_waiting(self, going: _Open, *, closed: bool) -> None:
        """Cancel what would move a gate that has moved; an approved gate can still expire."""
        kernel = self._kernel
        if going.decision is not None:
            going.decision.cancel()
        if going.question is not None and going.question.coro is not None:
            kernel.cancel(going.question)
        if closed and going.expiry is not None:
            going.expiry.cancel()

    def _give_up(self, id: str) -> None:
        """Cancel a gate whose agent does not wait any more, so that a later approval cannot be used."""
        if "cancelled" in _MOVES[self.gates[id].status]:
            self._move(id, "cancelled")

    def _tell(self, gate: Gate, data: Published) -> None:
        """Publish how a gate ended, and audit it. Its arguments are not for all to see."""
        self._world.event_bus.report(data)
        audit = self._world.services.get(Audit.name)
        if isinstance(audit, Audit):
            audit.record(gate.agent, data.TOPIC, {**decode(encode(data)), "arguments_hash": gate.arguments_hash})

    def _refuse(self, gate_id: Any, by: Any, reason: str) -> str:
        self._refused += 1
        self._kernel.report(GateRefused(by=str(by)[:80], gate=str(gate_id)[:80], reason=reason[:500]))
        return reason

    # -- numbers

    def state(self) -> Any:
        """Return all gates and the totals, for the final digest; None if there are none."""
        if not self.gates and not self._passed:
            return None
        passed = {f"{agent}/{rule}": entries for (agent, rule), entries in sorted(self._passed.items())}
        return {"gates": {id: attrs.asdict(gate) for id, gate in self.gates.items()}, "passed": passed}

    def metrics(self) -> Mapping[str, float | None]:
        """Return the numbers of open gates, of gates by how they ended, and of refused attempts, and the mean time
        from a question to its decision.
        """
        counts = {status: self._counts[status] for status in get_args(GateStatus) if status != "pending"}
        decided = sum(gate.status != "pending" for gate in list(self.gates.values()))
        mean = self._waited_ns / decided / NS if decided else None
        numbers = {"open": len(self._open), "made": len(self.gates), **counts, "refused": self._refused}
        return {**numbers, "mean_wait_seconds": mean}

    def summary(self) -> JsonObject:
        """Return the same numbers; empty without gates."""
        return self.metrics() if self.gates else {}


async def _perform(effect: Effect) -> None:
    await perform(effect)


def _names(now: int, agent: "Inhabitant", tool: str, arguments: JsonObject) -> Names:
    """Return what expressions over a call can use."""
    kind = getattr(agent, "kind", agent.group)
    return {"tool": tool, "args": arguments, "agent": agent.agent_id, "kind": kind, "now": now / NS}


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ExpressionError(f"an amount must be a number from 0, not {value!r:.60}")
    return float(value)


def _loop_of(agent: "Inhabitant") -> "AgentLoop | None":
    """Return the loop of an agent; None if nothing runs it."""
    if not isinstance(agent, Agent):
        return None
    try:
        return agent.loop
    except RuntimeError:
        return None


def ending_of(gate: Gate) -> str | None:
    """Return why the call of a gate was not approved; None if it was, or is not decided."""
    if gate.status == "denied":
        return f"{gate.tool} was denied by {gate.decided_by}{f': {gate.note}' if gate.note else ''}"
    if gate.status == "expired":
        return f"{gate.tool} was not approved within {to_text(gate.expires_ns - gate.created_ns)}"
    return None


def _end_pause(loop: "AgentLoop | None") -> None:
    """End the pause of an agent that has waited for approval."""
    if loop is not None:
        loop.approved()


def _make(world: "World", settings: ApprovalSettings) -> None:
    world.add_service(Approvals(world, settings))


def _draws(settings: ApprovalSettings) -> Iterator[str]:
    person = settings.simulated
    if settings.person == "simulated" and person.policy == "chance" and 0 < person.chance < 1:
        yield f"whether {person.name} approves a call, with the probability {person.chance:g}"
    if settings.person == "simulated" and person.latency_p95 > person.latency:
        yield f"how long {person.name} takes to decide"


define_section("approvals", ApprovalSettings, _make, draws=_draws)
