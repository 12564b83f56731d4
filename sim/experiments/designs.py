"""Designs: which combinations of values an experiment tries.

A full factorial tries all combinations. A Latin hypercube (McKay et al. 1979) and a Sobol sequence (Sobol 1967, with
the scrambling of Owen 1998) spread a given number of combinations over the ranges; scipy computes them. The designs of
`indices` are for sensitivity analysis. A list of combinations, from a file or a DataFrame, is tried as it is, each with
all combinations of what is varied besides.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, Literal

import attrs

from sim.base.errors import ScenarioError, UsageError
from sim.base.extras import need
from sim.experiments.indices import LEVELS, Method, block_of, check_size, is_method, sampled
from sim.experiments.points import Point, number_text
from sim.scenario.fields import plain
from sim.scenario.overrides import Override, value_text

Design = Literal["factorial", "latin", "sobol", "saltelli", "morris", "fast", "list", "fit"]

MOST_POINTS: Final = 100_000
_SHOWN: Final = 12  # values that are named
_RANGE: Final = re.compile(r"(?P<low>[-+\d.eE]+)\.\.(?P<high>[-+\d.eE]+)(?::(?P<count>\d{1,12}))?")


@attrs.frozen
class VariedKey:
    """A key of a scenario that is varied, with its values: a list of texts, or a range of numbers.

    Attributes:
        key: the key; several with commas between them change together, and each value is a list with one for each.
        values: the values of a list; those of a range if it has a number of steps.
        low, high: the bounds of a range, ints if it is one of whole numbers; None: it is a list.
        whole: whether the range has whole numbers only.
    """

    key: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    whole: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The key, or those that change together."""
        return tuple(self.key.split(","))

    @property
    def count(self) -> int | None:
        """How many values it has: of a list, or of a range of whole numbers; None: any number within a range."""
        if self.low is None or self.high is None:
            return len(self.values)
        return int(self.high) - int(self.low) + 1 if self.whole else None

    def at(self, share: float) -> str:
        """Return the value at a share (0 to 1) of its range, or of its list."""
        if self.low is None or self.high is None:
            return self.values[min(len(self.values) - 1, int(share * len(self.values)))]
        if self.whole:
            return str(min(self.high, self.low + int(share * (self.high - self.low + 1))))
        return number_text(self.low + share * (self.high - self.low))


_TOGETHER: Final = "write key,key=[a,1],[b,2], with a list for each combination"
_QUOTED = ("[", "{", '"', "'")  # how a list, a mapping or a quoted text begins


def variable(text: str) -> VariedKey:
    """Return a variable from `key=a,b,c`, `key=low..high:n` or, for designs that sample, `key=low..high`.

    Raises:
        UsageError: if the text has another form, a value twice, or bounds that are no range.
    """
    key, separator, rest = text.partition("=")
    key, rest = key.strip(), rest.strip()
    hint = "write key=a,b,c or key=low..high:n, for example agents.ant.count=10,100 or agents.ant.state.speed=0.5..2:4"
    if not separator or not key or not rest:
        raise UsageError(f"{text!r:.80} does not say how to vary a key", hint=hint)
    if key == "seed":
        raise UsageError("the seed cannot be varied: each combination is run with all seeds", hint="use --seeds")
    values = _values(rest)
    if any(".." in one and one[0] not in _QUOTED for one in values if one):
        return _range(key, rest, hint)
    if len(set(values)) < len(values) or "" in values:
        raise UsageError(f"{text!r:.80} has a value twice, or an empty one", hint=hint)
    if "," in key:
        keys = _keys(key)
        for value in values:
            _parts(keys, value)
        return VariedKey(",".join(keys), values)
    return VariedKey(key, values)


def _keys(text: str) -> tuple[str, ...]:
    """Return the keys that change together."""
    keys = tuple(one.strip() for one in text.split(","))
    if "" in keys or len(set(keys)) < len(keys) or "seed" in keys:
        raise UsageError(f"{text!r:.80} are no keys that change together", hint=_TOGETHER)
    return keys


def _parts(keys: Sequence[str], value: str) -> Point:
    """Return the values of keys that change together."""
    try:
        parsed = Override.parse(f"x={value}").value
    except ScenarioError:
        parsed = None
    if not isinstance(parsed, list) or len(parsed) != len(keys):
        raise UsageError(f"{value!r:.60} is no list with a value for each of {', '.join(keys)}", hint=_TOGETHER)
    return {key: value_text(plain(one)) for key, one in zip(keys, parsed, strict=True)}


def each(point: Point) -> Point:
    """Return a combination in which each key is by itself, also of those that change together."""
    combination: dict[str, str] = {}
    for key, value in point.items():
        combination |= _parts(key.split(","), value) if "," in key else {key: value}
    return combination


def _values(text: str) -> tuple[str, ...]:
    """Return the values that commas separate; those inside of brackets and quotes belong to a list, mapping or text."""
    values: list[str] = []
    begin, depth, quote = 0, 0, ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'" and text[begin:place].rstrip()[-1:] in ("", *"[{,:"):
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and depth <= 0:
            values.append(text[begin:place])
            begin = place + 1
    return tuple(one.strip() for one in (*values, text[begin:]))


def varied(keys: Mapping[Any, str | Iterable[Any]]) -> tuple[str, ...]:
    """Return what is varied as texts for `variable`.

    Args:
        keys: the values by key: a text such as `0.02..0.2:4`, or several values. Keys in a tuple change together, and
            each value has one for each of them.

    Raises:
        UsageError: if a value cannot be varied.
    """
    texts = []
    for names, values in keys.items():
        key = names if isinstance(names, str) else ",".join(names)
        if isinstance(values, str):
            texts.append(f"{key}={values}")
            continue
        if not isinstance(values, Iterable):
            raise UsageError(f"{key} is varied by {values!r:.60}", hint="give a list, or a text such as 0.02..0.2:4")
        texts.append(f"{key}={','.join(_separable(_text_of(key, value)) for value in values)}")
    return tuple(texts)


def _text_of(key: str, value: Any) -> str:
    """Return a value as text; that of keys that change together is a list."""
    return value_text(list(value) if "," in key and isinstance(value, tuple) else value)


def _separable(text: str) -> str:
    """Return the text of a value so that it can stand among others."""
    return (
        text
        if (_values(text) == (text,) and ".." not in text) or text[0] in _QUOTED
        else json.dumps(text, ensure_ascii=False)
    )


def _range(key: str, rest: str, hint: str) -> VariedKey:
    match = _RANGE.fullmatch(rest)
    whole = match is not None and all(re.fullmatch(r"[-+]?\d{1,300}", match[name]) for name in ("low", "high"))
    read: Callable[[str], float] = int if whole else float  # an int is exact, however large
    try:
        low, high = (read(match[name]) for name in ("low", "high")) if match else (math.nan, math.nan)
    except ValueError:
        low = high = math.nan
    if match is None or not low < high or not math.isfinite(high - low):
        raise UsageError(f"{rest!r:.60} is no range of numbers", hint=hint)
    made = VariedKey(key, (), low, high, whole)
    if match["count"] is None:
        return made
    count = int(match["count"])
    if not 2 <= count <= MOST_POINTS:
        raise UsageError(f"a range has 2 to {MOST_POINTS:,} values, not {count:,}", hint=hint)
    parts = count - 1
    texts = [
        str(int(low) + (int(high - low) * 2 * step + parts) // (2 * parts))
        if whole
        else number_text(low + (high - low) * step / parts)
        for step in range(count)
    ]
    if len(set(texts)) < count:
        larger = f"for other numbers: {key}={low:.1f}..{high:.1f}:{count}" if whole else "take fewer, or a wider range"
        raise UsageError(f"{rest!r:.60} does not have {count:,} different values", hint=larger)
    return attrs.evolve(made, values=tuple(texts))


def points_of(
    variables: Sequence[VariedKey], design: Design, samples: int | None, seed: int, *, second_order: bool = False
) -> tuple[Point, ...]:
    """Return the combinations of a design.

    Args:
        variables: the varied keys.
        design: the design.
        samples: the number of combinations, for `latin` and `sobol`; of samples, for `saltelli`, `morris` and `fast`.
        seed: the seed of the sample.
        second_order: whether a `saltelli` design shows what pairs of inputs do together.

    Raises:
        UsageError: if the design and the other arguments do not fit, there are too many combinations, or scipy or SALib
            is missing.
    """
    keys = [key for one in variables for key in one.keys]
    if len(set(keys)) < len(keys):
        raise UsageError("a key is varied twice", hint="give all its values in one option: key=a,b,c")
    if second_order and design != "saltelli":
        raise UsageError("effects of pairs of inputs need the design saltelli", hint="--design saltelli")
    if design in ("factorial", "list"):
        if samples is not None:
            raise UsageError("a factorial design tries all combinations", hint="--samples is for latin and sobol")
        return tuple(map(each, _factorial(variables)))
    if samples is None or not variables or design == "fit":
        raise UsageError(f"the design {design} needs --samples and --vary", hint="for example --samples 64")
    check_whole(variables, f"the design {design}")
    count = samples
    if is_method(design):
        check_size(design, samples)
        count = math.prod(block_of(design, len(variables), samples, second_order=second_order))
    if count > MOST_POINTS:
        raise UsageError(f"a design has at most {MOST_POINTS:,} combinations, not {count:,}")
    if is_method(design):
        shares = positions(variables, design, samples, seed, second_order=second_order)
    else:
        shares = _sample(design, len(variables), samples, seed)
    return tuple(each({one.key: one.at(share) for one, share in zip(variables, row, strict=True)}) for row in shares)


def check_whole(variables: Sequence[VariedKey], what: str) -> None:
    """Check that no range has a number of values, where values come from whole ranges.

    Args:
        variables: the varied keys.
        what: what chooses the values.

    Raises:
        UsageError: if one has.
    """
    if stepped := next((one for one in variables if one.low is not None and one.values), None):
        said = f"{what} takes any value in the range of {stepped.key}, so a number of values means nothing"
        raise UsageError(said, hint=f"leave out :{len(stepped.values)}, or list the values")


def positions(
    variables: Sequence[VariedKey], method: Method, samples: int, seed: int, *, second_order: bool = False
) -> Any:
    """Return the combinations of a design for sensitivity analysis, as `VariedKey.at` takes them: an array from 0 to 1.

    Of a Morris design these are the exact places of the values in their ranges and lists, which differ from its levels
    where values are whole numbers or listed: effects are changes of the outcome over changes of these places.

    Args:
        variables: the varied keys, one column for each.
        method: the design.
        samples: the number of samples.
        seed: the seed of the sample.
        second_order: whether a `saltelli` design shows what pairs of inputs do together.

    Raises:
        UsageError: if a key has one value only, or SALib is missing.
    """
    for one in variables:
        if one.count == 1:
            raise UsageError(f"{one.key} has one value, so that no effect of it can be seen", hint="use --set for it")
    rows = sampled(method, len(variables), samples, seed, second_order=second_order, levels=_levels(variables))
    if method == "morris":
        for column, one in enumerate(variables):
            if one.count is not None:
                rows[:, column] = (rows[:, column] * (one.count - 1)).round() / (one.count - 1)
    return rows


def _levels(variables: Sequence[VariedKey]) -> int:
    """Return the levels of a Morris design: an even number, and enough for each value of the longest list."""
    longest = max((len(one.values) for one in variables if one.low is None), default=0)
    return max(LEVELS, longest + longest % 2)


def untried(variables: Sequence[VariedKey], points: Sequence[Point], design: Design) -> list[str]:
    """Return which values of lists no combination has, and of a Morris design those of ranges of whole numbers too.

    Args:
        variables: the varied keys.
        points: the combinations of the design.
        design: the design.
    """
    notes = []
    for one in variables:
        tried = {tuple(point[key] for key in one.keys) for point in points}
        count = one.count
        if one.low is None:
            left = [value for value in one.values if tuple(each({one.key: value}).values()) not in tried]
            if left:
                several = f"{len(left):,} of {len(one.values):,} values of {one.key} are in no combination"
                notes.append(f"{several}: {_some(left)}; take more samples")
        elif design == "morris" and count is not None and len(tried) < count:
            values = sorted((value for (value,) in tried), key=int)
            several = f"{len(tried):,} of {count:,} values of {one.key} are tried: {_some(values)}"
            notes.append(f"{several}; a list has a level for each value, a range has not")
    return notes


def _some(values: Sequence[str]) -> str:
    """Return the first values, and that there are others."""
    return ", ".join(values[:_SHOWN]) + (", ..." if len(values) > _SHOWN else "")


def joined(listed: Sequence[Point], others: Sequence[Point]) -> tuple[Point, ...]:
    """Return each listed combination with each of some others.

    Raises:
        UsageError: if a key is in both, or there are too many.
    """
    if both := sorted(listed[0].keys() & others[0].keys()):
        raise UsageError(f"{both[0]} is varied twice: the listed combinations have it", hint="leave out --vary")
    if len(listed) * len(others) > MOST_POINTS:
        raise UsageError(f"a design has at most {MOST_POINTS:,} combinations")
    return tuple({**one, **other} for one in listed for other in others)


def _factorial(variables: Sequence[VariedKey]) -> tuple[Point, ...]:
    for one in variables:
        if not one.values:
            raise UsageError(f"the range of {one.key} has no number of values", hint="write low..high:n")
    if math.prod(len(one.values) for one in variables) > MOST_POINTS:
        raise UsageError(f"a design has at most {MOST_POINTS:,} combinations")
    keys = [one.key for one in variables]
    return tuple(dict(zip(keys, values, strict=True)) for values in product(*(one.values for one in variables)))


def _sample(design: Design, dimensions: int, samples: int, seed: int) -> Any:
    """Return a sample of the unit cube, one row for each combination."""
    need("designs", f"the design {design} needs")
    from scipy.stats import qmc

    if design == "latin":
        return qmc.LatinHypercube(dimensions, rng=seed).random(samples)
    if samples & (samples - 1):
        raise UsageError(f"a Sobol sequence has a power of two of combinations, not {samples}", hint="such as 64")
    return qmc.Sobol(dimensions, rng=seed).random(samples)
