"""Estimates what a run will spend on language models before it starts.

The scenario is run once with simulated models in place of the real ones: they take time, use tokens and cost what the
price list says, but no request is sent. Their answers come from the scripted rules of the scenario, or are filler
text. The estimate is therefore as accurate as these answers resemble real ones. A probe is better: it makes a few of
the calls for real, and scales the others by what they took.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final

import attrs

from sim.agents import FAMILIES
from sim.base.errors import UsageError
from sim.kernel import to_seconds
from sim.kernel.codec import Json, JsonObject
from sim.llm import Access
from sim.llm.needs import Need, needs_of
from sim.llm.prices import Prices
from sim.llm.service import Traced
from sim.llm.types import TokenUsage
from sim.runner.event_loop import blocking, with_definitions
from sim.runner.options import EstimateOptions, taking
from sim.runner.probing import Probe
from sim.runner.probing import probe as measure
from sim.runner.runner import RunController
from sim.runner.running import Source, read_scenario, run_from
from sim.scenario import Scenario
from sim.scenario.assembly.models import prices_of
from sim.tools import ToolsSettings
from sim.tools.rights import Kinds

_KEPT: Final = 64  # calls of which a probe can choose


@attrs.define
class _Trace:
    """The calls of a run: the times of all, and some of the requests, evenly spread.

    Attributes:
        times: start and end of each call, in simulated nanoseconds.
        samples: some of the calls.
        needs: how many calls need something beside text, by the models that could answer them.
    """

    times: list[tuple[int, int]] = attrs.field(factory=list)
    samples: list[Traced] = attrs.field(factory=list)
    stride: int = 1
    needs: Counter[tuple[tuple[str, ...], Need]] = attrs.field(factory=Counter)

    def add(self, call: Traced) -> None:
        """Note a call."""
        if len(self.times) % self.stride == 0:
            self.samples.append(call)
            if len(self.samples) > _KEPT:
                self.samples, self.stride = self.samples[::2], 2 * self.stride
        self.times.append((call.started_ns, call.ended_ns))
        for need in needs_of(call.request):
            self.needs[tuple(target.model for target in call.targets), need] += 1

    def chosen(self, count: int) -> list[Traced]:
        """Return a number of the calls, spread from the first to the last."""
        last = len(self.samples) - 1
        places = sorted({round(number * last / max(1, count - 1)) for number in range(count)}) if last >= 0 else []
        return [self.samples[place] for place in places]

    def most_at_once(self) -> int:
        """Return how many calls were in flight at most."""
        ends: list[int] = []
        most = 0
        for start, end in sorted(self.times):
            while ends and ends[0] <= start:
                heappop(ends)
            heappush(ends, end)
            most = max(most, len(ends))
        return most

    def batches(self) -> list[int]:
        """Return how many requests each batch has, if batches answer all calls.

        A batch has the calls that begin before an answer is due, since no agent can run past that.
        """
        sizes: list[int] = []
        due = -1
        for start, end in sorted(self.times):
            if not sizes or start >= due:
                sizes.append(0)
                due = end
            sizes[-1] += 1
            due = min(due, end)
        return sizes


@taking(EstimateOptions)
@with_definitions
def estimate(scenario: Source, options: EstimateOptions) -> Mapping[str, Any]:
    """Return the model calls and the spending of a run with these options, in the form of `RunResult.models`.

    In addition, `bounds` has what the same calls can take at most (`tokens`, and `seconds` one after another), and with
    batches their number (`batches`) and the requests of the largest (`largest_batch`). `measured` has what is measured:
    `calls`, of `all`; with a probe also `seconds` (what the run is expected to take in real time), and the shares
    `failed`, `asked_again` and `timeouts`. In `surveys`, the number of missing answers to a question is None unless a
    probe has asked it. `needs` has what calls to endpoints need beside text: `need` (`tools`, `JSON schemas`,
    `streams`), the `models` that could answer them, and the number of `calls`.

    Args:
        scenario: a scenario, or the path of a scenario file.
        options: see `EstimateOptions`.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if an option is wrong; if an agent has its own code, which might do more than ask models; or if the
            scenario has tools of MCP servers.
        RunError: if the run fails.
        KeyboardInterrupt: if the estimate was interrupted, so that the run after it does not start.
    """
    checked, chosen = _checked(scenario, options)
    trace = _Trace()
    usage = _dry_run(checked, chosen, trace)
    if not usage:
        return usage
    access = chosen.access
    outside = access is not None and access.outside
    deadline = 0.0 if checked.models is None else to_seconds(checked.models.retry.deadline)
    bounds, needs = _bounds(usage, trace, access, deadline), _needs(trace, access)
    measured: JsonObject = {"calls": 0, "all": len(trace.times)}
    if outside and "surveys" in usage:  # of answers that are filler text
        usage = {**usage, "surveys": {ask: {**tally, "missing": None} for ask, tally in usage["surveys"].items()}}
    if options.probe and access is not None and outside:
        at_once = max(1, min(options.probe, trace.most_at_once(), access.concurrency))
        asked = attrs.evolve(chosen, expected={"needs": needs})
        seen = measure(checked, asked, trace.chosen(options.probe), at_once)
        usage, measured = _scaled(usage, seen, len(trace.times), checked)
    return {**usage, "bounds": bounds, "measured": measured, "needs": needs}


def _checked(scenario: Source, options: EstimateOptions) -> tuple[Scenario, EstimateOptions]:
    """Return a scenario that can be estimated, and the options with what its package needs.

    Raises:
        UsageError: if an agent has its own code, or there are tools of MCP servers.
    """
    checked, _, options = read_scenario(scenario, options)
    foreign = next((entry for entry in checked.agents if not _is_of_sim(entry.kind, options.kinds)), None)
    if foreign is not None:
        raise UsageError(
            f"the agent {foreign.name} has its own code ({foreign.kind}), so its model calls cannot be estimated"
        )
    tools = checked.sections.get("tools")
    if isinstance(tools, ToolsSettings) and tools.servers:
        raise UsageError("the scenario has tools of MCP servers, which an estimate does not call, so it cannot be made")
    return checked, options


def _dry_run(scenario: Scenario, options: EstimateOptions, trace: _Trace) -> Mapping[str, Any]:
    """Run a scenario with simulated models, at which nothing leaves this process, and return its model calls."""
    if scenario.models is not None and scenario.models.latency is not None:
        scenario = scenario.model_copy(update={"models": scenario.models.with_known_latency()})

    def begun(runner: RunController) -> None:
        if runner.simulation.models is not None:
            runner.simulation.models.trace = trace.add

    dry = attrs.evolve(
        options,
        access=(options.access or Access()).offline(),
        out=None,
        clock="virtual",
        speed=None,
        overrides=(),
        expected={},
        on_interrupt="raise",
        allow_commands=False,
        edge_workers=0,
        ray=None,
        begun=begun,
    )
    return blocking(partial(run_from, scenario, dry), dry.backend).models


def _is_of_sim(kind: str, kinds: Kinds | None) -> bool:
    """Return whether agents of a kind have no code but that of sim, which does nothing outside but ask models."""
    family = None if kinds and kind in kinds else FAMILIES.get(kind)
    return family is not None and family.agent.__module__.startswith("sim.")


def _needs(trace: _Trace, access: Access | None) -> list[dict[str, Json]]:
    """Return what calls to endpoints need beside text: `need`, the chain of `models`, and the number of `calls`."""
    places: dict[str, list[str]] = {}
    for chain in () if access is None else access.chains().values():
        for provider, model in chain:
            places.setdefault(model, []).append(f"{provider}:{model}")
    return [
        {
            "need": need,
            "models": list(dict.fromkeys(name for model in models for name in places[model])),
            "calls": calls,
        }
        for (models, need), calls in sorted(trace.needs.items())
        if all(model in places for model in models)
    ]


def _bounds(usage: Mapping[str, Any], trace: _Trace, access: Access | None, deadline: float) -> dict[str, Any]:
    """Return what the calls can take at most."""
    bounds: dict[str, Any] = {"tokens": usage["total"]["most_tokens"], "seconds": len(trace.times) * deadline}
    if access is not None and access.batching:
        sizes = trace.batches()
        longest = len(sizes) * access.batching.wait
        bounds |= {"batches": len(sizes), "largest_batch": max(sizes, default=0), "seconds": longest}
    return bounds


def _scaled(usage: Mapping[str, Any], probe: Probe, calls: int, scenario: Scenario) -> tuple[JsonObject, JsonObject]:
    """Return an estimate by what a probe has measured, and what was measured."""
    again = 1 + probe.invalid / max(1, probe.asked)
    prices = prices_of(scenario.models) if scenario.models is not None else Prices.shipped()
    models = {}
    for name, tally in usage["models"].items():
        model = name.partition(":")[2]
        of_model = probe.models.get(model)
        if of_model is None:
            models[name] = tally
            continue
        own = tally["calls"] + tally["failed"]
        inputs = round(tally["input_tokens"] * of_model.input_tokens / max(1, of_model.foreseen) * again)
        outputs = round(own * of_model.output_tokens / of_model.calls * again)
        failed = round(own * probe.failed / max(1, probe.asked))
        cost = prices.cost(model, TokenUsage(inputs, outputs))
        models[name] = {
            **tally,
            "calls": own - failed,
            "failed": failed,
            "input_tokens": inputs,
            "output_tokens": outputs,
            "attempts": round(own * of_model.attempts / of_model.calls * again),
            "cost_micro": cost,
        }
    total = {key: sum(tally[key] for tally in models.values()) for key in usage["total"]}
    measured = {
        "calls": probe.asked,
        "all": calls,
        "at_once": probe.at_once,
        "seconds": probe.seconds / max(1, probe.asked) * calls * again,
        "failed": probe.failed / max(1, probe.asked),
        "asked_again": probe.invalid / max(1, probe.asked),
        "timeouts": probe.timeouts,
        "problem": probe.problem,
    }
    asked = {
        ask: {**tally, "missing": round(tally["answers"] * missing / count)}
        for ask, tally in usage.get("surveys", {}).items()
        for count, missing in [probe.questions.get(ask, (0, 0))]
        if count
    }
    surveys = {"surveys": {**usage["surveys"], **asked}} if asked else {}
    return {**usage, **surveys, "models": models, "total": total}, measured
