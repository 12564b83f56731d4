"""Trials: single runs of an experiment, and their measurements."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from sim.agents.outcomes import COUNTS
from sim.base.errors import ScenarioError
from sim.experiments.outcomes import answers_of
from sim.kernel.codec import Json
from sim.runner.result import RunResult

Status = Literal["measured", "refused", "failed"]
Basis = Literal["service", "simulated", "wall"]
"""The time axis of the makespan: service time, simulated time, or real time."""
BASES: Final[Mapping[Basis | None, str]] = {
    "service": "service time", "simulated": "simulated time", "wall": "real time", None: "",
}  # fmt: skip


@attrs.frozen
class Trial:
    """One run. Unknown values are None.

    Attributes:
        point: the index of the combination of swept values.
        seed: the seed of the run.
        mode: the name of its mode.
        turn: zero-based index within its worker process.
        status: `refused` if the scenario cannot run in this mode.
        problem: why there are no figures, or the most frequent error of its failed iterations.
        basis: the time axis of the makespan.
        makespan: the duration in seconds of `basis` time.
        wall_seconds: the duration in real seconds.
        cpu_seconds: CPU time in seconds, without loading the scenario and creating the agents.
        sim_seconds: the simulated duration in seconds.
        stopped_by: the stop condition that ended the run; None for the time limit.
        agents, iterations, actions, events, errors: counts.
        calls: the number of calls of language models.
        input_tokens, output_tokens: the tokens of these calls.
        reused: how many of their answers another trial had asked for.
        cost_micro: what the other answers cost, in micro-units of money.
        in_flight: calls in flight, mean over the makespan.
        concurrency: pairs of a time in seconds and the calls in flight from that time on.
        waiting: seconds that an agent waited at barriers, mean over agents.
        waits: `waiting` as a share of the makespan.
        critical_path: seconds of the longest chain of dependent calls, without other load.
        hash: the hash of the run.
        run: the name of its run folder; None if it was not recorded.
        outcomes: the outcomes by name; None for a metric without a value at the end.
        own: the names of those that the scenario itself defines: its metrics, and the means of its observations.
    """

    point: int
    seed: int
    mode: str
    turn: int
    status: Status = "measured"
    problem: str | None = None
    basis: Basis | None = None
    makespan: float | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    sim_seconds: float | None = None
    stopped_by: str | None = None
    agents: int | None = None
    iterations: int | None = None
    actions: int | None = None
    events: int | None = None
    errors: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reused: int | None = None
    cost_micro: int | None = None
    in_flight: float | None = None
    concurrency: tuple[tuple[float, float], ...] = ()
    waiting: float | None = None
    waits: float | None = None
    critical_path: float | None = None
    hash: str | None = None
    run: str | None = None
    outcomes: Mapping[str, float | None] = attrs.field(factory=dict)
    own: tuple[str, ...] = ()


def outcomes_of(result: RunResult) -> tuple[Mapping[str, float | None], tuple[str, ...]]:
    """Return the outcomes of a run, and the names of those that its scenario defines.

    An outcome is a number at the end of a run: the last value of a metric under its own name, the mean of an
    observation as `mean_NAME`, the answers of surveys (see `outcomes.names_of_answers`), the number of actions as
    `done_KIND` and `refused_KIND`, of agents as `agents_STATE`. A metric with such a name hides the other number. A
    metric that has no value at the end has the outcome None.
    """
    own: dict[str, float | None] = {
        f"mean_{name}": distribution.mean for name, distribution in result.observations.items()
    }
    own |= answers_of(result.surveys)
    own |= {name: series[-1] for name, series in result.metrics.items() if name != "time" and series}
    counts = zip(COUNTS, (result.kinds, result.refused, result.states), strict=True)
    others = {f"{word}{name}": count for word, by_name in counts for name, count in by_name.items()}
    numbers = {**others, **own}.items()
    outcomes = {
        name: None if value is None else float(value) for name, value in numbers if value is None or _is_number(value)
    }
    return outcomes, tuple(sorted(name for name in own if name in outcomes))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def figures_of(
    result: RunResult,
    cpu_seconds: float,
    *,
    with_models: bool = True,
    defined: Mapping[str, float | None] | None = None,
) -> dict[str, Json]:
    """Return the fields of a `Trial` for a run that has ended.

    Args:
        result: the result of the run.
        cpu_seconds: its CPU time in seconds.
        with_models: whether the scenario has language models. If so, service time is used even for a seed without
            calls, so that all seeds have the same time axis.
        defined: the values of the outcomes that expressions define. They hide others of the same name.
    """
    total = result.models.get("total", {})
    plain = {name: getattr(result, name) for name in ("wall_seconds", "sim_seconds", "stopped_by", "agents")}
    plain |= {name: getattr(result, name) for name in ("iterations", "actions", "events", "errors", "hash")}
    plain["problem"] = _problem(result)
    plain |= {name: total.get(name, 0) for name in ("calls", "input_tokens", "output_tokens")}
    plain["run"] = None if result.run is None else result.run.replace("\\", "/").rpartition("/")[2]
    plain["reused"] = result.models.get("reused", 0)
    plain["cost_micro"] = total.get("cost_micro", 0) - result.models.get("reused_micro", 0)
    basis: Basis = "simulated" if _takes_simulated_time(result) else "wall"
    makespan = result.sim_seconds if basis == "simulated" else result.wall_seconds
    plain |= {"basis": basis, "makespan": makespan, "cpu_seconds": cpu_seconds}
    outcomes, own = outcomes_of(result)
    plain["outcomes"], plain["own"] = {**outcomes, **(defined or {})}, tuple(sorted({*own, *(defined or ())}))
    if with_models:
        plain |= _service(result.service)
    return {name: value if _is_finite(value) else None for name, value in plain.items()}


def _problem(result: RunResult) -> str | None:
    """Return why the numbers of a run that has ended may be wrong: agents failed, or were blocked for ever."""
    failed = f"{result.errors} iterations failed: {result.commonest_error}" if result.errors else None
    return "; ".join(filter(None, (failed, result.deadlock))) or None


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _takes_simulated_time(result: RunResult) -> bool:
    """Whether a stop condition ended the run, and its models took simulated time."""
    models = result.models.get("models", {})
    return result.stopped_by is not None and bool(models) and all(name.startswith("simulated:") for name in models)


def _service(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of service time of a run, if it has any."""
    if not service:
        return {}
    shown = {name: service[name] for name in ("makespan", "calls", "waiting", "waits", "critical_path")}
    concurrency = tuple((at, calls) for at, calls in service["in_flight"])
    return shown | {"basis": "service", "in_flight": service["in_flight_mean"], "concurrency": concurrency}


def sentence(error: BaseException) -> str:
    """Return an error as one line of text."""
    if isinstance(error, ScenarioError) and error.problems:
        problem = error.problems[0]
        return problem.message if problem.hint is None else f"{problem.message} ({problem.hint})"
    text = " ".join(str(error).split()) or type(error).__name__
    hint = getattr(error, "hint", None)
    return text if hint is None else f"{text} ({hint})"
