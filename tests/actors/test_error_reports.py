"""What agents return is checked, and what fails in them is logged."""

import functools
import logging
from typing import Any

import anyio
import pytest

import sim


class Returns(sim.Agent):
    """Returns what a test gives it."""

    decision: Any = None
    result: Any = None

    async def decide_action(self) -> Any:
        return self.decision() if callable(self.decision) else self.decision

    async def execute_action(self, action: sim.Action) -> Any:
        return self.result if self.result != "super" else await super().execute_action(action)


async def _forgotten() -> None:
    """Return nothing."""


NOOP = sim.Action("noop")


@pytest.mark.parametrize(
    ("decision", "result", "text"),
    [
        (
            {"action_type": "noop"},
            "super",
            "a.decide_action returned a dict, not a sim.Action or None; .*ActionResult",
        ),
        ("noop", "super", "a.decide_action returned a str"),
        (_forgotten, "super", "a.decide_action returned a coroutine.*write `await`"),
        (NOOP, {"success": True}, r"a.execute_action returned a dict, not a sim.ActionResult"),
        (NOOP, None, "a.execute_action returned None"),
        (NOOP, True, "a.execute_action returned a bool"),
    ],
)
def test_what_an_agent_returns_is_checked(decision, result, text, caplog):
    """A wrong type fails the iteration with a sentence that names the two classes, without the address of an object."""

    async def main():
        async with sim.World() as world:
            manager = sim.AgentLoopManager(world)
            agent = Returns("a", world)
            agent.decision, agent.result = decision, result
            loop = manager.create_loop(agent)
            await loop.start()
            await world.run(until=0.05)
            assert (loop.failures, loop.consecutive_errors) == (1, 1)
            (error,) = world.errors
            return error

    error = anyio.run(main)
    assert "0x" not in error
    with pytest.raises(sim.SimError, match=text):
        raise sim.SimError(error)


def test_each_fault_is_logged_once_with_its_traceback(caplog):
    """Ten agents with one fault log it once as an error; the repetitions are for debugging, and the summary counts."""

    class Typo(sim.Agent):
        async def decide_action(self):
            return self.world.nwo  # type: ignore[attr-defined]

    async def main():
        async with sim.World() as world:
            manager = sim.AgentLoopManager(world)
            for n in range(10):
                manager.create_loop(Typo(f"a{n}", world))
            await manager.start_all()
            await world.run(until=1)
            return manager.totals().errors, world.errors

    with caplog.at_level(logging.DEBUG, "sim"):
        failures, errors = anyio.run(main)
    levels = [record.levelname for record in caplog.records if record.name == "sim.actors"]
    assert levels == ["ERROR", *["DEBUG"] * (failures - 1)]
    assert "self.world.nwo" in caplog.text
    ((text, (count, first)),) = errors.items()
    assert (count, first) == (failures, "a0")
    assert text.startswith("AttributeError")


def test_hooks_that_fail_are_logged(caplog):
    """Errors of `on_start`, `on_stop` and `on_error` are logged with a traceback as well."""

    class Hooks(sim.Agent):
        async def on_start(self):
            if self.agent_id == "start":
                raise ValueError("at the start")

        async def decide_action(self):
            raise ValueError("in between")

        def on_error(self, error):
            raise ValueError("about the error")

        def on_stop(self):
            raise ValueError("at the stop")

    async def main():
        async with sim.World() as world:
            manager = sim.AgentLoopManager(world)
            for name in ("start", "other"):
                manager.create_loop(Hooks(name, world))
            await manager.start_all()
            await world.run(until=0.1)

    anyio.run(main)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert all(record.exc_info for record in errors)
    for text in ("at the start", "in between", "about the error", "at the stop"):
        assert functools.reduce(lambda count, record: count + (text in record.getMessage()), errors, 0) == 1
