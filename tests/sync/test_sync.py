"""Synchronised rounds: whatever rule says who may go on, the record of the run is that of the barrier's."""

import pytest

from sim.kernel.codec import encode
from tests.sync.sync_agents import ANYWHERE, EXACT, HEAD, assert_equal, scene, trial, walkers

ALL_SORTS = "{fails: 0.1, rests: 0.1, pays: 0.1, sleeps: 0.1, naps: 0.1, stops: 0.005}"
ROUGH = "balance: 5, loop: {max_consecutive_errors: 2, cool_down: 37s, max_loop_delay: 50s, max_restarts: 2}"
MIX = """
limits:
  posts: {agent: 3 per 1m, policy: block}
costs:
  publish: {posts: 1}
pools: {store: {kind: store}, slots: {kind: resource, slots: 2}}
events:
  - {at: 33s, every: 47s, topic: market.shock, data: 1}
metrics:
  every: 35s
  values: {heard: "total('reader', 'heard')", met: "total('w', 'met')", money: "balance('treasury')"}
"""
POLICIES = (
    """name: trader
    count: 3
    balance: 20
    state: {n: 0, said: ""}
    rules:
      - when: "n % 7 == 3"
        do: {ask: {prompt: "='how much? ' + str(n)"}}
        set: {n: "=n + 1", said: "=result.data.text"}
      - when: "n % 5 == 1"
        do: {publish: {topic: market.news, data: {n: "=n"}}}
        set: {n: "=n + 1"}
      - when: "balance > 2 and chance(0.7)"
        do: {transfer: {to: "=choice(['trader-1', 'trader-2', 'treasury'])", amount: "=round(uniform(0.1, 2), 2)"}}
        set: {n: "=n + 1"}
      - do: {sleep: {for: 25s}}
        set: {n: "=n + 1"}""",
    """name: reader
    count: 2
    subscribe: [market.*]
    state: {heard: 0}
    rules:
      - when: event is not None
        set: {heard: "=heard + 1"}
        do: {send: {to: trader-1, topic: t, data: "=heard"}}
      - do: {sleep: {event: market.*}}""",
)


@pytest.fixture(params=[1, pytest.param(5, marks=pytest.mark.proof)], ids=["a seed", "more seeds"])
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds that a scenario is run with under all rules; most of them are a proof."""
    return range(request.param)


@pytest.mark.proof
def test_walkers_that_see_each_other():
    """Agents that see each other, walk accordingly and ask models at random leave one record under all rules."""
    last = assert_equal(scene(walkers(), until="2m"), range(20))
    assert last.service["calls"] > 20


@pytest.mark.slow
def test_a_mix_of_all_that_there_is(seeds):
    """Beside walkers there are agents that publish, transfer, send, sleep, ask and stand in line, events that are
    injected, and sampled metrics: one record under all rules.
    """
    text = scene(walkers(5, "{pays: 0.1, rests: 0.1}", more="balance: 5"), *POLICIES, until="5m", more=MIX)
    last = assert_equal(text, seeds)
    kinds = last.result.kinds
    assert all(kinds.get(kind, 0) for kind in ("publish", "transfer", "send", "sleep", "ask", "walk", "rest")), kinds
    assert last.result.metrics["met"][-1] > 0


def test_a_stop_condition_ends_all_rules_at_one_moment(seeds):
    """A stop condition is looked at with nobody ahead of it, so it ends the run at the same moment under all rules."""
    more = MIX + "stop: {when: \"total('w', 'met') > 12\"}\n"
    last = assert_equal(scene(walkers(5), *POLICIES, until="20m", more=more), seeds)
    assert last.result.stopped_by is not None
    assert last.result.sim_seconds % 35 == 0


@pytest.mark.proof
@pytest.mark.parametrize(
    ("state", "more"),
    [
        ("{fails: 0.3}", "loop: {max_consecutive_errors: 2, cool_down: 37s, max_restarts: 1, max_loop_delay: 90s}"),
        ("{rests: 0.4}", ""),
        ("{stops: 0.05}", ""),
        ("{sleeps: 0.2}", ""),
        ("{naps: 0.2}", ""),
        ("{pays: 0.2}", "balance: 5"),
        ("{}", "start: '=uniform(0, 100)', loop: {min_loop_delay: 25s}"),
        (ALL_SORTS, ROUGH),
    ],
    ids=["fails", "rests", "stops", "sleeps", "naps", "pays", "starts", "all"],
)
def test_what_agents_do_beside_walking(state, more):
    """Backoff, a pause for errors and a crash, rest, stop, sleep, waits of the kernel in the middle of an iteration,
    actions on what all share, later starts: one record under all rules.
    """
    assert_equal(scene(walkers(7, state, more=more)), range(4))


ROLL_CALL = """name: caller
    rules:
      - when: chance(0.3)
        do: {send: {to: w, topic: t, data: 1}}
      - do: {publish: {topic: here.are, data: "=agents('w')"}}"""


@pytest.mark.proof
@pytest.mark.parametrize("state", ["{stops: 0.1}", "{fails: 0.4}", "{fails: 0.2, naps: 0.3, stops: 0.05}"])
def test_who_is_still_there_shows_alike(state):
    """Rules that ask who is there, or write to all, find no one gone who stops or crashes only later, ahead of them."""
    text = scene(
        walkers(6, state, more="loop: {max_consecutive_errors: 1, cool_down: 11s, max_restarts: 1}"), ROLL_CALL
    )
    last = assert_equal(text, range(5))
    assert last.result.states["stopped"] > 0


def test_each_agent_is_greeted_once_before_its_first_step(seeds):
    """`on_start`, which may ask models too, is a part of an agent's first step, whenever that is."""
    text = scene(walkers(5, kind="greeter", more="start: '=choice([0, 10, 25])'"))
    last = assert_equal(text, seeds)
    greeted = [agent.state["greeted"] for agent in last.runner.simulation.world.agents.values()]
    assert set(greeted) <= {0, 10, 30}


@pytest.mark.proof
def test_on_a_graph_distance_is_counted_in_hops():
    """A space without a size lies over `places`: what holds on a plane holds in hops."""
    ring = "places: {nodes: [" + ", ".join(f"n{i}" for i in range(12)) + "], edges: ["
    ring += ", ".join(f"[n{i}, n{(i + 1) % 12}]" for i in range(12)) + "]}\n"
    agents = walkers(6, kind="ringer").replace("'=[randint(0, 15), randint(0, 15)]'", "\"='n' + str(randint(0, 11))\"")
    text = scene(agents, more=ring).replace("size: [16, 16], perception: 3", "perception: 2")
    last = assert_equal(text, range(4))
    assert any(row[6] == "action.walk" and b'met":["' in encode(row[7]) for row in last.rows)


def test_partners_are_seen_wherever_they_are(seeds):
    """A declared partner is looked at across any distance, as it was when the step began, under all rules that know of
    partners.
    """
    partners = "partners: [w-1, w-2], state: {partners: [w-1, w-2], rests: 0.2}"
    text = scene(walkers(5).replace("state: {}", partners))
    last = assert_equal(text, seeds, ("sequential", "barrier", "causal"))
    assert last.runner.simulation.world.agents["w-5"].state["w-1"]


def test_a_rest_that_is_known_holds_nobody_up():
    """Of one that begins later it is known where it stands, so its neighbour does not wait for it; it waits itself."""

    def entry(name: str, plan: str, state: str = "") -> str:
        return f"{{name: {name}, kind: planner, position: [1, 1], state: {{plan: {plan}}}{state}}}"

    awake = trial(scene(entry("a", "[0, 3, 3]"), entry("b", "[9, 0, 0]"), until="30s"), "causal")
    late = trial(scene(entry("a", "[0, 3, 3]"), entry("b", "[9]", ", start: 30s"), until="40s"), "causal")
    assert awake.service["makespan"] == pytest.approx(2.5 * late.service["makespan"])  # 9 calls, then 6; 6 calls
    assert late.service["waiting"] == pytest.approx(late.service["makespan"] / 2)  # the mean of that and nothing


@pytest.mark.parametrize("limit", ["llm_calls: {agent: 3 per 1m", "llm_tokens: {agent: 100 per 1m"])
@pytest.mark.parametrize("policy", ["block", "skip"])
def test_agents_that_wait_for_their_own_limits(limit, policy, seeds):
    """A limit of each agent alone is waited for in its own time, also in the middle of a chain, and ends there."""
    assert_equal(scene(walkers(6, "{busy: 0.4}"), more=f"limits: {{{limit}, policy: {policy}}}}}\n"), seeds)


def test_budgets_and_prices_of_agents(seeds):
    """What each agent has for itself (a budget with a reset, a priced action) is spent alike under all rules."""
    more = "budgets: {llm_calls: {amount: 4, reset: 1m}}\nlimits: {steps: {agent: 3 per 1m, policy: block}}\n"
    more += "costs: {walk: {steps: 1}}\n"
    assert_equal(scene(walkers(6, "{busy: 0.4}", more=ROUGH), more=more), seeds)


@pytest.mark.slow
def test_rules_draw_while_they_run_ahead(seeds):
    """Rules of agents that share nothing draw by agent and iteration, and leave one record under all rules."""
    rules = '[{when: chance(0.5), do: {ask: {prompt: "=str(randint(1, 9))"}}}, {do: noop}]'
    text = scene(walkers(3), f"{{name: r, count: 3, position: {ANYWHERE}, rules: {rules}}}")
    last = assert_equal(text, seeds)
    assert last.result.errors == 0
    assert last.service["calls"] > 0


def trader(part: str, count: int) -> str:
    """Return an entry of agents that share."""
    return f"{{name: {part}, count: {count}, kind: trader, state: {{part: {part}}}}}"


@pytest.mark.proof
def test_lines_and_events_while_others_run_ahead():
    """Agents that stand in the lines of pools and wait for events, and let others go on in the middle of a tick, are
    served alike while walkers run ahead.
    """
    sharers = [trader(*part) for part in (("put", 2), ("get", 3), ("hold", 4), ("tell", 2), ("listen", 3))]
    more = "pools: {store: {kind: store}, slots: {kind: resource, slots: 2}}\n"
    assert_equal(scene(walkers(5), *sharers, more=more), range(3))


def test_what_happens_in_the_middle_of_a_tick_happens_then(seeds):
    """Who is let go on by one that acts in the middle of a tick goes on at that moment, not at the tick's start."""
    text = scene(trader("put", 2), trader("get", 3), more="pools: {store: {kind: store}}\n", until="10m")
    last = assert_equal(text, seeds)
    put = [row[0] for row in last.rows if row[6] == "action.put"]
    got = [row[0] for row in last.rows if row[6] == "action.get"]
    assert any(time % 10**10 for time in put)
    assert got == put[: len(got)]


@pytest.mark.slow
def test_actions_on_what_all_share_apply_in_the_order_of_agents(seeds):
    """However long their calls took, the actions of a tick apply in the order of the agents when all have decided."""
    last = assert_equal(scene("{name: c, count: 4, kind: counter}", walkers(3)), seeds)
    writers = [row[5] for row in last.rows if row[6] == "action.write"]
    assert writers == ["c-1", "c-2", "c-3", "c-4"] * 24


ASKING = """
name: asking
until: 10m
execution: {use_autonomous_loops: false, tick: {period: 10s}}
models:
  provider: simulated
  rules: [ANSWER]
  tools: {t: {description: t, parameters: {n: {type: number}}}}
  simulated: {server: {replicas: 1, slots: 2, decode_rate: 5}}
pools: {wood: {kind: container, level: 1000}}
agents:
  - name: ant
    count: 5
    state: {said: ""}
    rules:
      - do: {ask: {prompt: "=said + choice(['a', 'a long one, for which others have to wait'])"}}
        set: {said: "=result.data.text + str(len(result.data.calls))"}
  - {name: bee, count: 4, rules: [{when: chance(0.05), do: stop}, {do: {get: {pool: wood, amount: 3}}}]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        """{say: "=str(level('wood'))"}""",
        pytest.param("""{say: "=str(len(agents('bee')))"}""", marks=pytest.mark.proof),
        pytest.param("""{choose: [{say: a}, {say: b, weight: "=level('wood') % 7"}]}""", marks=pytest.mark.proof),
        pytest.param("""{when: "level('wood') > 990", say: many}, {say: few}""", marks=pytest.mark.proof),
        """{agent: ant-3, call: {t: {n: "=level('wood')"}}}, {agent: bee, say: "=str(level('wood'))"}, {say: a}""",
    ],
)
def test_an_answer_may_depend_on_what_all_share(answer, seeds):
    """Agents that ask a scripted model that looks at the world do not run ahead of what it looks at."""
    last = assert_equal(ASKING.replace("ANSWER", answer), seeds)
    assert last.service["calls"] > 100


@pytest.mark.proof
def test_who_shares_may_stand_among_walkers():
    """One that shares and stands in space is coupled to none that begins before all that is earlier has happened."""
    guard = f"{{name: g, count: 3, kind: counter, position: {ANYWHERE}}}"
    writers = "{name: c, count: 2, kind: counter}"
    assert_equal(scene(walkers(6, "{busy: 0.6}"), guard, writers).replace("perception: 3", "perception: 6"), range(4))


@pytest.mark.slow
@pytest.mark.parametrize("until", ["3m57s", "4m"])
@pytest.mark.parametrize("period", ["7s", "10s"])
def test_odd_ends_and_periods(until, period):
    """Neither the end of the run nor what agents sleep need be a multiple of the period."""
    text = scene(walkers(6, ALL_SORTS, more=ROUGH), until=until)
    last = assert_equal(text, range(2), overrides=(f"execution.tick.period={period}",))
    assert last.result.sim_seconds == (237 if until == "3m57s" else 240)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [*EXACT, "free"])
def test_backends_agree(rule):
    """asyncio and trio give one record and one makespan."""
    text = scene(walkers(5, ALL_SORTS, more=ROUGH), *POLICIES, more=MIX)
    one, other = trial(text, rule), trial(text, rule, backend="trio")
    assert (one.hash, one.service) == (other.hash, other.service)


@pytest.mark.parametrize("rule", [*EXACT, "free"])
def test_the_record_is_in_the_order_of_keys(rule):
    """Events are released in the order of their keys (time, delta, priority, source, counter)."""
    rows = trial(scene(walkers(6, ALL_SORTS, more=ROUGH), *POLICIES, more=MIX), rule).rows
    keys = [row[:5] for row in rows]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
def test_without_models_the_end_is_that_of_the_tick_mode(seeds):
    """A world of rules alone (transfers, sleeps, events, messages) comes to the same end as in ordinary ticks in which
    all decide first (`concurrency: parallel`).
    """
    policies = [policy.replace("n % 7 == 3", "n < 0") for policy in POLICIES]
    text = scene(*policies, until="10m", more=MIX.replace("total('w', 'met')", "total('trader', 'n')"))
    for rule in EXACT:
        for seed in seeds:
            assert trial(text, rule, seed).digest() == trial(text, "null", seed).digest()


@pytest.mark.slow
def test_what_is_shown_is_forgotten_when_nobody_can_look_any_more():
    """The past of those who have no encounters does not pile up until the end of a long run."""
    text = (
        HEAD.replace("UNTIL", "2h")
        + "agents:\n  - {name: w, count: 2, kind: walker, position: [1, 1], state: {busy: 0}}"
    )
    space = trial(text, "causal").runner.simulation.world.space
    assert space is not None
    assert all(len(history.versions) < 200 for history in space.histories.values())
