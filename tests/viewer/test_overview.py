import random
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim.events.coerce import figure
from sim.inspect.viewer.bins import Bins
from sim.inspect.viewer.sections import agents
from sim.kernel.codec import encode
from sim.record import RunHeader, RunRecorder, create_run, open_run
from sim.runner import Distribution
from tests.helpers import wait_until_durable
from tests.viewer.conftest import filled, overview_of, page_of, states

TOWN = """
name: town
seed: 5
until: 40m
limits:
  calls: {agent: 6 per 1m, global: 20 per 1m, policy: block}
budgets: {money: {amount: 50}}
costs: {publish: {calls: 1}, send: {money: 0.25}}
agents:
  - name: caller
    count: 3
    loop: {min_loop_delay: 5s}
    balance: 10
    rules:
      - when: chance(0.5)
        do: {publish: {topic: call.made}}
        record: {luck: "=uniform(0, 1)"}
      - when: chance(0.3)
        do: {send: {to: "=choice(['caller-1', 'caller-2', 'caller-3'])", topic: hello}}
      - when: chance(0.2)
        do: {transfer: {to: caller-1, amount: 4}}
      - do: {sleep: {for: 20s}}
metrics: {every: 1m, values: {calls: "usage('calls')"}}
"""


@given(end=st.integers(0, 10**18), share=st.floats(0, 1))
def test_each_time_lies_in_its_part(end, share):
    """Parts cover a run without gap: each time is in the part that begins at or before it, and before the next."""
    bins = Bins.until(end)
    time = int(bins.end_ns * share)
    part = bins.at(time)

    assert bins.begin(part) <= time
    assert part == bins.count - 1 or time < bins.begin(part + 1)
    assert bins.at(bins.end_ns) == bins.count - 1


@pytest.mark.slow
def test_the_report_counts_what_the_run_counted(ran):
    """Everything that the run summed up while it went on comes out of the record as well."""
    run = ran(TOWN)
    data, summary = overview_of(run), run.info.summary
    found = data["sections"]

    assert {kind["kind"]: kind["done"] for kind in found["events"]["actions"] if kind["done"]} == summary["kinds"]
    assert {kind["kind"]: kind["refused"] for kind in found["events"]["actions"] if kind["refused"]} == summary[
        "refused"
    ]
    assert data["numbers"]["wakeups"] == summary["wakeups"]
    assert data["numbers"]["messages"] == summary["messages"] == sum(row["sent"] for row in found["agents"]["rows"])
    assert data["numbers"]["agents"] == summary["agents"]
    assert data["numbers"]["events"] == run.info.events == sum(topic["total"] for topic in found["events"]["topics"])
    assert found["states"]["finals"] == {state: count for state, count in summary["states"].items() if count}
    curves = page_of(run).about["series"]["metrics"]
    assert {"time": curves["times"], **dict(zip(curves["names"], curves["values"], strict=True))} == summary["metrics"]
    (luck,) = found["outcome"]["observations"]
    assert luck["mean"] == summary["observations"]["luck"]["mean"]
    assert sum(luck["bars"]) == summary["observations"]["luck"]["n"]
    assert [row["name"] for row in found["agents"]["rows"]] == ["caller-1", "caller-2", "caller-3"]


def test_agents_are_in_one_state_at_a_time(ran):
    """In each part of the run the mean numbers of agents by state add up to the agents that were there."""
    data = overview_of(ran(TOWN))

    for part in zip(*data["sections"]["states"]["parts"].values(), strict=True):
        assert sum(part) == pytest.approx(3, abs=0.01)


def test_lanes_show_the_state_that_took_longest(stored):
    """A swimlane has one sign for each part: of the state the agent was in for most of it, none while it is away."""
    run = stored(
        states(
            "a", (10, "starting"), (10, "running"), (40, "sleeping"), (70, "running"), (80, "stopping"), (80, "stopped")
        )
    )
    (row,) = overview_of(run)["sections"]["agents"]["rows"]

    assert [row["lane"][int(2.4 * second)] for second in (5, 15, 35, 45, 65, 75, 85, 99)] == [*".rrssr.."]
    assert row["wakeups"] == 1
    assert row["state"] == "stopped"


def test_use_of_limits_is_what_the_tracker_says(ran):
    """What counts at the end is what the rate tracker of the run held, and no limit was ever passed."""
    run = ran(TOWN)
    used = run.info.digest["rates"]
    rates = {rate["scope"]: rate for rate in overview_of(run)["sections"]["limits"]["rates"]}
    published = run.info.summary["kinds"]["publish"]

    assert {scope: rate["total"] for scope, rate in rates.items()} == {
        "each agent": published,
        "all together": published,
    }
    assert all(0 < rate["peak"] <= 1 for rate in rates.values())
    # The last part of the run (10 s) is shorter than the window (1 min), and begins with more than it ends with.
    assert rates["all together"]["peaks"][-1] * 20 >= used["total"]["calls"] > 0
    assert rates["each agent"]["peak"] == 1.0  # policy: block
    assert any(share < 1 for share in rates["each agent"]["peaks"])


def test_budgets_are_added_up_by_agent(ran):
    """A budget shows who spent most of it, and what all spent."""
    run = ran(TOWN)
    (budget,) = overview_of(run)["sections"]["limits"]["budgets"]
    spent = run.info.digest["budgets"]["money"]

    assert budget["most"] * 1_000_000 == max(spent.values()) == spent[budget["agent"]]
    assert budget["total"] * 1_000_000 == sum(spent.values())


def test_a_steady_use_is_drawn_as_such(stored):
    """Six units in a minute of a limit of twelve, taken steadily, fill half of it from the first minute on."""
    scenario = "name: town\nlimits: {calls: {global: 12 per 1m}}\ncosts: {publish: {calls: 1}}\nagents: [{name: a}]\n"
    actions = [(t, "a", "action.publish", {"arguments": {}, "success": True}) for t in range(0, 600, 10)]
    run = stored([*states("a", (0, "running")), *actions], scenario=scenario, seconds=600)
    (rate,) = overview_of(run)["sections"]["limits"]["rates"]

    assert rate["total"] == 60
    assert set(rate["peaks"][24:]) == {0.5}  # of 240 parts of 2.5 s
    assert rate["limit"] == "12 per 1m"


def test_a_run_without_a_scenario_has_no_limits(stored):
    """What was recorded without a valid scenario is shown all the same, without what only the scenario knows."""
    data = overview_of(stored(states("a-1", (0, "running")), scenario="not: a scenario"))

    assert "limits" not in data["sections"]
    assert data["sections"]["agents"]["rows"][0]["group"] == "a"


def test_a_run_that_is_under_way_is_shown_so_far(tmp_path):
    """The overview of a run that has not ended, or was killed, goes up to its last event on record."""
    folder = create_run(
        tmp_path, RunHeader("town", 1, "autonomous", "asyncio"), "name: town\nquotas: {disk: 5}\nagents: [{name: a}]\n"
    )
    with RunRecorder(folder) as recorder:
        for number, (time, actor, topic, data) in enumerate(states("a", (0, "starting"), (50, "running"))):
            recorder.event((round(time * 10**9), 0, 0, 20, number, actor, topic, data, None))
        recorder.flush()
        wait_until_durable(recorder)
        with open_run(folder) as run:
            data = overview_of(run)

    assert (data["run"]["status"], data["end"], data["sections"]["states"]["finals"]) == (
        "running",
        50.0,
        {"running": 1},
    )
    (quota,) = data["sections"]["limits"]["quotas"]
    assert (quota["limit"], quota["most"], quota["total"]) == (5, None, None)  # not 0: the end would tell


@pytest.mark.slow
def test_of_many_agents_those_with_errors_are_shown(stored):
    """There is a row for up to so many agents; of more, those with errors and then the busiest are kept."""
    names = [f"a-{number}" for number in range(agents.MAX_ROWS + 50)]
    events = [event for name in names for event in states(name, (0, "running"))]
    events.append((1, names[-1], "agent.error", {"error": "ValueError: no"}))
    events += [(2, names[-2], "said", None)] * 3
    data = overview_of(stored(events))

    shown = [row["name"] for row in data["sections"]["agents"]["rows"]]
    assert len(shown) == agents.MAX_ROWS
    assert data["sections"]["agents"]["total"] == len(names)
    assert shown[-2:] == names[-2:]


def test_a_message_counts_for_both(stored):
    """Who sent a message and who got it both have it in their row."""
    message = {"sender": "a", "to": "b", "topic": "hello", "data": 1}
    run = stored([*states("a", (0, "running")), *states("b", (0, "running")), (1, "a", "message.sent", message)])
    a, b = overview_of(run)["sections"]["agents"]["rows"]

    assert (a["sent"], a["received"], b["sent"], b["received"]) == (1, 0, 0, 1)


@pytest.mark.parametrize(("groups", "grouped", "nodes"), [(5, True, 5), (1, False, 64)])
def test_graphs_of_many_agents(stored, groups, grouped, nodes):
    """More agents than a circle has room for are drawn by group; if there are hardly any groups, the busiest are."""
    names = [f"g{number % groups}-{number}" for number in range(100)]
    chance = random.Random(1)
    sent = [
        (1, one, "message.sent", {"sender": one, "to": chance.choice(names), "topic": ""})
        for one in names
        for _ in "12"
    ]
    (graph,) = overview_of(stored([event for name in names for event in states(name, (0, "running"))] + filled(sent)))[
        "sections"
    ]["graph"]

    assert graph["grouped"] is grouped
    assert len(graph["nodes"]) == nodes
    assert graph["total"] == 200
    if grouped:
        assert sum(count for _, _, count in graph["edges"]) == 200


def test_errors_of_many_agents_are_one(stored):
    """Errors that differ in nothing but the agent's name are counted together; the gravest stand first."""
    events: list[Any] = [(n, f"agent-{n}", "agent.error", {"error": f"agent-{n}: no money"}) for n in range(1, 6)]
    events.append((9, "watch", "alert.heartbeat_missed", {"agent": "agent-1"}))
    events.append((9, "agent-1", "action.send", {"success": False, "error": "nobody"}))
    errors = overview_of(stored(filled(events)))["sections"]["errors"]

    assert [(row["kind"], row["count"]) for row in errors["rows"]] == [("alert", 1), ("error", 5), ("refused", 1)]
    assert (errors["rows"][1]["first"], errors["rows"][1]["last"], errors["rows"][1]["agent"]) == (
        1,
        5,
        "agent-1",
    )


def test_an_agent_has_errors_only_for_its_faults(stored):
    """Errors of an agent are crashes, alerts, errors and failed calls; not refusals, pauses or unread messages."""
    events: list[Any] = [
        *states("a", (0, "running"), (1, "paused")),
        (2, "a", "action.send", {"success": False, "error": "nobody"}),
        (3, "a", "mailbox.dead_letters", {"count": 4}),
        *states("b", (0, "running")),
        (4, "b", "agent.error", {"error": "ValueError: no"}),
        (5, "b", "agent.crashed", {"errors": 1}),
        (6, "b", "model.call", {"error": "rate_limit", "message": "slow down"}),
        (7, "watch", "alert.heartbeat_missed", {"agent": "b"}),
    ]
    data = overview_of(stored(filled(events)))["sections"]

    assert [(row["name"], row["errors"]) for row in data["agents"]["rows"]] == [("a", 0), ("b", 4)]
    assert sum(row["count"] for row in data["errors"]["rows"]) == 10


def test_alerts_of_any_type_are_listed(stored):
    """An alert is one by its topic: also one of a package, of another version, and one whose data are no object."""
    events: list[Any] = [
        (1, "watch", "alert.disk", {"agent": "a", "left": 3}),
        (2, "watch", "alert.disk.full", ["b"]),
        (3, "watch", "alert.lock_held", {"agent": "c"}),
    ]
    data = overview_of(stored(events))["sections"]["errors"]
    assert [(row["kind"], row["agent"], row["text"].split()[0]) for row in data["rows"]] == [
        ("alert", "a", "disk"), ("alert", "watch", "disk.full"), ("alert", "c", "lock_held"),
    ]  # fmt: skip


UNREAD = """
name: flood
until: 1m
agents:
  - name: sender
    loop: {min_loop_delay: 1s}
    rules: [{do: {send: {to: slow, topic: order}}}]
  - name: slow
    loop: {min_loop_delay: 1h, mailbox_size: 2, mailbox_policy: drop_oldest}
    rules: [{do: noop}]
"""


def test_what_the_summary_warns_of_is_in_the_overview(ran):
    """Lost and unread messages are as many as the summary says, and its warnings are there."""
    run = ran(UNREAD)
    summary, data = run.info.summary, overview_of(run)
    unread = {True: 0, False: 0}
    for row in summary["unread"]:
        unread[row["why"] == "waiting"] += row["count"]
    numbers = data["numbers"]

    assert numbers["lost"] == summary["dropped"] > 0
    assert (numbers["waiting"], numbers["unread"]) == (unread[True], unread[False])
    assert sum(unread.values()) > 0
    assert data["run"]["warnings"] == []


def test_warnings_are_in_the_overview(tmp_path):
    """The warnings of a run are there as text, with the name of the run for its folder."""
    folder = create_run(tmp_path, RunHeader("town", 1, "autonomous", "asyncio"), "name: town\n")
    with RunRecorder(folder) as recorder:
        recorder.finish("finished", {}, 0, {"warnings": [{"text": f"see {folder}", "hint": "look"}]})
    with open_run(folder) as run:
        assert overview_of(run)["run"]["warnings"] == [f"see {run.info.id}"]


def test_numbers_as_large_as_floats_have_a_distribution(stored):
    """Observed numbers near the largest float have a mean and bars; a whole number beyond it is no number."""
    observed = [1.5e308, 1.7e308, -1.7e308, 1.5e308, 10**400]
    (one,) = overview_of(stored([(n, "a", "observation", {"name": "x", "value": v}) for n, v in enumerate(observed)]))[
        "sections"
    ]["outcome"]["observations"]

    assert (one["n"], one["minimum"], one["maximum"], one["median"]) == (4, -1.7e308, 1.7e308, 1.5e308)
    assert one["mean"] == pytest.approx(0.75e308)
    assert one["p95"] == pytest.approx(1.67e308)
    assert sum(one["bars"]) == 4
    assert (figure(10**400), figure(-(10**400)), figure(10**300)) == (None, None, 10**300)
    wide = Distribution.of(array("d", [-1.7e308, 1.7e308]))
    assert (wide.mean, wide.median, wide.deviation) == (0.0, 0.0, None)


def test_unknown_tokens_are_not_none_used(stored):
    """A model whose calls say nothing of tokens has no number of them; one that used none has 0."""
    call = {"provider": "p", "use": "agent", "seconds": 1.0}
    run = stored(
        filled(
            [
                (1, "a", "model.call", call | {"model": "silent"}),
                (2, "a", "model.call", call | {"model": "told", "input_tokens": 0}),
            ]
        )
    )
    silent, told = overview_of(run)["sections"]["models"]["models"]

    assert "input_tokens" not in silent
    assert told["input_tokens"] == 0


SURVEYED = """
name: town
until: 100s
models: {rules: [{say: "yes"}]}
agents:
  - {name: old, count: 2}
  - {name: young, count: 2}
metrics: {every: 10s, values: {known: "count('old')"}}
interventions:
  - name: vote
    at: 10s
    every: 50s
    survey: {questions: [{ask: Closed?, options: ["yes", "no"]}, {ask: How sure?, scale: [1, 7]}]}
outcomes:
  closed: {value: "share(vote, yes)", label: For closing}
  sure: {value: "mean_answer(vote, question=2)", label: Sureness, unit: points}
  most: {value: "max(known)"}
"""


def answer(time: float, agent: str, question: str, value: Any, **others: Any) -> tuple[float, str, str, Any]:
    """Return the event of an answer to the survey `vote`; without a value it is missing."""
    error = None if value is not None else "no answer in the form"
    told = {
        "survey": "vote",
        "agent": agent,
        "question": question,
        "answer": str(value),
        "value": value,
        "error": error,
    }
    return (time, f"survey:{agent}", "survey.answer", told | others)


def test_surveys_have_shares_by_time_and_group(stored):
    """Each question has a row for all and for each group at each time: answers, missing ones, and what was chosen."""
    answers = [
        answer(10, "old-1", "Closed?", "no"), answer(10, "old-2", "Closed?", None),
        answer(10, "young-1", "Closed?", "yes"), answer(60, "old-1", "Closed?", "yes"),
        answer(60, "young-1", "Closed?", "yes"), answer(10, "old-1", "How sure?", 2),
        answer(10, "young-1", "How sure?", 5), answer(60, "old-1", "How sure?", None),
    ]  # fmt: skip
    closed, sure = overview_of(stored(filled(answers), scenario=SURVEYED))["sections"]["surveys"]["questions"]
    rows = [(row["time"], row["group"], row["answers"], row["missing"], row["counts"]) for row in closed["rows"]]
    assert closed["options"] == ["yes", "no"]
    assert rows == [
        (10, "", 3, 1, [1, 1]), (10, "old", 2, 1, [0, 1]), (10, "young", 1, 0, [1, 0]),
        (60, "", 2, 0, [2, 0]), (60, "old", 1, 0, [1, 0]), (60, "young", 1, 0, [1, 0]),
    ]  # fmt: skip
    means = [(row["time"], row["group"], row["missing"], row["mean"]) for row in sure["rows"]]
    assert means == [(10, "", 0, 3.5), (10, "old", 0, 2), (10, "young", 0, 5), (60, "", 1, None), (60, "old", 1, None)]
    assert (closed["form"], sure["form"]) == ("an option", "a whole number from 1 to 7")
    assert (closed["uses"], sure["uses"]) == (
        ["For closing: share(vote, yes)"],
        ["Sureness (points): mean_answer(vote, question=2)"],
    )


def test_surveys_agree_with_the_summary(ran):
    """The answers and shares of a run are those that its result has."""
    run = ran(SURVEYED)
    (closed, _), summary = overview_of(run)["sections"]["surveys"]["questions"], run.info.summary["surveys"]
    last = [row for row in closed["rows"] if row["group"] == ""][-1]
    assert (last["answers"], last["missing"]) == (summary[0]["answers"], summary[0]["missing"]) == (4, 0)
    assert summary[0]["shares"] == {"yes": 1.0, "no": 0.0}
    assert last["counts"] == [4, 0]


def test_a_run_without_surveys_has_no_section(ran):
    """A run without a survey has no section about surveys: no table of zeros."""
    assert "surveys" not in overview_of(ran(TOWN))["sections"]


def test_very_many_times_and_answers_are_bounded_and_counted(stored, monkeypatch):
    """Of more times, options and groups than there is room for, the page says how much is left out."""
    monkeypatch.setattr("sim.inspect.viewer.sections.surveys._TIMES", 3)
    monkeypatch.setattr("sim.inspect.viewer.sections.surveys._OPTIONS", 2)
    monkeypatch.setattr("sim.inspect.viewer.sections.surveys._GROUPS", 2)
    answers = [answer(time, f"g{time}-1", "Else?", f"option {time}") for time in range(5)]
    (asked,) = overview_of(stored(filled(answers)))["sections"]["surveys"]["questions"]
    assert asked["left"] == 2
    assert asked["options"] == ["option 0", "option 1", "(others)"]
    assert {row["group"] for row in asked["rows"]} == {"", "g0", "g1", "(other groups)"}


def test_metrics_have_what_they_are(ran):
    """Each metric has its expression, and the outcomes that the scenario makes of it."""
    about = overview_of(ran(SURVEYED))["sections"]["outcome"]["about"]
    assert about == {"known": {"is": "count('old')", "uses": ["most: max(known)"]}}


@pytest.mark.parametrize(("mode", "tick"), [("tick", 20.0), ("autonomous", None)])
def test_ticks_are_there_in_tick_mode(ran, mode, tick):
    """The time between ticks is known in tick mode, and there are none in another."""
    data = overview_of(ran(f"{TOWN}execution: {{tick: {{period: 20s}}}}", mode=mode))
    assert data["run"]["tick"] == tick


def test_model_calls_are_added_up(stored):
    """Calls, tokens, cost and latency are there by model, and the cost as it grew."""
    call: dict[str, Any] = {
        "provider": "openai",
        "model": "m",
        "use": "agent",
        "input_tokens": 90,
        "output_tokens": 10,
        "attempts": 1,
    }
    events = [(10 * n, "a", "model.call", call | {"cost_micro": 500_000, "seconds": float(n)}) for n in range(1, 5)]
    events.append((60, "a", "model.call", call | {"error": "rate_limit", "message": "slow down"}))
    events.append((60, "a", "model.attempt", {"outcome": "rate_limit"}))
    data = overview_of(stored(filled([*states("a", (0, "running")), *events])))
    (model,) = data["sections"]["models"]["models"]

    assert (model["calls"], model["failed"], model["cost"], model["input_tokens"]) == (4, 1, 2.0, 450)
    assert data["sections"]["models"]["spent"][-1] == 2.0
    assert data["sections"]["models"]["tries"] == {"rate_limit": 1}
    assert model["seconds"]["maximum"] == 4.0
    assert data["sections"]["errors"]["rows"][0]["text"] == "rate_limit: slow down"


TOPICS = (
    "agent.state", "message.sent", "ledger.transferred", "metric.sample", "observation", "model.call", "model.attempt",
    "action.publish", "agent.error", "agent.crashed", "alert.x", "mailbox.dead_letters", "agent.spawned",
    "gate.pending", "gate.used", "user.created", "conversation.started", "conversation.message",
    "conversation.revised", "conversation.summarized", "channel.post", "task.created", "task.updated", "survey.answer",
)  # fmt: skip
FORGED: list[Any] = [
    None, 1, "text", [], [1], {}, {"from": "nowhere", "to": {}}, {"sender": [], "to": 3, "value": "x", "name": {}},
    {"cost_micro": "many", "seconds": [], "input_tokens": -5, "success": True, "count": None, "error": {}, "a": True},
]  # fmt: skip


def test_gates_are_followed_to_their_end(stored):
    """Each gate has a row with its last status, how long it waited, and who decided; the latest is first."""
    asked = {"agent": "a", "tool": "shop.refund", "arguments_hash": "0", "expires_ns": 90 * 10**9, "reason": "much"}
    run = stored(filled([
        (1, "a", "gate.pending", {"gate": "gate-1", **asked}),
        (2, "a", "gate.pending", {"gate": "gate-2", **asked}),
        (4, "a", "gate.approved", {"gate": "gate-1", "by": "eve", "note": "fine"}),
        (4, "a", "gate.used", {"gate": "gate-1"}),
        (5, "a", "gate.refused", {"gate": "gate-1", "by": "a", "reason": "gate-1 is used"}),
        (6, "a", "gate.denied", {"gate": "gate-9"}),
    ]))  # fmt: skip
    found = overview_of(run)["sections"]["gates"]
    assert (found["total"], found["counts"]) == (2, {"pending": 1, "used": 1})
    second, first = found["rows"]
    assert (second["gate"], second["status"], second["waited"]) == ("gate-2", "pending", None)
    assert (first["status"], first["waited"], first["by"], first["note"]) == ("used", 3, "eve", "fine")


def test_tasks_are_followed_to_their_end(stored):
    """Each task has a row with its last status and agent; open ones are first; late ones are marked."""
    run = stored(filled([
        (1, "a", "task.created", {"id": 1, "title": "one", "status": "pending", "assignee": "a"}),
        (2, "a", "task.created", {"id": 2, "title": "two", "status": "pending", "assignee": None}),
        (3, "", "task.overdue", {"id": 2, "status": "pending", "assignee": "b"}),
        (4, "a", "task.completed", {"id": 1, "status": "done", "word": "completed", "assignee": "a"}),
    ]))  # fmt: skip
    found = overview_of(run)["sections"]["tasks"]
    assert (found["total"], found["counts"]) == (2, {"completed": 1, "pending": 1})
    two, one = found["rows"]
    assert (two["title"], two["agent"], two["ended"], two["late"]) == ("two", "b", None, True)
    assert (one["status"], one["ended"], one["late"]) == ("completed", 4, False)


def test_channels_have_their_latest_posts(stored):
    """Each channel has the number of its posts, and the latest ones with their lines."""
    posts = [(n, "a", "channel.post", {"channel": "#ops", "author": "A", "text": f"{n}\nmore"}) for n in range(60)]
    (channel,) = overview_of(stored(posts))["sections"]["channels"]
    assert (channel["name"], channel["total"], len(channel["posts"])) == ("#ops", 60, 50)
    assert channel["posts"][-1]["text"] == ["59", "more"]


def test_forged_events_break_nothing(stored):
    """Agents can publish under every topic: data that is not as it should be is passed over or shown as it is."""
    scenario = "name: town\nlimits: {calls: {global: 12 per 1m}}\ncosts: {publish: {calls: 1}}\nagents: [{name: a}]\n"
    events = [(1, "a", topic, data) for topic in TOPICS for data in FORGED]
    data = overview_of(stored([*states("a", (0, "running")), *events], scenario=scenario))

    assert data["sections"]["states"]["finals"] == {"running": 1}
    assert data["numbers"]["events"] == len(events) + 1
    assert encode(data)


class ManyKinds(sim.Agent):
    """Does one piece of work outside of each of 203 kinds."""

    async def decide_action(self) -> sim.Action:
        """Do them all, then sleep to the end."""

        async def work(request: Any, key: str) -> int:
            return 1

        for number in range(203):
            await sim.perform(sim.Effect(f"kind{number}", {}, work, latency_ns=1, safety="pure"))
        return sim.Action("sleep", {"for": "1h"})


@pytest.mark.slow
def test_kinds_of_effects_that_are_left_out_are_counted(ran):
    """A table of effects that is cut says how many of its rows are left out."""
    text = "name: many\nuntil: 1m\nagents: [{name: a, kind: many}]\n"
    effects = overview_of(ran(text, kinds={"many": ManyKinds}))["sections"]["effects"]
    assert (len(effects["kinds"]), effects["left_out"]) == (200, 3)
    assert effects["kinds"][0].keys() >= {"kind", "count", "longest"}
