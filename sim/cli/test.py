"""`sim test`: run scenarios with many seeds and orders, and look for violations of their properties."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sim.base.errors import RunError, UsageError
from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.render.experiments import stoppable
from sim.cli.render.output import PATH, common, plain, print_json, say
from sim.cli.render.progress import StatusLine
from sim.cli.render.table import print_table
from sim.cli.rights_options import ALLOW
from sim.cli.run import find_and_allow
from sim.experiments.pool import cores
from sim.experiments.testing.campaign import ORDERS, SEEDS, Campaign, plan
from sim.experiments.testing.cases import Case
from sim.experiments.testing.coverage import Coverage
from sim.experiments.testing.junit import junit
from sim.experiments.testing.report import TestReport, ViolationKind
from sim.experiments.testing.trial import CaseResult
from sim.runner.options import RunOptions
from sim.tools.rights import Rights


@click.command(
    "test",
    epilog="""Examples:

    \b
      sim test scenarios/queue.yaml
      sim test scenarios/*.yaml --seeds 10 --orders 5 --junit tests.xml
      sim test scenarios/queue.yaml --seed 7 --order 3""",
)
@click.argument("scenarios", type=PATH, nargs=-1, required=True)
@click.option("--seeds", type=click.IntRange(1, 100_000), help=f"Number of seeds, run as declared. Default: {SEEDS}.")
@click.option(
    "--orders",
    type=click.IntRange(0, 100_000),
    help=f"Number of further runs with a shuffled order of simultaneous events. Default: {ORDERS}.",
)
@click.option("--faults", is_flag=True, help="Run each seed also with failures and latencies of models.")
@options_of(RunOptions, "seed", seed="Run this seed alone.")
@click.option("--order", type=click.IntRange(0), help="With --seed: this shuffled order; 0: as declared.")
@click.option("--fault", type=click.IntRange(0), help="With --seed: these failures and latencies; 0: as declared.")
@click.option("--property", "only", multiple=True, metavar="NAME", help="Check this property only; repeatable.")
@click.option("--coverage", is_flag=True, help="Tell what no run has reached, and mark it in the text of the file.")
@options_of(
    RunOptions,
    "until",
    "overrides",
    until="The simulated time of each run.",
    overrides="Change a value of the scenarios.",
)
@ALLOW
@click.option("--jobs", type=click.IntRange(1, 1024), help="Number of parallel processes. Default: one per core.")
@click.option("--to", "out", type=PATH, metavar="FOLDER", help="Keep results here; the same command continues a test.")
@click.option("--junit", "junit_file", type=PATH, metavar="FILE", help="Write the results as JUnit XML.")
@common
def command(
    scenarios: tuple[Path, ...],
    *,
    jobs: int | None,
    out: Path | None,
    junit_file: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Run SCENARIOS with many seeds and orders of simultaneous events, and look for violations of their `properties`.

    The first violation of each kind is shown with its seed, order, time and agent, the events before it, and the
    command that repeats it. The exit code is 1 if a property is violated or a run fails. docs/testing.md explains all.
    """
    campaigns = _campaigns(scenarios, options)
    reports = []
    for number, campaign in enumerate(campaigns):
        kept = None if out is None else out / f"{campaign.scenario}{f'-{number}' if number else ''}.jsonl"
        reports.append(_carry_out(campaign, jobs or cores(), kept))
        if not as_json:
            _print(reports[-1])
        if not reports[-1].complete:
            break
    if junit_file is not None:
        _write(junit_file, junit(reports))
    complete = len(reports) == len(campaigns) and reports[-1].complete
    ok = complete and all(report.ok for report in reports)
    if as_json:
        print_json({"ok": ok, "complete": complete, "scenarios": [report.to_json() for report in reports]})
    if not complete:
        again = "the same command continues it" if out is not None else "--to FOLDER would keep its results"
        say(f"sim: interrupted; {again}")
    return 0 if ok else 1


def _campaigns(scenarios: Sequence[Path], options: Keywords) -> list[Campaign]:
    """Return the tests of all scenarios, before the first run of any."""
    seed, order, fault = (options.pop(name) for name in ("seed", "order", "fault"))
    if seed is None and (order is not None or fault is not None):
        raise UsageError("--order and --fault choose one run of a seed", hint="add --seed")
    many = [name for name in ("seeds", "orders", "faults") if options[name]]
    if seed is not None and many:
        raise UsageError(f"--seed runs one seed alone, so --{many[0]} has no effect", hint="leave one of them out")
    case = None if seed is None else Case(seed, order or 0, fault or 0)
    counts = {name: options[name] for name in ("seeds", "orders") if options[name] is not None}
    campaigns = []
    for one in scenarios:
        path, allow = find_and_allow(one, options["allow"])
        campaigns.append(
            plan(
                path,
                **counts,
                faults=options["faults"],
                case=case,
                until=options["until"],
                only=options["only"],
                coverage=options["coverage"],
                overrides=options["overrides"],
                rights=Rights(allow=allow),
            )
        )
    return campaigns


def _carry_out(campaign: Campaign, jobs: int, kept: Path | None) -> TestReport:
    progress = _Progress(campaign)
    with stoppable(), contextlib.closing(campaign.carry_out(jobs, kept)) as results:
        for result in results:
            progress.counted(result)
    progress.clear()
    return campaign.report()


class _Progress:
    """Shows how many runs are done, on stderr."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._line = StatusLine(live=sys.stderr.isatty())
        self._violated = 0

    def counted(self, result: CaseResult) -> None:
        """Count a run, and show it."""
        self._violated += bool(result.violations)
        if not self._line.is_due():
            return
        done, planned = len(self._campaign.done), len(self._campaign.cases)
        self._line.show(plain(f"{self._campaign.scenario}: {done} of {planned} runs, {self._violated} with violations"))

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()


def _print(report: TestReport) -> None:
    runs = f"{len(report.results)} run{'s' * (len(report.results) != 1)}"
    count = len(report.properties)
    what = f"{count} propert{'y' if count == 1 else 'ies'}, {runs}"
    click.echo(plain(f"{report.file}: {'ok' if report.ok else 'not ok'}: {what}"))
    for one in report.violations:
        _print_finding(one, len(report.results))
    if report.failed:
        first = report.failed[0]
        click.echo(plain(f"  {len(report.failed)} of {runs} failed, first {first.case.options}: {first.problem}"))
    for name in report.never_judged:
        click.echo(plain(f"  {name}: it could be judged in no run"))
    for name, times in report.undecided.items():
        click.echo(plain(f"  {name}: the runs ended before it was decided, {times} times"))
    erring = [one for one in report.results if one.errors]
    if erring:
        first = erring[0]
        click.echo(
            plain(f"  agents failed in {len(erring)} of {runs}, first {first.case.options}: {first.commonest_error}")
        )
    if report.coverage is not None:
        _print_coverage(report.coverage)


def _print_coverage(coverage: Coverage) -> None:
    click.echo()
    print_table(["part", "reached", "of"], [[what, reached, of] for what, reached, of in coverage.table()])
    if coverage.missed:
        click.echo()
        for line in coverage.marked().splitlines():
            click.echo(plain(line))


def _print_finding(finding: ViolationKind, runs: int) -> None:
    one = finding.violation
    who = f", {one.agent}" if one.agent else ""
    where = f"seed {finding.case.seed}" + (f", order {finding.case.order}" if finding.case.order else "")
    where += f", fault {finding.case.fault}" if finding.case.fault else ""
    click.echo(plain(f"  {one.property}: {one.text}"))
    click.echo(plain(f"    {where}, at {one.time:g} s{who}; in {finding.runs} of {runs} runs"))
    for line in one.story:
        click.echo(plain(f"    | {line}"))
    click.echo(plain(f"    repeat: {finding.command}"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}") from error
