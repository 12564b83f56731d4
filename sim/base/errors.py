"""The errors, grouped by their cause.

`UsageError` and `ScenarioError`: the input of the caller is wrong, and nothing was changed.
`RunError`: a run or its file failed.
`ActorError` and its subclasses: the code of an agent did something that the kernel does not allow.
`Cancelled` is not an `Exception`, so that `except Exception` in an agent does not catch it.
"""

import attrs


class SimError(Exception):
    """The base class of all errors of `sim`.

    Args:
        message: one sentence with the actual and the expected value.
        hint: how to fix it, or None. Python prints it below the message in a traceback.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")


class UsageError(SimError):
    """The request of the caller is not valid (command line: exit code 2)."""


class NameTakenError(UsageError, ValueError):
    """An agent has the same name as another one, or already has a loop."""


class RecordWarning(UserWarning):
    """The record that is read has lost its end, or a file of it was changed. What is read may not be what happened."""


class RunError(SimError):
    """A run failed, or its file cannot be used (command line: exit code 1)."""


class KernelError(RunError):
    """An invariant of the kernel is violated, for example two wake-ups have the same order key."""


class OutOfMemoryError(RunError, MemoryError):
    """An actor ran out of memory. Its state can be inconsistent, so the run ends.

    Args:
        name: the name of the actor.
        text: the message of Python; can be empty.
    """

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(
            f"{name} ran out of memory{f': {text}' if text else ''}",
            hint="let agents keep less, run fewer of them, or give the process more memory",
        )


class LivelockError(RunError):
    """Simulated time does not advance, because actors wake each other without end at one instant."""


class DivergenceError(RunError):
    """A replay, resume or branch differs from its record. The message names the first difference."""


class CausalityError(RunError):
    """An agent used what it cannot have at its time: data that can still change or that it did not declare, if it runs
    ahead of others, or what is on another island.
    """


class ActorError(SimError):
    """The code of an actor did something that the kernel does not allow."""


class ForeignAwaitError(ActorError):
    """An actor awaited an asyncio or trio object directly. Work outside the simulation must use `perform`."""


class TransitionError(ActorError):
    """A change of an agent's state is not allowed from its current state."""


class ClosedError(ActorError):
    """A wait can never end, because its object was closed or stopped."""


class Interrupt(ActorError):
    """Raised inside an actor, at its current wait, when the actor is interrupted. The wait has taken and given nothing.

    Attributes:
        cause: the cause that the interrupter gave; a `Preempted` for a preempted slot.
    """

    def __init__(self, cause: object = None) -> None:
        super().__init__(f"interrupted: {cause}" if cause is not None else "interrupted")
        self.cause = cause


class LimitError(SimError):
    """A request is over a limit.

    Attributes:
        kind: the limited resource, for example `llm_calls`.
        value: the requested amount.
        limit: the allowed amount.
        source: the owner of the limit.

    Args:
        message: replaces the default text with the values, for amounts that are not in whole units.
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
    """One problem of a scenario: its position (line and column from 1), a message, and a hint.

    What a program gives has no file and no line: `file` is empty then, and the message begins with the path of the key.
    """

    file: str
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}" if self.file else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ScenarioError(UsageError):
    """A scenario file is not valid. `problems` lists all problems in file order."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Cancelled(BaseException):
    """Raised inside an actor, at its current wait, when the actor is cancelled. Do not catch it."""
