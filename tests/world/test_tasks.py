"""Tasks: who may change them, what can follow what, and the events of time."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import sim
import sim.record
from sim.base.errors import UsageError
from sim.base.permissions import Permission
from sim.cli import main
from sim.world import Action, ActionResult, Refused
from sim.world.tasks import _MOVES, ENDS
from tests.actors.helpers import Lab

BOARD = """
name: board
until: 6h
agents:
  - name: chief
    state: {n: 0}
    loop: {min_loop_delay: 1s}
    rules:
      - when: n < 3
        set: {n: "=n + 1"}
        do: {create_task: {title: "='chair ' + str(n)", to: joiner, priority: "=n", due: 90m, stalled_after: 1h}}
      - do: {sleep: {for: 1d}}
  - name: joiner
    loop: {min_loop_delay: 40m}
    rules:
      - when: my_tasks('active')
        do: {complete_task: {task: "=my_tasks('active')[0].id", result: {quality: good}}}
      - {when: my_tasks('pending'), do: {update_task: {task: "=my_tasks('pending')[0].id", status: active}}}
      - do: {sleep: {for: 1d}}
"""


def lab() -> Lab:
    """A world with three agents, of whom `boss` is an admin."""
    made = Lab()
    for name in ("a", "b", "boss"):
        made.add(name, min_loop_delay=1)
    made.world.agents["boss"].permission = Permission.ADMIN
    return made


def act(made: Lab, agent: str, action: str, **arguments: Any) -> ActionResult:
    """Have an agent act."""
    result: ActionResult = made.main(made.world.execute(made.script(agent), Action(action, arguments)))
    return result


def test_creator_assignee_and_admin_may_change_a_task() -> None:
    """Others may not, unless it has no agent yet."""
    made = lab()
    made.add("c", min_loop_delay=1)
    assert act(made, "a", "create_task", title="t", to="b").data == {"id": 1}
    assert act(made, "c", "update_task", task=1, note="mine").error == "task 1 belongs to b, not to c"
    assert act(made, "b", "update_task", task=1, status="active").success
    assert act(made, "a", "update_task", task=1, priority=5).success
    assert act(made, "boss", "complete_task", task=1, result=7).data == {"id": 1, "status": "done"}
    act(made, "a", "create_task", title="free")
    assert act(made, "c", "update_task", task=2, to="c").success
    assert made.world.tasks.get(2).assignee == "c"


def test_a_task_waits_for_those_it_depends_on() -> None:
    """It becomes active when they are done; a failed one blocks it; one that does not exist is refused."""
    made = lab()
    act(made, "a", "create_task", title="first")
    act(made, "a", "create_task", title="second", depends_on=[1])
    assert act(made, "a", "update_task", task=2, status="active").error == "task 2 waits for task 1, which is pending"
    act(made, "a", "complete_task", task=1, failed=True)
    assert act(made, "a", "update_task", task=2, status="active").error == "task 2 waits for task 1, which is failed"
    act(made, "a", "update_task", task=1, status="pending")
    act(made, "a", "complete_task", task=1)
    assert act(made, "a", "update_task", task=2, status="active").success
    assert act(made, "a", "create_task", title="x", depends_on=[9]).error == "there is no task 9"
    assert act(made, "a", "create_task", title="x", depends_on="1").error is not None


def test_limits_are_kept() -> None:
    """Titles, depth and numbers of links have limits; nothing is created then."""
    made = lab()
    assert act(made, "a", "create_task", title="x" * 2001).error is not None
    act(made, "a", "create_task", title="root")
    for number in range(1, 21):
        last = act(made, "a", "create_task", title="part", parent=number)
    assert last.error == "a task has at most 20 tasks above it"
    assert len(made.world.tasks) == 20


def test_a_kind_has_its_own_words() -> None:
    """`in_progress` of one family is `active` on the board; other words are refused with all that there are."""
    made = lab()
    tasks = made.world.tasks
    tasks.define_words("sop", {"queued": "pending", "in_progress": "active"})
    with pytest.raises(UsageError, match="have other words already"):
        tasks.define_words("sop", {"x": "done"})
    with pytest.raises(UsageError, match="must stand for one of"):
        tasks.define_words("other", {"x": "finished"})  # type: ignore[dict-item]  # on purpose
    act(made, "a", "create_task", title="t", kind="sop")
    assert tasks.get(1).to_json()["status"] == "queued"
    assert act(made, "a", "update_task", task=1, status="in_progress").data == {"id": 1, "status": "in_progress"}
    assert tasks.get(1).status == "active"
    assert "is not a status of a task" in (act(made, "a", "update_task", task=1, status="working").error or "")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "overdue"), [("autonomous", 2), ("tick", 0)])
def test_overdue_and_stalled_come_once_each(tmp_path: Any, mode: Any, overdue: int, capsys: Any) -> None:
    """Each open task is overdue once; it is stalled after each silence; ended tasks are neither. Ticks are fast."""
    path = tmp_path / "board.yaml"
    path.write_text(BOARD)
    result = sim.run(path, out=tmp_path / "runs", mode=mode)
    trio = sim.run(path, mode=mode, backend="trio")
    assert trio.hash == result.hash
    numbers = result.services["tasks"]
    assert numbers["done"] == 3
    assert numbers["overdue"] == overdue
    with sim.record.open_run(tmp_path / "runs" / str(result.run).rpartition("/")[2]) as stored:
        rows = stored.query("SELECT task, title, status, priority, overdue, result FROM tasks")
        topics = [row[0] for row in stored.query("SELECT what FROM task_history WHERE task = 2 ORDER BY id")]
    assert [row[:4] for row in rows] == [
        (1, "chair 0", "done", 0),
        (2, "chair 1", "done", 1),
        (3, "chair 2", "done", 2),
    ]
    late = ["stalled", "overdue"] if overdue else []
    assert topics == ["created", *late, "started", "completed"]
    with pytest.raises(SystemExit) as ended:
        main(["show", str(result.run), "task", "2", "--out", str(tmp_path / "runs")])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "2: chair 1" in shown
    assert ("done (overdue, stalled)" in shown) == bool(overdue)
    with pytest.raises(SystemExit) as ended:
        main(["show", str(result.run), "task", "9", "--out", str(tmp_path / "runs")])
    assert ended.value.code == 2
    assert "there is no task 9 in this run" in capsys.readouterr().err


class Board(RuleBasedStateMachine):
    """Random changes of tasks: the board stays consistent whatever is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.world = sim.World(seed=1)
        self.tasks = self.world.tasks

    def apply(self, do: Any) -> Any:
        """Make a change, and return what it raised or returned."""
        kernel = self.world.kernel
        with kernel.acting_as(kernel.supervisor):
            try:
                return do()
            except Refused as refusal:
                return refusal

    @rule(
        links=st.lists(st.integers(1, 12), max_size=3), due=st.none() | st.integers(0, 10**6),
        stalled=st.none() | st.integers(1, 10**6), parent=st.none() | st.integers(1, 12),
    )  # fmt: skip
    def create(self, links: list[int], due: int | None, stalled: int | None, parent: int | None) -> None:
        """Create a task."""
        before = len(self.tasks)
        made = self.apply(
            lambda: self.tasks.create("a", "t", depends_on=links, due_ns=due, stalled_after_ns=stalled, parent=parent)
        )
        known = all(link <= before for link in links) and (parent is None or parent <= before)
        assert isinstance(made, Refused) != known
        assert len(self.tasks) == before + known

    @precondition(lambda self: len(self.tasks) > 0)
    @rule(data=st.data(), status=st.sampled_from(sorted(_MOVES)))
    def update(self, data: Any, status: str) -> None:
        """Change the status of a task."""
        id = data.draw(st.integers(1, len(self.tasks)))
        before = self.tasks.get(id)
        changed = self.apply(lambda: self.tasks.update(id, "b", status=status))
        allowed = status == before.status or status in _MOVES[before.status]
        free = status != "active" or all(self.tasks.get(other).status == "done" for other in before.depends_on)
        assert isinstance(changed, Refused) != (allowed and free)
        assert self.tasks.get(id).status == (status if allowed and free else before.status)

    @invariant()
    def ended_tasks_have_no_timers(self) -> None:
        """Timers of tasks that ended are withdrawn, and counts are those of the tasks."""
        for task in self.tasks.all():
            if task.status in ENDS:
                assert task.id not in self.tasks._timers
            assert task.history[-1].time_ns == task.updated_ns
        numbers = self.tasks.metrics()
        assert sum(value for name, value in numbers.items() if name not in ("overdue", "stalled")) == len(self.tasks)


TestBoard = pytest.mark.slow(Board.TestCase)
TestBoard.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
