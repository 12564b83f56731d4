"""`sim ask`: ask the agents of a run questions, as they are at one of its moments."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import attrs
import click

from sim.agents.interview import Question
from sim.base.errors import RunError, UsageError
from sim.base.shown import Keywords
from sim.cli.model_options import MODEL, access_of, endpoint_options, models_in
from sim.cli.render.asking import asking_options, check_target, confirmed, cost_text, short, write_rows
from sim.cli.render.output import OUT, PATH, common, plain, print_json, reading, say
from sim.cli.render.table import Cell, print_table
from sim.cli.rights_options import rights_options
from sim.cli.run import CHANGE, host_options, import_from_here
from sim.kernel.codec import Json
from sim.runner.asking import Survey, ask
from sim.runner.rebuild import models_asked
from sim.runner.result import SurveyCost
from sim.scenario.yaml_tree import read_tree
from sim.tools.rights import Rights

_SHOWN = 40
_COLUMNS = ("time", "agent", "question", "answer", "value", "error", "model", "tokens", "cost_micro")


@click.command(
    "ask",
    epilog="""Examples:

    \b
      sim ask debate "Should the town ban cars?" --options yes,no,unsure
      sim ask debate "How sure are you?" --at 0 --at 10s --scale 1,7 --agents debater
      sim ask town --questions survey.yaml --to answers.csv --model openai:NAME""",
)
@click.argument("run")
@click.argument("questions", nargs=-1)
@click.option(
    "--at", "times", multiple=True, metavar="DURATION", help="A simulated time; repeatable. Default: the end."
)
@click.option(
    "--agents", multiple=True, metavar="NAME", help="An agent, an entry or a group; repeatable. Default: all."
)
@click.option("--questions", "file", type=PATH, metavar="FILE", help="A YAML file with a list of questions.")
@click.option("--scale", metavar="LOW,HIGH", help="The answers to QUESTIONS are whole numbers from LOW to HIGH.")
@click.option("--options", "choices", metavar="A,B,...", help="The answers to QUESTIONS are one of these texts.")
@click.option("--number", is_flag=True, help="The answers to QUESTIONS are numbers.")
@asking_options
@MODEL
@endpoint_options
@CHANGE
@host_options
@rights_options
@OUT
@common
def command(
    run: str, questions: tuple[str, ...], out: Path, *, times: tuple[str, ...], agents: tuple[str, ...],
    file: Path | None, scale: str | None, choices: str | None, number: bool, to: Path | None,
    only_estimate: bool, yes: bool, models: tuple[str, ...], other_endpoint: bool, allow_change: bool,
    host: Keywords, rights: Rights, as_json: bool, **endpoint: Any,
) -> int:  # fmt: skip
    """Ask the agents of RUN questions, as they are at some of its moments. A model speaks for each agent.

    The run is replayed up to the moment; neither the run nor its agents change. What it costs at most is shown first.
    Answers of models at an endpoint are kept in the run folder, so the same question is never paid for twice.
    """
    asked = [*_from_file(file), *_from_texts(questions, scale, choices, number=number)]
    check_target(to)
    if rights.allow:
        import_from_here()
    with reading(out, run, verify=False) as stored:
        folder, before = stored.path, models_asked(stored.info.options)
    models = models_in(endpoint, models)
    access = access_of(endpoint, models or before)

    def confirm(cost: SurveyCost) -> bool:
        return confirmed(_cost_text(cost), outside=cost.outside, yes=yes, only_estimate=only_estimate)

    surveys = [
        ask(
            folder,
            asked,
            at=at,
            agents=agents,
            models=models,
            access=access,
            other_endpoint=other_endpoint,
            allow_change=allow_change,
            on_interrupt="return",
            confirm=confirm,
            **host,
            **rights.keywords,
        )
        for at in times or (None,)
    ]
    if only_estimate:
        _print_costs(surveys, as_json=as_json)
        return 0
    rows = _rows(surveys)
    if not rows:
        stopped = all(survey.cost.agents == 0 for survey in surveys)
        raise RunError("no agent was asked" + (": those that were chosen had stopped by then" if stopped else ""))
    if to is not None:
        write_rows(to, _COLUMNS, rows)
    if as_json:
        print_json({"run": str(folder), "surveys": [attrs.asdict(survey) for survey in surveys]})
    else:
        _print(surveys, asked, rows, to)
    wrong = sum(answer.error is not None for survey in surveys for answer in survey.answers)
    if wrong:
        say(f"sim: {wrong} of {len(rows)} answers are missing or do not have the form of the question")
    return 1 if any(answer.answer is None for survey in surveys for answer in survey.answers) else 0


def _from_texts(texts: Sequence[str], scale: str | None, options: str | None, *, number: bool) -> list[Question]:
    if not texts and (scale or options or number):
        raise UsageError("a form of answers is given, but no question")
    bounds: tuple[int, ...] = ()
    if scale is not None:
        try:
            bounds = tuple(int(part) for part in scale.split(","))
        except ValueError:
            raise UsageError(f"--scale {scale!r:.40} is not of the form LOW,HIGH", hint="for example 1,7") from None
    choices = () if options is None else tuple(part.strip() for part in options.split(","))
    return [Question(text, choices, bounds, number) for text in texts]


def _from_file(file: Path | None) -> list[Question]:
    if file is None:
        return []
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} cannot be read: it is not UTF-8") from error
    tree, problems = read_tree(text, str(file)) if text.strip() else (None, [])
    if problems:
        raise UsageError(str(problems[0]))
    if not isinstance(tree, list) or not tree:
        raise UsageError(
            f"{file} has no list of questions", hint="write `- How are you?`, or `- {ask: ..., scale: [1, 7]}`"
        )
    questions = []
    for index, one in enumerate(tree):
        try:
            questions.append(Question.of(one))
        except UsageError as error:
            raise UsageError(f"{file}: question {index + 1}: {error}", hint=error.hint) from error
    return questions


def _cost_text(cost: SurveyCost) -> str:
    each = f"{_counted(cost.agents, 'agent')}, {_counted(cost.questions, 'question')}"
    count = f"{_counted(cost.agents * cost.questions, 'answer')} ({each})"
    return cost_text(count, cost.input_tokens, cost.most, outside=cost.outside)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _print_costs(surveys: Sequence[Survey], *, as_json: bool) -> None:
    if as_json:
        print_json({"surveys": [{"seconds": survey.seconds, **attrs.asdict(survey.cost)} for survey in surveys]})
    else:
        click.echo(f"at most {sum(survey.cost.most for survey in surveys):.4f} in all")


def _rows(surveys: Sequence[Survey]) -> list[dict[str, Json]]:
    return [{"time": survey.seconds, **attrs.asdict(answer)} for survey in surveys for answer in survey.answers]


def _print(
    surveys: Sequence[Survey], asked: Sequence[Question], rows: Sequence[dict[str, Any]], to: Path | None
) -> None:
    lines: list[list[Cell]] = [
        [row["time"], row["agent"], short(row["question"]), short(row["answer"] or row["error"] or "")]
        for row in rows[:_SHOWN]
    ]
    print_table(["time", "agent", "question", "answer"], lines)
    if len(rows) > _SHOWN:
        click.echo(f"{len(rows) - _SHOWN:,} more answers{'' if to is None else f' are in {plain(to)}'}")
    summary = [_summary(survey, question) for question in asked if question.form for survey in surveys]
    if summary:
        click.echo()
        print_table(["time", "question", "answers", "result"], summary)
    cost = sum(row["cost_micro"] for row in rows) / 1e6
    reused = sum(survey.reused for survey in surveys)
    again = f", {reused:,} of them from earlier surveys" if reused else ""
    click.echo(f"\n{_counted(len(rows), 'answer')}{again}; {cost:.4f} spent" + (f"; {plain(to)}" if to else ""))


def _summary(survey: Survey, question: Question) -> list[Cell]:
    values = [one.value for one in survey.answers if one.question == question.ask and one.value is not None]
    if question.options:
        counts = Counter(values)
        result = ", ".join(f"{option} {counts[option]}" for option in question.options)
    else:
        result = f"mean {fmean(float(value) for value in values):.4g}" if values else ""
    return [survey.seconds, short(question.ask), len(values), result]
