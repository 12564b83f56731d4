"""What a list of runs shows of each: for the command and for Python."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sim.kernel import to_seconds
from sim.kernel.codec import Json
from sim.kernel.duration import seconds_text
from sim.record.reader import RunInfo

Cell = str | int | None

_HEADINGS: Final = ("run", "scenario", "mode", "seed", "status", "simulated", "events", "hash")
_LONGEST: Final = 60  # characters of a value that was set


def run_table(infos: Sequence[RunInfo]) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return the headings and the rows of a list of runs.

    A branch has the run and the time that it comes from, under `from`. `set` has what was changed, in the original run
    and in the branch, and the models that replace those of the scenario. These columns, and `tags`, are there only if
    any run has something in them.
    """
    more: Mapping[str, list[str]] = {
        "from": [_origin(info) for info in infos],
        "set": [_changes(info) for info in infos],
        "tags": [" ".join(info.options.get("tags", ())) for info in infos],
    }
    used = [heading for heading, cells in more.items() if any(cells)]
    rows = [(*_row(info), *(more[heading][place] for heading in used)) for place, info in enumerate(infos)]
    return (*_HEADINGS, *used), rows


def with_tags(infos: Sequence[RunInfo], tags: Sequence[str]) -> list[RunInfo]:
    """Return the runs that have all of some tags."""
    return [info for info in infos if all(tag in info.options.get("tags", ()) for tag in tags)]


def _row(info: RunInfo) -> tuple[Cell, ...]:
    simulated = "" if info.sim_seconds is None else seconds_text(info.sim_seconds)
    seed = None if info.problem else str(info.seed)
    return info.id, info.name, info.mode, seed, info.status, simulated, info.events, (info.hash or "")[:16]


def _origin(info: RunInfo) -> str:
    origin: Mapping[str, Any] | None = info.origin
    return "" if origin is None else f"{origin.get('run')} at {seconds_text(to_seconds(origin.get('at_ns', 0)))}"


def _changes(info: RunInfo) -> str:
    origin = info.origin or {}
    values = [*_texts(info.options.get("set")), *_texts(origin.get("set"))]
    values += [] if origin.get("seed") is None else [f"seed={origin['seed']}"]
    models = _texts(origin.get("model")) or _texts(info.options.get("model"))
    return " ".join(map(_short, (*values, *(f"model={model}" for model in models))))


def _texts(value: Json) -> list[str]:
    return list(map(str, value)) if isinstance(value, list | tuple) else []


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
