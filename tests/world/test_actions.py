"""The narrow waist: each kind of action, each way to be refused; what is refused changes nothing."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import AgentState
from sim.base.errors import UsageError
from sim.base.expressions import PURE_FUNCTIONS, Expression
from sim.base.permissions import Permission
from sim.kernel import sleep
from sim.kernel.codec import Raw, encode
from sim.resources import Container, PriorityResource, Resource, Store
from sim.tools import Tool, Tools
from sim.world import Action, ActionHandler, ActionResult, Places, World
from sim.world.artifact import FORMULA_NAMES, Artifact, make
from tests.actors.helpers import Lab, Script

IDLE: dict[str, Any] = {"min_loop_delay": 10_000, "max_loop_delay": 10_000}


def formula(text: str) -> Expression:
    """A formula of an artifact."""
    return Expression.parse(text, FORMULA_NAMES, PURE_FUNCTIONS)


def equipped() -> Lab:
    """A world with something of everything; `me` and `you` live in it, `gone` has stopped."""
    lab = Lab()
    world = lab.world
    for name, group in (("me", "us"), ("you", "them"), ("gone", "them")):
        lab.add(name, None, group=group, started=True, mailbox_size=2, **IDLE)
    lab.at(0.5, lambda: lab.manager.loops["gone"].request_stop("test"))
    for account, units in (("me", 10), ("you", 0)):
        world.ledger.open(account, units * 1_000_000)
    world.places = Places(["a", "b", "far", "island"], [("a", "b", 10**9), ("b", "far", 3 * 10**9)])
    world.places.place("me", "a")
    world.pools["desk"] = Resource(lab.kernel, 2)
    world.pools["bed"] = PriorityResource(lab.kernel, 1)
    world.pools["tank"] = Container(lab.kernel, 10, 4)
    shelf: Store[Raw] = Store(lab.kernel, 2)
    shelf.put_nowait(Raw(encode({"title": "book"})))
    world.pools["shelf"] = shelf
    Tools.on(world).add(Tool("double", lambda args: args["x"] * 2))
    put = world.artifacts.put
    put(make("mine", "me", "one two three"))
    put(make("yours", "you", {"n": 1}))
    put(make("secret", "you", 1, readers="owner"))
    put(make("ours", "you", [], writers=("us",)))
    put(make("oracle", "you", {"base": 2}, price=1_500_000, formula=formula("args.x * content.base")))
    put(make("dear", "you", 0, price=99_000_000, formula=formula("1")))
    put(make("odd", "you", 0, formula=formula("args.none.such")))
    lab.run(1)
    return lab


def do(lab: Lab, action: Action, within: float = 50) -> ActionResult:
    """Have `me` do an action at once; the result, or a failure if it takes longer than `within`."""
    results: list[ActionResult] = []

    async def act() -> None:
        results.append(await lab.world.execute(lab.script("me"), action))

    with lab.kernel.acting_as(lab.kernel.scenario):
        actor = lab.kernel.spawn("actor-of-me", act())
    lab.run(lab.world.now + within)
    if not results:
        with lab.kernel.acting_as(lab.kernel.scenario):
            lab.kernel.cancel(actor)
        lab.run(lab.world.now + 1)
        raise TimeoutError(f"{action.kind} still waits")
    return results[0]


def art(lab: Lab, id: str) -> Any:
    """The content of an artifact."""
    found = lab.world.artifacts.get(id)
    return None if found is None else found.content


def place(lab: Lab) -> str | None:
    """Where `me` stands."""
    return lab.world.places.where("me") if lab.world.places else None


GOOD: list[tuple[str, dict[str, Any], Any, Callable[[Lab], bool]]] = [
    ("noop", {}, None, lambda lab: True),
    ("send", {"to": "you", "topic": "t", "data": [1]}, {"sent": 1, "refused": {}},
     lambda lab: len(lab.script("you").mailbox) == 1),
    ("send", {"to": "them"}, {"sent": 1, "refused": {"gone": "gone has stopped"}},
     lambda lab: len(lab.script("you").mailbox) == 1),
    ("publish", {"topic": "x.y", "data": 1}, None, lambda lab: lab.bus.published("x.y") == 1),
    ("transfer", {"to": "you", "amount": 2.5}, {"balance": 7.5}, lambda lab: lab.world.balance("you") == 2.5),
    ("read", {"artifact": "yours"}, {"n": 1}, lambda lab: True),
    ("write", {"artifact": "new", "content": {"a": [1]}}, {"version": 1}, lambda lab: art(lab, "new") == {"a": [1]}),
    ("write", {"artifact": "mine", "content": None}, {"version": 2}, lambda lab: art(lab, "mine") is None),
    ("write", {"artifact": "ours", "content": 5}, {"version": 2}, lambda lab: art(lab, "ours") == 5),
    ("write",
     {"artifact": "n", "content": 1, "readers": ["you"], "writers": "all", "price": 2, "formula": "content + 1"},
     {"version": 1}, lambda lab: lab.world.artifacts.state()["n"][3:] == [("you",), "all", 2_000_000, "content + 1"]),
    ("edit", {"artifact": "mine", "old": "two", "new": "2"}, {"version": 2},
     lambda lab: art(lab, "mine") == "one 2 three"),
    ("delete", {"artifact": "mine"}, None, lambda lab: lab.world.artifacts.get("mine") is None),
    ("invoke", {"artifact": "oracle", "args": {"x": 21}}, 42, lambda lab: lab.world.balance("you") == 1.5),
    ("move", {"to": "far"}, {"from": "a", "to": "far"}, lambda lab: place(lab) == "far"),
    ("move", {"to": "a"}, {"from": "a", "to": "a"}, lambda lab: place(lab) == "a"),
    ("use_tool", {"tool": "double", "args": {"x": 4}}, 8, lambda lab: True),
    ("create_task", {"title": "t", "to": "you", "data": 1}, {"id": 1}, lambda lab: len(lab.script("you").mailbox) == 1),
    ("acquire", {"pool": "desk", "amount": 2}, None, lambda lab: lab.world.held == {"me": {"desk": 2}}),
    ("acquire", {"pool": "bed", "priority": 3}, None, lambda lab: lab.world.pools["bed"].level == 0),
    ("put", {"pool": "tank", "amount": 6}, None, lambda lab: lab.world.pools["tank"].level == 10),
    ("put", {"pool": "shelf", "item": [1]}, None, lambda lab: lab.world.pools["shelf"].level == 2),
    ("get", {"pool": "tank", "amount": 3}, 3, lambda lab: lab.world.pools["tank"].level == 1),
    ("get", {"pool": "shelf"}, {"title": "book"}, lambda lab: lab.world.pools["shelf"].level == 0),
    ("sleep", {"condition": {"event": "x"}}, None, lambda lab: lab.manager.loops["me"].state is AgentState.SLEEPING),
    ("stop", {}, None, lambda lab: lab.manager.loops["me"].state is AgentState.STOPPED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "arguments", "data", "holds"), GOOD, ids=[f"{n}-{case[0]}" for n, case in enumerate(GOOD)]
)
def test_what_an_action_does(kind: str, arguments: dict[str, Any], data: Any, holds: Callable[[Lab], bool]) -> None:
    """Each kind does what it says, returns plain data, and is recorded once as `action.<kind>`."""
    lab = equipped()
    result = do(lab, Action(kind, arguments, "because"))
    assert result.success
    assert result.error is None
    if data is not None or kind != "publish":
        assert result.data == data if kind != "publish" else True
    assert holds(lab)
    rows = lab.rows(topic=f"action.{kind}")
    assert len(rows) == 1
    assert rows[0][5] == "me"
    assert (lab.world.done, lab.world.refused) == ({kind: 1}, {})


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("nop", {}, "there is no action kind 'nop'; did you mean 'noop'?"),
    ("", {}, "there is no action kind ''"),
    ("noop", {"x": 1}, "noop has no argument 'x'"),
    ("write", {"artefact": "x", "content": 1}, "did you mean 'artifact'?"),
    ("write", {"artifact": "x"}, "write needs the argument 'content'"),
    ("write", {"artifact": 5, "content": 1}, "artifact must be str, not int"),
    ("write", {"artifact": ["x"], "content": 1}, "artifact must be str, not list"),
    ("transfer", {"to": "you", "amount": True}, "amount must be float, not bool"),
    ("transfer", {"to": "you", "amount": "1"}, "amount must be float, not str"),
    ("send", {"to": "nobody"}, "there is no agent or group 'nobody' to send to"),
    ("send", {"to": "gone"}, "gone has stopped"),
    ("send", {"to": "us"}, "there is no agent or group 'us' to send to"),
    ("publish", {"topic": "not a topic"}, "is not a topic"),
    ("publish", {"topic": "x.*"}, "is not a topic"),
    ("publish", {"topic": "agent.state", "data": {"from": "running", "to": "paused"}}, "is not for agents"),
    ("transfer", {"to": "you", "amount": 11}, "insufficient funds: 11.00 needed, 10.00"),
    ("transfer", {"to": "you", "amount": 0}, "above 0"),
    ("transfer", {"to": "you", "amount": -1}, "above 0"),
    ("transfer", {"to": "you", "amount": float("nan")}, "finite"),
    ("transfer", {"to": "you", "amount": 1e300}, "below"),
    ("transfer", {"to": "bank", "amount": 1}, "no account"),
    ("read", {"artifact": "none"}, "there is no artifact 'none'"),
    ("read", {"artifact": "secret"}, "me may not read the artifact 'secret'"),
    ("write", {"artifact": "yours", "content": 1}, "me may not change the artifact 'yours'"),
    ("write", {"artifact": "x", "content": "x" * 1_000_001}, "holds at most"),
    ("write", {"artifact": "x", "content": 1, "readers": "some"}, "access is"),
    ("write", {"artifact": "x", "content": 1, "readers": ["*"]}, "write the word `all` alone"),
    ("write", {"artifact": "x", "content": 1, "writers": [1]}, "access is"),
    ("write", {"artifact": "x", "content": 1, "readers": ["*"]}, "write the word `all` alone"),
    ("write", {"artifact": "x", "content": 1, "price": float("inf")}, "finite"),
    ("write", {"artifact": "x", "content": 1, "price": -1}, "below 0"),
    ("write", {"artifact": "x", "content": 1, "formula": "import os"}, "is not an expression"),
    ("write", {"artifact": "x", "content": 1, "formula": "secret + 1"}, "secret"),
    ("edit", {"artifact": "none", "old": "a", "new": "b"}, "there is no artifact"),
    ("edit", {"artifact": "yours", "old": "a", "new": "b"}, "may not change"),
    ("edit", {"artifact": "mine", "old": "", "new": "b"}, "occurs once"),
    ("edit", {"artifact": "mine", "old": "e", "new": "b"}, "occurs once"),
    ("edit", {"artifact": "mine", "old": "four", "new": "b"}, "occurs once"),
    ("edit", {"artifact": "ours", "old": "a", "new": "b"}, "occurs once"),
    ("edit", {"artifact": "mine", "old": "one", "new": "x" * 1_000_001}, "holds at most"),
    ("delete", {"artifact": "none"}, "there is no artifact"),
    ("delete", {"artifact": "yours"}, "may not change"),
    ("invoke", {"artifact": "none"}, "there is no artifact"),
    ("invoke", {"artifact": "mine"}, "has no formula"),
    ("invoke", {"artifact": "secret"}, "may not read"),
    ("invoke", {"artifact": "dear"}, "insufficient funds"),
    ("invoke", {"artifact": "odd", "args": {}}, "none"),
    ("invoke", {"artifact": "oracle", "args": {}}, "x"),
    ("invoke", {"artifact": "oracle", "args": {"x": "a" * 10}}, ""),
    ("move", {"to": "nowhere"}, "no way leads from 'a' to 'nowhere'"),
    ("move", {"to": "island"}, "no way leads from 'a' to 'island'"),
    ("use_tool", {"tool": "triple"}, "there is no tool 'triple'"),
    ("create_task", {"title": "t", "to": "nobody"}, "there is no agent 'nobody'"),
    ("acquire", {"pool": "none"}, "there is no pool 'none'"),
    ("acquire", {"pool": "tank"}, "it has no slots"),
    ("acquire", {"pool": "desk", "amount": 3}, "over the limit"),
    ("acquire", {"pool": "desk", "amount": 0}, "above 0"),
    ("acquire", {"pool": "desk", "amount": -1}, "above 0"),
    ("release", {"pool": "desk"}, "does not hold"),
    ("release", {"pool": "desk", "amount": 0}, "does not hold"),
    ("release", {"pool": "desk", "amount": -2}, "does not hold"),
    ("release", {"pool": "none"}, "does not hold"),
    ("put", {"pool": "desk"}, "it has slots"),
    ("put", {"pool": "tank", "amount": 0}, "above 0"),
    ("put", {"pool": "tank", "amount": -5}, "above 0"),
    ("put", {"pool": "tank", "amount": 11}, "over the limit"),
    ("put", {"pool": "tank", "amount": float("nan")}, "above 0"),
    ("get", {"pool": "desk"}, "it has slots"),
    ("get", {"pool": "tank", "amount": -5}, "above 0"),
    ("get", {"pool": "tank", "amount": 11}, "over the limit"),
    ("get", {"pool": "none"}, "there is no pool"),
    ("sleep", {"condition": {}}, "wake condition"),
    ("sleep", {"condition": "soon"}, "condition must be dict, not str"),
    ("judge", {}, "judge needs the permission admin"),
]


@pytest.mark.parametrize(("kind", "arguments", "why"), BAD, ids=[f"{n}-{case[0]}" for n, case in enumerate(BAD)])
def test_why_an_action_is_refused(kind: str, arguments: dict[str, Any], why: str) -> None:
    """What cannot be done is refused with a reason, recorded, and changes nothing else; the agent lives on."""
    lab = equipped()
    lab.world.actions.register(ActionHandler("judge", lambda world, agent: None, Permission.ADMIN))
    before = {key: encode(value) for key, value in lab.world.digest().items() if key != "time"}
    mail = [len(lab.script(name).mailbox) for name in ("you", "gone")]
    count = len(lab.rows())
    result = do(lab, Action(kind, arguments))
    assert not result.success
    assert not result.skipped
    assert result.data is None
    assert result.error is not None
    assert why in result.error
    rows = lab.rows()[count:]
    assert [row[6] for row in rows] == [f"action.{kind}"]
    after = {key: encode(value) for key, value in lab.world.digest().items() if key != "time"}
    assert after == before
    assert [len(lab.script(name).mailbox) for name in ("you", "gone")] == mail
    assert lab.world.held == {}
    assert lab.world.pending == {}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.floats()
    | st.sampled_from(["mine", "yours", "you", "a", "desk", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "for", "event"]), inner, max_size=2)
    ),
    max_leaves=4,
)
KINDS = [
    "noop",
    "send",
    "publish",
    "transfer",
    "read",
    "write",
    "edit",
    "delete",
    "invoke",
    "move",
    "create_task",
    "acquire",
    "release",
    "put",
    "get",
    "sleep",
]
ARGUMENTS = [
    "to",
    "topic",
    "data",
    "amount",
    "artifact",
    "content",
    "old",
    "new",
    "readers",
    "writers",
    "price",
    "formula",
    "args",
    "title",
    "pool",
    "priority",
    "item",
    "condition",
]


@pytest.mark.slow
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(ARGUMENTS), values, max_size=4))
@settings(max_examples=150)
def test_any_action_is_done_or_refused(kind: str, arguments: dict[str, Any]) -> None:
    """Whatever a model may write: the action is done, waits, or is refused and has changed nothing; nothing raises."""
    lab = equipped()
    allowed = lab.world.actions.get(kind).allowed
    arguments = {name: value for name, value in arguments.items() if name in allowed}
    before = {key: encode(value) for key, value in lab.world.digest().items() if key != "time"}
    try:
        result = do(lab, Action(kind, arguments), within=5)
    except TimeoutError:
        success = False
    else:
        success = result.success
    if not success:
        after = {key: encode(value) for key, value in lab.world.digest().items() if key != "time"}
        assert after == before
    assert lab.world.ledger.total == sum(lab.world.ledger.balance(name) for name in ("me", "you"))


def test_permission() -> None:
    """A kind needs its level or a higher one."""
    for have, need in itertools.product(Permission, Permission):
        lab = Lab()
        lab.world.actions.register(ActionHandler("judge", lambda world, agent: "done", need))
        lab.add("me", lambda agent: Action("judge"), permission=have, started=True, **IDLE)
        lab.run(1)
        assert lab.script("me").results[0].success == (have >= need)


def test_a_kind_is_registered_once() -> None:
    """The registry is open, and refuses a second kind of one name."""
    world = World()
    with pytest.raises(UsageError, match="'noop' is already registered"):
        world.actions.register(ActionHandler("noop", lambda world, agent: None))


def test_a_kind_that_waits_must_be_awaited() -> None:
    """`act` refuses a kind that takes time: nothing happens without the wait."""
    lab = equipped()
    result = lab_act(lab, Action("move", {"to": "b"}))
    assert result.error == "move takes time: it has to be awaited (execute)"


def lab_act(lab: Lab, action: Action) -> ActionResult:
    """Have `me` do an action in one step."""
    with lab.kernel.acting_as(lab.kernel.scenario):
        return lab.world.act(lab.script("me"), action)


# -- access to artifacts


def put(lab: Lab, artifact: Artifact) -> None:
    """Put an artifact into the world, as a step of the run does."""
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.world.artifacts.put(artifact)


@pytest.mark.parametrize("access", ["all", "owner", ("me",), ("us",), ("you",), ()])
def test_access(access: Any) -> None:
    """Readers and writers: all, the owner, or named agents and groups; the owner always may."""
    for owner in ("me", "you"):
        lab = equipped()
        put(lab, make("thing", owner, "x y", readers=access, writers="owner"))
        allowed = access == "all" or owner == "me" or access in (("me",), ("us",))
        assert lab_act(lab, Action("read", {"artifact": "thing"})).success == allowed
        assert (lab.world.readable("me", "thing") is not None) == allowed
        put(lab, make("thing", owner, "x y", readers="owner", writers=access))
        assert lab_act(lab, Action("edit", {"artifact": "thing", "old": "x", "new": "z"})).success == allowed
        assert lab_act(lab, Action("delete", {"artifact": "thing"})).success == allowed


def test_invoke_is_free_for_the_owner() -> None:
    """The price goes from whoever invokes to the owner; the owner pays nothing."""
    lab = equipped()
    put(lab, make("own", "me", 1, price=5_000_000, formula=formula("content + len(caller) + now")))
    assert do(lab, Action("invoke", {"artifact": "own"})).data == 1 + 2 + 1
    assert lab.world.balance("me") == 10


# -- what is frozen


def test_data_is_frozen_at_the_border() -> None:
    """What an action took in or gave out is a copy: neither side can change it afterwards."""
    lab = equipped()
    content = {"list": [1]}
    assert do(lab, Action("write", {"artifact": "new", "content": content})).success
    content["list"].append(2)
    first = do(lab, Action("read", {"artifact": "new"})).data
    assert first == {"list": [1]}
    first["list"].append(3)
    assert do(lab, Action("read", {"artifact": "new"})).data == {"list": [1]}
    item = [1]
    assert do(lab, Action("put", {"pool": "shelf", "item": item})).success
    item.append(2)
    assert do(lab, Action("get", {"pool": "shelf"})).data == {"title": "book"}
    assert do(lab, Action("get", {"pool": "shelf"})).data == [1]
    Tools.on(lab.world).add(Tool("spoil", lambda args: args["list"].clear()))
    arguments = {"tool": "spoil", "args": {"list": [1]}}
    assert do(lab, Action("use_tool", arguments)).success
    assert arguments["args"] == {"list": [1]}


# -- travelling


def test_travel_takes_the_shortest_time() -> None:
    """A move takes the time of the shortest way; cancelled in transit the agent has not moved."""
    lab = Lab()
    lab.world.places = Places(["a", "b", "c"], [("a", "c", 10 * 10**9), ("a", "b", 2 * 10**9), ("b", "c", 3 * 10**9)])
    for name in ("me", "you"):
        lab.add(name, lambda agent: Action("move", {"to": "c"}), **IDLE)
        lab.world.places.place(name, "a")
        lab.manager.loops[name].start_now()

    async def scenario() -> None:
        await sleep(4)
        await lab.manager.loops["you"].stop(0)
        await sleep(6)

    lab.main(scenario())
    assert [(row.time_ns / 1e9, row.actor) for row in lab.rows(topic="action.move")] == [(5.0, "me")]
    assert lab.world.places.state() == {"me": "c"}


@given(st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=40)
def test_travel_on_a_grid(columns: int, rows: int, data: st.DataObject) -> None:
    """On a grid the time is the sum of the steps along both sides."""
    places = Places.grid(columns, rows, 7)
    ends = [(data.draw(st.integers(0, columns - 1)), data.draw(st.integers(0, rows - 1))) for _ in range(2)]
    (a, b), (c, d) = ends
    assert places.travel_ns(f"{a},{b}", f"{c},{d}") == 7 * (abs(a - c) + abs(b - d))


def test_neighbours() -> None:
    """Neighbours are those at the same place or one edge away, in order of place and arrival."""
    places = Places(["a", "b", "c"], [("a", "b", 0), ("b", "c", 0)])
    for name, node in (("x", "b"), ("y", "a"), ("z", "c"), ("w", "b")):
        places.place(name, node)
    assert places.neighbours("x") == ["w", "y", "z"]
    assert places.neighbours("y") == ["x", "w"]
    assert places.neighbours("nobody") == []
    places.remove("w")
    assert places.at("b") == ["x"]
    with pytest.raises(UsageError, match="no place"):
        places.place("x", "nowhere")


def test_karate_club() -> None:
    """The shipped network has Zachary's 34 people and 78 friendships."""
    places = Places.shipped("karate_club", 0)
    assert len(places.nodes) == 34
    assert sum(len(places.adjacent(node)) for node in places.nodes) == 2 * 78


# -- costs


def priced(policy: str = "block", **prices: Any) -> Lab:
    """A world in which writing costs something of each pot."""
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.limit("calls", 2, 1000, policy)
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.world.budgets.define("money", 5_000_000)
        lab.world.quotas.define("bytes", 100)
    pots = {"calls": "rate", "money": "budget", "bytes": "quota"}
    for name, amount in prices.items():
        lab.world.costs.set_price("write", name, pots[name], amount)  # type: ignore[arg-type]
    return lab


def write(lab: Lab, id: str, length: int = 0) -> ActionResult:
    """Have `me` write text of a length."""
    return lab_act(lab, Action("write", {"artifact": id, "content": "x" * length}))


def test_a_rate_is_taken() -> None:
    """Each success takes from the limit; at exhaustion the action is refused and takes nothing."""
    lab = priced(calls=1)
    assert [write(lab, f"a{n}").success for n in range(3)] == [True, True, False]
    assert lab.world.rate_tracker.get_usage("me", "calls") == 2
    assert "a2" not in lab.world.artifacts.ids()


def test_skip_is_no_error() -> None:
    """A limit whose policy is to skip refuses without fault: the loop neither fails nor backs off."""
    for policy in ("skip", "block"):
        lab = priced(policy, calls=1)
        results = [write(lab, f"a{n}") for n in range(3)]
        assert [result.skipped for result in results] == [False, False, policy == "skip"]
    lab = Lab()
    lab.limit("calls", 2, 1000, "skip")
    lab.world.costs.set_price("noop", "calls", "rate", 3)
    loop = lab.add("a", lambda agent: Action("noop"), started=True)
    lab.run(10)
    assert (loop.failures, loop.iteration_count) == (0, 100)


def test_a_budget_depletes() -> None:
    """A budget is spent by success only, to the last micro-unit."""
    lab = priced(money=2.5)
    assert [write(lab, f"a{n}").success for n in range(3)] == [True, True, False]
    assert lab.world.budgets.remaining("me", "money") == 0
    assert lab.world.remaining("me", "money") == 0
    assert not lab_act(lab, Action("write", {"artifact": "yours", "content": 1})).success


def test_a_price_counts_from_when_it_is_set() -> None:
    """A kind that was free until now, and known to be, takes what is set from then on, and nothing after `clear`."""
    costs = Lab().world.costs
    assert not costs.price("write", {}).rates
    costs.set_price("write", "disk", "rate", 2)
    assert costs.price("write", {}).rates == {"disk": 2}
    costs.set_price("write", "disk", "rate", lambda size: size)
    assert costs.price("write", {"a": 1}).rates == {"disk": 7}
    costs.clear()
    assert not costs.price("write", {}).rates


def test_kinds_that_agents_make_up_are_not_remembered_without_end() -> None:
    """However many kinds are asked for, what is remembered of free ones stays bounded, and all of them are free."""
    costs = Lab().world.costs
    assert not any(costs.price(f"kind{number}", {}).rates for number in range(5000))
    assert sum(costs.fixed(f"kind{number}") is not None for number in range(5000)) <= 1000


def test_a_price_may_depend_on_the_size() -> None:
    """A price that is a function sees the size of the arguments as canonical JSON."""
    lab = priced(bytes=lambda size: size)
    assert write(lab, "a", 10).success
    assert lab.world.quotas.held("me", "bytes") == len(encode({"artifact": "a", "content": "x" * 10}))


def test_a_quota_is_held_and_given_back() -> None:
    """What is held for an artifact goes back when it is rewritten or deleted, to whoever held it."""
    lab = priced(bytes=lambda size: size)
    base = len(encode({"artifact": "a", "content": ""}))
    assert write(lab, "a", 60).success
    assert not write(lab, "b", 60).success
    assert write(lab, "a", 100 - base).success
    assert lab.world.quotas.remaining("me", "bytes") == 0
    assert write(lab, "a", 10).success
    assert lab.world.quotas.held("me", "bytes") == base + 10
    assert lab_act(lab, Action("delete", {"artifact": "a"})).success
    assert lab.world.quotas.state() == {}


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 90) | st.none()), max_size=25))
@settings(max_examples=60)
def test_quotas_agree_with_what_is_there(ops: list[tuple[str, int | None]]) -> None:
    """Whatever is written and deleted: what is held is what the artifacts that are there cost, never over the limit."""
    lab = priced(bytes=lambda size: size)
    sizes: dict[str, int] = {}
    for id, length in ops:
        if length is None:
            done = lab_act(lab, Action("delete", {"artifact": id})).success
            assert done == (id in sizes)
            sizes.pop(id, None)
            continue
        size = len(encode({"artifact": id, "content": "x" * length}))
        fits = sum(sizes.values()) - sizes.get(id, 0) + size <= 100
        assert write(lab, id, length).success == fits
        if fits:
            sizes[id] = size
    assert lab.world.quotas.held("me", "bytes") == sum(sizes.values())


@pytest.mark.parametrize("pool", ["tank", "shelf", "desk"])
def test_who_cannot_pay_takes_nothing_from_a_pool(pool: str) -> None:
    """A kind that waits is refused before it takes its place in line if it cannot be paid."""
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.world.budgets.define("money", 1_000_000)
    kinds = ("acquire",) if pool == "desk" else ("get", "put")
    for kind in kinds:
        lab.world.costs.set_price(kind, "money", "budget", 2)
    before = encode(lab.world.pools[pool].state())
    for kind in kinds:
        result = do(lab, Action(kind, {"pool": pool}))
        assert result.error == "2.00 needed, but the budget money is 1.00 in all"
    assert encode(lab.world.pools[pool].state()) == before


@pytest.mark.parametrize("kind", ["get", "acquire"])
@pytest.mark.parametrize("pool", ["tank", "shelf", "desk"])
def test_who_stands_in_line_has_paid(kind: str, pool: str) -> None:
    """The price is set aside on joining the line: who could pay then gets the turn, whatever is spent meanwhile."""
    if (kind == "acquire") != (pool == "desk"):
        return
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.world.budgets.define("money", 2_000_000)
    lab.world.costs.set_price(kind, "money", "budget", 2)
    results: list[ActionResult] = []

    async def empty() -> Any:
        match lab.world.pools[pool]:
            case Container() as tank:
                await tank.get(4)
                return lambda: tank.put(1)
            case Store() as shelf:
                item = await shelf.get()
                return lambda: shelf.put(item)
            case Resource() as desk:
                await desk.acquire(amount=2)
                return lambda: _async(lambda: desk.release(amount=2))
            case other:
                raise AssertionError(other)

    async def act() -> None:
        results.append(await lab.world.execute(lab.script("me"), Action(kind, {"pool": pool})))

    async def scenario() -> None:
        refill = await empty()
        lab.kernel.spawn("me-1", act())
        await sleep(1)
        assert not lab.world.budgets.spend("me", "money", 1_000_000)
        await refill()
        await sleep(1)

    lab.main(scenario())
    assert [result.success for result in results] == [True]
    assert lab.world.pools[pool].level == {"tank": 0, "shelf": 0, "desk": 1}[pool]
    assert lab.world.budgets.remaining("me", "money") == 0


@pytest.mark.parametrize("pool", ["tank", "shelf"])
def test_a_put_that_is_cancelled_did_not_happen(pool: str) -> None:
    """Cancelled at the instant at which it was let in, a put is taken back, and its price too."""
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.world.budgets.define("money", 2_000_000)
    lab.world.costs.set_price("put", "money", "budget", 2)
    arguments = {"pool": pool, "amount": 1} if pool == "tank" else {"pool": pool, "item": 1}

    async def act() -> None:
        await lab.world.execute(lab.script("me"), Action("put", arguments))

    async def scenario() -> None:
        place = lab.world.pools[pool]
        full = [lab.kernel.spawn("filler", _fill(place))]
        await sleep(1)
        putter = lab.kernel.spawn("me-1", act())
        await sleep(1)
        await _drain_one(place)
        lab.kernel.cancel(putter)  # let in, but it has not run yet
        await sleep(1)
        assert putter.exit is not None
        assert putter.exit.kind == "cancelled"
        lab.kernel.cancel(full[0])

    lab.main(scenario())
    assert lab.world.budgets.remaining("me", "money") == 2_000_000
    assert lab.world.pools[pool].level == lab.world.pools[pool].capacity - 1


async def _fill(pool: Any) -> None:
    while pool.level < pool.capacity:
        await (pool.put(1) if isinstance(pool, Container) else pool.put("filler"))
    await sleep(1000)


async def _drain_one(pool: Any) -> None:
    await (pool.get(1) if isinstance(pool, Container) else pool.get())


async def _async(call: Callable[[], object]) -> None:
    call()


# -- people and numbers


def test_names_are_unique() -> None:
    """An agent cannot take the name of another or of a group."""
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        for name in ("me", "us", "them"):
            with pytest.raises(Exception, match="already"):
                lab.add(name)


def test_groups() -> None:
    """A message to a group reaches its living members except the sender."""
    lab = equipped()
    assert lab.world.group("them") == ["you", "gone"]
    with lab.kernel.acting_as(lab.kernel.scenario):
        lab.script("gone").alive = False
    assert lab.world.group("them") == ["you"]
    assert [agent.agent_id for agent in lab.world.members("them")] == ["you", "gone"]


def test_observations() -> None:
    """Observations are recorded as events and kept in order."""
    lab = equipped()
    with lab.kernel.acting_as(lab.kernel.scenario):
        for value in (1, 2.5, -3):
            lab.world.observe("me", "mood", value)
    assert list(lab.world.observations["mood"]) == [1, 2.5, -3]
    assert [row.data for row in lab.rows("me", "observation")] == [{"name": "mood", "value": v} for v in (1, 2.5, -3)]


def test_reasoning_is_recorded() -> None:
    """Why an agent acts is part of the record, for refused actions too."""
    lab = equipped()
    do(lab, Action("noop", {}, "for fun"))
    do(lab, Action("read", {"artifact": "none"}, "curious"))
    assert b'"reasoning":"for fun"' in bytes(encode(lab.rows(topic="action.noop")[0]))
    assert b'"reasoning":"curious"' in bytes(encode(lab.rows(topic="action.read")[0]))


def test_an_agent_that_stops_gives_up_slots_and_place() -> None:
    """Slots are given back and the place is left when an agent stops."""
    lab = Lab()
    lab.world.pools["desk"] = Resource(lab.kernel, 3)
    lab.world.places = Places(["a"], [])

    def step(agent: Script) -> Action:
        return Action("acquire", {"pool": "desk", "amount": len(agent.times)})

    loop = lab.add("me", step, started=True)
    lab.world.places.place("me", "a")
    lab.at(0.15, lambda: loop.request_stop("test"))
    lab.run(0.14)
    assert lab.world.pools["desk"].level == 0
    lab.run(1)
    assert lab.world.pools["desk"].level == 3
    assert lab.world.places.state() == {}


def test_what_an_agent_publishes_is_limited_in_size() -> None:
    """An action with too much data is refused: agent, kind, topic and size are named, and the record stays small."""
    lab = equipped()
    lab.world.event_bus.max_data_bytes = 1000

    refused = [
        do(lab, Action("publish", {"topic": "note.long", "data": "x" * 2000})),
        do(lab, Action("send", {"to": "you", "topic": "note.long", "data": "x" * 2000})),
        do(lab, Action("write", {"artifact": "mine", "content": "x" * 2000})),
        do(lab, Action("create_task", {"title": "x" * 2000})),
    ]

    assert not any(result.success for result in refused)
    text = "me: the action publish with topic 'note.long' has 2031 bytes of data, and at most 1000 are allowed"
    assert refused[0].error == text
    assert lab.world.event_bus.published("note.long") == 0
    assert lab.world.messages == 0


def test_an_event_of_a_class_is_limited_in_size() -> None:
    """Code that publishes on the bus itself gets an error with the agent, the topic and the size."""
    lab = equipped()
    lab.world.event_bus.max_data_bytes = 1000
    errors: list[str] = []

    def publish() -> None:
        with lab.kernel.acting_as(lab.kernel.supervisor), pytest.raises(UsageError) as caught:
            lab.world.event_bus.publish("note.long", ["x" * 2000])
        errors.append(str(caught.value))

    lab.at(1.5, publish)
    lab.run(2)

    assert "the event 'note.long' has 2004 bytes of data, and at most 1000 are allowed" in errors[0]
