"""What the scenario does during a run: it publishes events, samples metrics, and checks the stop condition."""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, TypeVar

from sim.base.expressions import Expression
from sim.kernel import Source, Timer, to_seconds
from sim.kernel.actor import STOP_CONDITION, entry_source
from sim.kernel.duration import MAX_NS
from sim.runner.events import MetricSampled
from sim.runner.state_samples import StateSamples
from sim.scenario.assembly.build import Simulation
from sim.scenario.schedule import Scheduled
from sim.scenario.schema import Event, Scenario
from sim.world import World

EVENT, INTERVENTION = 0, 1
"""The lists of a scenario each of whose entries is a source of its own: their numbers in `entry_source`."""

Samples = dict[str, list[float | None]]

Entry = TypeVar("Entry", bound=Scheduled)


class Timetable(Generic[Entry]):
    """Carries out each entry of a list at its times.

    Args:
        world: the world, for its time and its calendar.
        call_at: sets a timer of the entry at a place in the list.
        happen: carries out an entry; called with its place in the list and the entry.

    Attributes:
        pending: by place in the list, the timer of the next time.
    """

    def __init__(
        self,
        world: World,
        call_at: Callable[[int, int, Callable[[], None]], Timer],
        happen: Callable[[int, Entry], object],
    ) -> None:
        self.pending: dict[int, Timer] = {}
        self._world = world
        self._call_at = call_at
        self._happen = happen
        self._entries: tuple[Entry, ...] = ()
        self._version = 0  # of the entries: timers of an earlier version do nothing

    def start(self, entries: Sequence[Entry]) -> None:
        """Set the first timers."""
        self._entries = tuple(entries)
        for place, entry in enumerate(self._entries):
            self._set_after(place, entry, -1, 1)

    def replace(self, entries: Sequence[Entry], after: int) -> None:
        """Replace the entries by others, of which only the times after a given one (nanoseconds) count."""
        if tuple(entries) == self._entries:
            return
        self._version += 1
        self._entries = tuple(entries)
        self.pending.clear()
        for place, entry in enumerate(self._entries):
            self._set_after(place, entry, after, 1 + entry.count_until(after, self._world.calendar))

    def _set_after(self, place: int, entry: Entry, after: int, number: int) -> None:
        """Set the timer for the `number`-th time of an entry: its next time after `after` (nanoseconds)."""
        time, version = entry.after(after, self._world.calendar), self._version
        if time is None or (entry.times is not None and number > entry.times):
            return

        def happen() -> None:
            if version != self._version:
                return
            del self.pending[place]
            self._happen(place, entry)
            if version == self._version:  # otherwise it has replaced the entries, and itself
                self._set_after(place, entry, time, number + 1)

        # also after the end: a branch may last longer, and must not differ otherwise
        self.pending[place] = self._call_at(place, time, happen)


class ScenarioTimers:
    """The timers of the scenario: each entry of `events` is a source of its own, and so are the samples.

    At one instant, the events fire in the order of the list, then a sample is taken, and then the agents run.

    Attributes:
        times: the times of samples, in simulated seconds.
        samples: the sampled values by name, one for each of `times`; None where there is no value.
        stopped_by: the stop condition that ended the run, or None.
        sampler: the timer of the next sample.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.times: list[float] = []
        self.samples: Samples = {name: [] for name in simulation.scenario.metrics.values}
        self.stopped_by: str | None = None
        self.sampler: Timer | None = None
        self._sampled_ns = -1  # the time of the latest sample
        self._simulation = simulation
        self._kernel = simulation.world.kernel
        self._scenario = simulation.scenario
        self._times: list[int] = []  # heap of the times of all timers
        self._stop = Source("stop", STOP_CONDITION)  # its own, so that the check changes no key of the scenario
        self._states = StateSamples(simulation.world, self._scenario.recording.state)
        bus = simulation.world.event_bus

        def publish(place: int, event: Event) -> None:
            bus.publish(event.topic, event.data)

        self._sources: dict[int, Source] = {}  # by place in `events`
        self._events = Timetable(simulation.world, self._of_event, publish)

    def start(self) -> None:
        """Set the first timers."""
        self._events.start(self._scenario.events)
        if self._samples_are_due():
            self._sample_at(0)

    def change(self, scenario: Scenario, after: int) -> None:
        """Take events and stop condition from `scenario`, which differs in live parameters only.

        Args:
            scenario: the scenario from now on.
            after: the time (nanoseconds) up to which events count as past: they are not published later.
        """
        sampling = self._samples_are_due()
        self._scenario = scenario
        self._events.replace(scenario.events, after)
        if scenario.stop and not sampling:
            self._sample_at(self._kernel.now)

    def _samples_are_due(self) -> bool:
        return bool(self._scenario.metrics.values or self._scenario.stop or self._scenario.recording.state)

    def sample(self) -> Mapping[str, float | None]:
        """Evaluate and record all metrics now, and the state variables that the scenario names."""
        values = self._values()
        if self._sampled_ns < 0 and (values or self._scenario.recording.state):
            self._sample_again(self._simulation.manager.made)
        self._sampled_ns = self._kernel.now
        if values:
            self.times.append(to_seconds(self._kernel.now))
            for name, value in values.items():
                self.samples[name].append(value)
            self._kernel.emit(MetricSampled.TOPIC, values, "scenario")
        self._states.record()
        return values

    def _sample_again(self, made: int) -> None:
        """Replace the first sample if agents are created at its instant, so that it counts them."""

        def look() -> None:
            if self._simulation.manager.made != made and self._sampled_ns == self._kernel.now:
                with self._kernel.acting_as(self._kernel.scenario):
                    self._replace()

        self._kernel.call_last(look, self._stop)

    def _replace(self) -> None:
        """Take the latest sample once more, and replace it if a value has changed."""
        values = self._values()
        if any(self.samples[name][-1] != value for name, value in values.items()):
            for name, value in values.items():
                self.samples[name][-1] = value
            self._kernel.emit(MetricSampled.TOPIC, values, "scenario")
        self._states.record()

    def publish_end(self) -> None:
        """Publish the events that the scenario has `at: end`, at the end of a run."""
        self._kernel.begin_anew()
        for place, event in enumerate(self._scenario.events):
            if event.at == "end":
                with self._kernel.acting_as(self._source(place)):
                    self._simulation.world.event_bus.publish(event.topic, event.data)

    def sample_end(self) -> None:
        """Sample the final state, at the end of a run.

        A sample of the same instant was taken before the agents acted; if they changed a value, this one replaces it.
        """
        kernel = self._kernel
        kernel.begin_anew()
        with kernel.acting_as(kernel.scenario):
            if self._sampled_ns != kernel.now:
                self.sample()
                return
            self._replace()

    def _values(self) -> Mapping[str, float | None]:
        return {name: self._value(name, e, lenient=True) for name, e in self._scenario.metrics.values.items()}

    def _sample_at(self, time: int) -> None:
        def look() -> None:
            self.sample()
            if self._scenario.stop is not None:
                self._kernel.call_last(self._check_stop, self._stop)
            self._sample_at(time + self._scenario.metrics.every)

        self.sampler = self._at(time, look, self._kernel.scenario)

    def _check_stop(self) -> None:
        """End the run if the stop condition holds, after all steps of an instant."""
        stop = self._scenario.stop
        if stop is not None and self._value("stop.when", stop.when):
            self.stopped_by = stop.when.text
            self._kernel.halt()

    def next_time(self) -> int:
        """Return the time of the next timer in simulated nanoseconds. The timer may read any state."""
        return self._times[0] if self._times else MAX_NS

    def _of_event(self, place: int, time: int, callback: Callable[[], None]) -> Timer:
        return self._at(time, callback, self._source(place))

    def _source(self, place: int) -> Source:
        source = self._sources.get(place)
        if source is None:
            source = self._sources[place] = entry_source("scenario", EVENT, place)
        return source

    def _at(self, time: int, callback: Callable[[], None], source: Source) -> Timer:
        time = max(time, self._kernel.now)
        heappush(self._times, time)

        def happen() -> None:
            heappop(self._times)  # the timer that fires is always the earliest
            callback()

        return self._kernel.call_at(time, happen, source)

    def _value(self, name: str, expression: Expression, *, lenient: bool = False) -> float | None:
        return self._simulation.metric_functions.value_of(name, expression, lenient=lenient)
