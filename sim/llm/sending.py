"""How far a request has come whose outcome is lost, because it took too long or its process ended (edge).

An endpoint bills what it has got. A provider that does not send a request at once, or that makes two requests for one
attempt, notes that in `sending()`, so that no request is billed that was never sent, and none is forgotten that was.
"""

from contextvars import ContextVar

import attrs

from sim.base.errors import SimError
from sim.llm.types import TokenUsage


@attrs.define(eq=False)
class Sending:
    """How far one attempt has come.

    Attributes:
        sent: whether the endpoint may have its latest request.
        used: the tokens of an earlier request of the same attempt.
        refused_format: as that of `Completion`.
    """

    sent: bool = True
    used: TokenUsage | None = None
    refused_format: str = ""


_NOW: ContextVar[Sending | None] = ContextVar("sim.llm.sending", default=None)


def sending() -> Sending:
    """Return what is noted of the attempt that this task makes."""
    return _NOW.get() or Sending()


class Noted:
    """Has providers within its block note how far they come. For tasks of an event loop only."""

    __slots__ = ("_note", "_token")

    def __enter__(self) -> Sending:
        self._note = Sending()
        self._token = _NOW.set(self._note)
        return self._note

    def __exit__(self, *_: object) -> None:
        _NOW.reset(self._token)


class TooLate(TimeoutError):
    """An attempt took too long.

    Attributes:
        sending: how far it had come.
    """

    def __init__(self, sending: Sending) -> None:
        super().__init__()
        self.sending = sending


class Interrupted(SimError):
    """The process that made a request ended before there was an outcome.

    Attributes:
        sending: how far the attempt had come.
    """

    def __init__(self, how: str, sending: Sending) -> None:
        super().__init__(f"the worker process {how}")
        self.sending = sending
