"""The sections of the page that explain the modes, the measurement, and its limits."""

from collections.abc import Iterator, Mapping

from sim.base.pages import Markup, tag
from sim.experiments.bench.page_parts import section
from sim.experiments.bench.rows import Bench
from sim.kernel.codec import JsonObject


def meaning(bench: Bench) -> Markup:
    """Return the description of each mode, and its problems."""
    failed = {(trial.mode, trial.problem) for trial in bench.failures}
    terms = []
    for mode in bench.modes:
        problems = dict.fromkeys(problem for row in bench.rows if row.mode == mode.name for problem in row.problems)
        said = [tag("div", one, class_="error" if (mode.name, one) in failed else "note") for one in problems]
        terms.append((tag("dt", mode.name), tag("dd", mode.says, said)))
    return section("The modes", "", tag("dl", terms))


def about(bench: Bench) -> Markup:
    """Return the settings of the measurement, and its limits."""
    plan = bench.plan
    facts = {
        "scenario": f"{plan.name}, SHA-256 {plan.sha256[:12]}",  # pages are shared, and its path is of this machine
        "seeds": ", ".join(map(str, bench.seeds[:50])) + (" ..." if len(bench.seeds) > 50 else ""),
        "overrides": ", ".join(plan.overrides),
        "started": "; ".join(f"{one['began']}, {one['seconds']:.1f} s" for one in bench.sessions),
        "machine": "; ".join(dict.fromkeys(_machine(one["machine"]) for one in bench.sessions)),
        "versions": "; ".join(dict.fromkeys(_versions(one["versions"]) for one in bench.sessions)),
    }
    terms = [(tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    limits = tag("ul", [tag("li", text) for text in _limits(bench)])
    return section(
        "How it was measured",
        "all measurements are in bench.json and bench.csv beside this page",
        tag("dl", terms),
        tag("h3", "Limits of the measurement"),
        limits,
    )


def _machine(machine: JsonObject) -> str:
    return f"{machine.get('processor')}, {machine.get('cores')} cores, {machine.get('system')} {machine.get('release')}"


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _limits(bench: Bench) -> Iterator[str]:
    kinds = {row.basis for row in bench.rows}
    if kinds & {"service", "simulated"}:
        yield (
            "The durations of answers come from a modelled server. Its rates and slots are settings of the scenario. "
            "No real server or GPU was measured; caches, batching and memory are not modelled in detail."
        )
    if "wall" in kinds:
        jobs = max((session["jobs"] for session in bench.sessions), default=1)
        here = "one run at a time" if jobs == 1 else f"up to {jobs} parallel runs (--jobs 1 gives less noise)"
        yield f"Real time depends on the machine and its load; it was measured with {here}. CPU time varies less."
    yield (
        "An interval is a 95 % confidence interval of the mean over seeds. It assumes normally distributed results. It "
        "says nothing about other settings or scenarios."
    )
    if len({_machine(session["machine"]) + _versions(session["versions"]) for session in bench.sessions}) > 1:
        yield (
            "The runs were measured on several machines, or with several versions, one after another. All modes of a "
            "seed were measured on one of them, so that speed-ups can be compared; makespans and CPU times can not."
        )
    if not bench.complete:
        yield f"The bench was interrupted: {len(bench.trials)} of {bench.planned} runs were done."
