"""What does not fit is refused before the run, in one sentence that says what to do."""

import pytest

from sim.base.errors import ScenarioError, UsageError
from sim.scenario import loads
from sim.scenario.assembly.kind_checks import check_families
from tests.agents.sop.company import JOBS, PEOPLE

STEPS = "steps: [{name: call, post: {text: called}}]"
STOCK = "pools: {stock: {kind: container, capacity: 5}}\n"
SOP = f"sop: {{procedures: {{call: {{title: call, {STEPS}}}}}}}\n"


def refused(text: str) -> str:
    """Return why a scenario is refused."""
    with pytest.raises((ScenarioError, UsageError)) as caught:
        check_families(loads(f"name: company\n{text}", "company.yaml"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (PEOPLE, "agents.clerk are employees, but there are no procedures"),
        (SOP + "agents: [{name: a, rules: [{do: stop}]}]", "procedures need an employee who follows them"),
        (SOP + PEOPLE.replace("  - {name: worker, kind: step_worker}\n", ""), "employees need a worker who does the"),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clark, sop: call, event: a}}}\n") + PEOPLE,
            "sop.watchers.w: 'clark' is not an employee",
        ),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: call, event: a, alone: true}}}\n") + PEOPLE,
            "sop.watchers.w looks alone, and no agent runs it",
        ),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: cal, event: a}}}\n") + PEOPLE,
            "company.yaml:2:6: sop: the watcher 'w' makes tasks of 'cal', which is no procedure",
        ),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: call, pool: stok}}}\n") + STOCK + PEOPLE,
            "sop.watchers.w: there is no pool 'stok'",
        ),
        (SOP.replace("post: {text: called}", "tool: orders.lokup") + PEOPLE, "there is no tool 'orders.lokup'"),
        (SOP.replace("post: {text: called}", "approval: may I") + PEOPLE, "needs a person who approves"),
        (SOP.replace("post: {text: called}", "model: {prompt: hi}") + PEOPLE, "asks a model, but there is none"),
        (SOP + PEOPLE.replace("interval: 5m", "assess: {}"), "agents.clerk asks a model in each cycle, but there is"),
        (
            SOP.replace("title: call,", "title: call, trigger: {event: a},")
            + PEOPLE.replace("name: clerk", "name: clerk\n    count: 2"),
            "sop.procedures.call has a trigger, and there are several employees",
        ),
        (SOP + PEOPLE + JOBS.replace("name: jobs", "name: jobs, count: 2"), "agents.jobs: a company has its jobs once"),
        (SOP + PEOPLE + JOBS.replace("summarise: null", "summary: '25:00'"), "25:00"),
        (SOP.replace("post: {text: called}", "post: {text: called}, tool: a.b") + PEOPLE, "the step 'call' must be"),
        (SOP.replace("text: called", 'text: "=nothing.here"') + PEOPLE, "nothing"),
        (SOP + PEOPLE.replace('"#desk"', "desk"), "agents[0].settings: a channel is a word after #, not 'desk'"),
        (SOP.replace("{pro", "{ops_channel: '# ops', pro") + PEOPLE, "sop: a channel is a word after #, not '# ops'"),
        (SOP.replace("{pro", "{alert_channel: '', pro") + PEOPLE, "sop: a channel is a word after #, not ''"),
        (SOP.replace("text: called", "text: a, channel: b") + PEOPLE, "steps[0].post: a channel is a word after #"),
        (
            SOP.replace("post: {text: called}", "action: publsh, args: {topic: a}") + PEOPLE,
            "sop.procedures.call.steps.call: there is no action 'publsh'",
        ),
        (
            SOP.replace("post: {text: called}", "action: publish, args: {topc: a}") + PEOPLE,
            "sop.procedures.call.steps.call: publish has no argument 'topc'",
        ),
        (SOP.replace("post: {text: called}", "action: publish") + PEOPLE, "publish needs the argument 'topic'"),
        (SOP.replace("post: {text: called}", "action: stop") + PEOPLE, "steps.call: stop would hold up its worker"),
        (SOP.replace("post: {text: called}", "model: {system: a}") + PEOPLE, "the step 'call' asks a model nothing"),
        (SOP.replace("text: called}", "text: called}, args: {a: 1}") + PEOPLE, "the step 'call' has `args`"),
        (SOP.replace("post: {text: called}", "wait: {time: 0s}") + PEOPLE, "company.yaml:2:"),
        (SOP.replace("}]", "}, {name: call, post: {text: a}}]") + PEOPLE, "two steps have the name 'call'"),
        (SOP.replace(STEPS, "steps: []") + PEOPLE, "a procedure has at least one step"),
        (SOP.replace("title: call,", "title: call, trigger: {message: a, where: 'true'},") + PEOPLE, "is for events"),
        (SOP.replace("title: call,", "title: call, agent: clark,") + PEOPLE, "sop.procedures.call: 'clark' is not an"),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: call, pool: desk}}}\n") + PEOPLE,
            "sop.watchers.w: there is no pool 'desk'",
        ),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: call}}}\n") + PEOPLE,
            "company.yaml:2:101: sop.watchers.w: a watcher looks at one thing",
        ),
        (
            "memory: {}\n" + SOP + PEOPLE.replace("5m", "5m, patterns: [{when: stats.cycles > 1, text: a, kind: obs}]"),
            "agents.clerk has memories of the kind 'obs', which `memory.kinds` lacks",
        ),
        (
            "memory: {}\n" + SOP + PEOPLE + JOBS.replace(", settings: {summarise: null}", ""),
            "agents.jobs has a model summarize memories, but there is none",
        ),
        (
            "agents: [{name: jobs, kind: recurring_jobs, settings: {summarise: null}}]",
            "agents.jobs runs the jobs of employees, but there are none",
        ),
        (SOP.replace("title: call,", "title: call, trigger: {},") + PEOPLE, "a trigger is an event or a message"),
        (
            SOP.replace("title: call,", "title: call, priority: urgent,") + PEOPLE,
            "priority must be a number, or an expression that starts with `=`, not 'urgent'",
        ),
        (
            SOP.replace("}}}\n", "}}, watchers: {w: {agent: clerk, sop: call, event: a, priority: high}}}\n") + PEOPLE,
            "sop.watchers.w: priority must be a number, or an expression that starts with `=`, not 'high'",
        ),
    ],
)  # fmt: skip
def test_it_is_refused(text: str, sentence: str) -> None:
    """Each contradiction between procedures, employees, workers, models and jobs has its sentence."""
    why = refused(text)
    assert sentence in why
    assert "\n" not in why
