"""Builds the service of language models from `models` of a scenario and the access of the operator."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sim.agents import Toolbox
from sim.agents.ask import Ask
from sim.base.errors import UsageError
from sim.base.expressions import did_you_mean
from sim.base.extras import need
from sim.kernel import to_seconds
from sim.kernel.codec import JsonObject
from sim.llm.access import INSIDE, Access
from sim.llm.behaviour import Draw
from sim.llm.capabilities import DECLARED
from sim.llm.client import Client, make_endpoint
from sim.llm.divided_client import DividedClient
from sim.llm.limits.governor import Limits
from sim.llm.limits.retry import RetryPolicy
from sim.llm.limits.spend import PartCeiling, Spend
from sim.llm.needs import Need
from sim.llm.prices import Price, Prices, read_price
from sim.llm.router import Router, Target
from sim.llm.service import Models, OutsideClient
from sim.llm.service_time import ServiceTime
from sim.llm.sim_clock import CoreClock
from sim.llm.types import ClientClock, Completion, ModelRequest, Observer, Provider, ToolSpec
from sim.resources import to_micro
from sim.scenario import models as schema
from sim.world import World

if TYPE_CHECKING:
    from sim.kernel.ports import Background
    from sim.llm.batches.place import Place
    from sim.scenario.schema import Scenario

_ONLY = "default"
"""The only tier of a scenario that names none."""


def set_up_models(
    world: World,
    models: schema.Models,
    toolbox: Toolbox,
    access: Access,
    time: ServiceTime | None = None,
    *,
    island_of: Callable[[str], str | None] | None = None,
) -> Models:
    """Add language models to a world, and the action `ask` for its agents.

    Args:
        world: the world.
        models: `models` of the scenario.
        toolbox: the functions of scripted rules.
        access: the access of the operator, which overrides the scenario.
        time: the time axis of `simulated` models; None: simulated time of the world.
        island_of: returns the island of an agent; None: the world has no islands.

    Raises:
        UsageError: if the operator names a provider or tier that does not exist.
    """
    prices = prices_of(models)
    policy = _policy(models)
    clock = CoreClock(world.kernel)
    providers = _providers(world, models, toolbox, time)

    def make_core() -> Client:
        endpoints = {
            provider.name: make_endpoint(
                clock,
                _wrap(models, provider, clock),
                _limits(models) if provider.name == "simulated" else None,
                written_calls=provider.name in _writing(models),
            )
            for provider in providers
        }
        return Client(clock, endpoints, policy, cost=prices.cost)

    world.actions.register(Ask({name: _tool(name, tool) for name, tool in models.tools.items()}).handler())
    service = Models(
        world,
        router=_router(models, access, prices),
        core=make_core() if island_of is None else DividedClient(island_of, make_core),
        edge=_edge(models, access, policy, prices, lambda: Models.of(world)),
        prices=prices,
        spend=_spend(models.ceiling),
        access=access,
        max_tokens=models.max_tokens,
        requests=policy.requests,
        latency=latency_of(models),
        aside=_aside(world, models, toolbox),
    )
    if island_of is not None:
        service.part_of = lambda agent_id: island_of(agent_id) or ""
    return service


def prices_of(models: schema.Models) -> Prices:
    """Return the prices of a scenario: its own, and the list of the package for other models."""
    return Prices.shipped().updated({name: _price(price) for name, price in models.priced.items()})


def _spend(ceiling: schema.Ceiling | None) -> Spend:
    if ceiling is None:
        return Spend()
    parts: dict[str, PartCeiling] = {}
    if ceiling.shares is not None:
        from sim.scenario.island_ceiling import ceilings_of  # only scenarios with islands need it

        parts = {one: PartCeiling(f"the island {one}", *most) for one, most in ceilings_of(ceiling).items()}
    return Spend(None if ceiling.money is None else to_micro(ceiling.money), ceiling.tokens, parts)


def latency_of(models: schema.Models) -> Draw | None:
    """Return the modelled latency of calls to endpoints; None if it is measured."""
    return None if models.latency is None else models.latency.made()


def check_latency(scenario: "Scenario", *, outside: bool) -> None:
    """Check that calls to endpoints take a time in simulated time, if the scenario has islands.

    Args:
        scenario: the scenario; its check compares the latency with that of the islands.
        outside: whether a model is at an endpoint.

    Raises:
        UsageError: if their latency is measured.
    """
    if outside and "islands" in scenario.sections and scenario.models is not None and scenario.models.latency is None:
        raise UsageError(
            "with islands, calls to endpoints need a latency in simulated time, of at least that of the islands:"
            " if it is measured, what agents are answered depends on all islands",
            hint="add `latency` to `models` of the scenario, or use --set models.latency=30s",
        )


def check_models(models: schema.Models, access: Access) -> None:
    """Check that the operator's models match those of a scenario.

    Raises:
        UsageError: as `set_up_models`.
    """
    _router(models, access, Prices.shipped())


def check_batching(models: schema.Models, access: Access, speed: float | None) -> None:
    """Check that the calls of a run can be answered in batches, if the operator has asked for it.

    Args:
        models: `models` of the scenario.
        access: the access of the operator.
        speed: simulated seconds per real second; None jumps from event to event.

    Raises:
        UsageError: if the latency of calls is measured, the clock is the wall clock, or failures are injected.
    """
    if not access.batching or not access.outside:
        return
    if models.latency is None:
        raise UsageError(
            "calls in batches take hours, so they need a latency in simulated time, and the scenario has none",
            hint="add `latency: 2s` to `models` of the scenario, or use --set models.latency=2s",
        )
    if speed is not None:
        raise UsageError(
            "calls in batches take hours, so a run with them cannot follow the wall clock",
            hint="run it with --clock virtual, or without --batch",
        )
    if models.faults:
        raise UsageError(
            "models.faults cannot be injected into calls in batches", hint="turn them off: --set models.faults=[]"
        )


def change_models(service: Models, models: schema.Models, access: Access) -> None:
    """Change the models of a running world to those of the operator.

    Args:
        service: the models of the world.
        models: `models` of the scenario.
        access: the access of the operator.

    Raises:
        UsageError: as `set_up_models`.
    """
    prices = prices_of(models)
    edge = _edge(models, access, _policy(models), prices, lambda: service)
    service.change(_router(models, access, prices), edge, access)


def _policy(models: schema.Models) -> RetryPolicy:
    return RetryPolicy(
        requests=models.retry.requests,
        timeout=to_seconds(models.retry.timeout),
        deadline=to_seconds(models.retry.deadline),
    )


class _OnFirstCall:
    """A provider of the core that is imported and created at its first call: most runs use only one of them."""

    def __init__(self, name: str, make: Callable[[], Provider]) -> None:
        self.name = name
        self._make = make
        self._provider: Provider | None = None

    async def complete(self, model: str, request: ModelRequest, observe: Observer | None = None, /) -> Completion:
        """Forward the request to the provider."""
        if self._provider is None:
            self._provider = self._make()
        return await self._provider.complete(model, request, observe)


def _providers(world: World, models: schema.Models, toolbox: Toolbox, time: ServiceTime | None) -> tuple[Provider, ...]:
    """Return the providers of the core: `simulated` answers with the text of `scripted`, if there are rules."""

    def make_simulated() -> Provider:
        from sim.llm.providers.server import ModelServer
        from sim.llm.providers.simulated import Simulated

        spec = models.simulated.server
        return Simulated(
            world.kernel,
            models.simulated.profile(),
            scripted if models.rules else None,
            server=None if spec is None else ModelServer(world.kernel if time is None else time.kernel, spec.made()),
            priority=None if time is None else lambda agent: world.now,  # agents that are furthest behind go first
            time=time,
        )

    scripted = _scripted(world, models, toolbox)
    return scripted, _OnFirstCall("simulated", make_simulated)


def _scripted(world: World, models: schema.Models, toolbox: Toolbox) -> Provider:
    rules = [rule.made(number) for number, rule in enumerate(models.rules)]
    prices = prices_of(models)

    def make() -> Provider:
        from sim.llm.providers.scripted import Scripted

        return Scripted(world, rules, toolbox.used_by, lambda model: _window(models, prices, model))

    return _OnFirstCall("scripted", make)


def _window(models: schema.Models, prices: Prices, model: str) -> int | None:
    """Return the context window that a scenario declares for a model, or that of the price list."""
    price, server = prices.find(model), models.simulated.server
    windows = (None if price is None else price.context, None if server is None else server.context)
    return min((window for window in windows if window is not None), default=None)


def _aside(world: World, models: schema.Models, toolbox: Toolbox) -> Mapping[str, Provider]:
    """Return the providers that answer interviews in the core, at once and by themselves."""

    def make_filler() -> Provider:
        from sim.llm.providers.simulated import Filler

        return Filler(world.kernel)

    scripted = _scripted(world, models, toolbox)
    return {
        "scripted": scripted,
        "simulated": scripted if models.rules else _OnFirstCall("simulated", make_filler),
    }


def _limits(models: schema.Models) -> Limits:
    """Return the limits of a simulated server; a real endpoint reports them in its headers."""
    server = models.simulated.server
    return Limits() if server is None else Limits(server.requests_per_minute, server.tokens_per_minute)


def _wrap(models: schema.Models, provider: Provider, clock: ClientClock) -> Provider:
    if not models.faults:
        return provider
    from sim.llm.providers.fault_injection import Faulty

    return Faulty(provider, [fault.made() for fault in models.faults], clock)


def _place(service: Models) -> "Place":
    assert service.place is not None, "calls are made in a run"
    return service.place


def _background(service: Models) -> "Background":
    assert service.background is not None, "calls are made in a run"
    return service.background


def _edge(
    models: schema.Models, access: Access, policy: RetryPolicy, prices: Prices, service: Callable[[], Models]
) -> Callable[[], OutsideClient] | None:
    """Return a function that creates the client of endpoints; it imports their libraries."""
    if not access.outside:
        return None

    def make() -> OutsideClient:
        need("models", "models at an endpoint need")
        from sim.llm.endpoint import EdgeClient
        from sim.llm.tokens import exact

        first = next(model for chain in access.chains().values() for provider, model in chain if provider not in INSIDE)
        workers = None
        if access.edge_workers:
            from sim.llm.workers.pool import edge_workers  # only for those who ask for it

            workers = edge_workers(access, policy.timeout, first, lambda: _background(service()))
        return EdgeClient(
            access,
            policy=policy,
            tokenizer=exact(first),
            cost=prices.cost,
            wrap=lambda provider, clock: _wrap(models, provider, clock),
            place=lambda: _place(service()),
            written_calls=_writing(models),
            declared=declared_by(models),
            workers=workers,
        )

    return make


def declared_by(models: schema.Models) -> dict[str, dict[Need, bool]]:
    """Return by provider what the scenario says that its models can do."""
    return {
        name: {need: can for need, key in DECLARED.items() if (can := getattr(endpoint, key)) is not None}
        for name, endpoint in models.endpoints.items()
    }


def _writing(models: schema.Models) -> frozenset[str]:
    """Return the providers whose models may write tool calls as text."""
    return frozenset(name for name, endpoint in models.endpoints.items() if endpoint.tool_calls == "text")


def _router(models: schema.Models, access: Access, prices: Prices) -> Router:
    tiers = {
        name: tuple(Target(models.provider, model) for model in chain) for name, chain in models.tiers.items()
    } or {_ONLY: (Target(models.provider, models.provider),)}
    chosen = {
        tier: tuple(Target(provider, model) for provider, model in chain) for tier, chain in access.chains().items()
    }
    everywhere = chosen.pop("*", None)
    if everywhere is not None:
        tiers = dict.fromkeys(tiers, everywhere)
    for tier, chain in chosen.items():
        if tier not in tiers:
            hint = did_you_mean(tier, tiers) or f"there are: {', '.join(tiers)}"
            raise UsageError(f"--model names the tier {tier[:80]!r}, which the scenario does not have", hint=hint)
        tiers[tier] = chain
    for chain in tiers.values():
        if len({target.provider in INSIDE for target in chain}) > 1:
            raise UsageError(f"a chain must be all offline or all at endpoints, not {', '.join(map(str, chain))}")
    default = models.default or next(iter(tiers))
    return Router(tiers, default=default, uses=models.uses, agents=models.agents, groups=models.agents, prices=prices)


def _price(price: schema.ModelPrice) -> Price:
    """Return a price in micro-units per million tokens."""
    entry: dict[str, int | None] = {"input": to_micro(price.input), "output": to_micro(price.output)}
    if price.cached is not None:
        entry["cached"] = to_micro(price.cached)
    return read_price({**entry, "context": price.context})


def _tool(name: str, tool: schema.Tool) -> ToolSpec:
    required = [parameter for parameter in tool.parameters if parameter not in tool.optional]
    parameters: JsonObject = {
        "type": "object", "properties": tool.parameters, "required": required, "additionalProperties": False,
    }  # fmt: skip
    return ToolSpec(name, tool.description, parameters)
