"""Errors, named by who must act.

`UsageError` and `ScenarioError`: the caller gave something wrong, nothing was changed.
`RunError`: a run or its file failed. `ActorError` and below: the code of an agent did something the kernel refuses.
`Cancelled` is not an `Exception`: a broad `except Exception` in an agent must not swallow it.
"""

import attrs


class SimError(Exception):
    """Base of all errors of `sim`.

    Args:
        message: one sentence that says what was found and what was expected.
        hint: what to do about it, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(SimError):
    """The caller asked for something that cannot be done (command line: exit code 2)."""


class RunError(SimError):
    """A run failed, or its file cannot be used (command line: exit code 1)."""


class KernelError(RunError):
    """The kernel's own rules were broken, for instance two wake-ups with one order key."""


class OutOfMemoryError(RunError, MemoryError):
    """An agent, or another actor, ran out of memory: nothing says what it left half done, so the run ends.

    Args:
        name: the agent or actor.
        text: what Python said about it; may be empty.
    """

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(
            f"{name} ran out of memory{f': {text}' if text else ''}",
            hint="let agents keep less, run fewer of them, or give the process more memory",
        )


class LivelockError(RunError):
    """Simulated time does not advance: actors wake each other for ever at one instant."""


class DivergenceError(RunError):
    """A run that was made again is not what is on record; says where they part."""


class CausalityError(RunError):
    """An agent that runs ahead in simulated time used something that it does not know yet, or did not declare."""


class ActorError(SimError):
    """The code of an actor did something that the kernel refuses."""


class ForeignAwaitError(ActorError):
    """An actor awaited an asyncio or trio object directly; outside work goes through `perform`."""


class TransitionError(ActorError):
    """An agent was asked to change to a state that does not follow its present one."""


class ClosedError(ActorError):
    """Something that was waited on was closed or stopped, so the wait can never end."""


class Interrupt(ActorError):
    """Raised inside an actor at the place where it waits when it is interrupted; the wait has taken nothing.

    Attributes:
        cause: what the interrupter gave as the reason; for a preempted slot, a `Preempted`.
    """

    def __init__(self, cause: object = None) -> None:
        super().__init__(f"interrupted: {cause}" if cause is not None else "interrupted")
        self.cause = cause


class LimitError(SimError):
    """A limit was hit.

    Attributes:
        kind: what is limited, for instance `llm_calls`.
        value: what was asked for.
        limit: what is allowed.
        source: whose limit it is.

    Args:
        message: what is said instead of the values, for those that are not counted in whole units.
    """

    def __init__(
        self,
        kind: str,
        value: float,
        limit: float,
        source: str,
        *,
        message: str | None = None,
        hint: str | None = None,
    ) -> None:
        text = message or f"{kind} {value:.15g} is over the limit of {limit:.15g}"
        super().__init__(f"{source}: {text}", hint=hint)
        self.kind = kind
        self.value = value
        self.limit = limit
        self.source = source


@attrs.frozen
class Problem:
    """One thing wrong in a scenario file: where (line and column count from 1), what, and what to do."""

    file: str
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class ScenarioError(UsageError):
    """A scenario file is not valid; `problems` lists everything that is wrong in it, in file order."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Cancelled(BaseException):
    """Raised inside an actor at the place where it waits when it is cancelled. Let it pass."""
