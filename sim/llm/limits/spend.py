"""The cost of model calls: a ceiling for the run, and totals by model, group and agent, in micro-units.

The highest possible cost of a call is reserved before it starts, and settled when it ends. So a run does not spend more
than its ceiling, however many calls are in flight. Two cases cannot be foreseen and can exceed it: a failed attempt
that is billed, and an endpoint that returns more tokens than requested. On islands, each can have a part.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from sim.base.errors import UsageError
from sim.kernel.codec import JsonObject
from sim.llm.types import ModelError, TokenUsage
from sim.resources import MICRO

_OF_RUN: Final = "the run's ceiling"


@attrs.frozen
class Bill:
    """The use of one request, or the input sent for a call whose requests are unknown.

    Args:
        model: `provider:model`.
        usage: its tokens, or None if it used none.
        cost_micro: its cost in micro-units.
        attempts: 1 for a request, 0 if no request is known.
    """

    model: str
    usage: TokenUsage | None
    cost_micro: int
    attempts: int = 1


def total_usage(usages: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """Return the sum of the tokens of several requests, or None if all used none."""
    used = [usage for usage in usages if usage is not None]
    if len(used) < 2:  # as of nearly all calls
        return used[0] if used else None
    return TokenUsage(
        sum(usage.input_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
        sum(usage.cached_tokens for usage in used),
        any(usage.estimated for usage in used),
        sum(usage.reasoning_tokens for usage in used),
    )


def total_bill(bills: Sequence[Bill]) -> Bill:
    """Return the sum of the bills of several requests, under the model of the last one."""
    last = bills[-1]
    if len(bills) == 1:  # as of nearly all calls
        return last
    return Bill(
        last.model,
        total_usage(bill.usage for bill in bills),
        sum(bill.cost_micro for bill in bills),
        sum(bill.attempts for bill in bills),
    )


@attrs.define
class ModelUsage:
    """Totals of one kind of calls. Money is in micro-units.

    Attributes:
        calls: answered calls; a call to a chain of models counts for the last model used.
        failed: failed calls; a call to a chain of models counts for the last model used.
        attempts: requests sent for these calls.
        input_tokens, output_tokens, cached_tokens: the sums over all requests.
        reasoning_tokens: the part of the output that went into reasoning, as far as endpoints report it.
        estimated: calls whose tokens the endpoint did not report.
        cost_micro: the cost.
        most_micro: the highest possible cost, if each call had made all its requests with the longest answer.
        most_tokens: the tokens of that.
    """

    calls: int = 0
    failed: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: int = 0
    cost_micro: int = 0
    most_micro: int = 0
    most_tokens: int = 0

    def add(
        self,
        total: Bill,
        *,
        ended: bool = True,
        failed: bool = False,
        most_micro: int = 0,
        most_tokens: int = 0,
    ) -> None:
        """Count one call, or (if not `ended`) the requests of a call that ended at another model.

        Args:
            total: the sum of the bills of these requests.
            ended: whether the call ended at these requests.
            failed: whether it failed.
            most_micro: the highest possible cost of the call, with all its requests.
            most_tokens: the tokens of that.
        """
        self.most_micro += most_micro if ended else 0
        self.most_tokens += most_tokens if ended else 0
        self.calls += ended and not failed
        self.failed += ended and failed
        self.attempts += total.attempts
        self.cost_micro += total.cost_micro
        usage = total.usage
        if usage is not None:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.reasoning_tokens += usage.reasoning_tokens
            self.estimated += usage.estimated


class FundsHold:
    """Money and tokens that are reserved for one call. They are settled once.

    Args:
        micro: the money in micro-units.
        tokens: the tokens.
        part: the ceiling of a part of the run from which they are reserved as well; None: there is none.
    """

    __slots__ = ("micro", "open", "part", "tokens")

    def __init__(self, micro: int, tokens: int = 0, part: "PartCeiling | None" = None) -> None:
        self.micro = micro
        self.tokens = tokens
        self.part = part
        self.open = True


class PartCeiling:
    """What a part of a run, such as an island, may spend of a ceiling.

    Args:
        name: the part, in words.
        micro: the most money in micro-units; None: unlimited.
        tokens: the most tokens; None: unlimited.
    """

    def __init__(self, name: str, micro: int | None, tokens: int | None) -> None:
        self._name = name
        self._micro, self._tokens = micro, tokens
        self._taken_micro = self._taken_tokens = 0  # spent, or reserved

    def check(self, micro: int, tokens: int) -> None:
        """Check that so much can still be reserved.

        Raises:
            ModelError: of kind `quota`, if it cannot.
        """
        _check_tokens(tokens, self._tokens, self._taken_tokens, f"the ceiling of {self._name}")
        _check_money(micro, self._micro, self._taken_micro, f"the ceiling of {self._name}")

    def take(self, micro: int, tokens: int) -> None:
        """Take money and tokens; negative numbers return them."""
        self._taken_micro += micro
        self._taken_tokens += tokens


def _check_tokens(wanted: int, most: int | None, taken: int, whose: str) -> None:
    if most is not None and wanted > most - taken:
        raise ModelError(
            "quota",
            f"the call may take {wanted:,} tokens, and {whose} leaves {most - taken:,} of {most:,}",
            hint="raise models.ceiling.tokens, or lower max_tokens",
        )


def _check_money(wanted: int, most: int | None, taken: int, whose: str) -> None:
    if most is not None and wanted > most - taken:
        raise ModelError(
            "quota",
            f"the call may cost {wanted / MICRO:g}, and {whose} leaves {(most - taken) / MICRO:g} of {most / MICRO:g}",
            hint="raise models.ceiling, or lower max_tokens",
        )


class Spend:
    """The money of one run.

    Args:
        ceiling_micro: the most that the run can spend on models; None: unlimited.
        ceiling_tokens: the most tokens that it can use, input and output together; None: unlimited.
        parts: by part of the run, such as an island, the part of these ceilings that its agents spend. Calls of a part
            that is not named go by the whole alone.

    Attributes:
        total: the totals of all calls.
        saved_micro: what calls cost less because batches answered them. No other number counts it.
        models, groups, agents: the totals by model (`provider:model`), group and agent.
    """

    def __init__(
        self,
        ceiling_micro: int | None = None,
        ceiling_tokens: int | None = None,
        parts: Mapping[str, PartCeiling] = MappingProxyType({}),
    ) -> None:
        if ceiling_micro is not None and ceiling_micro < 0:
            raise UsageError(f"the ceiling must be at least 0 micro-units, not {ceiling_micro}")
        if ceiling_tokens is not None and ceiling_tokens < 0:
            raise UsageError(f"the ceiling must be at least 0 tokens, not {ceiling_tokens}")
        self.ceiling_micro = ceiling_micro
        self.ceiling_tokens = ceiling_tokens
        self.total = ModelUsage()
        self.saved_micro = 0
        self.models: dict[str, ModelUsage] = {}
        self.groups: dict[str, ModelUsage] = {}
        self.agents: dict[str, ModelUsage] = {}
        self._held = 0
        self._held_tokens = 0
        self._parts = parts

    @property
    def left_micro(self) -> int | None:
        """The money that can still be reserved; None without a ceiling."""
        return None if self.ceiling_micro is None else self.ceiling_micro - self.total.cost_micro - self._held

    def reserve(self, micro: int, tokens: int = 0, part: str = "") -> FundsHold:
        """Reserve the highest possible cost of a call, and its most tokens.

        Args:
            micro: the cost in micro-units.
            tokens: the tokens.
            part: the part of the run in which the caller is.

        Raises:
            ModelError: of kind `quota`, if the rest of a ceiling is too small.
        """
        own = self._parts.get(part)
        if own is None:
            used = self.total.input_tokens + self.total.output_tokens + self._held_tokens
            _check_tokens(tokens, self.ceiling_tokens, used, _OF_RUN)
            _check_money(micro, self.ceiling_micro, self.total.cost_micro + self._held, _OF_RUN)
        else:
            own.check(micro, tokens)
            own.take(micro, tokens)
        self._held += micro
        self._held_tokens += tokens
        return FundsHold(micro, tokens, own)

    def settle(
        self,
        held: FundsHold,
        *,
        agent: str,
        group: str,
        bills: Sequence[Bill],
        failed: bool = False,
        most_micro: int = 0,
        most_tokens: int = 0,
    ) -> None:
        """Release the reserved money, and count the actual cost, each request under its own model.

        Args:
            held: the reserved money.
            agent: the caller.
            group: the group of the caller.
            bills: the bills of the requests, in order; the last is of the model that answered or failed last.
            failed: whether no model answered.
            most_micro: the highest possible cost of the call, with all its requests.
            most_tokens: the tokens of that.
        """
        self.release(held)
        total = total_bill(bills)
        if held.part is not None:
            usage = total.usage
            held.part.take(total.cost_micro, 0 if usage is None else usage.input_tokens + usage.output_tokens)
        for tally in (self.total, _tally(self.groups, group), _tally(self.agents, agent)):
            tally.add(total, failed=failed, most_micro=most_micro, most_tokens=most_tokens)
        for model in dict.fromkeys(bill.model for bill in bills):
            _tally(self.models, model).add(
                total_bill([bill for bill in bills if bill.model == model]),
                ended=model == total.model, failed=failed, most_micro=most_micro, most_tokens=most_tokens,
            )  # fmt: skip

    def release(self, held: FundsHold) -> None:
        """Release the reserved money of a call.

        Raises:
            UsageError: if it was released before.
        """
        if not held.open:
            raise UsageError("the money reserved for a model call was released twice")
        held.open = False
        self._held -= held.micro
        self._held_tokens -= held.tokens
        if held.part is not None:
            held.part.take(-held.micro, -held.tokens)

    def summary(self) -> JsonObject:
        """Return the totals, JSON-like: `total`, and by model and group in alphabetical order."""
        return {
            "total": attrs.asdict(self.total),
            "models": {name: attrs.asdict(tally) for name, tally in sorted(self.models.items())},
            "groups": {name: attrs.asdict(tally) for name, tally in sorted(self.groups.items())},
        }


def _tally(tallies: dict[str, ModelUsage], name: str) -> ModelUsage:
    """Return the totals of a name, begun if there are none."""
    tally = tallies.get(name)
    if tally is None:
        tally = tallies[name] = ModelUsage()
    return tally
