"""A replay that differs says what the usual cause of such a difference is, and what to write instead."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sim
from sim.record.divergence_causes import ANY_CAUSE, usual_cause
from sim.record.first_difference import FirstDifference

UUID, OTHER = uuid.UUID(int=2**120 + 7), uuid.UUID(int=2**127 + 9)
LETTERS = ["ann", "bob", "cy", "dee"]


def cause(left: Any, right: Any) -> str:
    """Return the cause that two values of an event suggest."""
    rows = [(0, 0, 0, 1, 1, "a", "t", {"arguments": {"x": value}}, None) for value in (left, right)]
    return usual_cause(FirstDifference(1, *rows))


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (str(UUID), str(OTHER), "UUID"),
        (f"id {UUID.hex}", f"id {OTHER.hex}", "UUID"),
        (1_700_000_000.25, 1_800_000_000.5, "clock"),
        (1_700_000_000_250, 1_800_000_000_500, "clock"),
        ("2026-01-02T03:04:05", "at 2027-01-02 03:04:06+00:00", "clock"),
        (Random(1).random(), Random(2).random(), "self.rng"),
        (LETTERS, LETTERS[::-1], "set"),
        ({"names": LETTERS, "n": 1}, {"names": [*LETTERS[1:], "ann"], "n": 1}, "set"),
        (str(LETTERS), str(LETTERS[::-1]), "set"),
        (",".join(LETTERS), ",".join(LETTERS[::-1]), "set"),
        pytest.param("<thing at 0x7f00>", "<thing at 0x7f08>", "address", id="address"),
    ],
)
def test_a_trace_names_its_cause(left: Any, right: Any, said: str) -> None:
    """A UUID, a time of the clock, a random number, another order and an address in memory look like what they are."""
    assert said in cause(left, right)
    assert cause(left, right) != ANY_CAUSE


@pytest.mark.parametrize(
    ("left", "right"),
    [("ann", "bob"), (1, 2), (0.5, 0.25), (LETTERS, LETTERS[1:]), (None, 1), (True, False), ("", "x")],
)
def test_what_leaves_no_trace_has_the_usual_causes(left: Any, right: Any) -> None:
    """Otherwise all usual causes are named, and none is claimed; also if one run has no such event."""
    assert cause(left, right) == ANY_CAUSE
    assert usual_cause(FirstDifference(1, None, (0, 0, 0, 1, 1, "a", "t", {}, None))) == ANY_CAUSE


class Leaking(sim.Agent):
    """An agent that publishes something that is no part of the run."""

    read: Callable[[], Any] = staticmethod(lambda: uuid.uuid4().hex)

    async def decide_action(self) -> sim.Action:
        return sim.Action("publish", {"topic": "news", "data": self.read()})


@pytest.mark.parametrize(
    ("read", "said"),
    [(lambda: uuid.uuid4().hex, "UUID"), (time.time, "clock"), (Random(1).random, "self.rng")],
    ids=["uuid", "time", "random"],
)
def test_a_replay_says_it(read: Callable[[], Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has the first difference as one sentence, and the cause as another."""
    monkeypatch.setattr(Leaking, "read", staticmethod(read))
    path = tmp_path / "leak.yaml"
    path.write_text("name: leak\nuntil: 1s\nagents: [{name: a, kind: leaking}]\n")
    run = sim.run(path, out=tmp_path / "runs", kinds={"leaking": Leaking})
    told = sim.replay(run, kinds={"leaking": Leaking})
    assert not told.same
    assert "differs in data" in (told.difference or "")
    assert said in (told.cause or "")
