"""Approvals: what needs one, who gives it, and that it is good for one call only."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from sim.actors import AgentState
from sim.base.errors import UsageError
from sim.base.expressions import Expression
from sim.host.host import Host
from sim.kernel import NS
from sim.tools.approvals import (
    DECISION,
    ApprovalRule,
    Approvals,
    ApprovalSettings,
    Gate,
    SimulatedPerson,
    hash_arguments,
)
from sim.world import Action
from sim.world.action import ActionHandler, Refused
from tests.actors.helpers import Lab, Script
from tests.helpers import as_host

MINUTE = 60 * NS
REAL = ApprovalSettings(person="real")


class Office(Lab):
    """A world with approvals and the agent `a`, which can ask with the action `pay`.

    Attributes:
        calls: the arguments with which the tool has been called.
    """

    def __init__(self, chosen: ApprovalSettings, seed: int = 0) -> None:
        super().__init__(seed)
        self.approvals = Approvals(self.world, chosen)
        self.world.add_service(self.approvals)
        self.calls: list[Any] = []
        self.world.actions.register(ActionHandler("pay", self._pay, wait=self._wait))

    async def _wait(self, world: sim.World, agent: Any, amount: float) -> Any:
        gate = await self.approvals.require(agent, "shop.refund", {"amount": amount}, "it is much")
        self.calls.append(gate.arguments)
        return gate

    @staticmethod
    def _pay(world: sim.World, agent: Any, gate: Gate, amount: float) -> Any:
        """Pay.

        Args:
            amount: how much.
        """
        return gate.id

    def agent(self, name: str = "a", amount: float = 70) -> Script:
        """Start an agent that asks once."""
        steps = iter([Action("pay", {"amount": amount})])
        self.add(name, lambda _: next(steps, Action("stop")), min_loop_delay=1).start_now()
        return self.script(name)

    def decide(self, gate: str, decision: str, by: str = "eve", note: str = "") -> None:
        """Bring in a decision, as the host does."""
        self.kernel.apply(DECISION, {"gate": gate, "decision": decision, "by": by, "note": note})

    def topics(self) -> list[tuple[float, str]]:
        """Return (seconds, topic) of the events of gates."""
        return [
            (row.time_ns / NS, row.topic)
            for row in self.rows()
            if row.topic.startswith("gate.") and row.topic != "gate.arguments"
        ]


def simulated(**options: Any) -> ApprovalSettings:
    """Settings with a simulated person."""
    return ApprovalSettings(simulated=SimulatedPerson(**options))


# -- simulated people


def test_a_simulated_person_approves_after_a_latency():
    """The agent is PAUSED with the gate's id meanwhile; then the call is made in the step in which the gate is used."""
    office = Office(simulated(latency=10 * MINUTE))
    agent = office.agent()
    office.run(599)
    assert agent.loop.state is AgentState.PAUSED
    assert office.calls == []
    office.run(700)
    gate = office.approvals.gates["gate-1"]
    assert (gate.status, gate.decided_by, gate.decided_ns) == ("used", "person", 600 * NS)
    assert office.calls == [{"amount": 70}]
    assert agent.results[0].data == "gate-1"
    assert office.topics() == [(0, "gate.pending"), (600, "gate.approved"), (600, "gate.used")]
    paused = [row for row in office.rows("a", "agent.state") if "approval" in str(row.data["reason"])]
    assert [row.data["reason"] for row in paused] == ["approval:gate-1", "approval"]


def test_a_denied_call_is_refused_with_the_note():
    """A denial refuses the action and the tool is not called."""
    office = Office(simulated(policy="deny"))
    agent = office.agent()
    office.run(700)
    assert agent.results[0].error == "shop.refund was denied by person"
    assert (office.calls, office.approvals.gates["gate-1"].status) == ([], "denied")


@pytest.mark.parametrize(("amount", "status"), [(70, "used"), (500, "denied")])
def test_a_condition_decides(amount, status):
    """A person with a condition sees the arguments; what the condition cannot judge is denied."""
    office = Office(simulated(policy="condition", condition=Expression.parse("args.amount < 100 and agent == 'a'")))
    office.agent(amount=amount)
    office.run(700)
    assert office.approvals.gates["gate-1"].status == status


def test_a_condition_that_fails_denies():
    """A condition that cannot be evaluated is a denial, whose note says why."""
    office = Office(simulated(policy="condition", condition=Expression.parse("args.sum < 100")))
    office.agent()
    office.run(700)
    gate = office.approvals.gates["gate-1"]
    assert gate.status == "denied"
    assert "there is no key 'sum'" in gate.note


def test_chance_and_latency_are_drawn_for_each_gate():
    """Draws depend on the seed, the agent and the number of its gate: another agent changes nothing."""

    def gates(seed: int, *names: str) -> dict[str, tuple[str, int | None]]:
        office = Office(simulated(policy="chance", chance=0.5, latency=MINUTE, latency_p95=9 * MINUTE), seed)
        for name in names:
            office.agent(name)
        office.run(7200)
        return {gate.agent: (gate.status, gate.decided_ns) for gate in office.approvals.gates.values()}

    found = [gates(seed, "a") for seed in range(40)]
    assert [gates(seed, "b", "a")["a"] for seed in range(40)] == [each["a"] for each in found]
    assert {each["a"][0] for each in found} == {"used", "denied"}
    assert len({each["a"][1] for each in found}) == 40
    median = sorted(each["a"][1] or 0 for each in found)[20]
    assert MINUTE / 2 < median < 2 * MINUTE


@pytest.mark.parametrize(
    "options",
    [{"policy": "condition"}, {"condition": Expression.parse("true")}, {"latency": 10, "latency_p95": 5}],
    ids=str,
)
def test_contradictory_people_are_refused(options):
    """A person whose settings contradict each other is refused."""
    with pytest.raises(UsageError):
        SimulatedPerson(**options)


# -- expiry, stops, limits


def test_a_gate_expires():
    """A gate that nobody decides in time is closed, and the call refused."""
    office = Office(attrs.evolve(simulated(latency=MINUTE), expires=MINUTE))
    agent = office.agent()
    office.run(100)
    assert agent.results[0].error == "shop.refund was not approved within 1m"
    assert office.topics() == [(0, "gate.pending"), (60, "gate.expired")]


def test_an_agent_that_is_stopped_closes_its_gate():
    """A gate whose agent does not wait any more is cancelled: a later approval is refused and on record."""
    office = Office(simulated(latency=10 * MINUTE))
    agent = office.agent()
    office.at(5, lambda: agent.loop.request_stop("test"))
    office.run(10)
    assert (agent.loop.state, office.approvals.gates["gate-1"].status) == (AgentState.STOPPED, "cancelled")
    office.decide("gate-1", "approve")
    office.run(700)
    assert office.topics() == [(0, "gate.pending"), (5, "gate.cancelled"), (10, "gate.refused")]
    assert office.calls == []


def test_an_interrupted_agent_closes_its_gate():
    """An agent without a loop waits as well, and an interrupt withdraws its question."""
    office = Office(simulated())
    plain = Script("plain", office.world)
    errors: list[BaseException] = []

    async def ask() -> None:
        try:
            await office.approvals.require(plain, "shop.refund", {}, "test")
        except sim.Interrupt as error:
            errors.append(error)

    with office.kernel.acting_as(office.kernel.scenario):
        actor = office.world.spawn("asker", ask())
    office.at(3, lambda: office.world.interrupt(actor))
    office.run(700)
    assert len(errors) == 1
    assert office.approvals.gates["gate-1"].status == "cancelled"


def test_only_so_many_gates_can_be_open():
    """Above the limits, a call is refused at once."""
    office = Office(ApprovalSettings(most_open=3, most_open_of_agent=2))
    one, two = Script("one", office.world), Script("two", office.world)
    with office.kernel.acting_as(office.kernel.scenario):
        for agent in (one, one, two):
            office.approvals.ask(agent, "t", {}, "test")
        for agent in (one, two):
            with pytest.raises(Refused, match="3 gates are open"):
                office.approvals.ask(agent, "t", {}, "test")


# -- decisions from outside


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_real_person_decides_by_an_input(backend):
    """The run waits for a person although nothing else is left to do. The decision is an input, and the question an
    effect that is abandoned then.
    """
    office = Office(REAL)
    host = Host(office.kernel)

    async def person() -> None:
        for _ in range(10_000):
            if office.approvals.gates:
                break
            await anyio.sleep(0.001)
        host.submit(DECISION, {"gate": "gate-1", "decision": "approve", "by": "eve", "note": "fine"})

    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(person)
            await host.run(3600 * NS)

    agent = Script("a", office.world)
    with office.kernel.acting_as(office.kernel.scenario):
        ask = office.world.execute(agent, Action("pay", {"amount": 70}))
        actor = office.kernel.spawn("main", ask, on_exit=lambda *_: office.kernel.halt())
    anyio.run(program, backend=backend)
    assert actor.exit is not None
    assert actor.exit.value.success
    gate = office.approvals.gates["gate-1"]
    assert (gate.status, gate.decided_by, gate.note) == ("used", "eve", "fine")
    ((intent),) = office.recorder.intents
    assert (intent.actor, intent.kind, intent.safety, intent.latency) == (
        "gate-1",
        "approval",
        "idempotent",
        "measured",
    )
    assert [row.ending for row in office.recorder.endings] == ["abandoned"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"gate": "gate-2", "decision": "approve", "by": "eve"}, "there is no gate 'gate-2' in this run"),
        ({"gate": "gate-1", "decision": "approve", "by": "a"}, "gate-1 cannot be decided by a: a person must decide"),
        (
            {"gate": "gate-1", "decision": "approve", "by": ""},
            "gate-1: no name is given: a person must decide",
        ),
        ({"gate": "gate-1", "decision": "used", "by": "eve"}, "a decision needs a gate"),
        ({"gate": "gate-1", "decision": "approve"}, "a decision needs a gate"),
        ({"gate": 1, "decision": "approve", "by": "eve"}, "a decision needs a gate"),
        ([], "a decision needs a gate"),
        (None, "a decision needs a gate"),
    ],
    ids=str,
)
def test_a_decision_that_is_wrong_changes_nothing(data, reason):
    """A decision about no gate, by the agent itself, or in a wrong form is recorded as refused."""
    office = Office(simulated())
    office.agent()
    office.run(1)
    office.kernel.apply(DECISION, data)
    office.run(2)
    (row,) = office.rows(topic="gate.refused")
    assert reason in row.data["reason"]
    assert office.approvals.gates["gate-1"].status == "pending"


def test_an_approval_can_be_revoked_before_its_use():
    """A denial at the same instant, before the agent has run, revokes the approval: the call is not made."""
    office = Office(simulated())
    agent = office.agent()
    office.run(1)
    office.decide("gate-1", "approve")
    office.decide("gate-1", "deny", note="wait")
    office.run(2)
    assert agent.results[0].error == "shop.refund was denied by eve: wait"
    assert office.topics()[1:] == [(1, "gate.approved"), (1, "gate.denied")]
    assert office.calls == []


def test_a_used_gate_cannot_be_revoked():
    """After the call, a denial comes too late, and is recorded."""
    office = Office(simulated(latency=0))
    office.agent()
    office.run(1)
    office.decide("gate-1", "deny")
    office.run(2)
    (row,) = office.rows(topic="gate.refused")
    assert row.data["reason"] == "gate-1 cannot be denied any more: it is used"


# -- binding


def approved(arguments: Mapping[str, Any], expires: int = 3600 * NS) -> tuple[Office, Script]:
    """Return a world in which a call of agent `a` with these arguments is approved, at 1 s."""
    office = Office(attrs.evolve(simulated(latency=NS), expires=expires))
    agent = Script("a", office.world)
    with office.kernel.acting_as(office.kernel.scenario):
        office.approvals.ask(agent, "shop.refund", arguments, "test")
    office.run(2)
    assert office.approvals.gates["gate-1"].status == "approved"
    return office, agent


def try_use(office: Office, *call: Any) -> str | None:
    """Try to use a gate, and return why it was refused."""
    refusals: list[str | None] = []

    def attempt() -> None:
        try:
            office.approvals.use(*call)
        except Refused as refusal:
            refusals.append(str(refusal))
        else:
            refusals.append(None)

    as_host(office.kernel, attempt)
    office.run(office.world.now + 0.001)
    return refusals[0]


def test_an_approval_is_good_for_one_call():
    """A gate can be used once, by its agent, for its tool and arguments; everything else is refused and on record."""
    office, _ = approved({"amount": 70})
    right = ("gate-1", "a", "shop.refund", {"amount": 70})
    assert try_use(office, "gate-2", *right[1:]) == "there is no gate 'gate-2' in this run"
    assert try_use(office, "gate-1", "b", *right[2:]) == "gate-1 is a gate of a, not of b"
    assert try_use(office, *right[:2], "shop.pay", right[3]) == "gate-1 is for shop.refund, not for shop.pay"
    assert try_use(office, *right[:3], {"amount": 71}) == "gate-1 is for other arguments of shop.refund"
    assert try_use(office, *right) is None
    assert try_use(office, *right) == "gate-1 is used"
    assert len(office.rows(topic="gate.refused")) == 5
    assert office.approvals.metrics()["refused"] == 5


def test_an_approval_of_another_run_is_worth_nothing():
    """A gate that was approved in one run is not one of another run, even if it has the same name and content."""
    first, _ = approved({"amount": 70})
    second = Office(simulated())
    with second.kernel.acting_as(second.kernel.scenario):
        second.approvals.ask(Script("a", second.world), "shop.refund", {"amount": 70}, "test")
    gate = first.approvals.gates["gate-1"]
    assert try_use(second, gate.id, gate.agent, gate.tool, gate.arguments) == "gate-1 is pending"


def test_an_approval_does_not_outlive_its_gate():
    """An approved gate that is not used expires too."""
    office, _ = approved({"amount": 70}, expires=3 * NS)
    office.run(4)
    refused = try_use(office, "gate-1", "a", "shop.refund", {"amount": 70})
    assert refused == "shop.refund was not approved within 3s"


def test_arguments_that_change_during_the_wait_are_refused():
    """The person has approved what was asked; a call with anything else is not made."""
    office = Office(simulated())
    agent = Script("a", office.world)
    arguments: dict[str, Any] = {"amount": 70, "to": ["ann"]}
    office.at(5, lambda: arguments["to"].append("bob"))
    with pytest.raises(Refused, match="gate-1 is for other arguments"):
        office.main(office.approvals.require(agent, "shop.refund", arguments, "test"))
    assert office.approvals.gates["gate-1"].arguments == {"amount": 70, "to": ["ann"]}
    assert office.approvals.gates["gate-1"].status == "cancelled"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc.é", max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON, max_size=4)


def canonical(value: Any) -> str:
    """Return a value as text that is equal for equal JSON only: 1, 1.0 and true are three values."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(ARGUMENTS, ARGUMENTS)
def test_no_other_arguments_have_the_same_hash(one, other):
    """Arguments have the same hash if, and only if, they are the same JSON; the order of keys does not matter."""
    assert (hash_arguments(one) == hash_arguments(other)) == (canonical(one) == canonical(other))
    assert hash_arguments(dict(reversed(one.items()))) == hash_arguments(one)


def _mutated(value: Any, number: int) -> Any:
    """Return JSON that differs from a value in one place."""
    match value:
        case dict() if value and number % 3:
            key = sorted(value)[number % len(value)]
            rest = {name: part for name, part in value.items() if name != key}
            return [rest, rest | {f"{key}{number % 7}": value[key]}, value | {key: _mutated(value[key], number // 3)}][
                number % 3
            ]
        case dict():
            return value | {f"new{number % 11}": None}
        case list() if value and number % 2:
            at = number % len(value)
            return [*value[:at], _mutated(value[at], number // 2), *value[at + 1 :]]
        case list():
            return [*value, number]
        case str():
            return value + chr(32 + number % 90) if number % 2 else {"": value}
        case bool() | None:
            return str(value)
        case _:
            return value + 1 + number % 5 if number % 3 else str(value)


def test_ten_thousand_mutated_calls_are_refused():
    """Of 10,000 calls that differ from the approved one in one place, none is accepted; then the right one is."""
    right: dict[str, Any] = {
        "amount": 70,
        "to": {"name": "Ann", "tags": ["x", 1, True, None]},
        "note": "Ä",
        "rate": 0.5,
    }
    office, _ = approved(right)
    refused, done = 0, []

    def attempt() -> None:
        nonlocal refused
        for number in range(10_000):
            arguments, agent, tool, gate = right, "a", "shop.refund", "gate-1"
            match number % 10:
                case 0:
                    agent = f"a{number}"
                case 1:
                    tool = f"shop.refund{number}"
                case 2:
                    gate = f"gate-{number}"
                case _:
                    arguments = _mutated(right, number)
                    assert canonical(arguments) != canonical(right)
            with pytest.raises(Refused):
                office.approvals.use(gate, agent, tool, arguments)
            refused += 1
        done.append(office.approvals.use("gate-1", "a", "shop.refund", right).status)

    as_host(office.kernel, attempt)
    office.run(3)
    assert (refused, done) == (10_000, ["used"])


# -- rules


def needed(rules: list[ApprovalRule], *calls: tuple[str, Mapping[str, Any]]) -> list[str | None]:
    """Return why each of some calls of agent `a`, a second apart, needs approval."""
    office = Office(ApprovalSettings(rules=tuple(rules)))
    agent, found = Script("a", office.world), []
    for tool, arguments in calls:
        found.append(office.approvals.needed(agent, tool, arguments))
        office.run(office.world.now + 1)
    return found


def test_the_first_rule_that_fits_the_tool_counts():
    """A rule with a condition lets other calls of its tool through, whatever later rules say."""
    when = Expression.parse("args.amount > 50")
    rules = [ApprovalRule("shop.refund", when), ApprovalRule("shop.*", reason="all of the shop")]
    found = needed(
        rules, ("shop.refund", {"amount": 50}), ("shop.refund", {"amount": 51}), ("shop.order", {}), ("mail.send", {})
    )
    assert found == [
        None,
        "calls of shop.refund need approval when args.amount > 50",
        "all of the shop",
        None,
    ]


@pytest.mark.parametrize("arguments", [{}, {"amount": "70"}, {"amount": None}, {"Amount": 1}, {"amount": [1]}], ids=str)
@pytest.mark.parametrize("field", ["when", "total"])
def test_a_call_that_a_rule_cannot_judge_needs_approval(field, arguments):
    """Leaving out an argument, or giving it another type, does not get a call past its rule."""
    when, total = Expression.parse("args.amount > 50"), Expression.parse("args.amount")
    rule = ApprovalRule("shop.refund", when) if field == "when" else ApprovalRule("shop.refund", total=total, above=50)
    (why,) = needed([rule], ("shop.refund", arguments))
    assert why is not None
    assert "its rule cannot judge this call" in why


def test_splitting_an_amount_does_not_help():
    """Amounts that were let through add up, for each agent and for a time."""
    rule = ApprovalRule("shop.refund", total=Expression.parse("args.amount"), above=50, within=2 * NS)
    calls = [("shop.refund", {"amount": amount}) for amount in (30, 30, 20, 20, -1, 60)]
    why = "calls of shop.refund need approval above 50 within 2s"
    found = needed([rule], *calls)
    assert found[:4] == [None, why, None, None]
    assert "an amount must be a number from 0, not -1" in (found[4] or "")
    assert found[5] == why
