"""Space: agents see each other as they were when the step began, and nobody sees what is not known yet."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.base.errors import CausalityError, UsageError
from sim.world import Sighting, Space
from sim.world.space import HopDistance, Reach, chebyshev, euclid, within


class Ground:
    """A plane on which the test says what step it is."""

    def __init__(self, perception: float = 3, speed: float = 1, metric: Any = euclid) -> None:
        self.step = 0
        self.space = Space(Reach(metric, perception, speed), within(20, 20), lambda: self.step)
        self.space.strict = True

    def enter(self, *positions: Any, **options: Any) -> Space:
        """Let agents a, b, c, … appear, and take them to be known for ever."""
        for name, position in zip("abcdefgh", positions, strict=False):
            self.space.enter(name, position, **options)
            self.space.histories[name].final = 10**6
        return self.space

    def names(self, agent: str, radius: float | None = None) -> str:
        """Return whom an agent sees."""
        return "".join(one.agent for one in self.space.near(agent, radius))


def test_one_sees_as_far_as_one_can():
    """Who is at most as far as the perception (or the radius asked for) is seen, in order of arrival, oneself not."""
    ground = Ground()
    ground.enter((5, 5), (8, 5), (5, 8.1), (5, 6))
    assert ground.names("a") == "bd"
    assert ground.names("a", 1) == "d"
    assert ground.names("c") == "d"
    for radius in (3.01, -1, math.nan):
        with pytest.raises(UsageError, match="one sees 3 far"):
            ground.space.near("a", radius)


def test_what_is_shown_is_seen_from_the_next_step_on():
    """In a step others are as they were when it began; the agent's own place is the same for itself."""
    ground = Ground()
    space = ground.enter((5, 5), (9, 5))
    space.show("b", (8, 5), "sings")
    assert (ground.names("a"), space.where("b")) == ("", (9, 5))
    ground.step = 1
    assert space.near("a") == (Sighting("b", (8, 5), "sings"),)
    assert space.where("b") == (8, 5)


def test_the_past_stays_for_those_who_are_behind():
    """Who is ahead disturbs nobody: one that is behind sees what was shown at its own step, until that is forgotten."""
    ground = Ground()
    space = ground.enter((0, 0), (3, 0))
    for ground.step in range(5):
        space.show("b", (3 + ground.step + 1, 0), str(ground.step))
    seen = {}
    for ground.step in range(6):
        seen[ground.step] = space.histories["b"].at(ground.step).position
    assert seen == {step: (3 + step, 0) for step in range(6)}
    space.forget_before(3)
    assert [space.histories["b"].at(step).position for step in (3, 4, 5, 99)] == [(6, 0), (7, 0), (8, 0), (8, 0)]
    ground.step = 7
    space.show("b", (9, 0), "late")
    assert [space.histories["b"].at(step).doing for step in (5, 6, 7, 8)] == ["4", "4", "4", "late"]
    space.forget_before(1000)
    assert space.histories["b"].at(1000).doing == "late"


def test_nobody_goes_farther_than_the_speed_or_outside():
    """A walk that is too long, or leads outside, changes nothing; several in a step count from where it began."""
    ground = Ground()
    space = ground.enter((0, 0))
    for wrong in ((1, 1), (-1, 0), (0, 20), (0, math.nan), "a", (0,), (True, 0), [0, "1"], None):
        with pytest.raises(UsageError):
            space.show("a", wrong, "")
    assert len(space.histories["a"].versions) == 1
    space.show("a", [1, 0], "")
    space.show("a", (0, 1), "")
    with pytest.raises(UsageError, match="it goes 1 at most"):
        space.show("a", (2, 0), "")
    ground.step = 1
    assert space.where("a") == (0, 1)


@pytest.mark.parametrize("speed", [0.1, 0.7, 1.1])
def test_decimal_fractions_do_not_get_in_the_way(speed):
    """Who goes in steps that have no exact binary fraction gets there, and is waited for as long as it may be near."""
    reach = Reach(euclid, 3, speed)
    places = [round(step * speed, 1) for step in range(100)]
    assert all(reach.goes((here, 0), (there, 0)) for here, there in itertools.pairwise(places))
    assert all(reach.may_meet(step, (0, 0), (round(3 + place, 1), 0)) for step, place in enumerate(places))
    assert not reach.goes((0, 0), (speed + 1e-6, 0))
    assert not reach.may_meet(5, (0, 0), (3 + 5 * speed + 1e-6, 0))


def test_nobody_looks_where_somebody_may_be_of_whom_it_is_not_known():
    """Of one whose last steps are not known, one that may have come into sight by now is a fault; without `strict` the
    latest that is known counts.
    """
    ground = Ground()
    ground.space.enter("a", (0, 0))
    ground.space.enter("b", (5.5, 0))
    ground.space.histories["a"].final = 99
    assert ground.names("a") == ""
    ground.step = 2
    assert ground.names("a") == ""  # it cannot be nearer than 3.5
    ground.step = 3
    with pytest.raises(CausalityError, match=r"a looks at step 3, but b may be in sight: .* to step 0"):
        ground.names("a")
    ground.space.histories["b"].final = 1
    assert ground.names("a") == ""
    ground.step = 9
    ground.space.strict = False
    assert ground.names("a") == ""


def test_partners_are_looked_at_wherever_they_are():
    """A declared partner is seen across any distance, if it is known; nobody else is; one that is gone is None."""
    ground = Ground()
    space = ground.enter((0, 0), (19, 19), (18, 18), partners=("b",))
    assert space.look("a", "b") == Sighting("b", (19, 19), "")
    with pytest.raises(UsageError, match="a looks at c, which it does not depend on"):
        space.look("a", "c")
    space.leave("b")
    assert space.look("a", "b") is not None
    ground.step = 1
    assert space.look("a", "b") is None
    ground.step = 10**6 + 1
    with pytest.raises(CausalityError, match="a looks at b at step"):
        space.look("a", "b")


def test_who_leaves_is_gone_from_the_next_step_on():
    """An agent that leaves is seen to the end of the step, and does not come back by leaving again."""
    ground = Ground()
    space = ground.enter((0, 0), (1, 0))
    space.leave("b")
    assert ground.names("a") == "b"
    ground.step = 1
    assert ground.names("a") == ""
    ground.step = 2
    space.leave("b")
    space.leave("nobody")
    assert space.histories["b"].gone == 1
    assert space.state() == {"a": [(0, 0), "", True], "b": [(1, 0), "", False]}


def test_nobody_comes_twice_or_acts_unseen():
    """An agent is in a space once, and one that is not there neither looks nor walks."""
    ground = Ground()
    space = ground.enter((0, 0))
    with pytest.raises(UsageError, match="in the space already"):
        space.enter("a", (1, 1))
    for deed in (space.near, space.where, lambda name: space.show(name, (0, 0), "")):
        with pytest.raises(UsageError, match="z is not in the space"):
            deed("z")


def test_who_studies_hears_of_every_look():
    """`on_look` tells who looked, at which step, and whom it saw, around it or at a partner."""
    ground = Ground()
    space = ground.enter((0, 0), (1, 0), (19, 0), partners=("c",))
    told: list[Any] = []
    space.on_look = lambda agent, step, seen: told.append((agent, step, [one.agent for one in seen]))
    ground.step = 4
    space.near("a")
    space.look("a", "c")
    assert told == [("a", 4, ["b"]), ("a", 4, ["c"])]


def test_who_is_told_the_truth_sees_what_there_is_to_see():
    """With `truth` an agent looks at those alone that it names, each once, in order of arrival, as far as it looks."""
    ground = Ground()
    space = ground.enter((0, 0), (1, 0), (2, 0), (0, 1))
    space.truth = {("a", 0): ("d", "c", "d", "b")}
    assert ground.names("a") == "bcd"
    assert ground.names("a", 1) == "bd"
    assert ground.names("b") == ""


def test_distances():
    """Straight, as a king walks, and in hops over a graph, infinite where no way leads."""
    assert euclid((0, 0), (3, 4)) == 5
    assert chebyshev((0, 0), (3, 4)) == 4
    hops = HopDistance({"a": ["b"], "b": ["a", "c"], "c": ["b"], "d": []})
    assert [hops("a", end) for end in "abcd"] == [0, 1, 2, math.inf]


Walk = list[tuple[int, int]]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.tuples(st.integers(0, 19), st.integers(0, 19)),
            st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), max_size=60),
        ),
        min_size=2,
        max_size=8,
    ),
    st.integers(0, 6),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 80)), max_size=60),
)
def test_neighbours_are_those_of_brute_force(walks, perception, speed, looks):
    """However far agents are ahead of or behind each other: among the neighbours that are kept for some steps are all
    who are in sight, and all who may have come into it by the next step, since they were last known.
    """
    ground = Ground(perception, speed, chebyshev)
    space = ground.space
    for name, (start, steps) in zip("abcdefgh", walks, strict=False):
        ground.step = 0
        space.enter(name, start)
        x, y = start
        for ground.step, (right, up) in enumerate(steps):
            x = min(max(x + max(-speed, min(speed, right)), 0), 19)
            y = min(max(y + max(-speed, min(speed, up)), 0), 19)
            space.show(name, (x, y), "")
        space.histories[name].final = len(steps)
    histories = list(space.histories.values())
    ahead = dict.fromkeys(space.histories, 0)
    for number, leap in looks:
        me = histories[number % len(histories)]
        step = ahead[me.agent_id] = min(ahead[me.agent_id] + leap % 7, me.final)
        found = space.neighbours(me, step)
        here = me.at(step).position
        for other in histories:
            there = other.at(min(step, other.final)).position
            if other is not me and space.reach.may_meet(max(0, step - other.final) + 1, here, there):
                assert other in found
        assert found == sorted(found, key=lambda history: history.number)
