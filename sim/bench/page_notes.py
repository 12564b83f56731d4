"""The sections of the page that say what the modes are, how it was measured, and what that does not show."""

from collections.abc import Iterator

from sim.bench.page_parts import section
from sim.bench.rows import Bench
from sim.pages import Markup, tag


def meaning(bench: Bench) -> Markup:
    """Return what each mode means, and what went wrong in it."""
    failed = {(trial.mode, trial.problem) for trial in bench.failures}
    terms = []
    for mode in bench.plan.modes:
        problems = dict.fromkeys(problem for row in bench.rows if row.mode == mode.name for problem in row.problems)
        said = [tag("div", one, class_="error" if (mode.name, one) in failed else "note") for one in problems]
        terms.append((tag("dt", mode.name), tag("dd", mode.says, said)))
    return section("The modes", "", tag("dl", terms))


def about(bench: Bench) -> Markup:
    """Return where it was run, and what the figures do not show."""
    plan, machine, versions = bench.plan, bench.about["machine"], bench.about["versions"]
    facts = {
        "scenario": str(plan.file),
        "seeds": ", ".join(map(str, plan.seeds[:50])) + (" ..." if len(plan.seeds) > 50 else ""),
        "changed": ", ".join(plan.overrides),
        "begun": f"{bench.about['began']}, {bench.about['seconds']:.1f} s",
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']} {machine['release']}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    terms = [(tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    limits = tag("ul", [tag("li", text) for text in _limits(bench)])
    return section(
        "How it was measured", "all measurements are in bench.json and bench.csv beside this page",
        tag("dl", terms), tag("h3", "What it does not show"), limits,
    )  # fmt: skip


def _limits(bench: Bench) -> Iterator[str]:
    kinds = {row.basis for row in bench.rows}
    if kinds & {"service", "simulated"}:
        yield (
            "Answers took the time that a modelled server takes. Its rates and places are settings of the scenario; no "
            "real server or GPU was measured, and its caches, batching and memory are not in the model."
        )
    if "wall" in kinds:
        jobs = bench.about["jobs"]
        here = "one run at a time" if jobs == 1 else f"{jobs} runs at once (--jobs 1 is quieter)"
        yield (
            f"Real time depends on the machine and on what else it does; it was measured with {here}. Time of the "
            "processor is steadier."
        )
    yield (
        "An interval is about the seeds: with others the mean would lie in it 19 times out of 20, if single results "
        "are normally distributed. It says nothing about other settings or other scenarios."
    )
    if not bench.complete:
        yield f"The bench was interrupted: {len(bench.trials)} of {bench.plan.trials} runs were through."
