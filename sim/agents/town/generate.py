"""Makes traces of towns whose statistics are those published of Generative Agents' town.

The original traces are not public; what was published of them (Xie et al., "AI Metropolis", MLSys 2025) is: 25 agents
on 100 x 140 cells, steps of 10 s, 56,700 calls a day, on average 642.6 tokens of input and 21.9 of output, about 5,000
calls from 12 to 13 o'clock and 800 from 6 to 7, and 1.85 agents, itself included, that an agent depends on. Larger
crowds are towns side by side.

What is behind the numbers follows Generative Agents (Park et al., 2023): most steps of an agent make no call; who looks
around makes a few, one after the other, who turns to something new about seven; who reflects, or talks to somebody,
makes a dozen in one step, because a conversation is written at once, to its end; who wakes up plans the day in thirty.
Such long chains are what a barrier after each step waits for.

What was not published (how long chains are, how the crowd stands, which kinds of calls are how frequent) was chosen,
together with the rates of the server in `scenarios/town.yaml`, such that the published speed-ups of the paper's own
scheduler come out; on seeds 101 to 103 only.
"""

import math
from array import array
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import attrs

from sim.agents.town.routine import HEIGHT, HOUR, TOWN, WIDTH, Resident, path, residents
from sim.agents.town.trace import DAY_STEPS, Path, Trace, TraceCall
from sim.errors import UsageError
from sim.kernel.rng import Stream, derive

MAX_AGENTS = 10_000
"""More would not fit on the grid, whose cells are counted with 16 bits."""

CALLS_BY_HOUR = (
    300, 100, 60, 60, 80, 300, 800, 2400, 3300, 3300, 3200, 3900,
    5000, 4200, 3500, 3300, 3300, 3600, 3900, 3700, 3100, 2700, 1700, 900,
)  # fmt: skip
"""Calls of 25 agents in each hour of the day: 56,700. Hours 6 and 12 are published, as is the sum; the rest is drawn
freehand."""

_INPUT, _OUTPUT = 642.6, 21.9  # tokens: published means
_INPUT_SPREAD, _OUTPUT_SPREAD = 0.45, 0.5  # of the logarithm
_SHORTEST = 16  # tokens of input

RADIUS, SPEED = 4, 1
"""Cells that an agent of Generative Agents sees, and goes in a step."""

Chains = Mapping[int, tuple[TraceCall, ...]]
"""The calls of one agent, by step."""

Kind = Literal["look", "act", "reflect", "talk", "plan"]


@attrs.frozen
class _Chain:
    """What calls of one kind are like: how many follow each other, and their tokens in relation to those of others."""

    shortest: int
    longest: int
    input: float
    output: float


_CHAINS: dict[Kind, _Chain] = {
    "look": _Chain(1, 3, 0.8, 0.7),
    "act": _Chain(4, 9, 0.9, 1.0),
    "reflect": _Chain(6, 14, 1.2, 1.0),
    "talk": _Chain(6, 17, 1.3, 1.0),
    "plan": _Chain(20, 40, 1.0, 1.5),
}
_SHARES: dict[Kind, float] = {"talk": 0.08, "reflect": 0.04, "act": 0.40, "look": 0.48}  # of calls; plans come first
_ON_TIME = 0.77  # share of what people do and look at that begins with a full minute, as their schedules do
_MINUTE = 6  # steps
_TRIES = 12  # times that one looks for somebody who is up, or for two who are near each other
_MOOD = 0.2  # spread of the logarithm of how lively a person is in an hour, compared with others


def _scaled() -> dict[Kind, tuple[float, float]]:
    """Return the logarithms of the median tokens for each kind, such that the means of a day are those published."""
    plan = _CHAINS["plan"]
    planned = TOWN * (plan.shortest + plan.longest) / 2 / sum(CALLS_BY_HOUR)
    shares = {kind: share * (1 - planned) for kind, share in _SHARES.items()} | {"plan": planned}
    inputs = sum(share * _CHAINS[kind].input for kind, share in shares.items())
    outputs = sum(share * _CHAINS[kind].output for kind, share in shares.items())
    return {
        kind: (
            math.log(_INPUT * chain.input / inputs) - _INPUT_SPREAD**2 / 2,
            math.log(_OUTPUT * chain.output / outputs) - _OUTPUT_SPREAD**2 / 2,
        )
        for kind, chain in _CHAINS.items()
    }


_MEDIANS = _scaled()


def generate(
    seed: int, agents: int = TOWN, first_step: int = 0, steps: int = DAY_STEPS, name: str = "villager"
) -> Trace:
    """Make the trace of a window of a day.

    A part of it is the same whatever else is made: the first 25 of 1,000 agents do what 25 agents of the same seed do,
    and an hour is that hour of the day.

    Args:
        seed: of everything that is drawn.
        agents: how many; each 25 are a town of their own.
        first_step: where the window begins, in steps of 10 s from midnight.
        steps: how long it is.
        name: what the agents are called: `villager-1`, ...

    Raises:
        UsageError: if there are too few or too many agents, or the window is not within a day.
    """
    if not 1 <= agents <= MAX_AGENTS:
        raise UsageError(f"a town has 1 to {MAX_AGENTS} agents, not {agents}")
    if not (first_step >= 0 < steps and first_step + steps <= DAY_STEPS):
        raise UsageError(f"a trace lies within the {DAY_STEPS} steps of a day, not from {first_step} for {steps}")
    towns = -(-agents // TOWN)
    parts = [part for town in range(towns) for part in _town(seed, town, first_step, steps)][:agents]
    return Trace(
        width=WIDTH * towns,
        height=HEIGHT,
        first_step=first_step,
        steps=steps,
        agents=(name,) if agents == 1 else tuple(f"{name}-{number + 1}" for number in range(agents)),
        positions=tuple(path for path, _ in parts),
        calls=tuple(calls for _, calls in parts),
        radius=RADIUS,
        speed=SPEED,
    )


def _town(seed: int, town: int, first_step: int, steps: int) -> Iterator[tuple[Path, Chains]]:
    """Yield what each person of one town does."""
    people = residents(Stream(derive("town routine", seed, town)))
    hours = range(first_step // HOUR, (first_step + steps - 1) // HOUR + 1)
    begin, last_step = hours[0] * HOUR, first_step + steps
    paths = [Path(*path(person, begin, len(hours) * HOUR)) for person in people]  # whole hours: talks depend on them
    chains = [
        _Hour(Stream(derive("town calls", seed, town, hour)), hour, people, paths, begin).chains() for hour in hours
    ]
    cut = slice(first_step - begin, last_step - begin + 1)
    for agent, whole in enumerate(paths):
        x = array("H", [x + town * WIDTH for x in whole.x[cut]])
        own = [(step, tuple(calls)) for of_hour in chains for step, calls in sorted(of_hour[agent].items())]
        yield Path(x, whole.y[cut]), {step: calls for step, calls in own if first_step <= step < last_step}


class _Hour:
    """What the people of a town call in one hour."""

    def __init__(
        self, stream: Stream, hour: int, people: Sequence[Resident], paths: Sequence[Path], begin: int
    ) -> None:
        self._stream = stream
        self._first = hour * HOUR
        self._left = CALLS_BY_HOUR[hour]
        self._people = people
        self._paths = paths
        self._begin = begin  # the step at which the paths begin
        self._weights = list(accumulate(person.liveliness * math.exp(stream.gauss(0.0, _MOOD)) for person in people))
        self._chains: list[dict[int, list[TraceCall]]] = [{} for _ in people]

    def chains(self) -> list[dict[int, list[TraceCall]]]:
        """Return the calls of each, by step."""
        for agent, person in enumerate(self._people):
            if self._first <= person.wakes < self._first + HOUR:
                self._add("plan", agent, person.wakes, self._left)
        shares = {kind: round(self._left * share) for kind, share in _SHARES.items()}
        talked = self._spend("talk", shares["talk"], self._talks())
        acts = shares["act"] + shares["talk"] - talked  # where nobody meets, nobody talks
        acts -= self._spend("act", acts, self._setting_out())
        self._spend("act", acts, self._anybody(on_time=_ON_TIME))
        self._spend("reflect", shares["reflect"], self._anybody())
        self._spend("look", self._left, self._anybody(on_time=_ON_TIME))
        return self._chains

    def _spend(self, kind: Kind, calls: int, occasions: Iterator[tuple[int, int]]) -> int:
        """Make chains of a kind until so many calls are made, or no occasion is left; return how many were made."""
        left = calls
        while left > 0 and (occasion := next(occasions, None)) is not None:
            left -= self._add(kind, *occasion, left)
        return calls - left

    def _add(self, kind: Kind, agent: int, step: int, most: int) -> int:
        """Let an agent make one chain of calls, and return how many there were."""
        chain, gauss = _CHAINS[kind], self._stream.gauss
        count = min(self._stream.randint(chain.shortest, chain.longest), most)
        inputs, outputs = _MEDIANS[kind]
        calls = self._chains[agent].setdefault(step, [])
        for _ in range(count):
            tokens_in = round(math.exp(inputs + gauss(0.0, _INPUT_SPREAD)))
            tokens_out = round(math.exp(outputs + gauss(0.0, _OUTPUT_SPREAD)))
            calls.append(TraceCall(max(_SHORTEST, tokens_in), max(1, tokens_out)))
        self._left -= count
        return count

    # -- occasions: agent and step

    def _anybody(self, on_time: float = 0.0) -> Iterator[tuple[int, int]]:
        """Yield people who are up, the livelier the more often; if nobody is found, somebody who dreams."""
        stream, people, weights = self._stream, self._people, self._weights
        while True:
            grain = _MINUTE if stream.random() < on_time else 1
            for _ in range(_TRIES):
                step = self._first + stream.randrange(HOUR // grain) * grain
                agent = bisect(weights, stream.random() * weights[-1])
                if people[agent].awake(step):
                    break
            yield agent, step

    def _talks(self) -> Iterator[tuple[int, int]]:
        """Yield people who are up and see somebody else who is, until none are found any more."""
        tries = 0
        while tries < _TRIES:
            step = self._first + self._stream.randrange(HOUR)
            pairs = self._pairs(step)
            tries = 0 if pairs else tries + 1
            if pairs:
                yield self._stream.choice(pairs)[self._stream.randrange(2)], step

    def _pairs(self, step: int) -> list[tuple[int, int]]:
        index = step - self._begin
        up = [
            (agent, path.x[index], path.y[index])
            for agent, (person, path) in enumerate(zip(self._people, self._paths, strict=True))
            if person.awake(step)
        ]
        return [
            (one, other)
            for i, (one, x, y) in enumerate(up)
            for other, other_x, other_y in up[:i]
            if abs(x - other_x) <= RADIUS and abs(y - other_y) <= RADIUS
        ]

    def _setting_out(self) -> Iterator[tuple[int, int]]:
        """Yield who turns to something else and walks there."""
        for agent, person in enumerate(self._people):
            for step, _ in person.walks:
                if self._first <= step < self._first + HOUR and step != person.wakes:
                    yield agent, step
