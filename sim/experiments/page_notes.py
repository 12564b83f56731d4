"""Notes on the page of an experiment: whether it is whole, its size, when it was measured, where its data is.

It also says what each outcome is, beside its figure. All of it follows from the results.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sim.agents.outcomes import COUNTS, MISSING
from sim.base.pages import Markup, tag
from sim.experiments.charts import number, written
from sim.experiments.experiment import PointEstimates, left
from sim.experiments.outcomes import is_count
from sim.experiments.plan import Plan
from sim.experiments.results import Results

_TIMES: Final = re.compile(rb'<p class="lead made">.*?</p>')
_TILES: Final = 6
"""The most outcomes with a tile."""


def head(results: Results, estimates: Sequence[PointEstimates], names: Sequence[str], table: str) -> Markup:
    """Return the head of the page.

    Args:
        results: the results.
        estimates: the outcomes by combination.
        names: the names of the outcomes.
        table: the name of the file with the table, which is beside the page.
    """
    plan = results.plan
    title = tag("div", tag("h1", plan.name), _state(results), class_="title")
    return tag(
        "header",
        title,
        tag("p", _what(plan), class_="lead"),
        made(results),
        _tiles(results, estimates, names),
        _data(names, table),
    )


def without_times(page: bytes) -> bytes:
    """Return a page without the line that says when it was measured, which no repetition has in common with it."""
    return _TIMES.sub(b"", page, count=1)


def _state(results: Results) -> Markup:
    """Return whether all trials are done."""
    missing, failed = left(results), len(results.problems())
    kind = "interrupted" if missing else "failed" if failed else "finished"
    count = missing or failed
    word = {"interrupted": "missing", "failed": "failed"}.get(kind)
    said = kind if word is None else f"{count:,} trial{'s' * (count != 1)} {word}"
    return tag("span", said, class_=f"pill {kind}")


def _what(plan: Plan) -> str:
    past, count = plan.past, len(plan.points)
    what = ("combination" if past is None else "arm") + "s" * (count != 1)
    origin = "" if past is None else f", from {past.at} of the run {Path(past.run).name}"
    listed = ("listed combinations",) if plan.design == "list" else ()
    varied = "; ".join((*listed, *plan.vary)) or "nothing is varied"
    return f"{count:,} {what}, seeds {plan.seeds_text}; plan {plan.id}{origin}: {varied}"


def made(results: Results) -> Markup:
    """Return a line that says when, for how long and with which versions the trials were measured."""
    return tag("p", _made(results.sessions()), class_="lead made")


def _made(sessions: Sequence[Mapping[str, Any]]) -> str:
    if not sessions:
        return "When it was measured is not on record."
    days = list(dict.fromkeys(f"{one['began'][:16].replace('T', ' ')} UTC" for one in (sessions[0], sessions[-1])))
    seconds = number(sum(one["seconds"] for one in sessions))
    used = dict.fromkeys(
        ", ".join(f"{name} {one['versions'][name]}" for name in ("sim", "python") if name in one["versions"])
        for one in sessions
    )
    times = f" in {len(sessions)} sessions" if len(sessions) > 1 else ""
    return f"Measured {' to '.join(days)}{times}, {seconds} s, with {'; '.join(used)}."


def _tiles(results: Results, estimates: Sequence[PointEstimates], names: Sequence[str]) -> Markup:
    plan, totals = results.plan, results.totals()
    failed = len(results.problems())
    made = [(f"{totals['trials']:,}", "trials measured", False)]
    made += [(f"{failed:,}", "trials failed", True)] * (failed > 0)
    if totals["trials"]:
        low, high = totals["fewest_agents"], totals["most_agents"]
        agents = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        made.append((agents, "agents in a run", False))
        made.append((f"{totals['events']:,}", "events in all", False))
    if totals["errors"]:
        made.append((f"{totals['errors']:,}", "failed iterations in all", True))
    if len(estimates) == 1:  # nothing is varied: these are the results
        own = estimates[0].outcomes
        made += [(written(own[name]), plan.shown(name), False) for name in names[:_TILES] if name in own]
    tiles = [
        tag("div", tag("b", value), tag("span", said), class_="tile bad" if bad else "tile")
        for value, said, bad in made
    ]
    return tag("div", tiles, class_="tiles")


def _data(names: Sequence[str], table: str) -> Markup:
    """Return where the data is, and how to get a figure for a paper."""
    link = tag("a", table, href=table)
    parts: list[Markup | str] = [link, " beside this page has a line for each trial."]
    if names:
        name = shlex.quote(names[0])
        figure = f"sim export FOLDER figure {name} --to figure.pdf"
        parts += [
            " For print: ",
            tag("code", figure),
            " and ",
            tag("code", "sim export FOLDER table --to table.tex"),
            ".",
        ]
    return tag("p", parts, class_="note")


def about(plan: Plan, name: str, recorded: Collection[str], metrics: Collection[str]) -> str:
    """Return what an outcome is, in one phrase; empty if the results do not say it.

    Args:
        plan: the plan.
        name: the name of the outcome.
        recorded: the names of all outcomes on record.
        metrics: the names of the metrics.
    """
    defined = next((one for one in plan.definitions if one.name == name), None)
    if defined is not None:
        return defined.value if defined.value == name else f"{name}: {defined.value}"
    base, _, option = name.partition("=")
    done, refused, agents = COUNTS
    if name in metrics:
        said = "the metric at the end of the run"
    elif name.startswith(MISSING) and name.removeprefix(MISSING) in {one.partition("=")[0] for one in recorded}:
        said = "how many answers are missing"
    elif option and f"{MISSING}{base}" in recorded:
        said = f"the share of those who chose {option}, of all who chose an option"
    elif f"{MISSING}{name}" in recorded:
        said = "the mean of the answers"
    elif is_count(name) or name.startswith(COUNTS):
        word = next(prefix for prefix in COUNTS if name.startswith(prefix))
        what = name.removeprefix(word)
        said = {
            done: f"how many times {what} was done",
            refused: f"how many times {what} was refused",
            agents: f"how many agents are {what} at the end",
        }[word]
    elif name.startswith("mean_"):
        said = f"the mean of what was observed as {name.removeprefix('mean_')}"
    else:
        return ""
    return f"{name}: {said}"
