"""Same scenario and seed, same run: on every host, in every process, whatever the order of hashes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel import Effect, perform
from sim.kernel.codec import encode
from sim.runner import RunResult, run
from sim.world import NOOP, Action
from tests.actors.helpers import Lab, Script

ROOT = Path(__file__).parents[2]
FILES = {"contagion": "2d", "debate": "5m", "ecology": "40m", "queue": "1h", "schelling": "3s"}
LONGER = {
    "cascade": "30s", "civil_violence": "4s", "contagion": "8d", "culture": "30s", "debate": "20m", "ecology": "4h",
    "asch": "1m", "axelrod": "4s", "jury": "1h", "hawk_dove": "4s", "herd": "4h", "opinions": "3s",
    "propagation": "12h",
    "queue": "4h", "schelling": "20s", "sugarscape": "10s", "wolf_sheep": "15s",
}  # fmt: skip


def hash_of(name: str, until: str | None = None, **options: Any) -> str:
    """Run one of the shipped scenarios for a while and return the hash of the run."""
    return run(ROOT / "scenarios" / f"{name}.yaml", until=until or FILES[name], **options).hash


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize(
    ("name", "until"), [*FILES.items(), *(pytest.param(*item, marks=pytest.mark.proof) for item in LONGER.items())]
)
def test_hosts_and_repeats_agree(name: str, until: str, mode: Any) -> None:
    """asyncio, trio and a second run in the same process give one hash; another seed gives another."""
    first = hash_of(name, until, mode=mode)
    assert hash_of(name, until, mode=mode) == first
    assert hash_of(name, until, mode=mode, backend="trio") == first
    assert hash_of(name, until, mode=mode, seed=99) != first


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("name", FILES)
def test_shuffled_ties_are_reproducible(name: str, mode: Any) -> None:
    """`ties: shuffled` is as reproducible as `fixed`."""
    options: Any = {"mode": mode, "overrides": ["execution.ties=shuffled", "execution.tick.order=shuffled"]}
    assert hash_of(name, **options) == hash_of(name, backend="trio", **options)


@pytest.mark.slow
def test_processes_agree_whatever_the_order_of_hashes() -> None:
    """Other processes with other hash seeds get the same hashes."""
    code = (
        "import sys; from sim.runner import run\n"
        f"print(*[run(f'{ROOT}/scenarios/{{n}}.yaml', until=u).hash for n, u in {FILES!r}.items()])"
    )
    here = " ".join(hash_of(name) for name in FILES)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE
        )
        for seed in ("1", "4242")
    ]
    assert [process.communicate()[0].decode().strip() for process in processes] == [here, here]


# -- small generated worlds


async def _echo(request: Any, key: str) -> Any:
    return request


class Generated(Script):
    """An agent that does what its own random stream says."""

    async def decide_action(self) -> Action | None:
        draw = self.rng.random()
        others = [name for name in self.world.agents if name.startswith("a") and name != self.agent_id]
        self.state["mail"] = self.state.get("mail", 0) + (self.mailbox.take() is not None)
        if draw < 0.1:
            raise ValueError(f"planted {draw}")
        if draw < 0.3 and others:
            return Action("send", {"to": self.rng.choice(others), "data": draw})
        if draw < 0.4:
            await perform(Effect("test", {"draw": draw}, _echo, latency_ns=round(draw * 10**9)))
        if draw < 0.5:
            return Action("publish", {"topic": f"news.{self.rng.randint(0, 2)}", "data": draw})
        if draw < 0.7:
            wait = {"event": f"news.{self.rng.randint(0, 2)}", "timeout": self.rng.randint(0, 4)}
            return Action("sleep", {"condition": {"any": [wait, {"message": True}]}})
        return (
            Action("write", {"artifact": f"x{self.rng.randint(0, 3)}", "content": draw, "writers": "all"})
            if draw < 0.9
            else NOOP
        )


def generated(
    count: int, seed: int, mode: str, backend: str = "asyncio", *, ties: bool = False, extra: int = 0
) -> tuple[str, dict[str, list[bytes]]]:
    """Run a generated world; return its hash and the rows of each agent."""
    lab = Lab(seed, shuffled=ties)
    lab.limit("calls", 3 * count, 5, scope="total")
    lab.world.costs.set_price("write", "calls", "rate", 1)
    for index in range(count):
        lab.add(f"a{index}", None, Generated, min_loop_delay=0.5, cool_down=1, started=mode == "autonomous")
    for index in range(extra):
        lab.add(f"extra{index}", lambda agent: agent.loop.pause(), min_loop_delay=0.5, started=mode == "autonomous")
    if mode != "autonomous":
        lab.tick(0.5, mode, ties)
    lab.main(lab_sleep(lab, 15), backend)
    rows: dict[str, list[bytes]] = {}
    for row in lab.rows():
        rows.setdefault(row[5], []).append(encode(row))
    return lab.recorder.finish("finished", lab.world.digest(), lab.kernel.now, {}), rows


async def lab_sleep(lab: Lab, seconds: float) -> None:
    """Wait inside a scenario."""
    await lab.pause_for(seconds)


MODES = ["autonomous", "sequential", "parallel"]


@pytest.mark.slow
@given(st.integers(1, 6), st.integers(0, 99), st.sampled_from(MODES), st.booleans())
@settings(max_examples=20)
def test_generated_worlds_are_reproducible(count: int, seed: int, mode: str, ties: bool) -> None:
    """Sends, sleeps, effects, errors and limits: the same hash on both hosts, another for another seed."""
    first, _ = generated(count, seed, mode, ties=ties)
    assert generated(count, seed, mode, "trio", ties=ties)[0] == first
    assert generated(count, seed + 1, mode, ties=ties)[0] != first


@pytest.mark.parametrize("mode", ["autonomous"])
def test_an_unused_agent_changes_nobody(mode: str) -> None:
    """An agent that is added at the end and does nothing leaves every event of the others as it was."""
    _, before = generated(6, 3, mode)
    _, after = generated(6, 3, mode, extra=3)
    names = [f"a{index}" for index in range(6)]
    assert [after[name] for name in names] == [before[name] for name in names]


def test_a_result_says_the_same_as_its_hash() -> None:
    """Two equal runs have equal results, up to the real time they took."""
    results: list[RunResult] = [run(ROOT / "scenarios" / "contagion.yaml", until="5d") for _ in range(2)]
    first, second = ({**result.to_json(), "wall_seconds": 0} for result in results)
    assert first == second
