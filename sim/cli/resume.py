"""`sim resume`: continue a run that was killed, interrupted or failed, or end the pause of one that is under way."""

from pathlib import Path
from typing import Any

import click

from sim.base.shown import Keywords
from sim.cli.declared import options_of
from sim.cli.model_options import access_of, endpoint_options
from sim.cli.person import ask_run, wait_options
from sim.cli.render.output import OUT, common, plain, say
from sim.cli.rerun import again_options, at_work, decided, models_of, print_live
from sim.record import find_run
from sim.record.inbox import paused_by_people, status_of
from sim.runner import resume
from sim.runner.options import ResumeOptions
from sim.tools.rights import Rights


@click.command(
    "resume",
    epilog="""Examples:

    \b
      sim resume queue
      sim resume queue-1-3f --effect 17=retry --effect 18=failed
      sim resume debate --batch --batch-poll 300
      sim resume support helper""",
)
@click.argument("run")
@click.argument("agent", required=False)
@options_of(ResumeOptions, "effects", "undecided", "take_over", "allow_loss")
@endpoint_options
@again_options
@wait_options
@OUT
@common
def command(
    run: str, agent: str | None, out: Path, *, wait: float, no_wait: bool, effects: tuple[str, ...],
    undecided: bool, take_over: bool, allow_loss: bool, host: Keywords, rights: Rights, allow_change: bool,
    quiet: bool, as_json: bool, other_endpoint: bool, **endpoint: Any,
) -> int:  # fmt: skip
    """Replay and verify the record of RUN, then continue live.

    An effect without a recorded outcome is repeated with the same key if it is pure or idempotent. An unsafe effect is
    in doubt: nothing is changed until you resolve all in-doubt effects with --effect.

    If RUN is under way, this ends its pause and those of its agents, or only that of AGENT; see `sim pause`.
    """
    folder = find_run(out, run)
    if agent is not None:
        return ask_run(
            folder, "resume", f"{agent} continues", wait=wait, no_wait=no_wait, as_json=as_json, agent_id=agent
        )
    if not take_over and status_of(folder) == "running" and paused_by_people(folder):
        return ask_run(folder, "resume_all", "the run continues", wait=wait, no_wait=no_wait, as_json=as_json)
    if paused_by_people(folder):
        say("sim: people have paused this run, or agents of it")
        say(f"hint: in another terminal, continue them with: sim resume {plain(run)}")
    access = access_of(endpoint, models_of(folder))
    with at_work(rights, quiet=quiet) as options:
        result = resume(
            folder,
            effects=decided(effects),
            undecided=undecided,
            take_over=take_over,
            allow_loss=allow_loss,
            allow_change=allow_change,
            access=access,
            other_endpoint=other_endpoint,
            **host,
            **options,
        )
    return print_live(result, as_json=as_json, quiet=quiet, undecided=undecided)
