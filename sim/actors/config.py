"""How an agent's loop behaves. The first four values are seed 004's defaults."""

from typing import Final, get_args

import attrs

from sim.actors.mailbox import MailboxPolicy, Unmatched
from sim.errors import UsageError
from sim.kernel import to_ns

POSITIVE_TIMES: Final = ("resource_check_interval", "restart_period", "heartbeat_timeout")
"""Times that must be above 0; the other times may be 0."""

LEAST: Final = {"max_consecutive_errors": 1, "max_restarts": 0, "mailbox_size": 1}
"""The least value of each whole number."""

MOST_MESSAGES: Final = 1_000_000
"""The greatest `mailbox_size`."""


@attrs.frozen
class AgentLoopConfig:
    """Configuration of one loop. Times are simulated seconds.

    Args:
        min_loop_delay: least time between two actions; 0 is allowed.
        max_loop_delay: greatest delay that repeated failures back off to.
        resource_check_interval: how long an iteration waits that is skipped for want of capacity, above 0; unused in
            tick mode.
        max_consecutive_errors: failures in a row that pause the agent.
        cool_down: how long such a pause lasts.
        max_restarts: more than this many such pauses ...
        restart_period: ... within this time stop the agent as crashed (restart intensity, as in OTP).
        heartbeat_timeout: silence after which the health monitor reports the agent; None is twice its own delay.
        mailbox_size: messages that wait.
        mailbox_policy: what happens to more.
        unmatched: what happens to a message that no rule of a policy agent uses; it is counted.

    Attributes:
        min_delay_ns, max_delay_ns: the same delays in nanoseconds, which all loops of one configuration share.

    Raises:
        UsageError: if a value is out of its range. A scenario file is held to the same ranges.
    """

    min_loop_delay: float = 0.1
    max_loop_delay: float = 10.0
    resource_check_interval: float = 1.0
    max_consecutive_errors: int = 5
    cool_down: float = 60.0
    max_restarts: int = 3
    restart_period: float = 3600.0
    heartbeat_timeout: float | None = None
    mailbox_size: int = 100
    mailbox_policy: MailboxPolicy = "block"
    unmatched: Unmatched = "drop"
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
                f"max_loop_delay ({self.max_loop_delay:g} s) must not be less than "
                f"min_loop_delay ({self.min_loop_delay:g} s)"
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
        """How long a running agent may be silent: twice its own interval unless set (seed 000's health rule)."""
        if self.heartbeat_timeout is not None:
            return to_ns(self.heartbeat_timeout)
        return 2 * max(self.min_delay_ns, 1)
