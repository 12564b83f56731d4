"""Agents and budgets: one that is exhausted pauses its agent until it is renewed or raised."""

from typing import Any

import pytest

from sim.actors import AgentState, PauseReason
from sim.base.errors import LimitError
from sim.kernel import sleep
from sim.resources import Ledger
from sim.resources.ledger import amount_text
from sim.world import Action
from tests.actors.helpers import Lab, Script

_S = AgentState
HOUR = 3600 * 10**9


def paying(amount: int, reset_ns: int | None, price: float = 1) -> Lab:
    """A world in which to write costs money."""
    lab = Lab()
    lab.world.budgets.define("money", amount * 10**6, reset_ns)
    lab.world.costs.set_price("write", "money", "budget", price)
    return lab


def write(agent: Script) -> Action:
    """Write at every iteration."""
    return Action("write", {"artifact": "x", "content": len(agent.times)})


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_an_exhausted_budget_pauses_until_exactly_its_reset(mode: str) -> None:
    """No iteration fails: the agent is PAUSED for resources, and acts again at the instant of the reset."""
    lab = paying(3, HOUR)
    loop = lab.add("a", write, min_loop_delay=60, max_loop_delay=60)
    if mode == "tick":
        lab.tick(60)
    else:
        loop.start_now()
    lab.run(3000)
    assert (loop.state, loop.pause_reason) == (_S.PAUSED, PauseReason.RESOURCES)
    lab.run(3 * 3600)
    assert loop.failures == 0
    done = [row.time_ns / 10**9 for row in lab.rows("a", "action.write")]
    assert len(done) == 9
    assert done[3] == 3600
    pauses = [row.data["reason"] for row in lab.rows("a", "agent.state") if row.data["to"] == "paused"]
    assert set(pauses) == {"resources:money"}


def test_raising_a_budget_ends_the_pause_at_once() -> None:
    """A budget without a reset keeps its agent paused until the amount is raised; too small a raise changes nothing."""
    lab = paying(1, None)
    loop = lab.add("a", write, min_loop_delay=60, max_loop_delay=60, started=True)
    lab.at(500, lambda: lab.world.budgets.define("money", 1_500_000))
    lab.run(999)
    assert (loop.state, loop.failures) == (_S.PAUSED, 0)
    lab.at(1000, lambda: lab.world.budgets.define("money", 2_000_000))
    lab.run(1001)
    assert [row.time_ns / 10**9 for row in lab.rows("a", "action.write")] == [0, 1000]


def test_what_is_given_back_ends_the_pause() -> None:
    """An amount that was set aside and is released pays for the action that waits for it."""
    lab = paying(1, None)
    earmark = lab.world.budgets.reserve("a", "money", 1_000_000)
    lab.add("a", write, min_loop_delay=60, max_loop_delay=60, started=True)
    lab.at(70, lambda: lab.world.budgets.release(earmark))
    lab.run(100)
    assert [row.time_ns / 10**9 for row in lab.rows("a", "action.write")] == [70]


def test_a_price_above_the_whole_budget_is_a_failure() -> None:
    """What can never be paid is no reason to wait, and the message has both amounts."""
    lab = paying(1, HOUR, price=2)
    loop = lab.add("a", write, started=True, max_consecutive_errors=2)
    lab.run(5)
    assert loop.pause_reason is PauseReason.ERRORS
    error = lab.rows("a", "agent.error")[0].data["error"]
    assert error == "LimitError: a: 2.00 needed, but the budget money is 1.00 in all"


@pytest.mark.parametrize("how", ["stop", "shutdown"])
def test_who_waits_for_a_budget_can_be_stopped(how: str) -> None:
    """A stop ends the wait at once, and nothing is left of it."""
    lab = paying(1, None)
    loop = lab.add("a", write, started=True)

    async def scenario() -> float:
        await sleep(10)
        if how == "stop":
            await loop.stop()
        else:
            loop.agent.shutdown()
            await sleep(1)
        return loop.failures

    assert lab.main(scenario()) == 0
    assert loop.state is _S.STOPPED
    assert not lab.world.budgets._waiting


@pytest.mark.parametrize(
    ("micro", "text"),
    [(3_000_000, "3.00"), (1_500_000, "1.50"), (1, "0.000001"), (-2_250_000, "-2.25"), (10**12, "1000000.00")],
)
def test_amounts_are_written_as_people_write_them(micro: int, text: str) -> None:
    """At least two decimals, never an exponent."""
    assert amount_text(micro) == text


def test_messages_speak_of_amounts() -> None:
    """Insufficient funds are named in units, and whole numbers without an exponent."""
    ledger: Any = Ledger()
    ledger.open("a", 2_000_000)
    ledger.open("b")
    with pytest.raises(LimitError, match=r"^a: insufficient funds: 3\.00 needed, 2\.00 available$"):
        ledger.transfer("a", "b", 3_000_000)
    assert "1000000 is over the limit of 500000" in str(LimitError("tokens", 10**6, 500_000, "a"))
