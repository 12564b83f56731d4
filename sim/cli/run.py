"""`sim run`: run a scenario and print a summary."""

import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from sim.base.errors import SimError, UsageError
from sim.base.shown import Keywords, shown_fields
from sim.cli.declared import options_of
from sim.cli.metrics_options import Metrics, exporting, metrics_of, metrics_options
from sim.cli.model_options import access_of, model_options
from sim.cli.render.model_costs import print_bounds, print_capabilities, print_models
from sim.cli.render.output import OUT, PATH, common, plain, print_json, say
from sim.cli.render.progress import ProgressPrinter
from sim.cli.render.summary import print_summary
from sim.cli.rights_options import rights_options
from sim.host.watchdog import Stuck
from sim.kernel.duration import seconds_text
from sim.record import find_run
from sim.record.summary import unread_advice
from sim.runner import RunResult, run
from sim.runner.options import MAX_SEED as MAX_SEED
from sim.runner.options import HostOptions, ReplayOptions, RunOptions
from sim.scenario.packaged import find_scenario
from sim.tools.rights import Rights

Command = TypeVar("Command", bound=Callable[..., Any])

RUN = tuple(name for name in shown_fields(RunOptions) if name not in shown_fields(Rights))
"""The options of a run beside rights, which have options of their own, and models."""

HOST = tuple(name for name in shown_fields(HostOptions) if name not in shown_fields(Rights))
"""Those that say how a run is hosted, which each command that runs something has."""


CHANGE = options_of(ReplayOptions, "allow_change")
NO_RECORD = click.option("--no-record", is_flag=True, help="Do not record the run.")


def host_options(command: Command) -> Command:
    """Add the options that say how a run is hosted to a command, which gets them as one mapping `host`."""

    @wraps(command)
    def collected(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, host={name: options.pop(name) for name in HOST}, **options)

    return options_of(HostOptions, *HOST)(collected)  # type: ignore[return-value]  # the same but for its options


@click.command(
    "run",
    epilog="""Examples:

    \b
      sim run scenarios/contagion.yaml
      sim run walkers:walk
      sim run scenarios/queue.yaml --seed 2 --until 8h --set pools.desk.slots=4 --tag pilot
      sim run scenarios/queue.yaml --clock wall --speed 60 --no-record
      sim run scenarios/ecology.yaml --clock wall --speed 3600 --live
      sim run scenarios/ecology.yaml --max-wall 10m
      sim run isles.yaml --shards 2
      sim run scenarios/ecology.yaml --clock wall --speed 60 --metrics 9464
      sim run scenarios/debate.yaml --model openai:NAME --base-url http://127.0.0.1:8000/v1
      sim run scenarios/debate.yaml --model openai:NAME --batch --set models.latency=2s""",
)
@click.argument("scenario", type=PATH)
@options_of(RunOptions, *RUN)
@rights_options
@model_options
@metrics_options
@OUT
@NO_RECORD
@click.option(
    "--shards",
    metavar="N[@ray]",
    help="Run the islands of the scenario in N processes, also of --ray. The hash is that of one process.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress; at the end print the run folder only.")
@click.option("--live", is_flag=True, help="Show a live display of agents, rates, limits and latest events.")
@click.option(
    "--strict", is_flag=True, help="Exit with code 1 if any iteration of an agent failed, or a scripted rule."
)
@click.option("-v", "--verbose", is_flag=True, help="Without a terminal: progress every 5 s, not every minute.")
@common
def command(
    scenario: Path,
    out: Path,
    *,
    no_record: bool,
    shards: str | None,
    quiet: bool,
    verbose: bool,
    live: bool,
    as_json: bool,
    only_estimate: bool,
    probe: int | None,
    strict: bool,
    rights: Rights,
    **options: Any,
) -> int:
    """Run SCENARIO and print a summary. SCENARIO is a file, or PACKAGE:NAME of one of an installed package.

    Options that are not given take their values from the scenario. Ctrl-C interrupts the run between two instants and
    keeps its record, so that `sim resume` can continue it. A second Ctrl-C ends the run immediately.
    """
    scenario, allow = find_and_allow(scenario, rights.allow)
    options |= {**rights.keywords, "allow": allow}
    options["access"] = access_of(options)
    wanted = metrics_of(options)
    if probe is not None and not only_estimate:
        raise UsageError("--probe is given without --estimate", hint="add --estimate")
    if only_estimate:
        if shards is not None:
            raise UsageError("a run on shards has no --estimate", hint="leave out --shards: the estimate is the same")
        if probe:
            _check_batches(scenario, options)
        _estimate(scenario, options, probe or 0, as_json=as_json)
        return 0
    _check_batches(scenario, options)
    if shards is not None and wanted.agents:
        raise UsageError("metrics of a run on shards have no series of single agents", hint="leave out --metrics-agent")
    with exporting(wanted) as metrics:
        if options["access"] is not None and options["access"].outside:
            with redirect_stdout(sys.stderr):
                options["expected"] = _expected(scenario, options)
        options["on_interrupt"] = "return"  # so that the summary of an interrupted run is printed
        options["out"] = None if no_record else out
        result = _run(scenario, metrics, shards, quiet=quiet, verbose=verbose, live=live, **options)
        print_result(result, as_json=as_json, quiet=quiet)
        metrics.linger()
    if strict and result.errors:
        say(f"sim: error: {result.errors} iterations of agents failed, and --strict allows none")
        return 1
    if strict and (faults := result.models.get("rule_faults")):
        say(f"sim: error: {faults} calls failed because of scripted rules, and --strict allows none")
        return 1
    return exit_code(result)


def _check_batches(scenario: Path, options: Keywords) -> None:
    """Check that a run can have its calls answered in batches, if it is to."""
    if options["access"] is not None and options["access"].batching:
        from sim.runner.probing import check_batched_run  # the import is slow

        check_batched_run(scenario, RunOptions.of(options))


def _run(
    scenario: Path, metrics: Metrics, shards: str | None, *, quiet: bool, verbose: bool, live: bool, **options: Any
) -> RunResult:
    """Run with progress and metrics as requested."""
    start = run if shards is None else _on_shards(shards, options.pop("ray"))
    progress = _live_progress() if live and not quiet else ProgressPrinter(live=sys.stderr.isatty(), often=verbose)

    def stuck(step: Stuck) -> None:
        metrics.stuck(step)
        progress.stuck(step)

    try:
        with redirect_stdout(sys.stderr):  # output of agents is not part of the result
            result = start(scenario, progress=None if quiet else progress, stuck=stuck, begun=metrics.begun, **options)
    finally:
        progress.clear()
    metrics.ended(result)
    return result


def _on_shards(shards: str, ray: str | None) -> Callable[..., RunResult]:
    from sim.runner.shards.sharded import on_shards, shards_from  # the import is slow, and few runs need it

    runner: Callable[..., RunResult] = on_shards(*shards_from(shards, ray))
    return runner


def _live_progress() -> ProgressPrinter:
    from sim.cli.render.live import LiveProgress  # the import is slow

    return LiveProgress()


def _estimate(scenario: Path, options: Keywords, probe: int, *, as_json: bool) -> None:
    """Print the estimated cost of the language models of a run."""
    if probe and (options["access"] is None or not options["access"].outside):
        raise UsageError("--probe makes calls at an endpoint, and no model is at one", hint="add --model openai:NAME")
    from sim.runner.estimate import estimate  # the import is slow
    from sim.runner.probing import look

    with redirect_stdout(sys.stderr):
        expected = estimate(scenario, probe=probe, **options)
        capabilities = look(scenario, RunOptions.of(options)) if expected else {}
    access = options["access"]
    share = access.batching.price if access is not None and access.batching else None
    if as_json:
        price = {} if share is None else {"batch_price": share}
        print_json({"estimate": expected, "capabilities": capabilities, **price})
    elif expected:
        print_models(expected, most=True)
        print_bounds(expected)
        print_capabilities(capabilities, expected["needs"])
        if share is not None:
            click.echo(f"in batches, it costs {share:.0%} of that")
    else:
        click.echo("the run calls no language models")


def _expected(scenario: Path, options: Keywords) -> Mapping[str, Any]:
    """Return the estimated spend of the run, for the summary; empty if there is no estimate."""
    from sim.runner.estimate import estimate  # the import is slow

    try:
        return estimate(scenario, **options)
    except SimError as error:
        say(f"sim: warning: no cost estimate: {plain(error)}")
        return {}


def find_and_allow(scenario: Path, allow: tuple[str, ...]) -> tuple[Path, tuple[str, ...]]:
    """Return the file of a scenario, which an argument names by its path or as PACKAGE:NAME, and what it may import."""
    path, allowed = find_scenario(scenario, allow)
    if allowed:
        import_from_here(*([path.resolve().parent] if path == scenario else []))
    return path, allowed


def import_from_here(*folders: Path) -> None:
    """Allow imports of agents from folders, and from the current folder."""
    # At the end, so that no file in these folders can replace an installed module.
    sys.path += [*map(str, folders), str(Path.cwd())]


_MOST_WARNINGS = 5


def exit_code(result: RunResult) -> int:
    """Return 0 for a finished run. Return 1 otherwise, or if no call to an endpoint was answered."""
    return 0 if result.status == "finished" and not result.unanswered else 1


def print_result(result: RunResult, *, as_json: bool, quiet: bool) -> None:
    """Print the result of a run; if `quiet`, only its folder."""
    fields = result.to_json()
    if as_json:
        print_json(fields)
    elif quiet:
        click.echo(plain(result.run or ""), nl=result.run is not None)
    else:
        print_summary(fields)
        _print_next_command(result)
    if result.status == "interrupted":
        kept = f"its record is in {plain(result.run)}" if result.run else "it was not recorded"
        say(f"sim: interrupted: the run was stopped at {seconds_text(result.sim_seconds)}; {kept}")
        if result.run and not result.doubts:
            say(f"hint: continue it with: sim resume {plain(result.run)}")
    if result.unanswered:
        _say_unanswered(result)
    for line in result.never[:_MOST_WARNINGS]:
        say(f"sim: warning: {plain(line)}")
    if len(result.never) > _MOST_WARNINGS:
        say(f"sim: warning: {len(result.never) - _MOST_WARNINGS} more things cannot happen; sim check lists them")
    for advice, hint in unread_advice(fields):
        say(f"sim: warning: {plain(advice)}")
        say(f"hint: {plain(hint)}")
    _say_warnings(result)
    if result.deadlock:
        say(f"sim: warning: {plain(result.deadlock)}")
        if " on send " in result.deadlock:
            say(f"hint: {_FULL_HINT}")
    if result.commonest_error:
        say(f"sim: warning: {result.errors} errors of agents; most frequent: {plain(result.commonest_error)}")


def _print_next_command(result: RunResult) -> None:
    if result.run:
        click.echo(f"\nplay the run: sim view {plain(_shortest_name(Path(result.run)))}")


def _shortest_name(run: Path) -> str:
    """Return how a command names a run: by its scenario if that means this run, otherwise by its folder."""
    name = run.name.rsplit("-", 2)[0]
    with suppress(SimError):
        if find_run("runs", name).resolve() == run.resolve():
            return shlex.quote(name)
    return shlex.quote(str(run))


_FULL_HINT: Final = (
    "they wait for room in mailboxes, in which messages wait that rules may read later; with `unmatched: drop` an agent"
    " drops what no rule reads now"
)


def _say_warnings(result: RunResult) -> None:
    """Say what should be known before the numbers are trusted."""
    for one in result.warnings:
        say(f"sim: warning: {plain(one['text'])}")
        if one["hint"]:
            say(f"hint: {plain(one['hint'])}")


def _say_unanswered(result: RunResult) -> None:
    """Say that no model call was answered, and with what the requests ended."""
    say(f"sim: error: no model call was answered: all {result.unanswered} failed")
    shown = Path(result.run).name if result.run else ""
    if failures := ", ".join(f"{count} {kind}" for kind, count in result.models.get("failures", {}).items()):
        say(f"sim: the requests ended with: {plain(failures)}")
    if shown:
        say(f"hint: list them with: sim show {plain(shown)} llm_calls")
