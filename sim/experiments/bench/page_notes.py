"""The sections of the page that explain the modes, the measurement, and its limits."""

from collections.abc import Iterator
from pathlib import Path

from sim.base.pages import Markup, tag
from sim.experiments.bench.page_parts import section
from sim.experiments.bench.rows import Bench


def meaning(bench: Bench) -> Markup:
    """Return the description of each mode, and its problems."""
    failed = {(trial.mode, trial.problem) for trial in bench.failures}
    terms = []
    for mode in bench.plan.modes:
        problems = dict.fromkeys(problem for row in bench.rows if row.mode == mode.name for problem in row.problems)
        said = [tag("div", one, class_="error" if (mode.name, one) in failed else "note") for one in problems]
        terms.append((tag("dt", mode.name), tag("dd", mode.says, said)))
    return section("The modes", "", tag("dl", terms))


def about(bench: Bench) -> Markup:
    """Return the settings of the measurement, and its limits."""
    plan, machine, versions = bench.plan, bench.about["machine"], bench.about["versions"]
    facts = {
        "scenario": Path(plan.file).name,  # pages are shared, and the folder is of this machine
        "seeds": ", ".join(map(str, plan.seeds[:50])) + (" ..." if len(plan.seeds) > 50 else ""),
        "overrides": ", ".join(plan.overrides),
        "started": f"{bench.about['began']}, {bench.about['seconds']:.1f} s",
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']} {machine['release']}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    terms = [(tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    limits = tag("ul", [tag("li", text) for text in _limits(bench)])
    return section(
        "How it was measured", "all measurements are in bench.json and bench.csv beside this page",
        tag("dl", terms), tag("h3", "Limits of the measurement"), limits,
    )  # fmt: skip


def _limits(bench: Bench) -> Iterator[str]:
    kinds = {row.basis for row in bench.rows}
    if kinds & {"service", "simulated"}:
        yield (
            "The durations of answers come from a modelled server. Its rates and slots are settings of the scenario. "
            "No real server or GPU was measured; caches, batching and memory are not modelled in detail."
        )
    if "wall" in kinds:
        jobs = bench.about["jobs"]
        here = "one run at a time" if jobs == 1 else f"{jobs} parallel runs (--jobs 1 gives less noise)"
        yield f"Real time depends on the machine and its load; it was measured with {here}. CPU time varies less."
    yield (
        "An interval is a 95 % confidence interval of the mean over seeds. It assumes normally distributed results. It "
        "says nothing about other settings or scenarios."
    )
    if not bench.complete:
        yield f"The bench was interrupted: {len(bench.trials)} of {bench.plan.trials} runs were done."
