"""A program for test_turns.py: agents that meet all ends of a turn. It writes their results, and the hash.

It runs them in each mode with each level of recording. Its argument is `plain` or `compiled`.
"""

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

if sys.argv[1] == "plain":
    sys.modules["sim.kernel.compiled._core"] = None  # type: ignore[assignment]  # as if it were not there

import sim
from sim.base.permissions import Permission
from sim.kernel.waits import NOTHING, sleep_ns
from sim.world import Action
from sim.world.action import Refused, action

RESULTS: list[Any] = [None, {"a": 1}, {"a": 2**70}, {1, 2}, {"a": [1]}, {"ä": "ö"}, float("nan"), {"big": "x" * 3000}]


@action("try", draws=False)
def try_it(world: Any, agent: Any, how: int, text: str = "") -> Any:
    """Return what is asked for, or raise.

    Args:
        how: which.
        text: anything.
    """
    if how == 90:
        raise Refused("not now", skip=True)
    if how >= 91:
        raise ValueError(f"fault {how}")
    return RESULTS[how % len(RESULTS)]


@action("forbidden", permission=Permission.ADMIN, draws=False)
def forbidden(world: Any, agent: Any) -> None:
    """Do what only an operator may."""


async def _line(world: Any, agent: Any, how: int) -> Any:
    await sleep_ns(2 * 10**9)
    return how


def _ready(world: Any, agent: Any, how: int) -> Any:
    if how == 7:
        raise ValueError("not ready")
    return NOTHING if how % 2 else {"how": how}


def _undo(world: Any, agent: Any, granted: Any, how: int) -> None:
    sys.stdout.write(f"{world.now} {agent.agent_id} undoes {granted}\n")
    if how == 6:
        raise ValueError("cannot be undone")


@action("take", draws=False, wait=_line, ready=_ready, undo=_undo, ends=True)
def take(world: Any, agent: Any, granted: Any, how: int) -> Any:
    """Take what was waited for, or raise.

    Args:
        how: which.
    """
    if how >= 4:
        raise Refused(f"refused {how}", skip=how == 8)
    return granted


ACTIONS = [
    *(Action("take", {"how": how}) for how in range(9)),
    Action("take", {"how": None}), Action("take", {"how": 2}, "why"),
    *(Action("try", {"how": how}) for how in (*range(8), 90, 91)),
    Action("try", {"how": 1}, "a reason"), Action("try", {"how": True}), Action("try", {"how": "1"}),
    Action("try", {"how": 2, "text": "y" * 70_000}), Action("try", {"how": 1, "text": "\udc80"}), Action("try"),
    Action("try", {"how": 1, "other": 2}), Action("forbidden"), Action("nothing"), Action("noop"),
    Action("publish", {"topic": "news", "data": {"n": 1}}), Action("sleep", {"condition": {"for": 1}}),
    Action("transfer", {"to": "b", "amount": 1}), Action("transfer", {"to": "b", "amount": 99}), None,
]  # fmt: skip


class Busy(sim.Agent):
    """Does all of `ACTIONS` in turn, and some of them as several of one iteration, or after a wait."""

    at = 0

    def pick(self) -> Any:
        """Return the next action; each seventh time what is none."""
        self.at += 1
        if self.at % 31 == 0:
            raise KeyError("lost")
        return "no action" if self.at % 37 == 0 else ACTIONS[self.at % len(ACTIONS)]

    async def decide_action(self) -> Any:
        """Return an action, at times after a wait."""
        self.has_more = self.at % 3 == 0
        self.state["at"] = {1, 2} if self.at == 50 else self.at
        if self.at % 11 == 0:
            await sleep_ns(10**9)
        return self.pick()

    def next_action(self) -> Any:
        """Return a second action."""
        self.has_more = False
        return self.pick()

    def after_action(self, result: Any) -> None:
        """Fail at times."""
        if self.at % 41 == 0:
            raise RuntimeError(f"after {result.success}")

    def on_error(self, error: str) -> None:
        """Write what was recorded."""
        sys.stdout.write(f"{self.world.now} {self.agent_id} {error}\n")


class Direct(Busy):
    """Decides without waiting, and says itself whether it is alive."""

    def decide_now(self) -> Any:
        """Return an action."""
        self.has_more = self.at % 4 == 0
        return self.pick()

    async def decide_action(self) -> Any:
        """Return what `decide_now` returns."""
        return self.decide_now()

    @property  # type: ignore[misc]
    def alive(self) -> bool:
        """Whether it has done little."""
        return self.at < 300


class Escape(BaseException):
    """What nothing but the kernel catches."""


class Escaping(Direct):
    """Raises what no loop catches, and ends so."""

    def pick(self) -> Any:
        """Do nothing, and raise at last."""
        self.at += 1
        if self.at == 5:
            raise GeneratorExit if self.agent_id == "d" else Escape("lost")
        return None


SCENARIO = """
name: turns
until: 400s
execution: {use_autonomous_loops: AUTONOMOUS, tick: {period: 1s},
             agent_loop: {min_loop_delay: 1s, max_consecutive_errors: 3, cool_down: 5s, max_restarts: 999}}
limits: {talk: {agent: 3 per 10s, policy: skip}, acts: {global: 40 per 20s, policy: block},
         tries: {agent: 12 per 20s, policy: skip}, gifts: {group: 5 per 10s, policy: skip}}
budgets: {purse: {amount: 9, reset: 100s}}
costs: {publish: {talk: 1, acts: 1}, try: {tries: 1}, transfer: {gifts: 2, tries: 1}, noop: {purse: 1},
        take: {tries: 1}}
metrics: {every: 10s, values: {rich: "balance('b')"}}
agents:
  - {name: a, kind: busy, balance: 20}
  - {name: b, kind: direct, balance: 20}
  - {name: d, kind: escaping}
  - {name: e, kind: escaping}
  - {name: c, balance: 3, rules: [{when: balance >= 1, do: [{transfer: {to: a, amount: 1}}, noop]},
                                   {do: {try: {how: 1}}}]}
"""

KINDS: Any = {"busy": Busy, "direct": Direct, "escaping": Escaping}

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "turns.yaml"
    for autonomous, level in product(("true", "false"), ("all", "changes", "samples")):
        file.write_text(SCENARIO.replace("AUTONOMOUS", autonomous), encoding="utf-8")
        result = sim.run(file, seed=1, recording=level, kinds=KINDS)  # type: ignore[arg-type]  # one of its words
        sys.stdout.write(f"{autonomous} {level}: {result.hash} {result.iterations}\n{result}\n")
