"""How an agent's loop behaves. The first four values are seed 004's defaults."""

import attrs

from sim.actors.mailbox import MailboxPolicy
from sim.errors import UsageError
from sim.kernel import to_ns


@attrs.frozen
class AgentLoopConfig:
    """Configuration of one loop. Times are simulated seconds.

    Args:
        min_loop_delay: least time between two actions; 0 is allowed.
        max_loop_delay: greatest delay that repeated failures back off to.
        resource_check_interval: how long an iteration waits that is skipped for want of capacity; unused in tick mode.
        max_consecutive_errors: failures in a row that pause the agent.
        cool_down: how long such a pause lasts.
        max_restarts: more than this many such pauses ...
        restart_period: ... within this time stop the agent as crashed (restart intensity, as in OTP).
        heartbeat_timeout: silence after which the health monitor reports a running agent; None is twice its own delay.
        mailbox_size: messages that wait.
        mailbox_policy: what happens to more.

    Attributes:
        min_delay_ns, max_delay_ns: the same delays in nanoseconds, which all loops of one configuration share.
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
    mailbox_policy: MailboxPolicy = "fail"
    min_delay_ns: int = attrs.field(init=False, eq=False, repr=False)
    max_delay_ns: int = attrs.field(init=False, eq=False, repr=False)

    @min_delay_ns.default
    def _min_delay_ns(self) -> int:
        return to_ns(self.min_loop_delay)

    @max_delay_ns.default
    def _max_delay_ns(self) -> int:
        return to_ns(self.max_loop_delay)

    def __attrs_post_init__(self) -> None:
        for name in (
            "min_loop_delay",
            "max_loop_delay",
            "resource_check_interval",
            "cool_down",
            "restart_period",
        ):
            to_ns(getattr(self, name))
        if self.max_loop_delay < self.min_loop_delay:
            raise UsageError(
                f"max_loop_delay ({self.max_loop_delay:g} s) must not be less than "
                f"min_loop_delay ({self.min_loop_delay:g} s)"
            )
        for name in ("max_consecutive_errors", "mailbox_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_restarts < 0:
            raise UsageError(f"max_restarts must be at least 0, not {self.max_restarts}")

    @property
    def silence_ns(self) -> int:
        """How long a running agent may be silent: twice its own interval unless set (seed 000's health rule)."""
        if self.heartbeat_timeout is not None:
            return to_ns(self.heartbeat_timeout)
        return 2 * max(self.min_delay_ns, 1)
