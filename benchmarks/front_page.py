"""The parts of README.md that have figures, as they follow from what `benchmarks.front` has measured.

A part stands between `<!-- measured: NAME -->` and `<!-- /measured -->`, and is written as a whole.
"""

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from sim.scenario.population import MAX_AGENTS

Results = Mapping[str, Any]

_PART = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- /measured -->)", re.DOTALL)
NAMES = ("sim", "Mesa", "SimPy", "Concordia", "LangGraph")
NOTHING = "–"


def render(page: str, results: Results) -> str:
    """Return a page with its measured parts written from the results.

    Raises:
        KeyError: the page has a part of which there are no figures.
    """
    return _PART.sub(lambda part: f"{part[1]}{PARTS[part[2]](results)}\n{part[3]}", page)


def _start(results: Results) -> str:
    first, clone = results["first"], results["clone"]
    return _wrapped(
        f"The first `uv run` sets up an environment of {_round(clone['run'])} MB, without bytecode. `sim run` runs "
        f"{first['agents']} agents for {first['days']:g} simulated days, which takes about "
        f"{_round(first['seconds'])} s of CPU time, records {first['events']:,} events, and prints a summary. "
        "`sim view` writes a page that plays the run, like this one of an outbreak:"
    )


def _develop(results: Results) -> str:
    clone = results["clone"]
    return _wrapped(
        "Without `--no-dev`, `uv run` also installs what tests and documentation need: "
        f"{_round(clone['develop'])} MB instead of {_round(clone['run'])}. After `export UV_NO_DEV=1`, you can leave "
        "out the option here and in the documentation."
    )


def _peers(results: Results) -> str:
    figures, versions = results["figures"], results["measured"]["versions"]
    rows = [
        ["", *(f"{name} {_short(versions[name])}" for name in NAMES)],
        ["---", *["---"] * len(NAMES)],
        *WORDS,
        ["wake-ups a second, nothing recorded", *_each(figures["wakeups"], _per_second)],
        ["turns a second, in steps", *_each(figures["turns"], _per_second)],
        ["CPU time per model call, without the model", *_each(figures["calls"], _milliseconds)],
        ["installed, with bytecode", *_each(figures["megabytes"], lambda size: f"{_round(size)} MB")],
        ["time of the import", *_each(figures["import"], lambda spent: f"{_round(spent)} s")],
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


WORDS = [
    ["made for", "populations whose members act at their own pace, with or without language models",
     "agents in steps, on grids, networks and continuous space", "processes that queue for resources",
     "social situations described in text by language models, led by a game master",
     "workflows of language models in production"],
    ["an agent acts", "when a time, an event, a message or a free resource wakes it",
     "at each step, or at events that it schedules", "when what its process waits for happens",
     "when the game master lets it", "when an edge of the graph leads to it"],
    ["the same run again",
     "from its seed, or from the record, which has the answers of models; every event is compared", "from its seed",
     "from the seed of your program", "continued from a checkpoint; models are asked again",
     "continued from a checkpoint; models are asked again unless a task was cached"],
]  # fmt: skip
"""What has no figure: taken from the documentation and the code of each tool."""


def _measured(results: Results) -> str:
    measured = results["measured"]
    return _wrapped(
        f"*Measured on {measured['day']} by `uv run python -m benchmarks.front` ({measured['python']}, "
        f"{measured['machine']}), in CPU time. Wake-ups: 1,000 agents that sleep for spans of their own, nothing on "
        "record; the kernel of `sim` is compiled. Steps: 400 agents of Schelling's model; for `sim` a scenario file "
        "with every event on record. Calls: ten agents, each of which asks a stub that answers at once, in LangGraph "
        "by a graph of one node; `sim` records to disk, Concordia to its log, LangGraph to memory. Real models take "
        "much longer than any of them. "
        f"{NOTHING}: not a part of the tool, or not measured. Each figure is the best of several rounds"
        f"{_loaded(measured['load'])}. Figures of the inner loop on CPython 3.13, on a quieter machine, are in "
        "[benchmarks](benchmarks/README.md).*"
    )


def _loaded(load: str) -> str:
    """Say so if the machine was busy when the figures were measured."""
    busy = round(float(load.split()[0]))
    return "" if busy < 2 else f", on a machine with {busy} other processes at work"


def _limits(results: Results) -> str:
    figures = results["figures"]
    yaml, by_class, mesa = figures["turns"]["sim"], figures["turns_class"]["sim"], figures["turns"]["Mesa"]
    asleep = figures["memory"]["sim"]
    core = (
        f"- **One run uses one core.** On the machine of the table it does {_per_second(figures['iterations']['sim'])} "
        "iterations of agents a second, each with an action and two events on record, or "
        f"{_per_second(figures['calls']['sim'])} model calls that a stub answers. Of a model behind an API, up to 64 "
        "calls are under way at once (`--concurrency`). "
        "Sweeps use all cores."
    )
    agents = (
        f"- **At most {MAX_AGENTS:,} agents in one scenario.** A sleeping agent takes {asleep / 1000:.1f} KB in all, "
        f"so that many would take about {asleep * MAX_AGENTS / 1e9:.1f} GB."
    )
    steps = (
        "- **Not for simple agents that all act at each step:** Schelling's model runs "
        f"{_round(yaml / mesa)} times as fast in Mesa as in a scenario file, and {_round(by_class / mesa)} times as "
        "fast as with a class of `sim`, because each turn is ordered, checked and recorded. For grids of millions of "
        "cells, use NumPy arrays."
    )
    return "\n".join(_wrapped(text, "  ") for text in (core, agents, steps))


def _wrapped(text: str, later: str = "") -> str:
    return textwrap.fill(text, 130, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def _each(values: Mapping[str, float], text_of: Callable[[float], str]) -> list[str]:
    return [text_of(values[name]) if name in values else NOTHING for name in NAMES]


def _per_second(seconds: float) -> str:
    return f"{_round(1 / seconds)}"


def _milliseconds(seconds: float) -> str:
    return f"{_round(seconds * 1000)} ms"


def _round(value: float) -> str:
    """Return a number with two significant digits."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _short(version: str) -> str:
    return ".".join(version.split(".")[:2])


PARTS: dict[str, Callable[[Results], str]] = {
    "start": _start, "develop": _develop, "peers": _peers, "measured": _measured, "limits": _limits,
}  # fmt: skip
