"""The figures of docs/generative_agents.md: its tables are what this prints.

    uv run python -m benchmarks.generative variants --seeds 10
    uv run python -m benchmarks.generative answers RUN

A `±` is half of the 95 % interval of a mean over the seeds 1, 2, ... `answers` is what models have answered in a run.
"""

import sys
from tempfile import TemporaryDirectory

import sim
from benchmarks.tables import SCENARIOS, Run, Table, measure, printed
from sim.experiments.estimate import Estimate

VARIANTS = ("paper", "code")
RECALLED = (30, 3)
"""How many memories a prompt has, at most: as in the scenario, and so few that the scores choose among them."""

OUTCOMES = ("party", "mayor", "density", "invited", "came")


def spread(variant: str, recalled: int, seed: int) -> list[float]:
    """Return the outcomes of `scenarios/smallville.yaml` with a variant, of one seed."""
    changed = [f"generative.variant={variant}", f"generative.recalled={recalled}"]
    with TemporaryDirectory() as folder:
        found = sim.sweep(
            SCENARIOS / "smallville.yaml", overrides=changed, first_seed=seed, seeds=1, outcomes=OUTCOMES, jobs=1,
            out=f"{folder}/one", progress=False,
        )  # fmt: skip
        values = found.frame().iloc[0]
    return [float(values[name]) for name in OUTCOMES]


def variants(seeds: int, run: Run) -> Table:
    """Return the table of the variants: how far news come, by how many memories are recalled."""
    cases = [(variant, recalled) for recalled in RECALLED for variant in VARIANTS]
    jobs = [(*case, seed) for case in cases for seed in range(1, seeds + 1)]
    found = iter(list(run(spread, *zip(*jobs, strict=True))))
    rows = []
    for variant, recalled in cases:
        own = [next(found) for _ in range(seeds)]
        shown = [_shown([one[place] for one in own]) for place in range(len(OUTCOMES))]
        rows.append((f"`{variant}`", str(recalled), *shown))
    return ("variant", "recalled", *(f"`{name}`" for name in OUTCOMES)), rows


USABLE = """
    WITH usable AS (
        SELECT 'plan_' || (data ->> '$.level') AS use, sum(json_array_length(data, '$.items') > 0) AS count
        FROM events WHERE topic = 'generative.planned' GROUP BY 1
        UNION ALL SELECT 'survey', count(data ->> '$.value') FROM events WHERE topic = 'survey.answer'
    ), missed AS (
        SELECT data ->> '$.use' AS use, count(*) AS count FROM events WHERE topic = 'generative.missed' GROUP BY 1
    ), calls AS (
        SELECT data ->> '$.use' AS use, count(*) AS calls, sum(data ->> '$.input_tokens') AS input,
               sum(data ->> '$.output_tokens') AS output, sum(coalesce(data ->> '$.stop', '') = 'max_tokens') AS cut
        FROM events WHERE topic = 'model.call' GROUP BY 1
    )
    SELECT use, calls, coalesce(usable.count, calls - coalesce(missed.count, 0)), input, output, cut
    FROM calls LEFT JOIN usable USING (use) LEFT JOIN missed USING (use) ORDER BY use
"""
"""What was asked for, and how often the answer was used: for plans, those of which a line could be read."""


def answers(stored: str) -> Table:
    """Return the table of what models have answered in a run."""
    with sim.open(stored) as run:
        rows = [[f"`{use}`", *(f"{number:,}" for number in numbers)] for use, *numbers in run.query(USABLE)]
    return ("asked for", "calls", "used", "tokens in", "tokens out", "cut at `max_tokens`"), rows


def _shown(values: list[float]) -> str:
    found = Estimate.of(values)
    assert found is not None, "each run has a value"
    return f"{found.mean:.3f} ± {found.half or 0:.3f}"


def main() -> None:
    """Measure, and print a table."""
    if sys.argv[1:2] == ["answers"]:
        print(printed(answers(sys.argv[2])))
        return
    measure("benchmarks.generative", "Measure a table of the page.", {"variants": variants}, seeds=10)


if __name__ == "__main__":
    main()
