"""The command in a process of its own that has been started before it is needed: it waits for its arguments on stdin.

The line can name a place at which the process kills itself: before (`unanswered`) or after (`answered`) answer `n`.
"""

import json
import os
import signal
import sys

from sim.cli import main
from sim.record.inbox import InboxAnswer, InboxFile
from sim.runner import resume, run  # noqa: F401 - imported while it waits

_answer = InboxFile.answer


class Killing:
    """Kills the process at one of its answers.

    Args:
        n: which answer, from 1.
        when: `answered`: after it is written; `unanswered`: before.
    """

    def __init__(self, n: int, when: str) -> None:
        self._left = n
        self._when = when

    def answer(self, file: InboxFile, epoch: int, key: str, answer: InboxAnswer) -> None:
        """Answer, unless it is time to die."""
        self._left -= 1
        if self._left == 0 and self._when == "unanswered":
            os.kill(os.getpid(), signal.SIGKILL)
        _answer(file, epoch, key, answer)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    given = json.loads(sys.stdin.readline())
    if "kill" in given:
        killing = Killing(given["n"], given["kill"])
        InboxFile.answer = lambda self, *args: killing.answer(self, *args)  # type: ignore[method-assign]
    main(given["args"])
