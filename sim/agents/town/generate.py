"""Makes traces of towns whose statistics are those published of Generative Agents' town.

The original traces are not public; what was published of them (Xie et al., "AI Metropolis", MLSys 2025) is: 25 agents
on 100 x 140 cells, steps of 10 s, 56,700 calls a day, on average 642.6 tokens of input and 21.9 of output, about 5,000
calls from 12 to 13 o'clock and 800 from 6 to 7, and 1.85 agents, itself included, that an agent depends on. Larger
crowds are towns side by side.

What is behind the numbers follows Generative Agents (Park et al., 2023): most steps of an agent make no call; somebody
who looks around makes a few, who turns to something new about seven, one after the other; who wakes up plans the day,
reflects, or talks to somebody makes dozens in one step, because a conversation is written at once, to its end. Such
long chains are what a barrier after each step waits for.
"""

from array import array
from bisect import bisect
from collections.abc import Iterator, Mapping
from itertools import accumulate
from math import exp, log
from typing import Literal

import attrs

from sim.agents.town.routine import HEIGHT, HOUR, TOWN, WIDTH, Resident, near_pairs, path, residents
from sim.agents.town.trace import DAY_STEPS, Call, Path, Trace
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
_INPUT_SPREAD, _OUTPUT_SPREAD = 0.45, 0.7  # of the logarithm
_RADIUS = 4

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
    "reflect": _Chain(8, 16, 1.2, 1.0),
    "talk": _Chain(8, 20, 1.3, 1.0),
    "plan": _Chain(20, 40, 1.0, 1.5),
}
_TALK, _REFLECT, _ACT = 0.08, 0.04, 0.40  # shares of an hour's calls; what is left is looking around
_TALK_NOON = 0.08
_ON_TIME = 0.8  # share of what people do and look at that begins with a full minute
_MINUTE = 6  # steps
_TRIES = 12  # times that one looks for somebody who is up, or for two who are near each other
_MOOD = 0.2  # spread of the logarithm of how lively a person is in an hour


def _expected_share(kind: Kind) -> float:
    """Return the share of a day's calls that are of a kind."""
    total = sum(CALLS_BY_HOUR)
    plan = TOWN * (_CHAINS["plan"].shortest + _CHAINS["plan"].longest) / 2 / total
    noon = CALLS_BY_HOUR[12] / total
    talk = _TALK * (1 - noon) + _TALK_NOON * noon
    look = 1 - talk - _REFLECT - _ACT
    return {"look": look, "act": _ACT, "reflect": _REFLECT, "talk": talk}.get(kind, 0.0) * (1 - plan) + (
        plan if kind == "plan" else 0.0
    )


def generate(seed: int, agents: int = TOWN, first_step: int = 0, steps: int = DAY_STEPS, name: str = "villager") -> Trace:
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
    positions: list[Path] = []
    calls: list[Mapping[int, tuple[Call, ...]]] = []
    towns = -(-agents // TOWN)
    for town in range(towns):
        _town(seed, town, first_step, steps, positions, calls)
    names = (name,) if agents == 1 else tuple(f"{name}-{i + 1}" for i in range(agents))
    return Trace(
        WIDTH * towns, HEIGHT, first_step, steps, names, tuple(positions[:agents]), tuple(calls[:agents]), radius=_RADIUS
    )


def _town(
    seed: int,
    town: int,
    first_step: int,
    steps: int,
    positions: list[Path],
    calls: list[Mapping[int, tuple[Call, ...]]],
) -> None:
    """Add the people of one town."""
    people = residents(Stream(derive("town routine", seed, town)))
    hours = range(first_step // HOUR, (first_step + steps - 1) // HOUR + 1)
    begin = hours[0] * HOUR
    paths = [path(person, begin, len(hours) * HOUR) for person in people]  # whole hours: talks depend on them
    chains: list[dict[int, list[Call]]] = [{} for _ in people]
    for hour in hours:
        _Hour(Stream(derive("town calls", seed, town, hour)), hour, people, paths, begin).fill(chains)
    cut = slice(first_step - begin, first_step - begin + steps + 1)
    for (x, y), chain in zip(paths, chains, strict=True):
        x = x[cut]
        for i in range(len(x)):
            x[i] += town * WIDTH
        positions.append(Path(x, y[cut]))
        last = first_step + steps
        calls.append({step: tuple(chain[step]) for step in sorted(chain) if first_step <= step < last})


class _Hour:
    """What the people of a town call in one hour."""

    def __init__(
        self,
        stream: Stream,
        hour: int,
        people: tuple[Resident, ...],
        paths: "list[tuple[array[int], array[int]]]",
        begin: int,
    ) -> None:
        self._stream = stream
        self._hour = hour
        self._people = people
        self._paths = paths
        self._begin = begin
        self._weights = list(
            accumulate(person.liveliness * stream.lognormvariate(0.0, _MOOD) for person in people)
        )

    def fill(self, chains: list[dict[int, list[Call]]]) -> None:
        stream, first = self._stream, self._hour * HOUR
        budget = CALLS_BY_HOUR[self._hour]
        for i, person in enumerate(self._people):
            if first <= person.wakes < first + HOUR:
                budget -= self._add(chains, "plan", i, person.wakes, budget)
        talk = round(budget * (_TALK_NOON if self._hour == 12 else _TALK))
        reflect = round(budget * _REFLECT)
        act = round(budget * _ACT)
        budget -= talk + reflect + act
        while talk > 0 and (pair := self._pair()) is not None:
            step, i = pair
            talk -= self._add(chains, "talk", i, step, talk)
        act += talk
        for step, i in self._setting_out():
            act -= self._add(chains, "act", i, step, act)
        while act > 0:
            step, i = self._somebody(_MINUTE if stream.random() < _ON_TIME else 1)
            act -= self._add(chains, "act", i, step, act)
        while reflect > 0:
            step, i = self._somebody()
            reflect -= self._add(chains, "reflect", i, step, reflect)
        while budget > 0:
            step, i = self._somebody(_MINUTE if stream.random() < _ON_TIME else 1)
            budget -= self._add(chains, "look", i, step, budget)

    def _add(self, chains: list[dict[int, list[Call]]], kind: Kind, agent: int, step: int, most: int) -> int:
        stream, chain = self._stream, _CHAINS[kind]
        count = min(stream.randint(chain.shortest, chain.longest), most)
        if count <= 0:
            return 0
        spreads = _INPUT_SPREAD, _OUTPUT_SPREAD
        mean_in, mean_out = _SCALED[kind]
        calls = chains[agent].setdefault(step, [])
        gauss = stream.gauss
        for _ in range(count):
            calls.append(
                Call(
                    max(16, round(exp(mean_in + gauss(0.0, _INPUT_SPREAD)))),
                    max(1, round(exp(mean_out + gauss(0.0, _OUTPUT_SPREAD)))),
                )
            )
        return count

    def _somebody(self, grain: int = 1) -> tuple[int, int]:
        stream, first = self._stream, self._hour * HOUR
        step = i = 0
        for _ in range(_TRIES):
            step = first + stream.randrange(HOUR // grain) * grain
            i = bisect(self._weights, stream.random() * self._weights[-1])
            if self._people[i].awake(step):
                break
        return step, i

    def _pair(self) -> tuple[int, int] | None:
        stream, first = self._stream, self._hour * HOUR
        for _ in range(_TRIES):
            step = first + stream.randrange(HOUR)
            index = step - self._begin
            up = [i for i, person in enumerate(self._people) if person.awake(step)]
            spots = [(self._paths[i][0][index], self._paths[i][1][index]) for i in up]
            pairs = near_pairs(spots, _RADIUS)
            if pairs:
                return step, up[stream.choice(pairs)[stream.randrange(2)]]
        return None

    def _setting_out(self) -> Iterator[tuple[int, int]]:
        first = self._hour * HOUR
        for i, person in enumerate(self._people):
            for step, _ in person.walks:
                if first <= step < first + HOUR and step != person.wakes:
                    yield step, i


def _scaled() -> dict[Kind, tuple[float, float]]:
    """Return the logarithms of the medians for each kind, such that the means of a day are those published."""
    ins = sum(_expected_share(kind) * chain.input for kind, chain in _CHAINS.items())
    outs = sum(_expected_share(kind) * chain.output for kind, chain in _CHAINS.items())
    return {
        kind: (
            log(_INPUT * chain.input / ins) - _INPUT_SPREAD**2 / 2,
            log(_OUTPUT * chain.output / outs) - _OUTPUT_SPREAD**2 / 2,
        )
        for kind, chain in _CHAINS.items()
    }


_SCALED = _scaled()
