"""What is said of agents that are no coroutines, or that wait in real time."""

import pytest

import sim
from sim.actors.error_text import failure_text
from sim.base.errors import ForeignAwaitError

ASLEEP = """
import asyncio, trio
import sim

class OnAsyncio(sim.Agent):
    async def decide_action(self):
        await asyncio.sleep(1)

class OnTrio(sim.Agent):
    async def decide_action(self):
        await trio.sleep(1)
"""
SCENARIO = "name: asleep\nuntil: 10s\nagents: [{name: a, kind: agent}]\n"


@pytest.mark.parametrize("name", ["decide_action", "on_start"])
def test_a_method_that_is_not_async_is_refused(name, tmp_path):
    """A method that is awaited must be async; the error names it, its file and its line, and what to write."""

    async def decide(agent: sim.Agent) -> None:
        """Do nothing."""

    methods = {"decide_action": decide, name: lambda agent: None}
    (tmp_path / "a.yaml").write_text(SCENARIO)
    with pytest.raises(
        sim.UsageError, match=rf"Plain\.{name} is awaited, but it is not async \(.*test_error_text.py:\d+"
    ):
        sim.run(tmp_path / "a.yaml", kinds={"agent": type("Plain", (sim.Agent,), methods)}, out=None)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", ["OnAsyncio", "OnTrio"])
def test_a_wait_in_real_time_says_where_and_what_to_write(kind, backend, tmp_path):
    """An agent that awaits asyncio or trio gets the same sentence on both: its file and line, and what to write."""
    (tmp_path / "asleep.py").write_text(ASLEEP)
    (tmp_path / "a.yaml").write_text(SCENARIO)
    names: dict[str, type[sim.Agent]] = {}
    exec(compile(ASLEEP, str(tmp_path / "asleep.py"), "exec"), names)  # noqa: S102 - the agents of this test
    result = sim.run(tmp_path / "a.yaml", kinds={"agent": names[kind]}, out=None, backend=backend)
    line = {"OnAsyncio": 7, "OnTrio": 11}[kind]
    assert result.commonest_error is not None
    assert f"ForeignAwaitError: asleep.py:{line} waits by asyncio or trio" in result.commonest_error
    assert "write self.loop.sleep(...)" in result.commonest_error


def test_other_errors_keep_their_text():
    """Only waits outside of simulated time are explained."""
    assert failure_text(RuntimeError("no luck")) == "RuntimeError: no luck"
    assert failure_text(ForeignAwaitError("x")).startswith("ForeignAwaitError: the agent waits by")
