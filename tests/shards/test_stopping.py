"""A run on shards is stopped at the end of a window: it is on record, and one process repeats it."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sim
from sim.actors import Control
from sim.record import open_run
from sim.record.inbox import InboxAnswer, ask, await_answer
from sim.runner import RunController
from sim.runner.shards import watching
from sim.runner.shards.processes import ShardProcess
from sim.runner.shards.protocol import Order, Setup
from sim.runner.shards.sharded import on_shards
from tests.llm.endpoint import Endpoint
from tests.shards.test_shard_calls import ISLES, _access, _answer
from tests.shards.test_shards import Inside
from tests.shards.worlds import with_models, with_shares, with_travel, world


@pytest.fixture(autouse=True)
def _shown_after_each_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "CALLED_EVERY", 0.0)


def _stop_at(look: int) -> Callable[[RunController], None]:
    """Return what asks a run to stop when its progress is shown for the nth time: after the nth window."""
    left = [look]

    def show(runner: RunController) -> None:
        left[0] -= 1
        if not left[0]:
            Control(runner.simulation.manager).stop_all()

    return show


def _stopped(scenario: dict[str, Any], shards: int, look: int, folder: Path, **options: Any) -> sim.RunResult:
    """Return a run that was stopped, after checking that one process repeats it from its record."""
    run: sim.RunResult = on_shards(shards, nullcontext(Inside))(
        scenario, out=folder, progress=_stop_at(look), **options
    )
    assert run.run is not None
    with open_run(run.run) as kept:
        kept.verify()
        asked = kept.query("SELECT count(*) FROM inputs") == [(1,)]
    assert asked or run.stopped_by != "all agents have stopped"  # its stop condition held before
    again = sim.replay(run.run)
    assert (again.same, again.complete) == (True, True)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("make", [world, with_shares, with_travel, with_models])
@pytest.mark.parametrize(("number", "look"), [(2, 1), (6, 4), (9, 10)])
def test_a_stopped_run_is_repeated_by_one_process(
    make: Callable[[int], dict[str, Any]], number: int, look: int, tmp_path: Path
) -> None:
    """All agents stop after their present iterations, those on their way as they arrive, and the run ends with the last
    of them; one process does the same, and so does each number of shards."""
    scenario = make(number)
    found = set()
    for shards in range(1, len(scenario["islands"]["of"]) + 1):
        run = _stopped(scenario, shards, look, tmp_path)
        assert run.states["stopped"] == run.agents
        found.add((run.hash, run.events, run.sim_seconds, run.stopped_by, run.messages, run.iterations))
    assert len(found) == 1


@pytest.mark.proof
@pytest.mark.timeout(7200)
def test_many_stopped_runs_are_repeated_by_one_process(tmp_path: Path) -> None:
    """The same holds for further worlds and moments, on each number of shards."""
    for number in range(20, 60):
        make = (world, with_shares, with_travel, with_models)[number % 4]
        shards = range(1, len(make(number)["islands"]["of"]) + 1)
        assert len({_stopped(make(number), one, 1 + number % 13, tmp_path).hash for one in shards}) == 1


@pytest.mark.slow
def test_agents_that_wait_for_an_endpoint_stop_with_its_answer(tmp_path: Path) -> None:
    """The iteration in which an agent asks an endpoint ends before it stops; each number of shards has the same run."""
    with Endpoint(_answer) as endpoint:
        runs = [_stopped(ISLES, shards, 4, tmp_path, access=_access(endpoint)) for shards in (1, 2, 3)]
    assert len({run.hash for run in runs}) == 1
    with open_run(str(runs[0].run)) as kept:
        ((asked,),) = kept.query("SELECT time_ns FROM inputs")
    assert asked < runs[0].sim_seconds * 10**9 < 40 * 10**9
    assert runs[0].models["total"]["failed"] == 0


class Killed(ShardProcess):
    """A shard whose first process is killed as it is asked to stop."""

    LIVES: ClassVar[list[None]] = []

    def __init__(self, number: int, setup: Setup) -> None:
        super().__init__(number, setup)

    def ask(self, order: Order) -> None:
        """Kill the process when the order to stop has been sent."""
        super().ask(order)
        if order.what == "stop" and self.LIVES:
            self.LIVES.pop()
            self._process.kill()


@pytest.mark.slow
def test_a_shard_that_is_killed_as_it_stops_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new process stops its agents at the same place."""
    monkeypatch.setattr(Killed, "LIVES", [None])
    whole = _stopped(with_travel(6), 2, 5, tmp_path)
    run = on_shards(2, nullcontext(Killed))(with_travel(6), out=None, progress=_stop_at(5))
    assert (run.hash, run.services["shards"]["restarts"]) == (whole.hash, 1)


CHILD = """
import json, os, signal, sys
from contextlib import nullcontext
import sim.base.crashpoints as crashpoints
from sim.runner.shards import watching
from sim.runner.shards.sharded import on_shards
from tests.shards.test_shards import Inside
from tests.shards.test_stopping import _stop_at

watching.CALLED_EVERY = 0.0
crashpoints.hook = lambda point: point == sys.argv[2] and os.kill(os.getpid(), signal.SIGKILL)
on_shards(2, nullcontext(Inside))(json.loads(sys.stdin.read()), out=sys.argv[1], progress=_stop_at(5))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("point", "stops"), [("arrivals.applied", (0, 1)), ("arrivals.durable", (1,))])
def test_a_coordinator_that_is_killed_as_it_stops_a_run_is_resumed(
    tmp_path: Path, point: str, stops: tuple[int, ...]
) -> None:
    """If the stop is on disk, the resumed run stops where the other would have stopped; otherwise it was not asked."""
    command = [sys.executable, "-c", CHILD, str(tmp_path / "killed"), point]
    ended = subprocess.run(
        command, input=json.dumps(world(6)).encode(), cwd=Path(__file__).parents[2], check=False, stdout=sys.stderr
    )
    assert ended.returncode == -signal.SIGKILL
    (folder,) = (tmp_path / "killed").iterdir()
    resumed = sim.resume(folder)
    with open_run(folder) as kept:
        ((on_record,),) = kept.query("SELECT count(*) FROM inputs")
    assert on_record in stops
    whole = _stopped(world(6), 2, 5, tmp_path) if on_record else sim.run(world(6), out=None)
    assert resumed.hash == whole.hash


def test_who_asks_in_the_inbox_is_answered(tmp_path: Path) -> None:
    """`sim stop` is answered with the moment of the stop, at which the record has the request."""
    answers: list[InboxAnswer | None] = []
    keys: list[str] = []

    def wish(runner: RunController) -> None:
        if not keys:
            (folder,) = tmp_path.iterdir()
            keys.append(ask(folder, "stop_all"))
        elif keys and not answers and runner.simulation.manager.answers:
            (folder,) = tmp_path.iterdir()
            answers.append(await_answer(folder, keys[0], 20))

    result = on_shards(2, nullcontext(Slow))(world(3), out=tmp_path, progress=wish)
    (answer,) = answers
    assert answer is not None
    assert answer.outcome == "done"
    with open_run(str(result.run)) as kept:
        ((time_ns, kind, row),) = kept.query("SELECT time_ns, kind, data ->> '$.row' FROM inputs")
    assert (time_ns, kind, row) == (answer.time_ns, "person", keys[0])
    assert result.stopped_by == "all agents have stopped"
    assert sim.replay(str(result.run)).same


def test_a_request_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    """Who asks for a stop when no window is left is told that the run has ended."""
    keys: list[str] = []

    def wish(runner: RunController) -> None:
        if runner.now == 9 and not keys:
            (folder,) = tmp_path.iterdir()
            keys.append(ask(folder, "stop_all"))

    scenario = {"name": "few", "until": "9s", "islands": {"latency": "5s", "of": {"north": ["a"], "south": ["b"]}}}
    agents = [{"name": name, "rules": [{"do": {"sleep": {"for": "1s"}}}]} for name in "ab"]
    result = on_shards(2, nullcontext(Inside))({**scenario, "agents": agents}, out=tmp_path, progress=wish)
    (folder,) = tmp_path.iterdir()
    answer = await_answer(folder, keys[0], 20)
    assert answer is not None
    assert (answer.outcome, answer.reason) == ("refused", "the run has ended")
    assert result.hash == sim.run({**scenario, "agents": agents}, out=None).hash


class Slow(Inside):
    """A shard that takes time for each order, so that the inbox is looked into."""

    def ask(self, order: Order) -> None:
        threading.Event().wait(0.02)
        super().ask(order)
