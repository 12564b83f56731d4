"""A kind of action is said once: everything else is derived from one function."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest

import sim
from sim.actors.wake import CONDITIONS
from sim.base.errors import ScenarioError, UsageError
from sim.kernel import Signal
from sim.scenario.assembly.sync_checks import reach_of
from sim.scenario.loading import json_schema, loads
from sim.world import Action, Refused
from sim.world.action import BUILT_IN, DEFINED, Meaning, Means, NewArtifactId, Recipient, action
from tests.actors.helpers import Lab

SCENARIO = """
name: praise
until: 3s
metrics: {every: 3s, values: {praises: "total('star', 'praises')"}}
agents:
  - {name: star, state: {praises: 0}, rules: [{do: {sleep: {for: 1h}}}]}
  - {name: fan, loop: {min_loop_delay: 1s}, rules: [{do: PRAISE}]}
"""


@pytest.fixture
def praise() -> Iterator[None]:
    """A new kind of action, defined by one function."""

    @action("praise")
    def praise(world: Any, agent: Any, whom: Recipient, times: int = 1) -> dict[str, int]:
        """Add to the praises of another agent.

        Args:
            whom: who is praised.
            times: how often.
        """
        if whom not in world.agents:
            raise Refused(f"there is no agent {whom!r} to praise")
        state = world.agents[whom].state
        state["praises"] = state.get("praises", 0) + times
        return {"praises": state["praises"]}

    yield
    del DEFINED["praise"], BUILT_IN["praise"]


@pytest.mark.usefixtures("praise")
def test_a_new_action_is_done_in_python():
    """Every world that is made from then on has it, and checks its arguments."""
    lab = Lab(1)
    fan, star = lab.add("fan").agent, lab.add("star").agent
    with lab.world.kernel.acting_as(lab.world.kernel.scenario):
        assert lab.world.act(fan, Action("praise", {"whom": "star"})).data == {"praises": 1}
        wrong = lab.world.act(fan, Action("praise", {"whom": "star", "tims": 2}))
    assert wrong.error == "praise has no argument 'tims'; did you mean 'times'?"
    assert star.state == {"praises": 1}


@pytest.mark.usefixtures("praise")
def test_a_new_action_is_done_by_rules(tmp_path):
    """A rule of a scenario can do it, with arguments that are computed."""
    file = tmp_path / "praise.yaml"
    file.write_text(SCENARIO.replace("PRAISE", "{praise: {whom: star, times: '=1 + 1'}}"))
    result = sim.run(file, out=tmp_path / "runs")
    assert result.errors == 0
    assert result.metrics["praises"][-1] == 6


@pytest.mark.usefixtures("praise")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{praise: {whom: stra}}", "there is no agent, group.*'stra'|no .*'stra'"),
        ("{praise: {who: star}}", "unknown key 'who'"),
        ("{praise: {whom: star, times: many}}", "expected a number or an expression"),
        ("{praise: {whom: star, times: 1.5}}", "expected a whole number or an expression, found 1.5"),
        ("{praise: {whom: star, times: true}}", "expected a number or an expression, found true"),
        ("{acquire: {pool: desk, preempt: 1}}", "expected true, false or an expression, found 1"),
        ("{prais: {whom: star}}", "prais"),
    ],
)
def test_what_a_rule_gives_it_is_checked(given, message):
    """References, names and types of arguments are checked in the file, before anything runs."""
    with pytest.raises(ScenarioError, match=message):
        loads(SCENARIO.replace("PRAISE", given))


@pytest.mark.slow
@pytest.mark.usefixtures("praise")
def test_a_new_action_is_in_the_json_schema():
    """Editors know it, with the descriptions of its docstring."""
    found = json_schema()["$defs"]["praise"]
    assert found["description"] == "Add to the praises of another agent."
    assert found["properties"]["whom"]["description"] == "who is praised"
    assert found["required"] == ["whom"]


def _undocumented(world: Any, agent: Any) -> None: ...


def _undescribed(world: Any, agent: Any, whom: str) -> None:
    """Do it."""


def _untyped(world, agent, whom):
    """Do it.

    Args:
        whom: who.
    """


def _unknown(world: Any, agent: Any, whom: Annotated[bytes, "odd"]) -> None:
    """Do it.

    Args:
        whom: who.
    """


def _whole(world: Any, agent: Any, granted: Any, whom: str) -> None:
    """Do it.

    Args:
        whom: who.
    """


def _misspelt(world: Any, agent: Any, whom: Annotated[str, Means("recipent")]) -> None:
    """Do it.

    Args:
        whom: who.
    """


def _empty(world: Any, agent: Any, whom: str) -> None:
    """Do it.

    Args:
        whom:
    """


def _stale(world: Any, agent: Any) -> None:
    """Do it.

    Args:
        whom: who, before this argument was removed.
    """


async def _async(world: Any, agent: Any) -> None:
    """Do it."""


def _alone(whom: str) -> None:
    """Do it.

    Args:
        whom: who.
    """


def _open(world: Any, agent: Any, **whom: str) -> None:
    """Do it.

    Args:
        whom: who.
    """


def _fine(world: Any, agent: Any, whom: str = "") -> None:
    """Do it.

    Args:
        whom: who.
    """


def _plain(world: Any, agent: Any, whom: str) -> None:
    """Do it.

    Args:
        whom: to whom.
    """


def _ready(world: Any, agent: Any, whom: str) -> None: ...


async def _other_wait(world: Any, agent: Any, who: str) -> None: ...


@pytest.mark.parametrize(
    ("kind", "function", "options", "message"),
    [
        ("odd", _undocumented, {}, "the action 'odd' has no docstring"),
        ("odd", _undescribed, {}, "the argument 'whom' of the action 'odd' has no description"),
        ("odd", _untyped, {}, "the argument 'whom' of the action 'odd' is annotated with .* no meaning"),
        ("odd", _unknown, {}, "the argument 'whom' of the action 'odd' is annotated with .* no meaning"),
        ("odd", _whole, {"wait": _other_wait}, "the wait of the action 'odd' must take the same arguments: whom"),
        ("odd", _plain, {"ready": _ready}, "the action 'odd' has `ready`, which goes before `wait`, but no `wait`"),
        ("odd", _misspelt, {}, "the argument 'whom' of the action 'odd' is annotated with .* no meaning"),
        ("odd", _empty, {}, "the argument 'whom' of the action 'odd' has no description"),
        ("odd", _stale, {}, "the docstring of the action 'odd' names 'whom', which is not one of its arguments"),
        ("odd", _async, {}, "the function of the action 'odd' must not be async"),
        ("odd", _alone, {}, r"the action 'odd' must begin with the parameters \(world, agent\)"),
        ("odd", _open, {}, r"'\*\*whom: str' of the action 'odd' cannot be a named argument"),
        ("odd", _fine, {"scope": "all"}, "the scope of the action 'odd' must be one of own, space, shared"),
        ("odd", _fine, {"either": {"who": "a name"}}, "the `either` of the action 'odd' names 'who'"),
        ("noop", _undescribed, {}, "the action 'noop' is already defined"),
    ],
)
def test_a_forgotten_part_fails_when_the_action_is_defined(kind, function, options, message):
    """Whatever is missing, one sentence says so at once, and nothing is defined."""
    before = dict(DEFINED)
    with pytest.raises(UsageError, match=message):
        action(kind, **options)(function)
    assert before == DEFINED


def test_every_meaning_is_used():
    """No word of the closed set says what no argument means."""
    used = {argument.meaning for handler in DEFINED.values() for argument in handler.arguments()}
    used |= {argument.meaning for kind in CONDITIONS.values() for argument in (*kind.heads, *kind.more)}
    assert used == set(get_args(Meaning))


@pytest.mark.parametrize(("scope", "reach"), [("own", "space"), ("space", "space"), ("shared", "shared")])
def test_the_scope_of_an_action_says_how_far_its_agents_reach(scope, reach):
    """A new action that touches only its agent, or what is near, leaves the agent free to run ahead of others."""
    kind = f"praise_{scope}"
    action(kind, scope=scope)(_fine)
    try:
        (_, fan) = loads(SCENARIO.replace("PRAISE", f"{{{kind}: {{whom: x}}}}")).agents
        assert reach_of(fan, None) == reach
    finally:
        del DEFINED[kind], BUILT_IN[kind]


@pytest.fixture
def define() -> Iterator[Any]:
    """Define actions that are forgotten after the test."""
    kinds: list[str] = []

    def define(kind: str, function: Any, **options: Any) -> None:
        kinds.append(kind)
        action(kind, **options)(function)

    yield define
    for kind in kinds:
        del DEFINED[kind], BUILT_IN[kind]


def test_an_action_that_is_last_is_refused_before_another(define):
    """What a definition says with `last` is checked in the file."""

    def leave(world: Any, agent: Any) -> None:
        """Leave."""

    define("leave", leave, last=True)
    loads(SCENARIO.replace("PRAISE", "[noop, leave]"))
    with pytest.raises(ScenarioError, match="leave must be the last action, but is number 1 of 2"):
        loads(SCENARIO.replace("PRAISE", "[leave, noop]"))


def test_an_argument_that_names_a_new_artifact_declares_it(define):
    """Rules may refer to an artifact that only an action of a host program creates."""

    def paint(world: Any, agent: Any, picture: NewArtifactId) -> None:
        """Paint.

        Args:
            picture: its name.
        """

    reads = "[{read: {artifact: sunset}}, PAINT]"
    with pytest.raises(ScenarioError, match="sunset"):
        loads(SCENARIO.replace("PRAISE", reads.replace("PAINT", "noop")))
    define("paint", paint)
    loads(SCENARIO.replace("PRAISE", reads.replace("PAINT", "{paint: {picture: sunset}}")))


@pytest.mark.parametrize("awaits_work", [True, False])
def test_waiting_forever_is_a_deadlock_unless_it_is_for_work(define, awaits_work, tmp_path):
    """What a definition says with `awaits_work` decides how a run without a time limit ends."""

    async def never(world: Any, agent: Any) -> None:
        await Signal(world.kernel).wait()

    def listen(world: Any, agent: Any, granted: Any) -> None:
        """Listen."""

    define("listen", listen, wait=never, awaits_work=awaits_work)
    file = tmp_path / "listen.yaml"
    file.write_text("name: listen\nuntil: null\nagents:\n  - {name: ear, rules: [{do: listen}]}\n")
    result = sim.run(file)
    assert result.stopped_by == ("nothing is left to do" if awaits_work else "deadlock")
    assert result.deadlock == (None if awaits_work else "deadlock: 1 agent is blocked: ear on listen")


@pytest.mark.parametrize("idle", [True, False])
def test_an_action_that_is_idle_ends_no_series_of_failures(define, idle):
    """What a definition says with `idle` decides whether its success proves that an agent works again."""

    def hum(world: Any, agent: Any) -> None:
        """Hum."""

    define("hum", hum, idle=idle)
    lab = Lab(1)
    kinds = iter(["no such action", "hum"])
    loop = lab.add("bird", lambda _: Action(next(kinds, "hum")), started=True, min_loop_delay=0.1)
    lab.run(1)
    assert loop.iteration_count > 1
    assert (loop.consecutive_errors > 0) is idle
