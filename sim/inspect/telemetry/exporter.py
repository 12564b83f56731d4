"""The exporter: reads a run at each scrape, and limits the share of time for scrapes. Part of the edge."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

from prometheus_client import CollectorRegistry, make_wsgi_app, write_to_textfile
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from sim.base.errors import UsageError
from sim.host.watchdog import Stuck
from sim.inspect.telemetry.catalog import VALUES
from sim.inspect.telemetry.readers import (
    EffectReader,
    read_agents,
    read_bus,
    read_models,
    read_named,
    read_resources,
    read_run,
    read_world,
)
from sim.inspect.telemetry.sheet import Labels, Row, Sheet
from sim.kernel.codec import Json
from sim.runner import RunController

Status = Literal["starting", "running", "finished", "interrupted", "failed"]

STATUSES: Final[tuple[Status, ...]] = ("starting", "running", "finished", "interrupted", "failed")

SHARE: Final = 100
"""Reading a run takes at most 1/`SHARE` of real time. More frequent scrapes get the values of the last reading."""

STUCK: Final = 60.0
"""Real seconds for which one step can run before the run counts as unhealthy."""


class Exporter(Collector):
    """Exposes the metrics of one run.

    Pass `begun` and `stuck` as the hooks of `sim.run` with the same names, and call `ended` when the run has ended.

    Args:
        agents: patterns such as `writer-*`; matching agents get their own series, at most 50 agents in total.
        clock: returns monotonic real time in seconds.
        cost: returns the CPU time of the calling thread in seconds, to measure the cost of a scrape.

    Attributes:
        spent: the CPU time of all readings so far, in seconds.
        application: the WSGI application that answers a scrape in the format and encoding that it asks for.

    Raises:
        UsageError: if there are more than 50 patterns.
    """

    def __init__(
        self,
        agents: tuple[str, ...] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        cost: Callable[[], float] = time.thread_time,
    ) -> None:
        if len(agents) > VALUES["agent"]:
            raise UsageError(f"at most {VALUES['agent']} patterns for series of agents are allowed, not {len(agents)}")
        self._agents = agents
        self._clock = clock
        self._cost = cost
        self._lock = threading.Lock()
        self._status: Status = "starting"
        self._runner: RunController | None = None
        self._began = self._stopped = 0.0
        self._step: tuple[object, float] = (None, 0.0)
        self._stuck = 0
        self.spent = 0.0
        self._labels = Labels()
        self._peaks: dict[tuple[str, Row], float] = {}
        self._effects = EffectReader(clock)
        self._kept: list[Family] | None = None  # what was read last
        self._kept_until = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._registry.register(self)
        self.application: Callable[..., list[bytes]] = make_wsgi_app(self._registry)

    # -- hooks of the run

    def begun(self, runner: RunController) -> None:
        """Report that the run begins."""
        self._began = self._clock()
        self._runner = runner
        self._status = "running"

    def stuck(self, stuck: Stuck) -> None:
        """Report a step that does not yield."""
        self._stuck += 1

    def ended(self, status: Status) -> None:
        """Report that the run has ended; its last values can still be scraped."""
        with self._lock:
            self._stopped = self._clock()
            self._status = status
            self._kept = None

    # -- requests of the endpoint and the command line

    def health(self) -> tuple[bool, dict[str, Json]]:
        """Return whether the run is healthy, and its status. A run that failed or has a stuck step is unhealthy."""
        runner = self._runner
        with self._lock:
            age = self._step_age()
        answer: dict[str, Json] = {
            "status": self._status,
            "simulated_seconds": None if runner is None else runner.now,
            "step_seconds": round(age, 3),
        }
        return self._status != "failed" and age < STUCK, answer

    def write(self, path: Path) -> None:
        """Write all metrics to a file, atomically, for the textfile collector of the Prometheus node exporter.

        Raises:
            OSError: if the file cannot be written.
        """
        write_to_textfile(str(path), self._registry)

    # -- callback of the client library

    def collect(self) -> Iterable[Family]:
        """Read the run, unless that was just done, and return its metrics."""
        with self._lock:
            if self._kept is None or self._clock() >= self._kept_until:
                before = self._cost()
                self._kept = list(self._read())
                spent = self._cost() - before
                self.spent += spent
                self._kept_until = self._clock() + spent * SHARE
            return self._kept

    def _read(self) -> Iterable[Family]:
        sheet, runner = Sheet(self._labels, self._peaks), self._runner
        for status in STATUSES:
            sheet.add("run_status", status == self._status, status)
        if runner is not None:
            wall = (self._stopped or self._clock()) - self._began
            sheet.add("wall_seconds", wall)
            sheet.add("speed_ratio", runner.now / wall if wall else 0.0)
            sheet.add("step_seconds", self._step_age())
            sheet.add("stuck_steps", self._stuck)
            sheet.add("scrape_seconds", self.spent)
            figures = runner.figures()  # once: it is a pass over all agents
            for read_figures in (read_run, read_agents, read_world):
                read_figures(runner, figures, sheet)
            if runner.shards is not None:
                return sheet.families()  # the rest is in the processes of the shards
            for read in (read_bus, read_resources, self._effects.read, read_models):
                read(runner, sheet)
            if self._agents:
                read_named(runner, sheet, self._agents)
        return sheet.families()

    def _step_age(self) -> float:
        """Return how long the present step has been observed, in real seconds; 0 for a new step."""
        runner, now = self._runner, self._clock()
        here = runner is not None and runner.shards is None and self._status == "running"
        step = runner.simulation.world.kernel.step_under_way() if runner is not None and here else None
        if step is None or step is not self._step[0]:
            self._step = (step, now)
        return now - self._step[1]
