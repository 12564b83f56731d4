"""What is easily got wrong in making runs again: decisions before further kills, branches before them, live changes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest

from sim.actors import Agent
from sim.base import crashpoints
from sim.base.errors import DivergenceError, RunError
from sim.host.host import Host
from sim.kernel import NS, Effect, perform, sleep
from sim.record import RunHeader, RunRecorder, create_run, open_run
from sim.runner import branch, replay, resume, run
from sim.world import NOOP, Action
from tests.helpers import wait_until_durable

both_hosts = pytest.mark.parametrize("backend", ["asyncio", "trio"])
both_kinds = pytest.mark.parametrize("latency_ns", [NS, 0, None], ids=["modelled", "at once", "measured"])

ONCE = """\
name: once
seed: 1
until: 4s
agents:
  - {name: x, kind: x, loop: {min_loop_delay: 5s}}
"""


class Once(Agent):
    """Asks once for what must not be done twice."""

    calls: ClassVar[list[str]] = []
    latency_ns: ClassVar[int | None] = NS

    async def decide_action(self) -> Action | None:
        outcome = await perform(Effect("pay", {}, self._serve, latency_ns=self.latency_ns, safety="unsafe"))
        self.state["outcome"] = outcome.kind
        return NOOP

    async def _serve(self, request: Any, key: str) -> Any:
        self.calls.append(self.agent_id)
        await anyio.lowlevel.checkpoint()
        return 1


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Forget the calls of other tests, and take the crash points back."""
    Once.calls.clear()
    yield
    crashpoints.hook = None


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Record a run of a scenario whose agents of kind `x` are of a class, and return its folder."""

    def record(text: str, kind: type[Agent] = Once, **options: Any) -> Path:
        file = tmp_path / "edges.yaml"
        file.write_text(text, encoding="utf-8")
        made = run(file, out=tmp_path / "runs", kinds={"x": kind}, **options)
        assert made.run is not None
        return Path(made.run)

    return record


@pytest.fixture
def killed(tmp_path: Path) -> Callable[..., Path]:
    """Do some work, and return what a kill at the n-th reach of a crash point would have left of a run."""

    def killed(
        work: Callable[[], object],
        folder: Path | None = None,
        point: str = "effect.started",
        when: Callable[[], bool] = lambda: True,
    ) -> Path:
        copies: list[Path] = []

        def copy(reached: str) -> None:
            if copies or reached != point or not when():
                return
            (of,) = (tmp_path / "runs").iterdir() if folder is None else (folder,)
            copies.append(tmp_path / f"killed-{len([*tmp_path.iterdir()])}" / of.name)
            copies[0].mkdir(parents=True)
            for name in ("run.db", "run.db-wal", "run.head", "run.lock", "run.unsafe", "scenario.yaml"):
                if (of / name).exists():
                    shutil.copy(of / name, copies[0] / name)

        crashpoints.hook = copy
        work()
        crashpoints.hook = None
        with open_run(copies[0]) as stored:
            assert stored.info.status == "killed"
        Once.calls.clear()
        return copies[0]

    return killed


def same(folder: Path | str | None, kind: type[Agent] = Once) -> None:
    """Check that a run replays to itself, without a call."""
    assert folder is not None
    before = [*Once.calls]
    found = replay(folder, kinds={"x": kind})
    assert found.same, found.difference
    assert Once.calls == before


def ask(folder: Path | str | None, sql: str) -> list[Any]:
    """Ask a run a question in SQL."""
    assert folder is not None
    with open_run(Path(folder)) as stored:
        return stored.query(sql)


# -- decisions


@pytest.mark.proof
@both_hosts
@both_kinds
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    ("decision", "calls", "outcome"),
    [("retry", 1, "ok"), ("done:5", 0, "decided: done"), ("failed", 0, "decided: failed"), (None, 0, "unknown")],
)
def test_each_retry_is_one_call(record, killed, monkeypatch, backend, latency_ns, decision, calls, outcome, asked):
    """Killed in a call, retried and killed in that call too, an effect is in doubt again: only another decision, and
    not the one before it, has it done, and once.
    """
    monkeypatch.setattr(Once, "latency_ns", latency_ns)
    options: dict[str, Any] = {"kinds": {"x": Once}, "backend": backend}
    first = killed(lambda: record(ONCE, backend=backend))
    second = killed(lambda: resume(first, effects={1: "retry"}, **options), first)
    if asked:
        waits = resume(second, **options)
        assert (waits.status, [doubt.id for doubt in waits.doubts]) == ("interrupted", [1])
        assert Once.calls == []
    result = resume(second, effects={} if decision is None else {1: decision}, undecided=True, **options)
    assert (result.status, len(result.doubts)) == ("finished", decision is None)
    assert len(Once.calls) == calls
    assert ask(second, "SELECT outcome FROM calls") == [(outcome,)]
    same(second)


TWO = ONCE.replace("kind: x,", "kind: x, count: 2,")
CONTENT = (
    "SELECT * FROM chunks",
    "SELECT * FROM effects",
    "SELECT * FROM arrivals",
    "SELECT * FROM contents",
    "SELECT status, ended_at, sim_ns, events, hash, digest, summary FROM run",
)


@pytest.mark.slow
@both_hosts
@both_kinds
def test_until_all_is_decided_nothing_is_done_or_changed(record, killed, monkeypatch, backend, latency_ns):
    """Asked without a decision about each effect in doubt, a resume leaves every table as it was (but for the epoch),
    begins nothing, and lists what is left; decisions about all of them, given then, all count.
    """
    monkeypatch.setattr(Once, "latency_ns", latency_ns)
    options: dict[str, Any] = {"kinds": {"x": Once}, "backend": backend}
    folder = killed(lambda: record(TWO, backend=backend))

    def content() -> list[Any]:
        return [ask(folder, sql) for sql in CONTENT]

    before = content()
    for given, left in (({}, [1, 2]), ({2: "done:5"}, [1]), ({1: "retry"}, [2])):
        waits = resume(folder, effects=given, **options)
        assert (waits.status, waits.run, [doubt.id for doubt in waits.doubts]) == ("interrupted", str(folder), left)
        assert (content(), Once.calls) == (before, [])
        assert (waits.events, waits.hash) == (4, resume(folder, **options).hash)  # what was made again
    result = resume(folder, effects={1: "retry", 2: "done:5"}, **options)
    assert (result.status, result.doubts, Once.calls) == ("finished", (), ["x-1"])
    assert ask(folder, "SELECT outcome FROM calls ORDER BY agent") == [("ok",), ("decided: done",)]
    same(folder)


@pytest.mark.slow
def test_what_is_undecided_is_not_done_while_others_go_on(record, killed, monkeypatch):
    """With another agent's slow work under way, an effect in doubt that nobody has decided about stays undone."""

    class Slow(Once):
        async def decide_action(self) -> Action | None:
            if self.agent_id == "x":
                return await super().decide_action()
            await perform(Effect("slow", {}, self._wait, safety="pure"))
            return NOOP

        async def _wait(self, request: Any, key: str) -> None:
            await anyio.sleep(0.05)

    monkeypatch.setattr(Once, "latency_ns", None)
    text = ONCE + "  - {name: y, kind: x, start: 1s, loop: {min_loop_delay: 5s}}\n"
    first = killed(lambda: record(text, Slow))
    second = killed(lambda: resume(first, effects={1: "retry"}, kinds={"x": Slow}), first)
    result = resume(second, undecided=True, kinds={"x": Slow})
    assert (result.status, [doubt.agent for doubt in result.doubts], Once.calls) == ("finished", ["x"], [])
    same(second, Slow)


@pytest.mark.slow
@both_hosts
@pytest.mark.parametrize("decided", [True, False])
def test_only_what_is_on_record_is_in_doubt(record, killed, backend, decided):
    """Effects that begin in the instant in which the record ends, but are not on it, are new: nobody is asked about
    them, also not after a person was asked about the others, and they are done, once.
    """
    begun: list[str] = []

    class Commits(Once):
        async def decide_action(self) -> Action | None:
            begun.append(self.agent_id)
            wait_until_durable(self.world.kernel.recorder)  # as if each decision took long
            return await super().decide_action()

    text = ONCE.replace("kind: x,", "kind: x, count: 10,")
    folder = killed(
        lambda: record(text, Commits, backend=backend), point="writer.committed", when=lambda: len(begun) > 3
    )
    known = [actor for (actor,) in ask(folder, "SELECT actor FROM effects ORDER BY id")]
    assert 0 < len(known) < 10
    options: dict[str, Any] = {"kinds": {"x": Commits}, "backend": backend}
    waits = resume(folder, **options)  # this makes the rest of that instant, and must not put it on record
    assert ([doubt.agent for doubt in waits.doubts], Once.calls) == (known, [])
    if decided:
        result = resume(folder, effects={doubt.id: "failed" for doubt in waits.doubts}, **options)
        assert (result.status, result.doubts) == ("finished", ())
    else:
        result = resume(folder, undecided=True, **options)
        assert (result.status, result.doubts) == ("finished", waits.doubts)
    assert sorted([*known, *Once.calls]) == sorted(f"x-{number}" for number in range(1, 11))
    assert ask(folder, "SELECT count(*) FROM effects WHERE ending IS NULL") == [(0,)]
    same(folder, Commits)


TICKS = """\
name: ticks
seed: 1
until: 20s
execution: {use_autonomous_loops: false, tick: {period: 1s}}
agents:
  - {name: x, kind: x}
  - {name: w, rules: [{do: {publish: {topic: w.on}}}]}
"""


@pytest.mark.slow
@both_hosts
@both_kinds
def test_ticks_go_on_while_an_effect_is_undecided(record, killed, monkeypatch, backend, latency_ns):
    """In tick mode the barrier does not wait for an effect that nobody has decided about: the others take each turn."""

    class Third(Once):
        async def decide_action(self) -> Action | None:
            turn = self.state["turn"] = self.state.get("turn", 0) + 1
            return await super().decide_action() if turn == 3 else NOOP

    monkeypatch.setattr(Once, "latency_ns", latency_ns)
    folder = killed(lambda: record(TICKS, Third, backend=backend))
    result = resume(folder, undecided=True, kinds={"x": Third}, backend=backend)
    assert (result.status, result.sim_seconds, len(result.doubts)) == ("finished", 20, 1)
    assert result.kinds == {"noop": 2, "publish": 20}
    same(folder, Third)


# -- branches before a decision

DECIDED = """\
name: decided
seed: 1
until: 1s
agents:
  - {name: x, kind: x, loop: {min_loop_delay: 30s}}
  - {name: w, kind: x, loop: {min_loop_delay: 0.1}}
"""


class Decided(Once):
    """`x` asks for something slow that must not be done twice; `w` meanwhile for much that is quick."""

    real: ClassVar[float] = 0.0

    async def decide_action(self) -> Action | None:
        if self.agent_id == "x":
            await perform(Effect("pay", {}, self._pay, latency_ns=4 * NS // 10 + 1, safety="unsafe"))
        else:
            await perform(Effect("quick", {}, self._serve, latency_ns=NS // 100, safety="pure"))
        return NOOP

    async def _pay(self, request: Any, key: str) -> Any:
        self.calls.append("x")
        if crashpoints.hook is not None:  # the run is about to be killed: the work is not done before
            while self.calls.count("w") < 3:
                await anyio.lowlevel.checkpoint()
        await anyio.sleep(self.real)
        return 1


@pytest.fixture
def decided(record, killed, monkeypatch) -> Callable[..., Path]:
    """A run that was killed while `x` waited, and finished after a decision."""

    def decided(decision: str, real: float = 0.0) -> Path:
        folder: Path = killed(lambda: record(DECIDED, Decided), when=lambda: Once.calls.count("w") >= 2)
        monkeypatch.setattr(Decided, "real", real)
        result = resume(folder, effects={1: decision}, kinds={"x": Decided})
        assert result.status == "finished"
        ((place,),) = ask(folder, "SELECT time_ns FROM arrivals WHERE kind = 'effect.decision'")
        assert 0.2 * NS < place < 0.4 * NS  # the branches leave before it
        Once.calls.clear()
        return folder

    return decided


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["done:5", "failed"])
def test_a_branch_before_a_decision_asks_for_one(decided, decision):
    """A branch that leaves before a person decided does not know what was decided: it asks again, and does not hang."""
    folder = decided(decision)
    options: dict[str, Any] = {"at": 0.15, "kinds": {"x": Decided}}
    waits = branch(folder, **options)
    assert (waits.status, [doubt.agent for doubt in waits.doubts], "x" in Once.calls) == ("interrupted", ["x"], False)
    assert (waits.run, [entry.name for entry in folder.parent.iterdir()]) == (None, [folder.name])
    found = branch(folder, effects={1: "retry"}, **options)
    assert (found.status, found.doubts, Once.calls.count("x")) == ("finished", (), 1)
    same(folder, Decided)
    same(found.run, Decided)


@pytest.mark.slow
@pytest.mark.parametrize("real", [0, 0.3], ids=["in time", "late"])
def test_a_branch_before_a_retry_has_its_outcome(decided, real):
    """What a retry brought is on record: a branch that leaves before the decision gets it at its modelled time."""
    folder = decided("retry", real)
    found = branch(folder, at=0.15, kinds={"x": Decided})
    assert (found.status, found.doubts, "x" in Once.calls) == ("finished", (), False)
    sql = "SELECT outcome, ending, ended_ns FROM effects WHERE kind = 'pay'"
    assert ask(found.run, sql) == [("ok", "delivered", 4 * NS // 10 + 1)]
    same(folder, Decided)
    same(found.run, Decided)


# -- what is interrupted, damaged, or still under way


@both_hosts
def test_an_interrupted_replay_says_so(record, backend):
    """Who interrupts a replay learns that, and not that the run is the same or differs; the run stays as it was."""
    folder = record(ONCE, backend=backend)
    before = (folder / "run.db").read_bytes()
    with pytest.raises(RunError, match="interrupted during the replay of the record: the run is unchanged"):
        replay(folder, kinds={"x": Once}, backend=backend, progress=lambda runner: runner.host.suspend())
    assert (folder / "run.db").read_bytes() == before
    same(folder)


WALK = """\
name: walk
seed: 1
until: 30s
agents:
  - {name: w, kind: x, loop: {min_loop_delay: 1s}}
"""


class Asks(Once):
    """Asks at each turn, and has the run suspended at one of them."""

    suspend_at: ClassVar[float | None] = None
    silent_from: ClassVar[float | None] = None

    async def decide_action(self) -> Action | None:
        now = self.world.now
        if self.suspend_at is not None and now >= self.suspend_at:
            assert isinstance(self.world._intake, Host)
            self.world._intake.suspend()
        if self.silent_from is not None and now >= self.silent_from:
            await sleep(0.5)
        else:
            await perform(Effect("ask", {}, self._serve, latency_ns=NS // 2, safety="pure"))
        return NOOP


@pytest.mark.slow
def test_the_end_of_a_run_that_was_gone_on_with_is_where_its_record_ends(record, killed, monkeypatch):
    """Interrupted, resumed and killed later, a run is on record beyond the place of its interruption."""
    monkeypatch.setattr(Asks, "suspend_at", 3)
    folder = record(WALK, Asks)
    with open_run(folder) as stored:
        assert stored.info.sim_seconds == 3
    monkeypatch.setattr(Asks, "suspend_at", None)
    late = killed(lambda: resume(folder, kinds={"x": Asks}), folder, when=lambda: len(Once.calls) > 15)
    with open_run(late) as stored:
        assert (stored.info.status, stored.info.sim_ns) == ("killed", None)
    found = branch(late, at=10, kinds={"x": Asks})
    assert found.status == "finished"
    same(found.run, Asks)


def test_a_run_that_still_grows_is_not_made_again(tmp_path):
    """While a process writes a run nobody can say what it will be: it is neither replayed nor branched from."""
    folder = create_run(tmp_path / "runs", RunHeader("once", 1, "autonomous", "asyncio"), ONCE)
    with RunRecorder(folder):
        for again in (replay, lambda *args, **options: branch(*args, at=1, **options)):
            with pytest.raises(RunError, match="is being written by another process"):
                again(folder, kinds={"x": Once})
        assert [*(tmp_path / "runs").iterdir()] == [folder]


@pytest.mark.parametrize("latency", ["modelled", "measured"])
def test_a_full_disk_ends_a_run(record, monkeypatch, latency):
    """When writing fails while outcomes are on their way, the run ends with one sentence, and does not hang."""
    armed: list[bool] = []

    def full(point: str) -> None:
        if point == "effect.recorded":
            armed.append(True)
        if point == "writer.before" and armed:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Once, "latency_ns", NS if latency == "modelled" else None)
    crashpoints.hook = full
    with pytest.raises(RunError, match="No space left on device"):
        record(ONCE)


# -- branches and what they must find


def test_a_branch_that_lacks_an_effect_is_refused(record, monkeypatch, tmp_path):
    """Code that no longer begins an effect on record before the branch cannot make its past, and no run is made."""
    folder = record(WALK, Asks)
    monkeypatch.setattr(Asks, "silent_from", 3)
    with pytest.raises(DivergenceError, match=r"effect 3 of w \(ask\) at 3s is on record, but does not start now"):
        branch(folder, at=3.2, kinds={"x": Asks})
    assert [*(tmp_path / "runs").iterdir()] == [folder]


@pytest.mark.filterwarnings("ignore::sim.base.errors.RecordWarning")
@pytest.mark.parametrize("at", [0, 1e-9, 5])
def test_a_scenario_that_was_edited_is_refused_at_any_time(record, at):
    """A branch is a branch of the run, and not of what its scenario file has become, at 0 too."""
    folder = record(WALK, Asks)
    file = folder / "scenario.yaml"
    file.write_text(file.read_text() + "# edited\n")
    with pytest.raises(RunError, match=r"scenario\.yaml was changed after the run"):
        branch(folder, at=at, kinds={"x": Asks})
    assert branch(folder, at=at, kinds={"x": Asks}, allow_change=True).status == "finished"


PRICED = """\
name: priced
seed: 1
until: 40s
limits:
  pubs: {agent: 2 per 20s, policy: skip}
costs:
  publish: {pubs: 1}
agents:
  - {name: w, loop: {min_loop_delay: 1s}, rules: [{do: {publish: {topic: w.on}}}]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("at", "free"), [(0, 40), (1e-9, 40), (20, 22)])
def test_a_branch_takes_prices_away(record, at, free):
    """A price that a branch has no more is not taken any more, whether the branch begins at 0 or later."""
    folder = record(PRICED)
    assert ask(folder, "SELECT count(*) FROM events WHERE topic = 'w.on'") == [(4,)]
    found = branch(folder, at=at, overrides=["costs={}"])
    assert (found.kinds, found.refused) == ({"publish": free}, {})
    same(found.run)
    again = branch(str(found.run), at=30)
    assert again.hash == found.hash
    same(again.run)


SPAWNING = """\
name: spawning
seed: 1
until: 40s
limits:
  pubs: {agent: 1000 per 10s, policy: skip}
costs:
  publish: {pubs: 1}
agents:
  - {name: boss, loop: {min_loop_delay: 10s}, rules: [{do: {spawn: {agent: kid}}}]}
  - name: kid
    template: true
    loop: {min_loop_delay: 1s}
    limits: {pubs: 1000 per 10s}
    rules: [{do: {publish: {topic: kid.on}}}]
"""


@pytest.mark.parametrize(
    ("change", "topic", "most"),
    [
        ("agents.kid.limits.pubs=1 per 10s", "kid.on", {"kid-boss-2": 3, "kid-boss-3": 2, "kid-boss-4": 1}),
        ("agents.kid.rules=[{do: {publish: {topic: kid.off}}}]", "kid.on", {}),
    ],
)
def test_changes_reach_agents_that_are_made_later(record, change, topic, most):
    """Rules and limits that a branch changes are those of agents that are spawned after it, too."""
    folder = record(SPAWNING)
    sql = f"SELECT actor, count(*) FROM events WHERE topic = '{topic}' AND time_ns >= 10000000000 GROUP BY 1"  # noqa: S608 - ours
    later = {agent: count for agent, count in ask(folder, sql) if agent != "kid-boss-1"}
    assert len(later) == 3
    assert min(later.values()) >= 9
    found = branch(folder, at=5, overrides=[change])
    assert {agent: count for agent, count in ask(found.run, sql) if agent != "kid-boss-1"} == most
    same(found.run)


class Uneven(Agent):
    """Publishes late in one tick, and at once in the next."""

    async def decide_action(self) -> Action | None:
        turn = self.state["turn"] = self.state.get("turn", 0) + 1
        if turn % 2:
            await sleep(0.5)
        return Action("publish", {"topic": "w.on"})


def test_limits_per_tick_change(record):
    """A limit that becomes one per tick begins anew with each tick from the branch on, as it would have from 0 on."""
    text = TICKS.replace("  - {name: w, rules: [{do: {publish: {topic: w.on}}}]}\n", "") + (
        "limits: {pubs: {agent: 100 per 10s, policy: skip}}\ncosts: {publish: {pubs: 1}}\n"
    )
    folder = record(text, Uneven)
    for at in (0, 5):
        found = branch(folder, at=at, overrides=["limits.pubs.agent=1 per tick"], kinds={"x": Uneven})
        assert (found.kinds, found.refused) == ({"publish": 20}, {})
        same(found.run, Uneven)
