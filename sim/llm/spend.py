"""What model calls cost: a ceiling for the run, and totals by model, group and agent, in micro-units of money.

What a call may cost at most is set aside before it starts, and settled when it has ended. So a run never spends more
than its ceiling, however many calls are under way; only what nobody could foresee can push it over: a try that failed
and is billed all the same, or an endpoint that gives more tokens than it was asked for.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from sim.errors import UsageError
from sim.llm.port import ModelError, Usage
from sim.resources import MICRO


@attrs.define
class Tally:
    """Calls of one kind, summed up. Money in micro-units.

    Attributes:
        calls: that were answered.
        failed: that were given up.
        attempts: requests that were sent for them.
        input_tokens, output_tokens, cached_tokens: of all of them.
        estimated: calls whose tokens the endpoint did not say.
        cost_micro: what they cost.
    """

    calls: int = 0
    failed: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: int = 0
    cost_micro: int = 0

    def add(self, usage: Usage | None, cost_micro: int, attempts: int, *, failed: bool = False) -> None:
        """Count one call."""
        self.calls += not failed
        self.failed += failed
        self.attempts += attempts
        self.cost_micro += cost_micro
        if usage is not None:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.estimated += usage.estimated


class Held:
    """Money that was set aside for one call; settled once."""

    __slots__ = ("micro", "open")

    def __init__(self, micro: int) -> None:
        self.micro = micro
        self.open = True


class Spend:
    """The money of one run.

    Args:
        ceiling_micro: what the run may spend on models; None is without bound.

    Attributes:
        total: all calls.
        models, groups, agents: the same by model (`provider:model`), group and agent.
    """

    def __init__(self, ceiling_micro: int | None = None) -> None:
        if ceiling_micro is not None and ceiling_micro < 0:
            raise UsageError(f"a ceiling must not be below 0, as {ceiling_micro} is")
        self.ceiling_micro = ceiling_micro
        self.total = Tally()
        self.models: dict[str, Tally] = {}
        self.groups: dict[str, Tally] = {}
        self.agents: dict[str, Tally] = {}
        self._held = 0

    @property
    def left_micro(self) -> int | None:
        """What may still be set aside; None without a ceiling."""
        return None if self.ceiling_micro is None else self.ceiling_micro - self.total.cost_micro - self._held

    def reserve(self, micro: int) -> Held:
        """Set aside what a call may cost at most.

        Raises:
            ModelError: of kind `quota`, if the ceiling does not leave as much.
        """
        left = self.left_micro
        if left is not None and micro > left:
            rest = f"{left / MICRO:g} of {(self.ceiling_micro or 0) / MICRO:g}"
            raise ModelError(
                "quota",
                f"the call may cost {micro / MICRO:g}, and the run's ceiling leaves {rest}",
                hint="raise models.ceiling, or lower max_tokens",
            )
        self._held += micro
        return Held(micro)

    def settle(
        self,
        held: Held,
        *,
        agent: str,
        group: str,
        model: str,
        usage: Usage | None,
        cost_micro: int,
        attempts: int,
        failed: bool = False,
    ) -> None:
        """Give back what was set aside, and count what the call did cost."""
        self.release(held)
        for tally in (
            self.total,
            self.models.setdefault(model, Tally()),
            self.groups.setdefault(group, Tally()),
            self.agents.setdefault(agent, Tally()),
        ):
            tally.add(usage, cost_micro, attempts, failed=failed)

    def release(self, held: Held) -> None:
        """Give back what was set aside: the call did not happen.

        Raises:
            UsageError: if it was given back before.
        """
        if not held.open:
            raise UsageError("what was set aside for a model call was given back twice")
        held.open = False
        self._held -= held.micro

    def summary(self) -> Mapping[str, Any]:
        """Return the totals, JSON-like: `total`, and by model and group in order of name."""
        return {
            "total": attrs.asdict(self.total),
            "models": {name: attrs.asdict(tally) for name, tally in sorted(self.models.items())},
            "groups": {name: attrs.asdict(tally) for name, tally in sorted(self.groups.items())},
        }
