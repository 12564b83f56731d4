"""The language models of a world: the service that an agent's code calls.

    answer = await Models.of(self.world).complete(self, request)

A call is routed to a chain of models and waits for the limits of the scenario (`llm_calls`, `llm_tokens`, `llm_cost`).
The providers `scripted` and `simulated` answer it in the core, in simulated time. An endpoint (`openai`) answers it in
one effect of measured or modelled latency; the core sees all attempts when the effect ends. Each call is recorded as
events, and its cost is settled.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

import attrs

from sim.actors import Agent, PauseReason
from sim.base.errors import Cancelled, LimitError, UsageError
from sim.kernel import NS, Effect, to_seconds
from sim.kernel.codec import Json, JsonObject, freeze
from sim.kernel.effects import EffectHandle, perform_handle
from sim.kernel.ports import Background
from sim.llm.access import INSIDE, Access
from sim.llm.behaviour import Draw
from sim.llm.capabilities import Capabilities
from sim.llm.client import Endpoint
from sim.llm.counts import Counts, Ending
from sim.llm.defaults import MAX_TOKENS
from sim.llm.embeddings import MOST_NUMBERS, MOST_TEXTS
from sim.llm.events import ModelAttempted, ModelCalled
from sim.llm.limits.retry import MOST_REQUESTS
from sim.llm.limits.spend import Bill, FundsHold, Spend, total_bill
from sim.llm.needs import lacking_in, needs_of
from sim.llm.people import PERSON, People
from sim.llm.prices import Prices
from sim.llm.reading import read
from sim.llm.router import Route, Router, Target, steps_down
from sim.llm.serialization import (
    answer_from_json,
    answer_to_json,
    attempt_to_json,
    error_from_json,
    error_to_json,
    request_from_json,
    request_to_json,
    usage_to_json,
)
from sim.llm.shared_answers import SharedAnswers
from sim.llm.tokens import APPROXIMATE, CAUTIOUS, Tokenizer, count_answer, count_request
from sim.llm.types import (
    Answer,
    Attempt,
    Delta,
    ModelError,
    ModelRequest,
    Observer,
    Provider,
    RuleFault,
    Sampling,
    TokenUsage,
    varied,
)
from sim.resources import MICRO, Budgets, Earmark, Reservation
from sim.world import Service, Warned, World

if TYPE_CHECKING:
    from sim.llm.batches.place import Place, Waiting
    from sim.llm.workers.pool import WorkerFigures

CALLS, TOKENS, COST = "llm_calls", "llm_tokens", "llm_cost"
"""The names by which a scenario can limit calls: as rate limits (the first two) or as budgets (all three)."""

_SURVEY = "survey:"  # before the name of an agent that answers a survey
_LONGEST = 4 * 3600.0  # real seconds; a small endpoint has a long queue, and each request has its own deadline
_LONGEST_IN_BATCHES = 10 * 366 * 86400.0  # real seconds; each batch has its own limit
_LONGEST_LATENCY = 366 * 86400.0  # simulated seconds: some distributions have no upper bound


class Caller(Protocol):
    """The caller of a model, usually an agent."""

    agent_id: str
    group: str


class Client(Protocol):
    """A client that sends requests: it retries, waits for the limits of the endpoint, and uses fallbacks."""

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """The endpoints, by name of the provider."""

    async def complete(
        self, chain: Sequence[Target], request: ModelRequest, /, *, agent: str, observe: Observer | None = None
    ) -> Answer:
        """Return the answer of the first model in the chain that answers."""


@attrs.define
class Interviewer:
    """The caller of the calls in which a model speaks for an agent that does not notice it."""

    agent_id: str
    group: str = "survey"


class OutsideClient(Client, Protocol):
    """A client of endpoints. It has connections that must be closed.

    Attributes:
        ended: the requests that have ended, by outcome, also of calls under way.
    """

    ended: dict[str, int]

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the models at endpoints; what endpoints say is known after `prepare`."""

    async def prepare(self) -> None:
        """Import what is needed and check that the endpoint can be reached."""

    async def tidy(self) -> None:
        """Cancel batches under way and delete the files of all batches: the run has ended."""

    async def aclose(self) -> None:
        """Close the connections."""

    @property
    def waiting(self) -> "Waiting | None":
        """What waits in batches, or None."""

    @property
    def workers(self) -> "WorkerFigures | None":
        """What there is to say of its worker processes; None: it has none."""


class Skipped(LimitError):
    """A limit with the policy `skip` has no capacity now. This does not count as a failure of the caller."""


@attrs.frozen
class CallPlan:
    """The most that a call can use: tokens and money."""

    route: Route
    input_tokens: int
    max_tokens: int
    cost_micro: int

    @property
    def tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.max_tokens

    @property
    def outside(self) -> bool:
        """Whether a model at an endpoint can answer."""
        return any(target.provider not in INSIDE for target in self.route.targets)


@attrs.define
class Traced:
    """A call that has ended, for an estimate: caller, request, chain of models, and times in simulated nanoseconds."""

    agent_id: str
    group: str
    request: ModelRequest
    input_tokens: int
    targets: tuple[Target, ...]
    started_ns: int
    ended_ns: int


@attrs.define
class _Stake:
    """What is reserved for a call, and the effect that makes it at the edge; None: none has begun."""

    money: FundsHold
    reservations: Mapping[str, Reservation]
    earmarks: Mapping[str, Earmark]
    effect: EffectHandle | None = None


class Models(Service):
    """The models of one world.

    Args:
        world: the world of the callers.
        router: maps use cases and tiers to models.
        core: the client in simulated time.
        edge: makes the client of endpoints when it is first needed. None: the run has no endpoints.
        prices: the prices by model.
        spend: the ceiling and the totals of the run.
        access: holds the secrets that are removed from the answers of endpoints.
        max_tokens: the longest answer in tokens, for requests that set no limit.
        tokenizer: estimates the tokens of a call.
        requests: the most requests of one call, used for the highest possible cost.
        latency: simulated seconds that a call to an endpoint takes; None: as long as in real time.
        aside: the providers that answer interviews in the core: they take no time and share nothing with `core`.

    Attributes:
        latency: as the argument; a branch may change it.
        place: the run, as batches need it; None until the run begins.
        background: runs work beside the run; None until the run begins.
        spend: the money and tokens spent so far.
        counts: counts of calls and attempts so far.
        shared: the answers that this run shares with others of an experiment; None: it shares none. It is set before
            the run begins.
        on_cost: called with the agent, the use case, the tokens and the cost in micro-units of each call when it is
            settled, however it ended.
        listen: called with the caller, the request and the outcome of each call that has ended (None: it was
            abandoned), before its event `model.call`; None: there is no listener.
        observers: called with the caller and each part of its answers as it arrives, from the thread of the run. What
            they see is never recorded, and they must not change the world.
        followers: as `observers`, for answers that arrive in parts in any case: they never have an endpoint stream.
        part_of: returns the part of the world in which an agent is: what calls show of an endpoint counts there only.
            The ceiling can have a part for each.
        trace: called with each call that has ended, for an estimate; None: nothing is traced.
        expected: the estimated spend of the run, in the form of `summary`; empty without an estimate.
        people: the people who answer as agents instead of their models.
        refusal: why the run was ended, or None. It is set if an endpoint refuses a call for good before it has
            answered any call.
    """

    name = "models"

    def __init__(
        self,
        world: World,
        *,
        router: Router,
        core: Client,
        edge: Callable[[], OutsideClient] | None = None,
        prices: Prices | None = None,
        spend: Spend | None = None,
        access: Access | None = None,
        max_tokens: int = MAX_TOKENS,
        tokenizer: Tokenizer = APPROXIMATE,
        requests: int = MOST_REQUESTS,
        latency: Draw | None = None,
        aside: Mapping[str, Provider] = MappingProxyType({}),
    ) -> None:
        self.latency = latency
        self.place: Place | None = None
        self.background: Background | None = None
        self.spend = spend or Spend()
        self.counts = Counts()
        self.expected: Mapping[str, Any] = {}
        self.refusal: str | None = None
        self.shared: SharedAnswers | None = None
        self.on_cost: list[Callable[[str, str, int, int], None]] = []
        self.listen: Callable[[Caller, ModelRequest, Answer | ModelError | None], None] | None = None
        self.observers: list[Callable[[str, Delta], None]] = []
        self.followers: list[Callable[[str, Delta], None]] = []
        self.trace: Callable[[Traced], None] | None = None
        self.part_of: Callable[[str], str] = lambda agent_id: ""
        self._answered: set[tuple[str, str]] = set()  # by part of the world: endpoints that have answered
        self._able: set[tuple[str, str, str, str]] = set()  # the same: provider, model, and what it can do
        self._unreachable: set[tuple[str, str]] = set()  # the same: endpoints that the latest request did not reach
        self._lost: set[str] = set()  # effect keys of calls in flight when the process ended
        self._world = world
        self._router = router
        self.counts.add_tiers(router.tiers)
        self._core = core
        self._make_edge = edge
        self._edge: OutsideClient | None = None
        self._clients: list[OutsideClient] = []  # all that were made for this run: their figures are those of the run
        self._closed = 0  # how many of them, from the first, are closed
        self._prices = prices or Prices.shipped()
        self._access = access or Access()
        self._max_tokens = max_tokens
        self._tokenizer = tokenizer
        self._requests = requests
        self._aside = aside
        self.people = People(world)
        world.add_service(self)

    async def complete(self, agent: Caller, request: ModelRequest, observe: Observer | None = None) -> Answer:
        """Answer a request of an agent.

        Args:
            agent: the caller; limits, budgets and the route depend on it.
            request: the request.
            observe: called with each part of the answer as it arrives. Its actions are not recorded, so it must not
                change the world.

        Raises:
            ModelError: if no model answered. Its kind is `quota` if the ceiling of the run or a hard limit of the
                account is reached.
            LimitError: if a limit or budget of the agent does not allow the call; `Skipped` if the policy of the limit
                is `skip`.
        """
        plan = self.plan(agent, request)
        request = _limited(request, plan.max_tokens)
        self._world.waits.begin(agent.agent_id)
        try:
            return await self._complete(agent, plan, request, self._observed(agent.agent_id, request, observe))
        finally:
            self._world.waits.end(agent.agent_id)

    def _observed(self, agent_id: str, request: ModelRequest, observe: Observer | None) -> Observer | None:
        """Return what passes the parts of an answer on to its caller, to all observers and to all followers; None if
        no part was asked for.
        """
        if observe is None and not self.observers and not request.stream and not self._access.stream:
            return None

        def show(part: Delta) -> None:
            if observe is not None:
                observe(part)
            for other in (*self.observers, *self.followers):
                other(agent_id, part)

        return show

    async def interview(self, respondent: Caller, request: ModelRequest) -> Answer:
        """Answer a request for an agent that does not notice it, with the model that the agent itself would ask.

        No simulated time passes: an endpoint is called in an effect with a latency of 0. No limit or budget of the
        world is used, and no random stream of the agent. Only the money of the run is spent, in the group `survey`.

        Args:
            respondent: the agent for whom the model speaks.
            request: the request.

        Raises:
            ModelError: if no model answered. Its kind is `quota` if the ceiling of the run is reached.
        """
        plan = self.plan(respondent, request)
        request = attrs.evolve(_limited(request, plan.max_tokens), respondent=respondent.agent_id)
        caller = Interviewer(_SURVEY + respondent.agent_id)
        money = self.spend.reserve(plan.cost_micro, plan.tokens, self.part_of(respondent.agent_id))
        stake = _Stake(money, {}, {})
        if all(target.provider in INSIDE for target in plan.route.targets):
            return await self._settled(caller, plan, request, stake, self._answer_aside(plan, request))
        answer = self._outside(respondent, plan.route.targets, request, None, stake, latency_ns=0)
        return await self._settled(caller, plan, request, stake, answer)

    async def _answer_aside(self, plan: CallPlan, request: ModelRequest) -> Answer:
        """Answer in the core at once, with the first model of the chain that answers. Nothing is tried twice."""
        attempts: list[Attempt] = []
        fallbacks: list[str] = []
        for target in plan.route.targets:
            try:
                completion = read(await self._aside[target.provider].complete(target.model, request), request)
            except ModelError as error:
                attempts.append(Attempt(target.provider, target.model, error.kind, 0.0, detail=str(error)))
                if target is plan.route.targets[-1] or not steps_down(error.kind):
                    error.attempts = tuple(attempts)
                    raise
                fallbacks.append(f"{target}: {error.kind}")
            else:
                usage = completion.usage
                if usage.estimated:  # filler text, as for an estimate of the spending
                    tokens = count_answer(self._tokenizer, completion.text)
                    usage = TokenUsage(count_request(self._tokenizer, request), tokens, estimated=True)
                attempts.append(Attempt(target.provider, target.model, "ok", 0.0, usage=usage))
                completion = attrs.evolve(completion, usage=usage)
                return Answer(completion, tuple(attempts), self.cost(target.model, usage), tuple(fallbacks))
        raise AssertionError("a route has at least one model")

    async def embed(
        self,
        agent: Caller,
        texts: Sequence[str],
        *,
        use: str = "embed",
        tier: str | None = None,
        dimensions: int | None = None,
    ) -> tuple[tuple[float, ...], ...]:
        """Return one embedding vector per text, from `/embeddings` of an endpoint or, if scripted, from its words.

        Args:
            agent: the caller; limits, budgets and the route depend on it.
            texts: 1 to 2,048 texts, none empty.
            use: the use case of the call; the router maps it to a model.
            tier: overrides the tier of the use case.
            dimensions: the length of a vector; None: the default of the model (scripted: 64).

        Raises:
            UsageError: if there are no texts or too many, if one is empty, or if `dimensions` is below 1 or too large.
            ModelError, LimitError: as `complete`.
        """
        if not 1 <= len(texts) <= MOST_TEXTS or not all(texts):
            raise UsageError(f"one call can embed 1 to {MOST_TEXTS} texts, none of them empty")
        if dimensions is not None and not 1 <= dimensions * len(texts) <= MOST_NUMBERS:
            raise UsageError(f"{len(texts)} vectors of {dimensions} numbers are not 1 to {MOST_NUMBERS} in total")
        request = ModelRequest((), use=use, tier=tier, texts=tuple(texts), dimensions=dimensions)
        return (await self.complete(agent, request)).completion.vectors

    async def _complete(self, agent: Caller, plan: CallPlan, request: ModelRequest, observe: Observer | None) -> Answer:
        stake = await self._hold(agent, plan)
        answer = self._answer(agent, plan, request, observe, stake)
        if agent.agent_id in self.people.places and not request.texts:
            answer = self._by_person(agent, request, answer)
        return await self._settled(agent, plan, request, stake, answer)

    async def _by_person(self, agent: Caller, request: ModelRequest, by_model: Coroutine[Any, Any, Answer]) -> Answer:
        """Return the answer of a person; without one in time, that of the model."""
        try:
            said = await self.people.answer(agent.agent_id, request)
            return await by_model if said is None else said
        finally:
            by_model.close()

    async def _settled(
        self, agent: Caller, plan: CallPlan, request: ModelRequest, stake: _Stake, calling: Awaitable[Answer]
    ) -> Answer:
        """Await the answer to a request, then charge what it took and emit its events."""
        started = self._world.kernel.now
        self.counts.in_flight += 1
        try:
            answer = await calling
        except ModelError as error:
            self._close(agent, plan, request, stake, started, error)
            if error.kind == "quota":
                _pause(agent)
            raise
        except (Cancelled, Exception):  # not GeneratorExit: a coroutine that is garbage-collected settles nothing
            self._abandon(agent, plan, request, stake, started)
            raise
        self._close(agent, plan, request, stake, started, answer)
        return answer

    def plan(self, agent: Caller, request: ModelRequest) -> CallPlan:
        """Return the route of a request and the most that it can use. Nothing is called or reserved."""
        max_tokens = 0 if request.texts else request.sampling.max_tokens or self._max_tokens
        input_tokens = count_request(self._tokenizer, request)
        route = self._router.route(agent.agent_id, agent.group, request, input_tokens + max_tokens)
        return CallPlan(route, input_tokens, max_tokens, self._most(route.targets, request, input_tokens, max_tokens))

    def context_window(self, agent: Caller, request: ModelRequest) -> int | None:
        """Return the context window in tokens of the model that a request goes to first; None if it is not known."""
        price = self._prices.find(self.plan(agent, request).route.targets[0].model)
        return None if price is None else price.context

    def _most(self, targets: Sequence[Target], request: ModelRequest, input_tokens: int, max_tokens: int) -> int:
        """Return the highest possible cost; uses the cautious tokenizer, as digits need more tokens than prose."""
        if not any(self._prices.find(target.model) for target in targets):
            return 0
        usage = TokenUsage(max(input_tokens, count_request(CAUTIOUS, request)), max_tokens)
        return max(self.cost(target.model, usage) for target in targets)

    def cost(self, model: str, usage: TokenUsage) -> int:
        """Return the cost of tokens of a model, in micro-units; 0 for a model without a price."""
        return self._prices.cost(model, usage)

    def state(self) -> Any:
        """See `Service.state`: for which agents people answer; None if no person ever did."""
        return self.people.state()

    def metrics(self) -> Mapping[str, float | None]:
        """See `Service.metrics`: calls, how they ended and what they cost, in all and by tier (`refusals_small`); and
        `cost_per_agent_day`, for each agent that has called and each simulated day, None before that.
        """
        figures: dict[str, float | None] = {}
        for tier, tally in sorted(self.counts.tallies.copy().items()):
            end = tier and f"_{tier}"
            numbers = {"calls": tally.calls, "failed": tally.failed, "refusals": tally.refusals}
            figures |= {f"{name}{end}": number for name, number in numbers.items()}
            figures[f"cost{end}"] = tally.cost_micro / MICRO
        days = len(self.counts.callers) * self._world.kernel.now / (86400 * NS)
        return {**figures, "cost_per_agent_day": self.counts.tallies[""].cost_micro / MICRO / days if days else None}

    def summary(self) -> Mapping[str, Any]:
        """Return the calls and their cost, JSON-like: `total`, `models`, `groups`, and the estimate `expected`.

        Models without a known price count as free and are listed in `unpriced`. All costs are without the discount of
        batches, which is `saved_micro`, if there is one. If answers of other runs were reused, `reused` is their number
        and `reused_micro` their cost, which is part of the total but was not spent again. Only if there are any:
        `failures`, the requests without an answer by class of error; `rule_faults`, calls that failed because of a
        scripted rule; `empty`, `written_calls`, `formats` and `surveys`, as in `Counts`; `edge_workers`, as
        `WorkerFigures`; `people`, as `People.ended`.
        """
        if not (self.spend.models or self.expected):
            return {}
        models = [name.partition(":")[2] for name in self.spend.models if not name.startswith(f"{PERSON}:")]
        unpriced = sorted({model for model in models if self._prices.find(model) is None})
        counts, saved = self.counts, self.spend.saved_micro
        special: dict[str, Any] = {"saved_micro": saved} if saved else {}
        special |= {"reused": counts.reused, "reused_micro": counts.reused_micro} if counts.reused else {}
        troubles = {
            "failures": counts.failed, "rule_faults": counts.rule_faults, "empty": counts.empty,
            "written_calls": counts.written_calls,
            "formats": {
                model: {"enforced": yes, "free": no, "refused": refused}
                for model, (yes, no, refused) in counts.formats.items()
            },
            **self.edge_figures(), "people": self.people.summary(),
            "surveys": {ask: {"answers": all_, "missing": none} for ask, (all_, none) in counts.surveys.items()},
        }  # fmt: skip
        special |= {name: value for name, value in troubles.items() if value}
        if self.spend.ceiling_tokens is not None:
            special["ceiling_tokens"] = self.spend.ceiling_tokens
        spent = {**self.spend.summary(), **special, "unpriced": unpriced}
        return {**spent, "ceiling_micro": self.spend.ceiling_micro, "expected": self.expected}

    def edge_figures(self) -> JsonObject:
        """Return the part of the summary that is about how endpoints were reached; parts of it can be empty."""
        return {"concurrency": self.concurrency(), "edge_workers": self._worker_figures()}

    def _worker_figures(self) -> Mapping[str, int]:
        """Return the figures of all clients; how many processes there are, and where, is that of the latest one."""
        figures = [attrs.asdict(one.workers) for one in self._clients if one.workers is not None]
        total = {name: sum(one[name] for one in figures) for name in (figures[0] if figures else ())}
        return {**total, **{name: figures[-1][name] for name in ("processes", "on_ray")}} if figures else {}

    def warnings(self) -> Sequence[Warned]:
        """Warn of scripted rules with faults: what agents take for an outage is a fault of the scenario."""
        first = self.counts.first_rule_fault
        return () if first is None else (fault_warning(self.counts.rule_faults, str(first), first.hint),)

    def outcomes(self) -> Mapping[str, int]:
        """Return how many requests have ended so far, by outcome: `ok`, or a class of error.

        Clients of endpoints know of more requests than have reached the core: those of calls under way.
        """
        counts: dict[str, int] = {}
        for (_, outcome), count in self.counts.requests.items():
            counts[outcome] = counts.get(outcome, 0) + count
        live = sum((Counter(one.ended) for one in self._clients), Counter[str]())
        return {name: max(counts.get(name, 0), live.get(name, 0)) for name in (*counts, *live)}

    def concurrency(self) -> Mapping[str, Mapping[str, float]]:
        """Return how many requests may be in flight at each endpoint at last, and the limit of the operator."""
        edge = None if self._access.batching else self._edge
        statistics = {} if edge is None else {name: one.governor.statistics() for name, one in edge.endpoints.items()}
        return {
            name: {"reached": state.concurrency, "most": state.most_concurrent}
            for name, state in statistics.items()
            if math.isfinite(state.most_concurrent)
        }

    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return the endpoints in use by name of the provider, with their governors and circuit breakers."""
        edge = self._edge
        return dict(self._core.endpoints) | ({} if edge is None else dict(edge.endpoints))

    def change(self, router: Router, edge: Callable[[], OutsideClient] | None, access: Access) -> None:
        """Replace the router, the factory of the endpoint client, and the access for all later calls.

        Calls in flight end with the old ones.
        """
        self._router = router
        self.counts.add_tiers(router.tiers)
        self._access = access
        self._make_edge = edge
        self._edge = None

    async def prepare(self) -> None:
        """Import what endpoints need, and check that the endpoint can be reached. No-op for a run without endpoints.

        The host calls it before a run starts.

        Raises:
            UsageError: if the endpoint refuses the key, its address lacks `/v1`, or no model can answer calls of the
                estimate.
            RunError: if the endpoint cannot be reached.
        """
        if self._make_edge is None:
            return
        edge = self._opened(self._make_edge)
        try:
            await edge.prepare()
            self._check_needs(edge.capabilities)
        except BaseException:
            await self.aclose()
            raise

    def _opened(self, make: Callable[[], OutsideClient]) -> OutsideClient:
        """Return the present client of endpoints, made if there is none."""
        if self._edge is None:
            self._edge = make()
            self._clients.append(self._edge)
        return self._edge

    def _check_needs(self, capabilities: Capabilities) -> None:
        """Refuse a run whose estimate has calls that no model of their chain can answer."""
        for need in self.expected.get("needs", ()):
            chain = [Target.parse(name) for name in need["models"]]
            errors = [capabilities.lacking(target, (need["need"],)) for target in chain]
            if chain and all(errors):
                calls = "1 call of this run" if need["calls"] == 1 else f"{need['calls']:,} calls of this run"
                raise UsageError(f"{errors[0]}; {calls} would need it", hint=errors[0].hint if errors[0] else None)

    def begin(self, run: str, background: Background, folder: Path | None) -> None:
        """Note which run the calls belong to. The host calls it before the run starts.

        Args:
            run: the name of the run.
            background: runs work beside the run.
            folder: the run folder, or None for a run without one.

        Raises:
            RunError: if the notes of its batches are damaged.
        """
        self.background = background
        if self._access.batching:
            from sim.llm.batches.place import Place

            self.place = Place.of(run, background, folder)

    @property
    def waiting(self) -> "Waiting | None":
        """What waits in batches at an endpoint, or None."""
        return None if self.place is None or self._edge is None else self._edge.waiting

    async def tidy(self) -> None:
        """Delete what the run has left at endpoints. The host calls it when a run has ended and is on record."""
        if self.place is not None:
            for edge in self._clients[self._closed :]:
                await edge.tidy()

    def lose(self, keys: Iterable[str]) -> None:
        """Mark calls that were in flight when the process ended. They are repeated, and their lost input is billed.

        Calls in batches are not lost: their batch is found again.

        Args:
            keys: the keys of their effects.
        """
        if not self._access.batching:
            self._lost.update(keys)

    @property
    def outside(self) -> bool:
        """Whether calls can go to endpoints."""
        return self._make_edge is not None

    @property
    def edge(self) -> OutsideClient | None:
        """The client of endpoints; None before `prepare`, and for a run without endpoints."""
        return self._edge

    async def aclose(self) -> None:
        """Close the connections to endpoints. The host calls it at the end of a run."""
        edges, self._closed, self._edge = self._clients[self._closed :], len(self._clients), None
        for edge in edges:
            await edge.aclose()
        if self.place is not None:
            self.place.notes.close()

    # -- limits and budgets

    async def _hold(self, agent: Caller, plan: CallPlan) -> _Stake:
        """Wait for capacity, then reserve the most that the call can use, in the step in which capacity is free."""
        agent_id, tracker, budgets = agent.agent_id, self._world.rate_tracker, self._world.budgets
        wanted = {CALLS: 1, TOKENS: plan.tokens}
        takes = {CALLS: 10**6, TOKENS: plan.tokens * 10**6, COST: plan.cost_micro}  # budgets count in micro-units
        needs = {name: micro for name, micro in takes.items() if name in budgets}
        while True:  # repeat: while the agent waits for one, another call of it can use up the other
            await _until_funded(agent, budgets, needs)
            lacking = tracker.blocked_by(agent_id, wanted)
            if lacking is None:
                break
            if tracker.policy(lacking) == "skip":
                raise Skipped(lacking, wanted[lacking], tracker.get_remaining(agent_id, lacking), agent_id)
            await tracker.wait_for_capacity(agent_id, wanted)
            if budgets.lacking(agent_id, needs) is None:
                break
        earmarks: dict[str, Earmark] = {}
        try:
            for name, micro in needs.items():
                earmarks[name] = budgets.reserve(agent_id, name, micro)
            money = self.spend.reserve(plan.cost_micro, plan.tokens, self.part_of(agent_id))
        except (LimitError, ModelError) as error:
            for earmark in earmarks.values():
                budgets.release(earmark)
            if isinstance(error, ModelError):
                _pause(agent)
            raise
        return _Stake(money, {name: tracker.reserve(agent_id, name, n) for name, n in wanted.items()}, earmarks)

    def _settle(self, stake: _Stake, tokens: int, cost_micro: int) -> None:
        """Charge what was used and return the rest. A call counts as one, also if it failed."""
        tracker, budgets = self._world.rate_tracker, self._world.budgets
        for name, reservation in stake.reservations.items():
            tracker.settle(reservation, 1 if name == CALLS else tokens)
        used = {CALLS: 10**6, TOKENS: tokens * 10**6, COST: cost_micro}
        for name, earmark in stake.earmarks.items():
            budgets.settle(earmark, used[name])

    # -- the call itself

    async def _answer(
        self, agent: Caller, plan: CallPlan, request: ModelRequest, observe: Observer | None, stake: _Stake
    ) -> Answer:
        targets = plan.route.targets
        if all(target.provider in INSIDE for target in targets):
            return await self._core.complete(targets, request, agent=agent.agent_id, observe=observe)
        if self._make_edge is None:
            raise ModelError("bad_request", f"{targets[0].provider} needs an endpoint, and this run has none")
        return await self._outside(agent, targets, request, observe, stake)

    async def _outside(
        self,
        agent: Caller,
        targets: Sequence[Target],
        request: ModelRequest,
        observe: Observer | None,
        stake: _Stake,
        *,
        latency_ns: int | None = None,
    ) -> Answer:
        """Call an endpoint in one effect. All attempts are part of the recorded outcome."""
        value = request_to_json(request)
        value["agent"] = agent.agent_id
        value["chain"] = [[target.provider, target.model] for target in targets]
        shared = None if self.shared is None else self.shared.of(value)
        if latency_ns is None:
            latency_ns = self._latency_ns(agent.agent_id, request.use)
        modelled = latency_ns is not None

        async def call(value: JsonObject, key: str) -> JsonObject:
            if shared is None:
                return await self.at_edge(value, observe, key, modelled=modelled)
            return await shared(lambda: self.at_edge(value, observe, key, modelled=modelled))

        stake.effect = EffectHandle(
            Effect(
                "llm",
                value,
                call,
                latency_ns=latency_ns,
                deadline_ns=round(_LONGEST * NS) if latency_ns is None else latency_ns + 1,
                timeout=_LONGEST_IN_BATCHES if self._access.batching else _LONGEST,
                safety="idempotent",
            )
        )
        outcome = await perform_handle(stake.effect)
        if outcome.kind != "ok":
            detail = outcome.value["message"] if outcome.kind == "error" else "no answer arrived in time"
            raise ModelError("timeout" if outcome.kind == "timeout" else "server", f"the call failed: {detail}")
        if "reused" not in outcome.value:
            for model, _ in outcome.value.get("refused_formats", ()):
                self.counts.refused_format(model)
        if "error" in outcome.value:
            error = error_from_json(outcome.value["error"])
            if modelled:
                error.attempts = _untimed(error.attempts)
            raise error
        answer = answer_from_json(outcome.value["answer"])
        if "reused" in outcome.value:
            self.counts.reused += 1
            self.counts.reused_micro += answer.cost_micro
        elif "batch" in outcome.value:
            self.spend.saved_micro += answer.cost_micro - outcome.value["batch"]["paid_micro"]
        if modelled:
            return Answer(answer.completion, _untimed(answer.attempts), answer.cost_micro, answer.fallbacks)
        return answer

    def _latency_ns(self, agent_id: str, use: str) -> int | None:
        """Draw the latency of the next call of an agent for a use, or return None if it is measured."""
        if self.latency is None:
            return None
        draws = self._world.draws_now(agent_id, f"llm.latency {use}")
        return round(min(self.latency.sample(draws), _LONGEST_LATENCY) * NS)

    async def at_edge(
        self, value: Mapping[str, Any], observe: Observer | None, key: str, *, modelled: bool
    ) -> Mapping[str, Any]:
        """Execute a call at the edge: in a task of the host, or of the coordinator of shards. Failures are returned as
        values. The result contains no secret.

        Args:
            value: the request of the effect.
            observe: called with each part of the answer as it arrives; None: it need not come in parts.
            key: the idempotency key of the effect.
            modelled: whether the latency is modelled.

        With modelled latency, a request that was lost when its process ended is recorded beside the answer, not as one
        of its attempts. Otherwise a run that was resumed would differ from one that was not interrupted. In the same
        way, the batch that answered, and the lower price, are beside the answer: the run costs less, but it does the
        same. So are requests that were sent again without their format, which only the first of several calls is.
        A call of measured latency is never in a batch, because simulated time would follow its real time.
        """
        assert self._make_edge is not None, "only calls for endpoints get here"
        edge = self._opened(self._make_edge)
        chain = tuple(Target(provider, model) for provider, model in value["chain"])
        request = request_from_json(value, key if modelled else "")
        lost = self._interrupted(chain[0], request) if key in self._lost else ()
        beside: dict[str, Any] = {}
        result: JsonObject
        try:
            answer = await edge.complete(chain, request, agent=value["agent"], observe=observe)
            lost = (*lost, *answer.lost)
            if not modelled:
                cost = answer.cost_micro + sum(self.cost(try_.model, try_.usage) for try_ in lost if try_.usage)
                answer = attrs.evolve(answer, attempts=(*lost, *answer.attempts), cost_micro=cost)
            result = {"answer": answer_to_json(answer)}
            beside |= _refused_formats(answer)
            if answer.completion.batch and self._access.batching:
                paid = math.ceil(answer.cost_micro * self._access.batching.price)
                beside["batch"] = {"id": answer.completion.batch, "paid_micro": paid}
        except ModelError as error:
            lost = (*lost, *error.lost)
            if not modelled:
                error.attempts = (*lost, *error.attempts)
            result = {"error": error_to_json(error)}
            beside |= _refused_formats(error)
        except Exception as error:  # an error of this program or of a library: its text may contain secrets
            message = f"{type(error).__name__}: {error}"
            result = {"error": error_to_json(ModelError("server", message))}
        if lost and modelled:
            beside["lost"] = [attempt_to_json(attempt) for attempt in lost]
        scrubbed: JsonObject = self._access.scrub({**result, **beside})
        return scrubbed

    def _interrupted(self, target: Target, request: ModelRequest) -> tuple[Attempt, ...]:
        """Return the attempt that was in flight when the process ended. Its answer is lost; its input is billed."""
        usage = TokenUsage(count_request(self._tokenizer, request), 0, estimated=True)
        detail = "the process ended before the answer was recorded"
        return (Attempt(target.provider, target.model, "interrupted", 0.0, detail=detail, usage=usage),)

    # -- results and costs

    def _note_endpoint(
        self, agent: Caller, plan: CallPlan, request: ModelRequest, outcome: Answer | ModelError
    ) -> None:
        """Note whether the endpoint can be reached. End the run if it refuses a call before it has answered any.

        A wrong key, address or model name fails every call, and the agents would retry until the end of the run. The
        same applies to tools, JSON schemas and streams, if the endpoint has not answered a call with them.
        """
        if all(target.provider in INSIDE for target in plan.route.targets):
            return
        if not outcome.attempts:  # nothing was sent
            if isinstance(outcome, ModelError) and lacking_in(outcome, request) and self.refusal is None:
                self.refusal = str(outcome)[:500]
                self._world.kernel.halt()
            return
        latest, part = outcome.attempts[-1], self.part_of(agent.agent_id)
        endpoint = (part, latest.provider)
        if latest.usage is not None or latest.outcome not in ("network", "timeout"):
            self._unreachable.discard(endpoint)
        else:
            self._unreachable.add(endpoint)
        if isinstance(outcome, Answer):
            self._answered.add(endpoint)
            self._able.update((*endpoint, latest.model, need) for need in needs_of(request))
            return
        lacking = lacking_in(outcome, request)
        if lacking and (*endpoint, latest.model, lacking) not in self._able and self.refusal is None:
            self.refusal = f"{latest.provider}:{latest.model} cannot do {lacking}: {outcome}"[:500]
            self._world.kernel.halt()
        elif outcome.kind in ("auth", "not_found") and endpoint not in self._answered and self.refusal is None:
            self.refusal = f"{latest.provider}:{latest.model} refused the first call ({outcome.kind}): {outcome}"[:500]
            self._world.kernel.halt()

    def _close(
        self,
        agent: Caller,
        plan: CallPlan,
        request: ModelRequest,
        stake: _Stake,
        started: int,
        outcome: Answer | ModelError,
    ) -> None:
        """Settle a call that has ended, and emit its events."""
        if self.listen is not None:
            self.listen(agent, request, outcome)
        bills = self._bills(plan, outcome)
        self._note_endpoint(agent, plan, request, outcome)
        self.counts.ended(bills[-1].model, to_seconds(self._world.kernel.now - started), outcome.attempts)
        for number, attempt in enumerate(outcome.attempts, start=1):
            self._emit(ModelAttempted(number=number, **_attempt(attempt)), agent)
        if isinstance(outcome, Answer):
            self.counts.answered(bills[-1].model, outcome.completion, request)
            how: Ending = {
                "stop": outcome.completion.stop,
                "fallbacks": [*plan.route.skipped, *outcome.fallbacks],
            }
        else:
            how = {"error": outcome.kind, "message": str(outcome)[:500]}
            if isinstance(outcome, RuleFault):
                self.counts.failed_by_rule(outcome, self._world.kernel.now)
        self._count(agent, plan, request, stake=stake, started=started, bills=bills, how=how)

    def _count(
        self,
        agent: Caller,
        plan: CallPlan,
        request: ModelRequest,
        stake: _Stake,
        started: int,
        bills: Sequence[Bill],
        how: Ending,
    ) -> None:
        """Settle a call by the use of its requests, and emit `model.call` with `how` it ended."""
        total = total_bill(bills)
        usage, cost = total.usage, total.cost_micro
        tokens = 0 if usage is None else usage.input_tokens + usage.output_tokens
        self._settle(stake, tokens, cost)
        failed = "error" in how
        self.counts.tally(agent.agent_id.removeprefix(_SURVEY), plan.route.tier, how, cost)
        self.spend.settle(
            stake.money, agent=agent.agent_id, group=agent.group, bills=bills, failed=failed,
            most_micro=plan.cost_micro * self._requests, most_tokens=plan.tokens * self._requests,
        )  # fmt: skip
        if self.trace is not None:
            now = self._world.kernel.now
            targets = plan.route.targets
            self.trace(
                Traced(
                    agent_id=agent.agent_id,
                    group=agent.group,
                    request=request,
                    input_tokens=plan.input_tokens,
                    targets=targets,
                    started_ns=started,
                    ended_ns=now,
                )
            )
        provider, _, model = total.model.partition(":")
        called = ModelCalled(
            attempts=total.attempts, cost_micro=cost, group=agent.group, model=model,
            planned_cost_micro=plan.cost_micro, planned_tokens=plan.tokens, provider=provider,
            seconds=to_seconds(self._world.kernel.now - started), tier=plan.route.tier, use=request.use,
            **_identity(stake.effect, agent), **({} if usage is None else usage_to_json(usage)), **how,
        )  # fmt: skip
        self._emit(called, agent)
        for book in self.on_cost:
            book(agent.agent_id, request.use, tokens, cost)

    def _bills(self, plan: CallPlan, outcome: Answer | ModelError) -> Sequence[Bill]:
        """Return one bill per request. The usage of the last request and the total cost come from the outcome."""
        last = outcome.completion.usage if isinstance(outcome, Answer) else outcome.usage
        if not outcome.attempts:
            return [self._bill(plan.route.targets[0], last, attempts=0)]
        *failed, latest = outcome.attempts
        bills = [self._bill(Target(attempt.provider, attempt.model), attempt.usage) for attempt in failed]
        target = Target(latest.provider, latest.model)
        if isinstance(outcome, Answer):
            rest = outcome.cost_micro - sum(bill.cost_micro for bill in bills)
            return [*bills, Bill(str(target), latest.usage or last, rest)]
        return [*bills, self._bill(target, latest.usage or last)]

    def _bill(self, target: Target, usage: TokenUsage | None, attempts: int = 1) -> Bill:
        return Bill(str(target), usage, 0 if usage is None else self.cost(target.model, usage), attempts)

    def _abandon(self, agent: Caller, plan: CallPlan, request: ModelRequest, stake: _Stake, started: int) -> None:
        """Settle a call whose agent no longer waits.

        The input that was sent to an endpoint is billed. Calls in the core, calls to an endpoint that cannot be
        reached, and calls that still wait for a person, are free.
        """
        if self.listen is not None:
            self.listen(agent, request, None)
        target = plan.route.targets[0]
        reached = (self.part_of(agent.agent_id), target.provider) not in self._unreachable
        outside = target.provider not in INSIDE and reached
        sent = outside and stake.effect is not None  # before that, a person was awaited
        usage = TokenUsage(plan.input_tokens, 0, estimated=True) if sent else None
        self.counts.in_flight -= 1
        bills = [self._bill(target, usage, attempts=0)]
        how: Ending = {"error": "abandoned", "message": "the answer is no longer needed"}
        self._count(agent, plan, request, stake=stake, started=started, bills=bills, how=how)

    def _emit(self, data: ModelCalled | ModelAttempted, agent: Caller) -> None:
        self._world.kernel.emit(data.TOPIC, freeze(data), agent.agent_id)


def fault_warning(count: int, first: str, hint: str | None) -> Warned:
    """Return the warning that calls failed because of scripted rules: how many, and the text of the first fault."""
    calls = "1 call of a model" if count == 1 else f"{count:,} calls of models"
    return Warned(f"{calls} failed because of scripted rules; the first: {first}", hint)


class _Identity(TypedDict, total=False):
    """The fields of `ModelCalled` that name the effect of a call."""

    effect: int
    effect_of: str


def _identity(effect: EffectHandle | None, agent: Caller) -> _Identity:
    """Return the fields of `ModelCalled` that name the effect of a call."""
    if effect is None or effect.state == "new":
        return {}
    actor = effect.actor.name
    if actor == agent.agent_id:
        return {"effect": effect.ordinal}
    return {"effect": effect.ordinal, "effect_of": actor}


def _pause(agent: Caller) -> None:
    """Pause the agent until the operator acts: a retry fails while a hard limit or the ceiling is reached."""
    if isinstance(agent, Agent):
        agent.loop.pause(PauseReason.OPERATOR)


async def _until_funded(agent: Caller, budgets: Budgets, needs: Mapping[str, int]) -> None:
    """Wait until the budgets of the caller are renewed or raised. An agent is paused until then."""
    if isinstance(agent, Agent):
        await agent.loop.until_funded(needs)
    else:
        await budgets.wait_for(agent.agent_id, needs)


def _limited(request: ModelRequest, max_tokens: int) -> ModelRequest:
    """Return a request with a limit of tokens; the same one, if it has that limit."""
    if request.sampling.max_tokens == max_tokens:
        return request
    old = request.sampling
    return varied(request, sampling=Sampling(old.temperature, old.top_p, max_tokens, old.stop, old.seed))


def _refused_formats(outcome: Answer | ModelError) -> dict[str, Json]:
    """Return what is recorded beside an outcome of the requests that were sent again without their format."""
    refused = outcome.refused_formats
    return {"refused_formats": [list(one) for one in refused]} if refused else {}


def _attempt(attempt: Attempt) -> Mapping[str, Any]:
    return {name: value for name, value in attempt_to_json(attempt).items() if value not in (None, "")}


def _untimed(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Return attempts without their real durations, which must not be in the hash of a run with modelled latency."""
    return tuple(
        Attempt(one.provider, one.model, one.outcome, seconds=None, waited=None, detail=one.detail, usage=one.usage)
        for one in attempts
    )
