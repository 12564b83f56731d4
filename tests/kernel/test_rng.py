import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel.rng import KeyedStream, Stream, Streams, derive

ROOT = Path(__file__).resolve().parents[2]
DERIVED = [16476032584258269876, 5077936987687029010, 8132214733302242201]
VECTORS = [
    (0, "a", "", [0.2998305547410809, 633620890, "c", [5, 1, 3], [4, 3, 0, 1, 2]]),
    (7, "agent-1", "policy", [0.5375575338054249, 119893546, "f", [6, 8, 4], [4, 1, 3, 2, 0]]),
    (-1, "", "latency", [0.9882442968670357, 211102844, "d", [2, 3, 6], [0, 4, 3, 1, 2]]),
    (1180591620717411303424, "é", "x", [0.0037066743609540653, 672804888, "e", [2, 8, 4], [0, 3, 4, 2, 1]]),
]

KEYED = [0.6638647270557566, 969404589, "b", [3, 5, 1], [4, 2, 3, 0, 1]]


def _draws(stream: Stream) -> list[object]:
    items = list(range(5))
    stream.shuffle(items)
    return [
        stream.random(),
        stream.randint(0, 10**9),
        stream.choice("abcdef"),
        stream.sample(range(9), 3),
        items,
    ]


def test_derive_is_fixed():
    """The hash behind streams, ordinals and ties is the same in every process and every version."""
    assert [derive(), derive("ordinal", 16, 1, "child"), derive(0, 1, 2, 3)] == DERIVED


@pytest.mark.parametrize(("seed", "owner", "purpose", "expected"), VECTORS)
def test_golden_vectors(seed, owner, purpose, expected):
    """A stream gives the draws it gave on CPython 3.11 and 3.13 when this was written."""
    assert _draws(Streams(seed).get(owner, purpose)) == expected


@given(st.integers(), st.text(), st.text(), st.lists(st.text(max_size=3), max_size=5))
def test_others_shift_nothing(seed, owner, purpose, others):
    """Owners and purposes that come and draw before do not change what a stream gives."""
    alone = _draws(Streams(seed).get(owner, purpose))
    streams = Streams(seed)
    for other in others:
        if (other, "x") != (owner, purpose):
            streams.get(other, "x").random()
    assert _draws(streams.get(owner, purpose)) == alone


def test_keyed_draws_are_fixed():
    """Keyed draws give what they gave on CPython 3.11 and 3.13 when this was written."""
    assert _draws(Streams(7).get("agent-1").at("infection", 12)) == KEYED


@given(st.integers(), st.lists(st.one_of(st.integers(), st.text(max_size=3)), max_size=3), st.integers(0, 5))
def test_keyed_draws_depend_on_their_key_alone(seed, key, before):
    """Other draws of the same stream, keyed or not, move them not, nor do they move these."""
    stream = Streams(seed).get("a")
    alone, after = _draws(stream.at(*key)), Streams(seed).get("a")
    for number in range(before):
        after.random()
        after.at("other", number).random()
    assert _draws(after.at(*key)) == alone
    plain = Streams(seed).get("a")
    assert _draws(stream) == _draws(plain)


def test_keyed_draws_differ_by_seed_owner_purpose_and_key():
    """Each part of what draws are for makes others."""
    keys = [(0, "a", "p", 1), (1, "a", "p", 1), (0, "b", "p", 1), (0, "a", "q", 1), (0, "a", "p", 2)]
    assert len({Streams(seed).get(owner, purpose).at(key).random() for seed, owner, purpose, key in keys}) == len(keys)


def test_keyed_draws_are_uniform():
    """One draw for each of many keys is as uniform as many draws for one: mean, variance, and each tenth."""
    stream = Streams(1).get("a")
    for draws in ([stream.at(n).random() for n in range(20_000)], [*map(_draw, [stream.at("one")] * 20_000)]):
        counts = Counter(int(draw * 10) for draw in draws)
        assert abs(fmean(draws) - 0.5) < 0.01
        assert abs(pvariance(draws) - 1 / 12) < 0.002
        assert max(abs(count - 2000) for count in counts.values()) < 200


def _draw(stream: Stream) -> float:
    return stream.random()


@given(st.integers(1, 200))
def test_random_bits_have_the_length_asked_for(bits):
    """`getrandbits` fills the bits that are asked for, and no more."""
    drawn = [KeyedStream(derive("bits", n)).getrandbits(bits) for n in range(200)]
    assert max(drawn) < 2**bits
    assert max(drawn) >= 2 ** (bits - 1)


def test_a_branch_with_another_seed_draws_others():
    """After `reseed`, also keyed draws are those of a run with that seed."""
    streams = Streams(1)
    stream = streams.get("a")
    stream.random()
    streams.reseed(2)
    assert _draws(stream.at("x")) == _draws(Streams(2).get("a").at("x"))


def test_streams_differ():
    """Seed, owner and purpose each make another stream."""
    keys = [(0, "a", "p"), (1, "a", "p"), (0, "b", "p"), (0, "a", "q"), (0, "ap", "")]
    assert len({Streams(seed).get(owner, purpose).random() for seed, owner, purpose in keys}) == len(keys)


def test_one_object_for_one_stream():
    """Asking again goes on with the same stream."""
    streams = Streams(3)
    assert streams.get("a", "p") is streams.get("a", "p")


@pytest.mark.parametrize(
    "draw",
    [Stream.random, lambda s: s.gauss(0, 1), lambda s: s.randint(0, 1)],
    ids=["random", "gauss", "randint"],
)
def test_fingerprints_change_with_each_draw(draw: Callable[[Stream], object]):
    """Each draw changes the fingerprint of its stream and of no other, and looking changes nothing."""
    streams = Streams(1)
    stream = streams.get("a")
    streams.get("b", "p")
    seen = [streams.fingerprints()]
    for _ in range(6):
        assert streams.fingerprints() == seen[-1]
        draw(stream)
        seen.append(streams.fingerprints())
    assert len({look["a/"] for look in seen}) == len(seen)
    assert len({look["b/p"] for look in seen}) == 1


def test_same_in_every_process():
    """Neither the hash seed of a process nor its order of imports changes a draw."""
    code = "from sim.kernel.rng import Streams; print(Streams(5).get('a', 'b').random())"
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(n)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for n in (1, 2)
    }
    assert texts == {f"{Streams(5).get('a', 'b').random()}\n"}
