"""What is exposed of a run, and that the run does not notice."""

import json
import subprocess
import threading
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from sim.actors import Agent, AgentLoopConfig
from sim.actors.state import AgentState
from sim.base.errors import UsageError
from sim.host.watchdog import Stuck
from sim.inspect.telemetry import CATALOG, Exporter
from sim.inspect.telemetry.catalog import MAX_SERIES
from sim.inspect.telemetry.exporter import SHARE, STUCK
from sim.kernel import Effect, perform
from sim.runner import run
from sim.world import Action
from tests.dashboards.conftest import tool
from tests.helpers import exposition

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
HOSTILE = '"><script>alert(1)</script>\n\x1b[31m\u202e\ud800' + "x" * 1000


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return all samples by name and labels; none may come twice."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(text: str, name: str, /, **labels: str) -> float:
    """Return one sample."""
    return samples(text)[name, frozenset(labels.items())]


def test_every_metric_of_the_catalog_is_exposed_and_no_other(watch, everything):
    """Runs in both modes, paced and not, together expose what the catalog says: names, types and help texts."""
    exposed: dict[str, Family] = {}
    for how in ({}, {"mode": "tick"}, {"speed": 1e6}):
        text = watch(everything, agents=("writer-*",), **how).run().text()
        exposed |= {family.name: family for family in parse(text) if family.name.startswith("sim_")}
    catalog = {metric.name.removesuffix("_total"): metric for metric in CATALOG.values()}
    assert set(exposed) == set(catalog)
    for name, family in exposed.items():
        assert (family.type, family.documentation) == (catalog[name].kind, catalog[name].help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(catalog[name].labels)


def test_the_numbers_are_those_of_the_run(watch, everything):
    """Counters say the same as the summary of the run."""
    watched = watch(everything).run()
    text, keeper = watched.text(), watched.keeper
    result = watched.runner.finish("finished", keeper, run=None, backend="asyncio", wall_seconds=1)
    found = samples(text)

    def total(name: str, /, **labels: str) -> float:
        return sum(v for (n, having), v in found.items() if n == name and having >= frozenset(labels.items()))

    assert total("sim_iterations_total") == result.iterations
    assert total("sim_iteration_errors_total") == result.errors == 4
    assert total("sim_wakeups_total") == result.wakeups
    assert total("sim_actions_total", outcome="ok") == result.actions
    assert total("sim_actions_total", outcome="refused") == sum(result.refused.values())
    assert {s: total("sim_agents", state=s) for s in result.states} == result.states
    assert total("sim_simulated_seconds_total") == result.sim_seconds == 1200
    assert total("sim_value", name="done") == result.metrics["done"][-1]
    assert total("sim_observations_total", name="size") == result.observations["size"].n
    model = result.models["models"]["simulated:small"]
    assert total("sim_model_calls_total", outcome="answered") == model["calls"]
    assert total("sim_model_requests_total") == model["attempts"]
    assert total("sim_model_requests_total", outcome="rate_limit") == total("sim_model_endpoint_refused_total") > 0
    assert total("sim_model_retries_total") == model["attempts"] - model["calls"] - model["failed"]
    assert total("sim_model_tokens_total", kind="input") == model["input_tokens"]
    assert total("sim_model_cost_units_total") == pytest.approx(model["cost_micro"] / 1e6)
    assert total("sim_model_call_seconds_count") == model["calls"] + model["failed"]
    assert total("sim_model_calls_in_flight") == 0
    assert total("sim_crashes_total") == total("sim_restarts_total", reason="errors") == 1
    assert 0 < total("sim_budget_fullest_ratio") < 1
    assert total("sim_rate_limit", scope="total") == 30


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_the_exposition_is_valid(watch, everything, accept):
    """Both formats are accepted by their parsers, and the text format by Prometheus' own tool."""
    body, content_type = exposition(watch(everything).run().exporter, accept)
    if accept:
        assert content_type.startswith("application/openmetrics-text")
        assert list(parse_openmetrics(body.decode()))
        assert body.endswith(b"# EOF\n")
    else:
        assert content_type.startswith("text/plain")
        done = subprocess.run([tool("promtool"), "check", "metrics"], input=body, capture_output=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, b"")


class Hostile(Agent):
    """Uses its name as a kind of action, too."""

    async def decide_action(self) -> Action:
        return Action(HOSTILE + self.agent_id, {})


def test_hostile_names_are_harmless(watch):
    """A name with quotes, line ends, control characters, marks and lone surrogates stays within one label's value."""
    watched = watch("name: calm\nuntil: 1m\nagents: [{name: a}]\n", agents=("*",))
    simulation = watched.runner.simulation
    for number in range(3):
        agent = Hostile(f"{number}{HOSTILE}", simulation.world)
        simulation.manager.create_loop(agent, AgentLoopConfig(min_loop_delay=10.0)).start_now()
    text = watched.run().text()
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert sum(sample[0] == "sim_agent_iterations_total" for sample in samples(text)) == 4
    assert list(parse_openmetrics(exposition(watched.exporter, OPENMETRICS)[0].decode()))


MANY = """
name: many
until: 1s
limits: {%(limits)s}
budgets: {%(budgets)s}
quotas: {%(quotas)s}
pools: {%(pools)s}
models: {provider: scripted, tiers: {%(tiers)s}}
agents: [{name: a, count: 10000, group: "g", limits: {l0: 5 per 1m}, rules: [{do: {sleep: {for: 1h}}}]}]
metrics: {every: 1s, values: {%(values)s}}
"""


@pytest.mark.proof
def test_series_are_fewer_than_two_thousand_whatever_a_run_does(watch):
    """10,000 agents in as many groups, with all that can be named named a hundred times, stay below the bound."""
    each = range(100)
    text = MANY % {
        "limits": ", ".join(f"l{n}: {{agent: 9 per 1m, group: 9 per 1m, global: 9 per 1m}}" for n in each),
        "budgets": ", ".join(f"b{n}: {{amount: 1}}" for n in each),
        "quotas": ", ".join(f"q{n}: 5" for n in each),
        "pools": ", ".join(f"p{n}: {{kind: resource}}" for n in each),
        "tiers": ", ".join(f"t{n}: m{n}" for n in each),
        "values": ", ".join(f"v{n}: '1'" for n in each),
    }
    watched = watch(text, agents=("*",))
    world, models = watched.runner.simulation.world, watched.runner.simulation.models
    for number, loop in enumerate(watched.runner.simulation.manager.loops.values()):
        loop.agent.group = f"g{number}"
        loop._state = list(AgentState)[number % len(AgentState)]
    for n in each:
        world.done[f"k{n}"] = world.refused[f"k{n}"] = 1
        world.wakeup_counts["sleeping", f"c{n}"] = 1
        world.observe("a-1", f"o{n}", 1.0)
        world.rate_tracker.reserve("a-1", f"l{n}", 1)
        model = f"p:m{n}"
        models.spend.models[model] = type(models.spend.total)()
        models.counts.in_flight += 1
        models.counts.ended(model, 1.0, [])
        for o in range(20):
            models.counts.requests[model, f"o{o}"] = 1
        models.counts.retries[model] = 1
    watched.runner.feed.samples.update({f"v{n}": [1.0] for n in each})
    found = samples(watched.text())
    assert 1500 < len(found) < MAX_SERIES
    assert {dict(labels)["group"] for name, labels in found if name == "sim_iterations_total"} >= {"g0", "other"}
    assert sum(v for (name, _), v in found.items() if name == "sim_agents") == 10_000


@pytest.mark.proof
def test_ten_thousand_agents_of_one_group_have_a_hundred_series(watch):
    """Without hostile names, the number of series does not depend on the number of agents."""
    text = "name: big\nuntil: 1s\nagents: [{name: a, count: 10000, rules: [{do: {sleep: {for: 1h}}}]}]\n"
    assert len(samples(watch(text).run().text())) < 100


CHURN = """
name: churn
until: 1h
limits: {disk_writes: {agent: 5 per 1m, global: 1000 per 1m}}
costs: {write: {disk_writes: 1}}
pools: {desk: {kind: resource, slots: 2}}
agents:
  - name: door
    count: 5
    loop: {min_loop_delay: 1s}
    rules: [{do: {spawn: {agent: guest}}}]
  - name: guest
    template: true
    state: {n: 0}
    rules:
      - {when: n == 0, do: {acquire: {pool: desk}}, set: {n: 1}}
      - {when: n == 1, do: {write: {artifact: "=me", content: 1}}, set: {n: 2}}
      - {when: n == 2, do: {sleep: {for: "=exponential(2)"}}, set: {n: 3}}
      - do: stop
"""


@pytest.mark.proof
def test_scrapes_during_a_run_change_nothing_and_counters_only_grow(watch):
    """While agents come and go, scrapes from other threads never fail, and the run has the hash of one without."""
    alone, watched = watch(CHURN).run(), watch(CHURN)
    watched.exporter._kept_until = float("-inf")
    stop, failures, texts = threading.Event(), [], []

    def scrape() -> None:
        while not stop.is_set():
            watched.exporter._kept_until = float("-inf")  # no pause between two scrapes
            try:
                texts.append(watched.text())
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=scrape)
    thread.start()
    watched.run()
    stop.set()
    thread.join()
    assert failures == []
    assert len(texts) > 5
    last: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for text in texts:
        now = {key: v for key, v in samples(text).items() if key[0].endswith(("_total", "_bucket", "_count"))}
        assert all(now[key] >= v for key, v in last.items() if key in now)
        last = now
    hashes = [
        w.runner.finish("finished", w.keeper, run=None, backend="asyncio", wall_seconds=1).hash
        for w in (alone, watched)
    ]
    assert hashes[0] == hashes[1]


def test_scrapes_take_their_share_and_no_more(watch, everything):
    """Who scrapes again before the last scrape is paid off gets the same values; afterwards, and at the end, new."""
    now, spent = [100.0], [0.0]
    watched = watch(everything)

    def cost() -> float:
        spent[0] += 0.25
        return spent[0]

    def of_the_run(exporter: Exporter) -> list[str]:
        return [line for line in exposition(exporter)[0].decode().splitlines() if line.startswith("sim_")]

    exporter = Exporter(clock=lambda: now[0], cost=cost)
    exporter.begun(watched.runner)
    first = of_the_run(exporter)
    watched.runner.simulation.world.messages += 1
    now[0] += 0.25 * SHARE - 0.01
    assert of_the_run(exporter) == first
    now[0] += 0.25 * SHARE
    second = exposition(exporter)[0].decode()
    assert value(second, "sim_messages_total") == 1
    assert value(second, "sim_scrape_seconds_total") == exporter.spent - 0.25
    exporter.ended("finished")
    assert value(exposition(exporter)[0].decode(), "sim_run_status", status="finished") == 1


def test_status_and_health(watch, everything):
    """The status goes from starting to running to its end, time stands still then, and a failed run is not well."""
    now = [5.0]
    exporter = Exporter(clock=lambda: now[0])
    assert exporter.health() == (True, {"status": "starting", "simulated_seconds": None, "step_seconds": 0})
    assert [f.name for f in parse(exposition(exporter)[0].decode()) if f.name.startswith("sim_")] == ["sim_run_status"]
    exporter.begun(watch(everything).runner)
    assert exporter.health()[1]["status"] == "running"
    now[0] = 8.0
    exporter.stuck(Stuck("a", 2.0, ""))
    exporter.ended("failed")
    now[0] = 80.0
    text = exposition(exporter)[0].decode()
    assert value(text, "sim_wall_seconds_total") == 3
    assert value(text, "sim_stuck_steps_total") == 1
    assert [value(text, "sim_run_status", status=s) for s in ("running", "failed")] == [0, 1]
    well, answer = exporter.health()
    assert not well
    assert json.loads(json.dumps(answer))["status"] == "failed"


def test_a_step_that_does_not_yield_is_not_well(watch):
    """From outside, the present step is seen to last; when it lasts a minute the run is not well."""
    now = [0.0]
    watched = watch("name: calm\nuntil: 1m\nagents: [{name: a}]\n")
    exporter = Exporter(clock=lambda: now[0])
    exporter.begun(watched.runner)
    world = watched.runner.simulation.world
    seen = []

    class Slow(Agent):
        async def decide_action(self) -> None:
            for seconds in (0.0, 10.0, STUCK):
                now[0] = seconds
                seen.append((exporter.health()[0], value(exposition(exporter)[0].decode(), "sim_step_seconds")))
                exporter._kept_until = float("-inf")
            self.shutdown()

    watched.runner.simulation.manager.create_loop(Slow("slow", world)).start_now()
    watched.run()
    assert seen == [(True, 0), (True, 10), (False, STUCK)]
    assert value(exposition(exporter)[0].decode(), "sim_step_seconds") == 0


def test_effects_in_flight_are_seen_with_their_age(watch):
    """The age of the oldest effect is that since a scrape first saw it, and nothing once it has ended."""
    now, seen = [0.0], []
    watched = watch("name: calm\nuntil: 10m\nagents: [{name: a}]\n")
    exporter = Exporter(clock=lambda: now[0])
    exporter.begun(watched.runner)

    def look() -> tuple[float, float]:
        exporter._kept_until = float("-inf")
        text = exposition(exporter)[0].decode()
        return value(text, "sim_effects_in_flight", kind="http"), value(text, "sim_effect_oldest_seconds")

    async def call(request: object, key: str) -> int:
        for seconds in (0.0, 30.0):
            now[0] = seconds
            seen.append(look())
        return 1

    class Asking(Agent):
        async def decide_action(self) -> None:
            await perform(Effect("http", {}, call, latency_ns=10**9))
            self.shutdown()

    simulation = watched.runner.simulation
    simulation.manager.create_loop(Asking("asking", simulation.world)).start_now()
    watched.run()
    exporter._kept_until = float("-inf")
    text = exposition(exporter)[0].decode()
    assert seen == [(1, 0), (1, 30)]
    assert value(text, "sim_effects_in_flight", kind="any") == 0
    assert value(text, "sim_effects_total", outcome="ok") == 1


def test_agents_have_series_of_their_own_only_when_named(watch, everything):
    """Per-agent series are for the agents that the operator names, by pattern, and for 50 of them at most."""
    assert "writer-1" not in watch(everything).run().text()
    text = watch(everything, agents=("writer-[12]", "failing")).run().text()
    named = {dict(labels).get("agent") for name, labels in samples(text) if name == "sim_agent_wakeups_total"}
    assert named == {"writer-1", "writer-2", "failing"}
    many = watch("name: many\nuntil: 1s\nagents: [{name: a, count: 500}]\n", agents=("*",)).run().text()
    assert sum(name == "sim_agent_iterations_total" for name, _ in samples(many)) == 50
    with pytest.raises(UsageError, match="at most 50 patterns"):
        Exporter(tuple(map(str, range(51))))


def test_a_file_is_written_in_one_move(watch, everything, tmp_path):
    """The file has the text format, replaces what was there, and leaves nothing beside it."""
    file = tmp_path / "run.prom"
    file.write_text("old")
    exporter = watch(everything).run().exporter
    exporter.ended("finished")
    exporter.write(file)
    assert value(file.read_text(), "sim_run_status", status="finished") == 1
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(OSError, match="No such file"):
        exporter.write(tmp_path / "nowhere" / "run.prom")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_hook_comes_once_before_the_first_step(backend, tmp_path):
    """`begun` gets the runner before anything has happened, on each host."""
    file = Path(tmp_path / "tiny.yaml")
    file.write_text("name: tiny\nuntil: 1m\nagents: [{name: a}]\n")
    steps: list[int] = []
    run(file, backend=backend, begun=lambda runner: steps.append(runner.simulation.world.kernel.steps))
    assert steps == [0]


def test_rounds_on_two_axes_count_no_ticks_and_what_has_been_released(watch):
    """Where agents stand at different times no tick begins for all; events count once they are in order."""
    text = "{name: r, until: 5s, execution: {use_autonomous_loops: false, sync: causal}, agents: [{name: a}]}"
    watched = watch(text, mode="tick")
    watched.runner.begin()
    keeper, inner = watched.runner.simulation.world.kernel.recorder, watched.keeper
    assert keeper is not inner
    assert value(watched.text(), "sim_events_recorded_total") == inner.events
    keeper.release()
    assert value(watched.text(), "sim_events_recorded_total") == inner.events > 0
    assert "sim_ticks_total" not in watched.run().text()
