"""Steps: each kind, what fails, what waits, and what somebody ends meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.actors import Agent
from sim.world.world import World
from tests.agents.sop.company import PEOPLE, Company, company, inside

START = "events: [{at: 1s, topic: rung, data: {id: 7}}]\n"


def done(folder: Path, steps: str, rest: str = "", people: str = PEOPLE, until: str = "2h", **options: Any) -> Company:
    """Run one task of some steps."""
    sop = f"sop:\n  procedures:\n    call:\n      title: call\n      trigger: {{event: rung}}\n      steps:\n{steps}"
    return company(folder, f"until: {until}\n{sop}{START}{rest}{people}", **options)


def results(ran: Company) -> Any:
    """Return the result of the only task."""
    task = next(iter(ran.world.tasks.all()))
    return None if task.result is None else json.loads(bytes(task.result))


def test_each_kind_of_step_has_its_result(tmp_path: Path) -> None:
    """An action, a tool, a model, a post: each result is kept under the name of the step, for the steps after it."""
    steps = """        - {name: act, action: publish, args: {topic: done, data: {id: "=data.id"}}}
        - {name: count, tool: sums.add, args: {a: "=data.id", b: 5}}
        - {name: say, model: {prompt: "='is it ' + str(results.count)"}}
        - {name: tell, post: {text: "=results.say.text + '!'"}}
"""
    rest = """tools:
  functions:
    sums.add: {description: Add., parameters: {a: {type: integer}, b: {type: integer}}, returns: args.a + args.b}
models: {rules: [{text: is it 12, say: it is}]}
"""
    ran = done(tmp_path, steps, rest)
    kept = results(ran)
    assert ran.statuses == ["completed"]
    assert (kept["count"], kept["say"]["text"]) == (12, "it is")
    assert [text for _, text in ran.posts("#desk")].count("it is!") == 1
    assert ran.rows("SELECT data ->> '$.id' FROM events WHERE topic = 'done'") == [7]


def test_a_step_can_be_passed_over(tmp_path: Path) -> None:
    """A step whose condition does not hold has the result null, and the next one is done."""
    steps = "        - {name: a, when: data.id > 10, post: {text: big}}\n        - {name: b, post: {text: small}}\n"
    ran = done(tmp_path, steps)
    assert results(ran)["a"] is None
    assert not any("big" in text for _, text in ran.posts("#desk"))


def test_a_step_that_fails_is_tried_again_in_later_cycles(tmp_path: Path) -> None:
    """After its retries, the task has failed, and the alert channel says at which step and why."""
    steps = "        - {name: pay, action: transfer, args: {to: nobody, amount: 5}, retries: 2}\n"
    ran = done(tmp_path, steps)
    tries = ran.rows("SELECT time FROM steps WHERE what = 'failed'")
    assert tries == [300, 600, 900]
    assert ran.statuses == ["failed"]
    [(at, text)] = ran.posts("#escalations")
    assert at == 900
    assert text.startswith("Task #1 (call) failed at step 1 (pay): ")


@pytest.mark.parametrize(("event", "woken", "at"), [("40m", "event", 2400), ("3h", "time", 3900)])
def test_a_wait_ends_by_time_or_by_an_event(tmp_path: Path, event: str, woken: str, at: float) -> None:
    """The task waits meanwhile, no worker does; the event must fit; what came is the result."""
    steps = """        - {name: rest, wait: {time: 1h, event: paid, where: item.id == data.id}}
        - {name: b, post: {text: over}}
"""
    more = f"[{{at: 30m, topic: paid, data: {{id: 8}}}}, {{at: {event}, topic: paid, data: {{id: 7}}}}, "
    text = START.replace("[", more)
    sop = f"sop:\n  procedures:\n    call:\n      title: call\n      trigger: {{event: rung}}\n      steps:\n{steps}"
    ran = company(tmp_path, f"until: 4h\n{sop}{text}{PEOPLE}")
    assert results(ran)["rest"]["woken_by"] == woken
    assert ran.rows("SELECT time FROM steps WHERE name = 'rest' AND what = 'done'") == [at]
    assert ran.statuses == ["completed"]


PERSON = """approvals:
  person: simulated
  simulated: {name: boss, policy: POLICY, latency: 20m, latency_p95: 21m}
"""


@pytest.mark.parametrize(("policy", "status"), [("approve", "completed"), ("deny", "cancelled")])
def test_an_approval_is_asked_of_a_person(tmp_path: Path, policy: str, status: str) -> None:
    """The task waits for the decision; approved, it goes on; denied, it is cancelled. The worker is free meanwhile."""
    steps = """        - {name: ask, approval: "='May I call ' + str(data.id) + '?'"}
        - {name: b, post: {text: yes}}
"""
    ran = done(tmp_path, steps, PERSON.replace("POLICY", policy))
    assert ran.statuses == [status]
    assert ran.rows("SELECT reason FROM gates") == ["May I call 7?"]
    assert any(text == "yes" for _, text in ran.posts("#desk")) == (policy == "approve")
    assert ran.rows("SELECT count(*) FROM transitions WHERE agent = 'worker' AND to_state = 'paused'") == [0]


class Canceller(sim.Agent):
    """Cancels the task."""

    async def decide_action(self) -> sim.Action:
        self.world.tasks.update(1, self.agent_id, status="cancelled")
        return sim.Action("stop")


@pytest.mark.parametrize("minutes", [2, 7, 30])
def test_a_task_that_somebody_cancels_is_left_alone(tmp_path: Path, minutes: int) -> None:
    """Before its first step, between two steps, or within a wait: no further step is done, and nothing fails."""
    steps = """        - {name: a, post: {text: one}}
        - {name: b, wait: {time: 1h}}
        - {name: c, post: {text: two}}
"""
    people = f"{PEOPLE}  - {{name: boss, kind: canceller, start: {minutes}m}}\n"
    ran = done(tmp_path, steps, people=people, kinds={"canceller": Canceller})
    assert ran.statuses == ["cancelled"]
    assert not any("two" in text for _, text in ran.posts("#desk"))
    assert ran.result.errors == 0


class Stopper(sim.Agent):
    """Stops the worker that does a step."""

    async def decide_action(self) -> sim.Action:
        worker = self.world.agents["worker-1"]
        assert isinstance(worker, Agent)
        worker.terminate("test")
        return sim.Action("stop")


def test_a_step_whose_worker_stops_is_done_by_another(tmp_path: Path) -> None:
    """A worker that is stopped within a step puts it back, and another one does it, once."""
    steps = "        - {name: a, action: acquire, args: {pool: desk}}\n        - {name: b, post: {text: over}}\n"
    people = (
        PEOPLE.replace("name: worker,", "name: worker, count: 2,") + "  - {name: boss, kind: stopper, start: 310s}\n"
    )

    ran = done(
        tmp_path,
        steps,
        "pools: {desk: {kind: resource, slots: 1}}\n",
        people=people + HOLDER,
        kinds={"stopper": Stopper},
    )
    assert ran.statuses == ["completed"]
    assert ran.rows("SELECT worker FROM steps WHERE name = 'a' AND what = 'done'") == ["worker-2"]


HOLDER = """  - name: holder
    state: {n: 0}
    rules:
      - {when: n == 0, do: [{acquire: {pool: desk}}, {sleep: {for: 6m}}], set: {n: 1}}
      - {when: n == 1, do: [{release: {pool: desk}}, stop]}
"""


def test_several_workers_do_each_step_once(tmp_path: Path) -> None:
    """However many workers there are, a step is done by one of them."""
    text = """until: 3h
sop:
  design: many_actions
  procedures: {call: {title: call, trigger: {event: rung}, steps: [{name: a, action: publish, args: {topic: did}}]}}
events: [{at: 1s, every: 1s, times: 20, topic: rung}]
"""
    ran = company(tmp_path, text + PEOPLE.replace("name: worker,", "name: worker, count: 5,"))
    assert ran.statuses == ["completed"] * 20
    assert ran.rows("SELECT count(*) FROM events WHERE topic = 'did'") == [20]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "why"),
    [
        (f"{{name: bad, approval: {'x' * 9000}, retries: 1}}", "bytes"),
        ('{name: bad, post: {text: "=data.nothing"}, retries: 1}', "nothing"),
        ("{name: bad, action: publish, args: {topic: sop.queued}, retries: 1}", "sop.queued"),
    ],
)
def test_whatever_goes_wrong_in_a_step_fails_the_step_and_not_the_worker(tmp_path: Path, step: str, why: str) -> None:
    """Any error of a step is a failure of its task after its retries; the worker goes on with the next task."""
    rest = PERSON.replace("POLICY", "approve") + "execution: {max_data_bytes: 8000}\n"
    ran = done(tmp_path, f"        - {step}\n", rest)
    assert ran.statuses == ["failed"]
    [(at, text)] = ran.posts("#escalations")
    assert at == 600
    assert why in text


@pytest.mark.slow
def test_an_approval_is_used_and_does_not_expire_afterwards(tmp_path: Path) -> None:
    """The approval of a step is used once, when the task goes on; a day later the record still says so."""
    steps = "        - {name: ask, approval: may I}\n        - {name: b, post: {text: yes}}\n"
    ran = done(tmp_path, steps, f"{PERSON.replace('POLICY', 'approve')}  expires: 1d\n", until="2d")
    assert ran.rows("SELECT status, decided_by FROM gates") == [("used", "boss")]
    assert ran.statuses == ["completed"]


def test_an_approval_that_nobody_gives_expires(tmp_path: Path) -> None:
    """Without a decision in time, the task is cancelled, and its history says at which step."""
    steps = "        - {name: ask, approval: may I}\n        - {name: b, post: {text: yes}}\n"
    slow = PERSON.replace("POLICY", "approve").replace("20m", "20h").replace("21m", "21h")
    ran = done(tmp_path, steps, f"{slow}  expires: 30m\n")
    assert ran.rows("SELECT status FROM gates") == ["expired"]
    assert ran.statuses == ["cancelled"]
    assert ran.world.tasks.get(1).history[-1].what == "ask was not approved"
    assert "yes" not in [text for _, text in ran.posts("#desk")]


def test_a_wait_ends_once_when_time_and_event_come_together(tmp_path: Path) -> None:
    """Time and event at one instant end a wait once; the next step is done once."""
    text = """until: 2h
sop:
  procedures:
    call:
      title: call
      trigger: {event: rung}
      steps:
        - {name: rest, wait: {time: 61m, event: paid}}
        - {name: b, post: {text: over}}
events: [{at: 1s, topic: rung}, {at: 66m, topic: paid}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert ran.rows("SELECT name, time FROM steps WHERE what = 'done'") == [("rest", 3960), ("b", 4200)]
    assert [text for _, text in ran.posts("#desk")].count("over") == 1


@pytest.mark.parametrize("design", ["cycle", "event_driven", "many_actions"])
def test_an_event_ends_one_wait_of_each_task(tmp_path: Path, design: str) -> None:
    """One event can end the waits of several tasks; of two at one instant, none ends the wait of the step after it."""
    text = f"""until: 3h
sop:
  design: {design}
  procedures:
    call:
      title: call
      trigger: {{event: rung}}
      steps:
        - {{name: first, wait: {{time: 1d, event: paid}}}}
        - {{name: second, wait: {{time: 1h, event: paid}}}}
events: [{{at: 1s, topic: rung}}, {{at: 1s, topic: rung}}, {{at: 1h, topic: paid}}, {{at: 1h, topic: paid}}]
"""
    ran = company(tmp_path, text + PEOPLE)
    ends = ran.rows("SELECT name, time FROM steps WHERE what = 'done' ORDER BY id")
    assert [name for name, _ in ends] == ["first", "first", "second", "second"]
    assert [at for _, at in ends[:2]] == [3600, 3600]
    assert min(at for _, at in ends[2:]) >= 7200
    assert ran.statuses == ["completed"] * 2


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
def test_a_worker_that_is_stopped_in_a_model_call_loses_the_call_only(tmp_path: Path, mode: str) -> None:
    """The step of a stopped worker is done by another one, from its beginning, and it is done once."""
    models = "models: {provider: simulated, simulated: {first_token: 60}, rules: [{say: well}]}\n"
    steps = """        - {name: say, model: {prompt: hello}}
        - {name: act, action: publish, args: {topic: acted}}
"""
    people = (
        PEOPLE.replace("name: worker,", "name: worker, count: 2,") + "  - {name: boss, kind: stopper, start: 330s}\n"
    )
    ran = done(tmp_path, steps, models, people=people, kinds={"stopper": Stopper}, mode=mode)
    assert ran.statuses == ["completed"]
    assert ran.rows("SELECT worker, name FROM steps WHERE what = 'done'") == [("worker-2", "say"), ("worker-2", "act")]
    assert ran.rows("SELECT count(*) FROM events WHERE topic = 'acted'") == [1]


def test_an_employee_that_is_stopped_in_its_assessment_loses_no_finding(tmp_path: Path) -> None:
    """What its watchers found stays found: one task each, which wait for somebody who advances them."""
    models = "models: {provider: simulated, simulated: {first_token: 60}, rules: [{say: well}]}\n"
    text = f"""until: 31m
sop:
  procedures: {{call: {{title: call, steps: [{{name: a, post: {{text: called}}}}]}}}}
  watchers: {{inbox: {{agent: clerk, sop: call, event: lead, key: item.id}}}}
events: [{{at: 1m, topic: lead, data: {{id: 1}}}}, {{at: 2m, topic: lead, data: {{id: 2}}}}]
{models}"""

    def stop(world: World) -> None:
        clerk = world.agents["clerk"]
        assert isinstance(clerk, Agent)
        clerk.terminate("test")

    ran = inside(tmp_path, text + PEOPLE.replace("5m", "5m, assess: {}"), stop, "310s")
    assert ran.statuses == ["pending", "pending"]
    assert len(ran.cycles()) == 1
    assert [at for at, _ in ran.posts("#escalations")] == pytest.approx([660], abs=5)


def test_results_that_are_too_long_for_the_record_are_left_out(tmp_path: Path) -> None:
    """A step is done once, whatever it returns; the alert channel says if its result could not be kept."""
    steps = """        - {name: a, tool: big.text, args: {}}
        - {name: b, tool: big.text, args: {}}
        - {name: c, post: {text: told}}
"""
    tool = f"{{description: Text., parameters: {{}}, returns: \"'{'x' * 900}'\"}}"
    rest = f"execution: {{max_data_bytes: 2400}}\ntools: {{functions: {{big.text: {tool}}}}}\n"
    ran = done(tmp_path, steps, rest)
    assert (ran.statuses, ran.result.errors) == (["completed"], 0)
    assert [text for _, text in ran.posts("#escalations")] == [
        "The result of b of Task #1 (call) is too long to be kept",
    ]
    assert (results(ran)["a"], results(ran)["b"]) == ("x" * 900, None)


@pytest.mark.parametrize("source", ["trigger: {event: long}", "agent: clerk"])
def test_findings_that_are_too_long_for_the_record_make_no_task(tmp_path: Path, source: str) -> None:
    """A task is made with its record or not at all; the alert channel says what was too long."""
    watchers = "" if "trigger" in source else "  watchers: {w: {agent: clerk, sop: call, event: long}}\n"
    text = f"""until: 21m
execution: {{max_data_bytes: 2400}}
sop:
  procedures: {{call: {{title: call, {source}, steps: [{{name: a, post: {{text: called}}}}]}}}}
{watchers}events: [{{at: 1s, topic: long, data: {"x" * 1300}}}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert (ran.statuses, ran.result.errors) == ([], 0)
    assert ["is too long for a task" in text for _, text in ran.posts("#escalations")] == [True]
