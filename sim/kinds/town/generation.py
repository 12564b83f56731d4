"""Generates traces of towns with the published statistics of the town of Generative Agents.

The original traces are not public. Published are (Xie et al., "AI Metropolis", MLSys 2025): 25 agents on 100 x 140
cells, steps of 10 s, 56,700 calls per day, means of 642.6 input tokens and 21.9 output tokens per call, about 5,000
calls from 12 to 13 o'clock and 800 from 6 to 7, and a mean of 1.85 agents on which an agent depends, including itself.
Larger populations are several towns side by side.

The kinds of calls follow Generative Agents (Park et al., 2023). In most steps an agent makes no call. Looking around
takes a few calls in sequence, and a new activity about seven. A reflection or a conversation takes about a dozen calls
in one step, because a conversation is generated as a whole. After waking up, planning the day takes about thirty. A
barrier after each step has to wait for such long chains.

The unpublished parameters are the lengths of chains, the distribution of agents in space and the frequencies of the
kinds of calls. They were chosen, together with the rates of the server in `scenarios/town.yaml`, to reproduce the
published speed-ups of the scheduler of the paper; only seeds 101 to 103 were used for this.
"""

import math
from array import array
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import attrs

from sim.base.errors import UsageError
from sim.kernel.rng import Stream, derive
from sim.kinds.town.routine import HEIGHT, HOUR, TOWN, WIDTH, Resident, path, residents
from sim.kinds.town.trace import DAY_STEPS, Path, TownTrace, TraceCall

MAX_AGENTS = 10_000
"""The maximum number of agents, because x coordinates are stored in 16 bits."""

CALLS_BY_HOUR = (
    300, 100, 60, 60, 80, 300, 800, 2400, 3300, 3300, 3200, 3900,
    5000, 4200, 3500, 3300, 3300, 3600, 3900, 3700, 3100, 2700, 1700, 900,
)  # fmt: skip
"""Calls of 25 agents in each hour of the day, 56,700 in total. The values of hours 6 and 12 and the total are
published (Xie et al., 2025); the other values are estimates."""

_INPUT, _OUTPUT = 642.6, 21.9  # published mean tokens per call
_INPUT_SPREAD, _OUTPUT_SPREAD = 0.45, 0.5  # standard deviations of the logarithm of the tokens
_SHORTEST = 16  # minimum number of input tokens

RADIUS, SPEED = 4, 1
"""Perception radius and speed of an agent of Generative Agents, in cells and cells per step."""

Chains = Mapping[int, tuple[TraceCall, ...]]
"""The calls of one agent, by step."""

Kind = Literal["look", "act", "reflect", "talk", "plan"]


@attrs.frozen
class _Chain:
    """Parameters of one kind of call: minimum and maximum length of a chain, and relative numbers of tokens."""

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
_SHARES: dict[Kind, float] = {"talk": 0.08, "reflect": 0.04, "act": 0.40, "look": 0.48}  # of calls, without plans
_ON_TIME = 0.77  # share of `act` and `look` chains that begin at a full minute, because schedules do
_MINUTE = 6  # steps in a minute
_TRIES = 12  # maximum attempts to draw an awake resident, or a step with two of them near each other
_MOOD = 0.2  # standard deviation of the logarithm of liveliness, per resident and hour


def _scaled() -> dict[Kind, tuple[float, float]]:
    """Return the logarithms of the median input and output tokens per kind that give the published daily means."""
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
) -> TownTrace:
    """Generate the trace of a window of a day.

    A part of a trace does not depend on the other parts. With the same seed, the first 25 of 1,000 agents do the same
    as 25 agents alone, and a window has the same content as that window of a whole day.

    Args:
        seed: the seed of all random draws.
        agents: number of agents; each group of 25 is a separate town.
        first_step: first step of the window, in steps of 10 s from midnight.
        steps: length of the window, in steps.
        name: prefix of the names of the agents: `villager-1`, ...

    Raises:
        UsageError: if the number of agents is out of range, or the window is not within one day.
    """
    if not 1 <= agents <= MAX_AGENTS:
        raise UsageError(f"a town has 1 to {MAX_AGENTS} agents, not {agents}")
    if not (first_step >= 0 < steps and first_step + steps <= DAY_STEPS):
        raise UsageError(
            f"a trace must be within the {DAY_STEPS} steps of a day, but this one has {steps} steps from {first_step}"
        )
    towns = -(-agents // TOWN)
    parts = [part for town in range(towns) for part in _town(seed, town, first_step, steps)][:agents]
    return TownTrace(
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
    """Yield the path and the calls of each resident of one town."""
    people = residents(Stream(derive("town routine", seed, town)))
    hours = range(first_step // HOUR, (first_step + steps - 1) // HOUR + 1)
    begin, last_step = hours[0] * HOUR, first_step + steps
    # whole hours, because the occasions of `talk` chains are drawn from a whole hour
    paths = [Path(*path(person, begin, len(hours) * HOUR)) for person in people]
    chains = [
        _Hour(Stream(derive("town calls", seed, town, hour)), hour, people, paths, begin).chains() for hour in hours
    ]
    cut = slice(first_step - begin, last_step - begin + 1)
    for agent, whole in enumerate(paths):
        x = array("H", [x + town * WIDTH for x in whole.x[cut]])
        own = [(step, tuple(calls)) for of_hour in chains for step, calls in sorted(of_hour[agent].items())]
        yield Path(x, whole.y[cut]), {step: calls for step, calls in own if first_step <= step < last_step}


class _Hour:
    """Generates the calls of the residents of a town in one hour."""

    def __init__(
        self, stream: Stream, hour: int, people: Sequence[Resident], paths: Sequence[Path], begin: int
    ) -> None:
        self._stream = stream
        self._first = hour * HOUR
        self._left = CALLS_BY_HOUR[hour]
        self._people = people
        self._paths = paths
        self._begin = begin  # the first step of the paths
        self._weights = list(accumulate(person.liveliness * math.exp(stream.gauss(0.0, _MOOD)) for person in people))
        self._chains: list[dict[int, list[TraceCall]]] = [{} for _ in people]

    def chains(self) -> list[dict[int, list[TraceCall]]]:
        """Return the calls of each resident, by step."""
        for agent, person in enumerate(self._people):
            if self._first <= person.wakes < self._first + HOUR:
                self._add("plan", agent, person.wakes, self._left)
        shares = {kind: round(self._left * share) for kind, share in _SHARES.items()}
        talked = self._spend("talk", shares["talk"], self._talks())
        acts = shares["act"] + shares["talk"] - talked  # `talk` calls without an occasion become `act` calls
        acts -= self._spend("act", acts, self._setting_out())
        self._spend("act", acts, self._anybody(on_time=_ON_TIME))
        self._spend("reflect", shares["reflect"], self._anybody())
        self._spend("look", self._left, self._anybody(on_time=_ON_TIME))
        return self._chains

    def _spend(self, kind: Kind, calls: int, occasions: Iterator[tuple[int, int]]) -> int:
        """Add chains of a kind up to a number of calls, or until no occasion is left; return the number added."""
        left = calls
        while left > 0 and (occasion := next(occasions, None)) is not None:
            left -= self._add(kind, *occasion, left)
        return calls - left

    def _add(self, kind: Kind, agent: int, step: int, most: int) -> int:
        """Add one chain of at most `most` calls, and return its length."""
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

    # -- occasions: pairs (agent, step)

    def _anybody(self, on_time: float = 0.0) -> Iterator[tuple[int, int]]:
        """Yield awake residents, weighted by liveliness; a sleeping one if all attempts fail."""
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
        """Yield awake residents that see another awake resident, until all attempts in a row fail."""
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
        """Yield residents that depart for another destination."""
        for agent, person in enumerate(self._people):
            for step, _ in person.walks:
                if self._first <= step < self._first + HOUR and step != person.wakes:
                    yield agent, step
