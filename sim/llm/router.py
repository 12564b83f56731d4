"""Which model answers what: use cases and tiers → a chain of models, the first preferred.

A *tier* is a chain of models under a name (`small`, `large`); a *use* (`agent`, `summary`, `judge`) is what a call is
for. Seed 000 sorts its calls into tiers, seed 001 names use cases (`use_case: :summaries`), seed 002 lets a persona
override the default model and falls back along a chain. Steps down the chain are the client's to take: this module says
after which errors (`steps_down`) and words the reason (`step_down`).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

import attrs

from sim.errors import UsageError
from sim.expressions import did_you_mean
from sim.llm.prices import Prices
from sim.llm.types import ErrorClass, ModelError, ModelRequest

ANY = "*"
"""Stands for every use, in what is set for an agent or a group."""

Choices = Mapping[str, Mapping[str, str]]
"""For an agent or group: use, or `*`, → a tier or a model (`PROVIDER:NAME`)."""

# What another model of the chain would not mend: the request itself is refused, it is too long (the router has looked
# at the windows already, so now the caller has to shorten it), or what it asks for is not answered: shopping for a
# model that does is not a fallback.
_FINAL: tuple[ErrorClass, ...] = ("bad_request", "context_length", "content")


@attrs.frozen
class Target:
    """One model of one provider."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the target that `PROVIDER:NAME` names; the name may contain colons.

        Raises:
            UsageError: if one of the two is missing.
        """
        provider, _, model = text.partition(":")
        if not provider or not model:
            raise UsageError(f"a model is named PROVIDER:NAME, not {text!r}", hint="for instance openai:gpt-4o-mini")
        return cls(provider, model)

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


@attrs.frozen
class Route:
    """Where a call goes.

    Attributes:
        targets: the models to try, in order; at least one.
        tier: the tier they come from, or empty if a single model was named.
        why: what decided: `agent`, `group`, `request`, `use` or `default`.
        skipped: why models of the chain were left out from the start.
    """

    targets: tuple[Target, ...]
    tier: str
    why: str
    skipped: tuple[str, ...] = ()


class Router:
    """Finds the models for a call.

    What is said of one use goes before what is said of all, and what is said of an agent before what is said of its
    group: agent and use; group and use; the tier that the request asks for; agent; group; use; default.

    Args:
        tiers: chain of models by name of the tier, the preferred first.
        default: the tier of what is said nothing about.
        uses: a tier, or a model, by use.
        agents: the same for single agents, and `*` for all their uses.
        groups: the same for groups of agents.
        prices: knows how much each model can read at once.

    Raises:
        UsageError: if a tier is empty or not defined, or a model is not named PROVIDER:NAME.
    """

    def __init__(
        self,
        tiers: Mapping[str, Sequence[Target]],
        *,
        default: str,
        uses: Mapping[str, str] = MappingProxyType({}),
        agents: Choices = MappingProxyType({}),
        groups: Choices = MappingProxyType({}),
        prices: Prices | None = None,
    ) -> None:
        for name, chain in tiers.items():
            if not chain:
                raise UsageError(f"the tier {name!r} has no model", hint="name at least one as PROVIDER:NAME")
        self._tiers = {name: tuple(chain) for name, chain in tiers.items()}
        self._default = default
        self._uses = dict(uses)
        self._agents = agents
        self._groups = groups
        self._prices = prices or Prices.shipped()
        for choices in (uses, *agents.values(), *groups.values(), {ANY: default}):
            for choice in choices.values():
                self._chain(choice)

    def route(self, agent: str, group: str, request: ModelRequest, input_tokens: int = 0) -> Route:
        """Return where a call goes.

        Models whose window is known to be too small are left out; if it is for all, the one with the largest remains.

        Args:
            agent: who asks.
            group: the group of who asks.
            request: what is asked: its use, its tier and how long an answer it allows.
            input_tokens: an estimate of its length.

        Raises:
            UsageError: if the request asks for a tier that is not defined.
        """
        choice, why = self._choose(agent, group, request)
        tier, chain = self._chain(choice)
        targets, skipped = self._fitting(chain, input_tokens + (request.sampling.max_tokens or 0))
        return Route(targets, tier, why, skipped)

    def _choose(self, agent: str, group: str, request: ModelRequest) -> tuple[str, str]:
        of_agent, of_group = self._agents.get(agent, {}), self._groups.get(group, {})
        found = (
            (of_agent.get(request.use), "agent"),
            (of_group.get(request.use), "group"),
            (request.tier, "request"),
            (of_agent.get(ANY), "agent"),
            (of_group.get(ANY), "group"),
            (self._uses.get(request.use), "use"),
        )
        return next(((choice, why) for choice, why in found if choice is not None), (self._default, "default"))

    def _chain(self, choice: str) -> tuple[str, tuple[Target, ...]]:
        """Return the tier and the models that a tier or `PROVIDER:NAME` stands for."""
        if choice in self._tiers:
            return choice, self._tiers[choice]
        if ":" in choice:
            return "", (Target.parse(choice),)
        hint = did_you_mean(choice, self._tiers) or f"there are: {', '.join(self._tiers)}"
        raise UsageError(f"there is no tier {choice!r}", hint=hint)

    def _fitting(self, chain: tuple[Target, ...], tokens: int) -> tuple[tuple[Target, ...], tuple[str, ...]]:
        windows = {target: self._window(target) for target in chain}
        fit = [target for target in chain if (window := windows[target]) is None or tokens <= window]
        kept = fit or [max(chain, key=lambda target: windows[target] or 0)]
        skipped = [
            f"{target}: {tokens} tokens are more than its window of {windows[target]}"
            for target in chain
            if target not in kept
        ]
        return tuple(kept), tuple(skipped)

    def _window(self, target: Target) -> int | None:
        price = self._prices.find(target.model)
        return None if price is None else price.context


def steps_down(kind: ErrorClass) -> bool:
    """Whether the next model of a chain may be tried after a model was given up with this kind of error."""
    return kind not in _FINAL


def step_down(here: Target, there: Target, error: ModelError, tries: int) -> str:
    """Return the reason for a step down a chain, for the record: from where, to where, why, after how much."""
    times = "1 try" if tries == 1 else f"{tries} tries"
    return f"{here} → {there}: {error.kind} after {times}"
