"""Tick and autonomous mode: agents with one fixed period and no shared contention end in the same world.

Agents run programs that hypothesis writes: artifact writes, edits, transfers, messages, observations, sleeps,
rate-limited actions, refusals and crashes up to the error limit. A message is heeded at the first iteration after the
instant at which it was sent: within one instant the modes may order agents differently, and only there.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import AgentLoopConfig
from sim.kernel.codec import decode, encode
from sim.world import Action, ActionResult
from tests.actors.helpers import Lab, Script

Program = list[tuple[Any, ...]]

PERIOD = 1.0
END = 150.0


class Worker(Script):
    """Runs a program, one step an iteration, and heeds its mail."""

    program: Program
    timed = True

    async def decide_action(self) -> Action | None:
        self._heed()
        number = self.state.setdefault("step", 0)
        if number >= len(self.program):
            return None
        self.state["step"] = number + 1
        self._note(number)
        return self._action(number, *self.program[number])

    async def execute_action(self, action: Action) -> ActionResult:
        result = await super().execute_action(action)
        self.state.setdefault("results", []).append([result.success, result.error])
        return result

    def _note(self, number: int) -> None:
        if self.timed:
            self.state.setdefault("trace", []).append([number, self.world.now])

    def _drawn(self) -> float:
        """Draw; not in programs without times, as a draw belongs to its moment, and steps may come a tick later."""
        return self.rng.random() if self.timed else 0.0

    def _heed(self) -> None:
        waiting = self.__dict__.setdefault("waiting", [])
        while (message := self.mailbox.take()) is not None:
            waiting.append(message)
        now = self.world.kernel.now
        heard = sorted([m.sender, m.data, m.time if self.timed else 0] for m in waiting if m.time < now)
        self.__dict__["waiting"] = [m for m in waiting if m.time >= now]
        if heard:
            log = self.state.setdefault("log", [])
            log.extend([[*entry, self.world.now] if self.timed else entry for entry in heard])
            if not self.timed:
                log.sort()

    def _action(self, number: int, op: str, *args: Any) -> Action | None:
        me = self.agent_id
        match op:
            case "crash":
                raise ValueError(f"planted {number}")
            case "draw":
                self.state.setdefault("drawn", []).append(self._drawn())
                return None
            case "observe":
                self.world.observe(me, f"seen by {me}", float(number))
                return None
            case "sleep":
                return Action("sleep", {"condition": {"for": args[0] * PERIOD}})
            case "level":
                return Action("sleep", {"condition": {"resource": "own", "at_least": args[0], "timeout": 4 * PERIOD}})
            case "wait":
                return Action("sleep", {"condition": {args[0]: args[1], "timeout": args[2] * PERIOD}})
            case "write":
                stamp = self.world.now if self.timed else number
                return Action("write", {"artifact": f"{me}-{args[0]}", "content": [number, stamp, self._drawn()]})
            case "delete":
                return Action("delete", {"artifact": f"{me}-{args[0]}"})
            case "scarce":
                return Action("edit", {"artifact": f"{me}-pad", "old": "#", "new": f"{number} #"})
            case "transfer":
                return Action("transfer", {"to": f"a{args[0]}", "amount": args[1]})
            case "send":
                return Action("send", {"to": f"a{args[0]}", "data": args[1]})
            case _:
                return Action("publish", {"topic": "news", "data": number})


def world_after(programs: list[Program], mode: str, timed: bool, shuffled: bool = False) -> tuple[Any, Lab]:
    """Run programs in a mode and return what the world has come to."""
    lab = Lab(7, shuffled=shuffled)
    lab.limit("own", 2, 5 * PERIOD)
    lab.world.costs.set_price("edit", "own", "rate", 1)
    for index, program in enumerate(programs):
        config = AgentLoopConfig(PERIOD, 8 * PERIOD, max_consecutive_errors=2, cool_down=3 * PERIOD, max_restarts=99)
        name = f"a{index}"
        loop = lab.add(name, None, Worker, config=config, started=mode == "autonomous")
        assert isinstance(loop.agent, Worker)
        loop.agent.program, loop.agent.timed = program, timed
        lab.world.ledger.open(name, 1000_000_000)
        lab.world.artifacts.put(_pad(name))
    if mode != "autonomous":
        lab.tick(PERIOD, mode, shuffled)
    lab.run(END)
    digest = decode(encode(lab.world.digest()))
    agents = {name: agent["state"] for name, agent in digest["agents"].items()}
    assert all(state["step"] == len(program) for state, program in zip(agents.values(), programs, strict=True))
    observed = {name: list(values) for name, values in lab.world.observations.items()}
    errors = {name: loop.failures for name, loop in lab.manager.loops.items()}
    draws = {name: draw for name, draw in digest["draws"].items() if not name.startswith("tick")}
    return (agents, digest["artifacts"], digest["ledger"], digest["rates"], draws, observed, errors), lab


def _pad(name: str) -> Any:
    from sim.world.artifact import make

    return make(f"{name}-pad", name, "#")


others = st.integers(0, 3)
own = (
    st.tuples(st.just("write"), st.integers(0, 1))
    | st.tuples(st.just("delete"), st.integers(0, 1))
    | st.tuples(st.sampled_from(["crash", "draw", "observe", "scarce", "scarce"]))
    | st.tuples(st.just("transfer"), others, st.integers(0, 3))
    | st.tuples(st.just("send"), others, st.integers(0, 99))
    | st.tuples(st.just("sleep"), st.sampled_from([0, 0.5, 1, 2, 3]))
    | st.tuples(st.just("level"), st.integers(1, 2))
)
waiting = (
    st.tuples(st.just("wait"), st.just("message"), st.just(True), st.integers(1, 4))
    | st.tuples(st.just("wait"), st.just("event"), st.just("news"), st.integers(1, 4))
    | st.tuples(st.just("publish"))
)
MODES = st.sampled_from(["sequential", "parallel"])


def programs(ops: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[list[Program]]:
    """Programs for four agents."""
    return st.lists(st.lists(ops, max_size=9), min_size=4, max_size=4)


@pytest.mark.proof
@given(programs(own), MODES, st.booleans())
@settings(max_examples=120)
def test_same_world_at_the_same_times(given_: list[Program], mode: str, shuffled: bool) -> None:
    """Without waiting for each other: the same world, and every step of every agent at the same simulated time."""
    expected, _ = world_after(given_, "autonomous", True, shuffled)
    found, _ = world_after(given_, mode, True, shuffled)
    assert found == expected


@pytest.mark.proof
@given(programs(own | waiting), MODES, st.booleans())
@settings(max_examples=120)
def test_same_world_in_the_end(given_: list[Program], mode: str, shuffled: bool) -> None:
    """With agents that wait for each other's messages and events: the same world, some steps a tick later."""
    expected, _ = world_after(given_, "autonomous", False, shuffled)
    found, _ = world_after(given_, mode, False, shuffled)
    assert found == expected


def test_the_property_is_not_about_nothing() -> None:
    """Fixed programs in which everything occurs: messages heard, sleeps, a pause for errors, writes, limits."""
    given_: list[Program] = [
        [("write", 0), ("send", 1, 5), ("sleep", 2), ("crash",), ("crash",), ("write", 1), ("draw",)],
        [("scarce",), ("scarce",), ("scarce",), ("transfer", 0, 3), ("send", 0, 7), ("delete", 0), ("observe",)],
        [("level", 2), ("sleep", 0.5), ("transfer", 1, 1), ("send", 1, 9), ("write", 0), ("delete", 0)],
        [("observe",), ("transfer", 3, 0), ("write", 1), ("write", 1), ("scarce",), ("level", 2)],
    ]
    expected, autonomous = world_after(given_, "autonomous", True)
    for mode in ("sequential", "parallel"):
        found, tick = world_after(given_, mode, True)
        assert found == expected
        for lab in (autonomous, tick):
            reasons = [row.data["reason"] for row in lab.rows(topic="agent.state")]
            assert "errors" in reasons
            assert "resources:own" in reasons
            assert "time" in reasons
    agents, artifacts, ledger = expected[:3]
    assert agents["a1"]["log"] == [["a0", 5, 1 * 10**9, 5.0], ["a2", 9, 3 * 10**9, 5.0]]
    assert artifacts["a3-1"][2] == 2
    assert sum(ledger["balances"].values()) == 4000_000_000
