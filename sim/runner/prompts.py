"""The requests to models in the core, and their answers: a replay repeats them, so a record need not hold them."""

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

import attrs

from sim.base.errors import DivergenceError, RunError
from sim.kernel.codec import encode
from sim.llm.serialization import answer_to_json, request_to_json
from sim.llm.service import Caller, Models
from sim.llm.types import Answer, ModelError, ModelRequest
from sim.record import StoredRun
from sim.record.history import RunHistory
from sim.record.verifying_recorder import VerifyingRecorder
from sim.runner.engine import execute
from sim.runner.event_loop import in_definitions, in_plain_code
from sim.runner.options import ReplayOptions, taking
from sim.runner.rebuild import RecordedSpec, check_not_running
from sim.runner.spec import Kept

_CALLS = "SELECT id FROM events WHERE topic = 'model.call' ORDER BY id"
_IN_CORE = "SELECT count(*) FROM events WHERE topic = 'model.call' AND data ->> '$.effect' IS NULL"


@attrs.frozen
class RepeatedPrompt:
    """A call of a model, as a replay repeats it.

    Attributes:
        request: the request, JSON-like, as it is recorded for endpoints.
        answer: the answer, JSON-like; None: the call failed or was abandoned.
    """

    request: Mapping[str, Any]
    answer: Mapping[str, Any] | None


def calls_in_core(stored: StoredRun) -> int:
    """Return how many calls of models a run made without an effect, in the core: their requests are not on record."""
    ((count,),) = stored.query(_IN_CORE)
    return int(count)


@taking(ReplayOptions)
@in_definitions
async def repeated_prompts_async(stored: StoredRun, options: ReplayOptions) -> dict[int, RepeatedPrompt]:
    """Return the requests and answers of all model calls of a run, by the id of the event `model.call`.

    The run is replayed for this. Nothing is executed outside of it, and nothing is written.

    Args:
        stored: the run.
        options: see `ReplayOptions`.

    Raises:
        UsageError: if something that the run needs is missing or not allowed.
        RunError: if the run has not ended, or a replay differs from the record, because the code has changed.
    """
    check_not_running(stored)
    rebuilt = RecordedSpec.from_record(stored, options, checked=False)
    prompts: list[RepeatedPrompt] = []

    def listen(_agent: Caller, request: ModelRequest, outcome: Answer | ModelError | None) -> None:
        answer = answer_to_json(outcome) if isinstance(outcome, Answer) else None
        prompts.append(RepeatedPrompt(request_to_json(request), answer))

    Models.of(rebuilt.simulation.world).listen = listen
    history = RunHistory(stored)
    keeper = VerifyingRecorder(history, rebuilt.pause)
    try:
        await execute(rebuilt, options, Kept(keeper), past=history)
    except DivergenceError as error:
        raise RunError(f"the prompts of {stored.path} cannot be repeated: {error}") from error
    ids = [id for (id,) in stored.query(_CALLS)]
    if len(prompts) < len(ids):
        raise RunError(f"the replay of {stored.path} made {len(prompts)} model calls, and its record has {len(ids)}")
    return dict(zip(ids, prompts, strict=False))  # the replay of a run that was killed can go a step further


repeated_prompts = in_plain_code(repeated_prompts_async)


def prompt_rows(stored: StoredRun, repeated: Mapping[int, RepeatedPrompt]) -> Generator[tuple[Any, ...]]:
    """Yield the rows of the view `prompts`, with the requests and answers that a replay has repeated.

    Args:
        stored: the run.
        repeated: what was repeated, by the id of the event `model.call`.
    """
    columns = stored.columns("prompts")
    id, request, answer, calls, stop = (
        columns.index(name) for name in ("id", "request", "answer", "tool_calls", "stop")
    )
    with closing(stored.stream("prompts")) as rows:
        for row in rows:
            cells = list(row)
            prompt = repeated.get(cells[id]) if cells[request] is None else None
            if prompt is not None:
                cells[request] = encode(prompt.request["messages"]).decode()
            if prompt is not None and prompt.answer is not None:
                completion = prompt.answer["completion"]
                cells[answer], cells[stop] = completion["text"], completion["stop"]
                cells[calls] = encode(completion["tool_calls"]).decode()
            yield tuple(cells)
