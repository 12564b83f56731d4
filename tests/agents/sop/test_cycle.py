"""The cycle of an employee: what it surveys, what it ranks first, and that it takes one major action."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.actors import Agent
from sim.kernel.codec import freeze
from sim.kinds.sop import Sops
from sim.kinds.sop.cycle import prioritize, survey
from sim.memory.service import Memories
from sim.world.world import World
from tests.agents.sop.company import JOBS, PEOPLE, company, inside

STEPS = "steps: [{name: call, post: {text: called}}]"
IDLE = f"until: 2s\nsop: {{procedures: {{call: {{title: call, priority: '=item.p', {STEPS}}}}}}}\nmemory: {{}}\n"


def test_a_cycle_without_work_is_a_heartbeat_and_nothing_else(tmp_path: Path) -> None:
    """If nothing needs doing, the employee posts its heartbeat and sleeps until its next cycle."""
    ran = company(tmp_path, IDLE.replace("2s", "16m") + PEOPLE)
    text = (
        "Clerk Agent: Loop completed.\n  Active tasks: 0 | New triggers: 0 | Action taken: None\n  Next run: 5 minutes"
    )
    assert ran.posts("#ops-log") == [(at, text) for at in (0, 300, 600, 900)]
    assert ran.posts("#desk") == []
    assert ran.memories.all("clerk") == []


def test_the_survey_loads_tasks_findings_memories_and_numbers(tmp_path: Path) -> None:
    """It has the tasks in progress and pending, not those that wait or have ended, and the memories for a prompt."""
    surveys = []

    def look(world: World) -> None:
        sops, memories = Sops.of(world), Memories.of(world)
        desk = sops.desks["clerk"]
        for status in ("pending", "in_progress", "waiting", "completed", "cancelled"):
            task = sops.make(desk, sops.draft(desk, "call", {"p": 1}))
            if status != "pending":
                world.tasks.update(task.id, "clerk", status=status)
        memories.add("clerk", "important", importance=8)
        memories.add("clerk", "of a task", importance=2, related_task_id=1)
        memories.add("other", "not mine", importance=9)
        surveys.append(survey(world, sops, desk))

    inside(tmp_path, IDLE + PEOPLE, look)
    seen = surveys[0]
    assert [task.word for task in seen.tasks] == ["pending", "in_progress"]
    assert seen.memories is not None
    assert [memory.content for memory in seen.memories.memories] == ["important", "of a task"]
    assert (seen.stats["active"], seen.stats["waiting"]) == (2, 1)


def test_the_most_urgent_work_comes_first(tmp_path: Path) -> None:
    """Overdue tasks, then stalled ones, then by priority; at equal priority triggers, then what is due first."""
    orders = []

    def look(world: World) -> None:
        sops, now = Sops.of(world), world.kernel.now
        desk = sops.desks["clerk"]

        def made(procedure: str, priority: int, due_ns: int | None = None) -> None:
            task = sops.make(desk, sops.draft(desk, procedure, {"p": priority}))
            world.tasks.update(task.id, "clerk", due_ns=due_ns, note=f"{procedure} {priority} {due_ns}")

        made("call", 1)
        made("call", 9)
        made("call", 5, now + 10**13)
        made("call", 5, now + 10**12)
        made("call", 0, now)
        made("slow", 2)
        sops.trigger("call", {"p": 5})
        orders.append([choice.task and choice.task.id for choice in prioritize(sops, desk)])

    slow = f"procedures: {{slow: {{title: slow, priority: '=item.p', stalled_after: 0, {STEPS}}}, "
    inside(tmp_path, IDLE.replace("procedures: {", slow) + PEOPLE, look)
    assert orders == [[5, 6, 2, None, 4, 3, 1]]


def test_five_detections_make_five_tasks_that_are_done_one_a_cycle(tmp_path: Path) -> None:
    """A watcher makes a task of each finding at once; the cycles then take one action each."""
    text = f"""until: 31m
artifacts: [{{id: leads, owner: clerk, content: [{{id: a}}, {{id: b}}, {{id: c}}, {{id: d}}, {{id: e}}]}}]
sop:
  procedures: {{call: {{title: "='lead ' + item.id", {STEPS}}}}}
  watchers: {{inbox: {{agent: clerk, sop: call, artifact: leads}}}}
"""
    ran = company(tmp_path, text + PEOPLE)
    assert ran.cycles() == [(0, 5, 0, 1), *((300 * n, 0, 0, 1) for n in (1, 2, 3, 4)), (1500, 0, 0, 0), (1800, 0, 0, 0)]
    assert ran.statuses == ["completed"] * 5
    assert [text for _, text in ran.posts("#desk")].count("called") == 5


KINDS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["trigger", "watched"]), st.integers(0, 9)), max_size=12)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(KINDS)
def test_a_cycle_takes_one_major_action_at_most(inbox: list[tuple[int, str, int]]) -> None:
    """Whatever comes in, a cycle makes one task from a trigger or advances one task; each thing is done once."""
    events = "".join(f"  - {{at: {minute}m, topic: {kind}, data: {{p: {p}}}}}\n" for minute, kind, p in inbox)
    text = f"""until: 5h
sop:
  procedures:
    call: {{title: called, priority: "=item.p", trigger: {{event: trigger}}, {STEPS}}}
    seen: {{title: seen, priority: "=item.p", {STEPS}}}
  watchers: {{inbox: {{agent: clerk, sop: seen, event: watched}}}}
{"events:" if events else ""}
{events}"""
    with tempfile.TemporaryDirectory() as folder:
        ran = company(Path(folder), text + PEOPLE)
        assert all(created + advanced <= 1 for _, _, created, advanced in ran.cycles())
        assert ran.statuses == ["completed"] * len(inbox)
        assert sum(new + created for _, new, created, _ in ran.cycles()) == len(inbox)
        assert [text for _, text in ran.posts("#desk")].count("called") == len(inbox)


def test_a_trigger_is_acted_on_at_once_and_the_clock_stays(tmp_path: Path) -> None:
    """A trigger starts a cycle before the next one is due; cycles by the clock keep their times."""
    text = f"""until: 11m
sop: {{procedures: {{call: {{title: called, trigger: {{event: rung, where: data.loud}}, {STEPS}}}}}}}
events:
  - {{at: 90s, topic: rung, data: {{loud: true}}}}
  - {{at: 95s, topic: rung, data: {{loud: false}}}}
"""
    ran = company(tmp_path, text + PEOPLE)
    assert [(at, created, advanced) for at, _, created, advanced in ran.cycles()] == [
        (0, 0, 0), (90, 1, 0), (300, 0, 1), (600, 0, 0),
    ]  # fmt: skip


def test_a_message_is_a_trigger_or_a_memory(tmp_path: Path) -> None:
    """A message of the topic of a procedure becomes a task; any other one is remembered."""
    call = f"{{title: '=item.data', trigger: {{message: do}}, {STEPS}}}"
    text = f"until: 2m\nmemory: {{}}\nsop: {{procedures: {{call: {call}}}}}\n"
    people = (
        PEOPLE
        + """
  - name: boss
    state: {n: 0}
    rules:
      - {when: n == 0, do: {send: {to: clerk, topic: do, data: call Ann}}, set: {n: 1}}
      - {when: n == 1, do: {send: {to: clerk, data: well done}}, set: {n: 2}}
      - do: stop
"""
    )
    ran = company(tmp_path, text + people)
    assert [task.title for task in ran.world.tasks.all()] == ["call Ann"]
    assert any("well done" in memory.content for memory in ran.memories.all("clerk"))


@pytest.mark.parametrize(
    ("design", "cycles", "done", "memories"),
    [("cycle", 7, 5, True), ("stateless", 7, 5, False), ("many_actions", 7, 5, True), ("event_driven", 5, 5, True)],
)
def test_the_designs_do_what_they_say(tmp_path: Path, design: str, cycles: int, done: int, memories: bool) -> None:
    """Event-driven: only reactions; stateless: no memories; many actions: all that is pending in one cycle."""
    text = f"""until: 31m
memory: {{}}
artifacts: [{{id: leads, owner: clerk, content: [{{id: a}}, {{id: b}}, {{id: c}}, {{id: d}}, {{id: e}}]}}]
sop:
  design: {design}
  procedures: {{call: {{title: "='lead ' + item.id", {STEPS}}}}}
  watchers: {{inbox: {{agent: clerk, sop: call, artifact: leads}}}}
"""
    people = PEOPLE + "  - {name: jobs, kind: recurring_jobs, settings: {summarise: null}}\n"
    ran = company(tmp_path, text + people)
    assert ran.statuses == ["completed"] * done
    advanced = [count for *_, count in ran.cycles()]
    assert (max(advanced) > 1) == (design == "many_actions")
    assert len(advanced) >= cycles
    assert bool(ran.memories.all("clerk")) == memories
    last = ran.rows("SELECT max(time) FROM task_history")[0]
    assert (last < 300) == (design in ("event_driven", "many_actions"))


def test_nothing_is_kept_in_the_agent(tmp_path: Path) -> None:
    """An employee is its role: all else is in services, so one that is hired again has its desk."""
    ran = company(tmp_path, IDLE + PEOPLE)
    desk = ran.sops.desks["clerk"]
    clerk = ran.world.agents["clerk"]
    assert isinstance(clerk, Agent)
    assert ran.sops.hire(clerk, desk.settings) is desk
    assert clerk.state == {}
    assert freeze(ran.sops.state())


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("title: '=item.name'", "there is no key 'name'"),
        ("title: a, priority: '=item.name'", "there is no key 'name'"),
        ("title: a, priority: '=item.text'", "the priority of 'call' is no number: 'high'"),
    ],
)
def test_a_trigger_that_makes_no_task_is_told_and_left(tmp_path: Path, broken: str, why: str) -> None:
    """What comes from outside may lack what a procedure needs: the alert channel says so, and the work goes on."""
    text = f"""until: 21m
sop:
  procedures:
    call: {{{broken}, trigger: {{event: rung}}, {STEPS}}}
    good: {{title: good, trigger: {{event: rung}}, {STEPS}}}
events: [{{at: 1s, topic: rung, data: {{text: high}}}}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert [task.title for task in ran.world.tasks.all()] == ["good"]
    [(at, warning)] = ran.posts("#escalations")
    assert at < 60
    assert warning.startswith("1 dead letter of the trigger of call, of which no task is made: ")
    assert why in warning
    assert ran.result.errors == 0


def test_a_title_is_one_line_that_is_not_too_long(tmp_path: Path) -> None:
    """Whatever people write, a title has one line and at most 500 characters."""
    text = f"""until: 6m
sop: {{procedures: {{call: {{title: "=item.text", trigger: {{event: rung}}, {STEPS}}}}}}}
events: [{{at: 1s, topic: rung, data: {{text: "a\\nb {"c" * 3000}"}}}}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert [task.title for task in ran.world.tasks.all()] == ["a b " + "c" * 496]


def test_a_pattern_that_cannot_be_judged_does_not_hold(tmp_path: Path) -> None:
    """A pattern over a number that is null does not hold, and that is said once; one whose text fails is noted."""
    patterns = (
        """[{when: stats.response_week > 1, text: slow}, {when: stats.cycles == 1, text: "='x' + stats.cycles"}]"""
    )
    ran = company(tmp_path, IDLE.replace("2s", "11m") + PEOPLE.replace("5m", f"5m, patterns: {patterns}"))
    assert [memory.content for memory in ran.memories.all("clerk")] == ["The pattern stats.cycles == 1 holds"]
    said = [text for _, text in ran.posts("#escalations")]
    assert ["The pattern stats.response_week > 1 of clerk cannot be used" in text for text in said] == [True, False]
    assert "cannot be computed" in said[1]
    assert len(ran.cycles()) == 3


@pytest.mark.parametrize("memory", ["", "memory: {longest: 100}\n"])
def test_a_message_disturbs_nobody(tmp_path: Path, memory: str) -> None:
    """A message is cut to the longest memory; an employee that remembers nothing leaves it, and works on."""
    text = f"until: 6m\n{memory}sop: {{procedures: {{call: {{title: call, {STEPS}}}}}}}\n"
    boss = f"  - {{name: boss, rules: [{{do: [{{send: {{to: clerk, data: {'x' * 300}}}}}, stop]}}]}}\n"
    ran = company(tmp_path, text + PEOPLE + boss)
    assert (ran.result.errors, len(ran.cycles())) == (0, 2)
    if memory:
        assert [note.content for note in ran.memories.all("clerk")] == ["boss said: " + "x" * 89]


def test_a_trigger_does_not_hasten_other_work(tmp_path: Path) -> None:
    """A cycle for a trigger makes its task and nothing else; other work keeps the pace of one action an interval."""
    text = f"""until: 26m
artifacts: [{{id: leads, owner: clerk, content: [{{id: a}}, {{id: b}}, {{id: c}}, {{id: d}}, {{id: e}}]}}]
sop:
  procedures:
    late: {{title: late, due: 0, priority: 9, {STEPS}}}
    call: {{title: call, trigger: {{event: rung}}, {STEPS}}}
  watchers: {{inbox: {{agent: clerk, sop: late, artifact: leads}}}}
events: [{{at: 6m, topic: rung}}, {{at: 6m, topic: rung}}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert [(at // 60, created, advanced) for at, _, created, advanced in ran.cycles()] == [
        (0, 0, 1), (5, 0, 1), (6, 1, 0), (6, 1, 0), (10, 0, 1), (15, 0, 1), (20, 0, 1), (25, 0, 1),
    ]  # fmt: skip


WORK = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([None, 0, 5, 9]), st.booleans()), max_size=8)


@pytest.mark.slow
@settings(max_examples=15)
@given(WORK, st.lists(st.integers(-2, 2), max_size=4))
def test_the_rank_of_any_work(tasks: list[tuple[int, int | None, bool]], triggers: list[int]) -> None:
    """Overdue, then stalled, then by priority (a trigger before a task of equal priority), due time and number."""
    found: list[list[tuple[str, int]]] = []

    def look(world: World) -> None:
        sops, now = Sops.of(world), world.kernel.now
        desk = sops.desks["clerk"]
        for priority, due, stalled in tasks:
            task = sops.make(desk, sops.draft(desk, "slow" if stalled else "call", {"p": priority}))
            if due is not None:
                world.tasks.update(task.id, "boss", due_ns=now + due)
        for priority in triggers:
            sops.trigger("call", {"p": priority})
        waiting = list(desk.triggers)
        ranked = []
        for choice in prioritize(sops, desk):
            if choice.task is not None:
                ranked.append(("task", choice.task.id))
            elif choice.trigger is not None:
                ranked.append(("trigger", waiting.index(choice.trigger)))
        found.append(ranked)

    late = [(due == 0, stalled) for _, due, stalled in tasks]
    work = [
        ((not over, not stalled, -priority, 1, 99 if due is None else due, number), ("task", number))
        for number, ((priority, due, _), (over, stalled)) in enumerate(zip(tasks, late, strict=True), 1)
    ]
    firsts = [triggers.index(priority) for priority in triggers]  # equal triggers are the same
    work += [
        ((True, True, -priority, 0, 0, n), ("trigger", first))
        for n, (priority, first) in enumerate(zip(triggers, firsts, strict=True))
    ]
    slow = f"procedures: {{slow: {{title: slow, priority: '=item.p', stalled_after: 0, {STEPS}}}, "
    with tempfile.TemporaryDirectory() as folder:
        inside(Path(folder), IDLE.replace("procedures: {", slow) + PEOPLE, look)
    assert found == [[name for _, name in sorted(work)]]


@pytest.mark.parametrize("mode", ["autonomous", "tick"])
@pytest.mark.parametrize("design", ["cycle", "stateless"])
def test_one_action_a_cycle_in_both_modes(tmp_path: Path, mode: str, design: str) -> None:
    """Ten pending things are addressed within an hour, one in each cycle of five minutes."""
    items = ", ".join(f"{{id: {number}}}" for number in range(10))
    text = f"""until: 56m
memory: {{}}
artifacts: [{{id: leads, owner: clerk, content: [{items}]}}]
sop:
  design: {design}
  procedures: {{call: {{title: "='lead ' + str(item.id)", {STEPS}}}}}
  watchers: {{inbox: {{agent: clerk, sop: call, artifact: leads}}}}
"""
    ran = company(tmp_path, text + PEOPLE, mode=mode)
    assert [created + advanced for _, _, created, advanced in ran.cycles()] == [1] * 10 + [0] * 2
    assert ran.statuses == ["completed"] * 10
    began = ran.rows("SELECT time FROM task_history WHERE what = 'started' ORDER BY id")
    assert began == pytest.approx([300 * number for number in range(10)], abs=2)
    assert [task.title for task in ran.world.tasks.all()] == [f"lead {number}" for number in range(10)]


def test_an_event_driven_employee_notices_nothing_by_itself(tmp_path: Path) -> None:
    """No cycles, no assessments, no patterns, no overdue tasks: what nothing triggers does not happen."""
    text = f"""until: 2h
memory: {{}}
models: {{rules: [{{say: a pattern}}]}}
sop:
  design: DESIGN
  procedures:
    slow: {{title: slow, trigger: {{event: rung}}, due: 10m, steps: [{{name: wait, wait: {{time: 1d}}}}]}}
    chase: {{title: chase, {STEPS}}}
  watchers: {{late: {{agent: clerk, sop: chase, tasks: overdue}}}}
events: [{{at: 1m, topic: rung}}]
"""
    people = PEOPLE.replace("5m", "5m, assess: {}, patterns: [{when: stats.overdue > 0, text: overdue}]") + JOBS
    ran = company(tmp_path, text.replace("DESIGN", "event_driven") + people)
    assert [task.title for task in ran.world.tasks.all()] == ["slow"]
    assert (len(ran.cycles()), ran.result.services["sop"]["assessments"]) == (2, 0)
    assert "overdue" not in [note.content for note in ran.memories.all("clerk")]
    ran = company(tmp_path, text.replace("DESIGN", "cycle") + people)
    assert [task.title for task in ran.world.tasks.all()] == ["slow", "chase"]
    assert ran.result.services["sop"]["assessments"] == 24
    assert "overdue" in [note.content for note in ran.memories.all("clerk")]


def test_a_cycle_that_takes_long_does_not_shift_the_clock(tmp_path: Path) -> None:
    """A slow model makes a cycle long; the next one begins at its own time, and missed ones are not made up for."""
    slow = "models: {provider: simulated, simulated: {LATENCY}, rules: [{say: nothing}]}\n"
    people = PEOPLE.replace("5m", "5m, assess: {}")
    ran = company(tmp_path, IDLE.replace("2s", "31m") + slow.replace("LATENCY", "first_token: {constant: 60}") + people)
    assert [at // 300 for at, *_ in ran.cycles()] == [0, 1, 2, 3, 4, 5]
    assert {60 <= at % 300 < 120 for at, *_ in ran.cycles()} == {True}
    slow, people = slow.replace("LATENCY", "first_token: {constant: 100}"), people.replace("5m", "1m")
    ran = company(tmp_path, IDLE.replace("2s", "10m") + slow + people)
    assert [at for at, *_ in ran.cycles()] == pytest.approx([100, 220, 340, 460, 580], abs=5)
