"""Worlds with islands have the same hash in one process and on several shards."""

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import sim
from sim.base.errors import RunError, UsageError
from sim.cli import main
from sim.kernel.codec import as_sent
from sim.llm.access import Access
from sim.record import open_run
from sim.runner.shards import run_on_shards
from sim.runner.shards.processes import ShardProcess
from sim.runner.shards.protocol import Order, Report, Setup, ShardLost, read_order, read_report, read_setup
from sim.runner.shards.shard import Shard
from sim.runner.shards.sharded import on_shards
from tests.shards.worlds import with_models, with_shares, with_travel, world

ROOT = Path(__file__).parents[2]


class Inside:
    """A shard in this process; what it is sent and reports passes as bytes, as between processes."""

    def __init__(self, number: int, setup: Setup) -> None:
        self.setup = setup
        self._shard = Shard(read_setup(as_sent(setup)))
        self._report = Report()

    def ask(self, order: Order) -> None:
        self._report = read_report(as_sent(self._shard.obey(read_order(as_sent(order)))))

    def report(self) -> Report:
        return self._report

    def close(self) -> None:
        """Leave it to the collector."""


def _differences(number: int, make: Callable[[int], dict[str, Any]] = world, **options: Any) -> list[str]:
    scenario = make(number)
    one = sim.run(scenario, out=None, **options)
    found = []
    for shards in range(1, len(scenario["islands"]["of"]) + 1):
        run = on_shards(shards, nullcontext(Inside))(scenario, out=None, **options)
        if (run.hash, run.events, run.sim_seconds, run.metrics) != (one.hash, one.events, one.sim_seconds, one.metrics):
            found.append(f"{make.__name__} {number} on {shards} shards")
        keys = (
            "iterations", "actions", "refused", "states", "wakeups", "messages", "kinds", "dropped", "under_way",
            "unread", "models", "warnings",
        )  # fmt: skip
        assert {key: getattr(run, key) for key in keys} == {key: getattr(one, key) for key in keys}
        assert run.observations == one.observations
        assert run.stopped_by == one.stopped_by
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
def test_generated_worlds_have_one_hash_on_every_number_of_shards(number: int) -> None:
    """The hash, the metrics and the figures of a generated world are those of one process, on 1 to 4 shards."""
    assert not _differences(number, backend="trio" if number % 2 else "asyncio")


@pytest.mark.slow
@pytest.mark.parametrize("number", [*range(10), 139])  # 139: draws continued those of the last message before a travel
def test_worlds_in_which_agents_travel_have_one_hash_on_every_number_of_shards(number: int) -> None:
    """The same holds where agents travel with their state and mailbox, and messages follow them."""
    assert not _differences(number, with_travel, backend="trio" if number % 2 else "asyncio")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_worlds_whose_islands_share_limits_have_one_hash_on_every_number_of_shards(number: int) -> None:
    """The same holds where limits of all agents, and of a group, are divided among islands."""
    assert not _differences(number, with_shares, backend="trio" if number % 2 else "asyncio")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_worlds_in_which_agents_ask_models_have_one_hash_on_every_number_of_shards(number: int) -> None:
    """The same holds where agents ask models that answer inside the run, fail, and are left alone for a while; and the
    calls, what they cost and what is warned of are those of one process."""
    assert not _differences(number, with_models)


@pytest.mark.slow
def test_models_that_the_operator_chooses_answer_on_shards() -> None:
    """`--model` with models inside the run reaches each shard."""
    access = Access(models=("simulated:other",))
    one = sim.run(with_models(3), out=None, access=access)
    two = on_shards(2, nullcontext(Inside))(with_models(3), out=None, access=access)
    assert (two.hash, two.models) == (one.hash, one.models)
    assert list(two.models["models"]) == ["simulated:other"]


WHOLE, SAMPLE = 200, 40
"""Generated worlds in all with `SIM_CAMPAIGN=whole`; else a sample."""


@pytest.mark.proof
@pytest.mark.timeout(7200)
def test_many_generated_worlds_have_one_hash() -> None:
    """The same holds for further generated worlds, a third of them with agents that travel, a third with
    models, and a third with limits that islands share."""
    worlds = WHOLE if os.environ.get("SIM_CAMPAIGN") == "whole" else SAMPLE
    made = (with_shares, with_travel, with_models)
    assert [found for number in range(10, worlds) for found in _differences(number, made[number % 3])] == []


@pytest.mark.slow
def test_processes_write_one_record_that_is_replayed_in_one(tmp_path: Path) -> None:
    """A run in two real processes leaves one run folder, which is whole, and which one process repeats."""
    result = run_on_shards(world(3), 2, out=tmp_path)
    assert result.run is not None
    with open_run(result.run) as run:
        run.verify()
    replayed = sim.replay(result.run)
    assert (replayed.same, replayed.complete, replayed.hash) == (True, True, result.hash)
    assert sim.run(world(3), out=None).hash == result.hash
    assert sim.branch(result.run, at=20, record=False).hash == result.hash
    for command in (["show", result.run], ["view", result.run, "--to", str(tmp_path / "view.html")]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code
    figures = result.services["shards"]
    assert (figures["processes"], 1 <= figures["imbalance"] <= 2) == (2, True)
    assert figures["most agents of a shard"] + figures["fewest agents of a shard"] == result.agents


class Counted(Inside):
    """A shard whose orders are counted by what they ask."""

    ASKED: ClassVar[Counter[str]] = Counter()

    def ask(self, order: Order) -> None:
        """Count an order."""
        self.ASKED[order.what] += 1
        super().ask(order)


@pytest.mark.slow
def test_the_number_of_windows_has_no_other_orders() -> None:
    """Readings for metrics and the end of the run are orders, and no windows."""
    result = on_shards(1, nullcontext(Counted))(world(3), out=None)
    assert min(Counted.ASKED["gather"], Counted.ASKED["end"]) > 0
    assert result.services["shards"]["windows"] == Counted.ASKED["run"]


@pytest.mark.slow
def test_regions_help_each_other_at_the_price_of_a_latency() -> None:
    """The shipped scenario has one hash in one process and on shards; trade halves the hunger of the drought, and
    without it no person of the other regions is hungry. If people can leave instead, the hunger is a third."""
    file = ROOT / "scenarios" / "regions.yaml"
    few = "agents.person.count=160"
    options: dict[str, Any] = {"out": None, "until": "65d"}
    one = sim.run(file, overrides=[few], **options)
    assert on_shards(3, nullcontext(Inside))(file, overrides=[few], **options).hash == one.hash
    alone = sim.run(file, overrides=[few, "agents.factor.state.trade=false"], **options)
    assert (alone.metrics["ships"][-1], bool(one.metrics["ships"][-1])) == (0, True)
    assert sum(value or 0 for value in alone.metrics["hungry_elsewhere"][10:]) == 0
    assert (one.metrics["hungry_days"][-1] or 0) < 0.7 * (alone.metrics["hungry_days"][-1] or 0)
    overrides = [few, "agents.factor.state.trade=false", "agents.person.state.leaves=5"]
    left = sim.run(file, overrides=overrides, **options)
    assert on_shards(3, nullcontext(Inside))(file, overrides=overrides, **options).hash == left.hash
    assert (left.metrics["hungry_days"][-1] or 0) < 0.45 * (alone.metrics["hungry_days"][-1] or 0)
    assert left.metrics["moved"][-1] > 10


class Killed(ShardProcess):
    """The second shard, whose first processes are killed at their eighth order; `LIVES` has as many entries."""

    LIVES: ClassVar[list[None]] = []

    def __init__(self, number: int, setup: Setup) -> None:
        super().__init__(number, setup)
        self._orders = 0

    def ask(self, order: Order) -> None:
        self._orders += 1
        if self._orders == 8 and self.number == 2 and self.LIVES:
            self.LIVES.pop()
            self._process.kill()
            self._process.wait()
        super().ask(order)


class Interrupted(ShardProcess):
    """The second shard, during whose eighth order Ctrl-C is pressed."""

    _orders = 0

    def ask(self, order: Order) -> None:
        self._orders += 1
        if self._orders == 8 and self.number == 2:
            raise KeyboardInterrupt
        super().ask(order)


@pytest.mark.slow
@pytest.mark.parametrize("lives", [1, 2])
def test_a_killed_shard_is_restarted(lives: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard whose process is killed, also while it repeats its orders, ends with the hash of one process."""
    monkeypatch.setattr(Killed, "LIVES", [None] * lives)
    result = on_shards(2, nullcontext(Killed))(world(3), out=None)
    assert result.hash == sim.run(world(3), out=None).hash
    assert result.services["shards"]["restarts"] == 1
    assert Killed.LIVES == []


@pytest.mark.slow
@pytest.mark.parametrize(("start", "error"), [(Killed, RunError), (Interrupted, KeyboardInterrupt)])
def test_a_run_whose_processes_end_is_resumed(
    tmp_path: Path, start: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each process of a shard is killed, or the coordinator interrupted, the record up to then is kept, and `resume`
    continues it in one process to the same hash."""
    monkeypatch.setattr(Killed, "LIVES", [None] * 9)
    with pytest.raises(error) as caught:
        on_shards(2, nullcontext(start))(world(3), out=tmp_path)
    said = "has ended with the exit code -9: 3 of its processes have ended during one order"
    assert (said if error is RunError else "sim resume") in str(caught.value)
    (folder,) = tmp_path.iterdir()
    with open_run(folder) as run:
        assert run.info.status == "interrupted"
        assert run.counts()["events"] > 0
    assert sim.resume(folder).hash == sim.run(world(3), out=None).hash


class Forgetful(Inside):
    """A shard that loses what it was sent last, whenever it is asked to; in this process."""

    LOSES: ClassVar[set[int]] = set()
    orders = 0

    def report(self) -> Report:
        """Lose the report of an order now and then."""
        Forgetful.orders += 1
        if Forgetful.orders in self.LOSES:
            raise ShardLost("lost")
        return super().report()


@pytest.mark.slow
@given(
    make=st.sampled_from([world, with_travel]),
    number=st.integers(0, 9),
    losses=st.sets(st.integers(1, 60), max_size=6),
    shards=st.integers(1, 2),
)
@settings(max_examples=8, deadline=None)
def test_shards_that_are_lost_at_any_order_change_nothing(
    make: Callable[[int], dict[str, Any]], number: int, losses: set[int], shards: int
) -> None:
    """Whichever orders are lost, at the setup, in a window, at a sample or at the end: the hash is that of one process,
    unless three processes of a shard are lost during one order."""
    Forgetful.LOSES, Forgetful.orders = losses, 0
    try:
        found = on_shards(shards, nullcontext(Forgetful))(make(number), out=None)
    except ShardLost:
        assert len(losses) >= 3
        return
    assert found.hash == sim.run(make(number), out=None).hash


class Unreliable(Inside):
    """A shard whose tenth order is lost, doubled, or overtaken by one that was sent before."""

    FAULT: ClassVar[str] = ""
    _orders = 0
    _last: Order | None = None

    def ask(self, order: Order) -> None:
        """Carry an order, or not."""
        self._orders += 1
        if self._orders == 10 and self.FAULT == "a lost order":
            return
        if self._orders == 10 and self.FAULT == "a doubled order":
            super().ask(order)
        if self._orders == 10 and self.FAULT == "an old order":
            order, _ = self._last or order, super().ask(order)
        self._last = order
        super().ask(order)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("a lost order", "shard 1 sent the report of order 9, and that of order 10 was due"),
        ("a doubled order", "a shard got order 10 where order 11 was due: one was lost, doubled or overtaken"),
        ("an old order", "a shard got order 9 where order 11 was due"),
    ],
)
def test_orders_that_are_lost_doubled_or_overtaken_end_the_run(
    tmp_path: Path, fault: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each order and each report has a number, so that one that is missing or comes twice ends the run; `resume`
    continues the record to the hash of one process."""
    monkeypatch.setattr(Unreliable, "FAULT", fault)
    with pytest.raises(RunError, match=message):
        on_shards(2, nullcontext(Unreliable))(world(3), out=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert sim.resume(folder).hash == sim.run(world(3), out=None).hash


class Different(Killed):
    """A shard whose new process has another seed."""

    def __init__(self, number: int, setup: Setup) -> None:
        super().__init__(number, setup if self.LIVES or number == 1 else structs.replace(setup, seed=4))


@pytest.mark.slow
def test_a_restarted_shard_whose_events_differ_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shard repeats is compared with what it reported, and the time is named."""
    monkeypatch.setattr(Killed, "LIVES", [None])
    with pytest.raises(
        RunError, match=r"shard 2 \(i0.*\) was started again .* its events before \d.* differ from those recorded"
    ):
        on_shards(2, nullcontext(Different))(world(3), out=None)


class Altered(Inside):
    """The first shard is lost once, and its second process reports an event or a letter a little differently."""

    WHAT: ClassVar[str] = ""
    LIVES: ClassVar[int] = 0

    def __init__(self, number: int, setup: Setup) -> None:
        super().__init__(number, setup)
        Altered.LIVES += number == 1
        self._life, self._orders = Altered.LIVES if number == 1 else 0, 0

    def report(self) -> Report:
        """Lose a report of the first life, and alter those of the second."""
        self._orders += 1
        if self._life == 1 and self._orders == 30:
            raise ShardLost("lost")
        found = super().report()
        if self._life < 2 or not (found.letters if self.WHAT == "island" else found.rows):
            return found
        if self.WHAT == "island":
            return structs.replace(found, letters=(structs.replace(found.letters[0], island="i9"), *found.letters[1:]))
        key, source, counter, actor, topic, data, cause = found.rows[0]
        row = {
            "key": ((*key[:5], key[5] + 1), source, counter, actor, topic, data, cause),
            "actor": (key, source, counter, "other", topic, data, cause),
            "cause": (key, source, counter, actor, topic, data, (cause[0], cause[1] + 1)),
        }[self.WHAT]
        return structs.replace(found, rows=(row, *found.rows[1:]))


@pytest.mark.parametrize("what", ["key", "actor", "cause", "island"])
def test_whatever_a_restarted_shard_reports_differently_ends_the_run(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only the data of events is compared, but also their place in the order, their cause, and where letters go."""
    monkeypatch.setattr(Altered, "WHAT", what)
    monkeypatch.setattr(Altered, "LIVES", 0)
    with pytest.raises(RunError, match="differ from those recorded"):
        on_shards(1 if what != "island" else 2, nullcontext(Altered))(world(3), out=None)


def test_a_run_that_breaks_a_rule_fails_with_its_sentence(tmp_path: Path) -> None:
    """What stops a run in one process stops one on shards with the same sentence, and the record is kept."""
    scenario = world(3)
    scenario["agents"][0]["rules"].insert(0, {"when": "now > 20", "do": {"send": {"to": "='i1' + 'a-1'"}}})
    with pytest.raises(RunError) as one:
        sim.run(scenario, out=None)
    with pytest.raises(RunError) as two:
        on_shards(2, nullcontext(Inside))(scenario, out=tmp_path)
    assert str(two.value) == str(one.value)


def _with(**more: Any) -> dict[str, Any]:
    return {**world(3), **more}


def _ruled(do: Any) -> dict[str, Any]:
    scenario = world(3)
    scenario["agents"][0]["rules"].insert(0, {"when": "now > 20", "do": do})
    return scenario


METRIC = {"metrics": {"every": "5s", "values": {"a": "published('here')"}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "shards", "message"),
    [
        ({"name": "a", "agents": [{"name": "a"}]}, 2, "--shards needs a scenario with islands"),
        (world(3), 9, "the number of shards is from 1 to"),
        (_with(until=None), 2, "cannot have `until: null`"),
        (_with(execution={"clock": "wall"}), 2, "cannot have the wall clock"),
        (
            sim.load(ROOT / "scenarios" / "regions.yaml", ["seed=3"]),
            2,
            "a Scenario object that was loaded with changes",
        ),
        (_with(execution={"ties": "shuffled"}), 2, "cannot have `execution.ties: shuffled`"),
        (_with(recording={"level": "samples"}), 2, "cannot have `recording.level: samples`"),
        (_with(recording={"state": ["n"]}), 2, "cannot have `recording.state`"),
        (_with(events=[{"topic": "here", "at": "end"}]), 2, "cannot have events with `at: end`"),
        (_with(places={"nodes": ["a"], "variables": {"v": 1}}), 2, "cannot have `places.variables`"),
        (_ruled("stop"), 2, "cannot have the action stop (agents.i0a)"),
        (_ruled({"spawn": {"agent": "i0b"}}), 2, "cannot have the action spawn (agents.i0a)"),
        (_with(**METRIC), 2, "metrics.values.a calls published()"),
        (_with(stop={"when": "sum(state_of(a, 'n') for a in agents('i0a')) > 9"}), 2, "needs names that are not comp"),
    ],
)
def test_what_shards_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, scenario: Any, shards: int, message: str
) -> None:
    """A run that shards cannot divide is refused with what is in the way, and no folder is made."""
    with pytest.raises(UsageError, match=re.escape(message)):
        on_shards(shards, nullcontext(Inside))(scenario, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


DELETES = """
name: deletes
until: 1m
islands: {latency: 10s, of: {north: [a], south: [b]}}
artifacts: [{id: paper, owner: a, content: x}, {id: page, owner: b, content: y}]
agents:
  - {name: a, loop: {min_loop_delay: 20s}, rules: [{when: now < 1, do: {delete: {artifact: paper}}}, {do: noop}]}
  - name: b
    loop: {min_loop_delay: 20s}
    rules: [{when: now < 1, do: {write: {artifact: page, content: z}}}, {do: noop}]
"""


@pytest.mark.slow
def test_what_a_shard_deletes_is_gone(tmp_path: Path) -> None:
    """What one shard deletes is not in the final state, though another one, which changed a neighbour, still has it."""
    path = tmp_path / "deletes.yaml"
    path.write_text(DELETES)
    assert on_shards(2, nullcontext(Inside))(path, out=None).hash == sim.run(path, out=None).hash


@pytest.mark.slow
def test_tables_of_a_program_reach_each_shard() -> None:
    """A table that a program gives, and no file, is sent to each shard."""
    scenario = world(3)
    crowd = {**scenario["agents"][-1], "state": {}, "table": [{"home": f"i{n % 2}", "n": n} for n in range(9)]}
    del crowd["count"]
    scenario["agents"] = [*scenario["agents"][:-1], crowd]
    assert on_shards(2, nullcontext(Inside))(scenario, out=None).hash == sim.run(scenario, out=None).hash


@pytest.mark.parametrize(
    ("asked", "ray", "message"),
    [
        ("two", None, "shards are a number, such as 2, or 2@ray, but not 'two'"),
        ("-1@ray", "auto", "shards are a number, such as 2, or 2@ray, but not '-1@ray'"),
        ("2@ray", None, "shards are to be on a Ray cluster, but none is given"),
        (2, "auto", "a Ray cluster is given, but no shard is to be on it"),
    ],
)
def test_where_shards_run_is_said_whole(asked: int | str, ray: str | None, message: str) -> None:
    """`@ray` and the address of a cluster belong together."""
    with pytest.raises(UsageError, match=re.escape(message)):
        run_on_shards(world(3), asked, ray=ray)


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_extra_is_named() -> None:
    """Shards on a cluster need an extra, which the error names."""
    with pytest.raises(UsageError, match="shards on Ray need the package ray") as caught:
        run_on_shards(world(3), "2@ray", ray="auto")
    assert "actor-sim[ray]" in (caught.value.hint or "")


def test_options_that_mean_nothing_on_shards_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--shards with an estimate of models, or with series of single agents, is wrong usage."""
    (tmp_path / "isles.json").write_text("{}")
    series = ["--metrics-file", str(tmp_path / "run.prom"), "--metrics-agent", "a"]
    for options, part in ((["--estimate"], "has no --estimate"), (series, "no series of single agents")):
        with pytest.raises(SystemExit) as ended:
            main(["run", str(tmp_path / "isles.json"), "--shards", "2", *options])
        assert ended.value.code == 2
        assert part in capsys.readouterr().err
