"""Shows what models are saying to who watches the run from another process (edge).

Answers that arrive in parts are noted as they come, and a thread writes them beside the run file a few times a second;
see `sim.record.unfinished`. They are provisional: the run, its record and its hash do not depend on them. If the file
cannot be written, the run continues without it.
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from sim.llm.service import Models
from sim.llm.types import Delta
from sim.llm.unfinished import UnfinishedAnswers
from sim.record.unfinished import MOST, drop_unfinished, write_unfinished

PAUSE: Final = 0.2
"""Real seconds between two writes."""


class UnfinishedWriter:
    """Writes unfinished answers for as long as it is entered as a context manager.

    Args:
        folder: the run folder.
        models: the models of the run.
    """

    def __init__(self, folder: Path, models: Models) -> None:
        self._folder = folder
        self._models = models
        self._answers = UnfinishedAnswers(MOST)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None  # begun with the first part: most runs have none

    def __enter__(self) -> Self:
        drop_unfinished(self._folder)  # that of a process that was killed
        self._models.followers.append(self._add)
        self._models.on_cost.append(self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            drop_unfinished(self._folder)

    def _add(self, agent_id: str, part: Delta) -> None:
        self._answers.add(agent_id, part)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sim-unfinished-answers", daemon=True)
            self._thread.start()

    def _end(self, agent_id: str, use: str, tokens: int, cost_micro: int) -> None:
        self._answers.end(agent_id)

    def _run(self) -> None:
        written = -1
        while not self._ended.wait(PAUSE):
            if (version := self._answers.version) != written:
                try:
                    write_unfinished(self._folder, self._answers.answers())
                except OSError:  # the disk is full, or the folder is gone: watchers see no partial answers
                    continue
                written = version
