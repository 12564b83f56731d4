"""`sim branch`: a new run that copies the record of another run up to one moment, and then continues live."""

from pathlib import Path
from typing import Any

import click

from sim.cli.model_options import access_of, endpoint_options
from sim.cli.render.output import OUT, TAGS, common, reading
from sim.cli.rerun import EFFECT, again_options, at_work, decided, print_live
from sim.cli.run import MAX_SEED
from sim.runner import branch
from sim.runner.options import Backend
from sim.runner.rebuild import models_asked


@click.command(
    "branch",
    epilog="""Examples:

    \b
      sim branch ecology --at 12h --seed 7
      sim branch ecology --at 12h --set limits.llm_calls.global='20 per 10m' --tag strict
      sim branch contagion --at 24h --set agents.person.state.beta=0.02
      sim diff ecology~1 ecology""",
)
@click.argument("run")
@click.option("--at", required=True, metavar="DURATION", help="The simulated time at which the branch begins.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the scenario.")
@TAGS
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="The seed of random draws after that time.")
@click.option("--until", metavar="DURATION", help="The simulated time at which the branch ends.")
@click.option(
    "--model", "models", multiple=True, metavar="[TIER=]PROVIDER:NAME", help="A language model to use after that time."
)
@EFFECT
@endpoint_options
@again_options
@OUT
@common
def command(
    run: str, out: Path, *, at: str, overrides: tuple[str, ...], seed: int | None, until: str | None,
    tags: tuple[str, ...], models: tuple[str, ...], decisions: tuple[str, ...], backend: Backend,
    allow: tuple[str, ...], allow_commands: bool, mcp: tuple[str, ...], mcp_env: tuple[str, ...], allow_change: bool,
    max_wall: str | None, quiet: bool, as_json: bool, other_endpoint: bool, **endpoint: Any,
) -> int:  # fmt: skip
    """Start a new run: replay RUN up to a time, then continue live with the given changes.

    At a time above 0, only live values can change: limits, costs, events, interventions, stop; the state, rules,
    limits, permission and loop delays of agents; and the language models.
    """
    with reading(out, run, verify=False) as stored:
        folder, asked = stored.path, models_asked(stored.info.options)
    access = access_of(endpoint, models or asked)
    with at_work(allow, quiet=quiet, allow_commands=allow_commands, mcp=mcp, mcp_env=mcp_env) as options:
        result = branch(
            folder, at=at, overrides=overrides, seed=seed, until=until, out=out, effects=decided(decisions),
            models=models, tags=tags, backend=backend, allow_change=allow_change, access=access,
            other_endpoint=other_endpoint, max_wall=max_wall, **options,
        )  # fmt: skip
    return print_live(result, as_json=as_json, quiet=quiet)
