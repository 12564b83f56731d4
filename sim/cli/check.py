"""`sim check`: list all problems of scenario files."""

import sys
from pathlib import Path
from typing import Any

import attrs
import click

from sim.agents.family import family_for
from sim.base.errors import Problem, RunError, ScenarioError, UsageError
from sim.cli.render.output import PATH, common, plain, print_json, print_problems, problem_json
from sim.cli.rights_options import ALLOW
from sim.cli.run import find_and_allow
from sim.kernel.codec import JsonObject
from sim.kernel.duration import to_text
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import build
from sim.scenario.assembly.kind_checks import check_families, family_named_by
from sim.scenario.lost_events import may_lose_events
from sim.scenario.never import never_happens


@click.command(
    "check",
    epilog="""Example:

    \b
      sim check scenarios/*.yaml""",
)
@click.argument("scenarios", type=PATH, nargs=-1, required=True)
@ALLOW
@common
def command(scenarios: tuple[Path, ...], allow: tuple[str, ...], as_json: bool) -> int:
    """Check SCENARIOS without running them. The exit code is 2 if one is not valid.

    Warnings name what is valid and cannot happen, such as an event that is due after the end of the run, rules that
    lose an event in tick mode, and agents of kinds that are not known here, whose settings could not be checked.
    """
    results = [_check(path, allow) for path in scenarios]
    valid = all(result.ok for result in results)
    if as_json:
        print_json({"ok": valid, "scenarios": [result.to_json() for result in results]})
        return 0 if valid else 2
    for result in results:
        if result.ok:
            end = "without a time limit" if result.until is None else f"until {result.until}"
            click.echo(f"{plain(result.file)}: ok: {_count(result.agents)}, {end}")
            if result.warnings:
                count = len(result.warnings)
                click.echo(f"  {count} warning{'s' * (count != 1)}")
                print_problems(result.warnings, sys.stdout)
        else:
            click.echo(f"{plain(result.file)}: not valid")
            print_problems(result.problems, sys.stdout)
    return 0 if valid else 2


def _count(agents: int) -> str:
    return "1 agent" if agents == 1 else f"{agents:,} agents"


@attrs.frozen
class _Checked:
    """What a check of one file found.

    Args:
        file: the file, as given.
        problems: why it is not valid; empty: it is.
        warnings: what is valid and cannot happen.
        name, agents, until: of a valid scenario: its name, the number of its agents, and its time limit, if it has one.
    """

    file: str
    problems: list[Problem] = attrs.field(factory=list)
    warnings: list[Problem] = attrs.field(factory=list)
    name: str = ""
    agents: int = 0
    until: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the file is valid."""
        return not self.problems

    def to_json(self) -> JsonObject:
        """Return it as JSON; the name, the agents and the time limit are those of a valid scenario alone."""
        about: JsonObject = {"name": self.name, "agents": self.agents, "until": self.until} if self.ok else {}
        reports = {"problems": self.problems, "warnings": self.warnings}
        listed = {key: [problem_json(problem) for problem in own] for key, own in reports.items()}
        return {"file": self.file, "ok": self.ok, **about, **listed}


def _check(file: Path, allow: tuple[str, ...]) -> _Checked:
    path = file
    try:
        path, allow = find_and_allow(file, allow)
        scenario = load(path, (), allow)
        check_families(scenario)
        _start_values(scenario)
        warnings = [*_unchecked(scenario, tuple(allow)), *never_happens(scenario), *may_lose_events(scenario)]
    except ScenarioError as error:
        return _Checked(str(file), error.problems)
    except UsageError as error:
        problem = Problem(str(path), 1, 1, str(error), error.hint)
        return _Checked(str(file), [problem])
    agents = sum(entry.size for entry in scenario.agents if not entry.template)
    until = None if scenario.until is None else to_text(scenario.until)
    return _Checked(str(file), [], warnings, scenario.name, agents, until)


def _unchecked(scenario: Scenario, allow: tuple[str, ...]) -> list[Problem]:
    """Return why the settings, params and tools of some agents were not checked: their kind is not known here.

    That is no error, because a host program can give classes for kinds.
    """
    problems: list[Problem] = []
    for entry in scenario.agents:
        try:
            if family_for(entry) is None:
                family_named_by(entry, {}, allow)
        except UsageError as error:
            located = scenario.located(UsageError(f"{error}; so its settings were not checked", hint=error.hint))
            problems += located.problems if isinstance(located, ScenarioError) else []
    return problems


def _checks_params(entry: Any) -> bool:
    family = family_for(entry)
    return family is not None and family.fits is not None and family.agent.__module__.startswith("sim.kinds.")


def _start_values(scenario: Scenario) -> None:
    """Compute the initial values of agents, and the metrics and the stop condition on them.

    A valid expression can still fail. Imported agent code is not run, but for that of kinds of `sim` that check params.
    """
    if not all(entry.kind == "policy" or _checks_params(entry) for entry in scenario.agents):
        return
    metric_functions = build(scenario).metric_functions
    expressions = [(f"metrics.values.{name}", one, True) for name, one in scenario.metrics.values.items()]
    expressions += [] if scenario.stop is None else [("stop.when", scenario.stop.when, False)]
    for where, expression, lenient in expressions:
        try:
            metric_functions.value_of(where, expression, lenient=lenient)
        except RunError as error:
            raise scenario.located(UsageError(f"{error} at the start of the run", hint=error.hint)) from error
