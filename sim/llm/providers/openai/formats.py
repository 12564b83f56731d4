"""Finds out whether the models of an endpoint keep a JSON Schema, and sends it only to those that do (edge).

The first request with a `preferred_format` is the probe, so it costs nothing of its own. Others for the same model wait
for it. Some servers refuse the field, and some ignore it; both get requests without it from then on. A refused request
is sent again at once without the field; the outcome says so (`refused_format`), and what it used is part of its usage.
"""

from collections.abc import Awaitable, Callable

import anyio
import attrs

from sim.llm.limits.spend import total_usage
from sim.llm.reading import json_in, split_reasoning
from sim.llm.sending import sending
from sim.llm.types import Completion, ErrorClass, ModelError, ModelRequest
from sim.world.json_schema import mismatch

Ask = Callable[[ModelRequest], Awaitable[Completion]]

_PATIENCE = 10.0  # real seconds that a request waits for the probe, before it becomes one itself

_REFUSED: tuple[ErrorClass, ...] = ("bad_request", "not_found", "server", "malformed")
"""How servers refuse a field that they do not know: with 400, 404, 422, 500 or 501."""


class Formats:
    """What is known of the models of one endpoint.

    Attributes:
        enforced: by model, whether the endpoint keeps a format.
    """

    def __init__(self) -> None:
        self.enforced: dict[str, bool] = {}
        self._probes: dict[str, anyio.Event] = {}

    async def complete(self, model: str, request: ModelRequest, ask: Ask) -> Completion:
        """Return the answer to a request, with or without its preferred format.

        Args:
            model: the model.
            request: the request.
            ask: makes one request.

        Raises:
            ModelError: if the request fails.
        """
        if model not in self.enforced and model in self._probes:
            note = sending()
            note.sent = False
            with anyio.move_on_after(_PATIENCE):
                await self._probes[model].wait()
            note.sent = True
        if model not in self.enforced:
            probe = self._probes[model] = anyio.Event()
            try:
                return await self._probe(model, request, ask)
            finally:
                probe.set()
        if self.enforced[model]:
            return attrs.evolve(await ask(request), formatted=True)
        return attrs.evolve(await ask(_plain(request)), formatted=False)

    async def _probe(self, model: str, request: ModelRequest, ask: Ask) -> Completion:
        """Ask with the format; if the endpoint refuses that, ask without it."""
        try:
            answer = await ask(request)
        except ModelError as error:
            if error.kind not in _REFUSED or (error.kind == "server" and not _is_about_formats(str(error))):
                raise
            said = f"{error.kind}: {error}"
            note = sending()  # if the second request has no outcome
            note.used, note.refused_format = error.usage, said
            try:
                answer = await ask(_plain(request))
            except ModelError as second:  # the format was not the cause
                second.refused_format, second.usage = said, total_usage((error.usage, second.usage))
                raise
            self.enforced[model] = False
            usage = total_usage((error.usage, answer.usage)) or answer.usage
            return attrs.evolve(answer, formatted=False, refused_format=said, usage=usage)
        kept = _keeps(answer, request)
        if kept is not None:
            self.enforced[model] = kept
        return attrs.evolve(answer, formatted=bool(kept))


def _plain(request: ModelRequest) -> ModelRequest:
    return attrs.evolve(request, preferred_format=None)


def _is_about_formats(message: str) -> bool:
    return any(
        word in message.lower() for word in ("response_format", "json_schema", "schema", "grammar", "structured")
    )


def _keeps(answer: Completion, request: ModelRequest) -> bool | None:
    """Return whether an answer keeps the format of its request; None if that is unknown."""
    text = split_reasoning(answer.text)[1]
    if answer.stop == "max_tokens" or not text.strip():
        return None
    try:
        return mismatch(json_in(text), request.preferred_format or {}, "the answer") is None
    except ValueError:
        return False
