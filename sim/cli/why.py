"""`sim why`: what decided the outcome of a recorded run."""

from pathlib import Path
from typing import Any

import click

from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.model_options import access_of, endpoint_options
from sim.cli.render.attribution import attribution_options, check_picture, confirm, print_explained
from sim.cli.render.output import OUT, PATH, common, reading
from sim.cli.rights_options import rights_options
from sim.cli.run import CHANGE, import_from_here
from sim.experiments.attribution.analysis import AttributionOptions
from sim.experiments.attribution.deciding import why
from sim.experiments.options import Work
from sim.runner.rebuild import models_asked
from sim.tools.rights import Rights


@click.command(
    "why",
    epilog="""Examples:

    \b
      sim why contagion --outcome "last('R')"
      sim why contagion --outcome "last('R') > 20" --budget 1000 --to expected.svg
      sim branch contagion --turning-point "last('R') > 20" """,
)
@click.argument("run")
@click.option("--outcome", required=True, metavar="OUTCOME", help="An outcome, or one compared with a number.")
@attribution_options
@options_of(Work, "jobs")
@options_of(AttributionOptions, "answers", "max_wall")
@click.option("--to", type=PATH, metavar="FILE", help="Write a picture of what was expected when, as SVG.")
@endpoint_options
@rights_options
@CHANGE
@OUT
@common
def command(
    run: str, out: Path, *, outcome: str, budget: int | None, max_wall: str | None, yes: bool, jobs: int | None,
    answers: str | None, to: Path | None, rights: Rights, allow_change: bool, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Find what decided the outcome of RUN.

    First, messages, events, agents, initial values and interventions are left out, in groups that are halved. Then, how
    the expected outcome changed from step to step. What makes a difference is tested with other draws. The cost is said
    first; --budget is the most futures, and --max-wall the time. Effects that are found so hold in the model.
    """
    with reading(out, run, verify=False) as stored:
        folder, asked = stored.path, models_asked(stored.info.options)
    check_picture(to)
    if rights.allow:
        import_from_here()
    limits = {"budget": budget, "answers": answers, "max_wall": max_wall}
    arguments: Keywords = {name: value for name, value in limits.items() if value is not None}
    explained = why(
        folder,
        outcome,
        jobs=jobs,
        allow_change=allow_change,
        access=access_of(options, asked),
        confirm=confirm(yes=yes),
        **arguments,
        **rights.keywords,
    )
    return print_explained(explained, to=to, as_json=as_json)
