"""A run on shards is watched where it was started, and who asks it for something but a stop is refused at once."""

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

import sim
from sim.actors import Control
from sim.base.errors import UsageError
from sim.cli import main
from sim.cli.render.snapshot import take_snapshot
from sim.inspect.telemetry import Exporter
from sim.record import HashRecorder
from sim.record.inbox import InboxAnswer, Verb, ask, await_answer
from sim.runner import RunController
from sim.runner.figures import Figures
from sim.runner.outside_requests import ON_SHARDS
from sim.runner.shards import watching
from sim.runner.shards.protocol import Report
from sim.runner.shards.sharded import on_shards
from tests.shards.test_shards import Inside
from tests.shards.worlds import with_shares, with_travel, world


@pytest.mark.slow
@pytest.mark.parametrize("make", [world, with_shares, with_travel])
@pytest.mark.parametrize("number", range(3))
def test_the_figures_of_all_shards_are_those_of_one_process(make: Callable[[int], dict[str, Any]], number: int) -> None:
    """At the end, agents by state, iterations, errors, actions, wake-ups and messages are those of one process."""
    runners: list[RunController] = []
    sim.run(make(number), out=None, begun=runners.append)
    on_shards(2, nullcontext(Inside))(make(number), out=None, begun=runners.append)
    one, two = [_sorted(runner) for runner in runners]
    assert one == two


def _sorted(runner: RunController) -> dict[str, Any]:
    figures: dict[str, Any] = msgspec.to_builtins(runner.figures())
    figures["wakeups"] = sorted(figures["wakeups"])
    del figures["steps"]  # a step of the scenario is one on each shard
    return figures


def test_a_reading_in_each_window_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose figures are read in every window, and which is shown between windows, has the hash of one process;
    what is shown grows."""
    monkeypatch.setattr(watching, "EVERY", 0.0)
    monkeypatch.setattr(watching, "SHARE", 0)
    monkeypatch.setattr(watching, "CALLED_EVERY", 0.0)
    looks: list[tuple[float, int]] = []

    def look(runner: RunController) -> None:
        seen = take_snapshot(runner)
        assert (sum(seen.states.values()), seen.levels) == (len(runner.simulation.manager.loops), ())
        looks.append((seen.now, seen.figures["iterations"]))

    found = on_shards(2, nullcontext(Inside))(world(3), out=None, progress=look)
    assert found.hash == sim.run(world(3), out=None).hash
    assert looks == sorted(looks)
    assert looks[-1] == (found.sim_seconds, found.iterations)
    assert len(looks) > found.services["shards"]["windows"]


def test_shards_are_asked_at_most_once_a_second() -> None:
    """Shards are asked again a second after the last reading, later if readings take long, and only if something shows
    them."""
    clock = [100.0]
    seen = watching.Watching(HashRecorder(), 2, asked=True, clock=lambda: clock[0])
    figures = Figures({}, {}, (), 0, {}, {}, {}, 0, 0, 0, 0, 0, 7)
    assert seen.due()
    seen.seen(5 * 10**9, [Report(figures=figures), Report(figures=figures)])
    assert (seen.now, seen.figures.steps) == (5.0, 14)
    clock[0] += 0.9
    assert not seen.due()
    clock[0] += 0.2
    assert seen.due()
    seen.seen(6 * 10**9, [Report(figures=figures), Report(figures=figures, reading_ns=10**8)])
    clock[0] += 4.9
    assert not seen.due()
    clock[0] += 0.2
    assert seen.due()
    seen.seen(7 * 10**9, [Report(), Report()])
    assert (seen.now, seen.figures.steps) == (7.0, 14)
    assert not watching.Watching(HashRecorder(), 2, asked=False).due()


def test_metrics_of_shards_are_served_by_the_process_that_was_started() -> None:
    """A scrape has the time, the events, agents, actions and samples of the whole run, and figures of the shards; what
    only a shard knows, such as pools, is left out."""
    exporter = Exporter()
    result = on_shards(2, nullcontext(Inside))(world(3), out=None, begun=exporter.begun)
    exporter.ended("finished")
    samples = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in exporter.collect()
        for sample in family.samples
    }
    assert samples["sim_simulated_seconds_total", ()] == result.sim_seconds
    assert samples["sim_events_recorded_total", ()] == result.events
    assert sum(value for (name, _), value in samples.items() if name == "sim_agents") == result.agents
    assert samples["sim_actions_total", ("publish", "ok")] == result.kinds["publish"] - result.refused.get("publish", 0)
    assert samples["sim_value", ("sum",)] == result.metrics["sum"][-1]
    assert samples["sim_service_value", ("shards.windows",)] == result.services["shards"]["windows"]
    assert not [name for name, _ in samples if name.startswith(("sim_pool", "sim_rate_", "sim_bus", "sim_effects_in"))]
    alone: list[RunController] = []
    on_shards(1, nullcontext(Inside))(world(3), out=None, begun=alone.append)
    assert samples["sim_steps_total", ()] > alone[0].figures().steps
    assert exporter.health() == (
        True,
        {"status": "finished", "simulated_seconds": result.sim_seconds, "step_seconds": 0},
    )


@pytest.mark.slow
def test_the_command_line_watches_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--live` and `--metrics-file` work with --shards, whose processes are real ones here."""
    file = tmp_path / "isles.yaml"
    file.write_bytes(msgspec.yaml.encode(world(3)))
    prom = tmp_path / "run.prom"
    with pytest.raises(SystemExit) as ended:
        main(["run", str(file), "--no-record", "--shards", "2", "--live", "--metrics-file", str(prom)])
    assert not ended.value.code
    assert 'sim_run_status{status="finished"} 1.0' in prom.read_text()
    assert "shards   windows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [("stop", {"agent_id": "i0a-1"}), ("publish", {"topic": "alarm"}), ("pause_all", {}), ("set", {"values": {}})],
)
def test_who_asks_a_run_on_shards_for_something_is_refused_at_once(
    tmp_path: Path, verb: Verb, arguments: dict[str, Any]
) -> None:
    """What a person asks of a run on shards is answered with what to do instead, and changes nothing."""
    answers: list[InboxAnswer | None] = []

    def wish(runner: RunController) -> None:
        if not answers:
            (folder,) = tmp_path.iterdir()
            answers.append(await_answer(folder, ask(folder, verb, **arguments), 20))

    found = on_shards(2, nullcontext(Inside))(world(3), out=tmp_path, progress=wish)
    (answer,) = answers
    assert answer is not None
    assert (answer.outcome, answer.reason) == ("wrong", ON_SHARDS)
    assert f"sim resume {found.run}" in (answer.hint or "")
    assert found.hash == sim.run(world(3), out=None).hash


def test_a_program_that_asks_a_run_on_shards_for_something_is_refused() -> None:
    """Calls on the runner from outside are refused, unless they stop all agents; no thread of the run is left."""
    before = threading.active_count()
    refused: list[str] = []

    def begun(runner: RunController) -> None:
        control = Control(runner.simulation.manager)
        for call in (control.pause_all, lambda: control.stop("i0a-1"), lambda: control.publish("alarm")):
            with pytest.raises(UsageError) as caught:
                call()
            refused.append(str(caught.value))
        (loop, *_) = runner.simulation.manager.loops.values()
        for wait in (runner.simulation.manager.stop_all, loop.stop):
            with pytest.raises(UsageError) as caught:
                wait().send(None)
            refused.append(str(caught.value))

    on_shards(2, nullcontext(Inside))(world(3), out=None, begun=begun)
    assert refused == 5 * [ON_SHARDS]
    assert threading.active_count() == before
