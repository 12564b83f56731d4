"""Takes in what people outside ask of a run (edge).

A person writes a request into the inbox in the run folder and waits for the answer (`sim.record.inbox`). A thread of
the run finds it, and submits it as an input of the kind `person`, which holds the key of the request. So the run
records it, applies it inside, and a replay applies it again. A request is applied exactly once: one whose key is on
record is only answered. If a process dies, the one that resumes the run takes in the requests that are left, including
those that were asked of the first one.
"""

import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

from sim.actors import Control
from sim.base.errors import SimError, UsageError
from sim.kernel.codec import decode
from sim.record.inbox import INBOX, LARGEST, POLL, InboxAnswer, InboxFile, InboxRequest, Verb
from sim.runner.runner import RunController

ON_SHARDS: Final = "a run on shards can be stopped, but takes nothing else in from outside"
"""Why people and programs are refused."""


class OutsideRequests:
    """Takes in what people ask of a run, in a thread, for as long as it is entered as a context manager.

    Args:
        folder: the run folder.
        epoch: the epoch of this process. Once a later process has the run, this one takes nothing in.
        runner: the run.
    """

    def __init__(self, folder: Path, epoch: int, runner: RunController) -> None:
        self._folder = folder
        self._epoch = epoch
        self._runner = runner
        self._manager = runner.simulation.manager
        self._world = runner.simulation.world
        self._file: InboxFile | None = None
        self._read: tuple[int, int] | None = None  # which file that was
        self._last = 0  # the id of the last row of it that was read
        self._open: dict[str, None] = {}  # the keys of requests that were submitted and are not answered, in order
        self._fenced = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sim-inbox", daemon=True)
        self.finished = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread, and give the last answers. If `finished` is set, what is left can never be applied."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(POLL):
            self._look()
        self._look()
        if self._file is not None:
            self._file.close()

    def _look(self) -> None:
        """Read new requests, and answer those that were applied. What is wrong with the inbox never ends the run."""
        if self._fenced or not self._runner.host.live:
            return
        try:
            if self._file is not None and self._file.replaced:  # people who ask now write into another file
                self._file.close()
                self._file = None
            if self._file is None:
                if not (self._folder / INBOX).exists():
                    return
                self._file = InboxFile(self._folder)
                if self._file.identity != self._read:
                    self._read, self._last = self._file.identity, 0
            self._take_in(self._file)
            self._answer(self._file)
        except SimError:  # the person who asks sees the cause; here, look again later
            if self._file is not None:
                self._file.close()
            self._file = None

    def _take_in(self, file: InboxFile) -> None:
        while requests := file.take(self._epoch, self._last):
            for request in requests:
                if request.key in self._manager.answers or self._ended.is_set():
                    self._open[request.key] = None
                elif request.key in self._open:
                    pass  # it was submitted: this is a copy of the file in which it was found
                elif request.answer is None or request.answer.time_ns is not None:  # the record may have lost it
                    wrong = self._submit(request)
                    if wrong is not None:
                        file.answer(self._epoch, request.key, wrong)
                self._last = request.id
        self._fenced = requests is None

    def _submit(self, request: InboxRequest) -> InboxAnswer | None:
        """Submit a request to the run, or return what is wrong with it."""
        control = Control(self._manager, submit=partial(self._wrap, request.key))
        try:
            if self._runner.sync is not None:
                raise UsageError("a run with execution.sync takes nothing in from outside", hint="run it without")
            if self._runner.shards is not None and request.kind != "stop_all":
                hint = f"press Ctrl-C where it runs, and continue it in one process: sim resume {self._folder}"
                raise UsageError(ON_SHARDS, hint=hint)
            if len(request.data) > LARGEST or request.kind not in get_args(Verb):
                raise UsageError(f"no run takes a request of the kind {request.kind!r:.80}")
            getattr(control, request.kind)(**decode(request.data))
        except UsageError as error:
            return InboxAnswer("wrong", reason=str(error), hint=error.hint)
        except (SimError, TypeError, ValueError, RecursionError) as error:
            return InboxAnswer("wrong", reason=f"the arguments of {request.kind} are not valid: {error}"[:500])
        self._open[request.key] = None
        return None

    def _wrap(self, key: str, kind: str, data: object) -> None:
        self._world.submit("person", {"row": key, "kind": kind, "data": data})

    def _answer(self, file: InboxFile) -> None:
        """Answer the requests that were applied. An input is durable before it is applied, so they are on record."""
        answers: Mapping[str, Any] = self._manager.answers
        for key in list(self._open):
            if (applied := answers.get(key)) is not None:
                outcome: Literal["done", "refused"] = "done" if applied.refused is None else "refused"
                file.answer(self._epoch, key, InboxAnswer(outcome, applied.time_ns, applied.refused))
            elif self.finished:
                file.answer(self._epoch, key, InboxAnswer("refused", reason="the run has ended"))
            else:
                continue
            del self._open[key]
