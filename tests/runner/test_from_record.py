"""Runs that are made again: replayed, gone on with after a kill, and branched from."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest

from sim.actors import Agent
from sim.base import crashpoints
from sim.base.errors import DivergenceError, RunError, ScenarioError, UsageError
from sim.host.host import Host
from sim.kernel import NS, Effect, perform
from sim.record import open_run
from sim.runner import RunController, RunResult, branch, replay, resume, run
from sim.runner.options import Backend
from sim.world import NOOP, Action

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])

WORLD = """\
name: again
seed: 4
until: 12s
execution: {agent_loop: {min_loop_delay: 1s}}
limits:
  calls: {agent: 3 per 10s, policy: block}
budgets:
  energy: {amount: 100}
costs:
  publish: {energy: 1}
events:
  - {at: 3s, every: 3s, topic: weather.rain}
agents:
  - {name: asker, count: 2, kind: asker, start: "=index / 4"}
  - name: walker
    state: {n: 0}
    rules:
      - {when: chance(0.5), do: {publish: {topic: walk.on, data: "=n"}}, set: {n: "=n + 1"}}
      - {do: noop, set: {n: "=n + 1"}}
metrics: {every: 2s, values: {n: "total('walker', 'n')"}}
"""


class Asker(Agent):
    """Asks a service that answers each call in another way, and counts."""

    calls: ClassVar[list[str]] = []
    options: ClassVar[dict[str, Any]] = {"latency_ns": NS * 7 // 10, "safety": "pure"}

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        outcome = await perform(Effect("ask", {"turn": turn, "luck": self.rng.random()}, self._serve, **self.options))
        self.state.setdefault("answers", []).append(outcome.value)
        return Action("publish", {"topic": "asker.heard", "data": [turn, outcome.value]})

    async def _serve(self, request: Any, key: str) -> Any:
        await anyio.lowlevel.checkpoint()
        self.calls.append(f"{self.agent_id} {request['turn']}")
        return len(self.calls)


class Pure(Asker):
    """Its service answers alike each time, as one that is pure does."""

    async def _serve(self, request: Any, key: str) -> Any:
        await super()._serve(request, key)
        return {"twice": request["turn"] * 2, "luck": request["luck"]}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget the calls of other tests, and take the crash points back."""
    Asker.calls.clear()
    yield
    crashpoints.hook = None


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., RunResult]:
    """Record a run of a scenario."""

    def record(kind: type[Agent] = Asker, text: str = WORLD, **options: Any) -> RunResult:
        file = tmp_path / "again.yaml"
        file.write_text(text, encoding="utf-8")
        return run(file, out=tmp_path / "runs", kinds={"asker": kind}, **options)

    return record


@pytest.fixture
def snapshots(tmp_path: Path) -> Callable[..., list[Path]]:
    """Record a run, and copy its folder at each reach of a crash point: what a kill there would have left."""

    def snapshots(record: Callable[[], object], point: str = "writer.committed") -> list[Path]:
        copies: list[Path] = []

        def copy(reached: str) -> None:
            if reached == point:
                (folder,) = (tmp_path / "runs").iterdir()
                copy = tmp_path / "killed" / str(len(copies)) / folder.name
                copy.mkdir(parents=True)
                for name in ("run.db", "run.db-wal", "run.head", "run.lock", "run.unsafe", "scenario.yaml"):
                    if (folder / name).exists():
                        shutil.copy(folder / name, copy / name)
                copies.append(copy)

        crashpoints.hook = copy
        record()
        crashpoints.hook = None
        return [copy for copy in copies if status(copy) == "killed"]

    return snapshots


def path_of(made: RunResult) -> Path:
    """Return the folder of a run."""
    assert made.run is not None
    return Path(made.run)


def status(folder: Path) -> str:
    """Return how a run stands."""
    with open_run(folder) as stored:
        return stored.info.status


def same(folder: Any, kind: type[Agent] = Asker, backend: Backend = "asyncio", **options: Any) -> None:
    """Check that a run replays to itself, without a call."""
    before = [*Asker.calls]
    found = replay(folder, kinds={"asker": kind}, backend=backend, **options)
    assert found.same, found.difference
    assert Asker.calls == before


def events(folder: Any) -> list[Any]:
    """Return the events of a run, without what only counts."""
    with open_run(Path(folder)) as stored:
        return [(row.time_ns, row.actor, row.topic, row.data) for row in stored.events()]


def before(rows: list[Any], seconds: float) -> list[Any]:
    """Return the events before a time."""
    return [row for row in rows if row[0] < seconds * NS]


# -- replay


@both_hosts
@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_finished_run_replays(record, backend, mode):
    """A run is made again on either host, in either mode, without a call outside, to the hash on record."""
    made = record(mode=mode)
    found = replay(path_of(made), kinds={"asker": Asker}, backend=backend)
    assert (found.same, found.complete, found.difference) == (True, True, None)
    assert (found.hash, found.recorded_hash, found.events) == (made.hash, made.hash, made.events)
    assert (found.backend, found.sim_seconds, found.code_changed) == (backend, 12, ())
    assert len(Asker.calls) == len(set(Asker.calls))


@both_hosts
def test_measured_effects_replay(record, backend):
    """Measured outcomes arrive again where they arrived, whatever the host is doing now."""

    class Measured(Asker):
        options: ClassVar[dict[str, Any]] = {"safety": "idempotent"}

        async def _serve(self, request: Any, key: str) -> Any:
            await anyio.sleep(0.001 * (request["turn"] % 3))
            return await super()._serve(request, key)

    made = record(Measured)
    same(made.run, Measured, backend)


@pytest.mark.slow
@both_hosts
def test_a_run_without_its_end_replays_as_far_as_it_goes(record, snapshots, backend):
    """A record that ends early is the same up to its end, wherever that is, and it is said that it has no end."""
    copies = snapshots(record)
    assert len(copies) > 10
    calls = [*Asker.calls]
    for copy in copies:
        found = replay(copy, kinds={"asker": Asker}, backend=backend)
        assert found.same, found.difference
        assert not found.complete
        with open_run(copy) as stored:
            assert found.events >= stored.query("SELECT coalesce(sum(count), 0) FROM chunks")[0][0]
    assert Asker.calls == calls


class Breaks(Asker):
    """Ends the run the hard way, once."""

    sound: ClassVar[bool] = False

    async def decide_action(self) -> Action | None:
        if self.state.get("turn") == 3 and not self.sound:
            raise MemoryError("planted")
        return await super().decide_action()


class Interrupts(Pure):
    """Has the run suspended, once."""

    suspend: ClassVar[bool] = True

    async def decide_action(self) -> Action | None:
        if self.state.get("turn") == 3 and self.suspend:
            assert isinstance(self.world._intake, Host)
            self.world._intake.suspend()
        return await super().decide_action()


@both_hosts
def test_a_failed_run_replays_and_is_gone_on_with(record, tmp_path, monkeypatch, backend):
    """What a failed run recorded is made again; with the fault mended it goes on, to what it would have come to."""
    with pytest.raises(MemoryError):
        record(Breaks)
    (folder,) = (tmp_path / "runs").iterdir()
    monkeypatch.setattr(Breaks, "sound", True)
    found = replay(folder, kinds={"asker": Breaks}, backend=backend)
    assert (found.same, found.complete) == (True, False), found.difference
    result = resume(folder, kinds={"asker": Breaks}, backend=backend)
    assert (result.status, result.sim_seconds) == ("finished", 12)
    same(folder, Breaks, backend)
    assert len(Asker.calls) == len(set(Asker.calls))


@pytest.mark.slow
@both_hosts
def test_an_interrupted_run_is_gone_on_with(record, monkeypatch, backend):
    """A run that was suspended goes on where it was, with no call made twice, to the hash of an uninterrupted one; who
    observes runs is told of it once.
    """
    monkeypatch.setattr(Interrupts, "suspend", False)
    whole = record(Interrupts)
    monkeypatch.setattr(Interrupts, "suspend", True)
    Asker.calls.clear()
    part = record(Interrupts)
    assert part.status == "interrupted"
    monkeypatch.setattr(Interrupts, "suspend", False)
    found = replay(part.run, kinds={"asker": Interrupts}, backend=backend)
    assert (found.same, found.complete) == (True, False), found.difference
    told: list[RunController] = []
    result = resume(part.run, kinds={"asker": Interrupts}, backend=backend, begun=told.append)
    assert len(told) == 1
    assert (result.status, result.hash, result.events) == ("finished", whole.hash, whole.events)
    assert len(Asker.calls) == len(set(Asker.calls))


@pytest.mark.slow
@both_hosts
def test_a_killed_run_is_gone_on_with(record, snapshots, backend):
    """After a kill at any commit a run with pure effects comes to the hash of the run that was not killed."""
    made: list[RunResult] = []
    copies = snapshots(lambda: made.append(record(Pure)))
    for copy in copies[::3]:
        result = resume(copy, kinds={"asker": Pure}, backend=backend)
        assert result.hash == made[0].hash
        same(copy, Pure, backend)


def test_a_finished_run_is_not_gone_on_with(record):
    """There is nothing to go on with in a run that has finished, and it stays as it was."""
    made = record()
    with pytest.raises(UsageError, match="has finished: there is nothing to continue"):
        resume(made.run, kinds={"asker": Asker})
    same(made.run)


# -- what differs


class Later(Asker):
    """Does something else from its fourth turn on."""

    async def decide_action(self) -> Action | None:
        if self.state.get("turn", 0) >= 3:
            self.rng.random()
        return await super().decide_action()


class Quieter(Asker):
    """Says something else from its fourth turn on."""

    async def decide_action(self) -> Action | None:
        action = await super().decide_action()
        return NOOP if self.state["turn"] > 3 else action


@both_hosts
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            Later,
            (
                r"effect 4 of asker-1 \(ask\) at 5\.1s has a different request than on record: it differs in luck,"
                r" which is 0\.\d+ on record and 0\.\d+ now"
            ),
        ),
        (
            Quieter,
            (
                r"event \d+ is asker\.heard of asker-1 at 5\.8s on record and action\.noop of asker-1 at 5\.8s now;"
                r" they differ in topic"
            ),
        ),
    ],
)
def test_a_difference_is_named(record, backend, kind, sentence):
    """A replay by code that does something else names the first effect or event, the agent and the time."""
    made = record()
    found = replay(path_of(made), kinds={"asker": kind}, backend=backend)
    assert not found.same
    assert found.difference is not None
    assert re.fullmatch(sentence, found.difference), found.difference
    assert (found.hash, found.recorded_hash) == (None, made.hash)
    assert found.events < made.events


@pytest.mark.slow
def test_what_is_gone_on_with_is_checked(record, snapshots):
    """Resuming with code that does something else is a divergence, and the record stays as it was."""
    copy = snapshots(record)[-1]
    with pytest.raises(DivergenceError, match="effect 4 of asker-1"):
        resume(copy, kinds={"asker": Later})
    same(copy)
    resume(copy, kinds={"asker": Asker})


# -- branches


@pytest.mark.slow
@both_hosts
@pytest.mark.parametrize("at", [0, 0.25, "1s", 2.5, 3, "7s", 11.9, 12 - 1e-9])
def test_a_branch_that_changes_nothing(record, at, backend):
    """Left at any time and not changed, a run with pure effects comes to its hash; only what came later is called."""
    made = record(Pure)
    first = len(Asker.calls)
    found = branch(path_of(made), at=at, kinds={"asker": Pure}, backend=backend)
    assert (found.hash, found.events, found.seed) == (made.hash, made.events, made.seed)
    assert found.run != made.run
    again = Asker.calls[first:]
    assert len(again) == (0 if at == 12 - 1e-9 else len(again))
    if at == 0:
        assert len(again) == first
    same(found.run, Pure, backend)
    same(made.run, Pure, backend)


@pytest.mark.slow
def test_nothing_that_was_paid_for_is_called_again(record):
    """Effects begun before the branch are answered from the record, also those that end after it."""
    made = record()
    calls = [*Asker.calls]
    with open_run(path_of(made)) as stored:
        rows = stored.query("SELECT actor, ordinal, time_ns, ended_ns FROM effects ORDER BY id")
    at = 5.3
    open_then = [row for row in rows if row[2] < at * NS < row[3]]
    assert open_then
    Asker.calls.clear()
    Asker.calls.extend(["?"] * 1000)  # so that whatever is called again has another answer
    found = branch(path_of(made), at=at, kinds={"asker": Asker})
    again = Asker.calls[1000:]
    begun = {f"{actor} {ordinal}" for actor, ordinal, time_ns, _ in rows if time_ns < at * NS}
    assert sorted(again) == sorted(set(calls) - begun)
    with open_run(path_of(found)) as other, open_run(path_of(made)) as stored:
        for actor, ordinal, _, _ in open_then:
            sql = "SELECT outcome, result, ending, ended_ns FROM effects WHERE actor = ? AND ordinal = ?"
            assert other.query(sql, (actor, ordinal)) == stored.query(sql, (actor, ordinal))
    assert before(events(found.run), at) == before(events(made.run), at)
    assert events(found.run) != events(made.run)
    same(found.run)


@both_hosts
def test_a_measured_outcome_that_comes_after_the_branch_is_kept(record, backend):
    """A measured effect that is under way when a branch leaves ends in it as it did, and is not done again."""

    class Measured(Asker):
        options: ClassVar[dict[str, Any]] = {}

        async def _serve(self, request: Any, key: str) -> Any:
            await anyio.sleep(0.01)
            return await super()._serve(request, key)

    made = record(Measured, WORLD.replace("until: 12s", "until: 4s"))
    with open_run(path_of(made)) as stored:
        rows = stored.query("SELECT actor, ordinal, time_ns, ended_ns, result FROM effects ORDER BY id")
    actor, ordinal, begun, ended, value = rows[4]
    Asker.calls.extend(["?"] * 1000)
    found = branch(path_of(made), at=(begun + (ended - begun) // 2) / NS, kinds={"asker": Measured}, backend=backend)
    assert f"{actor} {ordinal}" not in Asker.calls[1000:]
    with open_run(path_of(found)) as other:
        sql = "SELECT ended_ns, result FROM effects WHERE actor = ? AND ordinal = ?"
        assert other.query(sql, (actor, ordinal)) == [(ended, value)]
    same(found.run, Measured, backend)


class Unsafe(Asker):
    """What it asks for must not be done twice, and never comes: it is too late, or cut off by the end of the run."""

    options: ClassVar[dict[str, Any]] = {"latency_ns": 6 * NS, "safety": "unsafe"}

    async def decide_action(self) -> Action | None:
        await perform(Effect("slow", None, self._serve, latency_ns=5 * NS, deadline_ns=4 * NS))
        outcome = await perform(Effect("once", {"turn": 1}, self._serve, latency_ns=100 * NS, safety="unsafe"))
        self.state.setdefault("outcomes", []).append(outcome.kind)
        return NOOP

    async def _serve(self, request: Any, key: str) -> Any:
        self.calls.append(self.agent_id)
        await anyio.sleep(0 if request is None else 1000)


def test_what_did_not_come_in_time_does_not_come_in_a_branch(record):
    """An effect that timed out on record times out in a branch that leaves before, without being done again."""
    made = record(Unsafe)
    Asker.calls.clear()
    found = branch(path_of(made), at=3, until="4.1s", kinds={"asker": Unsafe})
    assert not found.doubts
    assert Asker.calls.count("asker-2") == 0
    with open_run(path_of(found)) as stored:
        assert stored.query("SELECT ending, ended_ns FROM effects WHERE kind = 'slow' AND actor = 'asker-1'") == [
            ("timeout", 4 * NS)
        ]
    same(found.run, Unsafe)


@pytest.mark.slow
@pytest.mark.parametrize(("decision", "outcomes"), [("failed", ["error"]), ("done:5", ["ok"]), ("retry", None)])
def test_what_nobody_knows_the_outcome_of_is_asked_for(record, decision, outcomes):
    """An unsafe effect that the end of the run cut off is in doubt in a branch: a person decides what is done."""
    made = record(Unsafe)
    Asker.calls.clear()
    # An effect that is tried again takes real time, and so does the branch from there on.
    options: dict[str, Any] = {"at": 6, "until": "6.5s", "kinds": {"asker": Unsafe}}
    waits = branch(path_of(made), **options)
    assert (waits.status, [doubt.agent for doubt in waits.doubts]) == ("interrupted", ["asker-1", "asker-2"])
    assert Asker.calls == []
    ids = [doubt.id for doubt in waits.doubts]
    found = branch(path_of(made), effects=dict.fromkeys(ids, decision), **options)
    assert (found.status, found.doubts) == ("finished", ())
    with open_run(path_of(found)) as stored:
        assert stored.info.digest is not None
        agents = stored.info.digest["agents"]
    assert [agents[name]["state"].get("outcomes") for name in ("asker-1", "asker-2")] == [outcomes, outcomes]
    same(found.run, Unsafe)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "shows"),
    [
        ("costs.publish.energy=60", lambda rows: any(str(row[3]).count("resources:energy") for row in rows)),
        ("costs.publish.calls=1", lambda rows: any(str(row[3]).count("resources:calls") for row in rows)),
        ("events=[{at: 7s, topic: weather.sun}]", lambda rows: any(row[2] == "weather.sun" for row in rows)),
        ("stop={when: now >= 8}", lambda rows: rows[-1][0] == 8 * NS),
        (
            "agents.walker.rules=[{do: {publish: {topic: walk.home}}}]",
            lambda rows: any(r[2] == "walk.home" for r in rows),
        ),
    ],
)
def test_live_parameters_change_from_the_branch_on(record, change, shows):
    """Costs, limits, events, the stop condition and rules of a branch are others from its time on, and not before."""
    made = record(Pure)
    assert not shows(events(made.run))
    found = branch(path_of(made), at=6, overrides=[change], kinds={"asker": Pure})
    rows = events(found.run)
    assert before(rows, 6) == before(events(made.run), 6)
    assert not shows(before(rows, 6))
    assert shows(rows)
    assert found.hash != made.hash
    same(found.run, Pure)
    with open_run(path_of(found)) as stored:
        assert stored.info.origin == {"run": path_of(made).name, "at_ns": 6 * NS, "set": [change], "seed": None}
        assert stored.info.options["set"] == []


@pytest.mark.parametrize("name", ["limits.calls.agent=1 per 10s", "agents.asker.limits.calls=1 per 10s"])
def test_limits_change_from_the_branch_on(record, name):
    """A tighter limit, for all or for one entry, holds those up who would have gone on; before, nothing differs."""
    text = WORLD.replace("publish: {energy: 1}", "publish: {energy: 1, calls: 1}").replace("3 per 10s", "30 per 10s")
    made = record(Pure, text)
    found = branch(path_of(made), at=6, overrides=[name], kinds={"asker": Pure})
    rows = events(found.run)
    assert before(rows, 6) == before(events(made.run), 6)
    assert any(str(row[3]).count("resources:calls") for row in rows if row[1].startswith("asker"))
    same(found.run, Pure)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "agents.walker.count=3", "agents.walker.balance=5", "execution.ties=shuffled", "accounts.bank=5", "seed=5",
        "budgets.energy.amount=5", "quotas.disk=3", "metrics.every=1s", "until=5s", "name=other",
    ],
)  # fmt: skip
def test_structural_parameters_cannot_change_later(record, tmp_path, change):
    """What shapes a run from its start is refused by name at a time above 0, and no run is made; at 0 it is allowed."""
    made = record(Pure)
    name = re.escape(change.partition("=")[0])
    with pytest.raises(UsageError, match=rf"^{name} shapes a run from its start, so it cannot change at 6s"):
        branch(path_of(made), at=6, overrides=[change], kinds={"asker": Pure})
    assert len([*(tmp_path / "runs").iterdir()]) == 1
    found = branch(path_of(made), at=0, overrides=[change], kinds={"asker": Pure})
    assert found.status == "finished"
    same(found.run, Pure)


@pytest.mark.parametrize(
    ("at", "options", "error", "sentence"),
    [
        (20, {}, UsageError, "the record of .* ends at 12s, before 20s"),
        (12, {}, UsageError, "the branch ends at 12s, before it begins"),
        (6, {"until": "5s"}, UsageError, "the branch ends at 5s, before it begins"),
        (6, {"overrides": ["costs.publish.nothing=1"]}, ScenarioError, "nothing"),
        (6, {"effects": {1: "retry"}}, UsageError, "effect 1 is not in doubt"),
        (-1, {}, UsageError, "between 0"),
    ],
)
def test_a_branch_that_is_wrong_makes_no_run(record, tmp_path, at, options, error, sentence):
    """What is wrong with a branch is said before there is a run of it."""
    made = record(Pure)
    with pytest.raises(error, match=sentence):
        branch(path_of(made), at=at, kinds={"asker": Pure}, **options)
    assert len([*(tmp_path / "runs").iterdir()]) == 1


@pytest.mark.slow
def test_a_seed_changes_draws_after_the_branch_only(record):
    """Another seed changes what is drawn from the branch on; branches with one seed are the same, with two not."""
    made = record(Pure)
    found = [branch(path_of(made), at=6, seed=seed, kinds={"asker": Pure}) for seed in (5, 5, 6)]
    rows = [events(result.run) for result in found]
    for some in rows:
        assert before(some, 6) == before(events(made.run), 6)
    assert found[0].hash == found[1].hash
    assert len({made.hash, found[0].hash, found[2].hash}) == 3
    for result in found:
        same(result.run, Pure)
    with open_run(path_of(found[0])) as stored:
        sql = "SELECT request FROM effects WHERE time_ns {} 6000000000"
        with open_run(path_of(made)) as origin:
            assert stored.query(sql.format("<")) == origin.query(sql.format("<"))
            assert set(stored.query(sql.format(">="))).isdisjoint(origin.query(sql.format(">=")))


@pytest.mark.slow
@both_hosts
def test_a_branch_of_a_branch(record, backend):
    """A branch is a run like any other: it is branched from, before and after it left, and each of them replays."""
    made = record(Pure)
    first = branch(
        path_of(made), at=5, overrides=["costs.publish.energy=9"], seed=8, kinds={"asker": Pure}, backend=backend
    )
    after = branch(path_of(first), at=9, overrides=["stop={when: now >= 10}"], kinds={"asker": Pure}, backend=backend)
    early = branch(path_of(first), at=3, kinds={"asker": Pure}, backend=backend)
    nothing = branch(path_of(first), at=8, kinds={"asker": Pure}, backend=backend)
    assert before(events(after.run), 9) == before(events(first.run), 9)
    assert after.sim_seconds == 10
    assert early.hash == made.hash  # it left before what changed
    assert nothing.hash == first.hash
    for result in (first, after, early, nothing):
        same(result.run, Pure, "trio" if backend == "asyncio" else "asyncio")


@pytest.mark.slow
def test_a_branch_may_last_longer(record):
    """With `until` a branch goes on where its origin ended; what came before the end is as it was."""
    made = record(Pure)
    longer = branch(path_of(made), at=11, until="15s", kinds={"asker": Pure})
    assert (longer.sim_seconds, longer.status) == (15, "finished")
    assert before(events(longer.run), 12) == before(events(made.run), 12)
    same(longer.run, Pure)
    assert longer.hash == record(Pure, until="15s").hash


@pytest.mark.slow
def test_a_branch_of_a_killed_run(record, snapshots):
    """A run that was killed is branched from as far as it is on record."""
    copies = snapshots(lambda: record(Pure))
    copy = copies[len(copies) // 2]
    with open_run(copy) as stored:
        end = stored.query("SELECT max(time_ns) FROM effects")[0][0]
    with pytest.raises(UsageError, match=r"the record of .* ends at"):
        branch(copy, at=11.5, kinds={"asker": Pure})
    found = branch(copy, at=end / 2 / NS, kinds={"asker": Pure})
    assert found.status == "finished"
    same(found.run, Pure)


# -- inputs


class Caller(Asker):
    """Its work outside calls the run."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.world.on_input("note", lambda data: self.state.setdefault("notes", []).append(data))

    options: ClassVar[dict[str, Any]] = {"safety": "pure"}
    what: ClassVar[list[tuple[str, Any]]] = [
        ("note", {"a": [1, 2]}), ("publish", {"topic": "host.says", "data": 3}), ("pause", {"agent": "walker"}),
        ("wake", {"agent": "walker"}), ("resume", {"agent": "walker"}), ("stop", {"agent": "walker"}),
        ("wake", {"agent": "nobody"}), ("note", None),
    ]  # fmt: skip

    async def _serve(self, request: Any, key: str) -> Any:
        turn = request["turn"]
        if self.agent_id == "asker-1":
            for kind, data in self.what[2 * turn - 2 : 2 * turn]:
                self.world.submit(kind, data)
        await anyio.sleep(0.002)
        return await super()._serve(request, key)


@both_hosts
@pytest.mark.parametrize("host", ["asyncio", "trio"])
def test_inputs_replay(record, backend, host):
    """What came from outside, of a run's own kinds too, comes again at its place, in its order, on either host."""
    made = record(Caller, backend=host)
    with open_run(path_of(made)) as stored:
        given = stored.query("SELECT kind, data FROM inputs ORDER BY id")
        assert stored.info.digest is not None
        notes = [agent["state"].get("notes") for agent in stored.info.digest["agents"].values()]
    assert [kind for kind, _ in given] == [kind for kind, _ in Caller.what]
    assert [{"a": [1, 2]}, None] in notes
    assert made.states["stopped"] == 1
    same(made.run, Caller, backend)


@pytest.mark.proof
@both_hosts
def test_inputs_of_a_killed_run_come_once(record, snapshots, backend):
    """A run that is gone on with brings in again what is on record, each once, and goes on with what is not."""
    copies = snapshots(lambda: record(Caller))
    for copy in copies[3::4]:
        with open_run(copy) as stored:
            recorded = stored.query("SELECT id, time_ns, delta, kind, data FROM inputs")
        result = resume(copy, kinds={"asker": Caller}, backend=backend)
        assert result.status == "finished"
        with open_run(copy) as stored:
            assert stored.query("SELECT id, time_ns, delta, kind, data FROM inputs")[: len(recorded)] == recorded
        same(copy, Caller, backend)


def test_an_input_that_is_not_known_any_more_is_named(record):
    """Code that no longer knows an input on record cannot make the run again, and says which it is."""
    made = record(Caller)

    class Forgetful(Caller):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            del self.world.kernel.inputs["note"]

    with pytest.raises(RunError, match="the input 'note' is on record, but this program has no handler"):
        replay(path_of(made), kinds={"asker": Forgetful})


# -- what has changed since


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")
def test_a_scenario_that_was_changed_is_refused(record, snapshots):
    """A changed scenario is another run: it is refused, unless one insists, and then checked against the record."""
    copy = snapshots(record)[-1]
    file = copy / "scenario.yaml"
    text = file.read_text()
    file.write_text(text + "# only a remark\n")
    for verb in (replay, resume, lambda *args, **options: branch(*args, at=1, **options)):
        with pytest.raises(RunError, match=r"scenario\.yaml was changed after the run"):
            verb(copy, kinds={"asker": Asker})
    same(copy, allow_change=True)
    file.write_text(text.replace("count: 2", "count: 3"))
    found = replay(copy, kinds={"asker": Asker}, allow_change=True)
    assert found.difference is not None
    assert "asker" in found.difference
    file.unlink()
    with pytest.raises(RunError, match="cannot be read"):
        replay(copy, kinds={"asker": Asker})


MODULE = """\
from sim.world import Action
from tests.runner.test_from_record import Asker


class Own(Asker):
    async def decide_action(self):
        return await super().decide_action()
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[tuple[Path, type[Agent]]]:
    """A module of somebody's own with a class of agents."""
    file = tmp_path / "own_agents.py"
    file.write_text(MODULE)
    spec = importlib.util.spec_from_file_location("own_agents", file)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules["own_agents"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    yield file, made.Own
    del sys.modules["own_agents"]


@pytest.mark.slow
def test_code_that_was_changed_is_refused(record, snapshots, module):
    """Under changed code nothing is gone on with or branched from, unless one insists; a replay says what changed."""
    file, kind = module
    made: list[RunResult] = []
    copy = snapshots(lambda: made.append(record(kind)))[-1]
    same(copy, kind)
    file.write_text(MODULE + "# changed\n")
    sentence = "the code has changed since .* was recorded: own_agents"
    with pytest.raises(RunError, match=sentence) as caught:
        resume(copy, kinds={"asker": kind})
    assert "--allow-change" in (caught.value.hint or "")
    with pytest.raises(RunError, match=sentence):
        branch(path_of(made[0]), at=1, kinds={"asker": kind})
    found = replay(path_of(made[0]), kinds={"asker": kind})
    assert (found.same, found.code_changed) == (True, ("own_agents",))
    assert resume(copy, kinds={"asker": kind}, allow_change=True).status == "finished"
    assert branch(path_of(made[0]), at=1, kinds={"asker": kind}, allow_change=True).status == "finished"


def test_a_class_that_is_missing_is_named(record):
    """A run whose agents are of a class that is not there cannot be made again."""
    made = record()
    with pytest.raises(UsageError, match="there is no kind of agent 'asker'"):
        replay(path_of(made))


def test_a_record_that_was_changed_is_refused(record):
    """What is damaged is found before any of it is used."""
    made = record()
    file = path_of(made) / "run.db"
    content = file.read_bytes()
    place = content.index(b'{\\"luck\\"') if b'{\\"luck\\"' in content else content.index(b'"asker.heard"')
    file.write_bytes(content[:place] + bytes([content[place + 1] ^ 1]) + content[place + 1 :])
    with pytest.raises(RunError, match="is damaged"):
        replay(path_of(made), kinds={"asker": Asker})
    with pytest.raises(RunError, match="is damaged"):
        branch(path_of(made), at=3, kinds={"asker": Asker})


def test_parts_that_are_not_compared_do_not_make_a_difference(record):
    """Without any part a replay says nothing about what it made again."""
    made = record()
    assert replay(path_of(made), kinds={"asker": Later}, parts=frozenset()).same
    assert not replay(path_of(made), kinds={"asker": Later}).same


def test_a_stored_run_is_open_for_reading_only(record):
    """Replaying leaves the file of the run as it is, to the byte."""
    made = record()
    file = path_of(made) / "run.db"
    before = file.read_bytes()
    same(made.run)
    branch(path_of(made), at=5, kinds={"asker": Asker})
    assert file.read_bytes() == before
