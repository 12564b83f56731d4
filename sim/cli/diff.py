"""`sim diff`: the first difference of two runs, and their outcomes side by side."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from sim.cli.render.event_lines import event_json
from sim.cli.render.output import OUT, common, print_json, reading
from sim.cli.render.table import Cell, print_table
from sim.events.event_text import event_line
from sim.inspect.compare.comparison import Comparison, Pair, Pairs, compare
from sim.kernel.codec import Json, encode
from sim.kernel.rows import RecordedEvent
from sim.record import RunInfo

_SIDES = ("left", "right")
_HASH = re.compile("[0-9a-f]{64}")
_LABELS = {
    "sim_seconds": "simulated seconds",
    "wakeups": "wake-ups",
    "overruns": "late ticks",
    "stopped_by": "stopped by",
    "commonest_error": "commonest error",
}


@click.command(
    "diff",
    epilog="""Examples:

    \b
      sim diff queue-1 queue-2
      sim diff queue-1 queue-2 --limit 20
      sim diff queue-1 queue-2 --json""",
)
@click.argument("left", metavar="RUN")
@click.argument("right", metavar="RUN")
@click.option(
    "--limit",
    type=click.IntRange(0, 2**63 - 1),
    default=5,
    show_default=True,
    help="Events of each run after the first difference; 0: all.",
)
@OUT
@common
def command(left: str, right: str, limit: int, out: Path, as_json: bool) -> None:
    """Show the settings of two runs, the first event that differs, and their outcomes side by side. A RUN is a folder,
    or the beginning of a name in `sim list`. Differences are the second run minus the first.

    The exit code is 0 also if the runs differ.
    """
    with reading(out, left) as one, reading(out, right) as other:
        comparison = compare(one, other, limit or None)
        infos = (one.info, other.info)
    if as_json:
        print_json(_json(infos, comparison))
        return
    _print_runs(infos, comparison)
    _print_parting(comparison)
    if not comparison.equal:
        _print_outcomes(comparison)


def _print_runs(infos: Sequence[RunInfo], comparison: Comparison) -> None:
    one, other = infos
    always = ("name", "mode", "seed")
    rows: list[tuple[str, Any, Any]] = [("run", one.id, other.id)]
    rows += [("scenario" if name == "name" else name, getattr(one, name), getattr(other, name)) for name in always]
    rows += [(name, pair.left, pair.right) for name, pair in comparison.settings.items() if name not in always]
    rows += [(_LABELS.get(name, name), pair.left, pair.right) for name, pair in comparison.outcomes.items()]
    print_table(("", *_SIDES), [(name, _text(left), _text(right)) for name, left, right in rows])


def _print_parting(comparison: Comparison) -> None:
    click.echo()
    for words in comparison.verdict():
        click.echo(words)
    for side, rows in zip(_SIDES, comparison.after, strict=True):
        if rows:
            click.echo(f"\n{side}")
            for row in rows:
                click.echo(event_line(row))


def _print_outcomes(comparison: Comparison) -> None:
    pair = (*_SIDES, "difference", "%")
    metric = ("last left", "right", "difference", "%", "mean left", "right", "difference", "%")
    observation = ("n left", "right", "mean left", "right", "difference", "%", "sd left", "right", "in sd")
    state = ("entries left", "right", "differ", "first that differs", *_SIDES)
    _print_part("outcome", pair, _counts(comparison))
    _print_part("metric", metric, [(name, *_cells(p, "last", "mean")) for name, p in comparison.metrics.items()])
    _print_part("observation", observation, _observations(comparison))
    _print_part("events of topic", pair, [(name, *_four(p)) for name, p in sorted(comparison.topics.items())])
    _print_part("final state", state, _state(comparison))


def _print_part(name: str, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    if rows:
        click.echo()
        print_table((name, *headings), rows)


def _counts(comparison: Comparison) -> list[tuple[Cell, ...]]:
    rows = [(_LABELS.get(name, name), pair) for name, pair in comparison.figures.items()]
    parts = ("done", comparison.kinds), ("refused", comparison.refused), ("at the end", comparison.states)
    for label, pairs in parts:
        rows += [(f"{label}: {name}", pair) for name, pair in pairs.items()]
    return [(name, *_four(pair)) for name, pair in rows]


def _observations(comparison: Comparison) -> list[tuple[Cell, ...]]:
    rows = []
    for name, pairs in comparison.observations.items():
        n, mean, deviation = pairs["n"], pairs["mean"], pairs["deviation"]
        sides = (n.left, n.right, *_four(mean), deviation.left, deviation.right)
        rows.append((name, *sides, comparison.standardized[name]))
    return rows


def _state(comparison: Comparison) -> list[tuple[Cell, ...]]:
    parts = (comparison.digest or {}).items()
    return [
        (name, p.entries.left, p.entries.right, p.differ, p.path, p.values.left, p.values.right) for name, p in parts
    ]


def _cells(pairs: Pairs, *names: str) -> Iterator[Cell]:
    for name in names:
        yield from _four(pairs.get(name, Pair(None, None)))


def _four(pair: Pair) -> tuple[Cell, ...]:
    percent = None if pair.relative is None else pair.relative * 100
    return pair.left, pair.right, pair.difference, percent


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else encode(value).decode()
    return text[:16] if _HASH.fullmatch(text) else text  # a prefix is enough to recognise a hash


def _json(infos: Sequence[RunInfo], comparison: Comparison) -> dict[str, Any]:
    one, other = infos
    (left, right), digest = comparison.after, comparison.digest
    return {
        "left": one.path,
        "right": other.path,
        "equal": comparison.equal,
        "equal_events": comparison.equal_events,
        "difference": _difference(comparison),
        "events": {"left": [event_json(row) for row in left], "right": [event_json(row) for row in right]},
        **{name: _sides(getattr(comparison, name)) for name in ("settings", "outcomes")},
        **{
            name: _sides_and_difference(getattr(comparison, name))
            for name in ("figures", "kinds", "refused", "states", "topics")
        },
        "metrics": {name: _sides_and_difference(pairs) for name, pairs in comparison.metrics.items()},
        "observations": {
            name: {**_sides_and_difference(pairs), "standardized": comparison.standardized[name]}
            for name, pairs in comparison.observations.items()
        },
        "digest": None if digest is None else {name: attrs.asdict(part) for name, part in digest.items()},
    }


def _difference(comparison: Comparison) -> dict[str, Json] | None:
    difference = comparison.difference
    if difference is None:
        return None
    left, right, value = difference.left, difference.right, difference.value
    texts = None if value is None else dict(zip(_SIDES, value.texts(), strict=True))
    return {
        "number": difference.number,
        "sentence": difference.sentence(),
        "path": None if value is None else value.path,
        "values": texts,
        "left": None if left is None else event_json(RecordedEvent(*left)),
        "right": None if right is None else event_json(RecordedEvent(*right)),
    }


def _sides_and_difference(pairs: Pairs) -> dict[str, Json]:
    return {name: pair.to_json() for name, pair in pairs.items()}


def _sides(pairs: Pairs) -> dict[str, Json]:
    """Return pairs of values that can be texts, which have no difference."""
    return {name: {"left": pair.left, "right": pair.right} for name, pair in pairs.items()}
