"""What model calls cost: a ceiling for the run, and totals by model, group and agent, in micro-units of money.

What a call may cost at most is set aside before it starts, and settled when it has ended. So a run never spends more
than its ceiling, however many calls are under way; only what nobody could foresee can push it over: a try that failed
and is billed all the same, or an endpoint that gives more tokens than it was asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from sim.errors import UsageError
from sim.llm.types import ModelError, TokenUsage
from sim.resources import MICRO


@attrs.frozen
class Bill:
    """What one request took, or what was sent of a call that nobody knows the requests of.

    Args:
        model: `provider:model`.
        usage: its tokens, or None if it took none.
        cost_micro: its cost.
        attempts: 1 for a request, 0 for what is no request that is known.
    """

    model: str
    usage: TokenUsage | None
    cost_micro: int
    attempts: int = 1


def total_usage(usages: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """Return the tokens of several requests together, or None if none took any."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    return TokenUsage(
        sum(usage.input_tokens for usage in known),
        sum(usage.output_tokens for usage in known),
        sum(usage.cached_tokens for usage in known),
        any(usage.estimated for usage in known),
    )


@attrs.define
class ModelUsage:
    """Calls of one kind, summed up. Money in micro-units.

    Attributes:
        calls: that were answered; of a chain of models by the last.
        failed: that were given up; of a chain of models by the last.
        attempts: requests that were sent for them.
        input_tokens, output_tokens, cached_tokens: of all of them.
        estimated: calls whose tokens the endpoint did not say.
        cost_micro: what they cost.
        most_micro: what they could have cost, had each made all its requests with the longest answer.
    """

    calls: int = 0
    failed: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: int = 0
    cost_micro: int = 0
    most_micro: int = 0

    def add(self, bills: Sequence[Bill], *, ended: bool = True, failed: bool = False, most_micro: int = 0) -> None:
        """Count one call, or the part of one that did not end here."""
        self.most_micro += most_micro if ended else 0
        self.calls += ended and not failed
        self.failed += ended and failed
        self.attempts += sum(bill.attempts for bill in bills)
        self.cost_micro += sum(bill.cost_micro for bill in bills)
        usage = total_usage(bill.usage for bill in bills)
        if usage is not None:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.estimated += usage.estimated


class FundsHold:
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
        self.total = ModelUsage()
        self.models: dict[str, ModelUsage] = {}
        self.groups: dict[str, ModelUsage] = {}
        self.agents: dict[str, ModelUsage] = {}
        self._held = 0

    @property
    def left_micro(self) -> int | None:
        """What may still be set aside; None without a ceiling."""
        return None if self.ceiling_micro is None else self.ceiling_micro - self.total.cost_micro - self._held

    def reserve(self, micro: int) -> FundsHold:
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
        return FundsHold(micro)

    def settle(
        self,
        held: FundsHold,
        *,
        agent: str,
        group: str,
        bills: Sequence[Bill],
        failed: bool = False,
        most_micro: int = 0,
    ) -> None:
        """Give back what was set aside, and count what the call did cost: each request under its own model.

        Args:
            held: what was set aside.
            agent: who called.
            group: of the agent.
            bills: of the requests, in order; the last is of the model that answered or was given up last.
            failed: whether no model answered.
            most_micro: what the call could have cost at most, with all its requests.
        """
        self.release(held)
        for tally in (
            self.total,
            self.groups.setdefault(group, ModelUsage()),
            self.agents.setdefault(agent, ModelUsage()),
        ):
            tally.add(bills, failed=failed, most_micro=most_micro)
        for model in dict.fromkeys(bill.model for bill in bills):
            parts = [bill for bill in bills if bill.model == model]
            tally = self.models.setdefault(model, ModelUsage())
            tally.add(parts, ended=model == bills[-1].model, failed=failed, most_micro=most_micro)

    def release(self, held: FundsHold) -> None:
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
