"""What the scenario does during a run: it publishes events, samples metrics, and checks the stop condition."""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush

from sim.assembly.build import Simulation
from sim.errors import RunError
from sim.expressions import Expression, ExpressionError
from sim.kernel import Timer, to_seconds
from sim.kernel.duration import MAX_NS
from sim.scenario.schema import Event, Scenario

Samples = dict[str, list[float]]


class ScenarioTimers:
    """The timers of the scenario. Their source is the scenario, so they fire before the agents at each instant.

    Attributes:
        times: the times of samples, in simulated seconds.
        samples: the sampled values by name, one for each of `times`.
        stopped_by: the stop condition that ended the run, or None.
        sampler: the timer of the next sample.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.times: list[float] = []
        self.samples: Samples = {name: [] for name in simulation.scenario.metrics.values}
        self.stopped_by: str | None = None
        self.sampler: Timer | None = None
        self._simulation = simulation
        self._world = simulation.world
        self._kernel = simulation.world.kernel
        self._scenario = simulation.scenario
        self._times: list[int] = []  # heap of the times of all timers
        self._version = 0  # of the events: timers of an earlier version do nothing

    def start(self) -> None:
        """Set the first timers."""
        for event in self._scenario.events:
            self._inject_after(event, -1, 1)
        if self._scenario.metrics.values or self._scenario.stop:
            self._sample_at(0)

    def change(self, scenario: Scenario) -> None:
        """Take events and stop condition from `scenario` from now on; it differs in live parameters only.

        Events in the past are not published later.
        """
        sampling = bool(self._scenario.metrics.values or self._scenario.stop)
        same, self._scenario = scenario.events == self._scenario.events, scenario
        now = self._kernel.now
        if not same:
            self._version += 1
        for event in () if same else scenario.events:
            self._inject_after(event, now, 1 + self._published_until(event, now))
        if scenario.stop and not sampling:
            self._sample_at(now)

    def sample(self) -> Mapping[str, float]:
        """Evaluate and record all metrics now."""
        values = {name: self._value(name, e) for name, e in self._scenario.metrics.values.items()}
        if values:
            self.times.append(to_seconds(self._kernel.now))
            for name, value in values.items():
                self.samples[name].append(value)
            self._kernel.emit("metric.sample", values, "scenario")
        return values

    def sample_end(self) -> None:
        """Sample the final state, at the end of a run, unless a sample was taken at that time."""
        kernel = self._kernel
        if not self.times or self.times[-1] != to_seconds(kernel.now):
            with kernel.acting_as(kernel.scenario):
                self.sample()

    def _published_until(self, event: Event, now: int) -> int:
        """Return how often an event has been published until now."""
        if event.every is not None:
            return 0 if event.at is None or event.at > now else (now - event.at) // event.every + 1
        count, time = 0, event.after(-1, self._world.calendar)
        while time is not None and time <= now:
            count, time = count + 1, event.after(time, self._world.calendar)
        return count

    def _inject_after(self, event: Event, after: int, number: int) -> None:
        """Publish an event for the `number`-th time, at its next time after `after` (nanoseconds)."""
        time, version = event.after(after, self._world.calendar), self._version
        if time is None or (event.times is not None and number > event.times):
            return

        def inject() -> None:
            if version != self._version:
                return
            self._world.event_bus.publish(event.topic, event.data)
            self._inject_after(event, time, number + 1)

        self._at(time, inject)  # also after the end: a branch may last longer, and must not differ otherwise

    def _sample_at(self, time: int) -> None:
        def look() -> None:
            self.sample()
            stop = self._scenario.stop
            if stop is not None and self._value("stop.when", stop.when):
                self.stopped_by = stop.when.text
                self._kernel.halt()
            self._sample_at(time + self._scenario.metrics.every)

        self.sampler = self._at(time, look)

    def next_time(self) -> int:
        """Return the time of the next timer in simulated nanoseconds; it may read any state."""
        return self._times[0] if self._times else MAX_NS

    def _at(self, time: int, callback: Callable[[], None]) -> Timer:
        time = max(time, self._kernel.now)
        heappush(self._times, time)

        def happen() -> None:
            heappop(self._times)  # the timer that fires is always the earliest
            callback()

        return self._kernel.call_at(time, happen, self._kernel.scenario)

    def _value(self, name: str, expression: Expression) -> float:
        census = self._simulation.census
        try:
            value = expression.evaluate(census.names(), census.functions)
        except ExpressionError as error:
            raise RunError(f"{name} cannot be evaluated: {error}") from error
        if not isinstance(value, bool | int | float):
            raise RunError(f"{name} must be a number or a truth value, not {value!r}")
        return value
