"""The router: maps use cases and tiers to a chain of models, the preferred model first.

A *tier* is a named chain of models (`small`, `large`). A *use* is the purpose of a call (`agent`, `summary`, `judge`).
Agents and groups can have their own choices. The client executes the fallback to the next model of a chain. This module
defines after which errors it happens (`steps_down`), and the recorded reason (`step_down`).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Self

import attrs

from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.llm.access import INSIDE, Access
from sim.llm.prices import Prices
from sim.llm.types import ErrorClass, ModelError, ModelRequest

ANY = "*"
"""Matches every use, in the choices of an agent or a group."""

Choices = Mapping[str, Mapping[str, str]]
"""By agent or group: maps a use, or `*`, to a tier or a model (`PROVIDER:NAME`)."""

# Errors that another model of the chain does not solve. The request itself is invalid. It is too long: the router has
# already compared the context windows, so the caller must shorten it. Or its content is refused: a fallback must not
# search for a model that accepts it.
_FINAL: tuple[ErrorClass, ...] = ("bad_request", "context_length", "content")


@attrs.frozen
class Target:
    """One model of one provider."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `PROVIDER:NAME`. The name can contain colons.

        Raises:
            UsageError: if the provider or the name is missing.
        """
        provider, _, model = text.partition(":")
        if not provider or not model:
            raise UsageError(f"a model must be PROVIDER:NAME, not {text!r}", hint="for example openai:gpt-4o-mini")
        return cls(provider, model)

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


@attrs.frozen
class Route:
    """The models for a call.

    Attributes:
        targets: the models to try, in order; at least one.
        tier: their tier, or empty for a single named model.
        why: the source of the choice: `agent`, `group`, `request`, `use` or `default`.
        skipped: the reasons why models of the chain were left out.
    """

    targets: tuple[Target, ...]
    tier: str
    why: str
    skipped: tuple[str, ...] = ()


class Router:
    """Selects the models for a call.

    A choice for one use precedes a choice for all uses, and a choice for an agent precedes one for its group. The order
    is: agent and use; group and use; the tier of the request; agent; group; use; default.

    Args:
        tiers: the chain of models of each tier, the preferred model first.
        default: the tier of calls without any choice.
        uses: a tier, or a model, by use.
        agents: the same for single agents, and `*` for all their uses.
        groups: the same for groups of agents.
        prices: gives the context window of each model.

    Attributes:
        tiers: as given.

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
                raise UsageError(f"the tier {name!r} has no model", hint="add at least one as PROVIDER:NAME")
        self.tiers = {name: tuple(chain) for name, chain in tiers.items()}
        self._default = default
        self._uses = dict(uses)
        self._agents = agents
        self._groups = groups
        self._prices = prices or Prices.shipped()
        for choices in (uses, *agents.values(), *groups.values(), {ANY: default}):
            for choice in choices.values():
                self._chain(choice)

    def route(self, agent: str, group: str, request: ModelRequest, tokens: int = 0) -> Route:
        """Return the models for a call.

        Models whose context window is known to be too small are left out. If all are too small, the one with the
        largest window remains.

        Args:
            agent: the calling agent.
            group: the group of the agent.
            request: the request; its use and its tier matter.
            tokens: an estimate of the most tokens that it takes, input and output together.

        Raises:
            UsageError: if the request asks for a tier that is not defined.
        """
        choice, why = self._choose(agent, group, request)
        tier, chain = self._chain(choice)
        targets, skipped = self._fitting(chain, tokens)
        return Route(targets, tier, why, skipped)

    def _choose(self, agent: str, group: str, request: ModelRequest) -> tuple[str, str]:
        of_agent, of_group = self._agents.get(agent), self._groups.get(group)
        if of_agent is None and of_group is None and request.tier is None:  # as nearly all calls
            choice = self._uses.get(request.use)
            return (self._default, "default") if choice is None else (choice, "use")
        of_agent, of_group = of_agent or {}, of_group or {}
        choices = (
            (of_agent.get(request.use), "agent"),
            (of_group.get(request.use), "group"),
            (request.tier, "request"),
            (of_agent.get(ANY), "agent"),
            (of_group.get(ANY), "group"),
            (self._uses.get(request.use), "use"),
        )
        return next(((choice, why) for choice, why in choices if choice is not None), (self._default, "default"))

    def _chain(self, choice: str) -> tuple[str, tuple[Target, ...]]:
        """Return the tier and the models for a tier name or `PROVIDER:NAME`."""
        if choice in self.tiers:
            return choice, self.tiers[choice]
        if ":" in choice:
            return "", (Target.parse(choice),)
        hint = did_you_mean(choice, self.tiers) or f"known tiers: {', '.join(self.tiers)}"
        raise UsageError(f"unknown tier {choice!r}", hint=hint)

    def _fitting(self, chain: tuple[Target, ...], tokens: int) -> tuple[tuple[Target, ...], tuple[str, ...]]:
        windows = {target: self._window(target) for target in chain}
        if all(window is None or tokens <= window for window in windows.values()):
            return chain, ()
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


def targets_of(access: Access) -> tuple[Target, ...]:
    """Return the models at endpoints, without duplicates."""
    chains = access.chains().values()
    named = (Target(provider, model) for chain in chains for provider, model in chain if provider not in INSIDE)
    return tuple(dict.fromkeys(named))


def steps_down(kind: ErrorClass) -> bool:
    """Whether the next model of a chain can be tried after this kind of error."""
    return kind not in _FINAL


def step_down(here: Target, there: Target, error: ModelError, tries: int) -> str:
    """Return the recorded text of a fallback: both models, the error, and the number of attempts."""
    times = "1 try" if tries == 1 else f"{tries} tries"
    return f"{here} → {there}: {error.kind} after {times}"
