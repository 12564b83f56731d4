"""Watchers: what they look at, when, and that nothing is found twice."""

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
def test_a_look_that_fails_loses_and_doubles_nothing(tmp_path: Path, broken: str) -> None:
    """If an expression fails, the alert channel says it once, and the events wait for a look that works."""
    text = f"until: 31m\nsop:\n  {CALL}\n  watchers: {{inbox: {{agent: clerk, sop: call, event: lead, WHERE}}}}\n"
    where = f"where: \"item.id == 'a' or (now > 601 or {broken})\""
    people = PEOPLE + "\n"
    ran = company(tmp_path, text.replace("WHERE", where) + EVENTS + people)
    assert sorted(task.title for task in ran.world.tasks.all()) == ["about a", "about a", "about b"]
    [(at, warning)] = ran.posts("#escalations")
    assert at == 600
    assert warning.startswith("The watcher inbox cannot look: ")
    assert (len(ran.cycles()), ran.result.errors) == (7, 0)


def test_a_broken_watcher_stops_nobody(tmp_path: Path) -> None:
    """A finding that a watcher cannot judge costs neither cycles of the employee nor looks of other watchers."""
    text = f"""until: 21m
sop:
  {CALL}
  watchers:
    broken: {{agent: clerk, sop: call, event: lead, where: item.nothing > 1}}
    alone: {{agent: clerk, sop: call, event: lead, where: item.nothing > 1, alone: true}}
    inbox: {{agent: clerk, sop: call, event: lead}}
    dear: {{agent: clerk, sop: call, event: lead, priority: "=item.id"}}
"""
    ran = company(tmp_path, text + EVENTS + PEOPLE + JOBS)
    assert [task.creator for task in ran.world.tasks.all()] == ["inbox"] * 3
    said = [warning.partition(":")[0] for _, warning in ran.posts("#escalations")]
    assert sorted(set(said)) == [f"The watcher {name} cannot look" for name in ("alone", "broken", "dear")]
    assert (len(ran.cycles()), ran.result.errors) == (5, 0)


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
