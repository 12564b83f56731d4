"""The configuration of an agent loop."""

from typing import Final, get_args

import attrs

from sim.actors.mailbox import MailboxPolicy, Unmatched
from sim.base.errors import UsageError
from sim.kernel import to_ns, to_text
from sim.kernel.duration import Duration

POSITIVE_TIMES: Final = ("resource_check_interval", "restart_period", "heartbeat_timeout")
"""Durations that must be greater than 0; the other durations can be 0."""

LEAST: Final = {"max_consecutive_errors": 1, "max_restarts": 0, "mailbox_size": 1}
"""The minimum of each integer setting."""

MOST_MESSAGES: Final = 1_000_000
"""The maximum `mailbox_size`."""

TICK_PERIOD: Final[Duration] = 1.0
"""The default time between two ticks, in the tick mode."""


@attrs.frozen
class AgentLoopConfig:
    """Configuration of one loop. Durations are simulated seconds, or text such as `5m`.

    Args:
        min_loop_delay: minimum delay between two iterations; 0 is allowed.
        max_loop_delay: upper limit of the backoff after repeated failures.
        resource_check_interval: delay before the next attempt when an iteration was skipped for lack of capacity;
            greater than 0. Tick mode does not use it.
        max_consecutive_errors: consecutive failures after which the agent is paused.
        cool_down: duration of this pause.
        max_restarts: how many of these pauses are allowed within `restart_period`; one more stops the agent as crashed.
        restart_period: the period in which `max_restarts` are counted, like restart intensity in Erlang/OTP.
        heartbeat_timeout: time without a sign of life after which the health monitor raises an alert; None: twice
            `min_loop_delay`.
        mailbox_size: maximum number of messages in the mailbox.
        mailbox_policy: what happens to a message for a full mailbox.
        unmatched: what happens to a message that no rule of a policy agent would use. Such messages are counted.

    Attributes:
        min_delay_ns, max_delay_ns: `min_loop_delay` and `max_loop_delay` in nanoseconds, computed once for all loops
            that share this configuration.

    Raises:
        UsageError: if a value is out of its range. Scenario files have the same ranges.
    """

    min_loop_delay: Duration = 0.1
    max_loop_delay: Duration = 10.0
    resource_check_interval: Duration = 1.0
    max_consecutive_errors: int = 5
    cool_down: Duration = 60.0
    max_restarts: int = 3
    restart_period: Duration = 3600.0
    heartbeat_timeout: Duration | None = None
    mailbox_size: int = 100
    mailbox_policy: MailboxPolicy = "block"
    unmatched: Unmatched = "keep"
    min_delay_ns: int = attrs.field(init=False, eq=False, repr=False)
    max_delay_ns: int = attrs.field(init=False, eq=False, repr=False)

    @min_delay_ns.default
    def _min_delay_ns(self) -> int:
        return to_ns(self.min_loop_delay)

    @max_delay_ns.default
    def _max_delay_ns(self) -> int:
        return to_ns(self.max_loop_delay)

    def __attrs_post_init__(self) -> None:
        for name in ("cool_down", *POSITIVE_TIMES):
            self._check_time(name)
        if self.max_delay_ns < self.min_delay_ns:
            raise UsageError(
                f"max_loop_delay ({to_text(self.max_delay_ns)}) must not be less than "
                f"min_loop_delay ({to_text(self.min_delay_ns)})"
            )
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value.__class__ is not int or value < least:
                raise UsageError(f"{name} must be a whole number from {least}, not {value!r}")
        if self.mailbox_size > MOST_MESSAGES:
            raise UsageError(f"mailbox_size must be at most {MOST_MESSAGES}, not {self.mailbox_size}")
        for name, kinds in (("mailbox_policy", get_args(MailboxPolicy)), ("unmatched", get_args(Unmatched))):
            if getattr(self, name) not in kinds:
                raise UsageError(f"{name} is one of {', '.join(kinds)}, not {getattr(self, name)!r}")

    def _check_time(self, name: str) -> None:
        value = getattr(self, name)
        if value is None and name == "heartbeat_timeout":
            return
        if to_ns(value) == 0 and name in POSITIVE_TIMES:
            raise UsageError(f"{name} must be above 0 s, not {value!r}", hint="with 0 the loop would never wait")

    @property
    def silence_ns(self) -> int:
        """How long a running agent can show no sign of life before an alert, in nanoseconds."""
        if self.heartbeat_timeout is not None:
            return to_ns(self.heartbeat_timeout)
        return 2 * max(self.min_delay_ns, 1)
