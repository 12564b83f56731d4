"""What cannot happen in a scenario is reported by `sim check` and by a run, and what can happen is not."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sim
from sim.base.errors import RunError
from sim.runner import RunController
from sim.scenario import load, loads
from sim.scenario.assembly.build import build
from sim.scenario.never import never_happens
from tests.helpers import command

KEPT = ["keep", "drop"]
HEAD = "name: x\nuntil: 10s\n"
AGENT = "agents: [{name: a, count: 2, state: {n: 0}, rules: [{do: noop}]}]\n"
SHIPPED = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))


def of_rules(*rules: str) -> str:
    """Return a scenario whose agent has these rules."""
    return f"{HEAD}agents: [{{name: a, state: {{n: 0}}, rules: [{', '.join(rules)}]}}]\n"


NEVER = [
    (HEAD + AGENT + "events: [{at: 10s, topic: x}]", "events[0] is never published: it is first due at 10s"),
    (HEAD + AGENT + "events: [{at: 1h, every: 1s, topic: x}]", "first due at 1h, and the run ends at 10s"),
    (HEAD + AGENT + "interventions: [{at: 11s, publish: {topic: x}}]", "interventions[0] is never published"),
    (HEAD + AGENT + "interventions: [{at: 10s, set: {agents.a.state.n: 1}}]", "interventions[0] is never done"),
    (
        HEAD + AGENT + "models: {rules: [{say: hm}]}\ninterventions: [{at: 10s, survey: {questions: [How?]}}]",
        "interventions[0] is never asked",
    ),
    (HEAD + AGENT + "calendar: {start: 2026-03-02T08:00}\nevents: [{daily: '09:00', topic: x}]", "first due at 1h"),
    (of_rules("{do: noop}", "{when: n > 1, do: noop}"), "rules[1] is never chosen: rules[0] before it applies"),
    (of_rules("{when: 'true'}", "{when: n > 1}"), "rules[1] is never chosen"),
    (of_rules("{when: n > 1}", "{when: 1 == 1}", "{when: n > 2}"), "rules[2] is never chosen: rules[1]"),
    (of_rules("{when: 1 > 2}", "{do: noop}"), "rules[0] is never chosen: its condition is never true"),
    (of_rules("{when: n > 1, do: noop}", "{when: n > 1, do: stop}"), "rules[1] is never chosen: rules[0]"),
    (of_rules("{do: {sleep: {event: bell}}}"), "do.sleep: nothing in this file publishes the topic 'bell'"),
    (of_rules("{do: {sleep: {any: [{for: 1s}, {all: [{event: bell.*}]}]}}}"), "publishes the topic 'bell.*'"),
    (
        of_rules("{do: {get: {pool: p, or_event: bell}}}") + "pools: {p: {kind: store}}",
        "do.get: nothing in this file publishes the topic 'bell'",
    ),
    (HEAD + AGENT.replace("state", "subscribe: [bell], state"), "agents[0].subscribe: nothing in this file publishes"),
    (HEAD + AGENT + "metrics: {values: {n: published('bell')}}", "metrics.values.n: nothing in this file publishes"),
    (HEAD + AGENT + "metrics: {every: 1s}\nstop: {when: published('bell') > 1}", "stop.when: nothing in this file"),
    (HEAD + AGENT + "stop: {when: count('a') == 0}", "stop.when is checked at the start only"),
    (HEAD + AGENT.replace("state", "start: 10s, state"), "agents[0] never acts: it starts at 10s"),
    (HEAD + "agents: [{name: a, rules: [{}]}, {name: b, template: true, rules: [{}]}]", "agents[1] is never created"),
]  # fmt: skip

POSSIBLE = [
    HEAD + AGENT + "events: [{at: 9s, topic: x}, {at: end, topic: x}]",
    HEAD.replace("10s", "null") + AGENT + "events: [{at: 10h, topic: x}]",
    of_rules("{when: n > 1}", "{when: n > 2}", "{do: noop}"),
    of_rules("{when: chance(0.5), do: noop}", "{when: chance(0.5), do: stop}"),
    of_rules("{do: {sleep: {event: bell.*}}}") + "events: [{at: 1s, topic: bell.rings}]",
    of_rules("{when: n == 1, do: {sleep: {event: bell.3}}}", "{do: {publish: {topic: \"='bell.' + str(index)\"}}}"),
    of_rules("{when: n == 1, do: {sleep: {event: bell}}}", '{do: {publish: {topic: "=me"}}}'),
    of_rules("{do: {sleep: {event: '**'}}}"),
    of_rules("{do: {sleep: {event: pool.preempted}}}") + "metrics: {values: {n: published('task.*')}}",
]


@pytest.mark.parametrize(("text", "said"), NEVER)
def test_what_cannot_happen_is_reported(text: str, said: str) -> None:
    """Each is reported once, with its position in the file."""
    (problem,) = never_happens(loads(text))
    assert said in problem.message
    assert problem.line > 1


@pytest.mark.parametrize("text", POSSIBLE)
def test_what_can_happen_is_not_reported(text: str) -> None:
    """What may happen, or what the file alone does not tell, is no warning."""
    assert never_happens(loads(text)) == []


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_everything_in_the_shipped_scenarios_can_happen(file: Path) -> None:
    """No scenario of the gallery has a warning."""
    assert never_happens(load(file)) == []


CONDITIONS = [
    "'true'", "n > 1", "n % 2 == 0", "message is None", "message is not None", "message is not None and n % 2 == 0",
    "message is None or message.topic == 'a'", "messages == 0", "messages > 0", "message is None and messages == 0",
    "chance(0.5)", "1 > 2",
]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(CONDITIONS), st.booleans()), min_size=2, max_size=5), st.sampled_from(KEPT))
@example([("messages == 0", False), ("messages == 0", True), ("message is not None", True)], "keep")
@example([("n > 1", True), ("n > 1", False), ("'true'", True)], "drop")
@settings(max_examples=12, deadline=None)
def test_no_rule_that_is_chosen_was_reported(rules: list[tuple[str, bool]], unmatched: str) -> None:
    """Each rule gets the oldest message that it would use; also so, what is reported as never chosen never is."""
    does = []
    for place, (when, reads) in enumerate(rules):
        more = ", m: =message" if reads else ""
        does.append("{" + f"when: {when}, set: {{n: '=n + 1', hit: '=hit + [{place}]'{more}}}" + "}")
    text = f"""{HEAD}
agents:
  - name: a
    state: {{n: 0, m: 0, hit: []}}
    loop: {{min_loop_delay: 0.5s, unmatched: {unmatched}}}
    rules: [{", ".join(does)}]
  - name: b
    loop: {{min_loop_delay: 2s}}
    rules: [{{do: [{{send: {{to: a, topic: a}}}}, {{send: {{to: a, topic: b}}}}, {{send: {{to: a, topic: a}}}}]}}]
"""
    scenario = loads(text)
    reported = [problem.message for problem in never_happens(scenario) if "rules[" in problem.message]
    simulation = build(scenario)
    anyio.run(RunController(simulation, until_ns=scenario.end_ns, mode="autonomous").run)
    for place in {*simulation.world.agents["a"].state["hit"]}:
        assert not any(message.startswith(f"agents[0].rules[{place}] is") for message in reported), reported


def test_check_and_run_report_it(tmp_path: Path) -> None:
    """`sim check` lists warnings with their positions and accepts the file; a run prints and records them, for its own
    end, also if an option or a branch gives another one.
    """
    path = tmp_path / "late.yaml"
    path.write_text(HEAD + AGENT + "events: [{at: 11s, topic: x}]\n")
    code, printed, _ = command("check", path)
    assert (code, "1 warning" in printed, f"{path}:4:" in printed) == (0, True, True)
    code, printed, _ = command("check", path, "--json")
    (found,) = json.loads(printed)["scenarios"]
    assert (code, found["ok"], found["problems"]) == (0, True, [])
    assert [(one["line"], one["hint"] is not None) for one in found["warnings"]] == [(4, True)]

    code, _, told = command("run", path, "--out", tmp_path / "runs")
    assert (code, "sim: warning: events[0] is never published" in told) == (0, True)
    assert sim.run(path).never == ("events[0] is never published: it is first due at 11s, and the run ends at 10s",)
    assert sim.run(path, until="12s").never == ()


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("metrics: {values: {n: \"mean('a', 'name')\"}}", "metrics.values.n"),
        ("metrics: {values: {n: sqrt(0 - 1)}}", "metrics.values.n"),
        ('metrics: {values: {ok: now, n: "str(now)"}}', "metrics.values.n"),
        ("metrics: {every: 1s}\nstop: {when: \"mean('a', 'missing') > 1\"}", "stop.when"),
        ("metrics: {every: 1s}\nstop: {when: \"'x' + 1 > 1\"}", "stop.when"),
    ],
)
def test_what_fails_on_the_initial_states_is_refused(tmp_path: Path, more: str, where: str) -> None:
    """A metric or a stop condition that cannot be evaluated at the start ends the run, so `sim check` refuses it."""
    path = tmp_path / "fails.yaml"
    path.write_text(HEAD + AGENT.replace("{n: 0}", "{n: 0, name: ann, missing: null}") + more)
    code, printed, _ = command("check", path, "--json")
    (found,) = json.loads(printed)["scenarios"]
    (problem,) = found["problems"]
    assert (code, found["ok"], problem["message"].startswith(where)) == (2, False, True)
    assert problem["line"] > 3
    with pytest.raises(RunError):
        sim.run(path)


def test_a_metric_without_a_value_at_the_start_is_no_problem(tmp_path: Path) -> None:
    """A mean of agents that do not exist yet is null, and no reason to refuse the scenario."""
    path = tmp_path / "null.yaml"
    text: Any = HEAD + AGENT + "metrics: {values: {n: \"mean('a', 'n') / 0\", m: \"service('nothing', 'n')\"}}\n"
    path.write_text(text)
    assert command("check", path)[0] == 0
