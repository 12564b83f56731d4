"""What attribution finds, against models whose answers are known: a cascade, an urn, a planted message."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sim
from sim.experiments.attribution.candidates import EventCandidates
from sim.experiments.attribution.forks import FORKS, ForkedFutures
from sim.experiments.attribution.halving import Halving
from sim.experiments.attribution.significance import wilson
from sim.experiments.attribution.target import ExplainedOutcome
from sim.experiments.attribution.task import FutureChange, FuturesTask, RunSetup
from sim.kernel.rng import derive
from sim.record import open_run
from sim.runner.options import ReplayOptions
from sim.runner.plain import StepMoment

pytestmark = [pytest.mark.proof, pytest.mark.skipif(not FORKS, reason="processes are not forked here")]

ROOT = Path(__file__).parents[2]
WHOLE = os.environ.get("SIM_CAMPAIGN") == "whole"
NS = 10**9

TOWN = """
name: town
until: 22s
places: {grid: [1, 1]}
agents:
  - name: person
    count: 21
    place: "=0"
    start: "=index"
    state: {choice: 0, hint: 0, seen: 0}
    rules:
      - when: hint == 0
        set: {hint: "=1 if chance(0.6) else -1", seen: "=sum(state_of(n, 'choice') for n in nearby())"}
      - {when: choice != 0, do: {sleep: {for: 1h}}}
      - {when: abs(seen) >= 2, set: {choice: "=1 if seen > 0 else -1"}}
      - {when: seen == -hint, set: {choice: "=choice([1, -1])"}}
      - {set: {choice: "=hint"}}
metrics: {every: 1s, values: {right: "count('person', 'choice', 1)", wrong: "count('person', 'choice', -1)"}}
"""
"""One town of scenarios/cascade.yaml."""

URN = """
name: urn
until: 40s
agents:
  - name: urn
    state: {red: 1, black: 1}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: chance(red / (red + black)), set: {red: "=red + 1"}}
      - {set: {black: "=black + 1"}}
metrics: {every: 1s, values: {red: "mean('urn', 'red')"}}
"""
"""The urn of Polya and Eggenberger (1923)."""

LOAD = """
name: load
until: 510s
agents:
  - name: sink
    state: {total: 0.0}
    loop: {mailbox_size: 1000}
    rules:
      - {when: message is not None, set: {total: "=total + message.data"}}
      - {do: {sleep: {message: true}}}
  - name: source
    state: {left: 500, heavy: "=randint(1, 500)"}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: left == 0, do: stop}
      - set: {left: "=left - 1"}
        do: {send: {to: sink, topic: load, data: "=gauss(0, 1) + (60 if left == heavy else 0)"}}
metrics: {every: 60s, values: {total: "mean('sink', 'total')"}}
"""


def recorded(folder: Path, text: str, seed: int) -> Path:
    """Return the folder of a run of a scenario."""
    file = folder / "scenario.yaml"
    file.write_text(text, encoding="utf-8")
    return Path(str(sim.run(file, out=folder / "runs", seed=seed).run))


@contextmanager
def futures_of(run: Path, text: str, *moments: StepMoment) -> Iterator[ForkedFutures]:
    """Give futures of a run."""
    target = ExplainedOutcome.parse(text, sim.load(run / "scenario.yaml"))
    futures = ForkedFutures(RunSetup(str(run), ReplayOptions(), target), [StepMoment(0), *moments], 2)
    try:
        yield futures
    finally:
        futures.close()


def shares(run: Path, text: str, seed: int, moments: list[StepMoment], n: int) -> list[int]:
    """Return in how many of n futures a condition is true, at each moment."""
    seeds = tuple(derive("proof", seed, number) % 2**31 for number in range(n))
    with futures_of(run, text, *moments) as futures:
        found = futures.values([FuturesTask(moment, seeds) for moment in moments])
    return [round(sum(one.value or 0.0 for one in task)) for task in found]


def test_intervals_of_a_cascade_cover_what_theory_says(tmp_path):
    """At the start P(right) is 0.632, after one more seen right 0.926, after one more wrong 0.189 (Bikhchandani 1992).

    The intervals of independent runs cover these at about the nominal rate.
    """
    count, n, covered, seen = 20 if WHOLE else 6, 60 if WHOLE else 30, [], set()
    for seed in range(1, count + 1):
        run = recorded(tmp_path, TOWN, seed)
        with sim.open(run) as stored:
            right = stored.metrics["right"][1] > 0
        hits = shares(run, "last('right') > 10", seed, [StepMoment(0), StepMoment(NS)], n)
        seen.add(right)
        for truth, own in zip((0.632, 0.926 if right else 0.189), hits, strict=True):
            low, high = wilson(own, n)
            covered.append(low <= truth <= high)
    assert seen == {True, False}
    assert sum(covered) >= 0.88 * len(covered) - 1, covered


def beta_binomial(red: int, black: int, draws: int, more: int) -> float:
    """Return the probability of at least so many more red ones in an urn."""

    def beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return sum(
        math.comb(draws, k) * math.exp(beta(red + k, black + draws - k) - beta(red, black))
        for k in range(max(0, more), draws + 1)
    )


def test_intervals_of_an_urn_cover_the_exact_probabilities(tmp_path):
    """Given what was drawn, the number of red ones is beta-binomial; intervals cover it at about the nominal rate."""
    count, n, covered = 20 if WHOLE else 5, 60 if WHOLE else 30, []
    for seed in range(1, count + 1):
        run = recorded(tmp_path, URN, seed)
        with sim.open(run) as stored:
            red = stored.metrics["red"]
        times = (0, 5, 20)
        hits = shares(run, "last('red') > 21", seed, [StepMoment(time * NS) for time in times], n)
        for time, own in zip(times, hits, strict=True):
            reds = 1 if time == 0 else int(red[time])
            truth = beta_binomial(reds, 2 + time - reds, 40 - time, 22 - reds)
            low, high = wilson(own, n)
            covered.append(low <= truth + 1e-9 and truth - 1e-9 <= high)
    assert sum(covered) >= 0.88 * len(covered) - 1, covered


def test_one_message_of_500_is_found(tmp_path):
    """The message of weight among 500 is the first that halving finds, in at least 11 of 12 runs."""
    hits, count = 0, 12 if WHOLE else 2
    for seed in range(1, count + 1):
        run = recorded(tmp_path, LOAD, seed)
        with open_run(run) as stored:
            sql = "SELECT id FROM events WHERE topic = 'message.sent' ORDER BY data ->> '$.data' + 0 DESC LIMIT 1"
            ((heavy,),) = stored.query(sql)
            candidates = EventCandidates.of(stored, ()).candidates(stored)
        assert len(candidates) == 500
        with futures_of(run, "last('total')") as futures:

            def effects(groups, futures=futures):
                tasks = []
                for group in groups:
                    edits = tuple(edit for one in group for edit in one.change.without)
                    tasks.append(FuturesTask(group[0].moment, (None,), FutureChange(without=edits)))
                return [futures.own.value - one.value for (one,) in futures.values(tasks)]

            (found,) = Halving(effects, 60, most=1).search(candidates)
        hits += found.items[0].event == heavy
    assert hits >= count - 1


def test_futures_of_a_shipped_scenario_are_what_branches_are(tmp_path):
    """In all of 40 cases, a forked future has the metrics at its end that `sim.branch` has from there."""
    file = ROOT / "scenarios" / "contagion.yaml"
    run = Path(str(sim.run(file, out=tmp_path / "runs", until="6d").run))
    text = "last('R') + last('I') / 100 + last('S') / 10000 + mean_days_ill"
    moments = [StepMoment(hours * 3600 * NS) for hours in (1, 7, 20, 33, 50, 71, 90, 120)]
    seeds = tuple(range(5))
    with futures_of(run, text, *moments[::2]) as futures:
        found = [[one.value for one in task] for task in futures.values([FuturesTask(one, seeds) for one in moments])]
    target = ExplainedOutcome.parse(text, sim.load(run / "scenario.yaml"))
    for moment, values in zip(moments, found, strict=True):
        for seed, value in zip(seeds, values, strict=True):
            watched = target.watch()
            result = sim.branch(run, at=f"{moment.time_ns}ns", seed=seed, record=False, begun=watched)
            assert target.value(result, watched) == value
