"""A day of the people of one town: where they live, work and eat, and when they walk there.

The town is a grid of lots: places for all in the middle, homes around them. Nobody enters the outermost cells, so that
towns that lie side by side do not touch. Everything is drawn from one stream, and only here; the whole day costs a few
milliseconds, which is why any window of it can be looked at alone.
"""

from array import array
from collections.abc import Iterator, Sequence

import attrs

from sim.kernel.rng import Stream

WIDTH, HEIGHT = 100, 140
TOWN = 25
"""People of a town."""
HOUR = 360

_LOT = 14  # cells
_COLUMNS, _ROWS = 7, 9
_MARGIN = (1, 7)  # cells left free along the western and the southern edge
_ROOM = 5  # cells of a lot that are walked on, less one
_CAFE, _PUB, _STORE, _PARK, _COLLEGE, _OFFICE = (3, 4), (4, 4), (2, 4), (3, 3), (3, 5), (2, 3)
_WORK = ((_CAFE, 2), (_STORE, 2), (_COLLEGE, 4), (_OFFICE, 4), (_PUB, 2))  # the others work at home
_COUPLES = 11
_HOMES = 24
_EARLY, _LATE = (5.7, 0.3, 5.2, 6.2), (7.6, 0.4, 7.0, 8.6)
_EARLY_OF = 1
_LIVELY = 0.1
_PUBLIC = (_CAFE, _PUB, _STORE, _PARK, _COLLEGE, _OFFICE)
_TABLES = (0, 7)
_SEATS = 1
_LUNCH = (_CAFE, _PUB, _PARK)
_EVENING = (_PUB, _PARK, _STORE, _CAFE)
_LUNCH_OUT = 0.3  # share of people who have lunch at the cafe
_EVENING_OUT = 0.8  # the same for a place in the evening
_STAY = (60, 300)  # steps between two moves within a place

Spot = tuple[int, int]
Lot = tuple[int, int]


@attrs.frozen
class Resident:
    """One person's day.

    Args:
        wakes: the step at which the day begins.
        sleeps: the step at which it ends.
        bed: where the person is at midnight.
        walks: when it sets out for where, in order; a walk that is under way ends there.
        liveliness: how much it does and says, compared with others.
    """

    wakes: int
    sleeps: int
    bed: Spot
    walks: tuple[tuple[int, Spot], ...]
    liveliness: float

    def awake(self, step: int) -> bool:
        """Tell whether the person is up."""
        return self.wakes <= step < self.sleeps


def residents(stream: Stream) -> tuple[Resident, ...]:
    """Return the people of a town."""
    lots = [lot for lot in ((i, j) for i in range(_COLUMNS) for j in range(_ROWS)) if lot not in _PUBLIC]
    lots.sort(key=lambda lot: max(abs(lot[0] - _CAFE[0]), abs(lot[1] - _CAFE[1])))
    houses = stream.sample(lots[:_HOMES], TOWN - _COUPLES)
    homes = houses + houses[:_COUPLES]
    jobs: list[Lot | None] = [lot for lot, people in _WORK for _ in range(people)]
    jobs += [None] * (TOWN - len(jobs))
    stream.shuffle(jobs)
    order = list(range(TOWN))
    stream.shuffle(order)  # so that the first of a town are not those who live together
    rises = [_near(stream, *(_EARLY if i % 8 < _EARLY_OF else _LATE)) for i in range(len(houses))]
    rises += [rise + stream.randint(0, HOUR // 6) for rise in rises[:_COUPLES]]
    return tuple(_resident(stream, homes[i], i >= TOWN - _COUPLES, rises[i], jobs[i] or homes[i]) for i in order)


def _resident(stream: Stream, home: Lot, second: bool, wakes: int, work: Lot) -> Resident:
    corner = _corner(home)
    bed = (corner[0] + (2 if second else 0), corner[1])
    desk = _spot(stream, work)
    leaves = max(wakes + HOUR // 2, _near(stream, 8.4, 0.4, 7.5, 9.5))
    lunch = _near(stream, 11.95, 0.15, 11.6, 12.4)
    back = max(lunch + HOUR // 2, _near(stream, 13.0, 0.2, 12.6, 13.6))
    ends = _near(stream, 17.0, 0.6, 15.5, 18.5)
    rests = _near(stream, 20.5, 0.8, 19.0, 22.0)
    sleeps = max(rests + HOUR // 3, _near(stream, 22.7, 0.7, 21.0, 23.9))
    out = stream.random() < _LUNCH_OUT
    evening = stream.choice(_EVENING) if stream.random() < _EVENING_OUT else home
    stays: list[tuple[int, int, Lot, Spot | None]] = [  # from when until when where; a spot to which one returns
        (wakes, leaves, home, None),
        (leaves, lunch, work, desk),
        (lunch, back, stream.choice(_LUNCH) if out else work, None if out else desk),
        (back, ends, work, desk),
        (ends, rests, evening, None),
        (rests, sleeps, home, None),
    ]
    walks = [walk for stay in stays for walk in _stay(stream, *stay)]
    walks.append((sleeps, bed))
    return Resident(wakes, sleeps, bed, tuple(walks), stream.lognormvariate(0.0, _LIVELY))


def _stay(stream: Stream, start: int, end: int, lot: Lot, own: Spot | None) -> Iterator[tuple[int, Spot]]:
    """Yield the moves within a place: to its own spot and, in between, to others."""
    step = start
    while step < end:
        yield step, own if own is not None and stream.random() < 0.8 else _spot(stream, lot)
        step += stream.randint(*_STAY)


def _near(stream: Stream, hour: float, spread: float, low: float, high: float) -> int:
    """Draw a step near an hour of the day."""
    return round(min(max(stream.gauss(hour, spread), low), high) * HOUR)


def _corner(lot: Lot) -> Spot:
    return _MARGIN[0] + lot[0] * _LOT + 2, _MARGIN[1] + lot[1] * _LOT + 2


def _spot(stream: Stream, lot: Lot) -> Spot:
    x, y = _corner(lot)
    if lot in _PUBLIC:
        return x + stream.choice(_TABLES) + stream.randint(0, _SEATS), y + stream.choice(_TABLES) + stream.randint(0, _SEATS)
    return x + stream.randint(0, _ROOM), y + stream.randint(0, _ROOM)


def path(resident: Resident, first_step: int, steps: int) -> tuple["array[int]", "array[int]"]:
    """Return where a person is at the start of each step of a window, and at its end: x and y.

    It walks one cell a step, first along x, then along y.
    """
    end = first_step + steps + 1
    xs, ys = array("H"), array("H")
    x, y = resident.bed
    starts = [*(step for step, _ in resident.walks[1:]), end]
    first_walk = resident.walks[0][0]
    _extend(xs, ys, x, y, min(first_walk, end) - first_step)
    for (start, goal), until in zip(resident.walks, starts, strict=True):
        if start >= end:
            break
        until = min(until, end)
        x, y = _walk(xs, ys, (x, y), goal, (start, until, first_step))
    return xs, ys


def _walk(
    xs: "array[int]", ys: "array[int]", here: Spot, goal: Spot, times: tuple[int, int, int]
) -> Spot:
    """Add a walk and the stay after it; times are its start, its end and the first step to be added."""
    start, until, first = times
    (x, y), moves = here, 0
    for step in range(start, until):
        if (x, y) == goal:
            _extend(xs, ys, x, y, until - max(step, first))
            return x, y
        if step >= first:
            xs.append(x)
            ys.append(y)
        if x != goal[0]:
            x += 1 if goal[0] > x else -1
        else:
            y += 1 if goal[1] > y else -1
        moves += 1
    return x, y


def _extend(xs: "array[int]", ys: "array[int]", x: int, y: int, times: int) -> None:
    if times > 0:
        xs.extend(array("H", [x]) * times)
        ys.extend(array("H", [y]) * times)


def near_pairs(spots: Sequence[Spot], distance: int) -> list[tuple[int, int]]:
    """Return the pairs, as numbers, that are at most so far apart."""
    return [
        (i, j)
        for i, (x, y) in enumerate(spots)
        for j in range(i)
        if abs(x - spots[j][0]) <= distance and abs(y - spots[j][1]) <= distance
    ]
