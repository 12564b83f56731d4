import copy
import subprocess
import sys
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.kernel import COMPILED, rng
from sim.kernel import draws as compiled
from sim.kernel.draws import Seed, keys_of
from sim.kernel.rng import Draws, Stream, Streams, derive, hash_order

ROOT = Path(__file__).resolve().parents[2]
DERIVED = [16476032584258269876, 5077936987687029010, 8132214733302242201]
VECTORS = [
    (0, "a", "", [0.2998305547410809, 633620890, "c", [5, 1, 3], [4, 3, 0, 1, 2]]),
    (7, "agent-1", "policy", [0.5375575338054249, 119893546, "f", [6, 8, 4], [4, 1, 3, 2, 0]]),
    (-1, "", "latency", [0.9882442968670357, 211102844, "d", [2, 3, 6], [0, 4, 3, 1, 2]]),
    (1180591620717411303424, "é", "x", [0.0037066743609540653, 672804888, "e", [2, 8, 4], [0, 3, 4, 2, 1]]),
]

KEYED = [0.2673912415877018, 208403688, "d", [7, 1, 0], [2, 3, 4, 0, 1]]


def _draws(stream: Stream | Draws) -> list[object]:
    items = list(range(5))
    stream.shuffle(items)
    return [
        stream.random(),
        stream.randint(0, 10**9),
        stream.choice("abcdef"),
        stream.sample(range(9), 3),
        items,
    ]


@given(st.text(max_size=300), st.integers(0, 9), st.lists(st.text(max_size=300), max_size=9, unique=True))
def test_names_are_in_the_order_of_their_hashes(text, tick, names):
    """`hash_order` orders by the hash that `derive` gives, in C and in Python, also over several blocks of the hash."""
    named = {name: [name] for name in names}
    expected = [[name] for name in sorted(names, key=lambda name: derive(text, tick, name))]
    assert hash_order(named, text, tick) == expected
    with patch.object(rng, "core", None):
        assert hash_order(named, text, tick) == expected


@pytest.mark.skipif(not COMPILED, reason="what is shown here is an error of the C code")
def test_the_order_needs_texts():
    """A name that is no text, or that no file could hold, is an error, and nothing is put in order."""
    with pytest.raises(TypeError, match="a name is a text"):
        hash_order({1: "one"}, "turn")  # type: ignore[dict-item]
    with pytest.raises(UnicodeEncodeError):
        hash_order({"one": 1, "\ud800": 2}, "turn")


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
    """Keyed draws are the same in every version, on every platform, compiled or not."""
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


def _draw(stream: Stream | Draws) -> float:
    return stream.random()


@pytest.mark.slow
@given(st.integers(1, 200))
def test_random_bits_have_the_length_asked_for(bits):
    """`getrandbits` fills the bits that are asked for, and no more."""
    drawn = [Streams(1).at("bits", "", n).getrandbits(bits) for n in range(200)]
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


@pytest.mark.slow
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


# -- draws by moment

Moments = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=12)


def at_moments(moments: list[tuple[int, int, int]]) -> dict[tuple[int, int], list[float]]:
    """Make a number of draws at each moment (time, turn), and return them by time and place among those that drew."""
    draws, found = Streams(5).draws("a", "rules"), dict[tuple[int, int], list[float]]()
    for time, turn, count in sorted(moments):
        drawn = [draws.moment(time, turn).random() for _ in range(count)]
        if drawn:
            place = sum(key[0] == time for key in found)
            found[time, place] = drawn
    return found


@pytest.mark.slow
@given(Moments, Moments)
def test_draws_depend_on_their_moment_alone(ones, others):
    """Draws at equal moments are equal, whatever was drawn before: how often, at which other times, and how many turns
    of the same time drew nothing.
    """
    one, other = (at_moments(list({moment[:2]: moment for moment in given}.values())) for given in (ones, others))
    for moment in one.keys() & other.keys():
        both = list(zip(one[moment], other[moment], strict=False))
        assert both
        assert all(first == second for first, second in both)


def test_draws_differ_by_seed_owner_purpose_time_and_turn():
    """Each part of a moment makes others; the same moment continues, and None is a moment of its own each time."""
    streams = Streams(1)
    draws = streams.draws("a", "p")
    seen = [draws.moment(time, turn).random() for time, turn in ((0, 0), (0, 1), (5, 1), (5, 1), (5, 2))]
    seen += [draws.moment(5).random(), draws.moment(5).random(), streams.draws("b", "p").random()]
    seen += [streams.draws("a", "q").random(), Streams(2).draws("a", "p").random()]
    assert len(set(seen)) == len(seen)
    assert streams.draws("a", "p") is draws


def test_draws_of_a_branch_with_another_seed_are_those_of_that_seed():
    """`reseed` changes the next moment of draws that an agent already holds."""
    streams = Streams(1)
    draws = streams.draws("a", "p")
    draws.moment(3, 1).random()
    streams.reseed(2)
    assert draws.moment(4, 1).random() == Streams(2).draws("a", "p").moment(4, 1).random()


def test_draws_of_different_owners_never_overlap():
    """The draws of two owners are not the same sequence in a shifted place: each has a step of its own, which is odd
    and has enough changes between its bits.
    """
    steps = [keys_of(f"agent-{number}", "rules")[1] for number in range(20_000)]
    assert len(set(steps)) == len(steps)
    assert all(step % 2 and (step ^ step >> 1).bit_count() >= 24 for step in steps)
    assert keys_of("weak")[1] < 2**64


ROUNDS: dict[str, Callable[[Any], object]] = {
    "random": lambda draws: draws.random(),
    "next": lambda draws: draws.next(),
    "below": lambda draws: [draws.below(n) for n in (1, 2, 3, 10**6, 2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, 10**40)],
    "randint": lambda draws: [
        draws.randint(*bounds)
        for bounds in ((0, 0), (-5, 5), (True, 3), (-(2**63), 2**63 - 1), (-(10**30), 10**30), (2**62, 2**62 + 5))
    ],
    "uniform": lambda draws: [draws.uniform(*b) for b in ((0, 1), (0.1, 0.3), (-1e300, 1e300), (2**60, 2**61), (5, 5))],
    "chance": lambda draws: [draws.chance(p) for p in (0, 1, 0.5, True, 2**70)],
    "exponential": lambda draws: [draws.exponential(mean) for mean in (1, 0.25, 1e-300, 2**70)],
    "gauss": lambda draws: [draws.gauss(), draws.gauss(3), draws.gauss(0.1, 2), draws.gauss(2**60, 3)],
    "choice": lambda draws: [draws.choice(items) for items in ("abc", [1], (1, 2, 3), range(10**6))],
    "shuffle": lambda draws: [_shuffled(draws, kind) for kind in (list, bytearray)],
}
WRONG: dict[str, Callable[[Any], object]] = {
    "below 0": lambda draws: draws.below(0),
    "below a text": lambda draws: draws.below("x"),
    "an empty range": lambda draws: draws.randint(3, 2),
    "an empty large range": lambda draws: draws.randint(2**80, 2),
    "a part of a number": lambda draws: draws.randint(1.5, 2),
    "the chance of a text": lambda draws: draws.chance("x"),
    "nothing to choose": lambda draws: draws.choice([]),
    "a choice of a number": lambda draws: draws.choice(3),
    "a choice of a mapping": lambda draws: draws.choice({"a": 1}),
    "uniform texts": lambda draws: draws.uniform("a", "b"),
    "a mean of None": lambda draws: draws.exponential(None),
    "gauss around a text": lambda draws: draws.gauss("x", 1),
    "a shuffled tuple": lambda draws: draws.shuffle((1, 2, 3)),
}


def _shuffled(draws: Any, kind: Callable[..., Any]) -> list[int]:
    items = kind(range(20))
    draws.shuffle(items)
    return list(items)


def plain() -> Any:
    """Return the module with the generator in Python, whatever is compiled."""
    text = Path(compiled.__file__).read_text().replace("from sim.kernel.compiled import core", "core = None")
    module = types.ModuleType("plain_draws")
    exec(compile(text, "plain_draws", "exec"), module.__dict__)  # noqa: S102 - the module itself
    return module


@pytest.mark.parametrize("name", [*ROUNDS, *WRONG])
def test_the_generator_in_c_gives_the_bits_of_the_one_in_python(name):
    """Every operation returns the same values and leaves the same state, and refuses with the same words."""
    module, do = plain(), {**ROUNDS, **WRONG}[name]

    def outcome(draws: Any) -> object:
        try:
            return repr(do(draws))
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    for number in range(1 if name in WRONG else 200):
        keys = keys_of("owner", number)
        ones = compiled.Generator(Seed(number), *keys)
        others = module.Generator(module.Seed(number), *keys)
        for time, turn in ((0, 0), (number, 1), (number, 1), (number, None), (number, None), (10**18 + number, 7)):
            assert outcome(ones.moment(time, turn)) == outcome(others.moment(time, turn))
        assert ones.next() == others.next()


@pytest.mark.slow
def test_distributions_have_their_moments():
    """Mean and variance of each distribution, and each of a few values as often as the others."""
    draws = Streams(3).draws("a", "p").moment(0, 0)
    count = 20_000
    for drawn, mean, variance in (
        ([draws.gauss(2, 3) for _ in range(count)], 2, 9),
        ([draws.exponential(2) for _ in range(count)], 2, 4),
        ([draws.uniform(-1, 3) for _ in range(count)], 1, 16 / 12),
        ([draws.randint(1, 6) for _ in range(count)], 3.5, 35 / 12),
        ([draws.chance(0.3) for _ in range(count)], 0.3, 0.21),
        ([draws.sample(range(5), 3)[1] for _ in range(count)], 2, 2),
        ([draws.betavariate(2, 3) for _ in range(count)], 0.4, 0.04),
    ):
        assert abs(fmean(drawn) - mean) < 5 * (variance / count) ** 0.5
        assert abs(pvariance(drawn) / variance - 1) < 0.1
    assert sorted(draws.sample("abcde", 5)) == list("abcde")
    for k in (-1, 6):
        with pytest.raises(ValueError, match="k from 0 to 5"):
            draws.sample("abcde", k)


def test_draws_are_small_and_cannot_be_copied():
    """They take 100 bytes at most, as each agent that draws has some, and refuse to be copied, which would repeat
    draws.
    """
    draws = Streams(3).draws("a", "p")
    assert sys.getsizeof(draws) <= 130
    with pytest.raises(TypeError, match="no state to save"):
        copy.deepcopy(draws)
