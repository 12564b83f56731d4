"""The table of calls and costs of language models."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sim.base.text import number
from sim.cli.render.output import plain
from sim.cli.render.table import print_table
from sim.kernel.duration import seconds_text

_MICRO = 1_000_000


def print_models(summary: Mapping[str, Any], *, most: bool = False) -> None:
    """Print the calls of language models and their cost, with the estimate.

    Args:
        summary: the result of `Models.summary`.
        most: whether to add the highest possible cost.
    """
    expected = summary.get("expected") or {}
    headings = ["model", "calls", "failed", "attempts", "tokens in", "cached", "tokens out", "cost"]
    headings += ["tokens at most", "at most"] if most else []
    rows = [_row(name, tally, most) for name, tally in summary["models"].items()]
    if len(rows) != 1:
        rows.append(_row("all", summary["total"], most))
    if expected:
        rows.append(_row("expected", expected["total"], most))
    print_table(headings, rows)
    _print_special(summary)
    if saved := summary.get("saved_micro"):
        paid = summary["total"]["cost_micro"] - saved
        click.echo(
            f"calls were answered in batches: {paid / _MICRO:g} to pay, {saved / _MICRO:g} less than the full price"
        )
    if summary["unpriced"] and not all(name.startswith("scripted:") for name in summary["models"]):
        click.echo(f"no price is known for {plain(', '.join(summary['unpriced']))}: counted as free")


def _row(name: str, tally: Mapping[str, Any], most: bool) -> tuple[str | int | float, ...]:
    return (
        name,
        tally["calls"],
        tally["failed"],
        tally["attempts"],
        tally["input_tokens"],
        tally["cached_tokens"],
        tally["output_tokens"],
        tally["cost_micro"] / _MICRO,
        *([tally.get("most_tokens", 0), tally["most_micro"] / _MICRO] if most else []),
    )


def _print_special(summary: Mapping[str, Any]) -> None:
    """Print what went wrong with the calls, and what endpoints can do, as far as there is any of it."""
    if failures := summary.get("failures"):
        listed = ", ".join(f"{number(count)} {kind}" for kind, count in failures.items())
        click.echo(f"requests without an answer: {plain(listed)}")
        if "reasoning" in failures:
            click.echo("hint: answers that end in their reasoning need a higher models.max_tokens, or no reasoning")
    if empty := summary.get("empty"):
        click.echo(f"empty answers after results of tools: {number(empty)}")
    for name, count in summary.get("written_calls", {}).items():
        click.echo(f"{number(count)} answers look like tool calls that are written as text; they are read with")
        click.echo(f"  models.endpoints.{plain(name)}.tool_calls: text")
    if people := summary.get("people"):
        _print_people(people)
    if workers := summary.get("edge_workers"):
        _print_workers(workers)
    for name, state in summary.get("concurrency", {}).items():
        click.echo(f"{plain(name)} gets {state['reached']:g} requests at a time now, of at most {state['most']:g}")
    for name, counts in summary.get("formats", {}).items():
        how = "keeps" if counts["enforced"] else "does not keep" if counts["free"] else "may keep"
        numbers = f"{counts['enforced']} answers by schema, {counts['free']} read as text"
        again = f", {counts['refused']} requests sent again without one" if counts["refused"] else ""
        click.echo(f"{plain(name)} {how} JSON schemas: {numbers}{again}")
    surveys = summary.get("surveys", {})
    if any(counts["missing"] or counts["missing"] is None for counts in surveys.values()):
        shown = [
            (ask, counts["answers"], "not measured" if counts["missing"] is None else counts["missing"])
            for ask, counts in surveys.items()
        ]
        print_table(("question", "answers", "missing"), shown)


def _print_people(people: Mapping[str, int]) -> None:
    """Print how the calls ended that waited for a person."""
    words = {
        "late": "not in time", "unfit": "not in time, and the given text does not fit: the model answered",
        "left": "left to the model", "stopped": "stopped with the agent",
    }  # fmt: skip
    others = [f"{number(people[how])} {text}" for how, text in words.items() if people[how]]
    calls = "1 call" if people["asked"] == 1 else f"{number(people['asked'])} calls"
    shown = "; ".join([f"{number(people['answered'])} answered", *others])
    click.echo(f"{calls} waited for a person: {shown}")
    if refused := people["refused"]:
        click.echo(f"answers of people that were refused: {number(refused)}")


def _print_workers(workers: Mapping[str, int]) -> None:
    """Print how many processes made the calls, and which of them ended before their time."""
    count, replaced, again = workers["processes"], workers["replaced"], workers["interrupted"]
    missing = workers["missing"]
    where = " on a Ray cluster" if workers["on_ray"] else ""
    click.echo(f"calls were made by {'1 worker process' if count == 1 else f'{count} worker processes'}{where}")
    if replaced or missing:
        ended = "1 of them ended and was replaced" if replaced == 1 else f"{replaced} ended and were replaced"
        if missing:
            last = f"{missing} ended and had no replacement by the end of the run"
            ended = f"{ended}, {last}" if replaced else last
        requests = "1 request" if again == 1 else f"{number(again)} requests"
        click.echo(f"{ended}; {requests} without an answer by then may be billed by the endpoint")
    if late := workers["counted_late"]:
        counts = "1 count of tokens was" if late == 1 else f"{number(late)} counts of tokens were"
        click.echo(f"{counts} made by the process of the run, because no worker process made it in time")
        click.echo("hint: with more --edge-workers, each of them has less to do")


def print_capabilities(capabilities: Mapping[str, Any], needs: Sequence[Mapping[str, Any]]) -> None:
    """Print what models at endpoints can do, who says so, and how many calls need it.

    Args:
        capabilities: what is known of each model, in the form of `Capabilities.to_json`.
        needs: what the calls need, in the form of an estimate.
    """
    if not capabilities:
        return
    rows = []
    for model, abilities in capabilities.items():
        wanted = {need["need"]: need["calls"] for need in needs if model in need["models"]}
        for need, one in abilities.items():
            can = "not known" if one["can"] is None else "yes" if one["can"] else "no"
            rows.append((model, need, can, _SOURCES[one["by"]], wanted.get(need, 0)))
    print_table(("model", "can do", "", "says", "calls that need it"), rows)


_SOURCES = {None: "", "scenario": "the scenario", "endpoint": "the endpoint"}


def print_bounds(expected: Mapping[str, Any]) -> None:
    """Print what the calls of an estimate can take at most, and what of it was measured."""
    bounds, measured = expected.get("bounds") or {}, expected.get("measured") or {}
    if not bounds:
        return
    calls = "1 call" if measured["all"] == 1 else f"{number(measured['all'])} calls"
    if "batches" in bounds:
        size = f"the largest has {number(bounds['largest_batch'])} requests"
        time = f"{seconds_text(bounds['seconds'])} if each takes as long as it may"
        click.echo(f"{calls} in {number(bounds['batches'])} batches, one after another; {size}; {time}")
    else:
        time = f"{seconds_text(bounds['seconds'])} if they come one after another and each takes as long as it may"
        click.echo(f"at most {number(bounds['tokens'])} tokens for {calls}, and {time}")
    if not measured["calls"]:
        click.echo("none of this is measured: --probe 5 makes five calls, and scales the others by them")
        return
    rates = f"{measured['failed']:.0%} failed, {measured['asked_again']:.0%} would be asked again"
    click.echo(
        f"measured: {measured['calls']} of {calls}, {measured['at_once']} at a time; {rates}, {measured['timeouts']} "
        f"requests timed out; expected time: {seconds_text(round(measured['seconds']))}"
    )
    if measured["problem"]:
        click.echo(f"the first failure: {plain(measured['problem'])}")
