"""What starts to go wrong in a run, seen from outside while it is under way (edge).

A run can take hours and spend money before its summary says that most of its calls timed out. So this looks at the
counts of a run from time to time, and says each trouble in one sentence, as soon as it begins, and again only if it has
become twice as large.
"""

from collections.abc import Iterator
from typing import Final

from sim.base.text import number
from sim.kernel.duration import seconds_text
from sim.runner.runner import RunController

CIRCLE_SECONDS: Final = 10.0
"""Real seconds between two looks for agents that answer each other in circles."""

CIRCLE_ITERATIONS: Final = 5000
"""The least iterations between two such looks: fewer are no matter of circles."""

LONGEST: Final = 86_400.0
"""Real seconds that a run may still take at its present pace, before its agents are suspected."""

_FIRST: Final = 3  # failures before they are said
_SHARE: Final = 0.2  # of all requests or calls
_LOUDEST: Final = 3  # agents that are named


class Troubles:
    """Notices what goes wrong in one run.

    Args:
        now: the present real time, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._said: dict[str, int] = {}  # by trouble: its size when it was said
        self._looked = now
        self._simulated = 0.0
        self._messages = 0
        self._iterations: dict[str, int] = {}

    def new(self, runner: RunController, now: float) -> Iterator[str]:
        """Yield what has gone wrong since the last look, each in one sentence with what to do about it."""
        yield from self._of_models(runner)
        if now - self._looked >= CIRCLE_SECONDS:
            yield from self._of_circles(runner, now - self._looked)
            self._looked = now

    def _is_new(self, trouble: str, size: int) -> bool:
        if size < max(_FIRST, 2 * self._said.get(trouble, 0)):
            return False
        self._said[trouble] = size
        return True

    def _of_models(self, runner: RunController) -> Iterator[str]:
        models = runner.simulation.models
        outcomes = {} if models is None else models.outcomes()
        if models is None or not outcomes:
            return
        requests = sum(outcomes.values())
        failures = {kind: count for kind, count in outcomes.items() if kind != "ok"}
        late = failures.get("timeout", 0)
        if late >= _SHARE * requests and self._is_new("timeouts", late):
            level = models.concurrency()
            reached = "".join(f"; {name} now gets {one['reached']:g} at a time" for name, one in level.items())
            yield (
                f"{number(late)} of {number(requests)} requests to models timed out{reached}; "
                "raise models.retry.timeout, or lower models.max_tokens or --concurrency"
            )
        thought = failures.get("reasoning", 0)
        if thought >= _SHARE * requests and self._is_new("reasoning", thought):
            yield (
                f"{number(thought)} of {number(requests)} requests to models spent all tokens on reasoning; "
                "raise models.max_tokens, or turn reasoning off"
            )
        total = models.spend.total
        if total.failed >= _SHARE * (total.calls + total.failed) and self._is_new("calls", total.failed):
            most = max(failures, key=lambda kind: failures[kind], default="unknown")
            yield (
                f"{number(total.failed)} of {number(total.calls + total.failed)} model calls failed, retries did not "
                f"help ({number(total.attempts)} requests); most frequent: {most}"
            )
        asked = sum(all_ for all_, _ in models.counts.surveys.values())
        missing = sum(none for _, none in models.counts.surveys.values())
        if missing >= _SHARE * asked and self._is_new("surveys", missing):
            yield f"{number(missing)} of {number(asked)} answers of surveys do not have the form of their question"

    def _of_circles(self, runner: RunController, seconds: float) -> Iterator[str]:
        """Yield agents that answer each other while simulated time stands almost still."""
        world = runner.simulation.world
        passed, sent = world.now - self._simulated, world.messages - self._messages
        now = {loop.agent_id: loop.iteration_count for loop in runner.simulation.manager.loops.values()}
        made = {name: count - self._iterations.get(name, 0) for name, count in now.items()}
        iterations = sum(made.values())
        self._simulated, self._messages, self._iterations = world.now, world.messages, now
        left = None if runner.until is None else runner.until - world.now
        slow = passed == 0 if left is None else left * seconds > LONGEST * passed
        if iterations < CIRCLE_ITERATIONS or not slow:
            return
        if self._is_new("circles", sum(now.values())):
            busy = sorted(made.items(), key=lambda item: (-item[1], item[0]))[:_LOUDEST]
            named = ", ".join(f"{name} ({number(count)} iterations)" for name, count in busy)
            yield (
                f"{number(iterations)} iterations and {number(sent)} messages in {seconds:.0f} s of real time, while "
                f"{seconds_text(passed)} of simulated time passed: agents seem to answer each other in circles, most "
                f"of all {named}; give them loop.min_loop_delay, or a rule that ends the exchange"
            )
