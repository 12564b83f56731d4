"""The runs of a bench, in processes side by side, and the machine that they run on (edge)."""

import contextlib
import gc
import os
import platform
import signal
import sys
import time
from collections import deque
from collections.abc import Generator, Mapping
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import attrs

from sim.bench.concurrency import Concurrency
from sim.bench.modes import ORACLE, PARALLEL, Mode
from sim.bench.plan import Job, TrialPlan
from sim.bench.trial import Status, Trial, figures_of, sentence
from sim.errors import UsageError
from sim.runner import SimulationRunner, run

_SPAWN = get_context("spawn")


Seen = dict[tuple[str, int], tuple[str, ...]]
"""Whom an agent saw in a step."""


@attrs.define
class _Meter:
    """Notes when a run begins in earnest, and which calls are under way.

    Args:
        seen: what an oracle is to know; None: it is none.
        study: note whom each agent sees, for an oracle.
    """

    seen: Seen | None = None
    study: bool = False
    with_models: bool = False
    began: float = 0.0
    concurrency: Concurrency | None = None
    runner: SimulationRunner | None = None

    def __call__(self, runner: SimulationRunner) -> None:
        self.runner = runner
        if runner.sync is not None and self.study:
            runner.sync.study()
        models = runner.simulation.models
        self.with_models = models is not None
        if runner.sync is None and models is not None:
            self.concurrency = models.counts = Concurrency(runner)
        if runner.sync is not None and self.seen is not None:
            runner.sync.know(self.seen)
        self.began = time.process_time()

    def studied(self) -> Seen:
        """Return whom each agent saw."""
        sync = None if self.runner is None else self.runner.sync
        return {} if sync is None or sync.seen is None else sync.seen


def cores() -> int:
    """Return how many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """Return what the bench runs on."""
    return {"processor": _processor(), "cores": cores(), "system": platform.system(), "release": platform.release()}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure(plan: TrialPlan, processes: int) -> Generator[Trial]:
    """Run all that is planned and yield each run as soon as it is through.

    What is running is killed when the caller wants no more; nothing of it is on disk.

    Args:
        plan: what is run.
        processes: how many run at once.
    """
    waiting = deque(plan.jobs)
    working: dict[connection.Connection, _Work] = {}
    try:
        while waiting or working:
            while waiting and len(working) < processes:
                work = _Work.start(waiting.popleft())
                working[work.receiver] = work
            for receiver in connection.wait(list(working)):
                work = working[receiver]  # type: ignore[index]
                try:
                    trial = work.receiver.recv()
                    work.missing.remove(trial.mode)
                    yield trial
                except (EOFError, OSError):  # the latter in the middle of what it had to tell
                    del working[work.receiver]
                    yield from work.end()
    finally:
        for work in working.values():
            work.process.kill()
        for work in working.values():
            work.end()


@attrs.frozen
class _Work:
    """A process with one job; `missing` are the modes that it has not told of."""

    job: Job
    process: SpawnProcess
    receiver: connection.Connection
    missing: list[str]

    @classmethod
    def start(cls, job: Job) -> "_Work":
        receiver, sender = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(target=_work, args=(job, sender), name="sim-bench", daemon=True)
        process.start()
        sender.close()
        return cls(job, process, receiver, [mode.name for mode in job.modes])

    def end(self) -> list[Trial]:
        """Clear the process away; return what it should have measured and did not."""
        self.process.join()
        self.receiver.close()
        problem = f"the process that ran it ended before (exit code {self.process.exitcode})"
        turns = [mode.name for mode in self.job.modes]
        return [
            Trial(self.job.point, self.job.seed, mode, turns.index(mode), "failed", problem) for mode in self.missing
        ]


def _work(job: Job, sender: connection.Connection) -> None:
    """Run a job in all its modes; the main function of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.redirect_stdout(sys.stderr):  # what agents print is no result
        if not job.synchronised:  # makespan may be real time: imports must not count for the first mode
            _warm(job)
        seen: Seen | None = None
        asked = any(mode.name == ORACLE for mode in job.modes)
        for turn, mode in enumerate(job.modes):
            if mode.name == ORACLE and seen is None:
                seen = _study(job)
            meter = _Meter(seen if mode.name == ORACLE else None, study=asked and mode.name == PARALLEL)
            sender.send(_trial(job, mode, turn, meter))
            if meter.study:
                seen = meter.studied()
    sender.close()


def _warm(job: Job) -> None:
    """Run one instant, so that everything has been imported."""
    mode, changes = job.modes[0].settings(synchronised=False)
    with contextlib.suppress(Exception):  # the run itself will say it
        run(job.scenario, seed=job.seed, mode=mode, until=1e-9, overrides=job.overrides + changes, allow=job.allow)


def _study(job: Job) -> Seen:
    """Run a job behind barriers, and return who sees whom."""
    meter = _Meter(study=True)
    changes = (*job.overrides, "execution.sync=barrier")
    with contextlib.suppress(UsageError):  # the oracle's own run will say it
        run(job.scenario, seed=job.seed, mode="tick", overrides=changes, allow=job.allow, begun=meter)
    return meter.studied()


def _trial(job: Job, mode: Mode, turn: int, meter: _Meter) -> Trial:
    run_mode, changes = mode.settings(synchronised=job.synchronised)
    trial = Trial(job.point, job.seed, mode.name, turn)
    gc.collect()  # what an earlier run has left is not cleared away in the time of this one
    try:
        result = run(
            job.scenario, seed=job.seed, mode=run_mode, overrides=job.overrides + changes, allow=job.allow, begun=meter,
            on_interrupt="return",
        )  # fmt: skip
        if result.status != "finished":
            sys.exit(1)  # somebody ends this process
        figures: Mapping[str, Any] = figures_of(
            result, time.process_time() - meter.began, with_models=meter.with_models,
        )  # fmt: skip
        if figures["basis"] == "simulated" and meter.concurrency is not None:
            mean, parts = meter.concurrency.over_time()
            figures = {**figures, "in_flight": mean, "concurrency": parts}
        return attrs.evolve(trial, **figures)
    except UsageError as error:
        status: Status = "refused" if mode.may_refuse else "failed"
        return attrs.evolve(trial, status=status, problem=sentence(error))
    except Exception as error:
        return attrs.evolve(trial, status="failed", problem=sentence(error))
