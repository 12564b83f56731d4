"""`sim shrink`: find the smallest scenario that still violates a property."""

import sys
from pathlib import Path

import click

from sim.base.errors import RunError, UsageError
from sim.cli.render.experiments import stoppable
from sim.cli.render.output import PATH, common, plain, print_json, say
from sim.cli.render.progress import StatusLine
from sim.cli.rights_options import ALLOW
from sim.cli.run import MAX_SEED, find_and_allow
from sim.experiments.testing.campaign import Campaign
from sim.experiments.testing.cases import Case
from sim.experiments.testing.report import command_for
from sim.experiments.testing.shrink.shrinking import Shrinker, Shrunk
from sim.experiments.testing.shrink.still_fails import SmallerScenarios
from sim.experiments.testing.trial import read_subject
from sim.tools.rights import Rights

RUNS = 2000


@click.command(
    "shrink",
    epilog="""Examples:

    \b
      sim shrink model.yaml --property no-debt
      sim shrink model.yaml --property door-opened-with-key --seed 1 --order 2 --to small.yaml""",
)
@click.argument("scenario", type=PATH)
@click.option("--property", "name", required=True, metavar="NAME", help="The property that is violated.")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="A seed that violates it. Default: it is looked for.")
@click.option("--order", type=click.IntRange(0), help="With --seed: its shuffled order.")
@click.option("--fault", type=click.IntRange(0), help="With --seed: its failures and latencies of models.")
@click.option(
    "--keep", multiple=True, metavar="PLACE", help="Do not change this part, such as agents.clerk; repeatable."
)
@click.option("--runs", type=click.IntRange(1), help=f"The most runs. Default: {RUNS}.")
@ALLOW
@click.option("--to", "out", type=PATH, metavar="FILE", help="The new file. Default: NAME.small.yaml beside SCENARIO.")
@common
def command(
    scenario: Path, *, name: str, seed: int | None, order: int | None, fault: int | None, keep: tuple[str, ...],
    runs: int | None, allow: tuple[str, ...], out: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Remove from SCENARIO what its violation of a property does not need, and write the rest as a new file.

    A smaller file is accepted if it violates the same property in the same way in several seeds, without new errors.
    Comments of what stays are kept. docs/testing.md explains all.
    """
    if seed is None and (order is not None or fault is not None):
        raise UsageError("--order and --fault choose one run of a seed", hint="add --seed")
    path, allow = find_and_allow(scenario, allow)
    target = out or path.with_name(f"{path.stem}.small.yaml")
    if target.exists():
        raise UsageError(f"{target} exists already", hint="give another file with --to")
    subject = read_subject(path, rights=Rights(allow=allow), only=(name,))
    Campaign(subject, ())  # the scenario must be valid, and have the property
    case = None if seed is None else Case(seed, order or 0, fault or 0)
    line = _Progress()
    judge = SmallerScenarios(subject, runs or RUNS, case)
    shrinker = Shrinker(subject.text, judge, keep, line)
    with stoppable():
        shrinker.shrink()
    line.clear()
    shrunk = shrinker.result()
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(shrunk.text)
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror or error}") from error
    small = read_subject(target, rights=Rights(allow=allow))
    command = command_for(small, judge.witness)
    _print(shrunk, target, command, as_json=as_json)
    return 0


class _Progress:
    """Shows how small the file is, on stderr."""

    def __init__(self) -> None:
        self._line = StatusLine(live=sys.stderr.isatty())

    def __call__(self, lines: int, runs: int) -> None:
        if self._line.is_due():
            self._line.show(f"{lines} lines after {runs} runs")

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()


def _print(shrunk: Shrunk, target: Path, command: str, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "file": target,
                "lines": len(shrunk.text.splitlines()),
                "runs": shrunk.runs,
                "complete": shrunk.complete,
                "removed": {what: {"removed": gone, "of": of} for what, (gone, of) in shrunk.removed.items()},
                "simplified": list(shrunk.simplified),
                "command": command,
            }
        )
        return
    gone = ", ".join(f"{count} of {of} {what}" for what, (count, of) in shrunk.removed.items()) or "nothing"
    click.echo(plain(f"{target}: {len(shrunk.text.splitlines())} lines, after {shrunk.runs} runs"))
    click.echo(plain(f"  removed: {gone}"))
    for change in shrunk.simplified:
        click.echo(plain(f"  simpler: {change}"))
    click.echo(plain(f"  it still fails: {command}"))
    if not shrunk.complete:
        say("sim: note: it could be smaller: it was stopped, or its runs were used up (--runs)")
