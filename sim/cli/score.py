"""`sim score`: score the agents of recorded runs, by queries and by judges."""

import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import attrs
import click

from sim.cli.model_options import MODEL, access_of, endpoint_options, models_in
from sim.cli.render.asking import asking_options, check_target, confirmed, cost_text, short, write_rows
from sim.cli.render.output import OUT, PATH, common, plain, print_json, say
from sim.cli.render.progress import StatusLine
from sim.cli.render.table import print_table
from sim.experiments.score_tables import scores_table, variance_table
from sim.experiments.scores import QUERY, Score
from sim.experiments.scoring import ScoreCost, Scores, score
from sim.record import find_run

_COLUMNS = tuple(field.name for field in attrs.fields(Score))


@click.command(
    "score",
    epilog="""Examples:

    \b
      sim score debate --measures measures.yaml
      sim score runs/debate-* --measures measures.yaml --measure civility --to scores.csv
      sim score debate --measures measures.yaml --estimate --model openai:NAME""",
)
@click.argument("runs", nargs=-1, required=True)
@click.option("--measures", "file", type=PATH, metavar="FILE", help="A file with `score:` and, for judges, `models:`.")
@click.option("--measure", "names", multiple=True, metavar="NAME", help="Only this measure; repeatable.")
@asking_options
@MODEL
@endpoint_options
@OUT
@common
def command(
    runs: tuple[str, ...], out: Path, *, file: Path | None, names: tuple[str, ...], to: Path | None,
    only_estimate: bool, yes: bool, models: tuple[str, ...], other_endpoint: bool, as_json: bool, **endpoint: Any,
) -> int:  # fmt: skip
    """Score RUNS by the measures of their scenarios, or of a file: queries, or questions to language models as judges.

    The highest cost of the judges is shown first. Their scores are kept in the run folders as they arrive, so that an
    interrupted command continues from there, and no score is paid for twice. Over several runs and judges, the
    variance of the scores is split into judges, seeds and agents.
    """
    check_target(to)
    folders = list(dict.fromkeys(find_run(out, run) for run in runs))
    costs: list[ScoreCost] = []

    def confirm(cost: ScoreCost) -> bool:
        costs.append(cost)
        return confirmed(_cost_text(cost), outside=cost.outside, yes=yes, only_estimate=only_estimate)

    access, line = access_of(endpoint, models_in(endpoint, models)), _Progress()
    with redirect_stdout(sys.stderr):
        scores = score(
            folders,
            measures=file,
            names=names,
            access=access,
            confirm=confirm,
            progress=line,
        )
    line.clear()
    if only_estimate:
        kept = sum(one.judge != QUERY for one in scores)
        cost = costs[0] if costs else ScoreCost(0, kept, 0, 0.0, False)
        print_json(attrs.asdict(cost)) if as_json else click.echo(_cost_text(cost))
        return 0
    if to is not None:
        write_rows(to, _COLUMNS, [attrs.asdict(one) for one in scores])
    _print(scores, to, as_json=as_json)
    wrong = [one for one in scores if one.error is not None]
    if wrong:
        say(f"sim: {len(wrong)} of {len(scores)} scores have no value: {plain(short(wrong[0].error or ''))}")
    return 1 if any(one.answer is None and one.error is not None for one in scores) else 0


class _Progress:
    """Shows how many scores there are, on stderr."""

    def __init__(self) -> None:
        self._line = StatusLine(live=sys.stderr.isatty())
        self._began = time.monotonic()

    def __call__(self, done: int, wanted: int) -> None:
        if self._line.is_due() or done in (1, wanted):
            left = (time.monotonic() - self._began) / done * (wanted - done)
            self._line.show(f"{done:,} of {wanted:,} scores, about {left:.0f} s left")

    def clear(self) -> None:
        """Remove the line."""
        self._line.clear()


def _cost_text(cost: ScoreCost) -> str:
    kept = f" ({cost.kept:,} are there already)" if cost.kept else ""
    return cost_text(f"{cost.scores:,} scores of judges{kept}", cost.input_tokens, cost.most, outside=cost.outside)


def _print(scores: Scores, to: Path | None, *, as_json: bool) -> None:
    summaries, parts = scores.summaries(), scores.variance()
    if as_json:
        variances = {name: [attrs.asdict(part) for part in own] for name, own in parts.items()}
        rows = [attrs.asdict(one) for one in scores]
        print_json({"scores": rows, "summaries": [attrs.asdict(one) for one in summaries], "variances": variances})
        return
    print_table(*scores_table(summaries))
    if parts:
        click.echo("\nvariance of the scores")
        print_table(*variance_table(parts))
    cost = sum(one.cost_micro for one in scores) / 1e6
    click.echo(f"\n{len(scores):,} scores; they cost {cost:.4f}" + (f"; {plain(to)}" if to else ""))
