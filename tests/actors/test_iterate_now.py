"""Iterations without a coroutine: they mean what those with one mean, whatever waits, stops or fails in them."""

from typing import Any

import pytest

from sim.actors import Agent
from sim.kernel.coroutines import UNDER_WAY, has_begun, resume
from sim.kernel.waits import sleep_ns
from sim.world import Action, ActionResult, Places
from tests.actors.helpers import Lab

S = 1_000_000_000


class Mover(Agent):
    """Moves, publishes, and stops with its fifth iteration; notes what it was told."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.told: list[tuple[float, bool]] = []
        self.left = 0

    def decide_now(self) -> Action | None:
        count = self.loop.iteration_count
        if count == 5:
            self.shutdown()
            return Action("noop")
        return [None, Action("move", {"to": "ab"[count % 2]}), Action("publish", {"topic": "x"}), None, None][count]

    async def decide_action(self) -> Action | None:
        return self.decide_now()

    def after_action(self, result: ActionResult) -> None:
        self.told.append((self.world.now, result.success))

    def on_stop(self) -> None:
        self.left += 1


class Waiting(Mover):
    """Waits in each decision."""

    async def decide_action(self) -> Action | None:
        await sleep_ns(0)
        return self.decide_now()


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("travel", [0, S // 2])
@pytest.mark.parametrize("kind", [Mover, Waiting])
def test_an_iteration_means_the_same_whether_it_waits_or_not(kind: type[Mover], travel: int, mode: str) -> None:
    """Journeys with and without time, decisions that wait, and a stop in an iteration: told once for each action."""
    lab = Lab()
    lab.world.places = Places(["a", "b"], [("a", "b", travel)])
    agent = kind("p", lab.world)
    loop = lab.manager.create_loop(agent)
    lab.world.places.place("p", "a")
    if mode == "tick":
        lab.tick()
    else:
        loop.start_now()
    lab.run(20)
    assert [success for _, success in agent.told] == [True, True]
    assert (lab.bus.published("place.entered"), lab.bus.published("x")) == (1, 1)
    assert (loop.stopped, loop.iteration_count, loop.failures, agent.left) == (True, 5, 0, 1)
    assert loop.through
    assert "p" not in lab.bus.marks


class Told(Mover):
    """Another `decide_action` wins over the `decide_now` of its base."""

    async def decide_action(self) -> Action | None:
        self.shutdown()
        return None


def test_the_nearest_definition_decides() -> None:
    """A subclass that replaces `decide_action` is asked, not its base; so is an object with a method of its own."""
    lab = Lab()
    told, patched = Told("p", lab.world), Mover("q", lab.world)

    async def stop() -> None:
        patched.shutdown()

    patched.decide_action = stop  # type: ignore[method-assign]
    for agent in (told, patched):
        lab.manager.create_loop(agent).start_now()
    lab.run(1)
    assert [(agent.loop.iteration_count, agent.told) for agent in (told, patched)] == [(1, []), (1, [])]


class Ended(Mover):
    """Is cancelled by itself, within a step without a coroutine."""

    def decide_now(self) -> Action | None:
        self.terminate("enough")
        return Action("publish", {"topic": "x"})


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_step_without_a_coroutine_can_be_cancelled(mode: str) -> None:
    """The agent ends with its iteration, and nothing is thrown into a later one."""
    lab = Lab()
    agent = Ended("p", lab.world)
    loop = lab.manager.create_loop(agent)
    if mode == "tick":
        lab.tick()
    else:
        loop.start_now()
    lab.run(5)
    assert (loop.stopped, agent.left, loop.iteration_count) == (True, 1, 1)


def test_what_stands_for_a_coroutine_cannot_be_continued() -> None:
    """It has begun, closing it does nothing, and any other use is an error of the kernel."""
    assert has_begun(UNDER_WAY)
    UNDER_WAY.close()
    for use in (lambda: UNDER_WAY.send(None), lambda: UNDER_WAY.throw(ValueError()), UNDER_WAY.__await__):
        with pytest.raises(RuntimeError, match="a step without a coroutine"):
            use()


def test_a_coroutine_is_resumed_as_await_would() -> None:
    """Values, errors and the end go through, and closing the rest closes the coroutine."""
    closed = []

    class Wait:
        def __await__(self) -> Any:
            return (yield self)

    async def work() -> Any:
        try:
            first = await Wait()
            try:
                await Wait()
            except ValueError as error:
                return first, str(error)
        finally:
            closed.append(1)

    coro = work()
    rest = resume(coro, coro.send(None))
    assert isinstance(rest.send(None), Wait)
    assert isinstance(rest.send(5), Wait)
    with pytest.raises(StopIteration) as ended:
        rest.throw(ValueError("no"))
    assert (ended.value.value, closed) == ((5, "no"), [1])
    coro = work()
    rest = resume(coro, coro.send(None))
    rest.send(None)
    rest.close()
    assert closed == [1, 1]


class Counter(Agent):
    """Counts its decisions, and lives until the second one."""

    count = 0

    @property  # type: ignore[misc]  # what is tested: it cannot be set
    def alive(self) -> bool:
        return self.count < 2

    async def decide_action(self) -> Action | None:
        self.count += 1
        return None


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_class_can_say_itself_whether_it_is_alive(mode: str) -> None:
    """The loop asks a property `alive` of a subclass in either mode."""
    lab = Lab()
    agent = Counter("p", lab.world)
    loop = lab.manager.create_loop(agent)
    if mode == "tick":
        lab.tick()
    loop.start_now()
    lab.run(10)
    assert (agent.count, loop.state) == (2, "stopped")


def test_a_class_that_gets_another_method_uses_it() -> None:
    """What `decide_action` of a class is, is asked at each start, and not once for a class."""

    class Base(Agent):
        seen = ""

        def decide_now(self) -> Action | None:
            self.seen += "n"
            return None

        async def decide_action(self) -> Action | None:
            return self.decide_now()

    class Mine(Base):
        pass

    async def later(self: Any) -> Action | None:
        self.seen += "l"
        return None

    found = []
    for _ in range(2):
        lab = Lab()
        agent = Mine("p", lab.world)
        lab.manager.create_loop(agent).start_now()
        lab.run(1)
        found.append(set(agent.seen))
        Mine.decide_action = later  # type: ignore[method-assign]  # as a test or a cell of a notebook does
    assert found == [{"n"}, {"l"}]


def test_an_own_wait_for_room_is_used() -> None:
    """A receiver that says itself when there is room is asked, also if its mailbox has room."""

    class Door(Agent):
        asked = 0

        async def wait_for_room(self) -> None:
            self.asked += 1

        async def decide_action(self) -> Action | None:
            return None

    class Sender(Agent):
        async def decide_action(self) -> Action | None:
            return Action("send", {"to": "door"})

    lab = Lab()
    door = Door("door", lab.world)
    lab.manager.create_loop(door).start_now()
    lab.manager.create_loop(Sender("sender", lab.world)).start_now()
    lab.run(1)
    assert door.asked == len(door.mailbox) > 0
