"""The daily routine of the residents of one town: where they live, work and eat, and when they walk there.

The town is a grid of lots: public places in the middle, homes around them. No resident enters the outermost cells, so
that residents of adjacent towns do not see each other. All draws of this module come from one stream. A whole day is
generated in a few milliseconds, so any window of the day is cut from a whole day.
"""

import math
from array import array
from collections.abc import Iterator

import attrs

from sim.kernel.rng import Stream

WIDTH, HEIGHT = 100, 140
TOWN = 25
"""Number of residents of a town."""
HOUR = 360
"""Steps of 10 s in an hour."""

_LOT = 14  # side length, in cells
_COLUMNS, _ROWS = 7, 9
_CORNER = (3, 9)  # first walkable cell of the first lot; cells with a smaller x or y are never entered
_CAFE, _PUB, _STORE, _PARK, _COLLEGE, _OFFICE = (3, 4), (4, 4), (2, 4), (3, 3), (3, 5), (2, 3)
_WORK = ((_CAFE, 2), (_STORE, 2), (_COLLEGE, 4), (_OFFICE, 4), (_PUB, 2))  # (place, workers); the others work at home
_LUNCH = (_CAFE, _PUB, _PARK)
_EVENING = (_PUB, _PARK, _CAFE)
PLACES = {"cafe": _CAFE, "pub": _PUB, "store": _STORE, "park": _PARK, "college": _COLLEGE, "office": _OFFICE}
"""The lots of the public places by name; all others are homes."""
_PUBLIC = tuple(PLACES.values())
_TABLES, _SEATS = (0, 7), 1  # offsets of tables in a public place along x and y; maximum offset of a seat from a table
_ROOM = 7  # largest offset of a cell in a home

_COUPLES = 12  # number of couples; the others live alone
_HOMES = 22  # number of lots around the cafe on which houses can stand
_EARLY_HOUSES = 2  # number of houses, nearest to the cafe, whose residents get up early
_EARLY, _LATE = (5.7, 0.3, 5.2, 6.2), (7.6, 0.4, 7.0, 8.6)  # getting up: mean, standard deviation, min, max hour
_LUNCH_OUT = (0.2, 0.55)  # range of the share of residents who have lunch out; drawn per town
_AT_DESK = 0.8  # share of moves at work that lead back to the own desk
_STAY = (60, 300)  # range of the steps between two moves within a place
_LIVELY = 0.1  # standard deviation of the logarithm of liveliness

Spot = tuple[int, int]
Lot = tuple[int, int]


@attrs.frozen
class Resident:
    """The day of one resident.

    Args:
        wakes: the step at which the resident wakes up.
        sleeps: the step at which the resident goes to sleep.
        bed: the position at midnight.
        walks: pairs (step of departure, destination), in order; a new walk replaces an unfinished one.
        liveliness: relative frequency of model calls, compared with other residents.
    """

    wakes: int
    sleeps: int
    bed: Spot
    walks: tuple[tuple[int, Spot], ...]
    liveliness: float

    def awake(self, step: int) -> bool:
        """Return whether the resident is awake at a step."""
        return self.wakes <= step < self.sleeps


def residents(stream: Stream) -> tuple[Resident, ...]:
    """Draw and return the residents of a town."""
    lots = [(i, j) for i in range(_COLUMNS) for j in range(_ROWS) if (i, j) not in _PUBLIC]
    lots.sort(key=lambda lot: max(abs(lot[0] - _CAFE[0]), abs(lot[1] - _CAFE[1])))
    houses = sorted(stream.sample(lots[:_HOMES], TOWN - _COUPLES), key=lots.index)
    rises = [_near(stream, *(_EARLY if i < _EARLY_HOUSES else _LATE)) for i in range(len(houses))]
    rises += [rise + stream.randint(0, HOUR // 6) for rise in rises[:_COUPLES]]
    homes = houses + houses[:_COUPLES]
    jobs: list[Lot | None] = [lot for lot, people in _WORK for _ in range(people)]
    works = stream.sample(jobs + [None] * (TOWN - len(jobs)), TOWN)
    lunch_out = stream.uniform(*_LUNCH_OUT)
    people = []
    for i in stream.sample(range(TOWN), TOWN):  # shuffled, so that couples are not adjacent in the list
        bed = _corner(homes[i], 2 if i >= len(houses) else 0)
        people.append(_resident(stream, homes[i], bed, rises[i], works[i] or homes[i], lunch_out))
    return tuple(people)


def _resident(stream: Stream, home: Lot, bed: Spot, wakes: int, work: Lot, lunch_out: float) -> Resident:
    desk = _spot(stream, work)
    leaves = max(wakes + HOUR // 2, _near(stream, 8.4, 0.4, 7.5, 9.5))
    lunch = _near(stream, 11.95, 0.15, 11.6, 12.4)
    back = max(lunch + HOUR // 2, _near(stream, 13.0, 0.2, 12.6, 13.6))
    ends = _near(stream, 17.0, 0.6, 15.5, 18.5)
    rests = _near(stream, 20.5, 0.8, 19.0, 22.0)
    sleeps = max(rests + HOUR // 3, _near(stream, 22.7, 0.7, 21.0, 23.9))
    out = stream.random() < lunch_out
    stays: list[tuple[int, int, Lot, Spot | None]] = [  # (start, end, lot, own desk or None)
        (wakes, leaves, home, None),
        (leaves, lunch, work, desk),
        (lunch, back, stream.choice(_LUNCH) if out else work, None if out else desk),
        (back, ends, work, desk),
        (ends, rests, stream.choice(_EVENING), None),
        (rests, sleeps, home, None),
    ]
    walks = [walk for stay in stays for walk in _stay(stream, *stay)]
    walks.append((sleeps, bed))
    return Resident(wakes, sleeps, bed, tuple(walks), math.exp(stream.gauss(0.0, _LIVELY)))


def _stay(stream: Stream, start: int, end: int, lot: Lot, own: Spot | None) -> Iterator[tuple[int, Spot]]:
    """Yield the moves within a place as (step, destination): to the own spot or to other spots."""
    step = start
    while step < end:
        yield step, own if own is not None and stream.random() < _AT_DESK else _spot(stream, lot)
        step += stream.randint(*_STAY)


def _near(stream: Stream, hour: float, spread: float, low: float, high: float) -> int:
    """Draw a step from a normal distribution around an hour of the day, within limits."""
    return round(min(max(stream.gauss(hour, spread), low), high) * HOUR)


def _corner(lot: Lot, aside: int = 0) -> Spot:
    return _CORNER[0] + lot[0] * _LOT + aside, _CORNER[1] + lot[1] * _LOT


def corner_of(place: str) -> Spot:
    """Return the first cell of a public place."""
    return _corner(PLACES[place])


def lot_at(spot: Spot) -> Lot:
    """Return the lot of a cell."""
    return (spot[0] - _CORNER[0]) // _LOT, (spot[1] - _CORNER[1]) // _LOT


def place_at(spot: Spot) -> str:
    """Return the name of the public place of a cell, or `home` for any other cell."""
    lot = lot_at(spot)
    return next((name for name, of in PLACES.items() if of == lot), "home")


def _spot(stream: Stream, lot: Lot) -> Spot:
    x, y = _corner(lot)
    if lot not in _PUBLIC:
        return x + stream.randint(0, _ROOM), y + stream.randint(0, _ROOM)
    table = stream.choice(_TABLES), stream.choice(_TABLES)
    return x + table[0] + stream.randint(0, _SEATS), y + table[1] + stream.randint(0, _SEATS)


def path(resident: Resident, first_step: int, steps: int) -> tuple["array[int]", "array[int]"]:
    """Return the x and y positions of a resident at the start of each step of a window, and at its end.

    A resident walks one cell per step, first along x, then along y.
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


def _walk(xs: "array[int]", ys: "array[int]", here: Spot, goal: Spot, times: tuple[int, int, int]) -> Spot:
    """Append a walk and the stay after it; `times` is (start, end, first step to append)."""
    start, until, first = times
    x, y = here
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
    return x, y


def _extend(xs: "array[int]", ys: "array[int]", x: int, y: int, times: int) -> None:
    if times > 0:
        xs.extend(array("H", [x]) * times)
        ys.extend(array("H", [y]) * times)
