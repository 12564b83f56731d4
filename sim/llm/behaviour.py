"""How models behave that are not real: records that describe simulated models, modelled servers and injected faults.

The providers that act on them are in `providers`, and are imported only by runs that use them.
"""

import math
from typing import Any, Literal, Self

import attrs

from sim.base.errors import UsageError
from sim.kernel import Stream
from sim.kernel.rng import Draws
from sim.llm.types import ErrorClass

_Z95 = 1.6448536269514722  # the 95th percentile of the standard normal distribution
_LARGEST_EXPONENT = 700.0  # `math.exp` raises an error for larger ones


@attrs.frozen
class Draw:
    """A distribution of numbers of at least 0. Use the class methods to make one."""

    kind: Literal["constant", "uniform", "exponential", "lognormal"]
    a: float
    b: float = 0.0

    def __attrs_post_init__(self) -> None:
        if not (0 <= self.a < math.inf and 0 <= self.b < math.inf):
            raise UsageError(f"a {self.kind} distribution needs finite numbers from 0, not {self.a!r} and {self.b!r}")
        if self.kind == "uniform" and self.a > self.b:
            raise UsageError(f"a uniform distribution needs low <= high, not {self.a:g} and {self.b:g}")
        if self.kind == "lognormal" and not 0 < self.a <= self.b:
            raise UsageError(f"a lognormal distribution needs 0 < median <= p95, not {self.a:g} and {self.b:g}")

    @classmethod
    def constant(cls, value: float) -> Self:
        """Return a distribution with one value."""
        return cls("constant", value)

    @classmethod
    def uniform(cls, low: float, high: float) -> Self:
        """Return the uniform distribution between two numbers."""
        return cls("uniform", low, high)

    @classmethod
    def exponential(cls, mean: float) -> Self:
        """Return the exponential distribution with this mean."""
        return cls("exponential", mean)

    @classmethod
    def lognormal(cls, median: float, p95: float) -> Self:
        """Return the lognormal distribution with this median and 95th percentile, as latencies and lengths have."""
        return cls("lognormal", median, p95)

    def sample(self, stream: Stream | Draws) -> float:
        """Draw a number."""
        if self.kind == "uniform":
            return self.a + (self.b - self.a) * stream.random()
        if self.kind == "exponential":
            return -self.a * math.log(1.0 - stream.random())
        if self.kind == "lognormal":
            return self.a * math.exp(min(math.log(self.b / self.a) / _Z95 * stream.gauss(0.0, 1.0), _LARGEST_EXPONENT))
        return self.a


# Approximate values for a small hosted model.
_FIRST_TOKEN = Draw.lognormal(0.5, 1.5)


_PER_TOKEN = Draw.constant(0.02)


_SOON = Draw.constant(0.1)


@attrs.frozen
class Failure:
    """One way in which calls fail.

    Args:
        kind: the class of error.
        share: the share of all calls, from 0 to 1.
        after: seconds until the failure shows.
        retry_after: seconds that the endpoint asks to wait, or None.
    """

    kind: ErrorClass
    share: float
    after: Draw = _SOON
    retry_after: float | None = None


def _at_most_all(instance: object, attribute: object, failures: tuple[Failure, ...]) -> None:
    if any(not 0 <= failure.share <= 1 for failure in failures) or sum(failure.share for failure in failures) > 1:
        raise UsageError("each share of failures must be between 0 and 1, and so must their sum")


@attrs.frozen
class Profile:
    """Durations, lengths and failures of calls. The defaults are approximate values for a small hosted model.

    Args:
        first_token: seconds until the answer begins.
        per_token: seconds for each token of the answer.
        output_tokens: the length of answers. None: the length of the answer's text. `requested`: as long as the request
            allows (its `max_tokens`).
        failures: the failures.
    """

    first_token: Draw = _FIRST_TOKEN
    per_token: Draw = _PER_TOKEN
    output_tokens: Draw | Literal["requested"] | None = None
    failures: tuple[Failure, ...] = attrs.field(default=(), validator=_at_most_all)


def _positive(instance: object, attribute: "attrs.Attribute[Any]", value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"{attribute.name} of a modelled server must be above 0, not {value!r}")


def _from_zero(instance: object, attribute: "attrs.Attribute[Any]", value: int | None) -> None:
    if value is not None and value < 0:
        raise UsageError(f"{attribute.name} of a modelled server must be at least 0, not {value}")


@attrs.frozen
class ServerSpec:
    """The parameters of a modelled server. The defaults approximate a model of 8 billion weights on one large GPU.

    Args:
        replicas: the number of machines.
        slots: the number of concurrent calls per replica.
        prefill_rate: input tokens per second that a replica reads.
        decode_rate: output tokens per second of a call that is alone.
        decode_total: output tokens per second of a replica, over all its calls; None: unlimited.
        queue: the most calls that can wait; a further call is refused (`overload`). None: unlimited.
        context: the most input and output tokens of a call; None: unlimited.
        requests_per_minute: a limit as at a hosted endpoint; a call above it is refused (`rate_limit`).
        tokens_per_minute: the same for tokens, input and output together.
    """

    replicas: int = attrs.field(default=1, validator=_positive)
    slots: int = attrs.field(default=32, validator=_positive)
    prefill_rate: float = attrs.field(default=8000.0, validator=_positive)
    decode_rate: float = attrs.field(default=60.0, validator=_positive)
    decode_total: float | None = attrs.field(default=1500.0, validator=_positive)
    queue: int | None = attrs.field(default=None, validator=_from_zero)
    context: int | None = attrs.field(default=None, validator=_positive)
    requests_per_minute: float | None = attrs.field(default=None, validator=_positive)
    tokens_per_minute: float | None = attrs.field(default=None, validator=_positive)

    def alone(self, input_tokens: int, output_tokens: int) -> float:
        """Return the duration in seconds of a call without other calls."""
        rate = self.decode_rate if self.decode_total is None else min(self.decode_rate, self.decode_total)
        return input_tokens / self.prefill_rate + output_tokens / rate


FaultKind = Literal[
    "rate_limit", "server", "overload", "network", "hang", "slow", "truncate", "malformed_arguments", "refusal",
]  # fmt: skip
"""The kinds of faults. The call fails: `rate_limit` (429), `server` (500), `overload` (503), `network` (reset). The
endpoint sends nothing: `hang`. The answer arrives late, in small parts: `slow`. It is cut off: `truncate`. A tool
call has arguments that are not a JSON object: `malformed_arguments`. The model declines: `refusal`.
"""


def _check(fault: "Fault") -> None:
    if not 0 < fault.share <= 1:
        raise UsageError(f"the share of a fault must be above 0 and at most 1, not {fault.share!r}")
    if not 0 <= fault.start < fault.end:
        raise UsageError(f"a fault must end after it starts, not last from {fault.start:g} s to {fault.end:g} s")
    if (fault.every is None) != (fault.lasting is None):
        raise UsageError("a fault in bursts needs both every (their period) and lasting (their length)")
    if fault.every is not None and fault.lasting is not None and not 0 < fault.lasting <= fault.every:
        raise UsageError(f"a burst must end before the next, but lasts {fault.lasting:g} s every {fault.every:g} s")
    for name, seconds in (("seconds", fault.seconds), ("retry_after", fault.retry_after)):
        if seconds is not None and not 0 <= seconds < math.inf:
            raise UsageError(f"{name} of a fault must be a finite number of at least 0, not {seconds!r}")


@attrs.frozen
class Fault:
    """One injected fault.

    Args:
        kind: the kind of the fault.
        share: the share of calls that it affects while it is active.
        start: its beginning, in seconds.
        end: its end, in seconds.
        every: seconds from the start of one burst to the next; None: one burst from start to end.
        lasting: the length of a burst in seconds.
        models: the names of the affected models; empty for all.
        retry_after: seconds that the endpoint asks to wait (`rate_limit`, `overload`).
        seconds: the time until a failure shows, until a hanging connection breaks (`hang`: by default never) or until a
            slow answer is complete (`slow`: by default 30).
    """

    kind: FaultKind
    share: float = 1.0
    start: float = 0.0
    end: float = math.inf
    every: float | None = None
    lasting: float | None = None
    models: tuple[str, ...] = ()
    retry_after: float | None = None
    seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        _check(self)

    def active(self, seconds: float, model: str) -> bool:
        """Whether the fault can affect a call to `model`, `seconds` after the beginning."""
        if not self.start <= seconds < self.end or (self.models and model not in self.models):
            return False
        return self.every is None or self.lasting is None or (seconds - self.start) % self.every < self.lasting
