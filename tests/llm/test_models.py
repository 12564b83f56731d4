"""The service: what a call takes, where it goes, what is recorded of it, and that a call outside is one effect."""

from functools import partial

import anyio
import pytest

from sim.base.errors import UsageError
from sim.kernel import NS
from sim.kernel.codec import decode, encode
from sim.llm.access import Access
from sim.llm.capabilities import Capabilities
from sim.llm.endpoint import EdgeClient
from sim.llm.people import Place
from sim.llm.service import Models
from sim.llm.tokens import exact
from sim.llm.types import Answer, Attempt, ChatMessage, Completion, ModelError, ModelRequest, TokenUsage
from sim.llm.workers.pool import WorkerFigures, edge_workers
from sim.world import World
from tests.helpers import named
from tests.llm.scenes import ASKER, Scene

YES = "  rules: [{say: it is}]\n"
PRICED = f"{YES}  max_tokens: 100\n  prices: {{scripted: {{input: 1000, output: 2000}}}}\n"  # 0.001 and 0.002 a token
KEY = "sk-canary-0123456789"
OUTSIDE = Access(("openai:m",), api_key=KEY)

TWICE = """
  - name: asker
    state: {n: 0}
    loop: {min_loop_delay: 1s, max_loop_delay: 2s, max_consecutive_errors: 50}
    rules:
      - {when: n < 2, do: {ask: {prompt: "Is it raining, or not?"}}, set: {n: "=n + 1"}}
      - do: stop
"""


class Edge:
    """A client of endpoints that answers what it is told to, after a little real time, or as long as it is told."""

    def __init__(self, *outcomes):
        self.endpoints = {}
        self.outcomes = list(outcomes)
        self.asked = []
        self.closed = False
        self.ended: dict[str, int] = {}
        self.capabilities = Capabilities()

    async def complete(self, chain, request, *, agent, observe=None):
        self.asked.append((agent, chain, request))
        await anyio.sleep(0.001)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, float):
            await anyio.sleep(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    waiting = None
    workers = None

    async def prepare(self):
        pass

    async def tidy(self):
        pass

    async def aclose(self):
        self.closed = True


def returned(value):
    """Return a value."""
    return value


def answered(text="it is", usage=None, attempts=1):
    """Return an answer of an endpoint."""
    tries = [Attempt("openai", "m", "server", 0.5, 1.0)] * (attempts - 1) + [Attempt("openai", "m", "ok", 0.5)]
    return Answer(Completion(text, (), "end_turn", usage or TokenUsage(12, 3), "m"), tuple(tries), 7)


# -- what is recorded


@pytest.mark.parametrize(
    ("tiers", "price"),
    [
        ("", "scripted"), ("", "'scripted:scripted'"), ("  tiers: {main: small}\n", "small"),
        ("  tiers: {main: small}\n", "'scripted:small'"), ("  tiers: {main: 'a:b'}\n", "'a:b'"),
        ("  tiers: {main: 'scripted:b'}\n", "'scripted:b'"),
    ],
)  # fmt: skip
def test_a_price_counts_with_and_without_the_provider_in_its_name(tiers, price):
    """The summary names models as `scripted:small`, and a price under this name counts as one of `small`."""
    models = f"{YES}{tiers}  max_tokens: 100\n  prices: {{{price}: {{input: 1000, output: 2000}}}}\n"
    scene = Scene(models, rest="until: 1m\nbudgets: {llm_cost: {amount: 0.3}}").run()
    (call,) = scene.events("model.call")
    assert 0 < call["cost_micro"] == scene.models.summary()["total"]["cost_micro"]
    assert scene.models.summary()["unpriced"] == []
    assert scene.world.budgets.remaining("asker", "llm_cost") == 300_000 - call["cost_micro"]


def test_a_call_is_an_event_and_so_is_every_attempt():
    """The events say who called what for what use, how often it was tried, what it took and how it ended."""
    scene = Scene(PRICED).run()
    (attempt,), (call,) = scene.events("model.attempt"), scene.events("model.call")
    assert (attempt["provider"], attempt["outcome"], attempt["number"]) == ("scripted", "ok", 1)
    wanted = {"group": "asker", "use": "agent", "provider": "scripted", "stop": "end_turn", "attempts": 1}
    assert wanted.items() <= call.items()
    assert call["cost_micro"] == 1000 * call["input_tokens"] + 2000 * call["output_tokens"] > 0
    assert scene.models.spend.total.cost_micro == call["cost_micro"]


def test_a_failed_call_is_an_event_with_its_reason():
    """A call that was given up is recorded with the class of the error and every attempt."""
    scene = Scene("  rules: [{fail: overload}]\n  retry: {requests: 3}\n").run()
    call = scene.events("model.call")[0]
    assert (call["error"], call["attempts"]) == ("overload", 3)
    assert [attempt["outcome"] for attempt in scene.events("model.attempt")[:3]] == ["overload"] * 3
    assert "no model answered" in scene.refusals()[0]
    assert (scene.models.spend.total.calls, scene.models.spend.total.failed) == (0, len(scene.refusals()))


def test_a_chain_is_gone_down_with_a_reason():
    """When the first model is given up, the next answers, and the event says why."""
    models = "  tiers: {main: [big, small]}\n  rules: [{when: \"model == 'big'\", fail: quota}, {say: it is}]\n"
    (call,) = Scene(models).run().events("model.call")
    assert call["model"] == "small"
    assert "quota" in call["fallbacks"][0]


def test_the_route_follows_agent_use_and_tier():
    """A tier for the use, one for the agent, one for the group: the model of each call is the one that was named."""
    models = """  tiers: {a: model-a, b: model-b, c: model-c}
  default: a
  uses: {judge: b}
  agents: {asker: {agent: c}}
  rules: [{say: "=model"}]
"""
    agents = """
  - name: asker
    rules:
      - when: iteration == 1
        do: {ask: {prompt: x}}
      - when: iteration == 2
        do: {ask: {prompt: x, use: judge}}
      - when: iteration == 3
        do: {ask: {prompt: x, use: chat}}
      - when: iteration == 4
        do: {ask: {prompt: x, use: judge, tier: a}}
      - do: stop
"""
    calls = Scene(models, agents).run().events("model.call")
    assert [call["model"] for call in calls] == ["model-c", "model-b", "model-a", "model-a"]


# -- limits, budgets, money


def test_a_rate_limit_makes_the_second_call_wait():
    """`llm_calls` counts model calls, and who is over it waits exactly until there is capacity."""
    scene = Scene(YES, TWICE, "until: 10m\nlimits: {llm_calls: {agent: 1 per 1m}}").run()
    assert scene.state()["n"] == 2
    times = [row.time_ns for row in named(scene.recorder.rows) if row.topic == "model.call"]
    assert times[1] - times[0] == 60 * 10**9


def test_tokens_are_reserved_and_settled():
    """`llm_tokens` holds what the call may take, and in the end counts what it took."""
    scene = Scene(YES, rest="until: 10m\nlimits: {llm_tokens: {agent: 2000 per 1h}}").run()
    total = scene.models.spend.total
    used = scene.world.rate_tracker.get_usage("asker", "llm_tokens")
    assert used == total.input_tokens + total.output_tokens
    assert scene.events("model.call")[0]["planned_tokens"] > 1000


def test_a_call_that_never_fits_is_refused():
    """A window smaller than one call refuses it at once, and takes nothing."""
    scene = Scene(YES, rest="until: 1m\nlimits: {llm_tokens: {agent: 500 per 1h}}").run()
    assert "over the limit of 500" in scene.refusals()[0]
    assert scene.world.rate_tracker.get_usage("asker", "llm_tokens") == 0


def test_a_limit_that_skips_is_no_failure():
    """With the policy `skip` the call is refused, the agent's error count does not grow, and it goes on."""
    rest = "until: 1m\nlimits: {llm_tokens: {agent: 500 per 1h, policy: skip}}"
    scene = Scene(YES, rest=rest).run()
    assert scene.refusals()
    assert not scene.events("agent.error")


def test_a_token_budget_ends_the_calls_of_an_agent():
    """A budget named `llm_tokens` limits the calls of an agent: used up, the agent is paused until it is renewed."""
    scene = Scene(f"{YES}  max_tokens: 10\n", TWICE, "until: 10m\nbudgets: {llm_tokens: {amount: 30}}").run()
    assert scene.state()["n"] == 1
    assert not scene.refusals()
    pause = [data for data in scene.events("agent.state") if data["to"] == "paused"]
    assert [data["reason"] for data in pause] == ["resources:llm_tokens"]
    left = scene.world.budgets.remaining("asker", "llm_tokens") / 10**6
    total = scene.models.spend.total
    assert left == 30 - total.input_tokens - total.output_tokens


def test_a_money_budget_holds_what_a_call_may_cost():
    """A budget named `llm_cost` is in units of money: a call that might cost more is refused before it starts."""
    scene = Scene(PRICED, rest="until: 1m\nbudgets: {llm_cost: {amount: 0.2}}").run()
    assert "llm_cost" in scene.refusals()[0]
    assert scene.models.spend.total.cost_micro == 0
    scene = Scene(PRICED, rest="until: 1m\nbudgets: {llm_cost: {amount: 0.3}}").run()
    spent = 0.3 - scene.world.budgets.remaining("asker", "llm_cost") / 10**6
    assert spent == pytest.approx(scene.models.spend.total.cost_micro / 10**6)


def test_the_ceiling_of_the_run_pauses_who_asks():
    """A call that the ceiling does not allow is refused, and its agent waits for the operator instead of retrying."""
    scene = Scene(f"{PRICED}  ceiling: 0.01\n").run()
    assert "ceiling" in scene.refusals()[0]
    assert len(scene.refusals()) == 1
    assert scene.simulation.manager.states()["paused"] == 1
    assert scene.models.spend.total.cost_micro == 0


def test_a_hard_quota_of_the_account_pauses_who_asks():
    """Exhausted money is not retried: one attempt, and the agent is paused."""
    scene = Scene("  rules: [{fail: quota}]\n").run()
    assert len(scene.events("model.attempt")) == 1
    assert scene.simulation.manager.states()["paused"] == 1


def test_a_cancelled_call_gives_back_what_it_held():
    """An agent that is stopped during a simulated call leaves no reservation behind, in windows, budgets and money."""
    models = f"{PRICED}  provider: simulated\n  simulated: {{first_token: 60}}\n  ceiling: 5\n"
    rest = "until: 10m\nlimits: {llm_tokens: {agent: 5000 per 1h}}\nbudgets: {llm_cost: {amount: 4}}"
    scene = Scene(models.replace("scripted:", "simulated:"), rest=rest)
    kernel = scene.world.kernel
    with kernel.acting_as(kernel.scenario):
        kernel.call_at(30 * 10**9, lambda: kernel.cancel(scene.simulation.manager.loops["asker"].actor))
    scene.run()
    assert scene.models.spend.left_micro == 5 * 10**6
    assert scene.world.budgets.remaining("asker", "llm_cost") == 4 * 10**6
    assert scene.world.rate_tracker.get_usage("asker", "llm_tokens") == 0
    assert scene.models.spend.total.failed == 1
    (call,) = scene.events("model.call")
    assert (call["error"], call["cost_micro"]) == ("abandoned", 0)


# -- simulated


def test_simulated_models_take_time_and_answer_what_is_scripted():
    """The same rules answer, later."""
    models = f"{YES}  provider: simulated\n  simulated: {{first_token: 2, per_token: 0.5}}\n"
    scene = Scene(models).run()
    (call,) = scene.events("model.call")
    assert scene.state()["said"] == "it is"
    assert call["seconds"] == 2 + 0.5 * call["output_tokens"]


def test_scenario_faults_hit_whoever_answers():
    """A fault on a schedule makes the first tries fail, and the retry layer gets through when it is over."""
    models = f"{YES}  faults: [{{kind: server, end: 1s}}]\n"
    scene = Scene(models).run()
    assert [attempt["outcome"] for attempt in scene.events("model.attempt")] == ["server", "ok"]
    assert scene.state()["said"] == "it is"


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_both_modes_and_backends_agree(mode):
    """A simulated run is the same on asyncio and trio."""
    models = f"{YES}  provider: simulated\n  simulated: {{failures: [{{kind: rate_limit, share: 0.5}}]}}\n"
    runs = [Scene(models, TWICE).run(backend, mode).recorder.rows for backend in ("asyncio", "trio")]
    assert runs[0] == runs[1]


# -- outside


def outside(*outcomes, agents=ASKER, models=YES, **options):
    """Return a scene whose models are at an endpoint."""
    return Scene(models, agents, edge=Edge(*outcomes), access=OUTSIDE, **options)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_outside_is_one_effect(backend):
    """The request goes out as one idempotent effect whose outcome holds the answer with all attempts."""
    scene = outside(answered(attempts=3)).run(backend)
    (intent,), (result,) = scene.recorder.intents, scene.recorder.results
    actor, _, kind, _, request, latency, safety, _ = intent
    assert (actor, kind, latency, safety) == ("asker", "llm", "measured", "idempotent")
    assert [message["role"] for message in request["messages"]] == ["user"]
    assert request["chain"] == [["openai", "m"]]
    assert len(result[3]["answer"]["attempts"]) == 3
    assert scene.state()["said"] == "it is"
    assert [a["outcome"] for a in scene.events("model.attempt")] == ["server", "server", "ok"]
    assert scene.models.spend.total.cost_micro == 7


def test_a_failure_outside_is_a_value_with_its_class():
    """What the client gave up arrives in the core as the same error, with its attempts."""
    tries = (Attempt("openai", "m", "auth", 0.1),)
    scene = outside(ModelError("auth", "401: no", attempts=tries)).run()
    assert scene.recorder.results[0][2] == "ok"
    assert scene.events("model.call")[0]["error"] == "auth"
    assert "401: no" in scene.refusals()[0]


def test_a_fault_of_the_client_itself_is_a_failed_call():
    """An exception that nobody foresaw at the edge fails the call, not the run."""
    scene = outside(RuntimeError("boom")).run()
    assert "RuntimeError: boom" in scene.refusals()[0]


@pytest.mark.parametrize(
    "outcome",
    [
        answered(f"your key is {KEY}"),
        ModelError("auth", f"bad key {KEY}", attempts=(Attempt("openai", "m", "auth", 0.1, 0.0, KEY),)),
        RuntimeError(f"headers: {KEY}"),
    ],
    ids=["answer", "error", "exception"],
)
def test_the_key_is_in_nothing_that_is_recorded(outcome):
    """Whatever an endpoint repeats or a library puts into an error: no event, request, result or state has the key."""
    scene = outside(outcome).run()
    everything = str([scene.recorder.rows, scene.recorder.intents, scene.recorder.results, scene.state()])
    assert "[redacted]" in everything
    assert KEY not in everything


def test_what_is_abandoned_outside_is_billed_with_an_estimate():
    """At the end of the run a call is under way: its input counts, because it was sent."""
    models = f"{YES}  prices: {{m: {{input: 1000, output: 2000}}}}\n"
    scene = Scene(models, rest="until: 0.05s", access=OUTSIDE, edge=Edge(60.0))

    scene.run()
    scene.world.close()
    scene.recorder.flush()
    total = scene.models.spend.total
    assert (total.failed, total.estimated) == (1, 1)
    assert total.cost_micro == 1000 * total.input_tokens > 0
    (call,) = scene.events("model.call")
    assert (call["error"], call["model"], call["attempts"]) == ("abandoned", "m", 0)
    assert (call["cost_micro"], call["input_tokens"]) == (total.cost_micro, total.input_tokens)


def test_what_was_never_sent_because_a_person_was_awaited_is_not_billed():
    """At the end of the run a call still waits for a person: no endpoint got it, so nothing is billed."""
    models = f"{YES}  prices: {{m: {{input: 1000, output: 2000}}}}\n"
    scene = Scene(models, rest="until: 0.05s", access=OUTSIDE, edge=Edge(60.0))
    scene.models.people.places["asker"] = Place(3600 * NS, None)
    scene.run()
    scene.world.close()
    scene.recorder.flush()
    total = scene.models.spend.total
    assert (total.failed, total.cost_micro, total.input_tokens) == (1, 0, 0)
    (call,) = scene.events("model.call")
    assert (call["error"], call["cost_micro"]) == ("abandoned", 0)
    assert "input_tokens" not in call


def test_what_goes_to_an_endpoint_that_cannot_be_reached_is_not_billed():
    """After a call that never connected, the next one is under way at the end of the run: it was not sent either."""
    models = f"{YES}  prices: {{m: {{input: 1000, output: 2000}}}}\n"
    never = Attempt("openai", "m", "network", 0.01, detail="ConnectError: refused")
    error = ModelError("network", "refused", attempts=(never,))
    agents = TWICE.replace("min_loop_delay: 1s, max_loop_delay: 2s", "min_loop_delay: 1ms, max_loop_delay: 2ms")
    scene = Scene(models, agents, rest="until: 0.2s", access=OUTSIDE, edge=Edge(error, 60.0))
    scene.run()
    scene.world.close()
    scene.recorder.flush()
    total = scene.models.spend.total
    assert [call["error"] for call in scene.events("model.call")] == ["network", "abandoned"]
    assert (total.cost_micro, total.input_tokens) == (0, 0)


def test_failed_tries_count_under_their_own_model():
    """Tokens and money of a try that failed are in the call's event and limits, and under the model that took them."""
    models = f"{YES}  prices: {{big: {{input: 1000, output: 2000}}, small: {{input: 1, output: 1}}}}\n"
    tries = (
        Attempt("openai", "big", "incomplete", 0.5, usage=TokenUsage(100, 10)),
        Attempt("openai", "small", "ok", 0.5, usage=TokenUsage(12, 3)),
    )
    answer = Answer(Completion("it is", (), "end_turn", TokenUsage(12, 3), "small"), tries, 120_000 + 15)
    rest = "until: 10m\nlimits: {llm_tokens: {agent: 5000 per 1h}}"
    scene = Scene(models, rest=rest, access=OUTSIDE, edge=Edge(answer)).run()
    (call,) = scene.events("model.call")
    assert (call["model"], call["input_tokens"], call["output_tokens"], call["cost_micro"]) == (
        "small",
        112,
        13,
        120_015,
    )
    spend = scene.models.spend
    assert {name: tally.cost_micro for name, tally in spend.models.items()} == {
        "openai:big": 120_000,
        "openai:small": 15,
    }
    assert (spend.models["openai:big"].calls, spend.models["openai:small"].calls, spend.total.calls) == (0, 1, 1)
    assert spend.total.input_tokens == 112
    assert scene.world.rate_tracker.get_usage("asker", "llm_tokens") == 125


def test_a_call_that_failed_counts_all_its_tries():
    """The tokens of a call that was given up are those of all its tries."""
    tries = (Attempt("openai", "m", "incomplete", 0.5, usage=TokenUsage(100, 10)),) * 3
    scene = outside(ModelError("incomplete", "cut", attempts=tries, usage=TokenUsage(100, 10))).run()
    (call,) = scene.events("model.call")[:1]
    assert (call["input_tokens"], call["output_tokens"], call["attempts"]) == (300, 30, 3)
    assert scene.models.spend.total.input_tokens == 300


def test_the_default_length_counts_in_a_window():
    """A model whose window is too small for the input and `max_tokens` is left out, whoever says how long they are."""
    models = f"""{YES}  tiers: {{main: [small-window, big]}}
  max_tokens: 5000
  prices: {{small-window: {{input: 1, output: 1, context: 1000}}, big: {{input: 1, output: 1, context: 100000}}}}
"""
    (call,) = Scene(models).run().events("model.call")
    assert call["model"] == "big"
    assert "small-window" in call["fallbacks"][0]


@pytest.mark.parametrize("text", ["3.14159 " * 100, "a1b2c3d4" * 100], ids=["numbers", "a hash"])
def test_what_is_dense_in_tokens_is_set_aside_in_full(text):
    """Money is set aside for the tokens that numbers and the like really take, not for a quarter of the bytes."""
    scene = Scene(PRICED)
    plan = scene.models.plan(scene.world.agents["asker"], ModelRequest((ChatMessage("user", text),)))
    assert plan.cost_micro >= 1000 * exact("gpt-4o").count(text) + 2000 * 100


def test_every_change_of_models_closes_what_was_open():
    """However often the models of a run change, all connections are closed at its end."""
    scene = Scene(YES)
    edges = [Edge(), Edge(), Edge()]
    for edge in edges:
        scene.models._opened(partial(returned, edge))
        scene.models.change(scene.models._router, None, Access())
    anyio.run(scene.models.aclose)
    assert all(edge.closed for edge in edges)


def test_figures_are_those_of_all_clients_of_a_run():
    """What workers and requests were counted before the models of a run changed, or were closed, is in its summary."""
    scene = Scene(YES).run()
    access = Access(("openai:m",), edge_workers=2)
    for number in (1, 2):
        workers = edge_workers(access, 60, "m", lambda: NotImplemented)
        workers.figures = WorkerFigures(2, on_ray=False, replaced=number, interrupted=3, counted_late=4)
        client = EdgeClient(access, workers=workers)
        client.ended["timeout"] = number
        scene.models._opened(partial(returned, client))
        if number == 1:
            scene.models.change(scene.models._router, None, access)
    before, outcomes = scene.models.summary(), scene.models.outcomes()
    assert before["edge_workers"] == {
        "processes": 2, "on_ray": False, "replaced": 3, "missing": 0, "interrupted": 6, "counted_late": 8,
    }  # fmt: skip
    assert outcomes["timeout"] == 3
    anyio.run(scene.models.aclose)
    assert (scene.models.summary(), scene.models.outcomes()) == (before, outcomes)


def test_connections_are_closed_once():
    """The host closes what was opened; nothing was opened, nothing is closed."""
    scene = outside(answered()).run()
    edge = scene.models._edge
    anyio.run(scene.models.aclose)
    assert edge.closed
    anyio.run(scene.models.aclose)


# -- in code


def test_models_are_found_by_code_and_missed_with_a_hint():
    """`Models.of(world)` is how an agent's code gets the service."""
    scene = Scene(YES)
    assert Models.of(scene.world) is scene.models
    with pytest.raises(UsageError, match="has no models"):
        Models.of(World())


def test_a_plan_takes_nothing():
    """A plan says where a call would go and what it may take; nothing is called or set aside."""
    scene = Scene(f"{PRICED}  ceiling: 1\n")
    plan = scene.models.plan(scene.world.agents["asker"], ModelRequest((ChatMessage("user", "a door " * 50),)))
    assert plan.tokens == plan.input_tokens + 100
    assert 1000 * plan.input_tokens + 2000 * 100 <= plan.cost_micro < 10**6
    assert scene.models.spend.left_micro == 10**6


def test_the_summary_is_json_like():
    """What the run's table shows can be recorded."""
    scene = Scene(PRICED).run()
    summary = scene.models.summary()
    assert decode(encode(summary)) == summary
    assert summary["models"]["scripted:scripted"]["calls"] == 1
