"""In parallel ticks all agents decide on the same world, also if their actions consist of tool calls."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.agents import AgentPlan, Family, WorldPlan, define_family
from sim.kernel import Effect
from sim.runner import RunController
from sim.scenario import loads
from sim.scenario.assembly.build import build
from sim.tools import Given
from sim.world import World
from sim.world.action import action
from tests.registries import kept_registries


class Board(sim.Service):
    """Notes of all agents, and what each agent has seen of them when it decided."""

    name: ClassVar[str] = "board"

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.seen: dict[int, list[tuple[str, int]]] = {}  # by tick

    def state(self) -> Any:
        return self.notes

    def look(self, agent: sim.Agent) -> None:
        """Note how many notes there are in an agent's decision."""
        self.seen.setdefault(agent.loop.iteration_count, []).append((agent.agent_id, len(self.notes)))


@attrs.frozen
class WriterSettings:
    """What writers do in each tick.

    Args:
        notes: how many notes they add, one with each tool call.
        slow: whether a tool outside follows each note.
        think: whether they wait for something outside before they decide.
    """

    notes: int
    slow: bool
    think: bool


@sim.tool("board.add")
def add(world: Given[sim.World], agent: Given[sim.Agent]) -> int:
    """Add a note."""
    board = Board.of(world)
    board.notes.append(agent.agent_id)
    return len(board.notes)


async def _answer(request: Mapping[str, Any], key: str) -> str:
    return "yes"


async def _outside() -> str:
    return "yes"


ask = sim.Tool("board.ask", lambda _: _outside(), runs="effect", latency="0.1s", safety="pure")


async def _work(world: World, agent: Any) -> None:
    for _ in range(agent.settings.notes):
        await world.execute(agent, sim.Action("use_tool", {"tool": "board.add"}))
        if agent.settings.slow:
            await world.execute(agent, sim.Action("use_tool", {"tool": "board.ask"}))


class Writer(sim.Agent):
    """Decides after it has read the board; its action is a series of tool calls."""

    act = "work"

    def __init__(self, *names: Any, settings: WriterSettings, **options: Any) -> None:
        super().__init__(*names, **options)
        self.settings = settings

    async def decide_action(self) -> sim.Action:
        board = Board.of(self.world)
        board.look(self)
        if self.settings.think:
            await sim.perform(Effect("thought", {}, _answer, latency_ns=10**8, safety="pure"))
            board.look(self)
        return sim.Action(self.act)


class Overriding(Writer):
    """Makes its tool calls in `execute_action`."""

    act = "noop"

    async def execute_action(self, action: sim.Action) -> sim.ActionResult:
        await _work(self.world, self)
        return await super().execute_action(action)


@pytest.fixture(autouse=True, scope="module")
def _kinds() -> Iterator[None]:
    with kept_registries():

        @action("work", wait=_work, everywhere=False)
        def work(world: World, agent: Any, done: None) -> None:
            """Add notes."""

        for kind, writer in (("writer", Writer), ("overriding", Overriding)):
            define_family(
                Family(
                    kind, writer, settings=WriterSettings, prepare=_prepare(writer), actions=(work,), tools=(add, ask)
                )
            )
        yield


def _prepare(writer: type[Writer]) -> Callable[[WorldPlan], Callable[[AgentPlan], sim.Agent]]:
    def prepare(plan: WorldPlan) -> Callable[[AgentPlan], sim.Agent]:
        if Board.name not in plan.world.services:
            plan.world.add_service(Board())
        return lambda agent: writer(agent.name, agent.world, settings=agent.settings)

    return prepare


WRITERS = st.lists(
    st.tuples(st.sampled_from(["writer", "overriding"]), st.integers(0, 3), st.booleans(), st.booleans()),
    min_size=2, max_size=5,
)  # fmt: skip


def _run(writers: list[tuple[str, int, bool, bool]], concurrency: str, shuffled: bool = False) -> Board:
    agents = "".join(
        f"  - {{name: a{number}, kind: {kind}, settings: {{notes: {notes}, slow: {slow}, think: {think}}}}}\n".replace(
            "True", "true"
        ).replace("False", "false")
        for number, (kind, notes, slow, think) in enumerate(writers)
    )
    order = "shuffled" if shuffled else "fixed"
    text = (
        "name: board\nuntil: 29500ms\nexecution: {use_autonomous_loops: false, tick: "
        f"{{period: 10s, concurrency: {concurrency}, order: {order}}}}}\nagents:\n{agents}"
    )
    simulation = build(loads(text))
    runner = RunController(simulation, until_ns=simulation.scenario.end_ns, mode="tick")
    anyio.run(runner.run)
    return Board.of(simulation.world)


@pytest.mark.proof
@given(writers=WRITERS, shuffled=st.booleans())
def test_nobody_sees_an_action_of_its_own_tick(writers: list[tuple[str, int, bool, bool]], shuffled: bool) -> None:
    """All that agents see while they decide is what earlier ticks have left, however long others think or work."""
    board = _run(writers, "parallel", shuffled)
    whole = sum(notes for _, notes, _, _ in writers)
    assert set(board.seen) == {1, 2, 3}
    for tick, seen in board.seen.items():
        assert {name for name, _ in seen} == {f"a{number}" for number in range(len(writers))}
        assert {count for _, count in seen} == {(tick - 1) * whole}
    assert len(board.notes) == 3 * whole


def test_in_sequential_ticks_later_agents_see_what_earlier_ones_did() -> None:
    """The contrast: one after another, each agent decides on the state that those before it have left."""
    board = _run(
        [("writer", 2, True, False), ("overriding", 1, False, True), ("writer", 0, False, False)], "sequential"
    )
    assert board.seen[1] == [("a0", 0), ("a1", 2), ("a1", 2), ("a2", 3)]
    assert board.seen[2] == [("a0", 3), ("a1", 5), ("a1", 5), ("a2", 6)]
