"""Measures a few real calls of a run before it starts, for its estimate (edge)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import attrs

from sim.agents.interview import USE, Question
from sim.base.errors import SimError
from sim.kernel.codec import JsonObject
from sim.llm.access import INSIDE, Access
from sim.llm.answers import check_answer
from sim.llm.capabilities import Capabilities
from sim.llm.router import targets_of
from sim.llm.service import Models, Traced
from sim.llm.types import Answer, Attempt, ModelError
from sim.runner.event_loop import in_plain_code
from sim.runner.options import RunOptions
from sim.runner.spec import speed_of
from sim.scenario import Scenario, load
from sim.scenario.assembly.build import build
from sim.scenario.assembly.models import check_batching, declared_by


def check_batched_run(scenario: Path, options: RunOptions) -> None:
    """Check that a run can have its calls answered in batches, if it is to, before an estimate is made for it.

    What contradicts batches is refused before any request to an endpoint. It costs nothing.

    Args:
        scenario: the path of the scenario file.
        options: the options of the run.

    Raises:
        ScenarioError: if the file is not valid.
        UsageError: if something contradicts batches, an endpoint has none, or the key is missing or refused.
        RunError: if an endpoint cannot be reached.
    """
    access = options.access
    if access is None or not access.batching:
        return
    checked = load(scenario, options.overrides, options.allow, options.kinds)
    if checked.models is not None:
        check_batching(checked.models, access, speed_of(checked, options))
    check_batches(access)


async def check_batches_async(access: Access, *, backend: str = "asyncio") -> None:
    """Check that endpoints have batches. It costs nothing.

    Args:
        access: the access, with batches.
        backend: the library of the event loop.

    Raises:
        UsageError: if an endpoint has none, or the key is missing or refused.
        RunError: if one cannot be reached.
    """
    access.check_key()
    from sim.llm.providers.openai.provider import OpenAIProvider

    for name in access.providers:
        provider = OpenAIProvider(access.at(name), name=name)
        try:
            await provider.probe()
            await provider.connection.probe_batches()
        finally:
            await provider.aclose()


check_batches = in_plain_code(check_batches_async)


async def look_async(scenario: Path, options: RunOptions, *, backend: str = "asyncio") -> JsonObject:
    """Return what is known of the models at endpoints, in the form of `Capabilities.to_json`. It costs nothing.

    What endpoints say is asked for, except at OpenAI's own, which says nothing of it, and where that fails.

    Args:
        scenario: the path of the scenario file.
        options: the options of the run.
        backend: the library of the event loop.

    Raises:
        ScenarioError: if the file is not valid.
    """
    access = options.access
    checked = load(scenario, options.overrides, options.allow, options.kinds)
    if access is None or not access.outside or checked.models is None:
        return {}
    capabilities = Capabilities(declared_by(checked.models))
    with suppress(SimError):  # then only what the scenario declares is known
        access.check_key()
        if not any(access.at(name).is_openai for name in access.providers):
            capabilities = await _said(attrs.evolve(access, batching=False), capabilities)
    return capabilities.to_json(targets_of(access))


look = in_plain_code(look_async)


async def _said(access: Access, capabilities: Capabilities) -> Capabilities:
    """Return what is known of models after endpoints were asked."""
    from sim.llm.endpoint import EdgeClient

    client = EdgeClient(access, declared=capabilities.declared)
    try:
        await client.prepare()
    finally:
        await client.aclose()
    return client.capabilities


@attrs.frozen
class MeasuredModel:
    """What the calls of one model took.

    Attributes:
        calls: the number of calls.
        attempts: their requests.
        foreseen: the input tokens that the estimate has for them.
        input_tokens, output_tokens: what they used, over all requests.
    """

    calls: int = 0
    attempts: int = 0
    foreseen: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@attrs.define
class Probe:
    """What a few real calls have shown.

    Attributes:
        models: the figures by name of the model.
        asked, failed, invalid: calls, those without an answer, and answers that would be asked for again.
        questions: by question of a survey: calls, and those without an answer of its form.
        timeouts: requests that timed out.
        seconds: real seconds that all calls took together.
        at_once: how many calls were made at the same time.
        problem: why the first failed call failed; None if none failed.
    """

    models: dict[str, MeasuredModel] = attrs.field(factory=dict)
    asked: int = 0
    failed: int = 0
    invalid: int = 0
    questions: dict[str, list[int]] = attrs.field(factory=dict)
    timeouts: int = 0
    seconds: float = 0.0
    at_once: int = 1
    problem: str | None = None


async def probe_async(
    scenario: Scenario, options: RunOptions, samples: Sequence[Traced], at_once: int, *, backend: str = "asyncio"
) -> Probe:
    """Make some calls of a run at their endpoints, and measure them. Nothing is recorded.

    Args:
        scenario: the scenario.
        options: the options of the run.
        samples: calls of the run.
        at_once: how many of them are made at the same time.
        backend: the library of the event loop.

    Raises:
        UsageError: if the key is missing or refused.
        RunError: if an endpoint cannot be reached.
    """
    access = options.access
    assert access is not None, "there is an endpoint"
    access.check_key()
    online = attrs.evolve(access, batching=False)
    simulation = build(
        scenario,
        seed=scenario.seed if options.seed is None else options.seed,
        rights=options,
        access=online,
        until_ns=scenario.end_ns,
    )
    models = simulation.models
    assert models is not None, "the scenario calls models"
    surveys = [entry.survey for entry in scenario.interventions if entry.survey is not None]
    questions = [question for survey in surveys for question in survey.questions if question.form]
    probe = Probe(at_once=at_once)
    models.expected = options.expected
    try:
        await models.prepare()
        began = anyio.current_time()
        limiter = anyio.CapacityLimiter(at_once)
        async with anyio.create_task_group() as group:
            for sample in samples:
                question = _question_of(sample, questions)
                group.start_soon(_ask, models, sample, question, limiter, probe)
        probe.seconds = anyio.current_time() - began
    finally:
        await models.aclose()
        simulation.world.kernel.close()
    return probe


probe = in_plain_code(probe_async)


def _question_of(sample: Traced, questions: Sequence[Question]) -> Question | None:
    """Return the question of a survey that a call asks, among those whose answer has a form."""
    text = sample.request.messages[-1].content if sample.request.use == USE and sample.request.messages else ""
    fitting = [question for question in questions if text.startswith(question.ask)]
    return max(fitting, key=lambda question: len(question.ask), default=None)


async def _ask(
    models: Models, sample: Traced, question: Question | None, limiter: anyio.CapacityLimiter, probe: Probe
) -> None:
    targets = models.plan(sample, sample.request).route.targets
    edge = models.edge
    if edge is None or all(target.provider in INSIDE for target in targets):
        return
    async with limiter:
        try:
            outcome: Answer | ModelError = await edge.complete(targets, sample.request, agent=sample.agent_id)
        except ModelError as error:
            outcome = error
    _count(probe, sample, targets[0].model, outcome)
    if question is not None:
        said = "" if isinstance(outcome, ModelError) else outcome.completion.text.strip()
        missing = question.value_of(said) is None
        counts = probe.questions.setdefault(question.ask, [0, 0])
        counts[0] += 1
        counts[1] += missing
        probe.invalid += missing and not isinstance(outcome, ModelError)


def _count(probe: Probe, sample: Traced, model: str, outcome: Answer | ModelError) -> None:
    probe.asked += 1
    if isinstance(outcome, ModelError):
        probe.failed += 1
        probe.problem = probe.problem or f"{outcome.kind}: {outcome}"[:300]
    else:
        probe.invalid += check_answer(outcome.completion, sample.request) is not None
    probe.timeouts += sum(attempt.outcome == "timeout" for attempt in outcome.attempts)
    before = probe.models.get(model, MeasuredModel())
    used = _usage(outcome.attempts)
    probe.models[model] = MeasuredModel(
        before.calls + 1,
        before.attempts + len(outcome.attempts),
        before.foreseen + sample.input_tokens,
        before.input_tokens + used["input"],
        before.output_tokens + used["output"],
    )


def _usage(attempts: Sequence[Attempt]) -> Mapping[str, int]:
    usages = [attempt.usage for attempt in attempts if attempt.usage is not None]
    return {
        "input": sum(usage.input_tokens for usage in usages),
        "output": sum(usage.output_tokens for usage in usages),
    }
