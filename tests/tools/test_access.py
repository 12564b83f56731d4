"""Who may call which tool: the whole matrix against a second, naive statement of the rules."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pytest

import sim
from sim.actors import AgentLoopConfig
from sim.base.permissions import Permission
from sim.kernel.codec import decode, encode
from sim.tools import Approvals, Audit, Tool, ToolAccess, Tools
from sim.tools.access import AccessRule, AccessSettings, AccessUser, Grants
from sim.tools.approvals import ApprovalRule, ApprovalSettings, SimulatedPerson
from sim.world import Action, ActionResult, Refused
from tests.actors.helpers import Lab
from tests.helpers import named
from tests.llm.scenes import Scene

GUEST, USER, ADMIN, OWNER = LEVELS = (0, 1, 2, 3)
KINDS: Final = ("clerk", "auditor", "robot")
AGENTS: Final = {f"{kind}-{level}": (level, kind) for kind in KINDS for level in LEVELS}
USERS: Final[Mapping[str, tuple[int, tuple[str, ...] | None]]] = {
    "ann": (GUEST, None), "bob": (USER, ("orders",)), "cyd": (ADMIN, None), "dan": (OWNER, ()),
    "clerk-3": (USER, ("orders", "notes")),  # a user with the name of an agent
}  # fmt: skip
TOOLS: Final[Mapping[str, tuple[int, bool, str]]] = {  # level, whether it has operations, the one that is the default
    "orders.lookup": (GUEST, False, ""), "orders.change": (USER, True, ""), "bank.pay": (ADMIN, True, ""),
    "bank.close": (OWNER, False, ""), "notes": (USER, True, "write"),
}  # fmt: skip
OMITTED: Final = object()
OPERATIONS: Final = (OMITTED, "read", "write", "other", 7, ["write"])

Rule = tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...], int]
RULES: Final[Mapping[str, tuple[Mapping[str, tuple[str, ...] | None], Sequence[Rule], bool]]] = {
    # modules by name; rules (allow, agents, tools, operations, lowest level); otherwise
    "levels only": ({}, (), True),
    "nothing": ({}, (), False),
    "modules": ({"clerk": ("orders",), "robot-3": ("nothing",), "robot": None, "ann": ()}, (), True),
    "deny before allow": (
        {},
        ((False, (), (), ("write",), 0), (True, (), ("orders.*", "notes"), (), 0), (True, (), ("*",), (), 3)),
        False,
    ),
    "allow before deny": (
        {}, ((True, ("auditor", "ann", "dan"), ("bank.*",), ("read",), 0), (False, (), ("bank.*",), (), 0)), True,
    ),
    "names and levels": (
        {"auditor": ("bank", "notes")},
        ((True, ("clerk-2", "auditor", "cyd"), (), (), 0), (False, (), ("notes",), ("read", "other"), 2),
         (True, (), ("orders.lookup", "notes"), (), 1), (True, ("nobody",), (), (), 0)), False,
    ),
}  # fmt: skip
MEMBERS: Final = ("robot-0", "auditor-1", "clerk-2", "clerk-3", "ann", "bob", "cyd", "dan", "nobody", "")


def allowed(policy: str, chain: Sequence[str], tool: str, sent: object) -> bool:
    """Say whether a call may be made, as the rules say it: by everyone along the chain, or not at all."""
    level_of_tool, has_operations, default = TOOLS[tool]
    operation = (default if sent is OMITTED else sent) if has_operations else ""
    if not isinstance(operation, str):
        return False
    return all(allowed_for_one(policy, member, tool, level_of_tool, operation) for member in chain)


def allowed_for_one(policy: str, member: str, tool: str, level_of_tool: int, operation: str) -> bool:
    """Say whether one member may make a call."""
    _, rules, otherwise = RULES[policy]
    levels = [known[member][0] for known in (AGENTS, USERS) if member in known]
    if not levels or min(levels) < level_of_tool or not may_use(policy, member, tool.split(".")[0]):
        return False
    for allow, agents, tools, operations, least in rules:
        if (
            (not agents or set(agents) & set(names_of(member)))
            and (not tools or any(tool == one or (one[-1] == "*" and tool.startswith(one[:-1])) for one in tools))
            and (not operations or operation in operations)
            and min(levels) >= least
        ):
            return allow
    return otherwise


def names_of(member: str) -> list[str]:
    """Return the names of a member, its own first."""
    return [member, AGENTS[member][1]] if member in AGENTS else [member]


def may_use(policy: str, member: str, module: str) -> bool:
    """Say whether a member may use a module: as the user, and by the first of its names that the policy has."""
    modules, _, _ = RULES[policy]
    granted = [USERS[member][1]] if member in USERS else []
    granted += [modules[name] for name in names_of(member) if name in modules][:1]
    return all(one is None or module in one for one in granted)


class Matrix:
    """A world with all agents, users and tools, under one policy. Tools note who calls them."""

    def __init__(self, policy: str) -> None:
        self.lab = Lab()
        self.ran: list[str] = []
        modules, rules, otherwise = RULES[policy]
        self.access = ToolAccess(
            self.lab.world,
            AccessSettings(
                {name: Grants(granted) for name, granted in modules.items()},
                tuple(AccessRule(*rule[:4], Permission(rule[4])) for rule in rules),
                otherwise,
            ),
        )
        self.lab.world.add_service(self.access)
        self.access.users |= {name: AccessUser(Permission(level), granted) for name, (level, granted) in USERS.items()}
        for name, (level, kind) in AGENTS.items():
            self.lab.add(name, permission=Permission(level), group=kind)
        for name, (level, has_operations, default) in TOOLS.items():
            self._add(name, Permission(level), has_operations, default)

    def _add(self, name: str, level: Permission, has_operations: bool, default: str) -> None:
        schema = {"type": "object", "properties": {"op": {"default": default} if default else {}}}
        operation = "op" if has_operations else None
        made = Tool(name, lambda arguments: self.ran.append(name), "", schema, permission=level, operation=operation)
        Tools.on(self.lab.world).add(made)

    def refused(self, agent: str, tool: str, sent: object, behalf: tuple[str, ...]) -> bool:
        """Ask the rules."""
        arguments: dict[str, Any] = {} if sent is OMITTED else {"op": sent}
        found = Tools.of(self.lab.world).find(tool)
        return self.access.refusal(self.lab.script(agent), found, arguments, behalf) is not None

    async def call(self, agent: str, tool: str, sent: object, behalf: Any) -> ActionResult:
        """Call a tool, as an agent does."""
        given: dict[str, Any] = {"tool": tool, "args": {} if sent is OMITTED else {"op": sent}}
        if behalf is not None:
            given["on_behalf_of"] = behalf
        return await self.lab.world.execute(self.lab.script(agent), Action("use_tool", given))


def cases(longest: int) -> Iterator[tuple[str, tuple[str, ...], str, object]]:
    """Yield agent, those on whose behalf it calls, tool and operation: each combination of the lists above."""
    for length in range(longest + 1):
        for agent, behalf in itertools.product(AGENTS, itertools.product(MEMBERS, repeat=length)):
            for tool, (_, has_operations, _) in TOOLS.items():
                for sent in OPERATIONS if has_operations else (OMITTED,):
                    yield agent, behalf, tool, sent


@pytest.mark.slow
@pytest.mark.parametrize("policy", RULES)
def test_the_whole_matrix(policy: str) -> None:
    """Levels, modules, kinds of agents, operations, chains of up to three: each answer is that of the plain rules."""
    matrix = Matrix(policy)
    for agent, behalf, tool, sent in cases(2):
        expected = allowed(policy, (agent, *behalf), tool, sent)
        assert matrix.refused(agent, tool, sent, behalf) != expected, (agent, behalf, tool, sent)


@pytest.mark.slow
@pytest.mark.parametrize("policy", RULES)
def test_the_whole_matrix_with_real_calls(policy: str) -> None:
    """A call of `use_tool` runs the tool if the plain rules allow it, and otherwise changes nothing but a counter."""
    matrix = Matrix(policy)
    denied = 0

    async def main() -> None:
        nonlocal denied
        for number, (agent, behalf, tool, sent) in enumerate(cases(2)):
            if len(behalf) == 2 and number % 17:
                continue  # longer chains: a part
            given = None if not behalf else behalf[0] if len(behalf) == 1 and number % 2 else list(behalf)
            matrix.ran.clear()
            result = await matrix.call(agent, tool, sent, given)
            expected = allowed(policy, (agent, *behalf), tool, sent)
            assert result.success == expected, (agent, behalf, tool, sent, result.error)
            assert matrix.ran == [tool] * expected
            denied += not expected

    matrix.lab.main(main())
    assert matrix.access.metrics()["denied"] == denied > 0


def _try_chains(policy: str, every: int) -> None:
    """Compare one in `every` of all agents with two for whom they work, in each form of the chain, with the rules."""
    matrix = Matrix(policy)
    combinations = itertools.product(AGENTS, itertools.permutations(MEMBERS, 2))
    for agent, (first, second) in itertools.islice(combinations, 0, None, every):
        full = (agent, first, second)
        chains: list[tuple[dict[str, tuple[str, ...]], tuple[str, ...]]] = [
            ({agent: (first, second)}, ()), ({agent: (first,), first: (second,)}, ()), ({first: (second,)}, (first,)),
            ({agent: (first,), first: (second, agent), second: (first,)}, (second,)),  # a circle ends
        ]  # fmt: skip
        for (given, behalf), tool in itertools.product(chains, TOOLS):
            matrix.access.chains = given
            expected = allowed(policy, full, tool, "write")
            assert matrix.refused(agent, tool, "write", behalf) != expected, (given, behalf, tool)


@pytest.mark.parametrize("policy", RULES)
def test_chains_of_the_runtime_count_as_much(policy: str) -> None:
    """Those for whom an agent was created count as those it names, and so do those for whom these were created."""
    _try_chains(policy, every=13)


@pytest.mark.proof
@pytest.mark.parametrize("policy", RULES)
def test_all_chains_of_the_runtime_count_as_much(policy: str) -> None:
    """As above, for every combination of members."""
    _try_chains(policy, every=1)


@pytest.mark.parametrize("policy", RULES)
def test_what_is_offered_may_be_called(policy: str) -> None:
    """A model is offered a tool if, and only if, at least one call of it may be allowed for all along the chain."""
    matrix = Matrix(policy)
    tools = Tools.of(matrix.lab.world)
    for agent, behalf in itertools.product(AGENTS, [(), *((name,) for name in MEMBERS), ("bob", "cyd")]):
        offered = [tool.name for tool in tools.offered(matrix.lab.script(agent), TOOLS, behalf)]
        chain = (agent, *behalf)
        assert offered == [one for one in TOOLS if any(allowed(policy, chain, one, sent) for sent in OPERATIONS)]


@pytest.mark.parametrize(
    ("enum", "required", "operations", "seen"),
    [
        (["read", "write"], True, ("read",), True),
        (["read", "write"], True, ("erase",), False),
        (["read", "write"], True, ("",), False),
        (["read", "write"], False, ("",), True),
        (None, True, ("read",), True),
        ([1, 2], True, ("1",), False),
    ],
)
def test_a_tool_is_offered_for_one_of_its_operations(enum: Any, required: bool, operations: Any, seen: bool) -> None:
    """Stated operations are those that count; an omitted one counts if it may be omitted; only texts are operations."""
    lab = Lab()
    lab.add("a")
    lab.world.add_service(ToolAccess(lab.world, AccessSettings(rules=(AccessRule(True, operations=operations),))))
    schema = {
        "type": "object", "properties": {"op": {} if enum is None else {"enum": enum}},
        "required": ["op"] if required else [],
    }  # fmt: skip
    Tools.on(lab.world).add(Tool("t", lambda arguments: None, "", schema, operation="op"))
    assert bool(Tools.of(lab.world).offered(lab.script("a"), ["t"])) == seen


def test_leaving_out_the_operation_does_not_hide_it() -> None:
    """A call without the operation is the call of its default, which a rule forbids here."""
    lab = Lab()
    lab.add("a")
    rules = (AccessRule(False, operations=("erase",)), AccessRule(True))
    lab.world.add_service(ToolAccess(lab.world, AccessSettings(rules=rules)))
    done: list[str] = []

    @sim.tool("files.do", operation="op")
    def do(op: str = "erase") -> None:
        """Do it.

        Args:
            op: what to do.
        """
        done.append(op)

    Tools.on(lab.world).add(do)
    for arguments, runs in (({}, False), ({"op": "erase"}, False), ({"op": None}, False), ({"op": "read"}, True)):
        given = {"tool": "files.do", "args": arguments}
        assert lab.main(lab.world.execute(lab.script("a"), Action("use_tool", given))).success == runs
    assert done == ["read"]


def test_what_the_runtime_gives_is_no_operation() -> None:
    """The parameter of the operation is one that the caller sends: of any other one, rules would see nothing."""
    with pytest.raises(sim.UsageError, match="cannot be the operation"):
        Tool("t", lambda arguments: None, given=("channel",), operation="channel")


@pytest.mark.parametrize("name", ["bank.nothing", "nothing.pay", "", "*", "bank.*", "BANK.PAY", "bank.pay ", "world.x"])
def test_an_unknown_tool_is_denied_for_everybody(name: str) -> None:
    """A tool or module that does not exist is refused even for an owner, and is never offered."""
    matrix = Matrix("levels only")

    async def main() -> None:
        for agent in AGENTS:
            assert not (await matrix.call(agent, name, OMITTED, None)).success
            with pytest.raises(Refused):
                Tools.of(matrix.lab.world).offered(matrix.lab.script(agent), [name])

    matrix.lab.main(main())
    assert matrix.ran == []


@pytest.mark.parametrize("behalf", [7, {"a": "b"}, [None], ["cyd", 3], [["cyd"]], True])
def test_a_chain_that_is_no_chain_is_refused(behalf: Any) -> None:
    """`on_behalf_of` is a name or a list of names: anything else is refused, not ignored."""
    matrix = Matrix("levels only")
    result = matrix.lab.main(matrix.call("robot-3", "orders.lookup", OMITTED, behalf))
    assert "on_behalf_of is a name or a list of names" in (result.error or "")
    assert matrix.ran == []


def test_only_the_runtime_knows_levels() -> None:
    """The level of a chain is the lowest of its members, and that of somebody unknown is the lowest there is."""
    matrix = Matrix("levels only")
    for agent, member in itertools.product(AGENTS, MEMBERS):
        known = [each[name][0] for name in (agent, member) for each in (AGENTS, USERS) if name in each]
        expected = min(known) if member in AGENTS or member in USERS else GUEST
        assert matrix.access.level(matrix.lab.script(agent), (member,)) == expected


# -- revocation

EVERY_SECOND: Final = AgentLoopConfig(min_loop_delay=1, max_loop_delay=1, max_consecutive_errors=10**6)


class Revoked:
    """An agent that calls `bank.pay` each second for a user, and who is paid when."""

    def __init__(self, **options: Any) -> None:
        self.lab = Lab()
        self.paid: list[float] = []
        world = self.lab.world
        self.access = ToolAccess(world, AccessSettings(rules=(AccessRule(True),)))
        world.add_service(self.access)
        self.access.users["cyd"] = AccessUser(Permission.ADMIN)

        def pay(arguments: Mapping[str, Any]) -> str:
            self.paid.append(world.now)
            return "paid"

        Tools.on(world).add(Tool("bank.pay", pay, permission=Permission.ADMIN, **options))
        given = {"tool": "bank.pay", "on_behalf_of": "cyd"}
        act = Action("use_tool", given)
        self.lab.add("a", lambda agent: act, permission=Permission.OWNER, started=True, config=EVERY_SECOND)

    def revoke(self, how: str) -> None:
        """Take the right away."""
        if how == "level":
            self.lab.script("a").permission = Permission.USER
        elif how == "level of the user":
            self.access.users["cyd"] = AccessUser(Permission.USER)
        elif how == "modules of the user":
            self.access.users["cyd"] = AccessUser(Permission.ADMIN, ("orders",))
        elif how == "user":
            del self.access.users["cyd"]
        elif how == "chain":
            self.access.chains["cyd"] = ("nobody",)
        elif how == "rule":
            self.access.settings = attrs.evolve(self.access.settings, rules=())
        else:
            self.access.settings = attrs.evolve(self.access.settings, modules={"a": Grants(())})


HOW: Final = ("level", "level of the user", "modules of the user", "user", "chain", "rule", "modules")


@pytest.mark.parametrize("how", HOW)
def test_a_right_that_is_revoked_is_gone_at_the_next_call(how: str) -> None:
    """Levels, modules, rules and chains are read at each call, so nothing that was allowed before counts."""
    world = Revoked()
    world.lab.at(3.5, lambda: world.revoke(how))
    world.lab.run(8)
    assert world.paid == [0, 1, 2, 3]
    assert [result.success for result in world.lab.script("a").results] == [True] * 4 + [False] * 4
    assert world.access.denied == 4


@pytest.mark.parametrize("how", HOW)
def test_a_right_that_is_revoked_while_a_person_decides_is_gone(how: str) -> None:
    """An approval does not give back a right that was revoked while it was awaited: the call is not made."""
    world = Revoked()
    lab = world.lab
    approvals = Approvals(
        lab.world, ApprovalSettings(rules=(ApprovalRule("bank.pay"),), simulated=SimulatedPerson(latency=2 * 10**9))
    )
    lab.world.add_service(approvals)
    lab.world.add_service(Audit(lab.world))
    lab.at(1, lambda: world.revoke(how))
    lab.run(3)
    assert world.paid == []
    assert [gate.status for gate in approvals.gates.values()] == ["used"]
    assert not lab.script("a").results[0].success
    records = [decode(encode(row.data)) for row in lab.rows("a", "audit.record")]
    whats = [record["what"] for record in records]
    assert whats == ["gate.pending", "gate.approved", "gate.used", "tool.denied"]


@pytest.mark.parametrize("how", HOW)
def test_a_right_that_is_revoked_between_two_tries_is_gone(how: str) -> None:
    """A call that failed is not tried again for somebody who may not make it any more."""
    world, tried = Revoked(), list[float]()
    lab = world.lab

    async def fail(arguments: Mapping[str, Any]) -> None:
        tried.append(lab.world.now)
        raise ConnectionError("reset")

    options: Any = {"permission": Permission.ADMIN, "safety": "idempotent", "retries": 5, "latency": "2s"}
    Tools.of(lab.world).add(Tool("bank.book", fail, **options))
    act = Action("use_tool", {"tool": "bank.book", "on_behalf_of": "cyd"})
    lab.at(3, lambda: world.revoke(how))
    agent = lab.script("a")
    agent.step = lambda agent: Action("noop")
    result = lab.main(lab.world.execute(agent, act))
    assert (len(tried), result.success) == (2, False)
    assert world.access.denied == 1


SPAWNING: Final = """until: 1m
tools: {}
access:
  rules: [{allow: false, agents: [banned], tools: [world.transfer]}, {allow: true}]
accounts: {shop: 0}
"""
PARENTS: Final = """
  - {name: banned, permission: user, state: {n: 0}, rules: RULES}
  - {name: free, permission: user, state: {n: 0}, rules: RULES}
  - name: child
    template: true
    permission: owner
    balance: 10
    state: {n: 0, depth: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: n == 0 and depth < 2, set: {n: 1}, do: {spawn: {agent: child, state: {depth: "=depth + 1"}}}}
      - {when: n == 0 or depth == 2, do: {use_tool: {tool: world.transfer, args: {to: shop, amount: 1}}}}
      - do: stop
""".replace("RULES", "[{when: n == 0, set: {n: 1}, do: {spawn: {agent: child}}}, {do: stop}]")


def test_a_spawned_agent_has_no_more_rights_than_who_spawned_it() -> None:
    """Spawning an agent of a higher level, or one that spawns another, and leaving: none is a way around the rules."""
    scene = Scene("  rules: [{say: x}]", PARENTS, SPAWNING).run()
    spawned = [name for event in scene.events("agent.spawned") for name in event["agents"]]
    assert len(spawned) == 6
    called = [row for row in named(scene.recorder.rows) if row.topic == "action.use_tool"]
    paid = {row[5] for row in called if decode(encode(row[7]))["success"]}
    assert {row[5] for row in called} == {"child-child-child-banned-1-1-1", "child-child-child-free-1-1-1"}
    assert paid == {"child-child-child-free-1-1-1"}
    assert "child-child-free-1-1" not in scene.world.agents  # it has left
    access = ToolAccess.of(scene.world)
    assert {access.level(scene.world.agents[name]) for name in spawned if name in scene.world.agents} == {
        Permission.USER
    }
