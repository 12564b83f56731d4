"""Watchers: what they look at, when, and that nothing is found twice."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.sop.company import JOBS, PEOPLE, company

STEPS = "steps: [{name: call, post: {text: called}}]"
CALL = f"procedures: {{call: {{title: \"='about ' + str(item.id)\", priority: 1, {STEPS}}}}}"


def watched(folder: Path, watcher: str, rest: str = "", people: str = PEOPLE, until: str = "31m") -> list[str]:
    """Return the titles and the times of the tasks that a watcher makes."""
    text = f"until: {until}\nsop:\n  {CALL}\n  watchers: {{inbox: {{agent: clerk, sop: call, {watcher}}}}}\n{rest}"
    ran = company(folder, text + people)
    return [f"{task.title} at {task.created_ns / 60e9:g}" for task in ran.world.tasks.all()]


EVENTS = """events: [{at: 1m, topic: lead, data: {id: a}}, {at: 2m, topic: lead, data: {id: a}},
  {at: 6m, topic: lead, data: {id: b}}]
"""


def test_events_are_found_at_the_next_look(tmp_path: Path) -> None:
    """Each event is one finding, at the first cycle after it."""
    assert watched(tmp_path, "event: lead", EVENTS) == ["about a at 5", "about a at 5", "about b at 10"]


def test_a_key_makes_one_task_of_equal_findings(tmp_path: Path) -> None:
    """A finding with a known key makes no second task, in the same look or later."""
    again = EVENTS.replace("]\n", ", {at: 20m, topic: lead, data: {id: b}}]\n")
    assert watched(tmp_path, "event: lead, key: item.id", again) == ["about a at 5", "about b at 10"]


def test_a_watcher_looks_at_its_interval_and_only_if_active(tmp_path: Path) -> None:
    """A longer interval than the cycle is kept; one that is not active never looks."""
    assert watched(tmp_path, "event: lead, interval: 15m", EVENTS)[-1] == "about b at 15"
    assert watched(tmp_path, "event: lead, active: false", EVENTS) == []


def test_a_filter_says_what_counts(tmp_path: Path) -> None:
    """What does not fit `where` is no finding."""
    assert watched(tmp_path, "event: lead, where: item.id == 'b'", EVENTS) == ["about b at 10"]


def test_a_watcher_alone_does_not_wait_for_the_employee(tmp_path: Path) -> None:
    """It looks by its own interval, and the employee finds the tasks in its next cycle."""
    found = watched(tmp_path, "event: lead, alone: true, interval: 1m", EVENTS, PEOPLE + JOBS)
    assert found == ["about a at 1", "about a at 2", "about b at 6"]


def test_an_artifact_is_read_with_the_rights_of_the_employee(tmp_path: Path) -> None:
    """Its items are findings, by their ids or keys; what the employee may not read, its watchers do not see."""
    rows = "artifacts: [{id: rows, owner: OWNER, content: {x: {id: 1}, y: {id: 2}}}]\naccounts: {safe: 0}\n"
    assert watched(tmp_path, "artifact: rows", rows.replace("OWNER", "clerk")) == ["about 1 at 0", "about 2 at 0"]
    secret = rows.replace("OWNER", "safe").replace("content", "readers: owner, content")
    assert watched(tmp_path, "artifact: rows", secret) == []


def test_a_pool_is_found_again_after_it_was_well(tmp_path: Path) -> None:
    """A low stock makes one task while it is low, and another one when it is low again."""
    rest = "pools: {stock: {kind: container, capacity: 10, level: 1}}\n"
    people = (
        PEOPLE
        + """
  - name: mover
    state: {n: 0}
    rules:
      - {when: n == 0, do: {sleep: {for: 12m}}, set: {n: 1}}
      - {when: n == 1, do: [{put: {pool: stock, amount: 5}}, {sleep: {for: 10m}}], set: {n: 2}}
      - {when: n == 2, do: [{get: {pool: stock, amount: 5}}, {sleep: {for: 1h}}], set: {n: 3}}
      - do: stop
"""
    )
    text = f"until: 40m\nsop:\n  {CALL.replace('item.id', 'item.level')}\n"
    text += "  watchers: {low: {agent: clerk, sop: call, pool: stock, where: item.level < 3}}\n"
    ran = company(tmp_path, text + rest + people)
    assert [task.created_ns / 60e9 for task in ran.world.tasks.all()] == [0, 25]


def test_overdue_tasks_are_found_once(tmp_path: Path) -> None:
    """A task that is overdue makes one other task, of the procedure for it."""
    text = """until: 31m
sop:
  procedures:
    slow: {title: slow, trigger: {event: lead}, due: 7m, steps: [{name: wait, wait: {time: 1h}}]}
    chase: {title: "='chase ' + item.title", steps: [{name: call, post: {text: called}}]}
  watchers: {late: {agent: clerk, sop: chase, tasks: overdue}}
events: [{at: 1m, topic: lead}]
"""
    ran = company(tmp_path, text + PEOPLE)
    assert [(task.title, task.created_ns / 60e9) for task in ran.world.tasks.all()] == [("slow", 1), ("chase slow", 10)]


def test_priority_can_be_computed(tmp_path: Path) -> None:
    """A watcher gives its own priority to its tasks, from the finding."""
    text = f"until: 6m\nsop:\n  {CALL}\n"
    text += "  watchers: {inbox: {agent: clerk, sop: call, event: lead, priority: '=item.p'}}\n"
    ran = company(tmp_path, text + "events: [{at: 1m, topic: lead, data: {id: a, p: 7}}]\n" + PEOPLE)
    assert [task.priority for task in ran.world.tasks.all()] == [7]


@pytest.mark.parametrize("broken", ["item.nothing", "1 / 0"])
def test_an_event_that_cannot_be_judged_is_one_dead_letter(tmp_path: Path, broken: str) -> None:
    """The events before and after it become tasks at their look; it is recorded, said once, and never doubled."""
    text = f"until: 31m\nsop:\n  {CALL}\n  watchers: {{inbox: {{agent: clerk, sop: call, event: lead, WHERE}}}}\n"
    where = f"where: \"item.id == 'a' or {broken}\""
    ran = company(tmp_path, text.replace("WHERE", where) + EVENTS + PEOPLE)
    assert [task.title for task in ran.world.tasks.all()] == ["about a", "about a"]
    [(at, warning)] = ran.posts("#escalations")
    assert at == 600
    assert warning.startswith("1 dead letter of the watcher inbox, of which no task is made: ")
    assert [json.loads(row) for row in ran.rows("SELECT item FROM dead_letters")] == [{"id": "b"}]
    assert (len(ran.cycles()), ran.result.errors, ran.sops.metrics()["dead_letters"]) == (7, 0, 1)
    [told] = ran.result.warnings
    assert told["text"].startswith("1 dead letter, of which no task was made; the first, of the watcher inbox: ")
    assert told["hint"] == "list them with: sim show RUN dead_letters"


@pytest.mark.parametrize(
    "broken",
    [
        "where: item.n > 1", "key: item.n", "priority: '=item.n'", "where: item.n > 1, alone: true",
        "key: item.n, interval: 15m", "priority: '=item.n', alone: true",
    ],
)  # fmt: skip
def test_one_bad_finding_costs_no_other(tmp_path: Path, broken: str) -> None:
    """Whichever expression fails for one lead, all the others become tasks, now and at every later look."""
    events = "".join(
        f"  - {{at: {minute}m, topic: lead, data: {{id: {minute}{'' if minute == 9 else f', n: {minute + 5}'}}}}}\n"
        for minute in range(1, 30, 2)
    )
    made = watched(tmp_path, f"event: lead, {broken}", f"events:\n{events}", PEOPLE + JOBS, "46m")
    assert [title.split()[1] for title in made] == [str(minute) for minute in range(1, 30, 2) if minute != 9]


@pytest.mark.parametrize("source", ["artifact: rows", "tasks: overdue", "pool: stock"])
def test_what_stays_and_cannot_be_judged_is_reported_once(tmp_path: Path, source: str) -> None:
    """An item of an artifact, a task or a pool that cannot be judged is one dead letter, until it changes."""
    text = f"""until: 46m
artifacts: [{{id: rows, owner: clerk, content: {{bad: {{}}, good: {{id: 1}}}}}}]
pools: {{stock: {{kind: container, capacity: 10, level: 1}}}}
sop:
  {CALL.replace("procedures: {", "procedures: {slow: {title: slow, trigger: {event: rung}, due: 1m, " + STEPS + "}, ")}
  watchers: {{w: {{agent: clerk, sop: call, {source}, where: item.id == 1 or item.missing}}}}
events: [{{at: 1m, topic: rung}}]
"""
    people = PEOPLE.replace("  - {name: worker, kind: step_worker}", "  - {name: worker, kind: step_worker, start: 1d}")
    ran = company(tmp_path, text + people)
    assert ran.rows("SELECT source FROM dead_letters") == (["the watcher w"] if "tasks" not in source else [])
    titles = [task.title for task in ran.world.tasks.all()]
    assert titles.count("about 1") == (1 if "pool" not in source else 0)


def test_a_source_without_items_is_said(tmp_path: Path) -> None:
    """A watcher of an artifact that is a text finds nothing, says why once, and each daily summary repeats it."""
    text = f"until: 20h\nsop:\n  {CALL}\n  watchers: {{w: {{agent: clerk, sop: call, artifact: rows}}}}\n"
    rows = "artifacts: [{id: rows, owner: clerk, content: a text}]\n"
    ran = company(tmp_path, text + rows + PEOPLE.replace("5m", "1h") + JOBS)
    said = "The watcher w cannot be used: the artifact rows is neither a list nor a mapping"
    assert [text for _, text in ran.posts("#escalations")] == [said]
    [summary] = [text for _, text in ran.posts("#ops-log") if text.startswith("Daily summary")]
    assert "Failing at present: The watcher w (the artifact rows is neither a list nor a mapping)" in summary
    assert ran.rows("SELECT fault FROM watchers") == ["the artifact rows is neither a list nor a mapping"]
    [told] = ran.result.warnings
    assert told["text"] == f"at the end of the run, the{said[3:]}"


def test_lost_events_are_counted_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more events than can wait for a look, the oldest are lost: a warning, a count, and the view of watchers."""
    monkeypatch.setattr("sim.kinds.sop.watchers.MOST_EVENTS", 2)
    text = f"until: 31m\nsop:\n  {CALL}\n  watchers: {{w: {{agent: clerk, sop: call, event: lead, interval: 15m}}}}\n"
    ran = company(tmp_path, text + EVENTS + PEOPLE)
    assert [task.title for task in ran.world.tasks.all()] == ["about a", "about b"]
    assert [text.partition(",")[0] for _, text in ran.posts("#escalations")] == ["1 lost for the watcher w"]
    assert ran.rows("SELECT lost FROM watchers") == [1]


def test_a_full_board_lets_findings_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the room for tasks waits, and is no dead letter; that is said once."""
    monkeypatch.setattr("sim.world.tasks.MOST_TASKS", 2)
    text = f"until: 31m\nsop:\n  {CALL}\n  watchers: {{w: {{agent: clerk, sop: call, event: lead}}}}\n"
    ran = company(tmp_path, text + EVENTS + PEOPLE)
    assert [task.title for task in ran.world.tasks.all()] == ["about a", "about a"]
    assert [text for _, text in ran.posts("#escalations")] == [
        "The watcher w cannot be used: there are 2 tasks already; what it finds waits"
    ]
    assert ran.sops.metrics()["dead_letters"] == 0


def test_the_view_of_watchers(tmp_path: Path) -> None:
    """It lists each watcher, also one that is not active, when it looked last, and what it found."""
    text = f"""until: 12m
sop:
  {CALL}
  watchers:
    off: {{agent: clerk, sop: call, event: lead, active: false}}
    inbox: {{agent: clerk, sop: call, event: lead, where: item.id == 'a' or item.x}}
"""
    ran = company(tmp_path, text + EVENTS + PEOPLE)
    columns = "watcher, agent, active, last_checked_at, looks, found, dead_letters, fault"
    assert ran.rows(f"SELECT {columns} FROM watchers ORDER BY watcher") == [  # noqa: S608 - in a test
        ("inbox", "clerk", 1, 600.0, 3, 2, 1, None), ("off", "clerk", 0, None, 0, 0, 0, None),
    ]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4)), max_size=10), st.sampled_from([1, 5, 12]))
def test_nothing_makes_two_tasks(found: list[tuple[int, int]], interval: int) -> None:
    """Whatever comes when, however often a watcher looks: as many tasks as keys, each at the first look after it."""
    events = "".join(f"  - {{at: {minute}m, topic: lead, data: {{id: {id}}}}}\n" for minute, id in found)
    with tempfile.TemporaryDirectory() as folder:
        given = f"event: lead, key: item.id, interval: {interval}m, alone: true"
        rest = f"events:\n{events}" if events else ""
        made = watched(Path(folder), given, rest, PEOPLE + JOBS, until="1h")
    assert len(made) == len({id for _, id in found})
    for task in made:
        id, at = task.removeprefix("about ").split(" at ")
        came = min(minute for minute, other in found if str(other) == id)
        assert came <= float(at) <= came + interval


def test_stalled_tasks_are_found(tmp_path: Path) -> None:
    """A task that nobody changes for its time makes one other task, of the procedure for it."""
    text = """until: 31m
sop:
  procedures:
    slow: {title: slow, trigger: {event: lead}, stalled_after: 7m, steps: [{name: wait, wait: {time: 1h}}]}
    chase: {title: "='chase ' + item.title", steps: [{name: call, post: {text: called}}]}
  watchers: {late: {agent: clerk, sop: chase, tasks: stalled}}
events: [{at: 1m, topic: lead}]
"""
    ran = company(tmp_path, text + PEOPLE)  # it was advanced at minute 5
    assert [(task.title, task.created_ns / 60e9) for task in ran.world.tasks.all()] == [("slow", 1), ("chase slow", 15)]


def test_new_items_of_an_artifact_are_found_by_their_ids(tmp_path: Path) -> None:
    """An item that stays is found once, wherever it stands in the list; a new one is found at the next look."""
    people = (
        PEOPLE
        + """
  - name: clock
    start: 7m
    rules: [{do: [{write: {artifact: rows, content: [{id: c}, {id: a}, {id: b}]}}, stop]}]
"""
    )
    rows = "artifacts: [{id: rows, owner: clerk, writers: all, content: [{id: a}, {id: b}]}]\n"
    assert watched(tmp_path, "artifact: rows", rows, people) == ["about a at 0", "about b at 0", "about c at 10"]


def test_an_employee_whose_clock_is_slow_lets_watchers_wait(tmp_path: Path) -> None:
    """A watcher of the survey looks at most once a cycle, even if its interval is shorter."""
    people = PEOPLE.replace("interval: 5m", "interval: 20m")
    assert watched(tmp_path, "event: lead, interval: 1m", EVENTS, people, "1h") == [
        "about a at 20", "about a at 20", "about b at 20",
    ]  # fmt: skip
