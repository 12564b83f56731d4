"""Properties of scenarios: each form finds what it forbids, and a run without `sim test` pays nothing for them."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest

import sim
from sim.base.errors import UsageError
from sim.experiments.testing.cases import Case
from sim.experiments.testing.trial import CaseJob, ScenarioUnderTest, read_subject, run_case
from sim.scenario import loads
from tests.testing.scenarios import OFFICE

FILED = 'within: 5s, then: {event: work.filed, where: "data.n == first.data.n and data.by == first.source"}'

FORMS: list[tuple[str, str | None, float | None, str]] = [
    # the property, how it is violated (None: it is not), when, and of whom
    ("{always: \"count('worker') == 2\"}", None, None, ""),
    ("{always: \"total('worker', 'n') < 11\"}", "not true", 5, ""),
    ('{always: "n < 7", each: worker}', "not true", 6, "worker-1"),
    ("{never: \"level('tank') < 4\"}", "true", 40, ""),
    ("{never: \"balance < 0\", each: payer}", None, None, ""),
    ('{never: "balance == 10", each: payer}', "true", 0, "payer"),
    ("{eventually: \"level('tank') == 3\"}", None, None, ""),
    ("{eventually: \"level('tank') == 3\", within: 30s}", "unmet", 30, ""),
    ('{eventually: "n == 31", each: worker}', "unmet", 60, "worker-1"),
    (f"{{after: {{event: work.made}}, {FILED}}}", "late", 25, "worker-1"),
    (f'{{after: {{event: work.made, where: "data.n < 20"}}, {FILED}}}', None, None, ""),
    ("{after: \"level('tank') < 5\", within: 5s, then: \"level('tank') == 5\"}", "late", 45, ""),
    ('{after: "n == 3", within: 10s, then: "n == 8", each: worker}', None, None, ""),
    ("{count: {event: work.made}, at_least: 60, at_most: 60}", None, None, ""),
    ("{count: {event: work.made, where: \"data.n > 3\"}, at_most: 10}", "too many", 9, "worker-1"),
    ("{count: {event: work.lost}, at_least: 1}", "too few", 60, ""),
    ("{blocked: 20s}", "blocked", 20, "sitter-2"),
    ("{blocked: 20s, each: worker}", None, None, ""),
    ("{idle: 25s, each: drinker}", None, None, ""),
    ("{idle: 15s, each: drinker}", "idle", 15, "drinker"),
    ("{conserved: money()}", None, None, ""),
    ("{conserved: \"balance('bank')\"}", "changed", 0, ""),
    ("{conserved: \"level('tank')\", tolerance: 4}", None, None, ""),
    ("{metric: made, at_least: 0, at_most: 60}", None, None, ""),
    ("{metric: made, at_most: 50}", "too high", 30, ""),
    ("{metric: full, at_least: 4}", "too low", 50, ""),
    ("{always: \"gini('payer', 'x') > 0\"}", None, None, ""),  # no value is not 0
]  # fmt: skip


def outcome_of(properties, case=None):
    """Return the result of one run of the office with these properties."""
    scenario = ScenarioUnderTest(f"{OFFICE}properties: {{{properties}}}\n", "office.yaml")
    return run_case(CaseJob(scenario, case or Case(0)))


@pytest.fixture(scope="module")
def result():
    """One run with all properties."""
    found = outcome_of(", ".join(f"p{number}: {form[0]}" for number, form in enumerate(FORMS) if "gini" not in form[0]))
    assert found.problem is None, found.problem
    return found


@pytest.mark.parametrize("number", [n for n, form in enumerate(FORMS) if "gini" not in form[0]])
def test_each_form_finds_what_it_forbids(result, number):
    """A violated property has its kind, time and agent, and a story that ends by then; a kept one has no violation."""
    _, kind, time, agent = FORMS[number]

    violation = result.violation_of(f"p{number}")

    if kind is None:
        assert violation is None
        return
    assert violation is not None
    assert (violation.kind, violation.time, violation.agent) == (kind, time, agent)
    assert violation.entry == agent.partition("-")[0]
    assert len(violation.story) <= 8


def test_a_property_without_a_value_is_not_judged():
    """An expression without a value neither holds nor does not: it is told that no run could judge it."""
    text = OFFICE.replace("state: {n: 0}", "state: {n: 0, x: null}")
    subject = ScenarioUnderTest(f"{text}properties: {{p: {{always: \"mean('worker', 'x') > 0\"}}}}\n", "office.yaml")

    found = run_case(CaseJob(subject, Case(0)))

    assert (found.problem, found.violations, found.judged) == (None, (), {"p": 0})


def test_what_cannot_be_decided_by_the_end_is_no_violation():
    """An answer that is due after the end of the run is neither late nor in time: it is counted."""
    found = outcome_of("p: {after: {event: work.made}, within: 50s, then: {event: work.lost}}")

    assert found.violation_of("p").time == 50
    found = outcome_of('p: {after: {event: work.made, where: "data.n > 25"}, within: 50s, then: {event: work.lost}}')
    assert (found.violations, found.undecided) == ((), {"p": 8})


def violations_of(text, **given):
    """Return kind and time of the violations in one run of a scenario."""
    found = run_case(CaseJob(ScenarioUnderTest(text, "x.yaml", **given), Case(0)))
    assert found.problem is None, found.problem
    return {one.property: (one.kind, one.time) for one in found.violations}


def test_an_answer_at_the_same_instant_is_one():
    """What happens at the instant at which an expression becomes true follows it, whatever came first."""
    found = violations_of("""
name: same
until: 10s
agents:
  - name: a
    state: {n: 0, phase: open}
    loop: {min_loop_delay: 1s}
    rules:
      - {when: n == 3, do: {publish: {topic: announced}}, set: {phase: done, n: 4}}
      - {set: {n: "=n + 1"}}
properties:
  told: {after: "state_of('a', 'phase') == 'done'", within: 2s, then: {event: announced}}
  asked: {after: "state_of('a', 'phase') == 'done'", within: 2s, then: {event: answered}}
""")
    assert found == {"asked": ("late", 5)}


def test_what_is_due_at_the_end_is_not_late():
    """The end is no part of a run: what could still have happened at it is undecided, and an hour is not longer."""
    found = violations_of("""
name: ends
until: 10s
pools: {desk: {kind: resource, slots: 1}}
agents:
  - {name: a, rules: [{when: "holds('desk') == 0", do: {acquire: {pool: desk}}}, {do: {sleep: {for: 1h}}}]}
  - {name: b, start: 1s, rules: [{do: {acquire: {pool: desk}}}]}
properties: {nine: {blocked: 9s}, eight: {blocked: 8s}, idle: {idle: 10s}}
""")
    assert found == {"eight": ("blocked", 9)}


def test_agents_of_a_table_belong_to_two_groups(tmp_path):
    """A property of an entry is about all its agents, also about those whose row names a group of their own."""
    (tmp_path / "people.csv").write_text("name,group,age\nana,north,34\n")
    (tmp_path / "x.yaml").write_text("""
name: rows
until: 10s
agents: [{name: person, table: people.csv, loop: {min_loop_delay: 1s}, rules: [{set: {age: "=age + 1"}}]}]
properties:
  young: {always: age < 40, each: person}
  northern: {always: age < 40, each: north}
  busy: {idle: 5s, each: person}
""")
    subject = read_subject(tmp_path / "x.yaml")
    found = run_case(CaseJob(subject, Case(0)))
    assert {one.property: one.time for one in found.violations} == {"young": 5, "northern": 5}

    (tmp_path / "people.csv").write_text("name,group,age\nana,north,4\n")
    assert not run_case(CaseJob(read_subject(tmp_path / "x.yaml"), Case(0))).violations, "the table has changed"


def test_states_that_an_intervention_sets_are_seen():
    """A property of each agent sees what changes its state from outside, when the agent itself does nothing."""
    found = violations_of("""
name: outside
until: 10s
agents: [{name: a, count: 2, state: {x: 0}, rules: [{do: {sleep: {for: 100s}}}]}]
interventions: [{at: 2s, agents: a, set: {agents.a.state.x: 99}}]
properties: {low: {always: x < 5, each: a}, high: {eventually: x > 5, each: a}}
""")
    assert found == {"low": ("not true", 2)}


def test_an_expression_that_fails_is_a_violation():
    """A property that cannot be evaluated in a run says so, and hides no other one."""
    found = outcome_of("p: {always: \"sorted([1, 'a'])[0] > 0\"}, q: {idle: 1s}")
    assert {one.property: one.kind for one in found.violations} == {"p": "error", "q": "idle"}


def test_the_hash_is_the_same_with_properties_and_when_they_are_checked():
    """Properties change nothing: neither their presence in a file, nor a run in which they are checked."""
    hashes = {
        sim.run(loads(OFFICE)).hash,
        sim.run(loads(f"{OFFICE}properties: {{p: {{blocked: 1s}}}}")).hash,
        outcome_of('p: {blocked: 1s}, q: {always: "n < 5", each: worker}').hash,
    }
    assert len(hashes) == 1


_CORE = ("actors", "agents", "base", "events", "resources", "scenario", "world")


def _calls(text: str) -> int:
    """Return how many functions of the core a run of a scenario calls. Those of the edge depend on real time."""
    scenario, count = loads(text), 0
    sim.run(scenario)  # what is imported and compiled at the first use
    core = tuple(str(Path(sim.__file__).parent / name) for name in _CORE)

    def tell(frame: Any, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(core)

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        sim.run(scenario)
    finally:
        sys.setprofile(before)
    return count


def test_a_run_pays_nothing_for_properties():
    """A run of a file with properties calls exactly as many functions as one of a file without."""
    with_properties = OFFICE + "properties:\n" + "\n".join(f"  p{n}: {form[0]}" for n, form in enumerate(FORMS[:-1]))

    without = _calls(OFFICE)

    assert without > 1000
    assert _calls(with_properties) == without


@sim.property
def nobody_rich(world):
    """A property in a module."""
    assert world.balance("payer") < 20, f"payer has {world.balance('payer'):g}"
    return True


@sim.property(form="eventually", name="pays")
def pays_all(world):
    """A property that is met."""
    return world.balance("payer") == 0


def _word(*words: Any, plain: Any) -> Any:
    return words[0]


def test_functions_are_properties(tmp_path):
    """A function with `@sim.property` is checked, in a program or named by a file whose module is allowed."""
    path = tmp_path / "office.yaml"
    path.write_text(OFFICE)
    report = sim.test(path, seeds=1, orders=0, properties=[nobody_rich, pays_all])
    assert [(one.violation.property, one.violation.text.partition("\n")[0]) for one in report.violations] == [
        ("nobody_rich", "payer has 20")
    ]
    assert report.properties == ("nobody_rich", "pays")

    path.write_text(f"{OFFICE}properties: {{p: {{check: '{__name__}:nobody_rich'}}}}")
    with pytest.raises(UsageError, match="not allowed"):
        sim.test(path, seeds=1, orders=0)
    report = sim.test(path, seeds=1, orders=0, allow=[__name__])
    assert [one.violation.at_start for one in report.violations] == [True]
    with pytest.raises(UsageError, match="always, never or eventually"):
        sim.property(form=_word("sometimes", plain=True))
    with pytest.raises(UsageError, match="the world alone"):
        sim.property(cast(Any, _word))
