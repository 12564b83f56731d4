"""One run of a bench, and what was measured of it."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from sim.bench.outcome_distance import outcomes_of
from sim.errors import ScenarioError
from sim.runner import RunResult

Status = Literal["measured", "refused", "failed"]
Basis = Literal["service", "simulated", "wall"]
"""What the makespan is counted in: time of the modelled server, simulated time, or real time."""
BASES: Final[Mapping[Basis | None, str]] = {
    "service": "service time", "simulated": "simulated time", "wall": "real time", None: "",
}  # fmt: skip


@attrs.frozen
class Trial:
    """One run; what is not known of it is None.

    Attributes:
        point: which combination of swept values.
        seed: of the run.
        mode: in which it was run.
        turn: the how manieth of its process, from 0.
        status: `refused` if the scenario has no meaning in this mode.
        problem: why there are no figures, or what the commonest of its failed iterations failed with.
        basis: what the makespan is counted in.
        makespan: seconds until all was done.
        wall_seconds: real seconds.
        cpu_seconds: of the processor, without reading the scenario and making the agents.
        sim_seconds: simulated time that passed.
        stopped_by: the stop condition that ended it, None for the time limit.
        agents, iterations, actions, events, errors: how many.
        calls: of language models.
        input_tokens, output_tokens: of these.
        in_flight: calls under way, the mean over the makespan.
        concurrency: seconds and calls under way from then on.
        waiting: seconds for which an agent waited at barriers, the mean over agents.
        waits: the same as a share of the makespan.
        critical_path: seconds that the longest chain of dependent calls takes alone.
        hash: of everything that happened.
        outcomes: what it ended with, by name.
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
    in_flight: float | None = None
    concurrency: tuple[tuple[float, float], ...] = ()
    waiting: float | None = None
    waits: float | None = None
    critical_path: float | None = None
    hash: str | None = None
    outcomes: Mapping[str, float] = attrs.field(factory=dict)


def figures_of(result: RunResult, cpu_seconds: float, *, with_models: bool = True) -> dict[str, Any]:
    """Return what a `Trial` says of a run that has ended.

    Args:
        result: of the run.
        cpu_seconds: of the processor.
        with_models: whether the scenario has language models. Then service time counts, also with a seed with which
            nobody calls one: all seeds are to be counted in the same.
    """
    total = result.models.get("total", {})
    plain = {name: getattr(result, name) for name in ("wall_seconds", "sim_seconds", "stopped_by", "agents")}
    plain |= {name: getattr(result, name) for name in ("iterations", "actions", "events", "errors", "hash")}
    plain["problem"] = _failed_iterations(result)
    plain |= {name: total.get(name, 0) for name in ("calls", "input_tokens", "output_tokens")}
    basis: Basis = "simulated" if _takes_simulated_time(result) else "wall"
    makespan = result.sim_seconds if basis == "simulated" else result.wall_seconds
    plain |= {"basis": basis, "makespan": makespan, "cpu_seconds": cpu_seconds, "outcomes": outcomes_of(result)}
    if with_models:
        plain |= _service(result.service)
    return {name: value if _is_finite(value) else None for name, value in plain.items()}


def _failed_iterations(result: RunResult) -> str | None:
    if not result.errors:
        return None
    return f"{result.errors} iterations failed: {result.commonest_error}"


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _takes_simulated_time(result: RunResult) -> bool:
    """Tell whether the run ended when its work was done, and models took simulated time for it."""
    models = result.models.get("models", {})
    return result.stopped_by is not None and bool(models) and all(name.startswith("simulated:") for name in models)


def _service(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says of its service time, if there was any."""
    if not service:
        return {}
    told = {name: service[name] for name in ("makespan", "calls", "waiting", "waits", "critical_path")}
    concurrency = tuple((at, calls) for at, calls in service["in_flight"])
    return told | {"basis": "service", "in_flight": service["in_flight_mean"], "concurrency": concurrency}


def sentence(error: BaseException) -> str:
    """Return what went wrong in one line."""
    if isinstance(error, ScenarioError) and error.problems:
        problem = error.problems[0]
        return problem.message if problem.hint is None else f"{problem.message} ({problem.hint})"
    text = " ".join(str(error).split()) or type(error).__name__
    hint = getattr(error, "hint", None)
    return text if hint is None else f"{text} ({hint})"
