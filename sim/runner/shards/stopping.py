"""The requests of people and programs to stop a run on shards; all else that they ask of it is refused (edge)."""

from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, NoReturn

from sim.base.errors import RunError, UsageError
from sim.kernel.codec import decode, encode
from sim.runner.outside_requests import ON_SHARDS

_STOP: Final = "stop_all"


class StopRequests:
    """Takes in requests to stop all agents of a run, from any thread, and keeps them until a window ends.

    It is made in the thread of the run.
    """

    def __init__(self) -> None:
        self._thread = get_ident()
        self._asked: deque[tuple[str, Any]] = deque()

    def submit(self, kind: str, data: object, /) -> None:
        """Keep a request.

        Raises:
            UsageError: if it is not one to stop all agents.
        """
        asked: Any = data
        if (kind, data) == (_STOP, None) or (kind == "person" and asked["kind"] == _STOP):
            self._asked.append((kind, decode(encode(data))))
            return
        self._refuse()

    def call(self, kind: str, data: object, name: str, /) -> NoReturn:
        """Refuse a call of a program, which would wait for what it does."""
        self._refuse()

    def watch(self, name: str, register: Callable[[Callable[[Any], object]], object], /) -> NoReturn:
        """Refuse a wait of a program for something that happens on a shard."""
        self._refuse()

    def in_other_thread(self) -> bool:
        """Whether the caller runs in another thread than the run."""
        return get_ident() != self._thread

    def take(self) -> tuple[tuple[str, Any], ...]:
        """Remove and return the requests so far: the kind and the data of each input."""
        return tuple([self._asked.popleft() for _ in range(len(self._asked))])

    def _refuse(self) -> NoReturn:
        raise UsageError(ON_SHARDS, hint="run it without --shards")


class AllStopped(RunError):
    """All agents have stopped, as they were asked to, before the time at which the coordinator is.

    Args:
        at: when the last one stopped, in simulated nanoseconds.
    """

    def __init__(self, at: int) -> None:
        super().__init__(f"all agents have stopped at {at / 1e9:g} s")
        self.at = at
